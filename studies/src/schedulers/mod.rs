//! `cargo studies schedulers`: compares SmartIO with the kernel's schedulers, in guests whose clock counts
//! instructions.
//!
//! A cell (`cell.rs`) is a part of the comparison under one scheduler on one device. The study stores the
//! results of finished cells, so an interrupted run can be continued. A cell is measured again if the module,
//! fonio, the script or the kernel changes. At the end, the goals (`goals.rs`) are checked.

mod cell;
mod figures;
mod goals;
mod halves;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::statistics::sample::median;
use sha2::{Digest, Sha256};

pub use self::goals::interval;

use self::cell::{Cell, SMARTIO, VARIANTS, Values, emulated};
use crate::smartio::{self, sources};
use crate::{process, tools};

const KERNEL: &str = "6.12";
/// The study's device. The policy was tuned on this device. It has a queue depth of 1; the other profiles
/// have queue depths of 1, 32 and 32.
const TUNED_ON: &str = "samsung_s5";
const PROFILES: [&str; 4] = [TUNED_ON, "sd_a1", "emmc51", "ufs31"];
/// The parts of the comparison, each with its number of starts with `--quick` and without it.
const PARTS: [(&str, [u32; 2]); 6] = [
    ("seq", [16, 16]),
    ("rand", [16, 16]),
    ("deep", [4, 16]),
    ("many", [1, 4]),
    ("files", [4, 8]),
    ("pauses", [3, 16]),
];
/// The parts in which the page cache writes large requests.
const HAS_LARGE_REQUESTS: [&str; 2] = ["files", "pauses"];
/// Number of I/Os of each process, with `--quick` and without it.
const IOS: [u32; 2] = [200, 1000];
/// The name of the device in memory with which the processor time per request is measured.
const IN_MEMORY: &str = "memory";

const SCRIPTS: [&str; 4] = ["compare.sh", "many.sh", "files.sh", "pauses.sh"];

/// Measured values by profile, variant and part.
type Results = BTreeMap<(&'static str, &'static str, &'static str), Values>;

#[derive(Args)]
pub struct Arguments {
    /// Measure the cells whose names contain one of the words (default: all).
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Measure only the Galaxy S5, with fewer requests.
    #[arg(long)]
    quick: bool,
    /// Measure only this profile.
    #[arg(long, value_name = "PROFILE", value_parser = PROFILES)]
    on: Option<String>,
    /// Guests that run at the same time (default: one for each processor).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<PathBuf>,
}

/// Returns a short hash of the bytes.
pub fn short(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the minimum, the median and the maximum of the values.
pub fn points(values: &[f64]) -> Option<[f64; 3]> {
    let all = values.iter().copied();
    let (least, most) = (all.clone().fold(f64::INFINITY, f64::min), all.fold(f64::NEG_INFINITY, f64::max));
    Some([least, median(values)?, most])
}

/// Returns the path of the given build of fonio, or builds fonio.
pub fn fonio(given: Option<&Path>) -> Result<PathBuf> {
    given.map_or_else(process::build_fonio, |program| Ok(std::path::absolute(program)?))
}

struct Options<'a> {
    ios: u32,
    starts: usize,
    profiles: Vec<&'static str>,
    jobs: usize,
    words: &'a [String],
}

impl Options<'_> {
    fn of(arguments: &Arguments) -> Options<'_> {
        let Arguments { words, quick, on, jobs, .. } = arguments;
        let (ios, starts) = if *quick { (IOS[0], 0) } else { (IOS[1], 1) };
        let is_wanted =
            |profile: &&str| on.as_ref().map_or(!quick || *profile == TUNED_ON, |name| name == profile);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let profiles = PROFILES.into_iter().filter(is_wanted).collect();
        Options { ios, starts, profiles, jobs: jobs.map_or(processors, usize::from), words }
    }
}

