//! Recreates the write-back of data that a program wrote before the recreated part of a recording.
//!
//! The kernel writes data back up to half a minute after a program wrote them, often much at once. A sync of another
//! program then waits for it. All data are written back before a scene is played, so without this module, the kernel
//! would have nothing to write back in a scene of some seconds.
//!
//! While a scene is played, as many bytes as the kernel wrote back at a time of the recording are written to a new file
//! at this time, and their write-back is started at once. A program that goes on writing at the same rate has the same
//! write-back. The data are not written before the scene: a fix that lets less dirty data collect would then move them
//! out of the scene, although it does not make them fewer.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fonio_bench::aligned::Buffer;
use fonio_core::{ByteCount, DeviceId, Op, Request, Timestamp};
use fonio_host::start_write_back;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The name of the file in the folder of a trial.
const NAME: &str = "written-back";
/// Requests that begin within this time are started together.
const TOGETHER: Duration = Duration::from_millis(100);
/// The most requests of which the times are kept.
const REQUESTS_MAX: usize = 1 << 20;
const PIECE_BYTES: u64 = 1 << 20;
const LOOK: Duration = Duration::from_millis(10);

/// Write-back that begins at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Burst {
    /// The time since the scene began.
    pub(super) at: Duration,
    pub(super) bytes: ByteCount,
}

/// Requests of a recording that wrote back the data of programs, and the devices of all programs' requests.
#[derive(Debug, Default)]
pub(super) struct WrittenBack {
    requests: Vec<Written>,
    /// The bytes that each thread caused on each device.
    devices: FxHashMap<(u32, DeviceId), u64>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    /// The thread that wrote the data.
    cause: u32,
    device: DeviceId,
    queued: Timestamp,
    completed: Timestamp,
    bytes: u64,
}

impl WrittenBack {
    /// Takes a request of the recording.
    pub(super) fn request(&mut self, row: &Request) {
        let Some(cause) = row.cause_tid.or(row.tid) else { return };
        let key = (cause, row.device);
        if self.devices.len() < REQUESTS_MAX || self.devices.contains_key(&key) {
            let sum = self.devices.entry(key).or_default();
            *sum = sum.saturating_add(row.bytes.0);
        }
        let is_for_another = row.cause_tid.is_some() && row.tid.is_some() && row.tid != row.cause_tid;
        let times = row.queued.or(row.issued).zip(row.completed);
        if let (Op::Write, true, Some((queued, completed))) = (row.op, is_for_another, times)
            && self.requests.len() < REQUESTS_MAX
        {
            self.requests.push(Written { cause, device: row.device, queued, completed, bytes: row.bytes.0 });
        }
    }

