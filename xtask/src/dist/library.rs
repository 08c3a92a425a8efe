//! Builds the sync-policy library (`fonio-sqlite-sync`). Unlike fonio itself, the library uses glibc,
//! Debian's C library, because Debian's programs load the library.
//!
//! The library is linked with Debian's shared libraries. Their packages are unpacked but not installed. A
//! shared library has no `main`, so it does not need the startup files of a C compiler.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use fonio_lab::Archive;

use super::target::Target;
use super::{linker, program, sysroot};
use crate::process;

/// The library names that the linker looks up, and the files that it must find. With glibc 2.34 and later,
/// only the first two libraries are needed, but Rust's standard library names all of them.
const LIBRARIES: [(&str, &str); 7] = [
    ("libc.so", "libc.so.6"),
    ("libgcc_s.so", "libgcc_s.so.1"),
    ("libm.so", "libm.so.6"),
    ("libdl.so", "libdl.so.2"),
    ("libpthread.so", "libpthread.so.0"),
    ("librt.so", "librt.so.1"),
    ("libutil.so", "libutil.so.1"),
];

/// What a shared library needs to be linked with Debian's C library, without a C compiler's startup files.
pub struct Glibc {
    /// Rust's name for the target.
    pub rust: &'static str,
    /// The flags for rustc. Do not set `CARGO_TARGET_…_LINKER` instead: if the target is this machine, that linker
    /// would also link build scripts, and it lacks the libraries for them.
    pub flags: String,
}

impl Glibc {
    /// Gets what is missing; `None` if Debian has no C library for the target.
    pub fn of(target: Target) -> Result<Option<Glibc>> {
        let Some((rust, folder, loader)) = target.glibc else { return Ok(None) };
        let sysroot = sysroot()?;
        program::component_of_target(rust, &sysroot)?;
        let archive = Archive::open()?.for_architecture(target.debian)?;
        let debian = archive.userland(&["libc6", "libgcc-s1"], &|text| eprintln!("{text}"))?.root;
        let debian = debian.join("usr/lib").join(folder);
        let links = process::scratch("dist")?.join(format!("link-{target}"));
        process::remove_folder(&links)?;
        fs::create_dir_all(&links)?;
        for (name, file) in LIBRARIES.into_iter().chain([(loader, loader)]) {
            let file = debian.join(file);
            ensure!(file.exists(), "Debian's packages libc6 and libgcc-s1 have no {}", file.display());
            std::os::unix::fs::symlink(file, links.join(name))?;
        }
        let mut flags = format!(
            "-Clinker={} -Clinker-flavor=ld.lld -Clink-self-contained=no -Lnative={}",
            linker(&sysroot)?.display(),
            links.display()
        );
        flags += &program::remapped("--remap-path-prefix")?;
        Ok(Some(Glibc { rust, flags }))
    }

    /// Returns the name of cargo's environment variable for a setting of the target.
    pub fn variable(&self, setting: &str) -> String {
        format!("CARGO_TARGET_{}_{setting}", self.rust.replace('-', "_").to_uppercase())
    }
}

/// Builds the library in the release configuration and returns its path; `None` if the target has none.
pub fn build(of: Target) -> Result<Option<PathBuf>> {
    let Some(glibc) = Glibc::of(of)? else { return Ok(None) };
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--package", "fonio-sqlite-sync", "--target", glibc.rust]);
    cargo.env(glibc.variable("RUSTFLAGS"), &glibc.flags);
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    process::run(&mut cargo)?;
    Ok(Some(process::target().join(glibc.rust).join("release/libfonio_sqlite_sync.so")))
}
