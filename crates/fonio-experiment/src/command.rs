//! Runs a user's command in several setups in interleaved rounds, and compares the setups, as
//! [`run_series`](crate::run_series) does for workloads.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fonio_core::{Mark, RowSink, ignore_rows};
use fonio_host::{Confined, DatabaseCopies, FreshCopies, Loss, View};
use fonio_record::{CommandOutput, CommandSetting, RecordOptions, Selector};
use fonio_recording::{Recording, Table, Tables};
use fonio_system::command::Failure;
use fonio_system::{private, say};
use fonio_workload::definition::Journal;

use crate::analysed::Analysed;
use crate::error::ExperimentError;
use crate::filling::write_back;
use crate::held::Holding;
use crate::proof::connections::{Pragmas, Report};
use crate::proof::transactions::Joinable;
use crate::recorded::{Notes, record_command};
use crate::replay::{Replayed, Sequence, What};
use crate::rounds::{Arm, Design, Measurement, Rounds, check_stop};
use crate::series::{RunFigures, Series, Variation, results};
use crate::setup::{Conditions, Setup, Storage};
use crate::test_bed::{Roles, TestBed, enter_process};

/// The name of the mark that spans the run of a command in a recording.
const COMMAND_MARK: &str = "command";

/// The file to which a replay writes its result. This file is not on the devices under test.
const RESULT: &str = "replayed.json";

/// The file to which the library writes its report on the command's connections.
const REPORT: &str = "sqlite-report";

/// The reason why no setting of a connection can be made.
pub(crate) const NO_LIBRARY: &str = "fonio's library libfonio_sqlite_sync.so is neither next to the program fonio nor in \
     /usr/lib/fonio; fonio's Debian package has it";

/// A command to measure.
#[derive(Clone, Debug)]
pub struct CommandOptions<'a> {
    /// The program and its arguments; unused if `replay` is set.
    pub command: &'a [OsString],
    /// The recording to replay instead of running the command.
    pub replay: Option<Replay<'a>>,
    /// A shell command that runs before each measurement, to put the files into the same state.
    pub before_each: Option<&'a str>,
    /// The databases that every run gets as fresh copies, in a view of its own; `None` for a command that uses
    /// the original files.
    pub databases: Option<&'a DatabaseCopies>,
    /// The library that sets what connections of SQLite keep; `None` if no setup changes it.
    pub library: Option<&'a Path>,
    /// Whether an earlier run of the command has shown its output to the user.
    pub is_shown: bool,
    /// The seed of the device model.
    pub seed: u64,
    /// The command lines with which this program starts its own processes.
    pub roles: &'a Roles,
    /// A flag that a signal handler sets to end the run as soon as possible.
    pub stop: &'a AtomicBool,
}

/// A recording whose I/O is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// The recording's directory.
    pub recording: &'a Path,
    /// The recorded accesses or calls to replay.
    pub sequence: &'a Sequence,
    /// Whether to replay without the recorded pauses.
    pub fast: bool,
}

impl Replay<'_> {
    /// Creates the replay's file or folder in `dir` and returns the command that replays on it. The test bed
    /// removes this file or folder.
    fn prepare(
        &self,
        bed: &mut TestBed,
        dir: &Path,
        roles: &Roles,
    ) -> Result<Vec<OsString>, ExperimentError> {
        let file = dir.join(self.sequence.name());
        if file.exists() {
            let exists = io::ErrorKind::AlreadyExists.into();
            return Err(ExperimentError::system("make", &file)(exists));
        }
        bed.ledger().begin(self.sequence.step(&file))?;
        self.sequence.prepare(&file)?;
        let mut words = vec![roles.program.clone().into_os_string()];
        words.extend(roles.replay.iter().map(Into::into));
        words.extend([self.recording.into(), file.into_os_string()]);
        words.extend(self.options().map(Into::into));
        words.extend(["--result".into(), bed.scratch.join(RESULT).into_os_string()]);
        Ok(words)
    }

    /// Returns the command line that repeats the replay.
    fn told(&self) -> Vec<String> {
        let mut words = ["fonio", "replay"].map(str::to_owned).to_vec();
        words.push(self.recording.display().to_string());
        words.extend(self.options().map(str::to_owned));
        words
    }

    fn options(&self) -> impl Iterator<Item = &'static str> {
        let calls = (self.sequence.what() == What::Calls).then_some(["--layer", "calls"]);
        calls.into_iter().flatten().chain(self.fast.then_some("--fast"))
    }
}

