//! Writes and reads long recordings in little memory.
//!
//! By default, the test uses two million rows. With `FONIO_LONG_TESTS=1`, the test uses a hundred million
//! rows. This takes a few minutes in release mode, and about 13 GB in the temporary directory (`TMPDIR`).

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::time::{Duration, Instant};

use fonio_core::Meta;
use fonio_recording::{Recording, Tables, Writer, WriterOptions};
use generated::{Checked, Generated};
use rustix::time::{ClockId, clock_gettime};

/// Returns the peak resident memory of this process in bytes; `None` if the system does not report it.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the processor time used by this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn write_and_read(requests: u64, stuck: bool) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let trace = Generated { requests, stuck, ..Generated::default() };
    let (began, processor_began) = (Instant::now(), processor_time());
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    trace.feed(&mut writer).unwrap();
    let meta = writer.finish(Meta::default()).unwrap();
    assert_eq!(meta.rows["requests"], requests);
    let written = (began.elapsed(), processor_time() - processor_began);

    let (began, processor_began) = (Instant::now(), processor_time());
    let mut checked = Checked::default();
    Recording::open(&dir).unwrap().replay(&mut checked, Tables::ALL).unwrap();
    let read = (began.elapsed(), processor_time() - processor_began);
    assert_eq!(checked.requests, requests);
    let bytes: u64 =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let peak = peak_resident_bytes().expect("Linux counts it");
    eprintln!(
        "{requests} requests{}: written in {written:.1?}, read in {read:.1?} (wall, processor), {} bytes a row, \
         peak {} MiB resident",
        if stuck { ", the first never completes" } else { "" },
        bytes / requests,
        peak >> 20,
    );
    assert!(peak < 300 << 20, "{peak} bytes");
}

#[test]
fn two_million_rows() {
    write_and_read(1_000_000, false);
    write_and_read(1_000_000, true);
}

#[test]
fn a_hundred_million_rows() {
    fonio_testing::skip_without!(Long);
    write_and_read(100_000_000, false);
    write_and_read(100_000_000, true);
}
