//! Measures the cost of recording blocked threads: `cargo run --release -p fonio-record --example
//! blocked_cost [SECONDS]`, as root, with fio.
//!
//! Three loads run under a recording: fio with 10,000 requests a second on a loop device over a file in
//! memory, two threads that pass a byte back and forth, and threads that block for more than 1 ms, about
//! 2,000 times a second. In one recording, the kernel measures the run time of the BPF programs
//! (`BPF_ENABLE_STATS`), which includes the cost of reading its clock. For the others, the table shows the
//! recorder's processor time during the capture: with the BPF programs, with tracefs instead of BPF, and
//! without waits. These shares exclude the fixed cost of an empty recording, which is shown separately. The
//! switch count of the two threads shows the cost of tracefs in the kernel.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use fonio_record::{BlockedBy, RecordOptions, RecordSummary, Selector, record};

const DEVICE_BYTES: u64 = 256 << 20;
/// The file to which the switching threads write their switch count.
const ROUNDS: &str = "rounds";
const RATE: u64 = 10_000;
/// Number of blocked threads, and the length of each wait.
const BLOCKED_THREADS: u32 = 4;
const BLOCKED: Duration = Duration::from_micros(1500);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        // Runs this program as a load.
        Some("switch") => return switch_for(seconds(words.get(1))?, words.get(2)),
        Some("block") => return block_for(seconds(words.get(1))?),
        _ => {}
    }
    let time = seconds(words.first())?;
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let device = LoopDevice::over(dir.path())?;
    let own = std::env::current_exe()?.display().to_string();
    let rounds = dir.path().join(ROUNDS).display().to_string();
    let again = |load: &str| vec![own.clone(), load.to_owned(), time.as_secs().to_string(), rounds.clone()];
    for (title, command) in [
        ("10,000 requests a second", fio(&device.0, time)),
        ("two threads that switch", again("switch")),
        ("long waits", again("block")),
    ] {
        measure(title, &command, &device.0, dir.path())?;
    }
    Ok(())
}

fn seconds(word: Option<&String>) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::from_secs(word.map(|word| word.parse()).transpose()?.unwrap_or(5).max(1)))
}

/// Passes a byte back and forth between two threads that sleep in between. Writes the number of passes to a
/// file.
fn switch_for(time: Duration, rounds_to: Option<&String>) -> Result<(), Box<dyn Error>> {
    let (mut from_there, mut to_here) = std::io::pipe()?;
    let (mut from_here, mut to_there) = std::io::pipe()?;
    let there = std::thread::spawn(move || {
        let mut byte = [0];
        while from_here.read(&mut byte).is_ok_and(|bytes| bytes == 1) && to_here.write_all(&byte).is_ok() {}
    });
    let began = Instant::now();
    let (mut byte, mut rounds) = ([0], 0_u64);
    while began.elapsed() < time {
        rounds += 1;
        to_there.write_all(&byte)?;
        from_there.read_exact(&mut byte)?;
    }
    drop(to_there);
    there.join().map_err(|_| "a thread panicked")?;
    rounds_to.map(|file| std::fs::write(file, rounds.to_string())).transpose()?;
    Ok(())
}

/// Repeatedly blocks uninterruptibly until a copy of this process ends.
fn block_for(time: Duration) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..BLOCKED_THREADS {
            scope.spawn(|| {
                while began.elapsed() < time {
                    block_once();
                }
            });
        }
    });
    Ok(())
}

fn block_once() {
    let flags = libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the copy has its own memory, as after fork. It only sleeps and ends.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        // SAFETY: both only make a system call.
        unsafe {
            libc::usleep(BLOCKED.as_micros() as u32);
            libc::_exit(0)
        }
    }
    // SAFETY: waits for the copy created above.
    unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
}

/// A loop device over a file in memory. Dropping this removes it.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(dir: &Path) -> Result<LoopDevice, Box<dyn Error>> {
        let file = dir.join("device");
        File::create(&file)?.set_len(DEVICE_BYTES)?;
        let out = Command::new("losetup").args(["--find", "--show"]).arg(&file).output()?;
        if !out.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
        }
        Ok(LoopDevice(PathBuf::from(String::from_utf8(out.stdout)?.trim())))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

