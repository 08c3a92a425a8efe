//! `cargo xtask dist`: programs that need no libraries, Debian packages of them, and images for containers.
//!
//! The library of the sync policy is linked with glibc (`library.rs`); everything else is static (`program.rs`).

mod arm;
mod check;
mod container;
mod engine;
mod library;
mod package;
mod path;
mod program;
mod results;
mod results_test;
mod target;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use self::program::{FONIO, RECORDER, RESULTS};
use self::target::Target;
use crate::{process, tools};

/// The tests of the packages in guests.
const TESTS: [(&str, Test); 3] = [("test", check::run), ("container", engine::run), ("path", path::run)];

/// A test of what users get, for some targets.
type Test = fn(&[Made]) -> Result<()>;

/// The programs and packages that users get for a target.
struct Made {
    target: Target,
    /// The static programs: fonio, and the recorder alone.
    program: PathBuf,
    recorder: PathBuf,
    /// The packages of the same.
    package: PathBuf,
    recorder_package: PathBuf,
    /// An archive with an image for containers.
    container: PathBuf,
}

/// Runs `dist [test|container|path] [ARCHITECTURE…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    if let [word, names @ ..] = arguments
        && word == "results"
    {
        return results_service(names);
    }
    let named = |word: &String| TESTS.iter().find(|(name, _)| name == word);
    let test = arguments.first().and_then(named).map(|(_, test)| test);
    let names = if test.is_some() { &arguments[1..] } else { arguments };
    let named: Result<Vec<Target>> = names.iter().map(|name| name.parse()).collect();
    let targets = if names.is_empty() { Target::ALL.to_vec() } else { named? };
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let mut all = Vec::new();
    for target in targets {
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
            println!("{:<6} {:>7.2} MB  {}", made.target.name(), bytes as f64 / 1e6, within(file));
        }
    }
    test.map_or(Ok(()), |test| test(&all))
}

/// Runs `dist results [test] [ARCHITECTURE…]`: by default for amd64.
fn results_service(arguments: &[String]) -> Result<()> {
    let (is_tested, names) = match arguments {
        [word, names @ ..] if word == "test" => (true, names),
        names => (false, names),
    };
    let named: Result<Vec<Target>> = names.iter().map(|name| name.parse()).collect();
    let targets = if names.is_empty() { vec!["amd64".parse()?] } else { named? };
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    for target in targets {
        let program = program::build(target, RESULTS)?;
        let package = results::make(&target.debian().to_string(), &program)?;
        let container = results::container(&program)?;
        println!("{}: {}", target.name(), within(&program));
        println!("{}: {}", target.name(), within(&package));
        println!("{}: {}, for podman build", target.name(), within(&container));
        if is_tested {
            let fonio = program::build(target, FONIO)?;
            let files = results_test::Files { package: &package, program: &program, fonio: &fonio };
            results_test::run(target, &files)?;
        }
    }
    if let Some(exposure) = results::exposure() {
        println!("{exposure}");
    }
    sums()
}

/// The folder of what users get.
fn folder() -> Result<PathBuf> {
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn within(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}

/// The folder of the Rust toolchain.
fn sysroot() -> Result<PathBuf> {
    let text = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(process::root()))?;
    Ok(PathBuf::from(text))
}

/// Returns the folder in which cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("CARGO_HOME is not set, nor HOME")
}

/// The linker that comes with Rust.
fn linker(sysroot: &Path) -> Result<PathBuf> {
    let libraries = sysroot.join("lib/rustlib");
    let entries = fs::read_dir(&libraries).with_context(|| format!("cannot list {}", libraries.display()))?;
    let mut found =
        entries.flatten().map(|entry| entry.path().join("bin/rust-lld")).filter(|path| path.exists());
    found.next().with_context(|| format!("this Rust has no rust-lld below {}", libraries.display()))
}

/// Writes the checksums of all files that users get.
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
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push(format!("{sum}  {name}\n"));
    }
    lines.sort_by(|a, b| a[66..].cmp(&b[66..]));
    Ok(fs::write(folder.join(NAME), lines.concat())?)
}

/// Returns what a program prints, without the newline.
fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {}", process::shown(command)))?;
    if !out.status.success() {
        bail!("{} failed: {}\n{}", process::shown(command), out.status, String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
}
