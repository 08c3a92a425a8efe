//! `cargo xtask bench`: the speed and the cost of fonio's own code. Measurements with a scientific answer are studies
//! (`cargo studies`). Each benchmark writes its result as the studies do (`xtask/src/results.rs`).

mod programs;
mod report;
mod results;
mod sync_policy;
mod watch;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The options of `cargo xtask bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    #[command(flatten)]
    report: report::Arguments,
}

#[derive(Subcommand)]
enum Benchmark {
    /// The cost of recording (root, fio).
    Record {
        /// Pairs of runs with and without.
        #[arg(long, value_name = "N", default_value_t = 5)]
        rounds: u64,
        /// How long each run takes.
        #[arg(long, value_name = "S", default_value_t = 4)]
        seconds: u64,
    },
    /// The cost of recording which threads are blocked (root, fio).
    Blocked {
        /// Measure each load this often.
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u64,
        /// How long each run takes.
        #[arg(long, value_name = "S", default_value_t = 5)]
        seconds: u64,
    },
    /// The cost of recording SQL statements (root, python3).
    Statements {
        /// Measure each kind this often.
        #[arg(long, value_name = "N", default_value_t = 10)]
        rounds: u64,
        /// Steps of each run.
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        rows: u64,
    },
    /// The speed of models of devices and schedulers.
    Devices {
        /// Measure each model this often.
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u64,
    },
    /// The cost of the watch: bytes written, processor time, memory (root, fio).
    Watch(watch::Arguments),
    /// The processor time that the library of a sync policy adds to a transaction.
    SyncPolicy,
    /// The results service with 10,000,000 results.
    ///
    /// Ranking pages on one processor, submissions, kill -9, a full disk (root), requests from its OpenAPI document (python3).
    /// The seeded database (2 KB for each result) is kept.
    Results(results::Arguments),
}

/// Runs a benchmark, and writes its result.
pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.benchmark {
        None => report::run(&arguments.report),
        Some(Benchmark::Watch(ref arguments)) => watch::run(arguments),
        Some(Benchmark::SyncPolicy) => sync_policy::run(),
        Some(Benchmark::Results(ref arguments)) => results::run(arguments),
        Some(Benchmark::Record { rounds, seconds }) => {
            let command = format!("cargo xtask bench record --rounds {rounds} --seconds {seconds}");
            programs::RECORD.run(&command, &["record"], &[rounds, seconds], rounds >= 5 && seconds >= 3)
        }
        Some(Benchmark::Blocked { rounds, seconds }) => {
            let command = format!("cargo xtask bench blocked --rounds {rounds} --seconds {seconds}");
            programs::BLOCKED.run(&command, &["blocked"], &[rounds, seconds], rounds >= 3 && seconds >= 5)
        }
        Some(Benchmark::Statements { rounds, rows }) => {
            let command = format!("cargo xtask bench statements --rounds {rounds} --rows {rows}");
            let is_complete = rounds >= 10 && rows >= 100_000;
            programs::STATEMENTS.run(&command, &["statements"], &[rounds, rows], is_complete)
        }
        Some(Benchmark::Devices { rounds }) => {
            let command = format!("cargo xtask bench devices --rounds {rounds}");
            programs::DEVICES.run(&command, &[], &[rounds], rounds >= 3)
        }
    }
}
