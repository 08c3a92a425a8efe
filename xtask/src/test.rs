//! `cargo xtask test`: runs all checks that must pass before a change is merged. `--fast` runs some of them,
//! for use during development.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::parts::part;
use crate::{bench, dist, fuzz, python, site, tally, tidy};
use xtask::{process, tools};

/// The size of the target directory after all checks of a new clone.
const BUILT_BYTES: u64 = 11 << 30;

/// The options of `cargo xtask test`.
#[derive(Args)]
pub struct Arguments {
    /// Run only the format check, the invariants, the lints, and the unit tests of crates that changed since
    /// their unit tests last passed.
    #[arg(long)]
    fast: bool,
}

/// Runs the checks.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.fast { fast() } else { all() }
}

/// Runs all steps, cheap steps first. The tests come last, so their summary ends the output.
fn all() -> Result<()> {
    // Report a misspelt requirement now, and not only after minutes at the first test.
    fonio_testing::required(&std::env::var(fonio_testing::REQUIRE).unwrap_or_default())
        .map_err(anyhow::Error::msg)?;
    ensure_space()?;
    tools::ensure(&[tools::BUILD, tools::ASSETS, tools::TEST, tools::COUNT])?;
    tools::ensure_python_packages()?;
    part("invariants", tidy::run)?;
    part("format", format)?;
    part("site", site::check)?;
    part("lints", lints)?;
    part("types for 32-bit ARM", dist::arm_types::check)?;
    part("documentation", || {
        let mut doc = process::cargo();
        doc.arg("doc").args(process::WHOLE_WORKSPACE).args(["--no-deps", "--document-private-items"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    if let Some(deny) = part("cargo-deny", tools::ensure_cargo_deny)? {
        part("licences", || process::run(&mut checks(&deny, &["check", "licenses", "bans", "sources"])))?;
        part("advisories", || advisories(&deny))?;
    }
    part("build of the fuzz targets", fuzz::build)?;
    part("fuzz targets", fuzz::repeat_all)?;
    part("instructions of small jobs", bench::instructions::check)?;
    let programs = part("build of the test programs", || tally::build(&[]))?;
    part("Python package", python::check)?;
    let tally = part("tests", || tally::run(&programs, true))?;
    println!("\n{tally}");
    Ok(())
}

/// Returns a command of cargo-deny for this workspace.
fn checks(deny: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(deny);
    command.args(arguments).current_dir(process::root());
    command
}

/// Checks the dependencies against the database of known vulnerabilities. Without the database, says that they
/// were not checked.
fn advisories(deny: &Path) -> Result<()> {
    // cargo-deny keeps the database from earlier calls, but an old database would miss new advisories.
    let fetched = checks(deny, &["fetch", "db"]).output().context("cannot start cargo-deny")?;
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        let why = why.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        println!("Advisories were not checked, because their database cannot be fetched: {}", why.trim());
        return Ok(());
    }
    process::run(&mut checks(deny, &["check", "--disable-fetch", "advisories"]))
}

/// Fails if the build of a new clone does not fit on the disk. On a full disk, the linker ends with a bus error,
/// which does not say why.
fn ensure_space() -> Result<()> {
    let target = process::target();
    // An earlier run left the documentation there.
    if target.join("doc").exists() {
        return Ok(());
    }
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    let disk =
        rustix::fs::statvfs(&target).with_context(|| format!("cannot look at {}", target.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    ensure!(
        free >= BUILT_BYTES,
        "the checks need {:.0} GiB in {}, where {:.1} GiB are free; free more, or set CARGO_TARGET_DIR to a folder on another disk",
        gib(BUILT_BYTES),
        target.display(),
        gib(free)
    );
    Ok(())
}

/// Runs the format check, the invariants, the lints, and the unit tests of crates that changed since their
/// unit tests last passed. These checks need neither root nor any program except a C compiler.
fn fast() -> Result<()> {
    tools::ensure(&[tools::BUILD])?;
    part("format", format)?;
    part("invariants", tidy::run)?;
    part("lints", lints)?;
    let record = process::scratch("tests")?.join("passed.json");
    let mut passed: BTreeMap<PathBuf, u64> = match fs::read(&record) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => BTreeMap::new(),
    };
    let programs = part("build of the unit tests", || tally::build(&["--lib", "--bins"]))?;
    let mut changed = Vec::new();
    for program in programs {
        let built_ns = built_ns(&program.executable)?;
        if passed.insert(program.executable.clone(), built_ns) != Some(built_ns) {
            changed.push(program);
        }
    }
    if changed.is_empty() {
        println!("No crate changed since its unit tests passed.\n\n0 passed, 0 failed");
        return Ok(());
    }
    let tally = part("unit tests", || tally::run(&changed, false))?;
    fs::write(&record, serde_json::to_vec(&passed)?)
        .with_context(|| format!("cannot write {}", record.display()))?;
    println!("\n{tally}");
    Ok(())
}

fn format() -> Result<()> {
    process::run(process::cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    let mut clippy = process::cargo();
    clippy.arg("clippy").args(process::WHOLE_WORKSPACE);
    process::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
}

/// Returns the time at which a program was compiled, in nanoseconds since 1970.
fn built_ns(executable: &Path) -> Result<u64> {
    let metadata =
        fs::metadata(executable).with_context(|| format!("cannot find {}", executable.display()))?;
    let since_1970 = metadata.modified()?.duration_since(UNIX_EPOCH).context("a file from before 1970")?;
    Ok(u64::try_from(since_1970.as_nanos())?)
}
