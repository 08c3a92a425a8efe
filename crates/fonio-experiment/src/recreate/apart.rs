//! Plays the calls of the program in the way in a process of its own, so that a limit of its control group applies to
//! them and to the write-back of their data.
//!
//! The parent writes the part into a file, starts the process with the name of this file, and waits for its line
//! `ready`. A line on the process's standard input starts the part; the end of the input ends it. Then the process
//! prints what its calls did, as a line of JSON. It also ends if the parent dies.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_host::{Ledger, OfCommand, Setting, lift_own_rates};
use fonio_system::TrialName;
use serde::{Deserialize, Serialize};

use super::written_back::{self, Burst};
use crate::error::ExperimentError;
use crate::replay::calls::{Felt, Part, Sequence, play_together};

const READY: &str = "ready";
/// The number of times that the process is started. systemd may still have the group of the last process.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// The control group in which a process plays its part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Group<'a> {
    /// That of its parent.
    None,
    /// Its own, as with this limit, but without the limit.
    Unlimited(&'a Setting),
    /// Its own, with this limit.
    Limited(&'a Setting),
}

impl Group<'_> {
    /// Returns the limit of the rate in bytes per second.
    pub(super) fn limit(self) -> Option<ByteCount> {
        match self {
            Group::Limited(setting) => setting.rate(),
            Group::None | Group::Unlimited(_) => None,
        }
    }
}

/// What a process plays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Apart {
    /// The calls.
    pub(super) sequence: Sequence,
    /// The folder with the files of the calls.
    pub(super) folder: PathBuf,
    /// The write-back of the program's data.
    pub(super) bursts: Vec<Burst>,
    /// The process ends at this time, if its parent does not end it before.
    pub(super) within: Duration,
}

/// Plays the part in a file, as the parent commands. `tell` sends a line to the parent. Implements the role.
pub fn play_apart(file: &Path, tell: impl FnMut(&str) -> io::Result<()>) -> Result<(), ExperimentError> {
    let _name = TrialName::take();
    let text = fs::read(file).map_err(ExperimentError::system("read", file))?;
    let part: Apart = serde_json::from_slice(&text)
        .map_err(|error| ExperimentError::system("understand", file)(io::Error::from(error)))?;
    let played = part.perform(BufReader::new(io::stdin()), tell);
    // What waits for the limit would delay the next run.
    lift_own_rates();
    played.map_err(ExperimentError::system("repeat the calls in", &part.folder))
}

impl Apart {
    fn perform(
        &self,
        mut input: impl BufRead + Send,
        mut tell: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        tell(&format!("{READY}\n"))?;
        if input.read_line(&mut String::new())? == 0 {
            return Ok(());
        }
        let is_over = &AtomicBool::new(false);
        let felt = thread::scope(|scope| {
            scope.spawn(move || {
                // The input ends with the scene.
                let _ = input.read_line(&mut String::new());
                is_over.store(true, Ordering::Relaxed);
            });
            let write_back = scope.spawn(|| written_back::play(&self.bursts, &self.folder, is_over));
            let parts = [Part { sequence: &self.sequence, folder: &self.folder, io_class: None }];
            let felt = play_together(&parts, self.within, is_over);
            write_back.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<Felt, io::Error>(felt?.first().copied().unwrap_or_default())
        })?;
        tell(&format!("{}\n", serde_json::to_string(&felt)?))
    }
}

