//! Plans and runs a proof with a user's command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_host::{DatabaseCopies, Engine, Limits};
use fonio_processor::Calibration;
use fonio_system::{chain, say};
use fonio_workload::DatabaseOverride;
use fonio_workload::definition::Journal;

use super::connections::{INSIDE, Pragmas};
use super::first_run::{FirstRun, find_databases};
use crate::analysed::Analysed;
use crate::command::{CommandOptions, NO_LIBRARY, line, run_command_series};
use crate::error::ExperimentError;
use crate::fix::{Candidate, Measured, Real};
use crate::rounds::{Arm, Measurement, Rounds};
use crate::series::{Series, Variation, variations};
use crate::setup::{Setup, Storage};
use crate::test_bed::Roles;

/// A proof of fixes with a user's command, or a comparison of two commands.
#[derive(Clone, Debug)]
pub struct ProofOptions<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// A command to compare with: the program before a change, while `command` is the changed program.
    pub against: Option<&'a [OsString]>,
    /// The fixes to try.
    pub candidates: &'a [Candidate],
    /// The setups to measure, with their names; empty for the folder of the first database.
    pub setups: &'a [(String, Setup)],
    /// Limits of the command, for the folder of the first database.
    pub limits: Limits,
    /// The processor of another machine, to which these limits belong.
    pub processor: Option<&'a Calibration>,
    /// The databases to copy; empty to find them in a first run.
    pub databases: &'a [PathBuf],
    /// fonio's library for settings of connections; `None` if it is not installed.
    pub library: Option<&'a Path>,
    /// A shell command that runs before each run.
    pub before_each: Option<&'a str>,
    /// The number of rounds.
    pub rounds: Rounds,
    /// The seed of the device model.
    pub seed: u64,
    /// The command lines with which this program starts its own processes.
    pub roles: &'a Roles,
    /// A flag that a signal handler sets to end the proof as soon as possible.
    pub stop: &'a AtomicBool,
}

/// A proof that can be run.
#[derive(Debug)]
pub struct ProofPlan<'a> {
    options: ProofOptions<'a>,
    /// The setups to measure.
    pub arms: Vec<Arm<Variation>>,
    /// The databases that each run gets as fresh copies; empty for a command that uses the original files.
    pub databases: Vec<PathBuf>,
    /// The SQLite libraries that the command uses, if a setup changes settings of connections.
    pub sqlite: Vec<PathBuf>,
    /// Whether the library is loaded into the command.
    pub is_preloaded: bool,
    /// Whether the first run has shown the command's output.
    is_shown: bool,
}

/// The result of a proof.
#[derive(Debug)]
pub struct Proof {
    /// The runs and their comparison.
    pub series: Series,
    /// The analysis of the first run.
    pub first: Analysed,
}

impl<'a> ProofPlan<'a> {
    /// Finds the databases if a fix needs them, and plans the setups. `refused` is called for each fix that
    /// cannot be tried, as in [`variations`]. Changes nothing. Fails with [`ExperimentError::SeveralDatabases`]
    /// or [`ExperimentError::NoDatabase`] if the user must name a database, and in the cases of
    /// [`find_databases`] and [`variations`].
    pub fn of(
        options: ProofOptions<'a>,
        refused: &mut dyn FnMut(ExperimentError) -> Result<(), ExperimentError>,
    ) -> Result<ProofPlan<'a>, ExperimentError> {
        let subject = Subject::of(&options)?;
        let databases = subject.databases;
        let own;
        let setups = match options.setups {
            // Two commands without a database are compared in the current folder.
            [] => {
                let folder =
                    databases.first().and_then(|database| database.parent()).unwrap_or(Path::new("."));
                let mut setup = Setup::on(Storage::Directory(folder.to_owned()));
                setup.limits = options.limits;
                setup.processor = options.processor.cloned();
                own = [(folder.display().to_string(), setup)];
                &own[..]
            }
            setups => setups,
        };
        let mut arms =
            variations(setups, options.candidates, Measured::Command, &Setup::check_kernel, refused)?;
        for arm in &mut arms {
            arm.setup.keep = kept_with(&arm.setup.setup, options.candidates, &databases);
        }
        if let Some(against) = options.against {
            compare_commands(&mut arms, against);
        }
        let is_created = databases.iter().any(|database| !database.exists());
        let changes = arms.iter().map(|arm| &arm.setup.setup.of_command);
        let needed = changes.map(|change| (change, Pragmas::of(change, is_created)));
        let needed: Vec<_> = needed.filter(|(_, pragmas)| !pragmas.is_empty()).collect();
        if let Some((change, pragmas)) =
            needed.first().filter(|_| subject.is_found && subject.sqlite.is_empty())
        {
            let reason = if options.library.is_some() { INSIDE } else { NO_LIBRARY };
            return Err(pragmas.not_from_outside(change, &line(options.command), reason.to_owned()));
        }
        let is_preloaded = !needed.is_empty();
        let is_shown = subject.is_found;
        Ok(ProofPlan { options, arms, databases, sqlite: subject.sqlite, is_preloaded, is_shown })
    }

    /// Copies the databases, and runs all setups in rounds. Calls `begins` before each run, and writes
    /// recordings to folders in `out`. Fails in the cases of [`run_command_series`], and if a database cannot
    /// be copied.
    pub fn run(
        &self,
        out: &Path,
        begins: &mut dyn FnMut(&Measurement<'_, Variation>),
    ) -> Result<Proof, ExperimentError> {
        let options = &self.options;
        let copies = match &self.databases[..] {
            [] => None,
            databases => Some(DatabaseCopies::take(databases)?),
        };
        let of_command = CommandOptions {
            command: options.command,
            replay: None,
            before_each: options.before_each,
            databases: copies.as_ref(),
            library: options.library.filter(|_| self.is_preloaded),
            is_shown: self.is_shown,
            seed: options.seed,
            roles: options.roles,
            stop: options.stop,
        };
        let (mut series, first) = run_command_series(&self.arms, options.rounds, &of_command, out, begins)?;
        series.databases.clone_from(&self.databases);
        Ok(Proof { series, first })
    }
}

