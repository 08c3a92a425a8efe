//! `cargo xtask dist`: builds programs that need no libraries, and their Debian packages and container
//! images.
//!
//! The sync-policy library is linked with glibc (`library.rs`). All other programs are static (`program.rs`).

mod arm;
mod check;
mod container;
mod engine;
mod library;
mod package;
mod path;
mod program;
mod results;
mod target;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use fonio_lab::Architecture;
use sha2::{Digest, Sha256};

use self::program::{FONIO, RECORDER, RESULTS};
use self::target::{TARGETS, Target};
use crate::{process, tools};

/// The options of `cargo xtask dist`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    all: Architectures,
}

#[derive(Subcommand)]
enum What {
    /// Make everything; test the programs with QEMU, and the packages in a new Debian of each architecture.
    Test(Architectures),
    /// Make everything, and record from the image with podman in a guest.
    Container(Architectures),
    /// Make everything, and follow a user's steps in a guest with a slow card.
    ///
    /// Installs fonio, runs `fonio check`, measures a fix while units run, keeps the fix, reboots, and undoes
    /// the fix. Takes 15 minutes for each architecture.
    Path(Architectures),
    /// Make the results service instead: a program, a package and a folder for a container.
    Results {
        #[command(subcommand)]
        test: Option<ResultsTest>,
        #[command(flatten)]
        architectures: Architectures,
    },
}

#[derive(Subcommand)]
enum ResultsTest {
    /// Also install the service in a guest, submit a result, and run its image with podman.
    Test(Architectures),
}

/// Names of targets.
#[derive(Args)]
struct Architectures {
    /// For these architectures.
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.name)))]
    architectures: Vec<String>,
}

impl Architectures {
    /// Returns the targets named on the command line, or the default targets.
    fn or(&self, default: &[Target]) -> Vec<Target> {
        let is_named = |target: &Target| self.architectures.iter().any(|name| name == target.name);
        if self.architectures.is_empty() {
            default.to_vec()
        } else {
            TARGETS.into_iter().filter(is_named).collect()
        }
    }
}

/// The programs, packages and image that are distributed for a target.
struct Made {
    target: Target,
    /// The paths of the static programs. `program` is fonio, and `recorder` is the recorder alone.
    program: PathBuf,
    recorder: PathBuf,
    /// The paths of the Debian packages of these programs.
    package: PathBuf,
    recorder_package: PathBuf,
    /// The path of the archive with the container image.
    container: PathBuf,
}

/// Builds the recorder for tests on this architecture, as a program that needs no libraries.
pub fn recorder_for_tests(architecture: Architecture) -> Result<PathBuf> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let target = TARGETS.into_iter().find(|target| target.debian == architecture);
    program::recorder_for_tests(target.with_context(|| format!("there is no recorder for {architecture}"))?)
}

/// Creates the files to distribute, and tests them if requested.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        None => make(&arguments.all).map(drop),
        Some(What::Test(named)) => check::run(&make(named)?),
        Some(What::Container(named)) => engine::run(&make(named)?),
        Some(What::Path(named)) => path::run(&make(named)?),
        Some(What::Results { test: None, architectures }) => results_service(architectures, false),
        Some(What::Results { test: Some(ResultsTest::Test(named)), .. }) => results_service(named, true),
    }
}

/// Builds the programs, packages and images of the named targets.
fn make(named: &Architectures) -> Result<Vec<Made>> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let mut all = Vec::new();
    for target in named.or(&TARGETS) {
        let program = program::build(target, FONIO)?;
        let recorder = program::build(target, RECORDER)?;
        let library = library::build(target)?;
        let package = package::of_fonio(target, &program, library.as_deref())?;
        let recorder_package = package::of_recorder(target, &recorder)?;
        let container = container::make(target, &program)?;
        all.push(Made { target, program, recorder, package, recorder_package, container });
    }
    sums()?;
    for made in &all {
        let files = [&made.program, &made.package, &made.recorder, &made.recorder_package, &made.container];
        for file in files {
            let bytes = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
            println!("{:<6} {:>7.2} MB  {}", made.target.name, bytes as f64 / 1e6, within(file));
        }
    }
    Ok(all)
}

/// Builds the results service, by default for amd64, and tests it if requested.
fn results_service(named: &Architectures, is_tested: bool) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    for target in named.or(&TARGETS[..1]) {
        let program = program::build(target, RESULTS)?;
        let package = package::of_results(target, &program)?;
        let container = results::container(&program)?;
        println!("{}: {}", target.name, within(&program));
        println!("{}: {}", target.name, within(&package));
        println!("{}: {}, for podman build", target.name, within(&container));
        if is_tested {
            let fonio = program::build(target, FONIO)?;
            let files = results::Files { package: &package, program: &program, fonio: &fonio };
            results::test(target, &files)?;
        }
    }
    if let Some(exposure) = results::exposure() {
        println!("{exposure}");
    }
    sums()
}

/// Returns the folder of the files to distribute.
fn folder() -> Result<PathBuf> {
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn within(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}

fn sysroot() -> Result<PathBuf> {
    let text =
        process::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(process::root()))?;
    Ok(PathBuf::from(text))
}

/// Returns the folder in which cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("neither CARGO_HOME nor HOME is set")
}

/// Returns the path of the linker that comes with Rust.
fn linker(sysroot: &Path) -> Result<PathBuf> {
    let libraries = sysroot.join("lib/rustlib");
    let entries = fs::read_dir(&libraries).with_context(|| format!("cannot list {}", libraries.display()))?;
    let mut found =
        entries.flatten().map(|entry| entry.path().join("bin/rust-lld")).filter(|path| path.exists());
    found.next().with_context(|| format!("this Rust has no rust-lld below {}", libraries.display()))
}

/// Writes the checksums of all files to distribute.
fn sums() -> Result<()> {
    const NAME: &str = "SHA256SUMS";
    let folder = folder()?;
    let mut lines = Vec::new();
    for entry in fs::read_dir(&folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == NAME || !entry.path().is_file() {
            continue;
        }
        let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
        lines.push(format!("{}  {name}\n", sha256(&bytes)));
    }
    lines.sort_by(|a, b| a[66..].cmp(&b[66..]));
    Ok(fs::write(folder.join(NAME), lines.concat())?)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
