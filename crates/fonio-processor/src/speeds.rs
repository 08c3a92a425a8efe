//! Runs the tests. [`Speeds`] are comparable with published results; [`Tests`] only with themselves.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::lzma;
use crate::memory::Memory;
use crate::processor::Test;
use crate::sample::data;
use crate::sqlite::Sqlite;

/// Size of the data of the short integer test.
const SHORT: usize = 1 << 18;
/// Processor time of each test in [`Speeds::measure`], apart from the compression, which runs once.
const MEASURED: Duration = Duration::from_millis(300);
/// Number of reads between two looks at the clock: about a millisecond.
const READS: u32 = 10_000;

/// The clock by which a speed is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The processor time of the thread: the speed of the processor while it runs the thread.
    Processor,
    /// The time that passes: the speed that the thread gets.
    Wall,
}

struct Watch {
    clock: Clock,
    wall: Instant,
    processor: Duration,
}

impl Watch {
    fn start(clock: Clock) -> Watch {
        Watch { clock, wall: Instant::now(), processor: of_thread() }
    }

    fn elapsed(&self) -> Duration {
        match self.clock {
            Clock::Processor => of_thread() - self.processor,
            Clock::Wall => self.wall.elapsed(),
        }
    }
}

fn of_thread() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Repeats `step`, which returns its amount of work, for `time`. Returns the work per second.
fn rate(clock: Clock, time: Duration, step: &mut dyn FnMut() -> f64) -> f64 {
    let watch = Watch::start(clock);
    let mut done = 0.0;
    loop {
        done += step();
        let elapsed = watch.elapsed();
        if elapsed >= time {
            return done / elapsed.as_secs_f64();
        }
    }
}

/// The speeds of this machine's processor, by processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// 7-Zip's rating for decompression, in MIPS.
    pub integer_mips: f64,
    /// 7-Zip's rating for compression, in MIPS.
    pub compression_mips: f64,
    /// The time of a read at a random address of 32 MiB, in nanoseconds.
    pub memory_ns: f64,
    /// The speeds of the short tests.
    pub rates: Rates,
}

impl Speeds {
    /// Runs all tests in this thread, which takes a few seconds of processor time.
    pub fn measure() -> Speeds {
        let original = data(lzma::SIZE);
        let watch = Watch::start(Clock::Processor);
        let packed = lzma::compress(&original);
        let compression_mips = lzma::compression_mips(original.len(), watch.elapsed().as_secs_f64());
        let mut back = vec![0; original.len()];
        let per_s = rate(Clock::Processor, MEASURED, &mut || {
            lzma::decompress(&packed, &mut back);
            1.0
        });
        let integer_mips = lzma::integer_mips(packed.len(), original.len(), 1.0 / per_s);
        let mut tests = Tests::prepare();
        let reads = |step: &mut dyn FnMut(u32)| {
            rate(Clock::Processor, MEASURED, &mut || {
                step(READS);
                f64::from(READS)
            })
        };
        let memory = &mut tests.memory;
        let memory_ns = 1e9 / reads(&mut |count| memory.read(count))
            - 1e9 / reads(&mut |count| memory.read_cached(count));
        let rates = tests.rates(Clock::Processor, MEASURED);
        Speeds { integer_mips, compression_mips, memory_ns, rates }
    }

    /// Returns the result of a test in the unit of its published results; `None` for SQLite, whose result is
    /// comparable only with itself.
    pub fn of(&self, test: Test) -> Option<f64> {
        match test {
            Test::Integer => Some(self.integer_mips),
            Test::Compression => Some(self.compression_mips),
            Test::Memory => Some(self.memory_ns),
            Test::Sqlite => None,
        }
    }
}

/// The work per second in the short tests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Decompressed bytes per second.
    pub integer: f64,
    /// Reads from memory per second.
    pub memory: f64,
    /// SQL statements per second.
    pub sqlite: f64,
}

impl Rates {
    /// Returns these speeds as a share of `full`: the geometric mean of the tests' shares.
    pub fn share_of(&self, full: &Rates) -> f64 {
        let shares = [self.integer / full.integer, self.memory / full.memory, self.sqlite / full.sqlite];
        shares.iter().product::<f64>().cbrt()
    }

    /// Returns the sum of the speeds of two threads.
    #[must_use]
    pub fn plus(self, other: Rates) -> Rates {
        Rates {
            integer: self.integer + other.integer,
            memory: self.memory + other.memory,
            sqlite: self.sqlite + other.sqlite,
        }
    }
}

/// The short tests of one thread, with their data in memory.
pub struct Tests {
    packed: Vec<u8>,
    back: Vec<u8>,
    memory: Memory,
    sqlite: Sqlite,
}

impl std::fmt::Debug for Tests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tests").finish_non_exhaustive()
    }
}

impl Tests {
    /// Prepares the tests, so that [`Tests::rates`] needs no further memory.
    pub fn prepare() -> Tests {
        let original = data(SHORT);
        Tests {
            packed: lzma::compress(&original),
            back: original,
            memory: Memory::new(),
            sqlite: Sqlite::new(),
        }
    }

    /// Runs each test for `time` by `clock`.
    pub fn rates(&mut self, clock: Clock, time: Duration) -> Rates {
        let Tests { packed, back, memory, sqlite } = self;
        Rates {
            integer: rate(clock, time, &mut || {
                lzma::decompress(packed, back);
                back.len() as f64
            }),
            memory: rate(clock, time, &mut || {
                memory.read(READS);
                f64::from(READS)
            }),
            sqlite: rate(clock, time, &mut || sqlite.transaction() as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_does_work() {
        let rates = Tests::prepare().rates(Clock::Processor, Duration::from_millis(1));
        assert!(rates.integer > 0.0 && rates.memory > 0.0 && rates.sqlite > 0.0, "{rates:?}");
        assert_eq!(rates.share_of(&rates), 1.0);
        assert_eq!(rates.plus(rates).share_of(&rates), 2.0);
    }
}
