//! Builds static programs, which need no libraries.
//!
//! Rust's musl targets come with the C library and a linker. clang compiles the C code of dependencies
//! (SQLite, zstd) for each architecture. The headers of musl come from Debian's archive; their package is
//! unpacked but not installed. For 32-bit ARM, Rust's standard library and the C library are also compiled
//! (`arm.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_lab::Archive;

use super::target::Target;
use super::{arm, cargo_home, folder, linker, package, sysroot};
use crate::process;

/// A program that is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the program and of its crate.
    pub name: &'static str,
    /// The cargo profile with which the program is built.
    profile: &'static str,
    /// The maximum size of the program in bytes.
    pub bytes_max: Option<u64>,
}

/// The complete program fonio.
pub const FONIO: Program = Program { name: "fonio", profile: "release", bytes_max: None };
/// The recorder alone, for devices that have little storage.
pub const RECORDER: Program =
    Program { name: "fonio-recorder", profile: "small", bytes_max: Some(5_300_000) };

/// The recorder as tests of other processors need it: it compiles in less time.
const RECORDER_FOR_TESTS: Program = Program { name: "fonio-recorder", profile: "dev", bytes_max: None };

/// The results service.
pub const RESULTS: Program = Program { name: "fonio-results", profile: "release", bytes_max: None };

impl Program {
    /// Returns the name of the distributed file for a target.
    pub fn file(self, target: Target) -> String {
        format!("{}-{}-{}", self.name, package::VERSION, target.rust)
    }
}

/// Builds the recorder for tests, and returns the path of the program.
pub fn recorder_for_tests(target: Target) -> Result<PathBuf> {
    compile(target, RECORDER_FOR_TESTS)
}

/// Builds a program and copies it to the folder of the files to distribute.
pub fn build(target: Target, program: Program) -> Result<PathBuf> {
    let built = compile(target, program)?;
    let copy = folder()?.join(program.file(target));
    fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    let bytes = fs::metadata(&copy).with_context(|| format!("cannot read {}", copy.display()))?.len();
    println!("{target}: {} has {:.2} MB", program.name, bytes as f64 / 1e6);
    if let Some(most) = program.bytes_max {
        ensure!(bytes < most, "{} has {bytes} bytes for {target}; the limit is {most}", program.name);
    }
    Ok(copy)
}

/// Compiles a program, and returns its path.
fn compile(target: Target, program: Program) -> Result<PathBuf> {
    let rust = sysroot()?;
    let mut cargo = process::cargo();
    cargo.args(["build", "--profile", program.profile, "--package", program.name]);
    cargo.args(["--target", target.rust]);
    let mut flags = "-Clinker-flavor=ld.lld".to_owned();
    let include = if target.is_built_from_source() {
        component("rust-src", "Rust's own sources", &rust.join("lib/rustlib/src/rust/library/std"))?;
        let made = arm::c_library(target, &rust)?;
        // `-Zbuild-std` is unstable, but it works in stable Rust with RUSTC_BOOTSTRAP.
        cargo.args(["-Zbuild-std=std,panic_unwind"]).env("RUSTC_BOOTSTRAP", "1");
        // The crate `io-uring` accepts only architectures that its authors tested.
        flags += " -Clink-self-contained=no -Crelocation-model=static --cfg=io_uring_skip_arch_check";
        flags += &format!(" -Lnative={}", made.join("lib").display());
        for object in ["crt1.o", "crti.o", "crtn.o"] {
            flags += &format!(" -Clink-arg={}", made.join("lib").join(object).display());
        }
        made.join("include")
    } else {
        component_of_target(target.rust, &rust)?;
        flags += " -Clink-self-contained=yes";
        let archive = Archive::open()?.for_architecture(target.debian)?;
        let headers = archive.userland(&["musl-dev"], &|text| eprintln!("{text}"))?.root;
        let headers = headers.join("usr/include").join(target.triple);
        ensure!(headers.join("stdio.h").exists(), "Debian's package musl-dev has no {}", headers.display());
        headers
    };
    if program.bytes_max.is_some() {
        // Avoid relocations at startup, and merge identical functions. These options reduce the size of the
        // program from 5.29 MB to 4.90 MB on x86-64.
        flags += " -Crelocation-model=static -Clink-arg=--icf=all";
    }
    flags += &remapped("--remap-path-prefix")?;
    let of_files = remapped("-ffile-prefix-map")?;
    let of_c = format!(
        "--target={} {} -nostdlibinc -isystem {}{of_files}",
        target.triple,
        target.processor.join(" "),
        include.display()
    );
    let variable = |name: &str| format!("{name}_{}", target.rust.replace('-', "_"));
    let of_cargo =
        |name: &str| format!("CARGO_TARGET_{}_{name}", target.rust.replace('-', "_").to_uppercase());
    cargo.env(variable("CC"), "clang-14").env(variable("AR"), "llvm-ar-14").env(variable("CFLAGS"), of_c);
    cargo.env(of_cargo("LINKER"), linker(&rust)?).env(of_cargo("RUSTFLAGS"), flags);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    process::run(&mut cargo)?;
    // Cargo's folder for the profile `dev` has another name.
    let folder = if program.profile == "dev" { "debug" } else { program.profile };
    Ok(process::target().join(target.rust).join(folder).join(program.name))
}

/// Returns an option of a compiler for each folder of this machine, with the name that replaces it in programs. Panic
/// messages contain the paths of source files; with these names, two machines build the same bytes. The last prefix that
/// matches applies, and the target directory can be inside the repository.
///
/// If the sources of Rust's library are installed (`rust-src`), rustc names them where they are; otherwise, it names
/// the folder in which they were compiled. They get this name in both cases.
pub fn remapped(option: &str) -> Result<String> {
    let rust = sysroot()?;
    let version = process::output(Command::new("rustc").arg("-vV").current_dir(process::root()))?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    let compiled = format!("/rustc/{}", commit.context("`rustc -vV` names no commit")?);
    let folders = [
        (rust.clone(), "/rust"),
        (cargo_home()?, "/cargo"),
        (process::root().to_owned(), "/fonio"),
        (process::target(), "/target"),
        (rust.join("lib/rustlib/src/rust"), &compiled),
    ];
    Ok(folders.iter().map(|(from, to)| format!(" {option}={}={to}", from.display())).collect())
}

/// Installs Rust's standard library for a target with rustup if it is missing.
pub fn component_of_target(target: &str, rust: &Path) -> Result<()> {
    if rust.join("lib/rustlib").join(target).exists() {
        return Ok(());
    }
    println!("Rust's library for {target} is missing.");
    process::run(Command::new("rustup").args(["target", "add", target]).current_dir(process::root()))
        .context("cannot install it with rustup; install it in the way in which Rust was installed")
}

/// Installs a component of the Rust toolchain with rustup if the file or folder `there` is missing.
fn component(name: &str, what: &str, there: &Path) -> Result<()> {
    if there.exists() {
        return Ok(());
    }
    println!("{what} ({name}) are missing.");
    process::run(Command::new("rustup").args(["component", "add", name]).current_dir(process::root()))
        .with_context(|| format!("cannot add them with rustup; unpack them into {}", there.display()))?;
    ensure!(there.exists(), "rustup added {name}, but there is no {}", there.display());
    Ok(())
}
