//! A part of a processor that is as fast as the processor of a small board.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// The board.
pub const SLOW: &str = "pi-zero";
/// The time for which the processes run in each period, in microseconds.
const QUOTA_US: f64 = 1000.0;
/// How often fonio measures the share before it counts as unknown. Other machines on the same host can disturb it.
const TRIES: u32 = 5;

/// Returns the share. fonio measures it, and fails if other programs use the processors.
fn share(fonio: &Path, dir: &Path) -> Result<f64> {
    let out = dir.join("share");
    process::remove_folder(&out)?;
    let mut launch = Command::new(fonio);
    launch.args(["launch", "--cpu", SLOW, "--runs", "1", "--on"]).arg(dir).arg("--output").arg(&out);
    launch.args(["--", "true"]);
    let ended = launch.output().with_context(|| format!("cannot start {}", fonio.display()))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{}", said.trim().lines().last().unwrap_or("fonio failed"));
    let path = out.join("summary.json");
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let summary: Value = serde_json::from_slice(&text)?;
    summary["cpu_share"].as_f64().with_context(|| format!("{} has no share of a processor", path.display()))
}

/// Parses the share of a processor on the command line.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=1.0).contains(share));
    share.ok_or_else(|| "use a share of a processor from 0.01 to 1".to_owned())
}

/// A control group with a share of a processor. Dropping this value removes it.
pub struct Slow {
    /// The share of a processor of this machine.
    pub share: f64,
    folder: PathBuf,
    /// The file to which a process writes its id to join.
    groups: Vec<PathBuf>,
}

impl Slow {
    /// Makes the group with `given`, or else the share that `fonio` measures. `dir` is a folder for its results.
    pub fn make(given: Option<f64>, fonio: &Path, dir: &Path) -> Result<Slow> {
        let mut measured = given.map_or_else(|| share(fonio, dir), Ok);
        for _ in 1..TRIES {
            if measured.is_ok() {
                break;
            }
            process::check_signals()?;
            measured = share(fonio, dir);
        }
        let share = measured?;
        let period_us = (QUOTA_US / share).round();
        let root = Path::new("/sys/fs/cgroup");
        let own = Path::new("cpu").join("fonio-bench");
        let is_unified = root.join("cgroup.controllers").exists();
        let folder = if is_unified { root.join("fonio-bench") } else { root.join(own) };
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let slow = Slow { share, groups: vec![folder.join("cgroup.procs")], folder };
        let set = |name: &str, value: String| {
            let path = slow.folder.join(name);
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
        };
        if is_unified {
            set("cpu.max", format!("{QUOTA_US} {period_us}"))?;
        } else {
            set("cpu.cfs_period_us", format!("{period_us}"))?;
            set("cpu.cfs_quota_us", format!("{QUOTA_US}"))?;
        }
        Ok(slow)
    }

    pub fn groups(&self) -> &[PathBuf] {
        &self.groups
    }
}

/// Returns a command that runs in control groups, and ends with this process.
pub fn confined(program: &Path, groups: &[PathBuf]) -> Command {
    if groups.is_empty() {
        return process::bound_to_this(program);
    }
    let mut command = process::bound_to_this(Path::new("sh"));
    let joins = groups.iter().map(|group| format!("echo $$ > '{}' && ", group.display()));
    command.arg("-c").arg(format!("{}exec \"$0\" \"$@\"", joins.collect::<String>())).arg(program);
    command
}

impl Drop for Slow {
    fn drop(&mut self) {
        // A process that just ended can still be in the group.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
