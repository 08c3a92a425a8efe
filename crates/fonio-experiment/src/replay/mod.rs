//! Replays a recording on any storage, so that a user's own load becomes a workload.
//!
//! [`What::Blocks`] replays the reads, writes and flushes of the device. They bypass the page cache and use
//! one file that contains every accessed chunk. [`What::Calls`] replays the file-system calls. They use the
//! page cache and the file system, with files of the recorded lengths.
//!
//! Each recorded thread is a thread of the replay. If an access began after the thread's previous access had
//! completed, the replay starts the access when the previous access has completed and the recorded pause has
//! passed. So the thread continues earlier on a faster device. An access also waits for another thread's
//! access if the recording shows that the other thread woke or started the thread of the access.

pub mod blocks;
pub mod calls;
pub mod model;
mod signals;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::meta::SHOWS_CALLS;
use fonio_core::{ByteCount, Meta};
use fonio_host::Step;
use fonio_recording::{Recording, Table, Tables};
use fonio_sim::engine::Begins;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::filling::Space;
use signals::Signals;

pub use fonio_sim::recorded::{Chunks, TooLarge};

/// The part of a recording that is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// The I/O of the device is replayed.
    #[default]
    Blocks,
    /// The file-system calls are replayed.
    Calls,
}

/// The sequence of accesses or calls that are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// The reads, writes and flushes of the device.
    Blocks(blocks::Sequence),
    /// The recorded file-system calls.
    Calls(calls::Sequence),
}

