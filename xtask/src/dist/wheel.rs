//! Makes the wheels of the Python package.
//!
//! The wheel for another processor is linked with Debian's C library, like the sync-policy library (`library.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{Architecture, Archive};

use super::library::Glibc;
use super::target::Target;
use super::{committed_s, folder, program, sbom};
use crate::{process, python, tools};

/// A simulation, as in the documents of the package.
const SIMULATION: &str = "\
import fonio
load = fonio.ClosedLoop(2000, reads=0.7, size=4096, depth=4, process=1)
result = fonio.simulate('ufs31', [load], 'bfq', capacity='256 MiB', seed=3)
print('fonio', fonio.__version__, result.summary, result.percentiles('write'))
";

/// Builds the optimised wheel for a target, or returns `None` if the target has no wheel. maturin writes the oldest
/// version of glibc on which the wheel runs into the name of the file.
///
/// Only 64-bit targets have a wheel: PyPI has no pyarrow, DuckDB or pandas for 32-bit ARM.
pub fn make(target: Target) -> Result<Option<PathBuf>> {
    if !matches!(target.debian, Architecture::Amd64 | Architecture::Arm64) {
        return Ok(None);
    }
    let Some(interpreter) = python::environment()? else {
        bail!("the wheel needs maturin, which cannot be installed; to leave the wheel out, add --no-wheel");
    };
    let wheels = process::scratch("release-wheels")?;
    process::remove_folder(&wheels)?;
    let maturin = interpreter.parent().context("an interpreter has a folder")?.join("maturin");
    let rust = target.glibc.with_context(|| format!("Debian has no C library for {target}"))?.0;
    let bill = sbom::make(rust, "fonio-python")?;
    let mut build = Command::new(maturin);
    build.current_dir(process::root().join("python"));
    build.args(["build", "--locked", "--quiet", "--release", "--strip", "--out"]).arg(&wheels);
    build.arg("--sbom-include").arg(&bill);
    if Architecture::of_this_machine() == Some(target.debian) {
        let flags = program::remapped("--remap-path-prefix")?;
        build.arg("--interpreter").arg(&interpreter).env("RUSTFLAGS", flags.trim());
        build.env("CFLAGS", program::remapped("-ffile-prefix-map")?.trim());
    } else {
        for_other_processor(target, &mut build)?;
    }
    build.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("SOURCE_DATE_EPOCH", committed_s()?.to_string());
    process::run(build.env("CARGO_TARGET_DIR", process::target().join("wheel")))?;
    let made: Vec<PathBuf> = fs::read_dir(&wheels)
        .with_context(|| format!("cannot list {}", wheels.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let [wheel] = &made[..] else { bail!("maturin made {} wheels in {}", made.len(), wheels.display()) };
    let name = wheel.file_name().context("a wheel has a name")?;
    let shown = name.to_string_lossy();
    ensure!(
        shown.contains("-abi3-manylinux"),
        "{shown} is not for all versions of Python and other distributions"
    );
    let copy = folder()?.join(name);
    fs::copy(wheel, &copy).with_context(|| format!("cannot copy {}", wheel.display()))?;
    Ok(Some(copy))
}

/// Runs a simulation with a wheel, in an emulator if this machine has another processor, and returns its output. All
/// wheels must print the same.
pub fn simulate(target: Target, wheel: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    process::run(Command::new("python3").args(["-m", "zipfile", "--extract"]).arg(wheel).arg(folder.path()))?;
    let mut python = match target.emulator() {
        None => Command::new("python3"),
        Some(emulator) => {
            tools::ensure(&[tools::EMULATED])?;
            let archive = Archive::open()?.for_architecture(target.debian)?;
            let root = archive.userland(&["python3-minimal", "python3"], &|text| eprintln!("{text}"))?.root;
            let (_, folder, loader) =
                target.glibc.with_context(|| format!("Debian has no C library for {target}"))?;
            // The dynamic linker gets the folder of its libraries, because the unpacked packages are no root directory.
            let libraries = root.join("usr/lib").join(folder);
            let mut command = Command::new(emulator);
            command.arg(libraries.join(loader)).arg("--library-path").arg(&libraries);
            command.arg(root.join("usr/bin/python3")).env("PYTHONHOME", root.join("usr"));
            command
        }
    };
    process::output(python.args(["-c", SIMULATION]).env("PYTHONPATH", folder.path()))
        .with_context(|| format!("{} does not work on {target}", wheel.display()))
}

/// Makes maturin build for another processor than that of this machine.
fn for_other_processor(target: Target, build: &mut Command) -> Result<()> {
    let glibc = Glibc::of(target)?.with_context(|| format!("Debian has no C library for {target}"))?;
    let archive = Archive::open()?.for_architecture(target.debian)?;
    let headers = archive.userland(&["libc6-dev"], &|text| eprintln!("{text}"))?.root.join("usr/include");
    let triple = target.triple.replace("-musl", "-gnu");
    let of_processor = headers.join(&triple);
    ensure!(
        of_processor.join("bits/types.h").exists(),
        "Debian's package libc6-dev has no {}",
        of_processor.display()
    );
    let variable = |name: &str| format!("{name}_{}", glibc.rust.replace('-', "_"));
    let mut of_c = format!(
        "--target={triple} -nostdlibinc -isystem {} -isystem {}",
        of_processor.display(),
        headers.display()
    );
    of_c += &program::remapped("-ffile-prefix-map")?;
    build.args(["--target", glibc.rust]).env(glibc.variable("RUSTFLAGS"), &glibc.flags);
    build.env(variable("CC"), "clang-14").env(variable("AR"), "llvm-ar-14").env(variable("CFLAGS"), of_c);
    Ok(())
}
