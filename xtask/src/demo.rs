//! `cargo xtask demo`: the main job, once, on this machine.
//!
//! As root: WebBench on an emulated RiData card, recorded and explained, every safe fix that needs no other hardware
//! tried, and the two best measured. What is made for it (devices, mounts, a network namespace) is fonio's own to undo.
//! Without root: the report on a recording of the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{process, tools};

/// A recording of the same workload on the same card, made by the demo.
const SHIPPED: &str = "docs/sample/webbench-on-ridata";

/// The workload in full takes this card an hour; the mix stays.
const SCALE: &str = "0.04";

/// Builds fonio, runs or reads, reports.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(unknown) = arguments.first() {
        bail!("`{unknown}` is not an option; it takes none");
    }
    let root = process::is_root();
    tools::ensure(if root { &[tools::BUILD, tools::DEMO] } else { &[tools::BUILD] })?;
    println!("Building fonio …");
    let fonio = process::build_fonio()?;
    let dir = process::scratch("demo")?;
    if root {
        println!(
            "What would help a web browser on an SD card of 2011? WebBench, {SCALE} of the full amount, on an emulated RiData \
             card over WiFi. Each safe fix is tried once; then the two best are measured for at most three minutes.\n"
        );
        let mut fix = Command::new(&fonio);
        fix.args(["fix", "--safe", "--no-hardware", "--best", "2", "--prove", "webbench"])
            .args(["--on", "ridata", "--link", "wifi", "--scale", SCALE, "--repeat", "auto"])
            .arg("--output")
            .arg(emptied(&dir.join("runs"))?);
        // Ctrl-C goes to the whole process group: fonio undoes what it made, and this process waits for it.
        process::outlive_signals()?;
        return process::run(&mut fix);
    }
    println!(
        "Measuring needs root (`sudo -E cargo xtask demo`). Without it: the report on a recording that the demo made, \
         {SHIPPED}.\n"
    );
    let (recording, report) = (process::root().join(SHIPPED), dir.join("report.html"));
    // The pictures go to a file; the terminal's version of the same is for here and now.
    let mut pictures = Command::new(&fonio);
    process::run(pictures.arg("report").arg(&recording).arg("--html").arg(&report).stdout(Stdio::null()))?;
    process::run(Command::new(&fonio).arg("report").arg("--all").arg(&recording))?;
    println!("\nThe same with pictures to zoom into: {}", report.display());
    Ok(())
}

/// The folder, without what an earlier run left there.
fn emptied(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(dir.to_owned())
}
