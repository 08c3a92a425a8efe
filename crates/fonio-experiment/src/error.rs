//! Errors of experiments.

use std::io;
use std::path::PathBuf;

use fonio_bench::BenchError;
use fonio_core::ByteCount;
use fonio_emulator::EmulatorError;
use fonio_host::HostError;
use fonio_processor::ProcessorError;
use fonio_record::RecordError;
use fonio_recording::RecordingError;
use fonio_sim::recorded::TooLarge;
use fonio_system::SystemError;
use fonio_system::command::Failure;
use fonio_workload::WorkloadError;

/// An experiment did not start or did not finish. All changes of the experiment are undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// No fix has the requested name.
    #[error("no fix is called `{name}`{nearest}; `fonio fix --all` lists them, and device=PROFILE is one")]
    UnknownFix {
        /// The fix name that the user entered.
        name: String,
        /// The suggestion of a similar fix name, from [`fonio_core::nearest`].
        nearest: String,
    },
    /// A fix does not apply to this setup.
    #[error("the fix {fix} cannot be tried here: {reason}")]
    NotApplicable {
        /// The name of the fix.
        fix: String,
        /// The reason why the fix does not apply.
        reason: String,
    },
    /// A list on the command line contains a value twice.
    #[error("{option} names {value} twice")]
    NamedTwice {
        /// The command-line option with the list.
        option: &'static str,
        /// The value that occurs twice.
        value: String,
    },
    /// The user's description of an array is invalid.
    #[error("{place}: {reason}")]
    BadArray {
        /// The invalid description of an array.
        place: String,
        /// The reason why the description of the array is invalid.
        reason: String,
    },
    /// A recording cannot be replayed in a model.
    #[error("the replay in a model failed: {0}")]
    InModel(String),
    /// An error of the test bed on this host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The throughput of a device or directory could not be measured.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// An error of the emulated device.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// An error of the recorder.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An error while a recording is read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// An error while the workload ran.
    #[error(transparent)]
    Workload(Box<WorkloadError>),
    /// The workload's process failed, and printed the error on standard error.
    #[error("the workload failed ({status}): {complaint}")]
    TaskFailed {
        /// The exit status of the workload's process.
        status: String,
        /// The error message of the workload's process.
        complaint: String,
    },
    /// A real program failed.
    #[error("{complaint}")]
    AppFailed {
        /// The error message, with the end of the program's output.
        complaint: String,
    },
    /// The kernel killed a process under test because the process reached its memory limit.
    #[error("the workload needs more than {} of memory: the kernel killed it; try a larger --memory", limit.to_exact_text())]
    OutOfMemory {
        /// The memory limit of the process.
        limit: ByteCount,
    },
    /// The processor of another machine cannot be imitated.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// The processor to imitate has more cores than this machine.
    #[error("{name} has {cores} cores, and this machine {}; `--cpu {name}:{has}` imitates {has} of them", processors(*has))]
    TooFewCores {
        /// The name of the processor.
        name: String,
        /// The number of its cores.
        cores: u32,
        /// The number of this machine's processors.
        has: u32,
    },
    /// A run did not get the processor that it should have.
    #[error(
        "the speed of {name} could not be held: {at} the run, each core had {achieved:.2} of a processor instead of {wanted:.2}, \
         because {}; try again when this machine is idle{}",
        not_held(*achieved, *wanted),
        unchecked(*cores, *wanted)
    )]
    ProcessorNotHeld {
        /// The name of the processor.
        name: String,
        /// The number of its cores.
        cores: u32,
        /// The share of a processor that each core should have.
        wanted: f64,
        /// The share that each core had, by speed.
        achieved: f64,
        /// Before or after the run.
        at: &'static str,
    },
    /// A recording has no reads, writes or flushes.
    #[error("{} has no reads, writes or flushes to replay", recording.display())]
    NothingToReplay {
        /// The recording that has no reads, writes or flushes.
        recording: PathBuf,
    },
    /// A recording has no file-system calls that can be replayed.
    #[error(
        "{} has no file-system calls to replay: record again with --calls, or leave out --layer to replay the I/O of its disk",
        recording.display()
    )]
    NoCalls {
        /// The recording without file-system calls.
        recording: PathBuf,
    },
    /// A recording has only some of the file-system calls of its programs.
    #[error(
        "{} has only some file-system calls, from a trace of another program, and a replay of them would be another load: record \
         with `fonio record --calls`, or leave out --layer to replay the I/O of its disk",
        recording.display()
    )]
    SomeCalls {
        /// The recording with some calls.
        recording: PathBuf,
    },
    /// A replay of a recording would need too much memory.
    #[error(
        "{0} is too large to replay: {why}; replay a part of it, which `fonio import {0} --until 10m -o PART` writes",
        recording.display()
    )]
    TooLarge {
        /// The recording.
        recording: PathBuf,
        /// The part of the replay that is too large.
        why: TooLarge,
    },
    /// The data that a recording accesses do not fit on the device.
    #[error(
        "the recording accesses {}, but {} has only {} free: use another place, or --size for an emulated device",
        wanted.to_exact_text(), place.display(), free.to_exact_text()
    )]
    NoRoom {
        /// The number of bytes that the replay needs.
        wanted: ByteCount,
        /// The number of bytes that are free on the device.
        free: ByteCount,
        /// The folder in which the replay would create its data.
        place: PathBuf,
    },
    /// A recorded stall cannot be recreated.
    #[error("the stall cannot be recreated: {reason}")]
    NotRecreated {
        /// The reason why the stall cannot be recreated.
        reason: String,
    },
    /// A measured command failed.
    #[error("`{command}` failed, so nothing was measured, and all settings are restored")]
    CommandFailed {
        /// The command that failed.
        command: String,
        /// How the command failed.
        #[source]
        failure: Failure,
    },
    /// The shell command that prepares a measurement failed.
    #[error(
        "the preparation `{line}` failed ({status}); nothing was measured, and all settings are restored"
    )]
    NotPrepared {
        /// The line of the shell command.
        line: String,
        /// The exit code of the shell command, or the signal that ended it.
        status: String,
    },
    /// The command uses several databases, and the user named none.
    #[error(
        "`{command}` changes several SQLite databases; name those to copy with --database:{}",
        listed(databases)
    )]
    SeveralDatabases {
        /// The command.
        command: String,
        /// The databases.
        databases: Vec<PathBuf>,
    },
    /// The command changed no SQLite database in its first run.
    #[error("`{command}` changed no SQLite database in a first run, whose changes were thrown away{other}")]
    NoDatabase {
        /// The command.
        command: String,
        /// What the command used instead, as the rest of the sentence; or a remedy.
        other: String,
    },
    /// The first run of the command failed.
    #[error(
        "the first run of `{command}`, whose changes are thrown away, failed, so nothing was measured. If the command works without fonio, name its database with --database FILE{}",
        could_only_read(read_only)
    )]
    FirstRunFailed {
        /// The command.
        command: String,
        /// The mounts that the command could only read.
        read_only: Vec<PathBuf>,
        /// How the command failed.
        #[source]
        failure: Failure,
    },
    /// The command sets the journal mode itself.
    #[error(
        "the command itself sets the journal mode of {}, so its file does not keep another mode: change `PRAGMA journal_mode` in the program, and compare both programs with --versus",
        database.display()
    )]
    OwnJournal {
        /// The database.
        database: PathBuf,
    },
    /// A setting of connections cannot be changed from outside of the program.
    #[error("{setting} cannot be set from outside of `{command}`: {reason}\n{remedy}")]
    NotFromOutside {
        /// The setting.
        setting: String,
        /// The command.
        command: String,
        /// The reason.
        reason: String,
        /// What the user can do.
        remedy: String,
    },
    /// A measured command ran, but the recording does not show where its time went.
    #[error("the recording does not show where the time of {command} went: {reason}")]
    NotSeen {
        /// The measured command.
        command: String,
        /// The reason why the recording does not show where the time went.
        reason: &'static str,
    },
    /// The measured unit has no process.
    #[error("the unit {unit:?} has no process now; {}", seen_units(seen))]
    NoUnit {
        /// The name of the measured unit.
        unit: String,
        /// The units that have processes, as suggestions.
        seen: Vec<String>,
    },
    /// A folder contains the slices of a different test.
    #[error("{} contains the slices of another test ({differs}); name another folder with --output", folder.display())]
    OtherTest {
        /// The folder with the slices of the other test.
        folder: PathBuf,
        /// The first difference between the two tests.
        differs: String,
    },
    /// A file in a test folder is damaged.
    #[error("this version of fonio cannot read {} as a file of a live test", path.display())]
    BadSlice {
        /// The damaged file.
        path: PathBuf,
        /// The JSON library's error.
        #[source]
        source: serde_json::Error,
    },
    /// The recorder cannot see which threads wait for storage.
    #[error(
        "this kernel does not show which threads wait for storage, so there is nothing to measure: {reason}"
    )]
    NoWaits {
        /// The recorder's explanation.
        reason: String,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The user asked to stop.
    #[error("stopped; the setup of the run was undone")]
    Interrupted,
}

