//! `cargo xtask bench readers`: measures the processor time of readers, next to the time that reading the bytes
//! takes.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use xtask::results::{Cell, StudyResult};

use super::jobs::{self, OWN, TRACES};
use crate::{process, tools};

/// The size of each trace and the number of rounds in a complete measurement.
const MEGABYTES: u64 = 200;
const ROUNDS: u64 = 5;

/// The name of the column with ratios, which `bench --against` compares.
pub const TIMES_WC: &str = "times `wc -l`";
pub const ID: &str = "bench-readers";

/// The options of `cargo xtask bench readers`.
#[derive(Args)]
pub struct Arguments {
    /// Size of each trace in MB.
    #[arg(long, value_name = "N", default_value_t = MEGABYTES)]
    pub megabytes: u64,
    /// Number of times to read each trace.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
}

/// Measures each reader. In each round, every trace is read once by fonio and once by `wc -l`.
pub fn run(&Arguments { megabytes, rounds }: &Arguments) -> Result<StudyResult> {
    tools::ensure(&[tools::BUILD])?;
    let program = jobs::build()?;
    let mut traces = Vec::new();
    for format in TRACES.into_iter().chain(OWN) {
        let files = format.input(megabytes * 1_000_000)?;
        let counted = format.read_by_wc(&files);
        let sizes = counted.iter().map(|path| Ok(fs::metadata(path)?.len()));
        let bytes: u64 = sizes.sum::<Result<u64>>()?;
        let output = process::output(&mut jobs::command(&program, "read", &files))?;
        let (_, events) = output.split_once(' ').context("the reader printed no numbers")?;
        let events: u64 = events.parse()?;
        ensure!(events > 0, "no event of {} was read", format.name());
        traces.push((format, files, counted, bytes, events));
    }
    let command = format!("cargo xtask bench readers --megabytes {megabytes} --rounds {rounds}");
    let columns = ["format", "block events or requests", "MB/s", "ns for each", "MB/s of `wc -l`", TIMES_WC];
    let title = "the processor time of reading traces, and of counting their lines";
    let mut result = StudyResult::begin(ID, title, &command, &columns)?;
    result.rounds = Some(rounds);
    let mut seconds = vec![[Vec::new(), Vec::new()]; traces.len()];
    for round in 0..rounds {
        for ((_, files, counted, ..), seconds) in traces.iter().zip(&mut seconds) {
            let mut of_fonio = jobs::command(&program, "read", files);
            let mut of_wc = Command::new("wc");
            of_wc.arg("-l").args(counted);
            for (command, seconds) in [&mut of_fonio, &mut of_wc].into_iter().zip(seconds) {
                seconds.push(process::measure(command)?.cpu.as_secs_f64());
            }
        }
        eprintln!("round {} of {rounds} is done", round + 1);
    }
    for ((format, .., bytes, events), [of_fonio, of_wc]) in traces.iter().zip(&seconds) {
        let megabytes = *bytes as f64 / 1e6;
        let rate = |seconds: &[f64]| Cell::rounds(seconds.iter().map(|s| megabytes / s), "MB/s", 0);
        let ratios = of_fonio.iter().zip(of_wc).map(|(fonio, wc)| fonio / wc);
        result.row(
            format!("`{}`", format.name()),
            vec![
                Cell::count(*events),
                rate(of_fonio),
                Cell::rounds(of_fonio.iter().map(|s| 1e9 * s / *events as f64), "ns", 0),
                rate(of_wc),
                Cell::rounds(ratios, "", 1),
            ],
        );
    }
    result.remark = "Recognition, reading and assembly into requests, on one thread; the requests are counted and not kept. \
                     Lines of `csv` and rows of a recording are requests; the others are events, about five for a request. `wc -l` reads \
                     the same bytes and looks for line ends, in binary files too."
        .to_owned();
    result.keep(megabytes >= MEGABYTES && rounds >= ROUNDS)?;
    Ok(result)
}
