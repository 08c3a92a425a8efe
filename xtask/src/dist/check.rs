//! `cargo xtask dist test`: installs, uses and removes the packages in a new Debian of each architecture.
//!
//! First, QEMU executes the programs for foreign processors on this machine and emulates the oldest supported
//! processor. Guests do not reveal instructions that an old board lacks, because their processor is newer.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fonio_lab::{Architecture, SystemOptions};

use super::Made;
use crate::lab::steps::{self, Steps, all_kept, in_debian, steps_of};
use crate::{process, tools};

/// The path of a trace in the repository. The programs explain this trace.
const TRACE: &str = "crates/fonio-trace/tests/data/ftrace-6.18.txt";
/// The paths of the packages and of the trace in a guest.
const FONIO: &str = "/root/fonio.deb";
const RECORDER: &str = "/root/fonio-recorder.deb";
const TRACE_THERE: &str = "/root/trace.txt";
/// Text that the report of the watch contains on 32-bit ARM, because requests are not observed there.
const WATCH_OF_32_BITS: &str = "only long waits are observed";

/// Runs all steps with each program that QEMU executes on this machine, and with each package in a guest.
pub fn run(all: &[Made]) -> Result<()> {
    process::outlive_signals()?;
    let mut broken = 0;
    for made in all {
        broken += emulated(made)?;
    }
    for made in all {
        let options = SystemOptions { architecture: made.target.debian, ..SystemOptions::default() };
        let title = format!("The packages for {}", made.target);
        broken += in_debian(&title, &options, |steps| packages(steps, made))?;
    }
    all_kept(broken)
}

fn packages(steps: &mut Steps<'_, '_>, made: &Made) -> Result<()> {
    let trace = process::root().join(TRACE);
    for (file, place) in [
        (made.package.as_path(), FONIO),
        (made.recorder_package.as_path(), RECORDER),
        (trace.as_path(), TRACE_THERE),
    ] {
        steps.system.put(file, place)?;
    }
    run_steps(steps, include_str!("packages.steps"), "", made.target.debian);
    Ok(())
}

/// Runs the steps of a list that apply to the architecture, each with a prefix of its script.
pub fn run_steps(steps: &mut Steps<'_, '_>, list: &str, prefix: &str, architecture: Architecture) {
    let is_32_bits = architecture == Architecture::Armhf;
    for (script, wanted, what) in steps_of(list) {
        if is_32_bits || !what.starts_with("32-bit ARM: ") {
            let wanted =
                if is_32_bits && script.contains("watch report") { WATCH_OF_32_BITS } else { wanted };
            steps.step((&format!("{prefix}{script}"), wanted, what));
        }
    }
}

/// Runs the programs with QEMU on the oldest supported processor. Returns the number of failed steps.
fn emulated(made: &Made) -> Result<u32> {
    let Some(emulator) = made.target.emulator() else { return Ok(0) };
    tools::ensure(&[tools::EMULATED])?;
    let processor = made.target.emulated;
    println!(
        "\nThe programs for {}, executed by {emulator}{}:\n",
        made.target,
        processor.map(|name| format!(" as a {name}")).unwrap_or_default()
    );
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let imported = folder.path().join("imported").display().to_string();
    let trace = process::root().join(TRACE).display().to_string();
    let run = |program: &Path, words: &[&str]| {
        let mut command = Command::new(emulator);
        command.args(processor.map(|name| ["-cpu", name]).into_iter().flatten());
        process::output(command.arg(program).args(words).stdin(Stdio::null()))
    };
    let mut broken = 0;
    for (program, words, wanted, what) in [
        (&made.program, &["--version"][..], "fonio ", "the program runs"),
        (&made.program, &[], "", "the status card is printed"),
        (&made.program, &["report", &trace], "torage", "a trace of another machine is explained"),
        (&made.program, &["import", &trace, "-o", &imported], "", "the trace becomes a recording"),
        (&made.program, &["report", &imported], "torage", "the recording is explained"),
        (&made.program, &["device", "verify"], "", "the device models run"),
        (&made.recorder, &["--help"], "--spill-to", "the recorder runs"),
    ] {
        process::check_signals()?;
        let (holds, found) = steps::contains(run(program, words), wanted);
        let script = format!("$ {} {}", program.display(), words.join(" "));
        broken += u32::from(!steps::shown(what, holds, &format!("{script}\n{found}")));
    }
    // The output must be byte for byte identical to the output of the program for this machine.
    let own = process::target().join("debug/fonio");
    if own.exists() {
        let words = ["report", "--json", &trace];
        let (here, there) = (process::output(Command::new(&own).args(words))?, run(&made.program, &words)?);
        broken += u32::from(!steps::shown("the report equals this machine's", here == there, &there));
    }
    Ok(broken)
}
