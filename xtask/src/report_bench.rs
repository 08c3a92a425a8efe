//! `cargo xtask bench`: compares turning a block trace into the HTML report with Debian's blktrace package, in one run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, tools};

/// `cargo xtask bench [--ios N] [--runs N]`, `cargo xtask bench record` for what recording costs, `cargo xtask bench
/// blocked` for what recording blocked threads costs, `cargo xtask bench statements` for what recording SQL statements costs,
/// `cargo xtask bench attribution` for how much is attributed rightly, or
/// `cargo xtask bench devices` for how fast device models are.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments == ["devices"] {
        tools::ensure(&[tools::BUILD])?;
        let mut speed = process::cargo();
        return process::run(speed.args([
            "run",
            "--release",
            "--package",
            "fonio-sim",
            "--example",
            "speed",
        ]));
    }
    if let [what, lab, rest @ ..] = arguments
        && (what.as_str(), lab.as_str()) == ("attribution", "--lab")
    {
        return crate::attribution::run(rest);
    }
    if let [what, rest @ ..] = arguments
        && let Some(example) = [
            ("record", "overhead"),
            ("blocked", "blocked_cost"),
            ("statements", "statements_cost"),
            ("attribution", "attribution"),
        ]
        .iter()
        .find_map(|(name, example)| (what == name).then_some(*example))
    {
        tools::ensure(&[tools::BUILD, tools::BENCH])?;
        let mut bench = process::cargo();
        bench.args(["run", "--release", "--package", "fonio-record", "--example", example, "--"]);
        return process::run(bench.args(rest));
    }
    if let [what, rest @ ..] = arguments {
        match what.as_str() {
            "emulator" => return crate::emulator_bench::run(rest),
            "fit" => return crate::fit_bench::run(rest),
            "fuse" => return crate::bench_fuse::run(rest),
            "live" => return crate::live_bench::run(rest),
            "results" => return crate::results_bench::run(rest),
            "receipt" => return crate::receipt::run(rest),
            "sync-policy" => return crate::sync_policy::run(rest),
            #[cfg(feature = "results")]
            "schedulers" => return crate::kernel::bench::run(rest),
            #[cfg(not(feature = "results"))]
            "schedulers" => return process::with_results("bench", arguments),
            #[cfg(feature = "results")]
            "applications" => return crate::kernel::applications::run(rest),
            #[cfg(not(feature = "results"))]
            "applications" => return process::with_results("bench", arguments),
            "watch" => return crate::watch_bench::run(rest),
            "verdicts" => return crate::verdicts::run(rest),
            #[cfg(feature = "results")]
            "compare" => return crate::compare_bench::run(rest),
            #[cfg(feature = "results")]
            "storebench" => return crate::storebench::run(rest),
            #[cfg(not(feature = "results"))]
            "compare" | "storebench" => return process::with_results("bench", arguments),
            _ => {}
        }
    }
    let mut ios: u64 = 5_000_000;
    let mut runs: usize = 3;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let number = words.next().and_then(|text| text.parse::<u64>().ok());
        match (word.as_str(), number) {
            ("--ios", Some(number)) => ios = number,
            ("--runs", Some(number)) => runs = usize::try_from(number).unwrap_or(1).max(1),
            _ => bail!("the options are --ios N and --runs N, each with a whole number"),
        }
    }
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let prefix = dir.join(format!("generated-{ios}"));
    if !with_suffix(&prefix, ".blktrace.0").exists() {
        println!("Generating {ios} requests …");
        crate::gen_trace::run(&["--out".into(), path_text(&prefix)?, "--ios".into(), ios.to_string()])?;
    }
    let merged = dir.join("merged.bin");
    let rows: Vec<(&str, Command)> = vec![
        ("blkparse -i X -d X.bin -O", {
            let mut command = Command::new("blkparse");
            command.arg("-i").arg(&prefix).arg("-d").arg(&merged).arg("-O");
            command
        }),
        ("btt -i X.bin", {
            let mut command = Command::new("btt");
            // It writes files with names of its own into the current directory.
            command.arg("-i").arg(&merged).current_dir(&dir);
            command
        }),
        ("fonio report X --html", {
            let mut command = Command::new(&fonio);
            command.arg("report").arg(&prefix).arg("--html").arg(dir.join("report.html"));
            command
        }),
        // The others use one processor. Two that share a core each do less, so that the processor time of a report grows.
        ("the same on one processor", {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", "0"]).arg(&fonio);
            command.arg("report").arg(&prefix).arg("--html").arg(dir.join("report.html"));
            command
        }),
    ];
    println!("Medians of {runs} interleaved runs; CPU is user and system time.\n");
    println!("{:<28} {:>9} {:>9} {:>10}", "", "CPU s", "wall s", "peak MiB");
    let mut measured = vec![Vec::new(); rows.len()];
    let mut rows = rows;
    for _ in 0..runs {
        for (row, results) in rows.iter_mut().zip(&mut measured) {
            results.push(process::measure(&mut row.1)?);
        }
    }
    let mut cpu = Vec::new();
    for ((name, _), mut results) in rows.into_iter().zip(measured) {
        results.sort_by_key(|usage| usage.cpu);
        let median = results[results.len() / 2];
        let peak = results.iter().map(|usage| usage.peak_bytes).max().unwrap_or(0);
        println!(
            "{name:<28} {:>9.2} {:>9.2} {:>10.0}",
            median.cpu.as_secs_f64(),
            median.wall.as_secs_f64(),
            peak as f64 / f64::from(1 << 20),
        );
        cpu.push(median.cpu.as_secs_f64());
    }
    if let [blkparse, btt, fonio, alone] = cpu[..] {
        println!(
            "\nfonio takes {:.1} times less CPU than blkparse and btt together, {:.1} times less on one processor.",
            (blkparse + btt) / fonio,
            (blkparse + btt) / alone
        );
    }
    std::fs::remove_file(&merged).with_context(|| format!("cannot remove {}", merged.display()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn path_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not valid UTF-8", path.display()))
}
