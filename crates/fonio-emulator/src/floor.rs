//! Measures the latency of the I/O path on this machine: the shortest time in which the emulator can complete
//! a command.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use fonio_core::{Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::aligned::Aligned;
use crate::error::EmulatorError;

/// Returns whether this process can create ublk devices, which fonio prefers to loop devices on FUSE files.
pub fn has_ublk() -> bool {
    fonio_host::check_ublk().is_ok()
}

/// Size of the largest measured command; the latency of still larger commands is extrapolated.
const LARGE_BYTES: usize = 512 << 10;
const SMALL_BYTES: usize = 4 << 10;
const SMALL_TRIES: usize = 300;
const LARGE_TRIES: usize = 40;

/// Latency that the I/O path adds to a command, as a linear function of the command's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Latency that the I/O path adds to a command without data.
    pub fixed_ns: Nanos,
    /// Additional latency for each KiB of data.
    pub per_kib_ns: Nanos,
}

impl Line {
    /// Returns the latency that the I/O path adds to a command of `bytes`.
    pub fn at(&self, bytes: u64) -> Nanos {
        Nanos(self.fixed_ns.0 + self.per_kib_ns.0 * (bytes >> 10))
    }

    fn through(small: Nanos, large: Nanos) -> Line {
        let kib = ((LARGE_BYTES - SMALL_BYTES) >> 10) as u64;
        let per_kib = large.0.saturating_sub(small.0) / kib;
        let fixed = small.0.saturating_sub(per_kib * (SMALL_BYTES >> 10) as u64);
        Line { fixed_ns: Nanos(fixed), per_kib_ns: Nanos(per_kib) }
    }
}

/// Delay of each completion for measuring the I/O path under realistic conditions. During this delay, waiting
/// threads go to sleep. Waking them takes longer than completing a command before they sleep.
pub(crate) const SHORT_DELAY: Nanos = Nanos(300_000);

/// Delay of each completion while the I/O path for slow devices is measured. The host of a virtual machine
/// gives a halted CPU to other tasks after about 200 µs, and needs time to return the CPU.
pub(crate) const LONG_DELAY: Nanos = Nanos(2_000_000);

/// Percentile of the measured latencies that fonio subtracts from the model's times. The median would include
/// the effects of other programs. If too much is subtracted, commands overlap in the model although they do
/// not overlap in reality.
const OVERHEAD_PERCENT: usize = 25;

/// Maximum plausible ratio of a latency with sleeping and waking to the floor. We measured ratios of at most
/// three; a ratio above four means that other programs were running.
const SLEEP_FACTOR_MAX: u64 = 4;

/// Latency of the I/O path, by operation. fonio subtracts this latency from the model's times, so the host
/// sees the model's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each field is named after its op")]
pub struct Overheads {
    pub read: Line,
    pub write: Line,
    pub flush_ns: Nanos,
}

/// Latency of the I/O path for short and for long commands. The latencies differ, because a thread needs
/// longer to wake up after a longer sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverheadsByTime {
    /// Latency for commands that take 300 µs or less in the model.
    pub short: Overheads,
    /// Latency for commands that take 2 ms or more in the model.
    pub long: Overheads,
}

impl OverheadsByTime {
    /// Returns the latency for a command that takes `time` in the model, interpolated between `short` and
    /// `long`.
    pub(crate) fn of(&self, op: Op, bytes: u64, time: Nanos) -> Nanos {
        let (short, long) =
            (self.short.of(op, bytes).0, self.long.of(op, bytes).0.max(self.short.of(op, bytes).0));
        let span = LONG_DELAY.0 - SHORT_DELAY.0;
        let beyond = time.0.saturating_sub(SHORT_DELAY.0).min(span);
        Nanos(short + (long - short) * beyond / span)
    }
}

impl Overheads {
    /// Measures the latency of the I/O path to `device`, which must complete commands after `delay` without
    /// its model. The device's data do not change. The result is at most [`SLEEP_FACTOR_MAX`] times `floor`,
    /// the minimum latency.
    pub(crate) fn measure(device: &Path, floor: &Floor, delay: Nanos) -> Result<Overheads, EmulatorError> {
        // Measure fewer commands with a long delay, because the usual number would take seconds.
        let fewer = if delay.0 > SHORT_DELAY.0 { 4 } else { 1 };
        let taken = Taken::measure(device, fewer)?.overheads(delay);
        Ok(taken.at_most(&floor.least, SLEEP_FACTOR_MAX))
    }

    fn at_most(self, other: &Overheads, times: u64) -> Overheads {
        let least = |own: Nanos, other: Nanos| own.min(Nanos(other.0 * times));
        let line = |own: Line, other: Line| Line {
            fixed_ns: least(own.fixed_ns, other.fixed_ns),
            per_kib_ns: least(own.per_kib_ns, other.per_kib_ns),
        };
        Overheads {
            read: line(self.read, other.read),
            write: line(self.write, other.write),
            flush_ns: least(self.flush_ns, other.flush_ns),
        }
    }

    pub(crate) fn of(&self, op: Op, bytes: u64) -> Nanos {
        match op {
            Op::Read => self.read.at(bytes),
            Op::Write => self.write.at(bytes),
            _ => self.flush_ns,
        }
    }
}

/// The measured floor: latencies of individual direct I/O commands that the serving process completes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "each field is named after its figure: `4k` is 4 KiB, and `p99` is the 99th percentile"
)]
pub struct Floor {
    pub read_4k_median_ns: Nanos,
    pub read_4k_p99_ns: Nanos,
    pub write_4k_median_ns: Nanos,
    pub read_512k_median_ns: Nanos,
    pub write_512k_median_ns: Nanos,
    pub flush_median_ns: Nanos,
    /// The 10th percentiles of the latencies, which approximate the latency while no other program runs.
    pub least: Overheads,
}