    /// Returns the write-back of a program's data between two times, on the device on which the delayed program had
    /// most of its requests. What was in the device's queue when the part began is written back at its beginning.
    /// `is_same` tells whether two threads belong to one process.
    pub(super) fn bursts(
        &self,
        from: Timestamp,
        until: Timestamp,
        is_victim: impl Fn(u32) -> bool,
        is_culprit: impl Fn(u32) -> bool,
    ) -> Vec<Burst> {
        let mut of_device: FxHashMap<DeviceId, u64> = FxHashMap::default();
        for ((tid, device), bytes) in &self.devices {
            if is_victim(*tid) {
                let sum = of_device.entry(*device).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
        let Some((device, _)) = of_device.into_iter().max_by_key(|(device, bytes)| (*bytes, *device)) else {
            return Vec::new();
        };
        let mut written: Vec<(Duration, u64)> = (self.requests.iter())
            .filter(|request| request.device == device && is_culprit(request.cause))
            .filter(|request| request.completed > from && request.queued < until)
            .map(|request| {
                let at = request.queued.since(from).unwrap_or_default();
                (Duration::from_nanos(at.0), request.bytes)
            })
            .collect();
        written.sort_unstable();
        let mut bursts: Vec<Burst> = Vec::new();
        for (at, bytes) in written {
            match bursts.last_mut() {
                Some(last) if at - last.at < TOGETHER => last.bytes.0 = last.bytes.0.saturating_add(bytes),
                _ => bursts.push(Burst { at, bytes: ByteCount(bytes) }),
            }
        }
        bursts
    }
}

/// Returns the number of bytes in all bursts.
pub(super) fn bytes(bursts: &[Burst]) -> u64 {
    bursts.iter().map(|burst| burst.bytes.0).fold(0, u64::saturating_add)
}

/// Returns the write-back of a program that can write only `rate` bytes per second, in a part of this length. The
/// program then has fewer data to write back, at the same times: the kernel lets a program change data only as fast as
/// they are written back.
pub(super) fn limited(bursts: &[Burst], rate: ByteCount, span: Duration) -> Vec<Burst> {
    let allowed = rate.0 as f64 * span.as_secs_f64();
    let share = (allowed / bytes(bursts) as f64).min(1.0);
    let less = |bytes: u64| ByteCount((bytes as f64 * share) as u64);
    bursts.iter().map(|burst| Burst { bytes: less(burst.bytes.0), ..*burst }).collect()
}

/// Writes the data of each burst to a new file in the folder and starts their write-back, at its time, until `is_over`.
pub(super) fn play(bursts: &[Burst], folder: &Path, is_over: &AtomicBool) -> io::Result<()> {
    if bursts.is_empty() {
        return Ok(());
    }
    let path = folder.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create(path)?;
    let mut buffer = Buffer::default();
    let (began, mut at) = (Instant::now(), 0);
    for burst in bursts {
        while began.elapsed() < burst.at && !is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK.min(burst.at.saturating_sub(began.elapsed())));
        }
        let (from, end) = (at, at + burst.bytes.0);
        while at < end {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let piece = PIECE_BYTES.min(end - at);
            file.write_all_at(buffer.of(piece), at)?;
            at += piece;
        }
        start_write_back(&file, from, burst.bytes.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn write_back_of_the_program_in_the_way_is_found_with_its_times() {
        let (card, other) = (DeviceId::new(179, 0), DeviceId::new(8, 0));
        let mut found = WrittenBack::default();
        for (tid, cause, device, op, queued, completed, bytes) in [
            // The delayed program, thread 7, reads and syncs on the card.
            (7, 7, card, Op::Read, 1, 2, 10),
            (7, 7, other, Op::Read, 1, 2, 5),
            // The kernel's thread 9 writes back the data of thread 8, which is in the way.
            (9, 8, card, Op::Write, 50, 90, 100),
            (9, 8, card, Op::Write, 80, 130, 1),
            (9, 8, card, Op::Write, 120, 160, 2),
            (9, 8, card, Op::Write, 210, 400, 4),
            (9, 8, card, Op::Write, 250, 500, 8),
            (9, 8, card, Op::Write, 400, 700, 200),
            (9, 8, other, Op::Write, 210, 400, 400),
            (8, 8, card, Op::Write, 210, 400, 800),
            (9, 6, card, Op::Write, 210, 400, 1600),
        ] {
            found.request(&Request {
                tid: Some(tid),
                cause_tid: Some(cause),
                queued: Some(Timestamp(queued * MS)),
                completed: Some(Timestamp(completed * MS)),
                ..Request::new(device, op, ByteCount(bytes))
            });
        }
        let (from, until) = (Timestamp(100 * MS), Timestamp(400 * MS));
        let bursts = found.bursts(from, until, |tid| tid == 7, |tid| tid == 8);
        let expected = [(0, 3), (110, 12)]
            .map(|(at, bytes)| Burst { at: Duration::from_millis(at), bytes: ByteCount(bytes) });
        assert_eq!((&bursts[..], bytes(&bursts)), (&expected[..], 15));
        assert_eq!(found.bursts(from, until, |tid| tid == 5, |tid| tid == 8), [], "its device is unknown");
    }

    #[test]
    fn a_limited_program_has_less_to_write_back() {
        let burst = |at, bytes| Burst { at: Duration::from_secs(at), bytes: ByteCount(bytes) };
        let bursts = [burst(0, 300), burst(3, 100)];
        let limited = |rate| limited(&bursts, ByteCount(rate), Duration::from_secs(4));
        assert_eq!(limited(50), [burst(0, 150), burst(3, 50)]);
        assert_eq!(limited(200), bursts);
        assert_eq!(super::limited(&[], ByteCount(1), Duration::from_secs(4)), []);
    }

    #[test]
    fn bursts_become_a_file() {
        let dir = tempfile::tempdir().expect("dir");
        let burst = |at, bytes| Burst { at: Duration::from_millis(at), bytes: ByteCount(bytes) };
        let bursts = [burst(0, 3 << 20), burst(20, 12345)];
        let (never, over) = (AtomicBool::new(false), AtomicBool::new(true));
        for _ in 0..2 {
            play(&bursts, dir.path(), &never).expect("it is written back");
            let file = dir.path().join(NAME).metadata().expect("it is there");
            assert_eq!(file.len(), (3 << 20) + 12345);
        }
        play(&[burst(3_600_000, 1)], dir.path(), &over).expect("it ends at once");
        assert_eq!(dir.path().join(NAME).metadata().expect("it is there").len(), 0);
        let none = dir.path().join("none");
        play(&[], &none, &never).expect("there is nothing to do");
        assert!(!none.exists());
    }
}
