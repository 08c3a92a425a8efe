//! Devices and statistics of the kernel for benchmarks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

const DEVICE_BYTES: u64 = 256 << 20;

/// Returns the sum of a field, such as `run_time_ns`, over all BPF programs or maps of a process.
pub fn of_bpf(pid: u32, field: &str) -> u64 {
    let entries = fs::read_dir(format!("/proc/{}/fdinfo", pid)).into_iter().flatten().flatten();
    let mut seen = Vec::new();
    let mut sum = 0;
    for text in entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()) {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().parse::<u64>().ok()
        };
        // The descriptors of a BPF program and of its links show the same program id, so count each
        // program once.
        let id = (value("prog_id"), value("map_id"));
        if text.contains("link_type") || seen.contains(&id) {
            continue;
        }
        if let Some(number) = value(field) {
            seen.push(id);
            sum += number;
        }
    }
    sum
}

/// Makes the kernel measure the run time of BPF programs. Dropping this value restores the kernel setting.
pub struct Statistics(String);

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Statistics {
    /// Enables the measurement.
    pub fn enable() -> Result<Statistics> {
        let before = fs::read_to_string(STATISTICS).with_context(|| format!("cannot read {STATISTICS}"))?;
        fs::write(STATISTICS, "1").with_context(|| format!("cannot write {STATISTICS}"))?;
        Ok(Statistics(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, self.0.trim());
    }
}

/// A loop device on a file in memory. Dropping this value removes the loop device.
pub struct LoopDevice(pub String, PathBuf);

impl LoopDevice {
    /// Creates the device. `dir` is the working folder of losetup.
    pub fn over(dir: &Path) -> Result<LoopDevice> {
        let image = Path::new("/dev/shm").join(format!("fonio-bench-{}", std::process::id()));
        fs::File::create(&image)?.set_len(DEVICE_BYTES)?;
        let losetup = ["--find", "--show"];
        let device = process::output(Command::new("losetup").args(losetup).arg(&image).current_dir(dir))?;
        Ok(LoopDevice(device, image))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
        let _ = fs::remove_file(&self.1);
    }
}