struct Shared {
    began: Instant,
    fast: bool,
    signals: Signals,
    has_failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl Shared {
    fn new(signals: u32, fast: bool) -> Shared {
        Shared {
            began: Instant::now(),
            fast,
            signals: Signals::new(signals),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Waits until an access is due. The thread's previous access lasted from `began` to `ended`. Returns
    /// false if the replay fails before the access is due.
    fn wait(&self, begins: Begins, (began, ended): (Instant, Instant)) -> bool {
        let (after, pause) = match begins {
            Begins::At(time) => (self.began, time),
            Begins::AfterEnd(time) => (ended, time),
            Begins::AfterBegin(time) => (began, time),
            Begins::AfterOther { signal, pause } => match self.signals.wait(signal, &|| self.has_failed()) {
                Some(other) => (other, pause),
                None => return false,
            },
        };
        if !self.fast {
            let due = after + Duration::from_nanos(pause.0);
            while !self.has_failed() && Instant::now() < due {
                thread::sleep(due.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP));
            }
        }
        !self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Makes all threads end before their next access.
    fn halt(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn fail(&self, error: io::Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn into_failure(self) -> Option<io::Error> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that pauses for longer looks from time to time whether the replay has failed.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Returns whether a recording has all file-system calls of the followed processes. A trace of another program can have some,
/// such as the slow ones, or only those that reached the device.
pub(crate) fn has_all_calls(meta: &Meta) -> bool {
    meta.source.shows.iter().any(|shown| shown == SHOWS_CALLS)
}

/// Computes a replay's sequence from the recording in `dir`.
pub fn sequence(dir: &Path, what: What) -> Result<Sequence, ExperimentError> {
    let recording = Recording::open(dir)?;
    let too_large = |why| ExperimentError::TooLarge { recording: dir.to_owned(), why };
    let both = Tables::NONE.with(Table::Threads).with(Table::Waits);
    match what {
        What::Blocks => {
            let mut collected = blocks::Collected::default();
            let tables = both.with(Table::Bios).with(Table::Requests);
            recording.replay(&mut collected, tables)?;
            let sequence = collected.sequence().map_err(too_large)?;
            if sequence.is_empty() {
                return Err(ExperimentError::NothingToReplay { recording: dir.to_owned() });
            }
            Ok(Sequence::Blocks(sequence))
        }
        What::Calls => {
            let mut collected = calls::Collected::default();
            recording.replay(&mut collected, both.with(Table::Calls).with(Table::Files))?;
            let sequence = collected.sequence().map_err(too_large)?;
            if sequence.is_empty() {
                return Err(ExperimentError::NoCalls { recording: dir.to_owned() });
            }
            if !has_all_calls(recording.meta()) {
                return Err(ExperimentError::SomeCalls { recording: dir.to_owned() });
            }
            Ok(Sequence::Calls(sequence))
        }
    }
}

impl Sequence {
    /// Returns [`blocks::NO_FLUSHES`] if the recording has none, although the device `on` needs them for syncs. `on` is
    /// the recording of the replay.
    pub fn note_on_flushes(&self, on: &Meta) -> Option<&'static str> {
        let Sequence::Blocks(sequence) = self else { return None };
        let is_volatile = on.devices.iter().any(|device| {
            let is_of_replay = on.watched.is_empty() || on.watched.contains(&device.id);
            is_of_replay && device.write_cache.as_deref() == Some("write back")
        });
        (is_volatile && sequence.has_only_volatile_writes()).then_some(blocks::NO_FLUSHES)
    }

    /// Returns the replayed part of the recording.
    pub fn what(&self) -> What {
        match self {
            Sequence::Blocks(_) => What::Blocks,
            Sequence::Calls(_) => What::Calls,
        }
    }

    /// Returns the file name of the replay's file or folder.
    pub fn name(&self) -> &'static str {
        match self {
            Sequence::Blocks(_) => "fonio-replay.dat",
            Sequence::Calls(_) => "fonio-replay",
        }
    }

    pub(crate) fn step(&self, at: &Path) -> Step {
        match self {
            Sequence::Blocks(_) => Step::File { path: at.to_owned() },
            Sequence::Calls(_) => Step::Tree { path: at.to_owned() },
        }
    }

    /// Returns the maximum space that the replay's file or folder occupies.
    pub fn room(&self) -> ByteCount {
        match self {
            Sequence::Blocks(sequence) => sequence.file_bytes,
            Sequence::Calls(sequence) => sequence.room(),
        }
    }

    /// Creates the replay's file or folder. The file's data are durable and not in the page cache, because an
    /// access to a hole or to the page cache would not reach the device.
    pub fn prepare(&self, at: &Path) -> Result<(), ExperimentError> {
        let parent = at.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (wanted, free) = (self.room(), Space::of(parent)?.free);
        if wanted >= free {
            return Err(ExperimentError::NoRoom { wanted, free, place: parent.to_owned() });
        }
        let made = match self {
            Sequence::Blocks(sequence) => blocks::prepare(sequence, at),
            Sequence::Calls(sequence) => calls::prepare(sequence, at),
        };
        made.map_err(ExperimentError::system("write", at))
    }

    /// Replays on the file or folder that [`Sequence::prepare`] created; `fast` skips all pauses.
    pub fn replay(&self, at: &Path, fast: bool) -> Result<Replayed, ExperimentError> {
        let began = Instant::now();
        let done = match self {
            Sequence::Blocks(sequence) => blocks::play(sequence, at, fast),
            Sequence::Calls(sequence) => calls::play(sequence, at, fast),
        };
        let done = done.map_err(ExperimentError::system("replay on", at))?;
        Ok(Replayed { took: began.elapsed(), ..done })
    }
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// The time from the start of the first access to the end of the last access.
    pub took: Duration,
    /// The number of replayed accesses or calls.
    pub accesses: u64,
    /// The number of bytes that were read and written.
    pub bytes: ByteCount,
    /// The number of reads that returned fewer bytes than recorded, because the file was shorter.
    pub short_reads: u64,
}

impl Replayed {
    /// Writes the result to a file.
    pub fn save(&self, file: &Path) -> Result<(), ExperimentError> {
        let text = serde_json::to_vec(self).expect("numbers are JSON");
        std::fs::write(file, text).map_err(ExperimentError::system("write", file))
    }

    pub(crate) fn load(file: &Path) -> Result<Replayed, ExperimentError> {
        let text = std::fs::read(file).map_err(ExperimentError::system("read", file))?;
        serde_json::from_slice(&text)
            .map_err(|error| ExperimentError::system("understand", file)(error.into()))
    }
}

#[cfg(test)]
mod tests;
