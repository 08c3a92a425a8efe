//! Records with fonio's own recorder on a phone whose root fonio may use.
//!
//! Lifecycle on the phone: a shell creates the folder `fonio-phone-…` and waits for a word. A second shell receives the
//! program. After the word `run`, the first shell starts the program, which removes its own file, records, sends the
//! recording, and removes the folder. Each line of fonio, one a second, tells the phone that its host is still there
//! (`heart.rs`). Without its host, the shell or the program ends and removes the folder (`attached.rs` in `fonio-recorder`).

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::{ByteCount, printable};

use crate::adb::{Adb, SHORT};
use crate::error::AndroidError;
use crate::heart::{Heart, SILENCE, listener};
use crate::root::Root;

/// The folder of the phone in which adb's shell may write and start programs.
const PROGRAMS: &str = "/data/local/tmp";
/// Time between two looks at the user's wish to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for sending the program, for its start and its end.
const LIMIT: Duration = Duration::from_secs(120);
/// Time limit for reading the recording: a slow cable moves 2 MB/s.
const READ_LIMIT: Duration = Duration::from_secs(600);
/// The most bytes of a recording, and the most files. A recording of 256 MiB of trace has less.
const BYTES_MAX: u64 = 4 << 30;
const FILES_MAX: usize = 100;

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) bytes: ByteCount,
    pub(crate) was_stopped: bool,
    /// Whether the recording ended early, because the recorder's buffer was full.
    pub(crate) is_short: bool,
}

/// The reason for a missing recording.
pub(crate) enum NoRecording {
    /// The phone refused before anything was recorded; another way can be tried.
    Refused(String),
    Failed(AndroidError),
}

impl From<AndroidError> for NoRecording {
    fn from(error: AndroidError) -> NoRecording {
        NoRecording::Failed(error)
    }
}

/// What the phone says of the recording.
#[derive(Debug)]
pub(crate) enum Said {
    Ready,
    Began,
    Ended { is_short: bool },
    Done(ByteCount),
    Broken(String),
}

/// What to record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    pub(crate) root: Root,
    /// The recorder for the phone's processor.
    pub(crate) program: &'a Path,
    pub(crate) duration: Duration,
    /// The new folder for the files of the recording.
    pub(crate) to: &'a Path,
    pub(crate) stop: &'a AtomicBool,
}

/// Records the phone. `began` is called when the events are enabled.
pub(crate) fn record(adb: &Adb, order: &Order<'_>, began: &mut dyn FnMut()) -> Result<Recorded, NoRecording> {
    record_in(adb, PROGRAMS, order, began)
}

/// Records as [`record`] does; the program gets a folder in `programs` on the phone.
fn record_in(
    adb: &Adb,
    programs: &str,
    order: &Order<'_>,
    tell: &mut dyn FnMut(),
) -> Result<Recorded, NoRecording> {
    let &Order { root, program: recorder, duration, to, stop } = order;
    let program = File::open(recorder).map_err(AndroidError::file("read", recorder))?;
    let bytes = program.metadata().map_err(AndroidError::file("read", recorder))?.len();
    fs::create_dir(to).map_err(AndroidError::file("create", to))?;
    let folder = format!("{programs}/fonio-phone-{}", std::process::id());
    let mut running = adb.start_shell(&root.line(&script(programs, &folder, duration)))?;
    let heart = Heart::start(running.input());
    let output = BufReader::new(running.output());
    let (sender, said) = mpsc::channel();
    let into = to.to_owned();
    thread::spawn(move || follow(output, &into, &sender));
    let refused = |running: &mut crate::adb::Running, doing: &str, broken: String| {
        let complaint = running.complaint();
        let complaint = complaint.trim_start_matches(": ");
        let why = if complaint.is_empty() { broken } else { complaint.to_owned() };
        NoRecording::Refused(format!("{doing}: {why}"))
    };
    match next(&said, SHORT) {
        Ok(Said::Ready) => {}
        Ok(Said::Broken(why)) => return Err(refused(&mut running, "no folder for the recorder", why)),
        Ok(_) => {
            return Err(refused(&mut running, "the shell", "it did not say that it is ready".to_owned()));
        }
        Err(error) => return Err(error.into()),
    }
    send_program(adb, root, program, bytes, &folder)?;
    if stop.load(Ordering::Relaxed) {
        return Err(AndroidError::Stopped.into());
    }
    heart.say("run");
    let mut began = false;
    let (mut is_short, mut was_stopped) = (false, false);
    let mut deadline = Instant::now() + LIMIT;
    loop {
        if stop.load(Ordering::Relaxed) && !was_stopped {
            was_stopped = true;
            heart.say("stop");
            deadline = Instant::now() + LIMIT;
        }
        match said.recv_timeout(LOOK) {
            Ok(Said::Began) => {
                began = true;
                tell();
                deadline = Instant::now() + duration + LIMIT;
            }
            Ok(Said::Ended { is_short: short }) => {
                is_short = short;
                deadline = Instant::now() + READ_LIMIT;
            }
            Ok(Said::Done(bytes)) => return Ok(Recorded { bytes, was_stopped, is_short }),
            Ok(Said::Broken(why)) if !began => {
                let refusal = refused(&mut running, "the recorder did not start", why);
                // A lost connection does not mean that the phone refused.
                adb.shell("true")?;
                return Err(refusal);
            }
            Ok(Said::Broken(why)) => {
                let complaint = running.complaint();
                let complaint = format!("{why}{complaint}");
                return Err(
                    AndroidError::Failed { words: "shell fonio-recorder".to_owned(), complaint }.into()
                );
            }
            Ok(Said::Ready) => {}
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => {
                return Err(AndroidError::NoAnswer {
                    words: "shell fonio-recorder".to_owned(),
                    limit: READ_LIMIT,
                }
                .into());
            }
        }
    }
}