impl Floor {
    /// Measures the minimum latency of `device`, which must complete commands without its model. Writes only
    /// data that it has just read, so the device's data do not change.
    pub fn measure(device: &Path) -> Result<Floor, EmulatorError> {
        let taken = Taken::measure(device, 1)?;
        Ok(Floor {
            read_4k_median_ns: quantile(&taken.small_reads, 50),
            read_4k_p99_ns: quantile(&taken.small_reads, 99),
            write_4k_median_ns: quantile(&taken.small_writes, 50),
            read_512k_median_ns: quantile(&taken.large_reads, 50),
            write_512k_median_ns: quantile(&taken.large_writes, 50),
            flush_median_ns: quantile(&taken.flushes, 50),
            least: taken.overheads(Nanos(0)),
        })
    }

    /// Returns this machine's minimum latency of a 4 KiB command.
    pub fn least(&self) -> Nanos {
        self.least.read.at(SMALL_BYTES as u64).max(self.least.write.at(SMALL_BYTES as u64))
    }
}

struct Taken {
    small_reads: Vec<Nanos>,
    small_writes: Vec<Nanos>,
    large_reads: Vec<Nanos>,
    large_writes: Vec<Nanos>,
    flushes: Vec<Nanos>,
}

impl Taken {
    fn measure(device: &Path, fewer: usize) -> Result<Taken, EmulatorError> {
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let opened = OpenOptions::new().read(true).write(true).custom_flags(direct).open(device);
        let file = opened.map_err(EmulatorError::system("open", device))?;
        Taken::of(&file, fewer).map_err(EmulatorError::system("measure", device))
    }

    /// Measures `file` with the usual number of commands divided by `fewer`.
    fn of(file: &File, fewer: usize) -> io::Result<Taken> {
        let mut small = Aligned::new(SMALL_BYTES);
        let mut large = Aligned::new(LARGE_BYTES);
        let read = |buffer: &mut Aligned| file.read_exact_at(buffer.bytes(), 0);
        let write = |buffer: &mut Aligned| file.write_all_at(buffer.bytes(), 0);
        // The first commands are slower because of page faults and cold caches.
        timed(SMALL_TRIES / 4 / fewer, || read(&mut small))?;
        let small_reads = timed(SMALL_TRIES / fewer, || read(&mut small))?;
        let small_writes = timed(SMALL_TRIES / fewer, || write(&mut small))?;
        let large_reads = timed(LARGE_TRIES / fewer, || read(&mut large))?;
        let large_writes = timed(LARGE_TRIES / fewer, || write(&mut large))?;
        let flushes = timed(LARGE_TRIES / fewer, || file.sync_data())?;
        Ok(Taken { small_reads, small_writes, large_reads, large_writes, flushes })
    }

    fn overheads(&self, delay: Nanos) -> Overheads {
        let beyond = |sorted: &[Nanos]| Nanos(quantile(sorted, OVERHEAD_PERCENT).0.saturating_sub(delay.0));
        Overheads {
            read: Line::through(beyond(&self.small_reads), beyond(&self.large_reads)),
            write: Line::through(beyond(&self.small_writes), beyond(&self.large_writes)),
            flush_ns: beyond(&self.flushes),
        }
    }
}

fn timed(tries: usize, mut call: impl FnMut() -> io::Result<()>) -> io::Result<Vec<Nanos>> {
    let mut taken = Vec::with_capacity(tries);
    for _ in 0..tries {
        let start = Instant::now();
        call()?;
        taken.push(Nanos(start.elapsed().as_nanos() as u64));
    }
    taken.sort_unstable();
    Ok(taken)
}

fn quantile(sorted: &[Nanos], percent: usize) -> Nanos {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_commands_cost_more_on_the_way() {
        let line = |micros: u64| Line { fixed_ns: Nanos(micros * 1000), per_kib_ns: Nanos(0) };
        let by = |read| Overheads { read, ..Overheads::default() };
        let overheads = OverheadsByTime { short: by(line(40)), long: by(line(90)) };
        let at = |micros: u64| overheads.of(Op::Read, 4096, Nanos(micros * 1000)).0 / 1000;
        assert_eq!([0, 300, 1150, 2000, 400_000].map(at), [40, 40, 65, 90, 90]);
        // If the larger command was faster, the measurement is noisy.
        let noisy = OverheadsByTime { short: by(line(40)), long: by(line(30)) };
        assert_eq!(noisy.of(Op::Read, 4096, Nanos(2_000_000)), Nanos(40_000));
    }

    #[test]
    fn the_line_goes_through_both_points() {
        let line = Line::through(Nanos(30_000), Nanos(157_000));
        assert_eq!(line.per_kib_ns, Nanos(250));
        assert_eq!((line.at(4096), line.at(512 << 10)), (Nanos(30_000), Nanos(157_000)));
        let same = |micros: u64| vec![Nanos(micros * 1000); 3];
        let taken = Taken {
            small_reads: same(330),
            small_writes: same(300),
            large_reads: same(457),
            large_writes: same(290),
            flushes: Vec::from([Nanos(0)]),
        };
        let overheads = taken.overheads(Nanos(300_000));
        assert_eq!(overheads, Overheads { read: line, ..Overheads::default() });
        assert_eq!(Line::through(Nanos(9), Nanos(5)).at(1 << 20), Nanos(9), "never a negative slope");
    }
}
