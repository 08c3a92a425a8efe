//! Tests the wheel in a Debian trixie with its Python, in a root directory of its own.
//!
//! `fonio-lab` makes the root directory from Debian's packages, and keeps it. pip downloads the packages of the tests on
//! this machine, so that the tests need no network. The tests run in namespaces of their own: when they end, also by
//! Ctrl-C, all mounts are gone, and the root directory is as before.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, ProgramRoot, Programs};
use xtask::process;

use super::REQUIREMENTS;

/// Debian's packages that the tests need.
const PACKAGES: [&str; 4] = ["python3", "python3-venv", "libstdc++6", "libgomp1"];
/// The version of Python in trixie.
const VERSION: &str = "3.13";
/// The oldest to the newest platforms whose wheels trixie can run.
const PLATFORMS: [&str; 6] = [
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_26_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_34_x86_64",
];

/// Runs the tests of the package from this wheel. `python` is an interpreter with pip.
pub(super) fn test(python: &Path, wheel: &Path, program: &Path) -> Result<()> {
    ensure!(
        process::is_root(),
        "a root directory of its own needs root: run `cargo xtask python --trixie` as root"
    );
    // pip runs on this machine, the tests in a child that ends with this process.
    let stop = process::outlive_signals()?;
    let wheels = downloaded(python)?;
    process::check_signals()?;
    let root = root(&stop)?;
    let scratch = process::scratch("trixie-mounts")?;
    let mut tests = Command::new("setpriv");
    tests.args([
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--net",
        "--fork",
        "--kill-child",
        "--",
        "sh",
        "-c",
    ]);
    tests.arg(include_str!("trixie.sh")).arg("sh").arg(root).arg(scratch).arg(process::root()).arg(&wheels);
    tests.arg(wheel).arg(program).arg(process::root().join(REQUIREMENTS));
    let mut running = tests.spawn().context("cannot start unshare; it is in the package util-linux")?;
    let status = loop {
        if let Some(status) = running.try_wait().context("cannot wait for the tests")? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            // All processes and mounts of the namespaces end with it.
            running.kill().context("cannot end the tests")?;
            running.wait().context("cannot wait for the tests")?;
        }
        thread::sleep(Duration::from_millis(100));
    };
    process::check_signals()?;
    ensure!(status.success(), "the tests in trixie failed: {status}");
    Ok(())
}

/// Returns the root directory, and makes it if needed.
fn root(stop: &AtomicBool) -> Result<std::path::PathBuf> {
    let archive = Archive::open()?;
    let packages = PACKAGES.map(str::to_owned);
    let announce = |text: &str| eprintln!("{text}");
    let programs = Programs { packages: &packages, wheels: &[] };
    let made = ProgramRoot::of(&archive, programs, &announce, stop)?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    Ok(made.path)
}

/// Downloads the packages of the tests for trixie's Python, if they are not there, and returns their folder.
fn downloaded(python: &Path) -> Result<std::path::PathBuf> {
    let folder = process::scratch("wheels-trixie")?;
    let (wanted, fetched) = (process::root().join(REQUIREMENTS), folder.join("requirements.txt"));
    let text = fs::read(&wanted).with_context(|| format!("cannot read {}", wanted.display()))?;
    if fs::read(&fetched).is_ok_and(|fetched| fetched == text) {
        return Ok(folder);
    }
    println!("Downloading the packages of the tests for Python {VERSION} to {}", folder.display());
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", VERSION]);
    for platform in PLATFORMS {
        pip.args(["--platform", platform]);
    }
    process::run(pip.arg("--dest").arg(&folder).arg("--requirement").arg(&wanted))?;
    fs::write(&fetched, text).with_context(|| format!("cannot write {}", fetched.display()))?;
    Ok(folder)
}