/// Returns the script of the shell that starts the recorder. It removes what killed recordings left.
fn script(programs: &str, folder: &str, duration: Duration) -> String {
    format!(
        "trap '' HUP PIPE\n\
         {}\
         for old in {programs}/fonio-phone-*; do [ -e \"$old\" ] && command -v pgrep >/dev/null && \
         ! pgrep -f \"$old/\" >/dev/null && rm -rf \"$old\"; done\n\
         rm -rf {folder}; umask 077; mkdir {folder} || exit 9\n\
         trap 'rm -rf {folder}; exit 143' TERM\n\
         echo ready\n\
         if listen run; then\n\
         {folder}/fonio-recorder --attached --for {}ms -o {folder}/recording\n\
         code=$?\n\
         else sleep 3; code=8; fi\n\
         rm -rf {folder}\n\
         exit $code\n",
        listener(SILENCE),
        duration.as_millis()
    )
}

/// Sends the program to its folder.
fn send_program(
    adb: &Adb,
    root: Root,
    mut program: File,
    bytes: u64,
    folder: &str,
) -> Result<(), NoRecording> {
    let file = format!("{folder}/fonio-recorder");
    // The second shell ends with its input, so a program that was sent in part is not started.
    let line = format!("cat > {file} && chmod 700 {file} && echo bytes=$(wc -c < {file})");
    let mut running = adb.start_shell(&root.line(&line))?;
    let (mut input, mut output) = (running.input(), running.output());
    let said = thread::spawn(move || {
        let mut said = String::new();
        let _ = output.by_ref().take(1000).read_to_string(&mut said);
        said
    });
    let sent = thread::spawn(move || io::copy(&mut program, &mut input).map(|_| ()));
    if running.wait(LIMIT, || false).is_err() {
        return Err(AndroidError::NoAnswer { words: "shell cat".to_owned(), limit: LIMIT }.into());
    }
    // A client that has ended closed its input.
    let _ = sent.join();
    let said = said.join().unwrap_or_default();
    let arrived = said.trim().strip_prefix("bytes=").and_then(|text| text.trim().parse().ok());
    if arrived == Some(bytes) {
        return Ok(());
    }
    let complaint = running.complaint();
    Err(NoRecording::Refused(format!("the recorder cannot be copied to {PROGRAMS}{complaint}")))
}

fn next(said: &Receiver<Said>, limit: Duration) -> Result<Said, AndroidError> {
    said.recv_timeout(limit).map_err(|_| AndroidError::NoAnswer { words: "shell".to_owned(), limit })
}

fn follow(mut output: impl BufRead, to: &Path, sender: &Sender<Said>) {
    let mut bytes = 0;
    let ended = receive(&mut output, to, &mut bytes, &mut |said| {
        let _ = sender.send(said);
    });
    let _ = sender.send(match ended {
        Ok(()) => Said::Done(ByteCount(bytes)),
        Err(why) => Said::Broken(why),
    });
}

/// Reads what the recorder sends, and writes the files into the folder `to`. The error is the reason.
pub(crate) fn receive(
    output: &mut impl BufRead,
    to: &Path,
    bytes: &mut u64,
    tell: &mut dyn FnMut(Said),
) -> Result<(), String> {
    let mut files = 0;
    loop {
        let mut line = Vec::new();
        output.by_ref().take(300).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        match word {
            "ready" => tell(Said::Ready),
            "began" => tell(Said::Began),
            "ended" => tell(Said::Ended { is_short: rest == "buffer-full" }),
            "done" => return Ok(()),
            "file" => {
                files += 1;
                let parsed =
                    rest.split_once(' ').and_then(|(size, name)| Some((size.parse::<u64>().ok()?, name)));
                let (size, name) =
                    parsed.filter(|(_, name)| is_file_of_recording(name)).ok_or_else(|| unknown(&line))?;
                *bytes = bytes.saturating_add(size);
                if *bytes > BYTES_MAX || files > FILES_MAX {
                    return Err("the recording is larger than 4 GiB".to_owned());
                }
                let path = to.join(name);
                let mut file = File::create_new(&path).map_err(|error| {
                    format!("cannot write {}: {error}; name a folder with TMPDIR=/folder", path.display())
                })?;
                let copied = io::copy(&mut output.by_ref().take(size), &mut file);
                let copied = copied.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                if copied != size {
                    return Err("the connection was lost".to_owned());
                }
            }
            "" if line.is_empty() => return Err("the connection was lost".to_owned()),
            _ => return Err(unknown(&line)),
        }
    }
}

