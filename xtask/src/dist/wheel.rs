//! Makes the wheel of the Python package for this machine's processor.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{committed_s, folder, program, sysroot};
use crate::{process, python};

/// Builds the wheel with full optimisation. maturin names the oldest C library with which it works.
pub fn make() -> Result<PathBuf> {
    let Some(interpreter) = python::environment()? else {
        bail!("the wheel needs maturin, which cannot be installed; to leave the wheel out, add --no-wheel");
    };
    let wheels = process::scratch("release-wheels")?;
    process::remove_folder(&wheels)?;
    let mut flags = String::new();
    for (from, to) in program::remapped(&sysroot()?)? {
        flags += &format!(" --remap-path-prefix={from}={to}");
    }
    let maturin = interpreter.parent().context("an interpreter has a folder")?.join("maturin");
    let mut build = Command::new(maturin);
    build.current_dir(process::root().join("python"));
    build.args(["build", "--locked", "--quiet", "--release", "--strip", "--interpreter"]).arg(&interpreter);
    build.args(["--out".as_ref(), wheels.as_os_str()]).env("RUSTFLAGS", flags.trim());
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
    Ok(copy)
}
