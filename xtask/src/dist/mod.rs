//! `cargo xtask dist`: programs that need no libraries, and Debian packages of them, for amd64 and arm64.
//!
//! Rust's targets for musl bring the C library and a linker. The C in our dependencies (SQLite, zstd) is compiled by clang
//! for both architectures, with musl's headers from Debian's archive, which are unpacked and not installed. The library of the sync
//! policy is linked with glibc (`library.rs`).

mod check;
mod library;
mod package;
mod path;
mod results;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{Architecture, Archive};
use sha2::{Digest, Sha256};

use crate::{process, tools};

/// What can be done with the packages in guests.
const TESTS: [(&str, Test); 2] = [("test", check::run), ("path", path::run)];

/// A test of the packages for some architectures.
type Test = fn(&[(Architecture, PathBuf)]) -> Result<()>;

/// Runs `dist [test|path] [ARCHITECTURE…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    if let [word, names @ ..] = arguments
        && word == "results"
    {
        return results_service(names);
    }
    let named = |word: &String| TESTS.iter().find(|(name, _)| name == word);
    let test = arguments.first().and_then(named).map(|(_, test)| test);
    let names = if test.is_some() { &arguments[1..] } else { arguments };
    let named: Result<Vec<Architecture>, _> = names.iter().map(|name| name.parse()).collect();
    let architectures = if names.is_empty() { Architecture::ALL.to_vec() } else { named? };
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let mut packages = Vec::new();
    for architecture in architectures {
        let program = build(architecture, "fonio")?;
        let library = library::build(architecture)?;
        packages.push((architecture, package::make(architecture, &program, &library)?));
    }
    sums()?;
    for (architecture, package) in &packages {
        println!("{architecture}: {}", within(package));
    }
    test.map_or(Ok(()), |test| test(&packages))
}

/// Makes the results service for some architectures.
fn results_service(names: &[String]) -> Result<()> {
    let named: Result<Vec<Architecture>, _> = names.iter().map(|name| name.parse()).collect();
    let architectures = if names.is_empty() { Architecture::ALL.to_vec() } else { named? };
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    for architecture in architectures {
        let program = build(architecture, results::PROGRAM)?;
        println!("{architecture}: {}", within(&program));
        println!("{architecture}: {}", within(&results::make(&architecture.to_string(), &program)?));
        if Architecture::of_this_machine() == Some(architecture) {
            println!("{architecture}: {}, for podman build", within(&results::container(&program)?));
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

/// Rust's name of the architecture with musl.
fn target_of(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "x86_64-unknown-linux-musl",
        Architecture::Arm64 => "aarch64-unknown-linux-musl",
    }
}

/// The triple that clang and Debian's headers use.
fn triple_of(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "x86_64-linux-musl",
        Architecture::Arm64 => "aarch64-linux-musl",
    }
}

/// Builds a program, which has the name of its crate, and copies it to the folder of what users get.
fn build(architecture: Architecture, name: &str) -> Result<PathBuf> {
    let (target, triple) = (target_of(architecture), triple_of(architecture));
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(process::root()))?;
    let sysroot = Path::new(&sysroot);
    if !sysroot.join("lib/rustlib").join(target).exists() {
        println!("Rust's library for {target} is missing.");
        process::run(Command::new("rustup").args(["target", "add", target]).current_dir(process::root()))
            .context("rustup adds it; without rustup, install Rust's library for that target")?;
    }
    let archive = Archive::open()?.for_architecture(architecture)?;
    let headers = archive.userland(&["musl-dev"], &|text| eprintln!("{text}"))?.root;
    let headers = headers.join("usr/include").join(triple);
    ensure!(headers.join("stdio.h").exists(), "Debian's package musl-dev has no {}", headers.display());
    let flags = format!("--target={triple} -nostdlibinc -isystem {}", headers.display());
    let variable = |name: &str| format!("{name}_{}", target.replace('-', "_"));
    let of_cargo = |name: &str| format!("CARGO_TARGET_{}_{name}", target.replace('-', "_").to_uppercase());
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--package", name, "--target", target]);
    cargo.env(variable("CC"), "clang-14").env(variable("AR"), "llvm-ar-14").env(variable("CFLAGS"), flags);
    cargo.env(of_cargo("LINKER"), linker(sysroot)?);
    let mut flags = "-Clinker-flavor=ld.lld -Clink-self-contained=yes".to_owned();
    // Messages of panics name sources; where they were on this machine is nobody's business.
    for (from, to) in [(process::root().to_owned(), "/fonio"), (cargo_home()?, "/cargo")] {
        flags += &format!(" --remap-path-prefix={}={to}", from.display());
    }
    cargo.env(of_cargo("RUSTFLAGS"), flags);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    process::run(&mut cargo)?;
    let built = process::target().join(target).join("release").join(name);
    let program = folder()?.join(format!("{name}-{}-{target}", package::VERSION));
    fs::copy(&built, &program).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(program)
}

/// Where cargo keeps the sources of dependencies.
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
