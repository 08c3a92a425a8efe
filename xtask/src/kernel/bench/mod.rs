//! `cargo xtask bench schedulers`: SmartIO beside the kernel's schedulers, in guests whose clock counts instructions.
//!
//! A cell (`cell.rs`) is a part of the comparison under one scheduler on one device. A finished cell is kept, so that a run
//! that was stopped goes on where it was; a cell counts again when the module, fonio, the script or the kernel changes. The goals
//! (`goals.rs`) come last.

mod cell;
mod goals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use self::cell::{Cell, SMARTIO, VARIANTS, Values};
use super::build::{self, sources};
use crate::{process, tools};

const KERNEL: &str = "6.12";
/// The device of the study, on which the policy was tuned; it has a depth of 1. The others have depths of 1, 32 and 32.
const TUNED_ON: &str = "samsung_s5";
const PROFILES: [&str; 4] = [TUNED_ON, "sd_a1", "emmc51", "ufs31"];
/// The parts of the script, and how often each starts: quick, and else.
const PARTS: [(&str, [u32; 2]); 5] =
    [("seq", [16, 16]), ("rand", [16, 16]), ("deep", [4, 16]), ("many", [1, 4]), ("files", [4, 8])];
/// I/Os of each process, quick and else.
const IOS: [u32; 2] = [200, 1000];
/// Where the processor's time for a request is measured: not on a profile.
const IN_MEMORY: &str = "memory";

/// The scripts of all parts.
const SCRIPTS: [&str; 3] = ["compare.sh", "many.sh", "files.sh"];

/// Results by profile, variant and part.
type Results = BTreeMap<(&'static str, &'static str, &'static str), Values>;

struct Options {
    ios: u32,
    starts: usize,
    profiles: Vec<&'static str>,
    fonio: Option<PathBuf>,
    jobs: usize,
    words: Vec<String>,
}

fn options(arguments: &[String]) -> Result<Options> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options =
        Options { ios: IOS[1], starts: 1, profiles: PROFILES.to_vec(), fonio: None, jobs, words: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--quick" => (options.ios, options.starts) = (IOS[0], 0),
            "--fonio" => options.fonio = Some(PathBuf::from(rest.next().context("--fonio needs a program")?)),
            "--jobs" => {
                let jobs = rest.next().and_then(|jobs| jobs.parse().ok()).filter(|jobs| *jobs > 0);
                options.jobs = jobs.context("--jobs needs a number of guests")?;
            }
            "--on" => {
                let name = rest.next().context("--on needs a profile")?;
                let known = PROFILES.into_iter().find(|profile| profile == name);
                options.profiles =
                    vec![known.with_context(|| format!("use one of {}", PROFILES.join(", ")))?];
            }
            word if word.starts_with('-') => {
                bail!("unknown option `{word}`; use --quick, --on PROFILE, --jobs N or --fonio PROGRAM")
            }
            word => options.words.push(word.to_owned()),
        }
    }
    if options.starts == 0 && !arguments.iter().any(|word| word == "--on") {
        options.profiles = vec![TUNED_ON];
    }
    Ok(options)
}

