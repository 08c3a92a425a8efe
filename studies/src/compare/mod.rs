//! `cargo studies compare`: measures how often a comparison claims a difference, for equal and for different
//! recordings.
//!
//! By default, series are generated, so the true difference is known (`generated.rs`). `--real` uses
//! recordings of fio on an emulated eMMC; the slower device has the same profile with multiplied times.
//! `--several` compares several recordings per side, on three devices of this machine (`several.rs`).

mod card;
mod device;
mod generate;
mod generated;
mod job;
mod several;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use fonio_analysis::{Answer, Comparison};
use fonio_report::json::ComparisonReport;
use xtask::results::{Cell, StudyResult};

use self::card::{PROFILE, slower};
use self::device::Kind;
use crate::emulated::{self, Emulated, Options};
use crate::{asked, process};

/// The default number of pairs of series to generate.
const PAIRS: u32 = 400;
const SIZE: &str = "1GiB";

#[derive(Args)]
pub struct Arguments {
    /// Record fio on an emulated eMMC instead of generating series (root).
    #[arg(long, group = "recorded")]
    real: bool,
    /// Compare five recordings per side, of equal work and of work with 20 % slower requests, on an emulated
    /// card, a disk in memory and this machine's own disk (root).
    #[arg(long, group = "recorded")]
    several: bool,
    /// With --real: run these cases; with --several: use these devices (default: all).
    #[arg(value_name = "CASE", requires = "recorded", value_parser = names())]
    cases: Vec<String>,
    /// Number of pairs of each kind (default: 400 if generated, 20 with --real, 8 with --several).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// The length of each recording, in seconds (default: 10 with --real, 2 with --several).
    #[arg(long, requires = "recorded", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// With --real: the length of each recording of the case `slower`, in seconds.
    #[arg(long, default_value_t = 60, requires = "real")]
    long: u32,
}

/// Returns the names of the cases and of the devices.
fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).chain(Kind::ALL.map(Kind::name)).collect()
}

/// Compares pairs of generated series or of recordings.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { cases, seconds, long, pairs, .. } = arguments;
    let is_chosen = |name: &str| cases.is_empty() || cases.iter().any(|case| case == name);
    let is_known = |name: &String| match arguments.several {
        true => Kind::ALL.iter().any(|kind| kind.name() == name),
        false => CASES.iter().any(|case| case.name == name),
    };
    if let Some(name) = cases.iter().find(|name| !is_known(name)) {
        bail!("`{name}` is a case of the other option; see `cargo studies compare --help`");
    }
    if arguments.several {
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| is_chosen(kind.name())).collect();
        return several::run(&kinds, pairs.unwrap_or(several::PAIRS), seconds.unwrap_or(several::SECONDS));
    }
    if !arguments.real {
        let pairs = pairs.unwrap_or(PAIRS);
        return generated::run(
            pairs as usize,
            &format!("cargo studies compare --pairs {pairs}"),
            pairs >= PAIRS,
        );
    }
    let chosen = CASES.iter().filter(|case| is_chosen(case.name));
    measure(&chosen.collect::<Vec<_>>(), pairs.unwrap_or(20), seconds.unwrap_or(10), *long)
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
