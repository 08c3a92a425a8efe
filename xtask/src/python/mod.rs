//! `cargo xtask python`: builds the Python package as a wheel, installs it in a virtual environment, and runs its tests
//! there. The tests do not see the sources of the package.

mod mqsim;
mod speed;
mod trixie;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fonio_testing::Need;
use xtask::process;

/// The packages of the tests with their versions.
const REQUIREMENTS: &str = "python/tests/requirements.txt";

/// The options of `cargo xtask python`.
#[derive(Args)]
pub struct Arguments {
    /// Draw the pictures of docs/python.md again.
    #[arg(long)]
    gallery: bool,
    /// Build the package with full optimisation, and measure the speed of its simulator instead of running the
    /// tests.
    #[arg(long)]
    speed: bool,
    /// Run the tests in a Debian trixie with its Python 3.13. Needs root, and Debian's archive the first time.
    #[arg(long)]
    trixie: bool,
    /// Run the tutorials as notebooks, and write them with their outputs to docs/python/notebooks.
    #[arg(long)]
    notebooks: bool,
    /// Run the same experiments in the MQSim that was built in this folder, and keep the results for the tests.
    #[arg(long, value_name = "FOLDER")]
    mqsim: Option<PathBuf>,
}

/// Builds, installs and tests the package, or uses it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(python) = environment()? else { return Ok(()) };
    let is_timed = arguments.speed || arguments.mqsim.is_some();
    let wheel = install(&python, if is_timed { "release" } else { "dev" })?;
    let folder = process::root().join("python");
    if arguments.trixie {
        return trixie::test(&python, &wheel, &program());
    }
    if arguments.notebooks {
        return process::run(Command::new(&python).arg(folder.join("gallery/notebooks.py")));
    }
    if let Some(folder) = &arguments.mqsim {
        return mqsim::run(&python, folder);
    }
    if arguments.gallery {
        return process::run(Command::new(&python).arg(folder.join("gallery/draw.py")));
    }
    if arguments.speed {
        return speed::measure(&python);
    }
    test(&python)
}

/// Builds, installs and tests the package, as a part of all checks. `target/debug/fonio` must have been built.
pub fn check() -> Result<()> {
    let Some(python) = environment()? else { return Ok(()) };
    install(&python, "dev")?;
    test(&python)
}

fn test(python: &Path) -> Result<()> {
    let tests = process::root().join("python/tests");
    let mut command = Command::new(python);
    // Python would write its caches next to the tests.
    command.current_dir(&tests).env("PYTHONDONTWRITEBYTECODE", "1").env("FONIO", program());
    // A folder of its own, because other runs of pytest remove old folders of the same user.
    let temporary = process::scratch("python-tests")?;
    // `crates/fonio/tests/fleet.rs` runs the tests of fonio.fleet, which needs other packages.
    let options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore=fleet", "--basetemp"];
    process::run(command.args(options).arg(temporary))
}

/// The program with which the tests compare the package. Without it, tests are skipped.
fn program() -> PathBuf {
    process::target().join("debug/fonio")
}

/// Returns the interpreter of the virtual environment for the tests.
pub fn environment() -> Result<Option<PathBuf>> {
    environment_of("python-package", REQUIREMENTS, "the Python package is not tested")
}

/// Returns the interpreter of a virtual environment. Creates the environment with this name, and installs the packages
/// in the file `requirements`, if needed. If this fails, for example without a network, says the consequence and returns
/// `None`, or fails if the machine must have the packages.
pub fn environment_of(name: &str, requirements: &str, consequence: &str) -> Result<Option<PathBuf>> {
    let folder = process::scratch(name)?;
    let python = folder.join("bin/python3");
    let (wanted, installed) = (process::root().join(requirements), folder.join("requirements.txt"));
    let text = fs::read(&wanted).with_context(|| format!("cannot read {}", wanted.display()))?;
    if fs::read(&installed).is_ok_and(|installed| installed == text) {
        return Ok(Some(python));
    }
    println!("Installing the packages of {requirements} in {}", folder.display());
    let made = process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    let made = made.and_then(|()| {
        let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement"];
        process::run(Command::new(&python).args(pip).arg(&wanted))
    });
    if let Err(error) = made {
        let needs = fonio_testing::required(&std::env::var(fonio_testing::REQUIRE).unwrap_or_default());
        if needs.map_err(anyhow::Error::msg)?.contains(&Need::PythonPackages) {
            bail!("the packages of {requirements} cannot be installed: {error:#}");
        }
        println!("skipped: {consequence}, because its packages cannot be installed: {error:#}");
        return Ok(None);
    }
    fs::write(&installed, text).with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(Some(python))
}

/// Builds the wheel with a profile of cargo, installs it, and returns its path.
fn install(python: &Path, profile: &str) -> Result<PathBuf> {
    let wheels = process::scratch("wheels")?;
    process::remove_folder(&wheels)?;
    let folder = python.parent().context("an interpreter has a folder")?;
    let mut build = Command::new(folder.join("maturin"));
    build.current_dir(process::root().join("python"));
    build.args(["build", "--locked", "--quiet", "--profile", profile, "--interpreter"]).arg(python);
    process::run(build.arg("--out").arg(&wheels).env("CARGO_TARGET_DIR", process::target()))?;
    let made: Vec<PathBuf> = fs::read_dir(&wheels)
        .with_context(|| format!("cannot list {}", wheels.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let [wheel] = &made[..] else { bail!("maturin made {} wheels in {}", made.len(), wheels.display()) };
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name.contains("-abi3-"), "{name} is for one version of Python only");
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    process::run(Command::new(python).args(pip).arg(wheel))?;
    Ok(wheel.clone())
}
