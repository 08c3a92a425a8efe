//! `cargo studies sampled`: compares waits sampled from `/proc` with waits recorded by BPF.
//!
//! During a load, one process records blocked threads with BPF, and another process samples `/proc`. The
//! table shows the time for which fio's threads were blocked on storage according to each of the two
//! processes, and the share of a processor that the sampler used.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use fonio_core::{BlockedCount, RowSink, Thread, Wait, WaitReason, ignore_rows};
use fonio_record::{BlockedBy, RecordError, RecordOptions, RecordSummary, record, record_sampled};
use fonio_recording::{Recording, Tables};
use xtask::results::{Cell, StudyResult};

use crate::{process, tools};

const LOADS: [(&str, &[&str]); 4] = [
    ("fsync after each 4 KiB", &["--rw=write", "--fsync=1", "--rate_iops=100"]),
    ("four writers with fsync", &["--rw=randwrite", "--fsync=8", "--numjobs=4", "--thread"]),
    ("direct reads, 1 ms apart", &["--rw=randread", "--direct=1", "--thinktime=1000"]),
    ("a buffered copy", &["--rw=write", "--bs=1m", "--end_fsync=1"]),
];

#[derive(Args)]
pub struct Arguments {
    /// The duration of each load.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The name under which this program runs as the sampling process.
pub const SAMPLE: &str = "sample";

/// Records samples into a folder for the given number of seconds, and prints the CPU time of this process as
/// a percentage of one processor.
pub fn run_sample(words: &[String]) -> anyhow::Result<()> {
    let [seconds, folder] = words else { anyhow::bail!("only `cargo studies sampled` runs this command") };
    let options = RecordOptions {
        duration: Some(Duration::from_secs(seconds.parse()?)),
        ..RecordOptions::new(Path::new(folder))
    };
    let summary = record_sampled(&options, &RecordError::NotRoot, &mut |_| {})?;
    println!("{}", summary.capture_cpu.as_secs_f64() / span_s(&summary) * 100.0);
    Ok(())
}

pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "recording needs root: run it with sudo");
    tools::ensure(&[tools::BENCH])?;
    let time = Duration::from_secs(arguments.seconds);
    let command = format!("cargo studies sampled --seconds {}", arguments.seconds);
    let columns =
        ["load", "blocked by BPF", "blocked by samples", "difference", "the sampler's share of a processor"];
    let title = "sampled waits, compared with recorded ones";
    let mut result = StudyResult::begin("sampled", title, &command, &columns)?;
    for (title, options) in LOADS {
        let folder = tempfile::tempdir_in(process::scratch("sampled")?)?;
        let (truth, sampled, cpu) = compare(options, time, folder.path())?;
        let cells = vec![
            Cell::once(truth, "s", 2),
            Cell::once(sampled, "s", 2),
            Cell::once((sampled - truth) / truth * 100.0, "%", 1),
            Cell::once(cpu, "%", 2),
        ];
        result.row(title, cells);
    }
    result.keep(arguments.seconds >= 10)?;
    Ok(())
}

fn span_s(summary: &RecordSummary) -> f64 {
    (summary.ended.0 - summary.began.0) as f64 / 1e9
}

/// Returns the time in seconds for which fio was blocked, first as recorded by BPF and then as sampled. Also
/// returns the share of a processor that the sampler used.
fn compare(options: &[&str], time: Duration, folder: &Path) -> Result<(f64, f64, f64)> {
    let (recorded, sampled) = (folder.join("recorded"), folder.join("sampled"));
    let mut sampler = Command::new(std::env::current_exe()?);
    sampler.args([SAMPLE, &(time.as_secs() + 2).to_string()]).arg(&sampled);
    let sampler = sampler.stdout(std::process::Stdio::piped()).spawn()?;
    std::thread::sleep(Duration::from_secs(1));
    let mut fio = ["fio", "--name=load", "--size=64m", "--bs=4k", "--time_based", "--output=/dev/null"]
        .map(Into::into)
        .to_vec();
    fio.push(format!("--runtime={}", time.as_secs()).into());
    fio.push(format!("--directory={}", folder.display()).into());
    fio.extend(options.iter().map(Into::into));
    let by_bpf =
        RecordOptions { command: Some(fio), blocked: BlockedBy::Bpf, ..RecordOptions::new(&recorded) };
    record(&by_bpf, &mut |_| {})?;
    let cpu = String::from_utf8(sampler.wait_with_output()?.stdout)?.trim().parse()?;
    Ok((blocked_s(&recorded)?, blocked_s(&sampled)?, cpu))
}

/// Sums the times for which fio was blocked on storage.
#[derive(Default)]
struct Sum {
    names: HashMap<u32, String>,
    ns: u64,
}

impl Sum {
    fn is_fio(&self, tid: u32) -> bool {
        self.names.get(&tid).is_some_and(|name| name == "fio")
    }
}

impl RowSink for Sum {
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        row.comm.iter().for_each(|name| {
            self.names.insert(row.tid, name.clone());
        });
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        let is_storage = row.blocked_in.is_some_and(|operation| operation.is_for_storage(row.reason));
        if let Some(ended) = row.ended.filter(|_| is_storage && self.is_fio(row.tid)) {
            self.ns += ended.0.saturating_sub(row.began.0);
        }
        Ok(())
    }

    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
        if self.is_fio(row.tid)
            && (row.reason == WaitReason::Storage || row.blocked_in.is_for_storage(row.reason))
        {
            self.ns += row.total.0;
        }
        Ok(())
    }

    ignore_rows!(began, request, bio, link, call, statement, file, sample, mark, diagnostic, settled);
}

fn blocked_s(recording: &Path) -> Result<f64> {
    let mut sum = Sum::default();
    Recording::open(recording)?.replay(&mut sum, Tables::ALL)?;
    Ok(sum.ns as f64 / 1e9)
}
