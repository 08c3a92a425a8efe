//! The first run of a command, which shows the databases that it changes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fonio_host::{Engine, Ledger, Step, View, WrittenFile};
use fonio_system::command::{Failure, start};
use fonio_system::{ProcessId, say};

use super::connections::{Pragmas, Report};
use crate::command::{line, own_dir, start_shell};
use crate::error::ExperimentError;
use crate::rounds::check_stop;

/// The command whose databases are looked for.
#[derive(Clone, Copy, Debug)]
pub struct FirstRun<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// A shell command that runs before.
    pub before_each: Option<&'a str>,
    /// The library that reports which SQLite the command uses; `None` if this is not needed.
    pub library: Option<&'a Path>,
    /// A flag that a signal handler sets to end the run as soon as possible.
    pub stop: &'a AtomicBool,
}

/// What a command changed in its first run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The SQLite databases.
    pub databases: Vec<PathBuf>,
    /// The other engines whose files the command changed, each with a file.
    pub others: Vec<(Engine, PathBuf)>,
    /// The SQLite libraries that the command's connections use; empty if it uses none, or if no library
    /// reported it.
    pub sqlite: Vec<PathBuf>,
}

/// Time between two checks for the end of the command.
const PAUSE: Duration = Duration::from_millis(10);
/// The first bytes of an SQLite database (<https://www.sqlite.org/fileformat.html>, 1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Runs the command once, and returns the databases that it changes. All changes of files go to memory and are
/// thrown away. Fails with [`ExperimentError::FirstRunFailed`] if the command fails, and with
/// [`ExperimentError::Interrupted`] after `stop` is set.
pub fn find_databases(first: &FirstRun<'_>) -> Result<Found, ExperimentError> {
    say!("Running the command once to find its databases; what it changes now is thrown away …");
    let state = Ledger::default_dir();
    Ledger::recover(&state)?;
    let mut ledger = Ledger::open(&state)?;
    let dir = ledger.own_path("view");
    ledger.begin(Step::Directory { path: dir.clone() })?;
    fs::create_dir(&dir).map_err(ExperimentError::system("make", &dir))?;
    let report = ledger.own_path("sqlite-report");
    if first.library.is_some() {
        ledger.begin(Step::File { path: report.clone() })?;
        fs::write(&report, "").map_err(ExperimentError::system("make", &report))?;
    }
    let environment = first.library.map(|library| Pragmas::default().environment(library, &[], &report));
    let (view, written) = View::thrown_away(&dir)?;
    if let Some(line) = first.before_each {
        let mut shell = start_shell(line, None, Some(&view))?;
        let status = wait(&mut ledger, &mut shell, false, first.stop)?;
        if !status.success() {
            return Err(ExperimentError::NotPrepared { line: line.to_owned(), status: status.to_string() });
        }
    }
    let (program, arguments) = first.command.split_first().expect("a command has a program");
    let here = own_dir()?;
    let prepare = |command: &mut std::process::Command| {
        command.envs(environment.iter().flatten().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(std::io::stderr()).process_group(0);
        view.enter(command, &here);
    };
    let mut child = start(program, arguments, prepare).map_err(|source| {
        fonio_record::RecordError::Command { program: program.to_string_lossy().into_owned(), source }
    })?;
    let status = wait(&mut ledger, &mut child, true, first.stop)?;
    if let Some(failure) = Failure::of(status.code(), status.signal()) {
        let read_only = written.read_only.clone();
        return Err(ExperimentError::FirstRunFailed { command: line(first.command), read_only, failure });
    }
    let files = written.files();
    let databases = files.iter().filter(|file| is_changed_database(file)).map(|file| file.path.clone());
    // In the view, the report can be on a covered file system.
    let covered = files.iter().find(|file| file.path == report).map(|file| &file.readable);
    let sqlite = Report::read(covered.unwrap_or(&report)).libraries();
    Ok(Found { databases: databases.collect(), others: others(&files), sqlite })
}

/// Returns the other engines whose files are among these, each with its first file.
fn others(files: &[WrittenFile]) -> Vec<(Engine, PathBuf)> {
    let mut found: Vec<(Engine, PathBuf)> = Vec::new();
    for file in files {
        if let Some(engine) = Engine::at(&file.path, &file.readable)
            && engine != Engine::Sqlite
            && found.iter().all(|(known, _)| *known != engine)
        {
            found.push((engine, file.path.clone()));
        }
    }
    found
}

/// Waits until a process ends. `leads_group`: all processes of its group end then, too.
fn wait(
    ledger: &mut Ledger,
    child: &mut Child,
    leads_group: bool,
    stop: &AtomicBool,
) -> Result<ExitStatus, ExperimentError> {
    let entry =
        ProcessId::of(child.id()).map(|id| ledger.begin(Step::Process { id, leads_group })).transpose()?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(ExperimentError::system("wait for", "the command"))? {
            break Ok(status);
        }
        if let Err(stopped) = check_stop(stop) {
            break Err(stopped);
        }
        std::thread::sleep(PAUSE);
    };
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group.filter(|_| leads_group) {
        // The call fails if no process of the group is left.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    if let Some(entry) = entry {
        ledger.end(entry)?;
    }
    status
}

/// Returns whether a file is an SQLite database that the command changed or created. The view also has copies of
/// files that the command only opened for writing.
fn is_changed_database(file: &WrittenFile) -> bool {
    let mut head = [0; MAGIC.len()];
    let is_database = File::open(&file.readable).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    is_database && head == MAGIC && (is_changed(&file.readable, &file.path) || has_log(&file.readable))
}

fn is_changed(copy: &Path, original: &Path) -> bool {
    let stamp =
        |path: &Path| fs::metadata(path).map(|found| (found.len(), found.mtime(), found.mtime_nsec()));
    match (stamp(copy), stamp(original)) {
        (Ok(copy), Ok(original)) => copy != original,
        _ => true,
    }
}

fn has_log(database: &Path) -> bool {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(PathBuf::from(log)).is_ok_and(|found| found.len() > 0)
}
