//! `cargo studies cure`: measures how often a trial on a recreated stall claims a difference that does not exist, and
//! how often it finds one that does.
//!
//! On an emulated card, a program that replaces a small file safely is delayed by copies, which read or write. `fonio cure
//! --dry-run` records it. Then the stall is recreated as `fonio cure` does it, with a change that changes nothing (the
//! copies get the I/O class that they have, or a limit that they cannot reach) or with one that acts (the class idle, a
//! limit). Each share records the stall again. The limits need the controller `io` of control groups v2; without it,
//! their cases are skipped.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use fonio_analysis::compare::paired::PairedAnswer;
use fonio_experiment::{Program, RecreateChange, RecreateOptions, Recreated, Scene, SceneLimits, recreate};
use fonio_host::Setting;

use crate::emulated::{self, Emulated, Options};
use crate::shares::{Shares, Study, sum};
use crate::{process, verdicts};

const PROFILE: &str = "sd_a1";
const SIZE: &str = "1GiB";
const SCHEDULER: &str = "bfq";
/// As in `fonio cure`.
const PAIRS: usize = 8;

static STUDY: Study = Study {
    id: "cure",
    title: "claims of trials on a recreated stall",
    command: "cargo studies cure",
    rows: "change",
    columns: &[
        sum("trials"),
        sum("a difference is claimed"),
        sum("it helps"),
        sum("it makes things worse"),
        sum("the stall did not come back"),
        sum("pairs of runs"),
    ],
};

struct Case {
    name: &'static str,
    row: &'static str,
    change: Change,
    copies: &'static Copies,
}

