//! `cargo xtask bench schedulers`: SmartIO beside the kernel's schedulers, in guests whose clock counts instructions.
//!
//! A cell is a scheduler with one pattern of access. A finished cell is kept, so that a run that was stopped goes on where it
//! was; a cell counts again when the module changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::build::{self, sources};
use crate::lab::in_guest;
use crate::{process, tools};

const KERNEL: &str = "6.12";
/// A device with a depth of 1, as eMMC without a command queue has.
const PROFILE: &str = "samsung_s5";
const SCHEDULERS: [&str; 5] = ["none", "mq-deadline", "kyber", "bfq", "smartio"];
const PATTERNS: [&str; 2] = ["seq", "rand"];
const STARTS: u32 = 16;
/// I/Os of each process, quick and else.
const IOS: [u32; 2] = [300, 2000];

/// Mean response in µs by run (`1x1`) and op, for each start.
type Responses = BTreeMap<String, Vec<f64>>;

/// `cargo xtask bench schedulers [--quick] [--fonio PROGRAM] [WORD in the cell's name…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut ios, mut fonio, mut words) = (IOS[1], None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--quick" => ios = IOS[0],
            "--fonio" => fonio = Some(PathBuf::from(rest.next().context("--fonio needs a program")?)),
            word if word.starts_with('-') => bail!("unknown option `{word}`; use --quick or --fonio PROGRAM"),
            word => words.push(word.to_owned()),
        }
    }
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::KERNEL])?;
    process::outlive_signals()?;
    let fonio = fonio.map_or_else(process::build_fonio, Ok)?;
    let built = build::module(KERNEL)?;
    let folder = process::scratch("kernel/bench")?;
    for entry in [&built.module, &sources().join("test/compare.sh")] {
        let to = folder.join("guest").join(entry.file_name().context("a file has a name")?);
        std::fs::create_dir_all(folder.join("guest"))?;
        std::fs::copy(entry, to)?;
    }
    let module: String = Sha256::digest(std::fs::read(&built.module)?)
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!(
        "Readers beside writers on {PROFILE} (depth 1, nr_requests 64) in guests with Linux {}: 4 KiB, direct, {ios} I/Os of each \
         process,\n{STARTS} starts with think times from 1 to 96 µs. Mean response in µs: median of the starts, and least and most; \
         slowdown: that over\nthe response alone under the same scheduler with the same think time.\n",
        built.files.release
    );
    println!(
        "{:<12} {:<5} {:<5} {:>26} {:>9} {:>28} {:>9}",
        "", "", "", "read", "slowdown", "write", "slowdown"
    );
    for pattern in PATTERNS {
        for scheduler in SCHEDULERS {
            let name = format!("{scheduler}-{pattern}");
            if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
                continue;
            }
            let version = if scheduler == "smartio" { module.as_str() } else { built.files.release.as_str() };
            let kept = folder.join(format!("{name}-{ios}-{version}.json"));
            let responses = match std::fs::read(&kept) {
                Ok(text) => serde_json::from_slice(&text)?,
                Err(_) => {
                    process::check_signals()?;
                    let responses = cell(&fonio, &folder, scheduler, pattern, ios)?;
                    let scratch = kept.with_extension("new");
                    std::fs::write(&scratch, serde_json::to_string(&responses)?)?;
                    std::fs::rename(&scratch, &kept)?;
                    responses
                }
            };
            show(scheduler, pattern, &responses)?;
        }
    }
    println!("\nResults of finished cells are kept in {}.", folder.display());
    Ok(())
}

/// Runs one cell in a guest.
fn cell(fonio: &Path, folder: &Path, scheduler: &str, pattern: &str, ios: u32) -> Result<Responses> {
    let load = if scheduler == "smartio" { "insmod guest/smartio-iosched.ko && " } else { "" };
    let script = format!(
        "{load}fonio device emulate {PROFILE} --scheduler none -- sh guest/compare.sh {scheduler} {pattern} {ios} {STARTS}"
    );
    let mut command = process::bound_to_this(fonio);
    command
        .current_dir(folder)
        .args(["lab", "run", KERNEL, "--put", "guest", "--", "sh", "-c", &script, "fio"]);
    let (text, _) = in_guest(&mut command)?;
    responses(&text)
}

/// The mean response of each run, from the output of the script.
fn responses(text: &str) -> Result<Responses> {
    let mut found = Responses::new();
    for part in text.split("\n== ").skip(1) {
        let (title, rest) = part.split_once('\n').context("a run has output")?;
        let run = title.split(' ').next().unwrap_or(title);
        let from = rest.find('{').with_context(|| format!("fio gave no JSON for {title}: {rest}"))?;
        let said = serde_json::Deserializer::from_str(&rest[from..]).into_iter::<Value>().next();
        let said = said.context("fio gave no JSON")??;
        for op in ["read", "write"] {
            let jobs = said["jobs"].as_array().map_or(&[][..], Vec::as_slice);
            let of_op =
                || jobs.iter().map(|job| &job[op]).filter(|side| side["total_ios"].as_f64() > Some(0.0));
            let count: f64 = of_op().filter_map(|side| side["total_ios"].as_f64()).sum();
            let total: f64 = of_op()
                .filter_map(|side| Some(side["lat_ns"]["mean"].as_f64()? * side["total_ios"].as_f64()?))
                .sum();
            if count > 0.0 {
                found.entry(format!("{run} {op}")).or_default().push(total / count / 1e3);
            }
        }
    }
    ensure!(!found.is_empty(), "the guest gave no results:\n{text}");
    Ok(found)
}

/// Least, median and most.
fn points(values: &[f64]) -> Result<[f64; 3]> {
    ensure!(!values.is_empty(), "there is no value");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    Ok([sorted[0], f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]), sorted[last]])
}

fn show(scheduler: &str, pattern: &str, responses: &Responses) -> Result<()> {
    let of = |run: &str, op: &str| {
        let name = format!("{run} {op}");
        responses.get(&name).with_context(|| format!("{scheduler} has no run {name}"))
    };
    for run in ["1x1", "4x4"] {
        let mut line = format!("{scheduler:<12} {pattern:<5} {run:<5}");
        for op in ["read", "write"] {
            let alone = of(&format!("{op}-alone"), op)?;
            let beside = of(run, op)?;
            let [least, median, most] = points(beside)?;
            let slowdowns: Vec<f64> =
                beside.iter().zip(alone).map(|(beside, alone)| beside / alone).collect();
            let [_, slowdown, _] = points(&slowdowns)?;
            line += &format!(" {median:>9.0} ({least:>6.0} to {most:>6.0}) {slowdown:>9.2}");
        }
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_in_the_output_of_a_guest() {
        let job = r#"{"jobs": [{"read": {"total_ios": 2, "lat_ns": {"mean": 1000}}, "write": {"total_ios": 0}},
            {"read": {"total_ios": 2, "lat_ns": {"mean": 3000}}, "write": {"total_ios": 1, "lat_ns": {"mean": 500}}}]}"#;
        let text = format!("the device\n== 1x1 1\n{job}\n== 1x1 2\nfio: note\n{job}\nServed 3 commands\n");
        let found = responses(&text).expect("results");
        assert_eq!(found["1x1 read"], [2.0, 2.0]);
        assert_eq!(found["1x1 write"], [0.5, 0.5]);
        assert!(responses("no device\n").is_err());
    }

    #[test]
    fn points_of_values() {
        assert_eq!(points(&[3.0, 1.0, 2.0, 6.0]).expect("values"), [1.0, 2.5, 6.0]);
        assert!(points(&[]).is_err());
    }
}
