//! One write of a file through one stack, with the work of the daemon and the device for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fonio_host::Ledger;
use serde_json::Value;

use super::on_device::{MIB, as_slow_as_the_studys};
use super::{Confined, Daemon, Mounted, Place, Programs, Setup, Used};
use crate::process;

/// The measurements of one write.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Rate in 10^6 bytes per second, including fsync.
    pub mb_s: f64,
    pub used: Used,
    /// Number of write requests to the device.
    pub writes: Option<f64>,
    /// Share of these requests that do not begin where the previous one ended.
    pub random_share: Option<f64>,
    /// Share of these requests below 64 KiB: the file's data arrive in larger ones.
    pub small_share: Option<f64>,
    /// Mean bytes of a run of requests in which each continues the previous one.
    pub burst_bytes: Option<f64>,
}

/// The study's experiment on an emulated device: one file, written by 512 KiB.
pub struct Experiment {
    folder: PathBuf,
    programs: Programs,
    confined: Option<Confined>,
    pub bytes: u64,
}

impl Experiment {
    /// Prepares the experiment with a file of `bytes`.
    pub fn new(bytes: u64) -> Result<Self> {
        let folder = process::scratch("paper-bfuse")?;
        Ledger::recover(&Ledger::default_dir())?;
        process::outlive_signals()?;
        let programs = Programs { fonio: crate::emulated::fonio()?, plain: PathBuf::new() };
        Ok(Self { folder, programs, confined: None, bytes })
    }

    /// Slows the daemon's processor down until `stock` reaches the study's share of the device, and returns its share
    /// of a CPU.
    pub fn slow_down(&mut self, setup: &Setup<'_>, raw_mb_s: f64) -> Result<f64> {
        let share = as_slow_as_the_studys(&self.folder, &self.programs, setup, (raw_mb_s * 1e6, self.bytes))?;
        self.confined = Some(Confined::new(share)?);
        Ok(share.value())
    }

    /// Returns the rate of the bare device, in 10^6 bytes per second.
    pub fn raw(&self, setup: &Setup<'_>) -> Result<f64> {
        Ok(setup.raw_write(&self.programs.fonio, self.bytes)? / 1e6)
    }

    /// Writes through the file system, and through a mount if there are `options`.
    pub fn write(&self, setup: &Setup<'_>, options: Option<&'static str>) -> Result<Once> {
        process::check_signals()?;
        let place = Place::emulated(&self.folder, &self.programs.fonio, setup)?;
        let daemon = options.map_or(Daemon::None, Daemon::Fonio);
        let mounted =
            Mounted::start(daemon, &self.programs, &place.source, &place.dir, self.confined.as_ref())?;
        let recording = self.folder.join("recording");
        let before = mounted.used();
        let mut record = Command::new(&self.programs.fonio);
        record.env("LC_ALL", "C");
        record.arg("record").arg("--path").arg(&place.source).arg("--overwrite").arg("-o").arg(&recording);
        record.args(["--", "dd", "if=/dev/zero", "bs=512K", "conv=fsync"]);
        record.arg(format!("of={}", mounted.dir.join("file").display()));
        record.arg(format!("count={}", self.bytes / (512 << 10)));
        let output = record.stdout(Stdio::null()).output().context("cannot start fonio record")?;
        ensure!(output.status.success(), "fonio record: {}", String::from_utf8_lossy(&output.stderr));
        let used = mounted.used().since(before);
        drop(mounted);
        let figures = self.figures(&recording)?;
        let figure = |name: &str| figures.get(name).copied();
        let seconds = dd_seconds(&String::from_utf8_lossy(&output.stderr))
            .context("dd says how long it took; it does so in English only")?;
        let writes = figure("latency.writes.service.count");
        let random_share = figure("sequentiality.write.random_requests_share");
        Ok(Once {
            mb_s: self.bytes as f64 / seconds / 1e6,
            used,
            writes,
            random_share,
            small_share: figure("sizes.writes.below_64k_share"),
            burst_bytes: writes
                .zip(random_share)
                .map(|(writes, share)| self.bytes as f64 / (writes * share).max(1.0)),
        })
    }

    fn figures(&self, recording: &Path) -> Result<std::collections::BTreeMap<String, f64>> {
        let output = Command::new(&self.programs.fonio).args(["report", "--json"]).arg(recording).output()?;
        let said: Value = serde_json::from_slice(&output.stdout).context("the report is JSON")?;
        let figures = said["figures"].as_array().context("a report has figures")?;
        let pairs = figures
            .iter()
            .filter_map(|figure| Some((figure["name"].as_str()?.to_owned(), figure["value"].as_f64()?)));
        Ok(pairs.collect())
    }
}

/// Parses `134217728 bytes (134 MB, 128 MiB) copied, 3.44 s, 39.0 MB/s`.
fn dd_seconds(said: &str) -> Option<f64> {
    said.split("copied, ").nth(1)?.split(' ').next()?.parse().ok()
}

/// Large enough for rates to settle on a device of 39 MB/s, and small enough for a dozen stacks in minutes.
pub const BYTES: u64 = 128 * MIB;
