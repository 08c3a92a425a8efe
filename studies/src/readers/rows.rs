//! The rows of a trace or a recording.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use fonio_core::{BlockEvent, CollectedRows, DeviceId, Meta, Request};
use fonio_recording::{Recording, Tables};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};

/// Each recorder reads the clock by itself, so its times differ from those of others. We allow 1 %, and for short times the
/// 2 µs that separate the clock readings of four tracepoint handlers.
const SHARE_MAX: f64 = 0.01;
const MICROS_MAX: f64 = 2.0;

/// The end of a sentence on equal times.
pub const EQUAL_TIMES: &str = "time at most 1 % or 2 µs different.";

/// Opens a trace as fonio's commands do.
pub fn input(path: &Path) -> Result<Input> {
    let file = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let mut input = Input::new(path.display().to_string(), Box::new(file()?));
    input.file = Some(Box::new(file()?));
    Ok(input)
}

/// Reads a trace of another tool.
pub fn of_trace(path: &Path) -> Result<(CollectedRows, Meta)> {
    let mut rows = CollectedRows::default();
    let mut reader = open(vec![input(path)?], &ReadOptions::default())?;
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows)?;
    Ok((rows, meta))
}

/// Reads the events of a trace of another tool.
pub fn events_of(path: &Path) -> Result<Vec<BlockEvent>> {
    Ok(open(vec![input(path)?], &ReadOptions::default())?.read_all()?.events)
}

/// Reads a recording of fonio.
pub fn of_recording(folder: &Path) -> Result<(CollectedRows, Meta)> {
    let recording = Recording::open(folder)?;
    let mut rows = CollectedRows::default();
    recording.replay(&mut rows, Tables::ALL)?;
    Ok((rows, recording.meta().clone()))
}

/// The issued requests of a device.
pub struct Served {
    pub requests: usize,
    pub bytes: u64,
    /// The service times in ns, sorted. They are fewer than the requests if completions are missing.
    pub times: Vec<u64>,
}

impl Served {
    pub fn of(rows: &CollectedRows, device: DeviceId) -> Served {
        let issued: Vec<&Request> =
            rows.requests.iter().filter(|row| row.device == device && row.issued.is_some()).collect();
        let mut times: Vec<u64> = issued.iter().filter_map(|row| row.service()).map(|time| time.0).collect();
        times.sort_unstable();
        Served { requests: issued.len(), bytes: issued.iter().map(|row| row.bytes.0).sum(), times }
    }

    /// Returns the number of requests whose completion is missing.
    pub fn open(&self) -> usize {
        self.requests - self.times.len()
    }

    /// Returns the mean in µs.
    pub fn mean(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len().max(1) as f64 / 1e3
    }

    /// Returns the smallest time that is not shorter than this share of all times, in µs.
    pub fn percentile(&self, percent: usize) -> f64 {
        let place = (self.times.len() * percent).div_ceil(100).max(1) - 1;
        self.times.get(place).map_or(f64::NAN, |time| *time as f64 / 1e3)
    }

    pub fn max(&self) -> f64 {
        self.percentile(100)
    }
}

/// Returns whether two times in µs are equal in the sense of this study.
pub fn is_equal(ours: f64, theirs: f64) -> bool {
    let difference = (ours - theirs).abs();
    difference <= MICROS_MAX || difference <= SHARE_MAX * theirs
}