impl CommandOptions<'_> {
    fn line(&self) -> String {
        if let Some(replay) = &self.replay {
            let name = replay.recording.file_name().unwrap_or(replay.recording.as_os_str());
            return format!("the recording {}", name.display());
        }
        line(self.command)
    }

    /// Returns the words of the command that a setup runs.
    fn words<'s>(&'s self, setup: &'s Setup) -> &'s [OsString] {
        setup.instead.as_deref().unwrap_or(self.command)
    }

    fn words_line(&self, setup: &Setup) -> String {
        match &setup.instead {
            Some(words) => line(words),
            None => self.line(),
        }
    }
}

/// Returns the words of a command on one line.
pub(crate) fn line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs the command in rounds, once per round in every setup, records and analyses each run, and compares the
/// setups. Also returns the analysis of the first run. Calls `begins` before each run, and writes recordings
/// to folders in `out`. The user sees the output of one run; the output of each measured run goes to a file next
/// to the run's recording, so that all measured runs write to the same kind of file.
///
/// The command starts in the current directory or, on a device that is formatted for the command, in the root
/// directory of the new file system. The file system is synced before each run, so that no run writes back
/// another run's dirty data. In a directory, the command first runs once without being measured, so that
/// every measured run starts with the page cache that an earlier run left behind. Fails with
/// [`ExperimentError::CommandFailed`] if the command fails, or with the error of the first run that failed.
/// In both cases, all settings are restored. Panics in the same cases as [`Design::run`].
pub fn run_command_series(
    arms: &[Arm<Variation>],
    rounds: Rounds,
    options: &CommandOptions<'_>,
    out: &Path,
    begins: &mut dyn FnMut(&Measurement<'_, Variation>),
) -> Result<(Series, Analysed), ExperimentError> {
    private::create_folders(out).map_err(ExperimentError::system("make", out))?;
    let design = Design { arms, rounds, seed: options.seed, stop: options.stop };
    let mut notes = Notes::default();
    // On the user's own device, the first run would start with a cold page cache, and all later runs with a
    // warm page cache.
    let in_folder = arms.iter().find(|arm| matches!(arm.setup.setup.storage, Storage::Directory(_)));
    // A replay starts without its files in the page cache, so it needs no unmeasured run.
    let mut joinable = None;
    let warmed = in_folder.filter(|_| options.replay.is_none());
    let another = arms.iter().find(|arm| arm.setup.setup.instead != arms[0].setup.setup.instead);
    // A changed program has not run yet.
    let mut is_shown = options.is_shown;
    for (arm, is_another) in warmed.map(|arm| (arm, false)).into_iter().chain(another.map(|arm| (arm, true)))
    {
        say!("Running `{}` once without measuring it …", options.words_line(&arm.setup.setup));
        let unmeasured = out.join("unmeasured");
        // The calls cost time, so only a run that is not measured shows the transactions.
        let calls = options.databases.is_some();
        let output = (is_shown && !is_another).then(|| Output::at(&unmeasured)).transpose()?;
        is_shown = true;
        let run = run_once(&arm.setup.setup, options, &unmeasured, (calls, output.as_ref()), &mut notes);
        if calls && run.is_ok() && joinable.is_none() {
            joinable = Joinable::of(&unmeasured)?;
        }
        std::fs::remove_dir_all(&unmeasured).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(ExperimentError::system("remove", &unmeasured)(error)),
        })?;
        run?;
        output.map_or(Ok(()), |output| output.remove())?;
    }
    let mut first = None;
    let runs = design.run(begins, &mut |measurement| {
        let of_round = CommandOptions { seed: measurement.seed, ..options.clone() };
        let recording = measurement.recording(out);
        let output = Output::at(&recording)?;
        let (figures, analysed) =
            run_once(&measurement.setup.setup, &of_round, &recording, (false, Some(&output)), &mut notes)?;
        if !std::mem::replace(&mut is_shown, true) {
            output.show(SHOWN_MOST)?;
        }
        output.keep()?;
        first.get_or_insert(analysed);
        Ok(figures)
    })?;
    let mut variations = results(arms, runs);
    let mut told = Vec::new();
    for (at, arm) in arms.iter().enumerate() {
        let (Some(Loss::Nothing), Some(base), Some(found)) = (arm.setup.loses, arm.compared_with, &joinable)
        else {
            continue;
        };
        let requests = |at: usize| variations[at].runs.iter().map(|run| run.requests).min();
        let (Some(before), Some(after)) = (requests(base), requests(at)) else { continue };
        let fixed = &mut variations[at];
        if let Some(price) = found.price_without_syncs(&fixed.name, before, after) {
            fixed.power_cut = Some(price.power_cut.to_owned());
            told.push(price.reason);
        }
    }
    let series = Series {
        workload: match another {
            Some(_) => "the command".to_owned(),
            None => options.line(),
        },
        scale: 1.0,
        seed: options.seed,
        conditions: Conditions::of(&arms[0].setup.setup),
        variations,
        packages: Vec::new(),
        databases: Vec::new(),
        joinable,
        notes: told,
    };
    Ok((series, first.expect("a design has at least one measurement")))
}

