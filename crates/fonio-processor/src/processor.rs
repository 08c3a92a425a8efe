//! The processors of phones and boards, with published results of the tests.
//!
//! Each file in `processors/` describes one processor:
//!
//! ```toml
//! machine = "Raspberry Pi Zero W (BCM2835, ARM1176, 1 GHz)"
//! cores = 1
//!
//! [[published]]
//! test = "integer"         # integer and compression in MIPS, memory in nanoseconds per read
//! result = 604
//! program = "p7zip 16.02, 7z b -mmt1"
//! source = "https://…"
//!
//! [[left_out]]
//! test = "sqlite"
//! reason = "…"
//! ```
//!
//! Every test has published results or the reason why there are none.

use std::fmt;
use std::str::FromStr;

use fonio_core::nearest;
use serde::{Deserialize, Serialize};

/// The name of every shipped processor.
pub const SHIPPED: &[&str] = &["nexus-one", "pi-zero", "pi-4"];

fn text(name: &str) -> Option<&'static str> {
    match name {
        "nexus-one" => Some(include_str!("../processors/nexus-one.toml")),
        "pi-zero" => Some(include_str!("../processors/pi-zero.toml")),
        "pi-4" => Some(include_str!("../processors/pi-4.toml")),
        _ => None,
    }
}

/// A test of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Decompression with LZMA: integer operations and branches.
    Integer,
    /// Compression with LZMA: integer operations, caches, and the latency of memory.
    Compression,
    /// Reads at random addresses of 32 MiB: the latency of memory.
    Memory,
    /// SQL statements on a table in memory.
    Sqlite,
}

impl Test {
    /// All tests.
    pub const ALL: [Test; 4] = [Test::Integer, Test::Compression, Test::Memory, Test::Sqlite];

    /// Returns the unit of the test's published results.
    pub fn unit(self) -> &'static str {
        match self {
            Test::Integer | Test::Compression => "MIPS",
            Test::Memory => "ns",
            Test::Sqlite => "statements/s",
        }
    }

    /// Returns whether a larger result is faster.
    pub(crate) fn more_is_faster(self) -> bool {
        self != Test::Memory
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Test::Integer => "integer",
            Test::Compression => "compression",
            Test::Memory => "memory",
            Test::Sqlite => "SQLite",
        })
    }
}

/// A published result of a test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The test.
    pub test: Test,
    /// The result, in [`Test::unit`].
    pub result: f64,
    /// The program that gave the result, and its options.
    pub program: String,
    /// The address of the publication.
    pub source: String,
}

/// A test without a usable published result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The test.
    pub test: Test,
    /// The reason, as a sentence.
    pub reason: String,
}

/// The processor of a phone or a board.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// The name, which is the name of its file, with `:N` if the user chose N cores.
    pub name: String,
    /// The machine and its processor.
    pub machine: String,
    /// The number of cores that a program can use.
    pub cores: u32,
    /// The published results of one core.
    pub published: Vec<Published>,
    /// The tests without a published result.
    pub left_out: Vec<LeftOut>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    machine: String,
    cores: u32,
    published: Vec<Published>,
    left_out: Vec<LeftOut>,
}

/// A processor cannot be imitated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessorError {
    /// No processor has this name.
    #[error("no processor is called `{name}`{nearest}; there are {}, or write a share of one processor, such as 0.25", SHIPPED.join(", "))]
    Unknown {
        /// The name that the user wrote.
        name: String,
        /// The suggestion of a similar name, from [`fonio_core::nearest`].
        nearest: String,
    },
    /// The user asked for more cores than the processor has, or for none.
    #[error("{name} has {cores} {}, so `{wanted}` after the colon must be a number from 1 to {cores}", if *cores == 1 { "core" } else { "cores" })]
    Cores {
        /// The name of the processor.
        name: String,
        /// The number of its cores.
        cores: u32,
        /// The text after the colon.
        wanted: String,
    },
    /// This machine's processor is too slow.
    #[error(
        "this machine cannot imitate {name}: one of its cores is {times:.2} times as fast as a processor here; use a slower one, or leave out --cpu"
    )]
    TooSlow {
        /// The name of the processor.
        name: String,
        /// The speed of its core relative to a processor of this machine.
        times: f64,
    },
    /// This machine's processor is so fast that the share is below the smallest possible share.
    #[error(
        "this machine cannot imitate {name}: one of its cores is only {share:.4} of a processor here, and the smallest share is {least}"
    )]
    TooFast {
        /// The name of the processor.
        name: String,
        /// The share of a processor.
        share: f64,
        /// The smallest share.
        least: f64,
    },
}

impl FromStr for Processor {
    type Err = ProcessorError;

    /// Finds a shipped processor by its name. `NAME:N` limits it to N of its cores.
    fn from_str(given: &str) -> Result<Processor, ProcessorError> {
        let (name, cores) = match given.split_once(':') {
            Some((name, cores)) => (name, Some(cores)),
            None => (given, None),
        };
        let unknown = || ProcessorError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, SHIPPED.iter().copied()),
        };
        let file: File =
            toml::from_str(text(name).ok_or_else(unknown)?).expect("shipped processors are valid");
        let cores = match cores {
            None => file.cores,
            Some(wanted) => {
                let number = wanted.parse().ok().filter(|number| (1..=file.cores).contains(number));
                number.ok_or_else(|| ProcessorError::Cores {
                    name: name.to_owned(),
                    cores: file.cores,
                    wanted: wanted.to_owned(),
                })?
            }
        };
        Ok(Processor {
            name: given.to_owned(),
            machine: file.machine,
            cores,
            published: file.published,
            left_out: file.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> String {
        name.parse::<Processor>().expect_err("there is none").to_string()
    }

    #[test]
    fn every_test_of_a_shipped_processor_has_results_or_a_reason() {
        for name in SHIPPED {
            let processor: Processor = name.parse().expect("it is shipped");
            for test in Test::ALL {
                let results = processor.published.iter().filter(|published| published.test == test);
                let reasons = processor.left_out.iter().filter(|left_out| left_out.test == test).count();
                assert_eq!(results.count() > 0, reasons == 0, "{name}: {test}");
            }
            for published in &processor.published {
                assert!(published.source.starts_with("https://"), "{name}: {published:?}");
                assert!(published.result > 0.0 && !published.program.is_empty(), "{name}: {published:?}");
            }
            assert!(processor.left_out.iter().all(|left_out| left_out.reason.ends_with('.')), "{name}");
        }
    }

    #[test]
    fn a_name_with_cores_limits_them() {
        let cores = |name: &str| name.parse::<Processor>().expect("it is shipped").cores;
        assert_eq!([cores("pi-4"), cores("pi-4:1"), cores("pi-zero:1")], [4, 1, 1]);
        for wanted in ["0", "5", "", "x", "-1"] {
            assert_eq!(
                error(&format!("pi-4:{wanted}")),
                format!("pi-4 has 4 cores, so `{wanted}` after the colon must be a number from 1 to 4")
            );
        }
        assert_eq!(
            error("pi_zero"),
            "no processor is called `pi_zero`; the nearest name is `pi-zero`; there are nexus-one, pi-zero, pi-4, or write \
             a share of one processor, such as 0.25"
        );
    }
}