/// `cargo xtask bench schedulers [--quick] [--on PROFILE] [--jobs N] [--fonio PROGRAM] [WORD in the cell's name…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::KERNEL])?;
    process::outlive_signals()?;
    let fonio = options.fonio.clone().map_or_else(process::build_fonio, Ok)?;
    let built = build::module(KERNEL)?;
    let folder = process::scratch("kernel/bench")?;
    let scripts = SCRIPTS.map(|name| sources().join("test").join(name));
    std::fs::create_dir_all(folder.join("guest"))?;
    for entry in scripts.iter().chain([&built.module]) {
        let to = folder.join("guest").join(entry.file_name().context("a file has a name")?);
        std::fs::copy(entry, to)?;
    }
    println!("Linux {} in guests; reads and writes of 4 KiB.", built.files.release);
    for profile in &options.profiles {
        println!(
            "Profile {profile}: sha256 of `fonio device show {profile} --toml`: {}",
            digest_of(&fonio, profile)?
        );
    }
    println!("The policy was tuned on {TUNED_ON} only.\n");

    let module = short(&std::fs::read(&built.module)?);
    // It serves the devices, and its processor time is part of their times.
    let program = short(&std::fs::read(&fonio)?);
    let scripts = scripts.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let scripts: BTreeMap<&str, Vec<u8>> = SCRIPTS.into_iter().zip(scripts).collect();
    let cells: Vec<Cell> = cells(&options);
    ensure!(!cells.is_empty(), "no cell has {} in its name", options.words.join(" or "));
    let versions = |cell: &Cell| {
        let release = &built.files.release;
        let module =
            if cell.variant.scheduler == "smartio" { &format!("{release}-{module}") } else { release };
        let scripts = cell.scripts().iter().map(|name| scripts[name].as_slice()).collect::<Vec<_>>();
        format!("{module}-{program}-{}", short(&scripts.concat()))
    };
    let started = Instant::now();
    let missing: Vec<&Cell> =
        cells.iter().filter(|cell| !cell.file(&folder, &versions(cell)).exists()).collect();
    // The next cell, and how many are done; the first failure ends all.
    let state = Mutex::new((0_usize, 0_usize));
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let at = {
                        let mut state = state.lock().expect("no thread panics");
                        state.0 += 1;
                        state.0 - 1
                    };
                    let Some(cell) = missing.get(at) else { return };
                    if failed.lock().expect("no thread panics").is_some() {
                        return;
                    }
                    if let Err(error) =
                        measure(cell, &fonio, &folder, &built, &cell.file(&folder, &versions(cell)))
                    {
                        failed.lock().expect("no thread panics").get_or_insert(error);
                        return;
                    }
                    let mut state = state.lock().expect("no thread panics");
                    state.1 += 1;
                    let remain =
                        started.elapsed().as_secs_f64() / state.1 as f64 * (missing.len() - state.1) as f64;
                    eprintln!(
                        "{} of {} cells: {}; {:.0} min remain",
                        state.1,
                        missing.len(),
                        cell.name(),
                        remain / 60.0
                    );
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().expect("no thread panics") {
        return Err(error);
    }
    let mut results = Results::new();
    for cell in &cells {
        let text = std::fs::read(cell.file(&folder, &versions(cell)))?;
        results.insert((cell.profile, cell.variant.name, cell.part), serde_json::from_slice(&text)?);
    }
    for profile in &options.profiles {
        show(profile, &results, &options)?;
    }
    goals::show(&options.profiles, &results);
    println!("\nResults of finished cells are kept in {}.", folder.display());
    Ok(())
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |cell: Cell| {
        let name = cell.name();
        if options.words.is_empty() || options.words.iter().any(|word| name.contains(word.as_str())) {
            cells.push(cell);
        }
    };
    // The competitors first, so that an early stop leaves what matters most.
    let mut variants: Vec<_> = VARIANTS.iter().collect();
    variants.sort_by_key(|variant| !variant.is_stock && variant.name != SMARTIO);
    for profile in &options.profiles {
        for variant in &variants {
            for (part, starts) in PARTS {
                if variant.has_small_requests() && part != "files" {
                    continue;
                }
                add(Cell { profile, variant, part, ios: options.ios, starts: starts[options.starts] });
            }
        }
    }
    for variant in variants.iter().filter(|variant| variant.is_stock || variant.name == SMARTIO) {
        add(Cell { profile: IN_MEMORY, variant, part: "cost", ios: IOS[0], starts: 1 });
    }
    cells
}

fn measure(cell: &Cell, fonio: &Path, folder: &Path, built: &build::Built, kept: &Path) -> Result<()> {
    process::check_signals()?;
    let values = cell.measure(fonio, folder, built)?;
    let scratch = kept.with_extension("new");
    std::fs::write(&scratch, serde_json::to_string(&values)?)?;
    std::fs::rename(&scratch, kept).with_context(|| format!("cannot keep {}", kept.display()))
}

