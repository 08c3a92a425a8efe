//! `cargo xtask bench compare`: how often a comparison claims a difference, for equal and for different recordings.
//!
//! Uses generated series whose truth is known (`examples/compare_rates` of fonio-analysis), or with `--real` recordings
//! of fio on an emulated eMMC, whose times are multiplied for the slower one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use fonio_analysis::{Answer, Comparison};
use fonio_report::json::ComparisonReport;
use fonio_sim::profile::{Profile, Source};

use crate::emulated::{self, Emulated, Options};
use crate::{process, tools};

/// The device of the real recordings.
const PROFILE: &str = "galaxy_s3_emmc";
const SIZE: &str = "1GiB";

/// `[--pairs N]`, or `--real [same] [doubled] [slower] [--pairs N] [--seconds N] [--long N]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (real, rest) = match arguments.split_first() {
        Some((first, rest)) if first == "--real" => (true, rest),
        _ => (false, arguments),
    };
    let (mut pairs, mut seconds, mut long) = (None, 10, 60);
    let mut chosen = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if let Some(case) = CASES.iter().find(|case| real && case.name == word) {
            chosen.push(case);
            continue;
        }
        let number = words.next().and_then(|text| text.parse::<u32>().ok()).filter(|number| *number > 0);
        match (word.as_str(), number) {
            ("--pairs", Some(number)) => pairs = Some(number),
            ("--seconds", Some(number)) if real => seconds = number,
            ("--long", Some(number)) if real => long = number,
            _ => bail!(
                "the options are --pairs N, and with --real also --seconds N and --long N, each above 0, and the \
                 cases same, doubled and slower"
            ),
        }
    }
    if real {
        let chosen = if chosen.is_empty() { CASES.iter().collect() } else { chosen };
        return measure(&chosen, pairs.unwrap_or(20), seconds, long);
    }
    tools::ensure(&[tools::BUILD])?;
    let mut generated = process::cargo();
    generated.args(["run", "--release", "--package", "fonio-analysis", "--example", "compare_rates", "--"]);
    process::run(generated.args(["--pairs", &pairs.unwrap_or(400).to_string()]))
}

/// A kind of pair of recordings.
struct Case {
    name: &'static str,
    what: &'static str,
    /// Factor on the second recording's device times.
    slow: f64,
    /// Whether the recordings are the long ones.
    is_long: bool,
}

const CASES: [Case; 3] = [
    Case { name: "same", what: "the same device", slow: 1.0, is_long: false },
    Case { name: "doubled", what: "every time doubled", slow: 2.0, is_long: false },
    Case { name: "slower", what: "every time up by 20 %", slow: 1.2, is_long: true },
];

/// Returns the figures for which the second recording has this answer.
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
    for case in cases {
        let seconds = if case.is_long { long } else { seconds };
        let (mut any, mut found, mut wrong) = (0, 0, 0);
        let mut claims = Vec::new();
        for pair in 0..pairs {
            let first = record(&fonio, &dir, 1.0, seconds, 2 * pair)?;
            let other = record(&fonio, &dir, case.slow, seconds, 2 * pair + 1)?;
            let comparison = compare(&fonio, &first, &other)?;
            let (higher, lower) = (with(&comparison, Answer::Higher), with(&comparison, Answer::Lower));
            any += u32::from(!higher.is_empty() || !lower.is_empty());
            let medians = ["latency.reads.response.p50", "latency.write_sync.response.p50"];
            found += u32::from(medians.iter().all(|median| higher.contains(median)));
            wrong += u32::from(lower.iter().any(|figure| figure.starts_with("latency.")));
            claims.extend(higher.iter().chain(&lower).map(|figure| (*figure).to_owned()));
            println!("  pair {}: higher {}, lower {}", pair + 1, higher.join(" "), lower.join(" "));
        }
        println!(
            "{}, {} s: a difference is claimed in {any} of {pairs} pairs; both medians are called higher in {found}, a \
             latency is called lower in {wrong}",
            case.what, seconds
        );
    }
    Ok(())
}

/// Records fio on a new device whose times are multiplied.
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
    let out = Command::new(fonio).arg("compare").args([first, other]).arg("--json").output()?;
    if !out.status.success() {
        bail!("fonio compare failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    let report: ComparisonReport =
        serde_json::from_slice(&out.stdout).context("fonio compare gave other JSON")?;
    Ok(report.comparison)
}

/// Returns the profile with its times multiplied and its rates divided by `factor`.
fn slower(factor: f64) -> Result<Profile> {
    let mut profile = Profile::shipped(PROFILE).context("the profile is not shipped")?;
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