fn processors(count: u32) -> String {
    if count == 1 { "has 1 processor".to_owned() } else { format!("has {count} processors") }
}

fn not_held(achieved: f64, wanted: f64) -> &'static str {
    if achieved < wanted {
        "other programs used the processors"
    } else {
        "the load of this machine has changed"
    }
}

fn unchecked(cores: u32, wanted: f64) -> String {
    if cores == 1 {
        format!(", or use `--cpu {wanted:.2}`, which does not check the speed")
    } else {
        String::new()
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("\n  --database {}", path.display())).collect()
}

fn could_only_read(mounts: &[PathBuf]) -> String {
    match mounts {
        [] => String::new(),
        mounts => {
            let shown: Vec<String> = mounts.iter().map(|dir| dir.display().to_string()).collect();
            format!(". In the first run, the command can only read {}", shown.join(", "))
        }
    }
}

fn seen_units(seen: &[String]) -> String {
    const MOST: usize = 30;
    if seen.is_empty() {
        return "this machine has no systemd units or containers; leave --unit out to measure all programs"
            .to_owned();
    }
    let more = seen.len().saturating_sub(MOST);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("there are {}{rest}", seen[..seen.len() - more].join(", "))
}

impl From<WorkloadError> for ExperimentError {
    fn from(error: WorkloadError) -> ExperimentError {
        ExperimentError::Workload(Box::new(error))
    }
}

impl ExperimentError {
    pub(crate) fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> ExperimentError {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_processor_that_is_not_held_is_refused_in_one_sentence() {
        let refused = |cores, achieved, at| {
            let name = "pi-zero".to_owned();
            ExperimentError::ProcessorNotHeld { name, cores, wanted: 0.21, achieved, at }.to_string()
        };
        expect!["the speed of pi-zero could not be held: before the run, each core had 0.12 of a processor instead of 0.21, because other programs used the processors; try again when this machine is idle, or use `--cpu 0.21`, which does not check the speed"].assert_eq(&refused(1, 0.12, "before"));
        expect!["the speed of pi-zero could not be held: after the run, each core had 0.26 of a processor instead of 0.21, because the load of this machine has changed; try again when this machine is idle"].assert_eq(&refused(4, 0.26, "after"));
        let few = ExperimentError::TooFewCores { name: "pi-4".to_owned(), cores: 4, has: 2 };
        expect!["pi-4 has 4 cores, and this machine has 2 processors; `--cpu pi-4:2` imitates 2 of them"]
            .assert_eq(&few.to_string());
    }
}