pub(super) fn short(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of(fonio: &Path, profile: &str) -> Result<String> {
    let out = Command::new(fonio).args(["device", "show", profile, "--toml"]).output()?;
    ensure!(
        out.status.success(),
        "`fonio device show {profile}` failed: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(Sha256::digest(&out.stdout).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Least, median and most.
fn points(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([sorted[0], f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]), sorted[last]])
}

fn median(values: &Values, name: &str) -> Option<f64> {
    points(values.get(name)?).map(|[_, median, _]| median)
}

/// The median over the starts of one response over another of the same start.
fn slowdown(values: &Values, beside: &str, alone: &str) -> Option<[f64; 3]> {
    let pairs = values.get(beside)?.iter().zip(values.get(alone)?);
    points(&pairs.map(|(beside, alone)| beside / alone).collect::<Vec<_>>())
}

fn show(profile: &str, results: &Results, options: &Options) -> Result<()> {
    println!(
        "\n{profile}: readers beside writers (direct, {} I/Os of each process, a quarter of that in 4x4, 16 starts with think times from 1 to 16 µs)",
        options.ios
    );
    println!(
        "mean response in µs, median of the starts (least to most); slowdown: response over that of one process alone"
    );
    println!(
        "{:<36} {:<5} {:<4} {:>26} {:>9} {:>28} {:>9}",
        "", "", "", "read", "slowdown", "write", "slowdown"
    );
    for (part, run) in [("seq", "1x1"), ("seq", "4x4"), ("rand", "1x1"), ("rand", "4x4")] {
        for variant in &VARIANTS {
            let Some(values) = results.get(&(profile, variant.name, part)) else { continue };
            let mut line = format!("{:<36} {part:<5} {run:<4}", variant.name);
            for op in ["read", "write"] {
                let name = format!("{run} {op}");
                let [least, middle, most] = values
                    .get(&name)
                    .and_then(|of_starts| points(of_starts))
                    .with_context(|| format!("there is no {name}"))?;
                let [_, times, _] = slowdown(values, &name, &format!("{op}-alone {op}"))
                    .with_context(|| format!("there is no {op} alone"))?;
                line += &format!(" {middle:>9.0} ({least:>6.0} to {most:>6.0}) {times:>9.2}");
            }
            println!("{line}");
        }
        println!();
    }
    println!(
        "{profile}: a random reader beside a writer with 32 requests at a time; both alone with 32; a reader with 8 that never ends"
    );
    println!(
        "beside one writer; a reader with pauses of 1 ms beside an fsync each second, and beside a copy (ext4)"
    );
    println!(
        "{:<36} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "",
        "read",
        "slowdown",
        "writes/s",
        "reads/s",
        "writes/s",
        "endless:",
        "",
        "fsync:",
        "copy:",
        "p99 of",
        "copied"
    );
    println!(
        "{:<36} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "",
        "µs",
        "",
        "beside",
        "alone",
        "alone",
        "writes/s",
        "late ms",
        "slowdown",
        "slowdown",
        "fsync ms",
        "MiB/s"
    );
    for variant in &VARIANTS {
        let value =
            |part: &'static str, name: &str| median(results.get(&(profile, variant.name, part))?, name);
        let times =
            |part: &'static str, beside: &str, alone: &str| Some(value(part, beside)? / value(part, alone)?);
        let cells = [
            (value("deep", "beside read"), 0),
            (times("deep", "beside read", "one-alone read"), 2),
            (value("deep", "beside write iops"), 0),
            (value("deep", "reads read iops"), 0),
            (value("deep", "writes write iops"), 0),
            (value("deep", "endless write iops"), 0),
            (value("deep", "late_ns").map(|late| late / 1e6), 3),
            (times("files", "fsync read", "paced read"), 2),
            (times("files", "copy read", "paced read"), 2),
            (value("files", "copy fsync p99").map(|p99| p99 / 1e3), 1),
            (value("files", "copy_mib_s"), 1),
        ];
        if cells.iter().all(|(value, _)| value.is_none()) {
            continue;
        }
        let mut line = format!("{:<36}", variant.name);
        for (at, (value, decimals)) in cells.into_iter().enumerate() {
            let width = [9, 8, 9, 9, 9, 9, 8, 8, 8, 9, 9][at];
            line += &value
                .map_or_else(|| format!(" {:>width$}", "-"), |value| format!(" {value:>width$.decimals$}"));
        }
        println!("{line}");
    }
    println!(
        "The bound of a sync write is 25 ms under smartio: one writer has at least 40 writes/s beside readers that never end. Late: how\n\
         long after its bound a write went at most, which is at least the rest of the request that the device was serving."
    );
    show_many(profile, results);
    Ok(())
}

/// The load that never ends: what turns of readers cost and gain.
fn show_many(profile: &str, results: &Results) {
    println!(
        "\n{profile}: four readers beside four writers for a second: reads a second, their longest 99th percentile of a reader and\n\
         longest response in ms, writes a second; a program that reads 20 times each 100 ms beside four random readers: mean in µs"
    );
    println!(
        "{:<36} {:>11} {:>7} {:>8} {:>8} {:>12} {:>7} {:>8} {:>8} {:>7}",
        "", "seq reads/s", "p99", "max", "writes/s", "rand reads/s", "p99", "max", "writes/s", "short"
    );
    for variant in &VARIANTS {
        let Some(values) = results.get(&(profile, variant.name, "many")) else { continue };
        let mut line = format!("{:<36}", variant.name);
        let mut add = |name: &str, per: f64, width: usize, decimals: usize| {
            line += &median(values, name).map_or_else(
                || format!(" {:>width$}", "-"),
                |value| format!(" {:>width$.decimals$}", value / per),
            );
        };
        for order in ["seq", "rand"] {
            add(&format!("many-{order} read iops"), 1.0, if order == "seq" { 11 } else { 12 }, 0);
            add(&format!("many-{order} read p99"), 1e3, 7, 2);
            add(&format!("many-{order} read max"), 1e3, 8, 1);
            add(&format!("many-{order} write iops"), 1.0, 8, 0);
        }
        add("short read", 1.0, 7, 0);
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_values() {
        assert_eq!(points(&[3.0, 1.0, 2.0, 6.0]), Some([1.0, 2.5, 6.0]));
        assert_eq!(points(&[]), None);
    }

    #[test]
    fn slowdowns_are_of_the_same_start() {
        let values: Values =
            [("beside".to_owned(), vec![2.0, 30.0]), ("alone".to_owned(), vec![1.0, 10.0])].into();
        assert_eq!(slowdown(&values, "beside", "alone"), Some([2.0, 2.5, 3.0]));
    }
}
