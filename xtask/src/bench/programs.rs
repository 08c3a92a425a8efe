//! Runs benchmarks that call functions of a crate. These benchmarks are examples of that crate.
//!
//! In each round, the example prints each row of the result: the name and the values, separated by tabs.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use xtask::results::{Cell, StudyResult};

use crate::{process, tools};

/// A benchmark that is an example of a crate.
pub struct Program {
    /// The benchmark's name as an argument of `cargo xtask bench`.
    pub name: &'static str,
    /// The name of the crate, and the name of its example.
    pub example: (&'static str, &'static str),
    /// The title of the result.
    pub title: &'static str,
    /// The title, unit and number of decimals of each column. The first column contains the names of the
    /// rows.
    pub columns: &'static [(&'static str, &'static str, usize)],
}

pub const DEVICES: Program = Program {
    name: "devices",
    example: ("fonio-sim", "speed"),
    title: "the speed of device and scheduler models",
    columns: &[
        ("1 M requests of 4 KiB", "", 0),
        ("M requests/s", "", 2),
        ("write amplification", "", 2),
        ("rate in virtual time", "MB/s", 2),
        ("peak memory", "MiB", 0),
    ],
};

pub const RECORD: Program = Program {
    name: "record",
    example: ("fonio-record", "cost"),
    title: "the cost of recording",
    columns: &[
        ("requests a second", "", 0),
        ("recorder, while recording", "%", 2),
        ("writing afterwards", "%", 2),
        ("the job's run time", "% more", 1),
        ("its mean latency", "% more", 1),
        ("its 99th percentile", "% more", 1),
        ("its processor time", "% more", 1),
        ("the machine's busy time", "% more", 1),
        ("requests a second without", "", 0),
        ("requests a second with", "", 0),
        ("recording an event", "ns", 0),
        ("writing an event", "ns", 0),
        ("lost events", "", 0),
    ],
};

pub const BLOCKED: Program = Program {
    name: "blocked",
    example: ("fonio-record", "cost"),
    title: "the cost of recording which threads are blocked",
    columns: &[
        ("load", "", 0),
        ("at context switches", "%", 2),
        ("switches a second", "", 0),
        ("each switch", "ns", 0),
        ("at wake-ups", "%", 2),
        ("wake-ups a second", "", 0),
        ("each wake-up", "ns", 0),
        ("recorder with BPF", "%", 2),
        ("recorder without", "%", 2),
        ("recorder by tracefs", "%", 2),
        ("loading the BPF programs", "ms", 0),
        ("tracefs, each switch", "ns", 0),
    ],
};

pub const STATEMENTS: Program = Program {
    name: "statements",
    example: ("fonio-record", "cost"),
    title: "the cost of recording SQL statements",
    columns: &[("recorded", "", 0), ("ns a step", "", 0)],
};

impl Program {
    /// Builds the example, runs it, and writes the result. For each option of the command: its name, its
    /// value, and the smallest value of a complete measurement. The first option is the number of rounds.
    pub fn run(&self, options: &[(&str, u64, u64)]) -> Result<StudyResult> {
        tools::ensure(&[tools::BUILD, tools::BENCH])?;
        let shown = options.iter().map(|(option, value, _)| format!(" --{option} {value}"));
        let command = format!("cargo xtask bench {}{}", self.name, shown.collect::<String>());
        let (package, example) = self.example;
        let mut cargo = process::cargo();
        cargo.args(["run", "--release", "--package", package, "--example", example, "--", self.name]);
        cargo.args(options.iter().map(|(_, value, _)| value.to_string())).stdout(Stdio::piped());
        let mut child = cargo.spawn().context("cannot start cargo")?;
        let mut rows: Vec<(String, Vec<Vec<Option<f64>>>)> = Vec::new();
        for line in BufReader::new(child.stdout.take().context("no pipe")?).lines() {
            let line = line?;
            eprintln!("{line}");
            let mut words = line.split('\t');
            let name = words.next().unwrap_or_default();
            let values: Vec<Option<f64>> = words.map(|word| word.parse().ok()).collect();
            ensure!(
                values.len() + 1 == self.columns.len(),
                "the line has too few or too many values: {line}"
            );
            match rows.iter_mut().find(|(known, _)| known == name) {
                Some((_, rounds)) => rounds.push(values),
                None => rows.push((name.to_owned(), vec![values])),
            }
        }
        let status = child.wait()?;
        ensure!(status.success(), "{} failed: {status}", process::shown(&cargo));
        let columns: Vec<&str> = self.columns.iter().map(|(title, ..)| *title).collect();
        let id = format!("bench-{}", self.name);
        let mut result = StudyResult::begin(&id, self.title, &command, &columns)?;
        result.rounds = options.first().map(|(_, rounds, _)| *rounds);
        for (name, rounds) in rows {
            let cells = self.columns.iter().skip(1).enumerate();
            let cells = cells.map(|(at, (_, unit, decimals))| {
                Cell::rounds(rounds.iter().map(|values| values[at]), unit, *decimals)
            });
            result.row(name, cells.collect());
        }
        result.keep(options.iter().all(|(_, value, least)| value >= least))?;
        Ok(result)
    }
}
