//! Runs the user's adb client. Each call has a time limit, because a phone can stop to answer at any time.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fonio_core::printable;

use crate::error::AndroidError;

/// Time limit of a call that only asks for facts. The first call also starts adb's server.
pub(crate) const SHORT: Duration = Duration::from_secs(20);
/// Time between two looks at a running client.
const LOOK: Duration = Duration::from_millis(20);
/// The most bytes that a short answer may have.
const ANSWER_MAX: u64 = 4 << 20;

/// The adb client, and the phone with which it talks.
#[derive(Clone, Debug)]
pub struct Adb {
    program: PathBuf,
    serial: String,
    /// Time limit of a call that only asks for facts.
    limit: Duration,
}

/// What a call of the client printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Adb {
    /// Finds the phone with this serial number, or the only one. The client is the program `adb`, or the one
    /// that the environment variable `ADB` names.
    ///
    /// # Errors
    /// Fails if adb is not installed or does not answer, or if there is no such phone, or if it is not ready.
    pub fn connect(serial: Option<&str>) -> Result<Adb, AndroidError> {
        let program = std::env::var_os("ADB").map_or_else(|| PathBuf::from("adb"), PathBuf::from);
        Adb::connect_by(program, serial, SHORT)
    }

    pub(crate) fn connect_by(
        program: PathBuf,
        serial: Option<&str>,
        limit: Duration,
    ) -> Result<Adb, AndroidError> {
        let adb = Adb { program, serial: String::new(), limit };
        let words = ["devices", "-l"];
        let listed = adb.call(&words, limit)?;
        if listed.code != 0 {
            return Err(failed(&words, &listed));
        }
        let serial = choose(&listed.out, serial)?;
        Ok(Adb { serial, ..adb })
    }

    /// Returns the serial number of the phone.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// Runs a line in the phone's shell. An exit code other than 0 is no error.
    pub(crate) fn shell(&self, line: &str) -> Result<Answer, AndroidError> {
        self.shell_for(line, self.limit)
    }

    /// Runs a line in the phone's shell that may take this time.
    pub(crate) fn shell_for(&self, line: &str, limit: Duration) -> Result<Answer, AndroidError> {
        // Without a terminal, the phone's output stays as it is, and has an exit code.
        let words = ["-s", &self.serial, "shell", "-T", line];
        let answer = self.call(&words, limit)?;
        // The client itself failed, and not the command on the phone.
        let is_lost = answer.code != 0
            && ["error: ", "adb: error:", "adb: device", "adb: no devices"]
                .iter()
                .any(|begin| answer.errors.starts_with(begin));
        if is_lost { Err(failed(&["shell"], &answer)) } else { Ok(answer) }
    }

    /// Starts a line in the phone's shell.
    pub(crate) fn start_shell(&self, line: &str) -> Result<Running, AndroidError> {
        self.start(&["-s", &self.serial, "shell", "-T", line])
    }

    fn call(&self, words: &[&str], limit: Duration) -> Result<Answer, AndroidError> {
        let mut running = self.start(words)?;
        running.close_input();
        let out = running.read_all();
        let status = running.wait(limit, || false).map_err(|_| no_answer(words, limit))?;
        let errors = running.errors();
        let out = out.join().unwrap_or_default();
        Ok(Answer { code: code(status), out, errors })
    }

    fn start(&self, words: &[&str]) -> Result<Running, AndroidError> {
        let mut command = Command::new(&self.program);
        command.args(words.iter().map(OsStr::new));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C must reach only fonio, which then ends the recording properly.
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|cause| AndroidError::NoAdb { program: self.program.clone(), cause })?;
        let errors = child.stderr.take().map(text_of);
        Ok(Running { child, errors })
    }
}

/// A running adb client. It is killed when this is dropped, which ends its command on the phone.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    errors: Option<JoinHandle<String>>,
}