/// What is changed in half of the runs.
enum Change {
    /// The I/O class of the copies.
    IoClass(&'static str),
    /// A limit of their rate, as a fix.
    Limit(&'static str),
}

const CASES: [Case; 5] = [
    Case {
        name: "same",
        row: "none: copies that read keep the class best-effort",
        change: Change::IoClass("best-effort"),
        copies: &READ,
    },
    Case {
        name: "same-writes",
        row: "none: copies that write keep the class best-effort",
        change: Change::IoClass("best-effort"),
        copies: &WRITE,
    },
    Case {
        name: "same-limit",
        row: "none: copies that read have a limit that they cannot reach",
        change: Change::Limit("io-rate=10GB"),
        copies: &READ,
    },
    Case {
        name: "effect",
        row: "copies that read get the class idle",
        change: Change::IoClass("idle"),
        copies: &READ,
    },
    Case {
        name: "limit",
        row: "copies that read have a limit of 2 MiB/s",
        change: Change::Limit("io-rate=2MiB"),
        copies: &READ,
    },
];

/// The copies that delay the program, and the time for which they are recorded.
struct Copies {
    script: &'static str,
    recorded: &'static str,
}

/// Four files of 48 MiB, which the copies read one after the other, without the page cache.
const PREPARE: &str = "for n in 1 2 3 4; do head -c 48M /dev/urandom > big$n; done; sync -f .";
const READ: Copies = Copies {
    script: "while :; do for n in 1 2 3 4; do dd if=big$n of=/dev/null bs=256k iflag=nocache 2>/dev/null; \
             dd if=big$n iflag=nocache count=0 2>/dev/null; done; done",
    recorded: "20s",
};
/// 8 MiB a second, which the kernel writes back half a minute later, so the recording is longer than that.
const WRITE: Copies = Copies {
    script: "while :; do for n in 1 2 3 4 5 6 7 8; do dd if=big1 of=copy$n bs=256k count=32 2>/dev/null; sleep 1; done; done",
    recorded: "60s",
};

#[derive(Args)]
pub struct Arguments {
    /// Run these cases (default: all).
    #[arg(value_name = "CASE", value_parser = CASES.map(|case| case.name))]
    cases: Vec<String>,
    /// Add this many trials to each case.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<std::path::PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { cases, trials, program } = arguments;
    let chosen = CASES.iter().filter(|case| cases.is_empty() || cases.iter().any(|name| name == case.name));
    let fonio = match program {
        Some(program) => program.clone(),
        None => emulated::fonio()?,
    };
    let dir = process::scratch("cure")?;
    process::outlive_signals()?;
    let mut shares = Shares::open(&STUDY, &CASES.map(|case| case.row))?;
    let card = Card::start(&fonio, &dir.join("card"))?;
    let victim = std::env::current_exe()?;
    let victim = victim.file_name().and_then(|name| name.to_str()).context("this program has no name")?;
    // The kernel keeps 15 bytes of a name.
    let victim = Program { name: &victim[..victim.len().min(15)], unit: None };
    let culprit = Program { name: "dd", unit: None };
    let apart = [fonio.clone().into_os_string(), "role".into(), "apart".into()];
    for case in chosen {
        println!("{} ({SCHEDULER}, {PROFILE}):", case.row);
        let setting;
        let change = match case.change {
            Change::IoClass(class) => RecreateChange::IoClass { class, pids: &[] },
            Change::Limit(fix) => {
                setting = match card.limit(fix, &apart) {
                    Ok(setting) => setting,
                    Err(reason) => {
                        println!("  skipped: {reason:#}");
                        continue;
                    }
                };
                RecreateChange::Limit { setting: &setting, command: &apart, is_grouped: true }
            }
        };
        let recording = dir.join("recording");
        card.record(&fonio, case.copies, &recording)?;
        let scene = Scene::of_recording(&recording, victim, Some(culprit), SceneLimits::DEFAULT)?;
        if !scene.has_culprit() {
            bail!("the recording has no calls of dd");
        }
        println!("  written back in the repeated part: {}", scene.written_back().to_exact_text());
        for _ in 0..*trials {
            process::check_signals()?;
            let began = Instant::now();
            let stop = AtomicBool::new(false);
            let seed = shares.tried(case.row) + 1;
            let options =
                RecreateOptions { folder: &card.mount, paused: &[], pairs: PAIRS, seed, stop: &stop };
            let result = recreate(&scene, change, &options, &mut |_| {})?;
            shares.add(case.row, &counts(&result));
            shares.write()?;
            println!("  trial {seed}, {:.0} s: {}", began.elapsed().as_secs_f64(), told(&result));
        }
    }
    shares.print()
}

/// Returns the values of the columns for one trial.
fn counts(result: &Recreated) -> [f64; 6] {
    let answers = [result.paired.answer, result.longest.answer];
    let is = |is: bool| f64::from(u8::from(is));
    let claims = answers.iter().any(|answer| answer.is_claimed());
    let is_worse = answers.contains(&PairedAnswer::Higher);
    [
        1.0,
        is(claims),
        is(result.helps()),
        is(is_worse),
        is(!result.is_like_recorded()),
        result.pairs.len() as f64,
    ]
}

fn told(result: &Recreated) -> String {
    let one = |paired: &fonio_analysis::compare::paired::Paired| match (paired.ratio, paired.low, paired.high)
    {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        (Some(ratio), ..) => format!("{ratio:.2}"),
        _ => "unknown".to_owned(),
    };
    format!("time in calls {}, longest call {}", one(&result.paired), one(&result.longest))
}

/// An emulated card with the files of the copies.
struct Card {
    device: Emulated,
    mount: std::path::PathBuf,
}

impl Card {
    fn start(fonio: &Path, mount: &Path) -> Result<Card> {
        std::fs::create_dir_all(mount)?;
        let options = Options { mounted: Some(("ext4", mount)), ..Options::bare(PROFILE, SIZE) };
        let device = Emulated::start(fonio, &options)?;
        let name = Path::new(&device.device).file_name().context("the device has no name")?.to_owned();
        let scheduler = Path::new("/sys/block").join(name).join("queue/scheduler");
        std::fs::write(&scheduler, SCHEDULER)
            .with_context(|| format!("cannot write {}", scheduler.display()))?;
        let status = shell(PREPARE, mount)?.0.wait()?;
        if !status.success() {
            bail!("cannot write the files of the copies: {status}");
        }
        Ok(Card { device, mount: mount.to_owned() })
    }

    /// Returns a limit of the rate on this card. Fails if a process cannot have such a limit here.
    fn limit(&self, fix: &str, command: &[OsString]) -> Result<Setting> {
        let limit = Setting::parse(fix).map_err(anyhow::Error::msg)?;
        let limit = limit.on_disk_of(Path::new(&self.device.device))?;
        limit.for_command(command)?;
        Ok(limit)
    }

    /// Records the delayed program and the copies.
    fn record(&self, fonio: &Path, copies: &Copies, to: &Path) -> Result<()> {
        if to.exists() {
            std::fs::remove_dir_all(to)?;
        }
        let mut save = process::bound_to_this(&std::env::current_exe()?);
        save.args([verdicts::ACT, "save", "saved", "20"]).current_dir(&self.mount).stdin(Stdio::null());
        let _save = Running(save.spawn().context("cannot start the delayed program")?);
        let _copy = shell(copies.script, &self.mount)?;
        let mut cure = process::bound_to_this(fonio);
        cure.args(["cure", "--dry-run", "--for", copies.recorded, "--json", "--output"]).arg(to);
        let said = cure.stdin(Stdio::null()).stderr(Stdio::piped()).output().context("cannot start fonio")?;
        if !said.status.success() {
            bail!("fonio cure failed: {}", String::from_utf8_lossy(&said.stderr));
        }
        let document: serde_json::Value =
            serde_json::from_slice(&said.stdout).context("fonio gave other JSON")?;
        println!("{}\n", document["verdict"].as_str().unwrap_or_default());
        Ok(())
    }
}

fn shell(line: &str, dir: &Path) -> Result<Running> {
    let mut command = process::bound_to_this(Path::new("sh"));
    command.args(["-c", line]).current_dir(dir).stdin(Stdio::null());
    Ok(Running(command.spawn().context("cannot start sh")?))
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use fonio_analysis::compare::paired::compare_one_of;

    use super::*;

    #[test]
    fn a_claim_is_counted_with_its_direction() {
        let paired = |with: f64| {
            let pairs: Vec<(f64, f64)> = (0..8).map(|n| (1.0 + f64::from(n) / 100.0, with)).collect();
            compare_one_of(2, &pairs)
        };
        for (calls, longest, expected) in [
            (1.03, 1.03, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            (0.3, 1.03, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
            (0.3, 3.0, [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
        ] {
            let result = Recreated {
                recorded: fonio_experiment::replay::calls::Felt::default(),
                span: std::time::Duration::from_secs(1),
                first: fonio_experiment::RecreatedRun::default(),
                pairs: Vec::new(),
                paired: paired(calls),
                longest: paired(longest),
            };
            assert_eq!(counts(&result), expected, "{calls} {longest}");
        }
    }
}
