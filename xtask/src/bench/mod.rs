//! `cargo xtask bench`: measures the speed and the cost of fonio's own code. Measurements for scientific
//! questions are studies (`cargo studies`). Benchmarks write results in the same format as studies
//! (`xtask/src/results.rs`).

mod against;
mod fleet;
pub mod instructions;
mod jobs;
mod kept;
mod kernel;
mod probes;
mod programs;
mod readers;
mod recorded_job;
mod recorders;
mod report;
mod results;
mod slow;
mod start;
mod sync_policy;
mod watch;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The options of `cargo xtask bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    /// Run the short form of every benchmark, and write the results into one file.
    #[arg(long, conflicts_with = "against")]
    all: bool,
    /// Compare instructions and ratios with a file of `--all`. Fails if something got slower.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    report: report::Arguments,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Compare the processor time of this build of fonio with another build.
    Against(against::Arguments),
    /// The processor time of reading traces, by format, next to the time of `wc -l`.
    Readers(readers::Arguments),
    /// The instructions of small jobs, compared with the counts in xtask/instructions.json (valgrind).
    Instructions(instructions::Arguments),
    /// The time that short commands take, and the sizes of the programs.
    Start(start::Arguments),
    /// The cost of recording (root, fio).
    Record {
        /// Number of pairs of runs. Each pair has a run with recording and a run without it.
        #[arg(long, value_name = "N", default_value_t = 5)]
        rounds: u64,
        /// Duration of each run.
        #[arg(long, value_name = "S", default_value_t = 4)]
        seconds: u64,
    },
    /// The cost of recording beside perf, trace-cmd and bpftrace (root, fio).
    Recorders(recorders::Arguments),
    /// Compare the cost of recording with another build (root, fio).
    Probes(probes::Arguments),
    /// The cost of recording which threads are blocked (root, fio).
    Blocked {
        /// Number of times to measure each load.
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u64,
        /// Duration of each run.
        #[arg(long, value_name = "S", default_value_t = 5)]
        seconds: u64,
    },
    /// The cost of recording SQL statements (root, python3).
    Statements {
        /// Number of times to measure each kind.
        #[arg(long, value_name = "N", default_value_t = 10)]
        rounds: u64,
        /// Steps of each run.
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        rows: u64,
    },
    /// The speed of device and scheduler models.
    Devices {
        /// Number of times to measure each model.
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u64,
    },
    /// Reports over generated fleets: time, memory, what they find (python3).
    Fleet(fleet::Arguments),
    /// The cost of the watch: bytes written, processor time, memory (root, fio).
    Watch(watch::Arguments),
    /// The processor time that the sync-policy library adds to a transaction.
    SyncPolicy,
    /// The results service with 10,000,000 results.
    ///
    /// Measures ranking pages on one processor, submissions, kill -9, a full disk (root), and requests
    /// generated from its OpenAPI document (python3). Keeps the seeded database (2 KB per result).
    Results(results::Arguments),
}

/// Runs a benchmark and writes its result.
pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.benchmark {
        None if arguments.all => kept::all(),
        None => match &arguments.against {
            Some(file) => kept::against(file),
            None => report::run(&arguments.report).map(drop),
        },
        Some(Benchmark::Readers(ref arguments)) => readers::run(arguments).map(drop),
        Some(Benchmark::Instructions(ref arguments)) => instructions::run(arguments),
        Some(Benchmark::Start(ref arguments)) => start::run(arguments).map(drop),
        Some(Benchmark::Against(ref arguments)) => against::run(arguments),
        Some(Benchmark::Recorders(ref arguments)) => recorders::run(arguments),
        Some(Benchmark::Probes(ref arguments)) => probes::run(arguments),
        Some(Benchmark::Fleet(ref arguments)) => fleet::run(arguments),
        Some(Benchmark::Watch(ref arguments)) => watch::run(arguments),
        Some(Benchmark::SyncPolicy) => sync_policy::run(),
        Some(Benchmark::Results(ref arguments)) => results::run(arguments),
        Some(Benchmark::Record { rounds, seconds }) => {
            programs::RECORD.run(&[("rounds", rounds, 5), ("seconds", seconds, 3)]).map(drop)
        }
        Some(Benchmark::Blocked { rounds, seconds }) => {
            programs::BLOCKED.run(&[("rounds", rounds, 3), ("seconds", seconds, 5)]).map(drop)
        }
        Some(Benchmark::Statements { rounds, rows }) => {
            programs::STATEMENTS.run(&[("rounds", rounds, 10), ("rows", rows, 100_000)]).map(drop)
        }
        Some(Benchmark::Devices { rounds }) => programs::DEVICES.run(&[("rounds", rounds, 3)]).map(drop),
    }
}