fn unknown(line: &str) -> String {
    format!("the recorder said: {}", printable(line.trim_end()))
}

/// Returns whether a name can be that of a file of a recording.
fn is_file_of_recording(name: &str) -> bool {
    !name.starts_with('.')
        && (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::heart::HEARTBEAT;
    use crate::stand_in::StandIn;

    /// Stands for the recorder. It records until it is asked to stop, or until its input ends.
    const RECORDER: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "--attached --for 1000ms -o" ] || { echo "bad arguments" >&2; exit 2; }
rm "$0"
echo began
while read -r line; do case $line in stop) stopped=1; break ;; esac; done
[ "${stopped-}" ] || exit 1
printf 'ended stopped\nfile 4 meta.json\n{} \n'
rm -r "${0%/*}"
echo done
"#;

    fn recorded(phone: &StandIn, recorder: &Path, stop: &AtomicBool) -> Result<Recorded, String> {
        let adb = phone.connect();
        let to = phone.dir.path().join("recording");
        let order = Order { root: Root::Shell, program: recorder, duration: HEARTBEAT, to: &to, stop };
        let ended = record_in(&adb, &phone.folder(), &order, &mut || {});
        ended.map_err(|none| match none {
            NoRecording::Refused(reason) => format!("refused: {reason}"),
            NoRecording::Failed(error) => format!("failed: {error}"),
        })
    }

    #[test]
    fn the_recorder_is_sent_started_stopped_and_removed() {
        let phone = StandIn::new(&[]);
        // What a recording of a phone that was switched off has left.
        fs::create_dir(phone.dir.path().join("traces/fonio-phone-0")).expect("created");
        let recorder = phone.program("recorder", RECORDER);
        let stop = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let recording = scope.spawn(|| recorded(&phone, &recorder, &stop));
            thread::sleep(Duration::from_millis(1500));
            stop.store(true, Ordering::Relaxed);
            recording.join().expect("it ends")
        });
        let expected = Recorded { bytes: ByteCount(4), was_stopped: true, is_short: false };
        assert_eq!(ended, Ok(expected));
        assert_eq!(fs::read(phone.dir.path().join("recording/meta.json")).expect("read"), b"{} \n");
        assert_eq!(phone.left(), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_recorder_that_does_not_start_is_a_refusal() {
        for (text, expected) in [
            ("#!/bin/sh\necho 'no tracefs' >&2; exit 2\n", "refused: the recorder did not start: no tracefs"),
            ("#!/nonexistent\n", "refused: the recorder did not start: "),
            (
                "#!/bin/sh\necho began; exit 3\n",
                "failed: `adb shell fonio-recorder` failed: the connection was lost",
            ),
        ] {
            let phone = StandIn::new(&[]);
            let recorder = phone.program("recorder", text);
            let error = recorded(&phone, &recorder, &AtomicBool::new(false)).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(phone.left(), [] as [PathBuf; 0], "{error}");
        }
    }

    /// The names and contents of files.
    type Files = Vec<(String, Vec<u8>)>;

    fn read(text: &[u8]) -> (Result<(), String>, Files) {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = receive(&mut &text[..], folder.path(), &mut 0, &mut |_| {});
        let mut files: Files = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry"))
            .map(|entry| {
                (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("read"))
            })
            .collect();
        files.sort();
        (ended, files)
    }

    #[test]
    fn files_are_received_and_nothing_else() {
        let (ended, files) =
            read(b"ready\nbegan\nended duration\nfile 3 a.parquet\nx\nyfile 0 meta.json\ndone\n");
        assert_eq!(ended, Ok(()));
        assert_eq!(files, [("a.parquet".to_owned(), b"x\ny".to_vec()), ("meta.json".to_owned(), Vec::new())]);
        for (text, expected) in [
            (&b"began\nfile 9 a\nxx"[..], "the connection was lost"),
            (b"began\n", "the connection was lost"),
            (b"file 1 ../a\nx", "the recorder said: file 1 ../a"),
            (b"file 1 .a\nx", "the recorder said"),
            (b"file -1 a\nx", "the recorder said"),
            (b"file 18446744073709551615 a\nx", "larger than 4 GiB"),
            (b"file 1 a\nxfile 1 a\nx", "cannot write"),
            (b"\x1b[2J\n", "the recorder said: \\x1b[2J"),
        ] {
            let error = read(text).0.expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
