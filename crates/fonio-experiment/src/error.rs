//! What can go wrong with an experiment.

use std::io;
use std::path::PathBuf;

use fonio_bench::BenchError;
use fonio_emulator::EmulatorError;
use fonio_host::HostError;
use fonio_record::RecordError;
use fonio_recording::RecordingError;
use fonio_system::SystemError;
use fonio_workload::WorkloadError;

/// An experiment that did not happen, or did not finish. All that it had made is undone then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// There is no fix of this name.
    #[error("there is no fix {name:?}; there are {}, and device=PROFILE", known.join(", "))]
    UnknownFix {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// A fix that means nothing for this setup.
    #[error("the fix {fix} cannot be tried here: {reason}")]
    NotApplicable {
        /// The fix.
        fix: String,
        /// Why.
        reason: &'static str,
    },
    /// The test bed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A device or directory whose throughput is measured.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The emulated device.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// The recorder.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Reading a recording back.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The workload.
    #[error(transparent)]
    Workload(Box<WorkloadError>),
    /// The process that does the work ended with an error, which it has said on standard error.
    #[error("the workload failed ({status}): {complaint}")]
    TaskFailed {
        /// How it ended.
        status: String,
        /// What it said.
        complaint: String,
    },
    /// A command ran, and where its time went is not in the recording.
    #[error("where the time of {command} went was not seen: {reason}")]
    NotSeen {
        /// The command.
        command: String,
        /// Why.
        reason: &'static str,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Somebody asked to stop.
    #[error("stopped; everything that was made for the run is undone")]
    Interrupted,
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