fn fio(device: &Path, time: Duration) -> Vec<String> {
    let mut words: Vec<String> =
        ["fio", "--name=cost", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=psync"]
            .map(str::to_owned)
            .to_vec();
    words.push(format!("--filename={}", device.display()));
    words.push(format!("--filesize={DEVICE_BYTES}"));
    words.push(format!("--rate_iops={RATE}"));
    words.push(format!("--runtime={}", time.as_secs()));
    words.extend(["--time_based", "--output=/dev/null"].map(str::to_owned));
    words
}

/// Run count and run time by program.
type Runs = HashMap<String, (u64, Duration)>;

/// Reads the statistics of the programs whose ids are not in `before`.
fn statistics(before: &[u32]) -> Runs {
    let programs = loaded_programs().filter_map(Result::ok).filter(|program| !before.contains(&program.id()));
    let named = programs.filter_map(|program| {
        let name = program.name_as_str()?.to_owned();
        Some((name, (program.run_count(), program.run_time())))
    });
    named.filter(|(name, _)| ["left", "woken"].contains(&name.as_str())).collect()
}

/// Runs a recording while the kernel measures its BPF programs. Reading their statistics takes processor time
/// of this process, so the recorder's own cost is not measured here.
fn counted(
    record: impl FnOnce() -> Result<RecordSummary, Box<dyn Error>>,
) -> Result<(RecordSummary, Runs), Box<dyn Error>> {
    let before: Vec<u32> = loaded_programs().filter_map(Result::ok).map(|program| program.id()).collect();
    // Closing this ends the measurement.
    let _stats = enable_stats(Stats::RunTime)?;
    let ended = AtomicBool::new(false);
    let (summary, runs) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut last = Runs::new();
            while !ended.load(Ordering::Relaxed) {
                let now = statistics(&before);
                if !now.is_empty() {
                    last = now;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            last
        });
        let summary = record().map_err(|error| error.to_string());
        ended.store(true, Ordering::Relaxed);
        watch.join().map(|runs| (summary, runs))
    })
    .map_err(|_| "the watching thread panicked")?;
    Ok((summary?, runs))
}

fn measure(title: &str, command: &[String], device: &Path, dir: &Path) -> Result<(), Box<dyn Error>> {
    let nothing = ["true".to_owned()];
    let record_during = |blocked: BlockedBy, command: &[String]| -> Result<RecordSummary, Box<dyn Error>> {
        let options = RecordOptions {
            select: vec![Selector::Device(device.into())],
            command: Some(command.iter().map(Into::into).collect()),
            overwrite: true,
            blocked,
            ..RecordOptions::new(dir.join("recording"))
        };
        Ok(record(&options, &mut |_| {})?)
    };
    let recorded = |blocked: BlockedBy| record_during(blocked, command);
    let rounds_per_s = || {
        let rounds = std::fs::read_to_string(dir.join(ROUNDS)).ok()?.parse::<f64>().ok();
        let _ = std::fs::remove_file(dir.join(ROUNDS));
        rounds
    };
    let plain = recorded(BlockedBy::No)?;
    let plain_rounds = rounds_per_s();
    let traced = recorded(BlockedBy::Tracefs)?;
    let traced_rounds = rounds_per_s();
    let by_bpf = recorded(BlockedBy::Bpf)?;
    let (counted, runs) = counted(|| recorded(BlockedBy::Bpf))?;
    let span_s = |summary: &RecordSummary| (summary.ended.0 - summary.began.0) as f64 / 1e9;
    println!("\n{title}:");
    let mut names: Vec<&String> = runs.keys().collect();
    names.sort();
    for name in names {
        let (count, time) = runs[name];
        println!(
            "  {name:<6} {:>9.0} runs a second, {:>6.0} ns each, {:.2} % of one processor",
            count as f64 / span_s(&counted),
            time.as_nanos() as f64 / count.max(1) as f64,
            time.as_secs_f64() / span_s(&counted) * 100.0
        );
    }
    let once = |blocked: BlockedBy| -> Result<(f64, f64), Box<dyn Error>> {
        let nothing = record_during(blocked, &nothing)?;
        Ok((nothing.capture_cpu.as_secs_f64(), span_s(&nothing)))
    };
    let (once_bpf, once_tracefs, once_plain) =
        (once(BlockedBy::Bpf)?, once(BlockedBy::Tracefs)?, once(BlockedBy::No)?);
    let share = |summary: &RecordSummary, (once, span): (f64, f64)| {
        (summary.capture_cpu.as_secs_f64() - once) / (span_s(summary) - span) * 100.0
    };
    let rows = |table: &str| by_bpf.rows.get(table).copied().unwrap_or(0);
    println!(
        "  recorder {:.2} % of one processor, without the programs {:.2} %; fixed {:.0} ms, without {:.0} ms",
        share(&by_bpf, once_bpf),
        share(&plain, once_plain),
        once_bpf.0 * 1e3,
        once_plain.0 * 1e3
    );
    println!("  {} rows in waits, {} in blocked_counts", rows("waits"), rows("blocked_counts"));
    println!(
        "  by tracefs: recorder {:.2} % of one processor; fixed {:.0} ms",
        share(&traced, once_tracefs),
        once_tracefs.0 * 1e3
    );
    if let (Some(plain_rounds), Some(traced_rounds)) = (plain_rounds, traced_rounds) {
        let ns = |rounds: f64| span_s(&plain) * 1e9 / rounds / 2.0;
        println!(
            "  by tracefs: {:.0} ns more for each wake-up and switch (without waits {:.0} ns)",
            ns(traced_rounds) - ns(plain_rounds),
            ns(plain_rounds)
        );
    }
    traced.notes.iter().for_each(|note| println!("  by tracefs: note: {note}"));
    by_bpf.notes.iter().for_each(|note| println!("  note: {note}"));
    Ok(())
}
