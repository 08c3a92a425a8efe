//! `cargo xtask demo`: shows the main use of fonio on this machine.
//!
//! As root, the demo records and explains WebBench on an emulated RiData card, tries every safe fix that
//! needs no other hardware, and measures the two best fixes. fonio itself undoes all its changes (devices,
//! mounts, a network namespace). Without root, the demo reports on a recording of the same workload. The file
//! `results_demo.rs` contains `demo results`.

use std::process::{Command, Stdio};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::parts::part;
use xtask::{process, tools};

/// A recording of the demo's workload on the demo's card, made by an earlier run of the demo.
const SHIPPED: &str = "docs/sample/webbench-on-ridata";

/// The scale of the workload, because the full workload takes an hour on this card. The scale does not change
/// the mix of operations.
const SCALE: &str = "0.02";

/// Time limit for measuring the best fixes. In 50 s, each fix runs only three
/// times, too few to show even a large effect.
const TIME: &str = "90s";

/// The options of `cargo xtask demo`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
}

#[derive(Subcommand)]
enum Other {
    /// Run the results service: measure emulated cards, preview and send the results, and show the page
    /// (root; four minutes).
    Results {
        /// End without waiting for Ctrl-C.
        #[arg(long)]
        once: bool,
    },
}

/// Builds fonio, runs the demo or takes the shipped recording, and shows the report.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(Other::Results { once }) = arguments.other {
        return crate::results_demo::run(once);
    }
    let root = process::is_root();
    tools::ensure(if root { &[tools::BUILD, tools::DEMO] } else { &[tools::BUILD] })?;
    let fonio = part("build of fonio", process::build_fonio_for_tests)?;
    let dir = process::scratch("demo")?;
    if root {
        println!(
            "What would help a web browser on an SD card of 2011? WebBench, {SCALE} of the full amount, on an emulated RiData \
             card over WiFi. Each safe fix is tried once; then the two best are measured for about {TIME}.\n"
        );
        let runs = dir.join("runs");
        process::remove_folder(&runs)?;
        let mut fix = Command::new(&fonio);
        fix.args(["fix", "prove", "--safe", "--no-hardware", "--best", "2", "webbench"])
            .args(["--on", "ridata", "--link", "wifi", "--scale", SCALE, "--runs", &format!("auto:{TIME}")])
            .arg("--output")
            .arg(&runs);
        // Ctrl-C is sent to the whole process group. fonio then undoes its changes, and this process waits
        // for fonio.
        process::outlive_signals()?;
        return part("measurement", || process::run(&mut fix));
    }
    println!(
        "Measuring needs root (`sudo -E cargo xtask demo`). Without root: the report on a recording that the demo made, \
         {SHIPPED}.\n"
    );
    let (recording, report) = (process::root().join(SHIPPED), dir.join("report.html"));
    // Write the charts to a file, because the terminal shows only text versions.
    let mut pictures = Command::new(&fonio);
    process::run(pictures.arg("report").arg(&recording).arg("--html").arg(&report).stdout(Stdio::null()))?;
    process::run(Command::new(&fonio).arg("report").arg("--all").arg(&recording))?;
    println!("\nThe same report with zoomable charts: {}", report.display());
    Ok(())
}
