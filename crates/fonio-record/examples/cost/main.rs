//! Measures the cost of recording for `cargo xtask bench record|blocked|statements`, as root.
//!
//! Each round prints a line for each row of the result: its name and its values, separated by tabs; `-`
//! stands for a missing value.

mod blocked;
mod requests;
mod statements;

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fonio_record::RecordSummary;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["record", rounds, seconds] => requests::run(rounds.parse()?, seconds.parse()?),
        ["blocked", rounds, seconds] => blocked::run(rounds.parse()?, seconds.parse()?),
        ["statements", rounds, rows] => statements::run(rounds.parse()?, rows.parse()?),
        [load @ ("switch" | "block"), seconds, file] => blocked::load(load, seconds.parse()?, file),
        _ => Err("usage: cost record|blocked|statements ROUNDS SECONDS|ROWS".into()),
    }
}

/// Prints the values that were measured for a row in this round.
fn row(name: &str, values: &[Option<f64>]) {
    let values = values.iter().map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
    println!("{name}\t{}", values.collect::<Vec<_>>().join("\t"));
}

/// Returns the length of the recorded period in seconds.
fn span_s(summary: &RecordSummary) -> f64 {
    (summary.ended.0 - summary.began.0).max(1) as f64 / 1e9
}

const DEVICE_BYTES: u64 = 256 << 20;

/// A loop device over a file in memory. The device is removed at the end.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(dir: &Path) -> Result<LoopDevice> {
        let file = dir.join("device");
        File::create(&file)?.set_len(DEVICE_BYTES)?;
        let out = Command::new("losetup").args(["--find", "--show"]).arg(&file).output()?;
        if !out.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
        }
        let device = LoopDevice(PathBuf::from(String::from_utf8(out.stdout)?.trim()));
        // Allocates the file's pages before the measurement. At the device's end, dd fails with "no space
        // left", as expected.
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=1M", "oflag=direct"]).arg(format!("of={}", device.0.display()));
        dd.stderr(Stdio::null()).status()?;
        Ok(device)
    }

    /// Returns the arguments of an fio job with direct random writes of 4 KiB.
    fn fio(&self, more: &[String]) -> Vec<String> {
        let words = ["fio", "--name=cost", "--rw=randwrite", "--bs=4k", "--direct=1", "--randrepeat=1"];
        let device = [format!("--filename={}", self.0.display()), format!("--filesize={DEVICE_BYTES}")];
        words.map(str::to_owned).into_iter().chain(device).chain(more.iter().cloned()).collect()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}
