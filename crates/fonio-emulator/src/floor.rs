//! What the way through this machine costs by itself: the least time in which the emulator can answer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use fonio_core::{Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::EmulatorError;

/// The largest command measured; longer ones are taken to cost in proportion.
const LARGE_BYTES: usize = 512 << 10;
const SMALL_BYTES: usize = 4 << 10;
const SMALL_TRIES: usize = 400;
const LARGE_TRIES: usize = 40;

/// What a command costs beyond the model's time, by its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Of a command without data.
    pub fixed_ns: Nanos,
    /// Of each further KiB.
    pub per_kib_ns: Nanos,
}

impl Line {
    /// At `bytes`.
    pub fn at(&self, bytes: u64) -> Nanos {
        Nanos(self.fixed_ns.0 + self.per_kib_ns.0 * (bytes >> 10))
    }

    /// Through the costs of a small and a large command.
    fn through(small: Nanos, large: Nanos) -> Line {
        let kib = ((LARGE_BYTES - SMALL_BYTES) >> 10) as u64;
        let per_kib = large.0.saturating_sub(small.0) / kib;
        let fixed = small.0.saturating_sub(per_kib * (SMALL_BYTES >> 10) as u64);
        Line { fixed_ns: Nanos(fixed), per_kib_ns: Nanos(per_kib) }
    }
}

/// What the way costs, by op. It is taken off the model's times, so that the host sees these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overheads {
    /// Reads.
    pub read: Line,
    /// Writes.
    pub write: Line,
    /// Flushes.
    pub flush_ns: Nanos,
}

impl Overheads {
    pub(crate) fn of(&self, op: Op, bytes: u64) -> Nanos {
        match op {
            Op::Read => self.read.at(bytes),
            Op::Write => self.write.at(bytes),
            _ => self.flush_ns,
        }
    }
}

/// The floor as measured: commands that the serving process answers at once, one at a time, with direct I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Half of the 4 KiB reads took at most this.
    pub read_4k_median_ns: Nanos,
    /// All but one in a hundred.
    pub read_4k_p99_ns: Nanos,
    /// Half of the 4 KiB writes.
    pub write_4k_median_ns: Nanos,
    /// Half of the 512 KiB reads.
    pub read_512k_median_ns: Nanos,
    /// Half of the 512 KiB writes.
    pub write_512k_median_ns: Nanos,
    /// Half of the flushes.
    pub flush_median_ns: Nanos,
}

impl Floor {
    /// Measures `device`, which must answer at once. What it holds stays: only what was read is written back.
    ///
    /// # Errors
    ///
    /// [`EmulatorError::System`].
    pub fn measure(device: &Path) -> Result<Floor, EmulatorError> {
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(direct)
            .open(device)
            .map_err(EmulatorError::system("open", device))?;
        let measured = measure(&file).map_err(EmulatorError::system("measure", device))?;
        Ok(measured)
    }

    /// What is taken off the model's times.
    pub fn overheads(&self) -> Overheads {
        Overheads {
            read: Line::through(self.read_4k_median_ns, self.read_512k_median_ns),
            write: Line::through(self.write_4k_median_ns, self.write_512k_median_ns),
            flush_ns: self.flush_median_ns,
        }
    }

    /// The least that a 4 KiB command needs.
    pub fn least(&self) -> Nanos {
        self.read_4k_median_ns.max(self.write_4k_median_ns)
    }
}

fn measure(file: &File) -> io::Result<Floor> {
    let mut small = Aligned::new(SMALL_BYTES);
    let mut large = Aligned::new(LARGE_BYTES);
    let read = |buffer: &mut Aligned| file.read_exact_at(buffer.bytes(), 0);
    let write = |buffer: &mut Aligned| file.write_all_at(buffer.bytes(), 0);
    // The first ones pay for page faults and cold caches.
    timed(SMALL_TRIES / 4, || read(&mut small))?;
    let small_reads = timed(SMALL_TRIES, || read(&mut small))?;
    let small_writes = timed(SMALL_TRIES, || write(&mut small))?;
    let large_reads = timed(LARGE_TRIES, || read(&mut large))?;
    let large_writes = timed(LARGE_TRIES, || write(&mut large))?;
    let flushes = timed(LARGE_TRIES, || file.sync_data())?;
    Ok(Floor {
        read_4k_median_ns: quantile(&small_reads, 50),
        read_4k_p99_ns: quantile(&small_reads, 99),
        write_4k_median_ns: quantile(&small_writes, 50),
        read_512k_median_ns: quantile(&large_reads, 50),
        write_512k_median_ns: quantile(&large_writes, 50),
        flush_median_ns: quantile(&flushes, 50),
    })
}

/// How long each of `tries` calls took, the shortest first.
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

/// Memory for direct I/O, which wants its buffers aligned.
struct Aligned {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + SMALL_BYTES];
        let from = memory.as_ptr().align_offset(SMALL_BYTES);
        Aligned { memory, from, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_through_both_points() {
        let line = Line::through(Nanos(30_000), Nanos(157_000));
        assert_eq!(line.per_kib_ns, Nanos(250));
        assert_eq!((line.at(4096), line.at(512 << 10)), (Nanos(30_000), Nanos(157_000)));
        assert_eq!(Line::through(Nanos(9), Nanos(5)).at(1 << 20), Nanos(9), "never a negative slope");
    }

    #[test]
    fn buffers_are_aligned() {
        let mut buffer = Aligned::new(8192);
        assert_eq!((buffer.bytes().as_ptr() as usize % 4096, buffer.bytes().len()), (0, 8192));
    }
}
