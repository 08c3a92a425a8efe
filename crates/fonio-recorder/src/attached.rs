//! Records for a host that talks to the recorder through standard input and output: fonio, with a phone on a cable.
//!
//! The program is in a folder of its own (`fonio-phone-…`). It removes its own file when it starts, records into this
//! folder, sends the recording, and removes the folder. Lines on standard output:
//!
//! | line | meaning |
//! |---|---|
//! | `began` | the events are enabled |
//! | `ended REASON` | the capture has ended, by `duration`, `stopped` or `buffer-full` |
//! | `file BYTES NAME` | the bytes of a file follow |
//! | `done` | everything was sent, and the folder is removed |
//!
//! On standard input, the host writes an empty line each second, and `stop` to end the capture. Invariant: if nothing
//! arrives for [`SILENCE`], or if standard input ends, the recorder gives up, removes its tracefs instances and its
//! folder, and ends soon after [`GIVING_UP`]. A host that was killed, and a cable that was unplugged, look like this.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fonio_record::{Progress, RecordSummary, StopReason};
use fonio_system::signals::{self, Signal};
use rustix::process::{getpid, kill_process};

use crate::arguments::Record;
use crate::capture::options;
use crate::exit::Exit;

/// The beginning of the name of the folder in which the recorder may remove everything.
const FOLDER: &str = "fonio-phone-";
/// Time without a line of the host after which the host counts as lost: eight heartbeats.
const SILENCE: Duration = Duration::from_secs(8);
/// Time in which the recording ends and removes its tracefs instances. After it, [`clean_up`] removes them.
const GIVING_UP: Duration = Duration::from_secs(4);
/// The word with which a recorder that does not end in time starts itself again; see [`clean_up`].
pub const CLEAN_UP: &str = "--clean-up";

/// Records for the host. Fails if the program is not in a folder of its own, or if the recording fails.
pub fn run(arguments: &Record) -> Result<Exit> {
    let folder = own_folder()?;
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    fs::remove_file(&program).with_context(|| format!("cannot remove {}", program.display()))?;
    // The signals of a lost host must not end the process before it has cleaned up.
    signals::watch(&signals::ENDING).context("cannot watch for signals")?;
    let lost_folder = folder.clone();
    thread::spawn(move || follow_host(BufReader::new(io::stdin()), &lost_folder));
    let outcome = record_and_send(arguments, &folder);
    let removed = fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()));
    outcome?;
    removed?;
    say("done")?;
    Ok(Exit::Fine)
}

/// Returns the folder of the program.
fn own_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.starts_with(FOLDER) {
        bail!(
            "--attached is for fonio itself: it removes the folder of the program, which must be named {FOLDER}…"
        );
    }
    Ok(folder.to_owned())
}

fn record_and_send(arguments: &Record, folder: &Path) -> Result<()> {
    let mut options = options(arguments)?;
    options.out = folder.join("recording");
    let summary = fonio_record::record(&options, &mut |progress| match progress {
        Progress::Note(note) => fonio_system::say!("note: {note}"),
        Progress::Started { .. } => {
            let _ = say("began");
        }
        _ => {}
    })?;
    say(&format!("ended {}", reason(&summary)))?;
    send(&summary.out)
}

fn reason(summary: &RecordSummary) -> &'static str {
    match summary.stopped_by {
        StopReason::Duration => "duration",
        StopReason::BufferFull => "buffer-full",
        _ => "stopped",
    }
}

/// Sends the files of the recording.
fn send(recording: &Path) -> Result<()> {
    let listed = |error| format!("cannot list {}: {error}", recording.display());
    let entries = fs::read_dir(recording).map_err(listed).map_err(anyhow::Error::msg)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut out = io::stdout().lock();
    for path in paths {
        let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = file.metadata()?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "file {bytes} {name}")?;
        io::copy(&mut file, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Obeys the host, and gives up when the host is lost.
fn follow_host(input: impl BufRead + Send + 'static, folder: &Path) {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    while wait(&lines, SILENCE) {}
    // The second signal ends the capture without a recording. The kernel merges signals that come together.
    interrupt();
    thread::sleep(Duration::from_millis(100));
    interrupt();
    thread::sleep(GIVING_UP);
    let _ = fs::remove_dir_all(folder);
    // The kernel removes an instance only when nobody has its files open. exec(2) ends the other threads, closes these
    // files, and keeps the process id, which the instances are named for.
    let _ = Command::new("/proc/self/exe").arg(CLEAN_UP).exec();
    std::process::exit(1);
}

/// Removes the tracefs instances that this process made before exec(2).
pub fn clean_up() -> Result<Exit> {
    fonio_record::remove_own_instances()?;
    bail!("the host was lost");
}

/// Waits for a line, and obeys it. Returns false if the host is lost.
fn wait(lines: &mpsc::Receiver<String>, silence: Duration) -> bool {
    match lines.recv_timeout(silence) {
        Ok(line) => {
            if line.trim() == "stop" {
                interrupt();
            }
            true
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
    }
}

fn interrupt() {
    let _ = kill_process(getpid(), Signal::INT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_is_lost_and_a_speaking_one_is_not() {
        let (sender, lines) = mpsc::channel();
        sender.send(String::new()).expect("sent");
        assert!(wait(&lines, Duration::from_millis(10)));
        assert!(!wait(&lines, Duration::from_millis(10)), "it was silent");
        drop(sender);
        assert!(!wait(&lines, Duration::from_secs(600)), "its end is noticed at once");
    }

    #[test]
    fn only_a_folder_of_its_own_is_removed() {
        let error = own_folder().expect_err("the folder of this test").to_string();
        assert!(error.contains("fonio-phone-"), "{error}");
    }
}
