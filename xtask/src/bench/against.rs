//! `cargo xtask bench against`: compares the processor time of two builds of fonio. This shows whether a
//! change makes fonio slower.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use clap::Args;
use fonio_core::statistics::holm;
use fonio_core::statistics::welch::{Interval, KnownMean};
use xtask::results::{Cell, StudyResult};

use crate::{gen_trace, process, tools};

/// The number of requests in the trace and the number of rounds in a complete comparison.
const IOS: u64 = 1_000_000;
const ROUNDS: u64 = 5;

/// Probability that a row is wrongly claimed to differ.
const LEVEL: f64 = 0.05;

/// The options of `cargo xtask bench against`.
#[derive(Args)]
pub struct Arguments {
    /// The program `fonio` of the other build, such as a release build of an earlier commit.
    #[arg(value_name = "FONIO")]
    other: PathBuf,
    /// Number of times to run each command with each build.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(2..))]
    rounds: u64,
    /// Requests in the trace; each has five records.
    #[arg(long, value_name = "N", default_value_t = IOS)]
    ios: u64,
}

/// A command that both builds understand.
struct Load {
    name: &'static str,
    /// The arguments of fonio.
    words: Vec<PathBuf>,
    /// A folder that the command creates. It is removed before each run.
    output: Option<PathBuf>,
}

/// Runs each command with both builds in turn, and compares the processor times.
pub fn run(Arguments { other, rounds, ios }: &Arguments) -> Result<()> {
    ensure!(other.is_file(), "{} is not a program", other.display());
    tools::ensure(&[tools::BUILD])?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let command = format!("cargo xtask bench against FONIO --rounds {rounds} --ios {ios}");
    let columns = ["", "other build", "this build", "this / other", "interval", "verdict"];
    let title = "processor time of this build of fonio against another build";
    let mut result = StudyResult::begin("bench-against", title, &command, &columns)?;
    result.rounds = Some(*rounds);
    let loads = loads(&dir, *ios)?;
    let mut times = vec![[Vec::new(), Vec::new()]; loads.len()];
    for round in 0..*rounds {
        for (load, times) in loads.iter().zip(&mut times) {
            // The builds take turns in running first, because the first run of a pair finds other contents in
            // the caches.
            let order = if round % 2 == 0 { [(0, other), (1, &fonio)] } else { [(1, &fonio), (0, other)] };
            for (side, program) in order {
                times[side].push(seconds(program, load)?);
            }
        }
        eprintln!("round {} of {rounds} is done", round + 1);
    }
    let means: Vec<[KnownMean; 2]> = times.iter().filter_map(means).collect();
    ensure!(means.len() == loads.len(), "a command took no processor time");
    let claims = |at: usize, level: f64| means[at][0].differs(&means[at][1], level);
    let levels = holm::levels(LEVEL, &vec![1.0; loads.len()], claims);
    let mut slower = 0;
    for (((load, times), [old, new]), level) in loads.iter().zip(&times).zip(&means).zip(levels) {
        let Interval { low, value, high } = old.difference(new, level);
        let verdict = if low > 0.0 {
            slower += 1;
            "slower"
        } else if high < 0.0 {
            "faster"
        } else {
            "no difference found"
        };
        let cell = |times: &[f64]| Cell::rounds(times.iter().copied(), "s", 2);
        let ratio = Cell::once(value.exp(), "", 3);
        let interval = format!("{:.3} to {:.3}", low.exp(), high.exp());
        result.row(load.name, vec![cell(&times[0]), cell(&times[1]), ratio, interval.into(), verdict.into()]);
    }
    println!("\n{slower} of {} commands are slower than in the other build.", loads.len());
    result.keep(*ios >= IOS && *rounds >= ROUNDS)?;
    Ok(())
}

/// Returns the commands to compare. Creates the inputs of the commands with this build.
fn loads(dir: &Path, ios: u64) -> Result<Vec<Load>> {
    let trace = gen_trace::for_benchmarks(ios)?;
    let folder = |name: &str| Some(dir.join(name));
    let load = |name, words: &[&str], files: &[&Path], output: Option<PathBuf>| Load {
        name,
        words: words.iter().map(PathBuf::from).chain(files.iter().map(|file| file.to_path_buf())).collect(),
        output,
    };
    let (imported, recorded) = (dir.join("imported"), dir.join("recorded"));
    let mut loads = vec![
        load("import of a block trace", &["import", "--output"], &[&imported, &trace], folder("imported")),
        load("report on a block trace", &["report"], &[&trace], None),
        load("report on a recording", &["report"], &[&imported], None),
        load("comparison of a recording with itself", &["compare"], &[&imported, &imported], None),
        load(
            "export to Perfetto",
            &["export", "--format", "perfetto", "--output"],
            &[&dir.join("trace.json"), &imported],
            folder("trace.json"),
        ),
        load("check of a device model", &["device", "verify", "kingston"], &[], None),
    ];
    if process::is_root() {
        let file = dir.join("written");
        let writes = format!(
            "dd if=/dev/zero of={} bs=4k count=50000 oflag=direct conv=notrunc status=none",
            file.display()
        );
        let mut record = load(
            "recording of 50,000 direct writes",
            &["record", "--output"],
            &[&recorded],
            folder("recorded"),
        );
        record.words.extend(["--", "sh", "-c", &writes].map(PathBuf::from));
        loads.push(record);
    }
    Ok(loads)
}

/// Runs the command. Returns the processor time of the command and its children in seconds.
fn seconds(fonio: &Path, Load { words, output, .. }: &Load) -> Result<f64> {
    if let Some(output) = output {
        if output.is_file() {
            std::fs::remove_file(output)?;
        } else {
            process::remove_folder(output)?;
        }
    }
    let mut command = Command::new(fonio);
    Ok(process::measure(command.args(words))?.cpu.as_secs_f64())
}

/// For each build, returns the mean of the logarithms of its times. Returns `None` if a time is 0.
fn means(times: &[Vec<f64>; 2]) -> Option<[KnownMean; 2]> {
    let mean = |times: &[f64]| {
        let logarithms: Vec<f64> = times.iter().map(|time| time.ln()).collect();
        logarithms.iter().all(|time| time.is_finite()).then(|| KnownMean::of(&logarithms)).flatten()
    };
    Some([mean(&times[0])?, mean(&times[1])?])
}
