//! `cargo studies fuse-safety suites`: runs file-system tests of other authors, on a folder directly and
//! through `fonio mount`.
//!
//! - pjdfstest: 398 cases of the POSIX rules for names, owners, times and error codes. Each case that passes
//!   in the folder itself must also pass through each mode.
//! - fsx: random reads, writes, mappings, truncations, holes and copies in one file, which is compared with
//!   its expected contents.
//!
//! Both suites are written in Rust and compiled on first use.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Mounted;
use crate::process;

/// The last two modes hold file handles instead of descriptors.
const MODES: [&str; 10] = [
    "mode=stock",
    "mode=extended",
    "mode=buffered",
    "mode=buffered,io_uring=no",
    "mode=writeback",
    "mode=writeback,io_uring=no",
    "mode=auto",
    "mode=auto,io_uring=no",
    "mode=buffered,files=256",
    "mode=auto,files=256",
];

/// The settings of pjdfstest: users that every Debian system has, and features that the suite cannot detect.
const PJDFSTEST: &str = include_str!("pjdfstest.toml");

/// A case that is skipped, because the C library's table of maximum link counts does not contain FUSE.
const NOT_TRIED: &str = "link::link_count_max";

/// Default number of fsx operations; the environment variable `FONIO_FSX_OPERATIONS` overrides it.
const OPERATIONS: u64 = 20_000;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// The settings of a run of fsx: the maximum file size, the maximum operation size, how often the file is
/// closed, and whether the file is mapped.
struct Profile {
    name: &'static str,
    file_bytes: u64,
    piece_bytes: u64,
    closes: u32,
    maps: u32,
    /// The divisor of the number of operations. It is larger for large operations, which take longer.
    share: u64,
}

const PROFILES: [Profile; 3] = [
    Profile { name: "mapped", file_bytes: 1 << 20, piece_bytes: 128 << 10, closes: 1, maps: 10, share: 1 },
    Profile {
        name: "small pieces",
        file_bytes: 256 << 10,
        piece_bytes: 16 << 10,
        closes: 5,
        maps: 0,
        share: 1,
    },
    Profile {
        name: "large pieces",
        file_bytes: 12 << 20,
        piece_bytes: 1_500_000,
        closes: 1,
        maps: 0,
        share: 20,
    },
];

impl Profile {
    fn configuration(&self) -> String {
        let Self { file_bytes, piece_bytes, closes, maps, .. } = self;
        format!(
            "flen = {file_bytes}\n[opsize]\nmax = {piece_bytes}\n[weights]\nclose_open = {closes}\nread = 10\nwrite = 10\n\
             mapread = {maps}\nmapwrite = {maps}\ninvalidate = {}\ntruncate = 5\nfsync = 0.5\nfdatasync = 0.5\n\
             posix_fallocate = 2\npunch_hole = 4\nsendfile = 2\nposix_fadvise = 1\ncopy_file_range = 4\n",
            u32::from(*maps > 0)
        )
    }
}

/// Runs both suites on a folder in the file system of this repository, and on a tmpfs.
pub fn run(fonio: &Path) -> Result<()> {
    let programs = process::scratch("suites")?;
    let pjdfstest = install(&programs, "pjdfstest", "0.2.2")?;
    let fsx = install(&programs, "fsx", "0.3.2")?;
    for place in [process::scratch("suites-source")?, PathBuf::from("/dev/shm")] {
        let folder = tempfile::tempdir_in(&place)?;
        let source = folder.path().join("source");
        fs::create_dir(&source)?;
        let shown = place.display();
        let native = conform(&pjdfstest, &source, folder.path(), &[])?;
        let passed = native.values().filter(|outcome| *outcome == "ok").count();
        println!("{shown}: pjdfstest passes {passed} of {} cases", native.len());
        for mode in MODES {
            let mounted = Mounted::start(fonio, &source, &format!("{mode},suid,dev"))?;
            let known = mode.contains("files=").then(|| know_many(&source, mounted.path())).transpose()?;
            let mut found = conform(&pjdfstest, mounted.path(), folder.path(), &[])?;
            let worse = worse(&native, &found);
            if !worse.is_empty() {
                // pjdfstest runs cases at the same time. While a case starts a program, another case can fail because the new
                // process still has the other case's file open.
                println!("{shown}, {mode}: these cases run again, alone: {}", worse.join(", "));
                let again = conform(&pjdfstest, mounted.path(), folder.path(), &worse)?;
                found.extend(again);
            }
            check(&native, &found).with_context(|| format!("pjdfstest on {shown}, {mode}"))?;
            exercise(&fsx, mounted.path(), folder.path())
                .with_context(|| format!("fsx on {shown}, {mode}"))?;
            if let Some(known) = known {
                fs::remove_dir_all(known)?;
            }
            println!("{shown}, {mode}: pjdfstest passes as in the folder, fsx finds no error");
        }
    }
    Ok(())
}