/// A client did not end within its time.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Running {
    /// Reads everything that the command prints, in a thread.
    fn read_all(&mut self) -> JoinHandle<String> {
        text_of(self.child.stdout.take().expect("it is piped"))
    }

    /// Returns the output of the command.
    pub(crate) fn output(&mut self) -> impl Read + Send + 'static {
        self.child.stdout.take().expect("it is taken once")
    }

    /// Returns the input of the command.
    pub(crate) fn input(&mut self) -> impl Write + Send + 'static {
        self.child.stdin.take().expect("it is taken once")
    }

    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Waits until the client ends, at most for this time. Returns early if `is_enough` returns true.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        is_enough: impl Fn() -> bool,
    ) -> Result<Option<ExitStatus>, TooLong> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(Some(status)),
                Ok(None) if is_enough() => return Ok(None),
                Ok(None) if Instant::now() >= until => {
                    self.end();
                    return Err(TooLong);
                }
                Ok(None) => thread::sleep(LOOK),
                Err(_) => return Ok(None),
            }
        }
    }

    /// Returns what the client and the command complained about. The client must have ended.
    pub(crate) fn errors(&mut self) -> String {
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }

    /// Returns the last lines that the client and the command complained about, after a colon. The client is ended.
    pub(crate) fn complaint(&mut self) -> String {
        self.end();
        let said = self.errors();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        if last.is_empty() { last } else { format!(": {}", printable(&last)) }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn text_of(stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut limited = stream.take(ANSWER_MAX);
        let _ = limited.read_to_end(&mut bytes);
        // The client must not wait for a reader.
        let _ = io::copy(&mut limited.into_inner(), &mut io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub(crate) fn code(status: Option<ExitStatus>) -> i32 {
    status.and_then(|status| status.code()).unwrap_or(-1)
}

pub(crate) fn failed(words: &[&str], answer: &Answer) -> AndroidError {
    let said = if answer.errors.trim().is_empty() { &answer.out } else { &answer.errors };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = printable(&lines.join("; ")).into_owned();
    let complaint = if said.is_empty() { format!("exit code {}", answer.code) } else { said };
    AndroidError::Failed { words: words.join(" "), complaint }
}

fn no_answer(words: &[&str], limit: Duration) -> AndroidError {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.contains('\n')).collect();
    AndroidError::NoAnswer { words: words.join(" "), limit }
}

/// Chooses the phone from the text of `adb devices -l`.
fn choose(listed: &str, wanted: Option<&str>) -> Result<String, AndroidError> {
    let phones: Vec<(&str, &str)> = listed
        .lines()
        .filter(|line| !line.starts_with('*') && !line.starts_with("List of devices"))
        .filter_map(|line| line.split_once(char::is_whitespace))
        .map(|(serial, rest)| (serial, rest.trim()))
        .filter(|(serial, rest)| !serial.is_empty() && !rest.is_empty())
        .collect();
    let found = match wanted {
        Some(wanted) => phones.iter().find(|(serial, _)| *serial == wanted).ok_or_else(|| {
            let seen: Vec<&str> = phones.iter().map(|(serial, _)| *serial).collect();
            let seen = if seen.is_empty() { "none".to_owned() } else { seen.join(", ") };
            AndroidError::OtherPhones { serial: wanted.to_owned(), seen }
        })?,
        None => match &phones[..] {
            [] => return Err(AndroidError::NoPhone),
            [one] => one,
            several => {
                let serials = several.iter().map(|(serial, _)| (*serial).to_owned()).collect();
                return Err(AndroidError::SeveralPhones { serials });
            }
        },
    };
    let (serial, rest) = found;
    let state = rest.split_whitespace().next().unwrap_or_default();
    let remedy = match state {
        "device" => return Ok((*serial).to_owned()),
        "unauthorized" | "authorizing" => "unlock the phone and allow USB debugging for this computer",
        "offline" => "unplug the cable, plug it in again, and unlock the phone",
        "no" => {
            "this user may not open the USB device: run `adb kill-server`, then use sudo or install udev rules (Debian: android-sdk-platform-tools-common)"
        }
        _ => "start Android on it",
    };
    let state = if state == "no" { "without permissions" } else { state };
    Err(AndroidError::NotReady { serial: (*serial).to_owned(), state: state.to_owned(), remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phone_is_chosen_from_the_list() {
        let head = "* daemon started successfully\nList of devices attached\n";
        let one = "R5CT1234        device product:a52 model:SM_A525F device:a52 transport_id:1\n";
        let two = "emulator-5554   device product:sdk model:sdk transport_id:2\n";
        let locked = "0A1B2C          unauthorized transport_id:3\n";
        let denied = "0A1B2C          no permissions (user in plugdev group); see [address]\n";
        for (listed, wanted, expected) in [
            (one, None, Ok("R5CT1234")),
            ("", None, Err("adb sees no phone; connect one")),
            (&[one, two].concat(), None, Err("--in android:R5CT1234, --in android:emulator-5554")),
            (&[one, two].concat(), Some("emulator-5554"), Ok("emulator-5554")),
            (one, Some("X"), Err("no phone X; it sees R5CT1234")),
            ("", Some("X"), Err("it sees none")),
            (locked, None, Err("it is unauthorized; unlock the phone")),
            (denied, None, Err("it is without permissions; this user")),
            ("0A offline\n", None, Err("unplug the cable")),
            ("0A recovery\n", None, Err("start Android")),
        ] {
            let text = format!("{head}{listed}\n");
            match (choose(&text, wanted), expected) {
                (Ok(serial), Ok(expected)) => assert_eq!(serial, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
