//! The job of fio that is recorded: one thread, random reads and synchronous writes, a fixed number of
//! requests.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fonio_core::statistics::sample::median;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::process;

/// The planted slowdown: the factor by which requests take longer.
pub const SLOW: f64 = 1.2;

const FILE_BYTES: &str = "--size=64M";
/// Requests start and end at multiples of this number of bytes.
const BLOCK: u64 = 4096;
const BYTES_MAX: u64 = 1 << 20;
/// The first size that is tried for slower requests is larger by this number of bytes.
const FIRST_STEP: u64 = 64 << 10;
/// How far the measured slowdown may be from the planted slowdown.
const TOLERANCE: f64 = 0.02;
/// Maximum number of sizes that are tried.
const TRIES: usize = 8;
/// Number of interleaved rounds in which a size is tried; the median counts.
const ROUNDS: u32 = 5;

/// The sizes and the number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The sizes of reads and of writes, in bytes.
    pub bytes: [u64; 2],
    pub requests: u64,
}

/// fio's own measurement of a job.
struct Measured {
    /// Median latencies of reads and of writes.
    latencies_ns: [f64; 2],
    requests_per_second: f64,
}

/// Writes the file of the job. All its blocks are then in place, so no later write allocates blocks.
pub fn prepare(folder: &Path) -> Result<()> {
    let mut fio = Command::new("fio");
    fio.args(["--name=prepare", FILE_BYTES, "--rw=write", "--bs=1M", "--fallocate=none"]);
    fio.args(["--end_fsync=1", "--output=/dev/null"]).arg(file(folder));
    let ran = process::run(&mut fio);
    process::check_signals()?;
    ran
}

/// Returns the option that names the job's file. Its path is complete: fio ignores a `--directory` that
/// follows `--filename`.
fn file(folder: &Path) -> String {
    format!("--filename={}", folder.join("pair").display())
}

impl Job {
    /// Returns a job with requests of `bytes` that takes about one second without a recorder.
    pub fn short(bytes: u64, folder: &Path) -> Result<Job> {
        let job = Job { bytes: [bytes; 2], requests: 0 };
        let found = job.measure(folder, 1, 0)?;
        Ok(Job { requests: (found.requests_per_second as u64).max(100), ..job })
    }

    /// Returns a job with as many, larger requests. Their median latencies are [`SLOW`] times the median
    /// latencies of this job, by fio's clock. Also returns the measured ratios for reads and writes.
    pub fn slower(self, folder: &Path) -> Result<(Job, [f64; 2])> {
        let mut tried = Job { bytes: self.bytes.map(|bytes| bytes + FIRST_STEP), ..self };
        let mut best: Option<(Job, [f64; 2])> = None;
        let error =
            |ratios: [f64; 2]| ratios.map(|ratio| (ratio - SLOW).abs()).into_iter().fold(0.0, f64::max);
        for _ in 0..TRIES {
            let ratios = self.ratios_to(tried, folder)?;
            if best.is_none_or(|(_, known)| error(ratios) < error(known)) {
                best = Some((tried, ratios));
            }
            if error(ratios) <= TOLERANCE {
                break;
            }
            tried.bytes = [0, 1].map(|kind| next_size(self.bytes[kind], tried.bytes[kind], ratios[kind]));
        }
        best.context("no size was tried")
    }

    /// Returns the latencies of another job divided by the latencies of this job.
    fn ratios_to(self, other: Job, folder: &Path) -> Result<[f64; 2]> {
        let mut ratios: [Vec<f64>; 2] = Default::default();
        for round in 0..ROUNDS {
            let (first, second) = (self.measure(folder, 1, round)?, other.measure(folder, 1, round)?);
            for (kind, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(second.latencies_ns[kind] / first.latencies_ns[kind]);
            }
        }
        Ok(ratios.map(|ratios| median(&ratios).unwrap_or(f64::NAN)))
    }

    /// Runs the job for a second without measuring it.
    pub fn warm_up(self, folder: &Path) -> Result<()> {
        self.measure(folder, 1, 0).map(drop)
    }

    /// Runs the job for a fixed time, without a recorder.
    fn measure(self, folder: &Path, seconds: u32, seed: u32) -> Result<Measured> {
        let mut fio = Command::new("fio");
        self.put(folder, seed, |word| {
            fio.arg(word);
        });
        fio.args(["--time_based", &format!("--runtime={seconds}"), "--output-format=json"]);
        let printed = process::output(fio.stderr(Stdio::null()));
        process::check_signals()?;
        let text = printed?;
        // fio prints notes before its JSON.
        let start = text.find('{').context("fio printed no JSON")?;
        let value: Value = serde_json::from_str(&text[start..]).context("fio printed other JSON")?;
        let job = &value["jobs"][0];
        let median = |kind: &str| {
            let median = job[kind]["clat_ns"]["percentile"]["50.000000"].as_f64();
            median.filter(|ns| *ns > 0.0).with_context(|| format!("fio measured no {kind}"))
        };
        let rate = |kind: &str| job[kind]["iops"].as_f64().context("fio measured no rate");
        Ok(Measured {
            latencies_ns: [median("read")?, median("write")?],
            requests_per_second: rate("read")? + rate("write")?,
        })
    }

    /// Adds the job's fixed number of requests and its other options to a command of fio.
    pub fn add_to(self, fio: &mut Command, folder: &Path, seed: u32) {
        self.put(folder, seed, |word| {
            fio.arg(word);
        });
        fio.arg(format!("--number_ios={}", self.requests)).arg("--output=/dev/null");
    }

    fn put(self, folder: &Path, seed: u32, mut add: impl FnMut(&OsStr)) {
        let [read, write] = self.bytes;
        let words = [
            "--name=pair".to_owned(),
            file(folder),
            format!("--bs={read},{write}"),
            format!("--randseed={}", seed + 1),
        ];
        // Each request may start at any multiple of 4 KiB. Without --io_size, fio would end after 64 MiB.
        let fixed = [
            FILE_BYTES,
            "--thread",
            "--rw=randrw",
            "--rwmixread=80",
            "--blockalign=4k",
            "--norandommap",
            "--io_size=1T",
            "--direct=1",
            "--sync=1",
            "--ioengine=psync",
        ];
        words.iter().map(String::as_str).chain(fixed).for_each(|word| add(word.as_ref()));
    }
}

/// Returns the size to try next, after requests of `bytes` took `ratio` times as long as requests of `base`
/// bytes. Assumes that the latency grows linearly with the size.
fn next_size(base: u64, bytes: u64, ratio: f64) -> u64 {
    let step = ((SLOW - 1.0) / (ratio - 1.0).max(0.02)).clamp(0.25, 4.0);
    let more = (bytes - base) as f64 * step / BLOCK as f64;
    (base + (more.round() as u64).max(1) * BLOCK).min(BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_approach_the_planted_slowdown() {
        let base = 4 * BLOCK;
        // A device whose latency grows by 1 percent per block.
        let ratio = |bytes: u64| 1.0 + 0.01 * (bytes - base) as f64 / BLOCK as f64;
        assert_eq!(ratio(next_size(base, 12 * BLOCK, ratio(12 * BLOCK))), SLOW);
        assert_eq!(next_size(base, 12 * BLOCK, 0.9), 36 * BLOCK, "noise hides the slowdown");
        assert_eq!(next_size(base, BYTES_MAX, 1.01), BYTES_MAX);
        assert_eq!(next_size(base, 5 * BLOCK, 3.0), 5 * BLOCK, "the smallest larger size");
    }
}
