//! `cargo studies compare`: measures how often a comparison claims a difference, for equal and for different
//! recordings.
//!
//! By default, series are generated, so the true difference is known (`generated.rs`). `--real` uses
//! recordings of fio on an emulated eMMC; the slower device has the same profile with multiplied times.

mod generate;
mod generated;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use fonio_analysis::{Answer, Comparison};
use fonio_report::json::ComparisonReport;
use fonio_sim::profile::{Profile, Source};
use xtask::results::{Cell, StudyResult};

use crate::emulated::{self, Emulated, Options};
use crate::{asked, process};

/// The default number of pairs of series to generate.
const PAIRS: u32 = 400;
const PROFILE: &str = "galaxy_s3_emmc";
const SIZE: &str = "1GiB";

#[derive(Args)]
pub struct Arguments {
    /// Record fio on an emulated eMMC instead of generating series (root).
    #[arg(long)]
    real: bool,
    /// With --real: run these cases (default: all).
    #[arg(value_name = "CASE", requires = "real", value_parser = CASES.map(|case| case.name))]
    cases: Vec<String>,
    /// Number of pairs of each kind (default: 400 if generated, 20 if recorded).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// With --real: the length of each recording, in seconds.
    #[arg(long, default_value_t = 10, requires = "real")]
    seconds: u32,
    /// With --real: the length of each recording of the case `slower`, in seconds.
    #[arg(long, default_value_t = 60, requires = "real")]
    long: u32,
}

/// Compares pairs of generated series or of recordings.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.real {
        let pairs = arguments.pairs.unwrap_or(PAIRS);
        return generated::run(
            pairs as usize,
            &format!("cargo studies compare --pairs {pairs}"),
            pairs >= PAIRS,
        );
    }
    let Arguments { cases, seconds, long, .. } = arguments;
    let chosen = CASES.iter().filter(|case| cases.is_empty() || cases.iter().any(|name| name == case.name));
    measure(&chosen.collect::<Vec<_>>(), arguments.pairs.unwrap_or(20), *seconds, *long)
}

struct Case {
    name: &'static str,
    what: &'static str,
    /// Factor by which the device times of the second recording are multiplied.
    slow: f64,
    /// Whether the recordings have the length for the case `slower`.
    is_long: bool,
}

const CASES: [Case; 3] = [
    Case { name: "same", what: "the same device", slow: 1.0, is_long: false },
    Case { name: "doubled", what: "every time doubled", slow: 2.0, is_long: false },
    Case { name: "slower", what: "every time up by 20 %", slow: 1.2, is_long: true },
];

/// Returns the names of the figures for which the comparison has this result for the second recording.
fn with(comparison: &Comparison, answer: Answer) -> Vec<&str> {
    let rows = comparison.rows.iter().filter(|row| row.changes[0].answer == answer);
    rows.map(|row| row.figure.as_str()).collect()
}

fn measure(cases: &[&Case], pairs: u32, seconds: u32, long: u32) -> Result<()> {
    let fonio = emulated::fonio()?;
    let dir = process::scratch("compare")?;
    process::outlive_signals()?;
    println!(
        "fio on an emulated eMMC ({PROFILE}): 2 threads, random, synchronous, 60 % reads, each run on a new device"
    );
    let columns = [
        "pairs of recordings",
        "pairs",
        "a difference is claimed",
        "both medians are called higher",
        "a latency is called lower",
    ];
    let command = format!("cargo studies compare --real --pairs {pairs}");
    let title = "claims of `fonio compare` on recordings of fio on an emulated eMMC";
    let mut result = StudyResult::begin("compare-real", title, &command, &columns)?;
    for case in cases {
        let seconds = if case.is_long { long } else { seconds };
        let (mut any, mut found, mut wrong) = (0, 0, 0);
        for pair in 0..pairs {
            let first = record(&fonio, &dir, 1.0, seconds, 2 * pair)?;
            let other = record(&fonio, &dir, case.slow, seconds, 2 * pair + 1)?;
            let comparison = compare(&fonio, &first, &other)?;
            let (higher, lower) = (with(&comparison, Answer::Higher), with(&comparison, Answer::Lower));
            any += u32::from(!higher.is_empty() || !lower.is_empty());
            let medians = ["latency.reads.response.p50", "latency.write_sync.response.p50"];
            found += u32::from(medians.iter().all(|median| higher.contains(median)));
            wrong += u32::from(lower.iter().any(|figure| figure.starts_with("latency.")));
            eprintln!("  pair {}: higher {}, lower {}", pair + 1, higher.join(" "), lower.join(" "));
        }
        result.row(format!("{}, {seconds} s", case.what), [pairs, any, found, wrong].map(Cell::count).into());
    }
    result.keep(cases.len() == CASES.len() && pairs >= 20)?;
    Ok(())
}