fn run_once(
    setup: &Setup,
    options: &CommandOptions<'_>,
    out: &Path,
    (calls, output): (bool, Option<&Output>),
    notes: &mut Notes,
) -> Result<(RunFigures, Analysed), ExperimentError> {
    let mut bed = TestBed::for_command(setup, &[], options.seed, options.roles, options.stop)?;
    let dir = bed.places["dir"].clone();
    let is_users = matches!(setup.storage, Storage::Directory(_));
    let starts_in = (!is_users).then(|| dir.clone());
    let fresh = options.databases.map(|databases| databases.fresh(bed.ledger())).transpose()?;
    if let Some(line) = options.before_each {
        let view = fresh.as_ref().map(FreshCopies::view).transpose()?;
        prepare(&mut bed, line, starts_in.as_deref(), view.as_ref())?;
    }
    let change = &setup.of_command;
    let created = match (&fresh, change.journal) {
        (Some(fresh), Some(journal)) => fresh.set_journal(journal == Journal::Wal)?,
        _ => Vec::new(),
    };
    let pragmas = Pragmas::of(change, !created.is_empty());
    let report = bed.scratch.join(REPORT);
    let environment = match (options.library, options.databases) {
        (Some(library), Some(databases)) => {
            fs::write(&report, "").map_err(ExperimentError::system("make", &report))?;
            pragmas.environment(library, &databases.paths().collect::<Vec<_>>(), &report)
        }
        _ if pragmas.is_empty() => Vec::new(),
        _ => return Err(pragmas.not_from_outside(change, &options.words_line(setup), NO_LIBRARY.to_owned())),
    };
    let command = match &options.replay {
        Some(replay) => replay.prepare(&mut bed, &dir, options.roles)?,
        None => options.words(setup).to_vec(),
    };
    let view = fresh.as_ref().map(FreshCopies::view).transpose()?;
    let folders = options.databases.into_iter().flat_map(DatabaseCopies::folders);
    folders.chain([dir.as_path()]).try_for_each(write_back)?;
    let confined = Confined::make(bed.ledger(), setup.limits)?;
    let holding = Holding::begin(&mut bed, setup, &confined, options.roles)?;
    bed.pace()?;
    let record_options = RecordOptions {
        select: if is_users { vec![Selector::Path(dir)] } else { bed.watched.to_vec() },
        command: Some(command),
        told_command: options.replay.as_ref().map(Replay::told),
        setting: CommandSetting {
            dir: starts_in,
            mounts: view.as_ref().map(|view| Arc::clone(view.namespace())),
            overlays: view.as_ref().map(|view| view.overlays().to_vec()).unwrap_or_default(),
            copies: view.as_ref().map(|view| view.copies().to_vec()).unwrap_or_default(),
            environment,
            own_group: true,
            cgroups: confined.dirs().map(Path::to_owned).collect(),
            output: CommandOutput::ToError,
            log: output.map(|output| Arc::clone(&output.file)),
            ..CommandSetting::default()
        },
        calls,
        overwrite: true,
        ..RecordOptions::new(out)
    };
    let summary = record_command(&mut bed, &record_options, notes)?;
    check_stop(options.stop)?;
    if let Some(limit) = setup.limits.memory.filter(|_| confined.kills() > 0) {
        return Err(ExperimentError::OutOfMemory { limit });
    }
    if let Some(failure) = Failure::of(summary.command_exit, summary.command_signal) {
        output.map_or(Ok(()), |output| output.show(SHOWN_OF_FAILED))?;
        return Err(ExperimentError::CommandFailed { command: options.words_line(setup), failure });
    }
    if let (Some(fresh), Some(journal)) = (&fresh, change.journal) {
        check_journals(fresh, journal)?;
    }
    if !pragmas.is_empty() {
        pragmas.check(change, &Report::read(&report), &options.words_line(setup))?;
    }
    // A replay first reads its recording from a file. The time for reading is not part of the run time.
    let replayed = options.replay.as_ref().map(|_| Replayed::load(&bed.scratch.join(RESULT))).transpose()?;
    let held = holding.map(|holding| holding.end(&mut bed)).transpose()?;
    bed.close_measured()?;
    let analysed = Analysed::of(out)?;
    let wall_s = match replayed {
        Some(replayed) => replayed.took.as_secs_f64(),
        None => command_took(out, options)?,
    };
    let figures = RunFigures::of_recording(&analysed.analysis, wall_s, out);
    Ok((RunFigures { processor: held, ..figures }, analysed))
}