/// The databases of a command, and its SQLite.
#[derive(Debug, Default)]
struct Subject {
    databases: Vec<PathBuf>,
    sqlite: Vec<PathBuf>,
    /// Whether a first run of the command ended well.
    is_found: bool,
}

impl Subject {
    /// Returns the databases to copy: those that the user named, or those that a first run changes. There are
    /// none if no fix needs a database.
    fn of(options: &ProofOptions<'_>) -> Result<Subject, ExperimentError> {
        let absolute =
            |path: &PathBuf| std::path::absolute(path).map_err(ExperimentError::system("find", path));
        let named: Vec<PathBuf> = options.databases.iter().map(absolute).collect::<Result<_, _>>()?;
        let changes: Vec<DatabaseOverride> = options.candidates.iter().filter_map(database_change).collect();
        let is_created = named.iter().any(|database| !database.exists());
        let of_connections = changes.iter().any(|change| !Pragmas::of(change, is_created).is_empty());
        let needs_database = !changes.is_empty() || options.against.is_some();
        if !(needs_database && named.is_empty() || of_connections) {
            return Ok(Subject { databases: named, ..Subject::default() });
        }
        let command = options.against.unwrap_or(options.command);
        let first = FirstRun {
            command,
            before_each: options.before_each,
            library: options.library,
            stop: options.stop,
        };
        let found = match find_databases(&first) {
            // The memory can be too small for changes of a large database.
            Err(error @ ExperimentError::FirstRunFailed { .. }) if !named.is_empty() => {
                say!("note: {}", chain(&error));
                return Ok(Subject { databases: named, ..Subject::default() });
            }
            found => found?,
        };
        let databases = if named.is_empty() { found.databases } else { named };
        match databases.len() {
            0 if !changes.is_empty() => return Err(no_database(options, &found.others)),
            2.. if !changes.is_empty() && options.databases.is_empty() => {
                return Err(ExperimentError::SeveralDatabases { command: line(command), databases });
            }
            _ => {}
        }
        Ok(Subject { databases, sqlite: found.sqlite, is_found: true })
    }
}

fn no_database(options: &ProofOptions<'_>, others: &[(Engine, PathBuf)]) -> ExperimentError {
    let of_engine = |(engine, file): &(Engine, PathBuf)| {
        format!("\nIt changed {}, a file of {}. {}", file.display(), engine.name(), engine.setting())
    };
    let other = match others {
        [] => "; if it uses one, name it with --database FILE".to_owned(),
        others => others.iter().map(of_engine).collect(),
    };
    ExperimentError::NoDatabase { command: line(options.command), other }
}

/// Returns whether a fix changes the SQLite databases of a command.
pub fn changes_databases(candidate: &Candidate) -> bool {
    database_change(candidate).is_some()
}

/// Returns the settings of databases that a fix changes; `None` if it changes none.
fn database_change(candidate: &Candidate) -> Option<DatabaseOverride> {
    let mut setup = Setup::on(Storage::Directory("/".into()));
    candidate.apply(&mut setup, Measured::Command).ok()?;
    Some(setup.of_command).filter(|change| *change != DatabaseOverride::default())
}

/// Returns how to keep the change of databases of a setup; `None` if it changes none.
fn kept_with(setup: &Setup, candidates: &[Candidate], databases: &[PathBuf]) -> Option<String> {
    let is_it = |candidate: &&Candidate| {
        let mut alone = Setup::on(setup.storage.clone());
        let applied = candidate.apply(&mut alone, Measured::Command);
        applied.is_ok() && alone.of_command == setup.of_command && changes_databases(candidate)
    };
    let candidate = candidates.iter().find(is_it)?;
    let in_file = DatabaseOverride { journal: Some(Journal::Wal), ..DatabaseOverride::default() };
    if setup.of_command == in_file {
        if databases.iter().any(|database| !database.exists()) {
            return Some("in the program, when it creates the database: PRAGMA journal_mode=WAL".to_owned());
        }
        let apply =
            |path: &PathBuf| format!("`fonio fix apply wal-full {}`", quoted(&path.to_string_lossy()));
        return Some(databases.iter().map(apply).collect::<Vec<_>>().join(", "));
    }
    match candidate.fix()?.real {
        Real::ByHand(how) => Some(how.to_owned()),
        Real::Setting(_) | Real::Trim => None,
    }
}

/// Quotes a path for a shell if it needs quotes.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/-_.,:@+".contains(letter);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Makes each setup run the command before the change first, and then compares the changed command with it.
fn compare_commands(arms: &mut Vec<Arm<Variation>>, before: &[OsString]) {
    let after = arms.clone();
    for arm in arms.iter_mut() {
        arm.setup.setup.instead = Some(before.to_vec());
        arm.name += " (before)";
    }
    for (at, arm) in after.into_iter().enumerate() {
        let name = format!("{} (after)", arm.name);
        arms.push(Arm { name, compared_with: Some(at), ..arm });
    }
}
