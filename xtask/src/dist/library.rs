//! Builds the library that programs load (`fonio-sqlite-sync`). Unlike fonio itself it is for the C library of Debian, glibc, because
//! it becomes a part of Debian's programs.
//!
//! It is linked against the shared libraries in Debian's archive, which are unpacked and not installed. No start files of a C compiler
//! are needed: a shared library has no `main`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Architecture, Archive};

use super::{cargo_home, linker, output};
use crate::process;

/// The names under which the linker looks for libraries, and the files. Of those after the first two, glibc 2.34 and later need
/// nothing, but Rust's standard library names them.
const LIBRARIES: [(&str, &str); 7] = [
    ("libc.so", "libc.so.6"),
    ("libgcc_s.so", "libgcc_s.so.1"),
    ("libm.so", "libm.so.6"),
    ("libdl.so", "libdl.so.2"),
    ("libpthread.so", "libpthread.so.0"),
    ("librt.so", "librt.so.1"),
    ("libutil.so", "libutil.so.1"),
];

/// Rust's name of the architecture with glibc, the folder of its libraries in Debian, and its dynamic linker.
fn names_of(architecture: Architecture) -> (&'static str, &'static str, &'static str) {
    match architecture {
        Architecture::Amd64 => ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
        Architecture::Arm64 => ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
    }
}

/// Builds the library in the users' configuration, and returns its path.
pub fn build(architecture: Architecture) -> Result<PathBuf> {
    let (target, folder, loader) = names_of(architecture);
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(process::root()))?;
    let sysroot = Path::new(&sysroot);
    if !sysroot.join("lib/rustlib").join(target).exists() {
        println!("Rust's library for {target} is missing.");
        process::run(Command::new("rustup").args(["target", "add", target]).current_dir(process::root()))
            .context("rustup adds it; without rustup, install Rust's library for that target")?;
    }
    let archive = Archive::open()?.for_architecture(architecture)?;
    let debian = archive.userland(&["libc6", "libgcc-s1"], &|text| eprintln!("{text}"))?.root;
    let debian = debian.join("usr/lib").join(folder);
    let links = process::scratch("dist")?.join(format!("link-{architecture}"));
    if links.exists() {
        fs::remove_dir_all(&links).with_context(|| format!("cannot remove {}", links.display()))?;
    }
    fs::create_dir_all(&links)?;
    for (name, file) in LIBRARIES.into_iter().chain([(loader, loader)]) {
        let file = debian.join(file);
        ensure!(file.exists(), "Debian's packages libc6 and libgcc-s1 have no {}", file.display());
        std::os::unix::fs::symlink(file, links.join(name))?;
    }
    let of_cargo = |name: &str| format!("CARGO_TARGET_{}_{name}", target.replace('-', "_").to_uppercase());
    // Not in CARGO_TARGET_…_LINKER: where this machine is of that target, cargo would also link build scripts with it, without
    // these libraries. Flags are for the target only.
    let mut flags = format!(
        "-Clinker={} -Clinker-flavor=ld.lld -Clink-self-contained=no -Lnative={}",
        linker(sysroot)?.display(),
        links.display()
    );
    for (from, to) in [(process::root().to_owned(), "/fonio"), (cargo_home()?, "/cargo")] {
        flags += &format!(" --remap-path-prefix={}={to}", from.display());
    }
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--package", "fonio-sqlite-sync", "--target", target]);
    cargo.env(of_cargo("RUSTFLAGS"), flags);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    process::run(&mut cargo)?;
    Ok(process::target().join(target).join("release/libfonio_sqlite_sync.so"))
}
