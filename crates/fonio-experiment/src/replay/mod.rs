//! Replays the block I/O of a recording on any storage, so that a user's own load is a workload.
//!
//! The replay works on one file that holds every accessed place; it bypasses the page cache. Each thread of the recording
//! becomes a thread. An access that began after the thread's previous one had ended waits for that one here too, and begins
//! as long after it as in the recording: on a faster device, the thread goes on earlier. Write-back, for which nobody waits,
//! keeps its times.

mod plan;
mod play;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use fonio_core::ByteCount;
use fonio_recording::{Recording, Table, Tables};

use crate::error::ExperimentError;
use crate::filling::Space;
pub use plan::{Access, Begins, Kind, Plan};

/// The name of the file on which a replay works.
pub const FILE: &str = "fonio-replay.dat";

/// Reads what the recording in `dir` did, on the device with the most accesses.
///
/// # Errors
///
/// [`ExperimentError::Recording`], or [`ExperimentError::NothingToReplay`].
pub fn plan(dir: &Path) -> Result<Plan, ExperimentError> {
    let mut collected = plan::Collected::default();
    let tables = Tables::NONE.with(Table::Threads).with(Table::Bios).with(Table::Requests);
    Recording::open(dir)?.replay(&mut collected, tables)?;
    let plan = collected.plan();
    if plan.is_empty() {
        return Err(ExperimentError::NothingToReplay { recording: dir.to_owned() });
    }
    Ok(plan)
}

/// Writes the file on which a replay works, and makes it durable: an access to a hole would be no access.
///
/// # Errors
///
/// [`ExperimentError::NoRoom`], or a system call failed.
pub fn prepare(plan: &Plan, file: &Path) -> Result<(), ExperimentError> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let free = Space::of(parent)?.free;
    if plan.file_bytes >= free {
        return Err(ExperimentError::NoRoom { wanted: plan.file_bytes, free, place: parent.to_owned() });
    }
    let failed = || ExperimentError::system("write", file);
    let mut out = File::create(file).map_err(failed())?;
    let chunk: Vec<u8> = (0..plan::CHUNK).map(|at| (at * 31 % 251) as u8).collect();
    for _ in 0..plan.file_bytes.0 / plan::CHUNK {
        out.write_all(&chunk).map_err(failed())?;
    }
    out.sync_all().map_err(failed())
}

/// What a replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Accesses.
    pub accesses: u64,
    /// Bytes read and written.
    pub bytes: ByteCount,
}

/// Replays on `file`; `fast` leaves out all pauses.
///
/// # Errors
///
/// The first access that failed.
pub fn replay(plan: &Plan, file: &Path, fast: bool) -> Result<Replayed, ExperimentError> {
    play::play(plan, file, fast).map_err(ExperimentError::system("replay on", file))
}
