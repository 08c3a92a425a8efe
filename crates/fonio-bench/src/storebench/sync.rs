//! Measures small synchronous writes, such as the commits of a database: a run repeatedly writes 4 KiB and
//! calls fdatasync.
//!
//! The range is allocated and written first, so the file system changes no metadata. The synchronous writes
//! bypass the page cache. If the device has a volatile cache, fdatasync flushes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fonio_core::statistics::sample::is_known;
use fonio_core::{Random, Unit};
use fonio_storebench_document::figures::Part;
use fonio_storebench_document::values;

use super::capacity::open;
use super::parts::{NO_TIME, PartResult};
use super::schedule::{PLACE_BYTES, SyncWork, WRITE_BYTES};
use crate::aligned::Buffer;
use crate::error::BenchError;

/// Minimum number of writes needed to compute a 99th percentile.
const WRITES_MIN: usize = 100;

/// The file or device to which the synchronous writes go.
#[derive(Debug)]
pub(super) struct SyncTarget {
    file: File,
    path: PathBuf,
    remove: bool,
}

impl SyncTarget {
    /// Creates the file `prefix`-0.data.
    pub fn in_folder(prefix: &Path) -> Result<SyncTarget, BenchError> {
        let mut path = prefix.as_os_str().to_owned();
        path.push("-0.data");
        let path = PathBuf::from(path);
        let file = open(&path, true).map_err(BenchError::system("create", &path))?;
        let target = SyncTarget { file, path, remove: true };
        // The next benchmark removes files without a lock.
        let locked = target.file.try_lock().map_err(io::Error::from);
        locked.map_err(BenchError::system("lock", &target.path))?;
        Ok(target)
    }

    /// Opens a device for writing. The measurement overwrites the beginning of the device.
    pub fn device(path: &Path) -> Result<SyncTarget, BenchError> {
        let file = open(path, false).map_err(BenchError::system("open for direct I/O", path))?;
        Ok(SyncTarget { file, path: path.to_owned(), remove: false })
    }

    fn failed(&self, error: io::Error) -> BenchError {
        match error.kind() {
            io::ErrorKind::StorageFull => {
                BenchError::Full { path: self.path.parent().unwrap_or(&self.path).to_owned() }
            }
            _ => BenchError::system("write and sync", &self.path)(error),
        }
    }
}

