//! Compares sampled waits with recorded ones: `cargo run --release -p fonio-record --example sampled [SECONDS]`, as root, with
//! fio.
//!
//! While a load runs, one process records who waits by BPF and another one samples `/proc`. The table shows for how long fio's
//! threads were blocked on storage by each, and what the sampling took of a processor.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fonio_core::{BlockedCount, RowSink, Thread, Wait, WaitReason, ignore_rows};
use fonio_record::{BlockedBy, RecordError, RecordOptions, RecordSummary, record, record_sampled};
use fonio_recording::{Recording, Tables};

/// What fio does: the title, and its options.
const LOADS: [(&str, &[&str]); 4] = [
    ("fsync after each 4 KiB", &["--rw=write", "--fsync=1", "--rate_iops=100"]),
    ("four writers with fsync", &["--rw=randwrite", "--fsync=8", "--numjobs=4", "--thread"]),
    ("direct reads, 1 ms apart", &["--rw=randread", "--direct=1", "--thinktime=1000"]),
    ("a buffered copy", &["--rw=write", "--bs=1m", "--end_fsync=1"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = |word: Option<&String>| word.map_or(Ok(10), |word| word.parse::<u64>());
    if words.first().is_some_and(|word| word == "sample") {
        let folder = words.get(2).ok_or("no folder")?;
        return sample(Duration::from_secs(seconds(words.get(1))?), Path::new(folder));
    }
    let time = Duration::from_secs(seconds(words.first())?);
    println!(
        "{:<26} {:>10} {:>10} {:>12} {:>12}",
        "load", "by BPF", "sampled", "of the time", "sampler's CPU"
    );
    for (title, options) in LOADS {
        let folder = tempfile::tempdir_in(".")?;
        let (truth, sampled, cpu) = compare(options, time, folder.path())?;
        println!(
            "{title:<26} {:>8.2} s {:>8.2} s {:>+11.1} % {cpu:>10.2} %",
            truth,
            sampled,
            (sampled - truth) / truth * 100.0
        );
    }
    Ok(())
}

/// Samples in a process of its own, and says what that took of a processor.
fn sample(time: Duration, out: &Path) -> Result<(), Box<dyn Error>> {
    let options = RecordOptions { duration: Some(time), ..RecordOptions::new(out) };
    let summary = record_sampled(&options, &RecordError::NotRoot, &mut |_| {})?;
    println!("{}", summary.capture_cpu.as_secs_f64() / span_s(&summary) * 100.0);
    Ok(())
}

fn span_s(summary: &RecordSummary) -> f64 {
    (summary.ended.0 - summary.began.0) as f64 / 1e9
}

/// The time for which fio was blocked: recorded and sampled, in seconds. Then the sampler's share of a processor.
fn compare(options: &[&str], time: Duration, folder: &Path) -> Result<(f64, f64, f64), Box<dyn Error>> {
    let (recorded, sampled) = (folder.join("recorded"), folder.join("sampled"));
    let mut sampler = Command::new(std::env::current_exe()?);
    sampler.args(["sample", &(time.as_secs() + 2).to_string()]).arg(&sampled);
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

/// Sums up how long fio was blocked on storage.
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

fn blocked_s(recording: &Path) -> Result<f64, Box<dyn Error>> {
    let mut sum = Sum::default();
    Recording::open(recording)?.replay(&mut sum, Tables::ALL)?;
    Ok(sum.ns as f64 / 1e9)
}