/// Looks up 256 files. A daemon with the option `files=256` then opens new files by their handles. Returns the
/// folder with these files.
fn know_many(source: &Path, mounted: &Path) -> Result<PathBuf> {
    let folder = source.join("known");
    fs::create_dir(&folder)?;
    for number in 0..256 {
        fs::write(folder.join(number.to_string()), "")?;
        mounted.join("known").join(number.to_string()).metadata()?;
    }
    Ok(folder)
}

fn install(root: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let program = root.join("bin").join(name);
    if !program.exists() {
        let mut cargo = process::cargo();
        process::run(cargo.args(["install", name, "--version", version, "--locked", "--root"]).arg(root))?;
    }
    Ok(program)
}

/// Runs pjdfstest in `dir` and returns the outcome of each case: `ok`, `FAILED` or `skipped`.
/// Without `cases`, runs all of them.
fn conform(pjdfstest: &Path, dir: &Path, scratch: &Path, cases: &[&str]) -> Result<BTreeMap<String, String>> {
    let configuration = scratch.join("pjdfstest.toml");
    fs::write(&configuration, PJDFSTEST)?;
    let output = Command::new(pjdfstest)
        .arg("-c")
        .arg(&configuration)
        .arg("-p")
        .arg(dir)
        .args(cases)
        .env("NO_COLOR", "1")
        .output()
        .context("cannot start pjdfstest")?;
    let cases = outcomes(&String::from_utf8_lossy(&output.stdout));
    ensure!(!cases.is_empty(), "pjdfstest ran nothing: {}", String::from_utf8_lossy(&output.stderr));
    Ok(cases)
}

/// Parses the outcomes of pjdfstest. Each line is a case; indented lines below a case give the reason.
fn outcomes(text: &str) -> BTreeMap<String, String> {
    let cases = text.lines().filter_map(|line| {
        let (case, outcome) = line.split_once(char::is_whitespace)?;
        let outcome = outcome.trim();
        let is_case = case.contains("::") && matches!(outcome, "ok" | "FAILED" | "skipped");
        is_case.then(|| (case.to_owned(), outcome.to_owned()))
    });
    cases.collect()
}

/// Returns the cases that pass in the folder and not in the mount.
fn worse<'a>(native: &'a BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<&'a str> {
    native
        .iter()
        .filter(|(case, outcome)| *outcome == "ok" && found.get(*case) != Some(outcome))
        .map(|(case, _)| case.as_str())
        .filter(|case| *case != NOT_TRIED)
        .collect()
}

fn check(native: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Result<()> {
    let worse = worse(native, found);
    ensure!(worse.is_empty(), "these cases pass in the folder, not in the mount: {}", worse.join(", "));
    Ok(())
}

fn exercise(fsx: &Path, dir: &Path, scratch: &Path) -> Result<()> {
    let said = std::env::var("FONIO_FSX_OPERATIONS").ok();
    let operations: u64 = said.map_or(Ok(OPERATIONS), |text| text.parse())?;
    for profile in &PROFILES {
        let configuration = scratch.join("fsx.toml");
        fs::write(&configuration, profile.configuration())?;
        for seed in SEEDS {
            let file = dir.join("fsx");
            let output = Command::new(fsx)
                .arg("-f")
                .arg(&configuration)
                .args(["-N", &(operations / profile.share).to_string(), "-S", &seed.to_string(), "-P"])
                .arg(scratch)
                .arg(&file)
                .output()
                .context("cannot start fsx")?;
            let why = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}, seed {seed}: {why}", profile.name);
            fs::remove_file(&file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_passes_below_alone_is_named() {
        let text =
            "chmod::eperm_not_owner                    ok\nlink::link_count_max   ok\nopen::truncate ok\n";
        let native = outcomes(text);
        assert_eq!(native.len(), 3);
        let found = outcomes(
            "chmod::eperm_not_owner FAILED\n\tcalled `Result::unwrap()`: no\nlink::link_count_max skipped\n\tunknown\n\
             open::truncate ok\n\nSummary: 1 failed\n",
        );
        let error = check(&native, &found).expect_err("one fails");
        assert_eq!(
            error.to_string(),
            "these cases pass in the folder, not in the mount: chmod::eperm_not_owner"
        );
        assert!(check(&native, &native).is_ok());
    }
}