/// Measures the cells that have no results yet, and prints all cells.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = Options::of(arguments);
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::KERNEL])?;
    process::outlive_signals()?;
    let fonio = fonio(arguments.fonio.as_deref())?;
    let built = smartio::module(KERNEL)?;
    let folder = process::scratch("kernel/bench")?;
    let scripts = SCRIPTS.map(|name| sources().join("test").join(name));
    std::fs::create_dir_all(folder.join("guest"))?;
    for entry in scripts.iter().chain([&built.module]) {
        let to = folder.join("guest").join(entry.file_name().context("a file has no name")?);
        std::fs::copy(entry, to)?;
    }
    println!("Linux {} in guests; reads and writes of 4 KiB.", built.files.release);
    for profile in &options.profiles {
        println!(
            "Profile {profile}: sha256 of `fonio device show {profile} --toml`: {}",
            digest_of(&fonio, profile)?
        );
        for part in PARTS.map(|(part, _)| part) {
            if !emulated(profile, part).is_empty() {
                println!("  {part}: emulated with {}", emulated(profile, part).trim_end());
            }
        }
    }
    println!("The policy was tuned on {TUNED_ON} only.\n");

    let module = short(&std::fs::read(&built.module)?);
    // The results of finished cells are not valid for another version of fonio, because fonio serves the
    // devices, and its processor time is part of their service times.
    let program = short(&std::fs::read(&fonio)?);
    let scripts = scripts.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let scripts: BTreeMap<&str, Vec<u8>> = SCRIPTS.into_iter().zip(scripts).collect();
    let cells: Vec<Cell> = cells(&options);
    ensure!(!cells.is_empty(), "no cell has {} in its name", options.words.join(" or "));
    // The inputs of a cell, as a part of the name of its results file.
    let versions = |cell: &Cell| {
        let release = &built.files.release;
        let module =
            if cell.variant.scheduler == "smartio" { &format!("{release}-{module}") } else { release };
        let scripts = cell.scripts().iter().map(|name| scripts[name].as_slice());
        let inputs: Vec<u8> =
            scripts.chain([emulated(cell.profile, cell.part).as_bytes()]).flatten().copied().collect();
        format!("{module}-{program}-{}", short(&inputs))
    };
    let started = Instant::now();
    let missing: Vec<&Cell> =
        cells.iter().filter(|cell| !cell.file(&folder, &versions(cell)).exists()).collect();
    // The index of the next cell, and the number of finished cells. The first cell that fails ends the study.
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
    let command = format!("cargo studies schedulers{}", if arguments.quick { " --quick" } else { "" });
    for profile in &options.profiles {
        tables::show(profile, &results, &command, options.words.is_empty())?;
    }
    goals::show(&options.profiles, &results);
    halves::show(&results);
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
    // Measure the most important cells first, because the study may be stopped early.
    let mut variants: Vec<_> = VARIANTS.iter().collect();
    variants.sort_by_key(|variant| !variant.is_stock && variant.name != SMARTIO);
    for profile in &options.profiles {
        for variant in &variants {
            for (part, starts) in PARTS {
                if variant.has_small_requests() && !HAS_LARGE_REQUESTS.contains(&part) {
                    continue;
                }
                // With `--quick`, the longest part only compares the schedulers as they come.
                if part == "pauses" && options.starts == 0 && !variant.is_stock && variant.name != SMARTIO {
                    continue;
                }
                add(Cell { profile, variant, part, ios: options.ios, starts: starts[options.starts] });
            }
        }
    }
    for variant in variants.iter().filter(|variant| variant.is_stock || variant.name == SMARTIO) {
        add(Cell { profile: IN_MEMORY, variant, part: "cost", ios: IOS[0], starts: 4 });
    }
    cells
}

fn measure(cell: &Cell, fonio: &Path, folder: &Path, built: &smartio::Built, kept: &Path) -> Result<()> {
    process::check_signals()?;
    let values = cell.measure(fonio, folder, built)?;
    let scratch = kept.with_extension("new");
    std::fs::write(&scratch, serde_json::to_string(&values)?)?;
    std::fs::rename(&scratch, kept).with_context(|| format!("cannot keep {}", kept.display()))
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

#[cfg(test)]
mod tests {
    use super::points;

    #[test]
    fn points_of_values() {
        assert_eq!(points(&[3.0, 1.0, 2.0, 6.0]), Some([1.0, 2.5, 6.0]));
        assert_eq!(points(&[]), None);
    }
}
