//! `cargo studies live`: measures how often a trial on a machine in use claims a difference that does not
//! exist, and how often it finds a true difference. Each trial is a real run with short slices, on an
//! emulated card under a real load.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::emulated::{self, Emulated, Options};
use crate::{process, verdicts};

const PROFILE: &str = "sd_a1";
const SIZE: &str = "512MiB";

struct Case {
    name: &'static str,
    what: &'static str,
    /// The fix that is tested on the emulated card.
    fix: &'static str,
    /// The load that runs on the machine during the trial.
    load: Load,
    /// The duration of a trial.
    lasting: &'static str,
}

enum Load {
    /// A program from the situations of `cargo studies verdicts`, with its arguments.
    Act(&'static [&'static str]),
    /// A shell command that runs in the mount point until it is killed.
    Shell(&'static str),
}

const CASES: [Case; 3] = [
    Case {
        name: "same",
        what: "a program that replaces a file safely and reads no file; the setting is the read-ahead, \
            which does not affect it",
        fix: "read-ahead=256KiB",
        load: Load::Act(&["save", "saved", "20"]),
        lasting: "75s",
    },
    Case {
        name: "bursts",
        what: "the same with busy and idle phases",
        fix: "read-ahead=256KiB",
        load: Load::Act(&["save-in-bursts", "saved"]),
        lasting: "75s",
    },
    Case {
        name: "effect",
        what: "a large program (fonio) that starts from the card every 0.3 s; the setting is the \
            read-ahead, which affects page faults",
        fix: "read-ahead=1MiB",
        // Drop the program from the page cache before each start. Without this, only the first start would
        // read the card.
        load: Load::Shell(
            "cp \"$FONIO\" prog; sync; while :; do dd if=prog iflag=nocache count=0 2>/dev/null; ./prog --version >/dev/null; \
             sleep 0.3; done",
        ),
        lasting: "75s",
    },
];

#[derive(Args)]
pub struct Arguments {
    /// Run these cases (default: all).
    #[arg(value_name = "CASE", value_parser = CASES.map(|case| case.name))]
    cases: Vec<String>,
    /// Run each case this many times.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Print the time blocked per second in each slice.
    #[arg(long)]
    slices: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { cases, runs, slices: shows_slices } = arguments;
    let chosen = CASES.iter().filter(|case| cases.is_empty() || cases.iter().any(|name| name == case.name));
    let fonio = emulated::fonio()?;
    let dir = process::scratch("live")?;
    process::outlive_signals()?;
    println!("An emulated card ({PROFILE}); slices of 3 s, measured 0.5 s after a switch.\n");
    let command = format!("cargo studies live --runs {runs}");
    let columns = ["load and setting", "runs", "a difference is claimed"];
    let title = "claims of trials of a setting on the machine in use";
    let mut result = StudyResult::begin("live", title, &command, &columns)?;
    result.seed = Some(1);
    result.rounds = Some(*runs);
    for case in chosen {
        println!("{}: {}", case.name, case.what);
        let mount = dir.join("mount");
        std::fs::create_dir_all(&mount)?;
        let options = Options { mounted: Some(("ext4", &mount)), ..Options::bare(PROFILE, SIZE) };
        let device = Emulated::start(&fonio, &options)?;
        let load = Running::start(&case.load, &fonio, &mount)?;
        let mut claims = 0;
        for run in 1..=*runs {
            process::check_signals()?;
            let out = dir.join("slices");
            if out.exists() {
                std::fs::remove_dir_all(&out)?;
            }
            let began = Instant::now();
            let tested = test(&fonio, case, &device.device, &out, run)?;
            let paired = &tested["paired"];
            let answer = paired["answer"].as_str().context("a result has no answer")?;
            claims += u64::from(["lower", "higher"].contains(&answer));
            println!(
                "  run {run}, {:.0} s: {}",
                began.elapsed().as_secs_f64(),
                tested["verdict"].as_str().unwrap_or_default()
            );
            if *shows_slices {
                println!("    {}", blocked(&tested)?.join(" "));
            }
        }
        drop((load, device));
        result.row(case.what, vec![Cell::count(*runs), Cell::count(claims)]);
    }
    result.keep(cases.is_empty() && *runs >= 20)?;
    Ok(())
}

fn test(fonio: &Path, case: &Case, device: &str, out: &Path, seed: u64) -> Result<Value> {
    let mut command = process::bound_to_this(fonio);
    command.args(["fix", "trial", case.fix, "--for", case.lasting, "--slice", "3s"]);
    command.args(["--carry-over", "500ms", "--json", "--seed", &seed.to_string(), "--output"]);
    let run = command.arg(out).arg(device).stderr(Stdio::piped()).output()?;
    if !run.status.success() {
        bail!("fonio fix trial failed: {}", String::from_utf8_lossy(&run.stderr));
    }
    serde_json::from_slice(&run.stdout).context("fonio gave other JSON")
}

/// Returns the blocked time per second of each valid slice, in the order of the slices.
fn blocked(result: &Value) -> Result<Vec<String>> {
    let pairs = result["pairs"].as_array().context("the result has no pairs")?;
    let slices = pairs.iter().flat_map(|pair| {
        let (without, with) = (&pair["without"], &pair["with"]);
        if pair["setting_first"] == true { [with, without] } else { [without, with] }
    });
    slices.map(|slice| Ok(format!("{:.5}", slice.as_f64().context("a time is not a number")?))).collect()
}

struct Running(Child);

impl Running {
    fn start(load: &Load, fonio: &Path, dir: &Path) -> Result<Running> {
        let mut command = match load {
            Load::Act(words) => {
                let mut command = process::bound_to_this(&std::env::current_exe()?);
                command.arg(verdicts::ACT).args(*words);
                command
            }
            Load::Shell(line) => {
                let mut command = process::bound_to_this(Path::new("sh"));
                command.args(["-c", line]).env("FONIO", fonio);
                command
            }
        };
        let started = command.current_dir(dir).stdin(Stdio::null()).spawn();
        Ok(Running(started.context("cannot start the load")?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_told_in_the_order_of_time() {
        let result = serde_json::json!({"pairs": [
            {"setting_first": true, "without": 0.1, "with": 0.2},
            {"setting_first": false, "without": 0.3, "with": 0.4},
        ]});
        assert_eq!(blocked(&result).unwrap(), ["0.20000", "0.10000", "0.30000", "0.40000"]);
    }
}