/// How much of its output a command shows at most, in bytes.
const SHOWN_MOST: u64 = 1 << 20;
/// How much of its output a failed command shows at most, in bytes.
const SHOWN_OF_FAILED: u64 = 16 << 10;

/// The output of a command in one run.
struct Output {
    path: PathBuf,
    file: Arc<OwnedFd>,
}

impl Output {
    /// Creates the file for the output of a run, next to its recording.
    fn at(recording: &Path) -> Result<Output, ExperimentError> {
        let mut path = recording.as_os_str().to_owned();
        path.push(".output");
        let path = PathBuf::from(path);
        let file = private::create_file(&path).map_err(ExperimentError::system("create", &path))?;
        Ok(Output { path, file: Arc::new(file.into()) })
    }

    /// Shows at most the last `most` bytes to the user.
    fn show(&self, most: u64) -> Result<(), ExperimentError> {
        let cannot = || ExperimentError::system("read", &self.path);
        let mut file = fs::File::open(&self.path).map_err(cannot())?;
        let length = file.metadata().map_err(cannot())?.len();
        if length > most {
            say!("… (the complete output is in {})", self.path.display());
            file.seek(SeekFrom::Start(length - most)).map_err(cannot())?;
        }
        for line in BufReader::new(file).split(b'\n') {
            say!("{}", String::from_utf8_lossy(&line.map_err(cannot())?));
        }
        Ok(())
    }

    /// Keeps the file if the command wrote something.
    fn keep(self) -> Result<(), ExperimentError> {
        let length = fs::metadata(&self.path).map_err(ExperimentError::system("read", &self.path))?.len();
        if length == 0 { self.remove() } else { Ok(()) }
    }

    fn remove(self) -> Result<(), ExperimentError> {
        fs::remove_file(&self.path).map_err(ExperimentError::system("remove", &self.path))
    }
}

fn command_took(recording: &Path, options: &CommandOptions<'_>) -> Result<f64, ExperimentError> {
    let mut took = Took::default();
    Recording::open(recording)?.replay(&mut took, Tables::NONE.with(Table::Marks))?;
    took.0.ok_or_else(|| ExperimentError::NotSeen {
        command: options.line(),
        reason: "the recording does not show when the command ended",
    })
}

/// Fails if a copy does not have the journal mode that it had before the command.
fn check_journals(fresh: &FreshCopies, journal: Journal) -> Result<(), ExperimentError> {
    let is_wal = journal == Journal::Wal;
    match fresh.journals()?.into_iter().find(|(_, found)| found.is_some_and(|found| found != is_wal)) {
        None => Ok(()),
        Some((database, _)) => Err(ExperimentError::OwnJournal { database }),
    }
}

/// Runs a shell command, which is killed when this process ends.
fn prepare(
    bed: &mut TestBed,
    line: &str,
    dir: Option<&Path>,
    view: Option<&View>,
) -> Result<(), ExperimentError> {
    let mut child = start_shell(line, dir, view)?;
    let failed = |status: &dyn std::fmt::Display| ExperimentError::NotPrepared {
        line: line.to_owned(),
        status: status.to_string(),
    };
    let entry = enter_process(bed.ledger(), &child)?;
    let status: ExitStatus = child.wait().map_err(|error| failed(&error))?;
    if let Some(entry) = entry {
        bed.ledger().end(entry)?;
    }
    if status.success() { Ok(()) } else { Err(failed(&status)) }
}

/// Starts a shell command in a folder, or in this process's folder.
pub(crate) fn start_shell(
    line: &str,
    dir: Option<&Path>,
    view: Option<&View>,
) -> Result<Child, ExperimentError> {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).stdin(Stdio::null()).stdout(std::io::stderr());
    match (view, dir) {
        (Some(view), Some(dir)) => view.enter(&mut shell, dir),
        (Some(view), None) => view.enter(&mut shell, &own_dir()?),
        (None, Some(dir)) => drop(shell.current_dir(dir)),
        (None, None) => {}
    }
    shell
        .spawn()
        .map_err(|error| ExperimentError::NotPrepared { line: line.to_owned(), status: error.to_string() })
}

/// Returns the working directory of this process.
pub(crate) fn own_dir() -> Result<std::path::PathBuf, ExperimentError> {
    std::env::current_dir().map_err(ExperimentError::system("find", "."))
}

/// Finds the run time of the command in the rows of a recording, in seconds.
#[derive(Default)]
struct Took(Option<f64>);

impl RowSink for Took {
    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        if row.name == COMMAND_MARK {
            self.0 = row.until.and_then(|until| until.since(row.at)).map(|time| time.0 as f64 / 1e9);
        }
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, diagnostic, settled
    }
}