/// A process that plays a part.
pub(super) struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts a process that plays the part in `file` in a group, and waits until it is ready.
    pub(super) fn start(
        command: &[OsString],
        file: &Path,
        group: Group<'_>,
        ledger: &mut Ledger,
    ) -> Result<Helper, ExperimentError> {
        let words = [command, &[file.into()]].concat();
        for _ in 0..TRIES {
            let mut helper = Helper::start_once(&words, group, ledger)?;
            let mut line = String::new();
            let read = helper.output.read_line(&mut line);
            read.map_err(ExperimentError::system("start", &words[0]))?;
            if line.trim_end() == READY {
                return Ok(helper);
            }
            thread::sleep(PAUSE);
        }
        let reason = "the process for the calls of the program in the way does not start".to_owned();
        Err(ExperimentError::NotRecreated { reason })
    }

    fn start_once(
        words: &[OsString],
        group: Group<'_>,
        ledger: &mut Ledger,
    ) -> Result<Helper, ExperimentError> {
        let spawn = |mut command: Command| {
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            child.map_err(ExperimentError::system("start", command.get_program()))
        };
        let plain = || {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        let of_command = match group {
            Group::None => None,
            Group::Unlimited(setting) => Some(setting.without_value_for_command(words)?),
            Group::Limited(setting) => Some(setting.for_command(words)?),
        };
        let mut child = match of_command {
            None => spawn(plain())?,
            Some(OfCommand::Scope(command)) => spawn(command)?,
            Some(OfCommand::Group(group)) => {
                let _inside = group.enter(ledger)?;
                spawn(plain())?
            }
        };
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Helper { child, input, output })
    }

    /// Starts the part.
    pub(super) fn go(&mut self) -> io::Result<()> {
        self.input.as_mut().expect("it has not ended").write_all(b"go\n")
    }

    /// Ends the part. Returns what its calls did.
    pub(super) fn end(mut self) -> io::Result<Felt> {
        self.input = None;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let status = self.child.wait()?;
        let failed = || io::Error::other(format!("the process for the calls ended with {status}"));
        serde_json::from_str(&line).map_err(|_| failed())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{FileFlags, Nanos};
    use fonio_sim::engine::Begins;

    use super::*;
    use crate::replay::calls::{Act, Before, Call};

    #[test]
    fn a_part_begins_and_ends_on_command() {
        let dir = tempfile::tempdir().expect("dir");
        let call = |pause| Call {
            begins: Begins::AfterEnd(Nanos(pause)),
            act: Act::Write { offset: 0, bytes: 4096 },
            file: 0,
            flags: FileFlags::NONE,
            signal: None,
        };
        // The last call would begin in an hour.
        let calls = vec![call(0), call(0), call(3_600_000_000_000)];
        let sequence =
            Sequence { files: vec![Before::default()], threads: vec![calls], ..Sequence::default() };
        let part = Apart {
            sequence,
            folder: dir.path().to_owned(),
            bursts: vec![Burst { at: Duration::ZERO, bytes: ByteCount(1 << 20) }],
            within: Duration::from_secs(3600),
        };
        let file = dir.path().join("apart.json");
        fs::write(&file, serde_json::to_vec(&part).expect("JSON")).expect("written");
        let part: Apart = serde_json::from_slice(&fs::read(&file).expect("there")).expect("it is read back");
        for (has_begun, expected) in [(false, None), (true, Some((2, 8192)))] {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            let told = thread::scope(|scope| {
                let player = scope.spawn(|| {
                    let mut told = String::new();
                    let tell = |line: &str| {
                        told.push_str(line);
                        Ok(())
                    };
                    part.perform(BufReader::new(reader), tell).expect("it is played");
                    told
                });
                if has_begun {
                    writer.write_all(b"go\n").expect("it listens");
                    let written = dir.path().join("file-0");
                    while written.metadata().is_ok_and(|found| found.len() < 4096) || !written.exists() {
                        thread::sleep(Duration::from_millis(2));
                    }
                    thread::sleep(Duration::from_millis(200));
                }
                drop(writer);
                player.join().expect("it ends")
            });
            let mut lines = told.lines();
            assert_eq!(lines.next(), Some(READY));
            let felt = lines.next().map(|line| serde_json::from_str::<Felt>(line).expect("figures"));
            assert_eq!(felt.map(|felt| (felt.calls, felt.bytes.0)), expected, "{told}");
        }
    }
}