/// Records fio on a new emulated device. The device's times are multiplied by `slow`.
fn record(fonio: &Path, dir: &Path, slow: f64, seconds: u32, seed: u32) -> Result<PathBuf> {
    let profile = dir.join(format!("times-{slow}.toml"));
    std::fs::write(&profile, slower(slow)?.to_toml())?;
    let (mount, out) = (dir.join("mount"), dir.join(format!("recording-{slow}-{}", seed % 2)));
    std::fs::create_dir_all(&mount)?;
    let profile = profile.to_str().context("the target directory's name is not Unicode")?;
    let options = Options { mounted: Some(("ext4", &mount)), ..Options::bare(profile, SIZE) };
    let device = Emulated::start(fonio, &options)?;
    let fio = |command: &mut Command| {
        command.args(["--name=pair", "--size=256M", "--numjobs=2", "--thread", "--output=/dev/null"]);
        command.arg(format!("--directory={}", mount.display()));
    };
    let mut prepare = Command::new("fio");
    fio(&mut prepare);
    process::run(prepare.args(["--rw=write", "--bs=1M", "--end_fsync=1"]))?;
    let mut recorder = Command::new(fonio);
    recorder
        .args(["record", "--overwrite", "--output"])
        .arg(&out)
        .arg("--path")
        .arg(&mount)
        .args(["--", "fio"]);
    fio(&mut recorder);
    recorder.args(["--rw=randrw", "--rwmixread=60", "--bs=4k", "--direct=1", "--sync=1", "--ioengine=psync"]);
    recorder.args(["--time_based", &format!("--runtime={seconds}"), &format!("--randseed={}", seed + 1)]);
    process::run(recorder.stdout(Stdio::null()).stderr(Stdio::null()))?;
    drop(device);
    process::check_signals()?;
    Ok(out)
}

fn compare(fonio: &Path, first: &Path, other: &Path) -> Result<Comparison> {
    let words = ["compare".as_ref(), first.as_os_str(), other.as_os_str()];
    let report: ComparisonReport = asked::answer(fonio, &words)?;
    Ok(report.comparison)
}

/// Returns the device profile with its times multiplied and its rates divided by `factor`.
fn slower(factor: f64) -> Result<Profile> {
    let mut profile = Profile::shipped(PROFILE).context("fonio does not ship the profile")?;
    for key in [
        "interface.read_command",
        "interface.write_command",
        "interface.flush_command",
        "interface.read_rate",
        "interface.write_rate",
        "flash.t_read",
        "flash.t_program",
        "flash.t_erase",
    ] {
        let number = profile.number(key).with_context(|| format!("{PROFILE} has no {key}"))? as f64;
        let changed = if key.ends_with("_rate") { number / factor } else { number * factor };
        profile.set(key, changed.round() as u64, Source::Assumed, "made slower for this comparison")?;
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_profile_has_longer_times_and_lower_rates() {
        let read = |factor: f64, key: &str| slower(factor).unwrap().number(key).unwrap();
        assert_eq!(read(2.0, "flash.t_erase"), 7_600_000);
        assert_eq!(read(2.0, "interface.write_rate"), 52_000_000);
        assert_eq!(read(1.0, "interface.flush_command"), 200_000);
    }
}
