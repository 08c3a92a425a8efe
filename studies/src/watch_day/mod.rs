//! `cargo studies watch-day`: runs the watch for a day in a guest, with stalls, a rotated log, a suspended
//! clock and a full disk, and prints its costs.
//!
//! The clock of the guest counts instructions and skips idle time (`fonio device emulate --in`), so a day takes
//! less time than a day. Nothing in the figures depends on the speed of this machine: the emulated card, the
//! timers of the watch and the load all use the guest's clock. A share is one boot of the guest, and continues
//! at the minute of the day at which the last share ended; the history of the watch begins anew in each share.
//! Processor time is the time of an emulated processor that executes one instruction per nanosecond.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;

use crate::emulated::in_guest;
use crate::shares::{Shares, Study, most, sum};
use crate::{process, tools};

const SCRIPT: &str = include_str!("day.sh");
const KERNEL: &str = "lab:6.12";
/// A slow card: it needs seconds to sync 16 MiB.
const CARD: &str = "ridata";
const MINUTES_OF_DAY: u64 = 1440;
const ROW: &str = "the watch";
/// `sysconf(_SC_CLK_TCK)` of the guest.
const TICKS_PER_S: f64 = 100.0;

/// The exit code of the watch after SIGTERM, with which the script ends it.
const AFTER_SIGTERM: i32 = 143;

static STUDY: Study = Study {
    id: "watch-day",
    title: "a day of the watch in a guest",
    command: "cargo studies watch-day",
    rows: "",
    columns: &[
        sum("minutes"),
        sum("wrong shares"),
        sum("stalls made"),
        sum("stalls reported"),
        sum("stalls kept"),
        sum("processor time of the watch, s"),
        sum("bytes written"),
        most("memory at most", "KiB", 0),
        sum("suspensions"),
    ],
};

#[derive(Args)]
pub struct Arguments {
    /// The number of minutes to add, by the guest's clock.
    #[arg(long, value_name = "N", default_value_t = MINUTES_OF_DAY)]
    minutes: u64,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Day {
    exit_code: i32,
    elapsed_s: f64,
    stalls: u32,
    kept: u32,
    memory_kib: f64,
    cpu_ticks: f64,
    written: f64,
    suspended: String,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::GUEST])?;
    let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
    process::outlive_signals()?;
    let mut counted = Shares::open(&STUDY, &[ROW])?;
    let script =
        format!("FROM={} MINUTES={}\n{SCRIPT}", counted.tried(ROW) % MINUTES_OF_DAY, arguments.minutes);
    let mut command = process::bound_to_this(&fonio);
    command.args(["device", "emulate", CARD, "--size", "192MiB", "--fs", "ext4", "--mount", "--in", KERNEL]);
    let (said, _) = in_guest(command.args(["--", "sh", "-c", &script]))?;
    let (day, reported) = parse(&said)?;
    println!(
        "{} minutes ({:.0} s by the guest's clock): {} stalls made, {reported} reported, {} kept; {:.1} s of \
         processor time, {:.0} bytes written, at most {:.0} KiB of memory; the clock was {}",
        arguments.minutes,
        day.elapsed_s,
        day.stalls,
        day.kept,
        day.cpu_ticks / TICKS_PER_S,
        day.written,
        day.memory_kib,
        day.suspended
    );
    let is_wrong = day.exit_code != AFTER_SIGTERM || reported < day.stalls;
    counted.note(&format!("{build} of fonio."));
    counted.add(
        ROW,
        &[
            arguments.minutes as f64,
            f64::from(u8::from(is_wrong)),
            f64::from(day.stalls),
            f64::from(reported),
            f64::from(day.kept),
            day.cpu_ticks / TICKS_PER_S,
            day.written,
            day.memory_kib,
            f64::from(u8::from(day.suspended != "none")),
        ],
    );
    counted.write()?;
    counted.print()?;
    println!("{} minutes tried, {} shares failed", counted.tried(ROW), counted.failed(ROW));
    ensure!(!is_wrong, "the watch ended with exit code {}, or missed stalls", day.exit_code);
    Ok(())
}

/// Reads the figures of the script, and the number of stalls in the report of the watch.
fn parse(said: &str) -> Result<(Day, u32)> {
    let line = |word: &str| said.lines().find_map(|line| line.strip_prefix(word));
    let day = line("DAY ").with_context(|| format!("the script printed no figures:\n{said}"))?;
    let report: serde_json::Value =
        serde_json::from_str(line("REPORT ").context("the watch gave no report")?)?;
    let reported = report["stalls"]["stalls_in_all"].as_u64().context("the report has no stalls")?;
    Ok((serde_json::from_str(day)?, u32::try_from(reported)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_the_script_are_read() {
        let day = "{\"exit_code\": 143, \"elapsed_s\": 60, \"stalls\": 2, \"kept\": 1, \"memory_kib\": 9000, \
                   \"cpu_ticks\": 12, \"written\": 4096, \"suspended\": \"none\"}";
        let said = format!("x\nDAY {day}\nREPORT {{\"stalls\": {{\"stalls_in_all\": 3}}}}\n");
        let (day, reported) = parse(&said).expect("figures");
        assert_eq!((day.stalls, reported, day.written), (2, 3, 4096.0));
        assert!(parse("DAY {}\nREPORT {}").is_err() && parse("").is_err());
    }

    #[test]
    fn the_script_is_valid_shell() {
        let checked = std::process::Command::new("sh").args(["-n", "-c", SCRIPT]).output().expect("sh");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