impl Drop for SyncTarget {
    fn drop(&mut self) {
        if self.remove {
            // If the removal fails, the next benchmark in this folder removes the file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub(super) struct Syncing<'a> {
    /// The number and range of the writes.
    pub work: SyncWork,
    /// Seed from which the addresses of the writes are drawn.
    pub seed: u64,
    /// The time at which the measurement must end.
    pub until: Instant,
    /// Set by a signal handler to interrupt the measurement.
    pub stop: &'a AtomicBool,
}

/// Repeats the measurement until the median write time is stable.
pub(super) fn measure(
    target: &SyncTarget,
    syncing: &Syncing<'_>,
    progress: &mut dyn FnMut(&str, u32),
) -> Result<PartResult, BenchError> {
    let mut result = PartResult::not_measured(Part::Sync, NO_TIME);
    let mut buffer = Buffer::default();
    let mut random = Random::new(syncing.seed);
    // Random bytes, because a device might compress or deduplicate regular ones.
    buffer
        .of(PLACE_BYTES)
        .chunks_mut(8)
        .for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    progress("laying out the file", 1);
    for at in 0..syncing.work.range_bytes / PLACE_BYTES {
        stopped(syncing.stop)?;
        let written = target.file.write_all_at(buffer.of(PLACE_BYTES), at * PLACE_BYTES);
        written.map_err(|error| target.failed(error))?;
        result.written_bytes += PLACE_BYTES;
    }
    target.file.sync_all().map_err(|error| target.failed(error))?;
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for run in 1..=syncing.work.runs_max {
        progress("writing and syncing", run);
        let mut times = one_run(target, syncing, &mut buffer, &mut random)?;
        result.written_bytes += times.len() as u64 * WRITE_BYTES;
        if times.is_empty() {
            break;
        }
        times.sort_by(f64::total_cmp);
        medians.push(at_share(&times, 0.5));
        if times.len() >= WRITES_MIN {
            tails.push(at_share(&times, 0.99));
        }
        let is_known = run >= syncing.work.runs_min && is_known(&medians, values::ERROR_MAX);
        if is_known || Instant::now() >= syncing.until {
            break;
        }
    }
    let few = format!("a run completed fewer than {WRITES_MIN} writes");
    let or = if medians.is_empty() { NO_TIME } else { &few };
    result.figures.insert("sync.write.4k.p50".to_owned(), values::mean(&medians, Unit::Ms, NO_TIME));
    result.figures.insert("sync.write.4k.p99".to_owned(), values::mean(&tails, Unit::Ms, or));
    Ok(result)
}

fn stopped(stop: &AtomicBool) -> Result<(), BenchError> {
    if stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// Measures how long each write of a run takes, in milliseconds.
fn one_run(
    target: &SyncTarget,
    syncing: &Syncing<'_>,
    buffer: &mut Buffer,
    random: &mut Random,
) -> Result<Vec<f64>, BenchError> {
    let end = (Instant::now() + syncing.work.run_time_max).min(syncing.until);
    let mut times = Vec::new();
    while (times.len() as u64) < syncing.work.writes_max && Instant::now() < end {
        stopped(syncing.stop)?;
        let content = &mut buffer.of(PLACE_BYTES)[..WRITE_BYTES as usize];
        content[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        let offset = random.below(syncing.work.range_bytes / WRITE_BYTES) * WRITE_BYTES;
        let began = Instant::now();
        let written = target.file.write_all_at(content, offset).and_then(|()| target.file.sync_data());
        times.push(began.elapsed().as_secs_f64() * 1e3);
        written.map_err(|error| target.failed(error))?;
    }
    Ok(times)
}

/// Returns the value at the fraction `share` of the sorted values.
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn syncing(stop: &AtomicBool, runs_max: u32) -> Syncing<'_> {
        let run_time_max = Duration::from_secs(20);
        Syncing {
            work: SyncWork { range_bytes: 2 << 20, writes_max: 120, runs_min: 1, runs_max, run_time_max },
            seed: 1,
            until: Instant::now() + Duration::from_secs(60),
            stop,
        }
    }

    #[test]
    fn shares_are_those_of_nearest_ranks() {
        let sorted: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((at_share(&sorted, 0.5), at_share(&sorted, 0.99)), (100.0, 198.0));
        assert_eq!((at_share(&[7.0], 0.5), at_share(&[7.0], 0.99)), (7.0, 7.0));
    }

    #[test]
    fn synchronous_writes_are_measured_and_the_file_goes() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let prefix = folder.path().join(".fonio-bench-1-sync");
        let target = match SyncTarget::in_folder(&prefix) {
            Ok(target) => target,
            Err(error) => return fonio_testing::skip(fonio_testing::Need::DirectIo, error),
        };
        let stop = AtomicBool::new(false);
        let result = measure(&target, &syncing(&stop, 2), &mut |_, _| {}).expect("it can be written");
        let of = |name: &str| *result.figures[name].value().expect("it was measured");
        let (median, tail) = (of("sync.write.4k.p50"), of("sync.write.4k.p99"));
        assert!(0.0 < median.value && median.value <= tail.value, "{median:?} {tail:?}");
        assert!(result.written_bytes >= (2 << 20) + 120 * WRITE_BYTES, "{}", result.written_bytes);
        stop.store(true, Ordering::Relaxed);
        let stopped = measure(&target, &syncing(&stop, 2), &mut |_, _| {});
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{stopped:?}");
        drop(target);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }

    #[test]
    fn without_time_nothing_is_measured() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let target = match SyncTarget::in_folder(&folder.path().join(".fonio-bench-1-sync")) {
            Ok(target) => target,
            Err(error) => return fonio_testing::skip(fonio_testing::Need::DirectIo, error),
        };
        let stop = AtomicBool::new(false);
        let syncing = Syncing { until: Instant::now(), ..syncing(&stop, 3) };
        let result = measure(&target, &syncing, &mut |_, _| {}).expect("it can be written");
        assert!(result.figures.values().all(|figure| figure.value().is_none()), "{:?}", result.figures);
    }
}
