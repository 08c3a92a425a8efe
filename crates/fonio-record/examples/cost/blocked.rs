//! Measures the cost of recording which threads are blocked.
//!
//! Three loads run under a recording: fio with 10,000 requests a second, two threads that pass a byte back
//! and forth, and threads that are blocked for more than a millisecond about 2,000 times a second. In one
//! recording, the kernel measures the run time of the BPF programs (`BPF_ENABLE_STATS`); the clock for this
//! measurement takes a part of the measured time. Other recordings show the recorder's processor time: with
//! the BPF programs, with tracefs instead of BPF, and without waits. The fixed cost of an empty recording is
//! measured separately and is not included. The number of times that the byte is passed shows the cost of
//! tracefs in the kernel.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use fonio_record::{BlockedBy, RecordOptions, RecordSummary, Selector, record};

use crate::{LoopDevice, Result, row, span_s};

/// The file to which the switching threads write how often they passed the byte.
const PASSES: &str = "passes";
const RATE: u64 = 10_000;
/// Number of threads that are blocked, and the length of each wait.
const BLOCKED_THREADS: u32 = 4;
const BLOCKED: Duration = Duration::from_micros(1500);

/// Measures the cost under each load, once per round.
pub fn run(rounds: u64, seconds: u64) -> Result<()> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let device = LoopDevice::over(dir.path())?;
    let own = std::env::current_exe()?.display().to_string();
    let passes = dir.path().join(PASSES).display().to_string();
    let again = |load: &str| vec![own.clone(), load.to_owned(), seconds.to_string(), passes.clone()];
    let job = ["--ioengine=psync", "--time_based", "--output=/dev/null"].map(str::to_owned);
    let job = [&job[..], &[format!("--rate_iops={RATE}"), format!("--runtime={seconds}")]].concat();
    for _ in 0..rounds {
        for (title, command) in [
            ("10,000 requests a second, one at a time", device.fio(&job)),
            ("two threads that switch", again("switch")),
            ("2,000 waits of more than 1 ms a second", again("block")),
        ] {
            measure(title, &command, &device.0, dir.path())?;
        }
    }
    Ok(())
}

/// Runs a load in this process, for recording by another process.
pub fn load(name: &str, seconds: u64, passes_to: &str) -> Result<()> {
    let time = Duration::from_secs(seconds);
    if name == "switch" { switch_for(time, passes_to) } else { block_for(time) }
}

/// Passes a byte back and forth between two threads, which sleep in between. Writes the number of passes into
/// the file `passes_to`.
fn switch_for(time: Duration, passes_to: &str) -> Result<()> {
    let (mut from_there, mut to_here) = std::io::pipe()?;
    let (mut from_here, mut to_there) = std::io::pipe()?;
    let there = std::thread::spawn(move || {
        let mut byte = [0];
        while from_here.read(&mut byte).is_ok_and(|bytes| bytes == 1) && to_here.write_all(&byte).is_ok() {}
    });
    let began = Instant::now();
    let (mut byte, mut passes) = ([0], 0_u64);
    while began.elapsed() < time {
        passes += 1;
        to_there.write_all(&byte)?;
        from_there.read_exact(&mut byte)?;
    }
    drop(to_there);
    there.join().map_err(|_| "a thread panicked")?;
    Ok(std::fs::write(passes_to, passes.to_string())?)
}

/// Blocks uninterruptibly again and again, each time until a copy of this process ends.
fn block_for(time: Duration) -> Result<()> {
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
    // SAFETY: without CLONE_VM the child has its own memory, as after fork. The child only sleeps and exits.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        // SAFETY: both functions only make a system call.
        unsafe {
            libc::usleep(BLOCKED.as_micros() as u32);
            libc::_exit(0)
        }
    }
    // SAFETY: waits for the child created above.
    unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
}

/// The number of runs and the run time of each BPF program, by program name.
type Runs = HashMap<String, (u64, Duration)>;

/// Returns the statistics of the BPF programs that were loaded after the programs with the ids `before`.
fn statistics(before: &[u32]) -> Runs {
    let programs = loaded_programs().filter_map(std::result::Result::ok);
    let named = programs.filter(|program| !before.contains(&program.id())).filter_map(|program| {
        Some((program.name_as_str()?.to_owned(), (program.run_count(), program.run_time())))
    });
    named.collect()
}

/// Runs a recording while the kernel measures the BPF programs that the recording loads. Reading the
/// programs' statistics takes processor time of this process, so this recording does not show the recorder's
/// cost.
fn counted(record: impl FnOnce() -> Result<RecordSummary>) -> Result<(RecordSummary, Runs)> {
    let before: Vec<u32> =
        loaded_programs().filter_map(std::result::Result::ok).map(|program| program.id()).collect();
    // The kernel measures the BPF programs until this descriptor is closed.
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

fn measure(title: &str, command: &[String], device: &Path, dir: &Path) -> Result<()> {
    let recorded = |blocked: BlockedBy, command: &[String]| -> Result<RecordSummary> {
        let options = RecordOptions {
            select: vec![Selector::Device(device.into())],
            command: Some(command.iter().map(Into::into).collect()),
            overwrite: true,
            blocked,
            ..RecordOptions::new(dir.join("recording"))
        };
        Ok(record(&options, &mut |_| {})?)
    };
    // Returns the recorder's share of a processor in percent, without the fixed cost of an empty recording;
    // this fixed cost in milliseconds; and the time to pass the byte once, in nanoseconds.
    let cost = |blocked: BlockedBy| -> Result<(f64, f64, Option<f64>)> {
        let summary = recorded(blocked, command)?;
        summary.notes.iter().for_each(|note| eprintln!("{title}: note: {note}"));
        let passes = std::fs::read_to_string(dir.join(PASSES)).ok().and_then(|text| text.parse::<f64>().ok());
        let _ = std::fs::remove_file(dir.join(PASSES));
        let empty = recorded(blocked, &["true".to_owned()])?;
        let cpu_s = summary.capture_cpu.as_secs_f64() - empty.capture_cpu.as_secs_f64();
        let share = cpu_s / (span_s(&summary) - span_s(&empty)) * 100.0;
        let pass_ns = passes.map(|passes| span_s(&summary) * 1e9 / passes / 2.0);
        Ok((share, empty.capture_cpu.as_secs_f64() * 1e3, pass_ns))
    };
    let (without, without_ms, without_ns) = cost(BlockedBy::No)?;
    let (by_tracefs, _, tracefs_ns) = cost(BlockedBy::Tracefs)?;
    let (by_bpf, bpf_ms, _) = cost(BlockedBy::Bpf)?;
    let (summary, runs) = counted(|| recorded(BlockedBy::Bpf, command))?;
    let mut values = Vec::new();
    for program in ["left", "woken"] {
        let (count, time) = runs.get(program).copied().unwrap_or_default();
        values.push(Some(time.as_secs_f64() / span_s(&summary) * 100.0));
        values.push(Some(count as f64 / span_s(&summary)));
        values.push(Some(time.as_nanos() as f64 / count.max(1) as f64));
    }
    values.extend([Some(by_bpf), Some(without), Some(by_tracefs), Some(bpf_ms - without_ms)]);
    values.push(tracefs_ns.zip(without_ns).map(|(with, without)| with - without));
    row(title, &values);
    Ok(())
}
