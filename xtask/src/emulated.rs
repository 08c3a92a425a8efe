//! Measuring emulated devices with `fonio bench`, as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{process, tools};

/// Large enough for every test.
const SIZE: &str = "1GiB";

/// Four numbers need the studies' range.
const FOUR_RANGE: &str = "128MiB";

/// Builds fonio and says where it is.
///
/// # Errors
///
/// Without root, which the emulator needs, and where the build fails.
pub fn fonio() -> Result<PathBuf> {
    if !process::is_root() {
        bail!("emulated block devices need root");
    }
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    process::run(process::cargo().args(["build", "--release", "--package", "fonio"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| process::root().join("target"), Into::into);
    Ok(target.join("release/fonio"))
}

/// Runs `fonio bench device` with `arguments` on a fresh emulated device of `profile`; the result goes to `out`.
pub fn bench(fonio: &Path, profile: &str, arguments: &[&str], out: &Path) -> Result<()> {
    let mut command = Command::new(fonio);
    command.args(["device", "emulate", profile, "--size", SIZE, "--scheduler", "none", "--"]);
    // The emulator names the device to its workload, which names it twice: it is new.
    // Before all others, as the serving process is: else it is measured how long fio waits for a CPU.
    command.args(["chrt", "--fifo", "1"]);
    command.args([
        "sh",
        "-c",
        "exec \"$0\" bench device \"$FONIO_DEVICE\" --yes-destroy \"$FONIO_DEVICE\" \"$@\"",
    ]);
    command.arg(fonio).args(arguments).arg("--out").arg(out);
    process::run(command.stdout(Stdio::null()))
}

/// Sequential write and read, random write and read of an emulated profile, in MB/s.
pub fn four(profile: &str) -> Result<[f64; 4]> {
    let fonio = fonio()?;
    let out = process::scratch("paper")?.join(format!("{profile}.json"));
    bench(&fonio, profile, &["--set", "four", "--quick", "--run-time", "20s", "--size", FOUR_RANGE], &out)?;
    let text = std::fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
    let benchmark: Value = serde_json::from_str(&text)?;
    let mut found = [0.0; 4];
    for (at, figure) in found.iter_mut().enumerate() {
        *figure = benchmark["tests"][at]["mb_s"].as_f64().context("the benchmark has four tests")?;
    }
    Ok(found)
}
