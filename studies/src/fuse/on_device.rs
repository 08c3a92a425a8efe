//! Measures the modes on an emulated device with a file system. The daemon runs either at full speed or on a
//! small share of a processor.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use fonio_host::CpuShare;
use xtask::results::{Cell, StudyResult};

use super::{Arguments, Configuration, Confined, Daemon, Mounted, Place, Programs, Setup, Used, median};
use crate::process;

const ROUNDS: usize = 3;
pub const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 512 * MIB;
/// The record size in the study's experiment.
const RECORD_BYTES: usize = 512 << 10;
const INTERLEAVED_RECORD_BYTES: usize = 64 << 10;
/// On the study's phone, FUSE reached 7 MB/s of the device's 39 MB/s (section 2.3).
const STUDY_SHARE: f64 = 7.0 / 39.0;
/// The keyword that requests a processor as slow as the study's processor.
pub const STUDY: &str = "study";

/// Files that are written alternately, one record at a time.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub files: usize,
    pub bytes: u64,
    pub record: usize,
}

/// Writes the files of the streams to a new folder in `dir` and syncs them. Returns the time that this took
/// in seconds.
pub fn write_streams(dir: &Path, streams: Streams) -> Result<f64> {
    let data = vec![0x5a; streams.record];
    let dir = dir.join(format!("{} of {}", streams.files, streams.record));
    std::fs::create_dir(&dir)?;
    let started = Instant::now();
    let mut files = Vec::new();
    for number in 0..streams.files {
        files.push(File::create(dir.join(format!("stream{number}")))?);
    }
    for _ in 0..streams.bytes / streams.record as u64 / streams.files as u64 {
        process::check_signals()?;
        for file in &mut files {
            file.write_all(&data)?;
        }
    }
    for file in &files {
        file.sync_all()?;
    }
    Ok(started.elapsed().as_secs_f64())
}

pub(super) fn run(
    wanted: &Arguments,
    folder: &Path,
    programs: &Programs,
    chosen: &[Configuration],
) -> Result<()> {
    let profile = wanted.on.as_deref().context("name an emulated device with --on")?;
    let setup = Setup {
        profile: profile.to_owned().into(),
        file_system: "ext4".into(),
        scheduler: "mq-deadline".into(),
        seed: 1,
    };
    let bytes = FILE_BYTES / wanted.scale();
    let works = [
        ("one stream by 512 KiB", Streams { files: 1, bytes, record: RECORD_BYTES }),
        ("four streams by 64 KiB", Streams { files: 4, bytes, record: INTERLEAVED_RECORD_BYTES }),
    ];
    let raw = raw(programs, &setup, bytes)?;
    println!("{profile}, {} MiB and fsync; the bare device takes {:.1} MB/s.", bytes / MIB, raw / 1e6);
    let share = match wanted.cpu.as_deref() {
        None => None,
        Some(STUDY) => Some(as_slow_as_the_studys(folder, programs, &setup, (raw, bytes))?),
        Some(percent) => {
            let percent: f64 = percent
                .parse()
                .ok()
                .with_context(|| format!("--cpu takes a percentage of one CPU, or `{STUDY}`"))?;
            Some(CpuShare::new(percent / 100.0)?)
        }
    };
    if let Some(share) = share {
        println!("The daemon has {:.2} % of one CPU.", share.value() * 100.0);
    }
    let confined = share.map(Confined::new).transpose()?;
    let mut samples = vec![vec![Vec::new(); chosen.len()]; works.len()];
    for round in 0..ROUNDS {
        for (column, (name, daemon)) in chosen.iter().enumerate() {
            eprint!("\rround {} of {ROUNDS}, {name:<12}", round + 1);
            // Each measurement uses a new device, because a device that was filled would collect garbage
            // during the next measurement.
            let place = Place::emulated(folder, &programs.fonio, &setup)?;
            let mounted = Mounted::start(*daemon, programs, &place.source, &place.dir, confined.as_ref())?;
            for (row, (_, streams)) in works.iter().enumerate() {
                let before = mounted.used();
                let seconds = write_streams(&mounted.dir, *streams)?;
                samples[row][column].push((bytes as f64 / seconds, mounted.used().since(before)));
            }
        }
    }
    eprintln!();
    let is_slow = share.is_some();
    let id = if is_slow { "fuse-slow-processor" } else { "fuse-device" };
    let command = format!(
        "cargo studies fuse --on {profile}{}{}",
        if wanted.quick { " --quick" } else { "" },
        if is_slow { " --cpu study" } else { "" }
    );
    let columns: Vec<&str> = ["MB/s"].into_iter().chain(chosen.iter().map(|(name, _)| *name)).collect();
    let mut result =
        StudyResult::begin(id, &format!("writes to {profile} through each mode"), &command, &columns)?;
    result.rounds = Some(ROUNDS as u64);
    for ((title, _), row) in works.iter().zip(&samples) {
        show(title, chosen, row, raw);
    }
    println!();
    for ((title, _), row) in works.iter().zip(&samples) {
        let cell = |column: &Vec<Sample>| Cell::rounds(column.iter().map(|sample| sample.0 / 1e6), "", 1);
        result.row(*title, row.iter().map(cell).collect());
    }
    let is_studys = wanted.cpu.as_deref().is_none_or(|cpu| cpu == STUDY);
    result.keep(profile == "galaxy_s3_emmc" && is_studys && wanted.quick == is_slow)?;
    Ok(())
}

type Sample = (f64, Used);

fn show(title: &str, chosen: &[Configuration], row: &[Vec<Sample>], raw: f64) {
    println!(
        "\n{title:<24}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}",
        "MB/s", "of raw", "of native", "of stock", "CPU s", "switches", "write calls"
    );
    let rate = |column: &[Sample]| median(column, |sample| sample.0);
    let of = |name: &str| {
        let found = chosen.iter().position(|(known, _)| *known == name);
        found.map_or(f64::NAN, |column| rate(&row[column]))
    };
    let (native, stock) = (of("native"), of("stock"));
    for ((name, _), column) in chosen.iter().zip(row) {
        let own = rate(column);
        let calls = column.iter().filter_map(|sample| sample.1.write_calls).max();
        println!(
            "{name:<24}{:>8.1}{:>9.1}%{:>9.1}%{:>10.2}{:>10.2}{:>10.0}{:>12}",
            own / 1e6,
            100.0 * own / raw,
            100.0 * own / native,
            own / stock,
            median(column, |sample| sample.1.cpu_seconds),
            median(column, |sample| sample.1.switches as f64),
            calls.map_or_else(|| "-".to_owned(), |calls| calls.to_string())
        );
    }
}

fn raw(programs: &Programs, setup: &Setup, bytes: u64) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        rates.push(setup.raw_write(&programs.fonio, bytes)?);
    }
    Ok(median(&rates, |rate| *rate))
}

/// Returns the share of a CPU with which `stock` reaches the same share of the device's rate as on the
/// study's phone. The share depends on the stream's length, `bytes`: in a shorter stream, the final wait for
/// the device is a larger part of the time. `raw` is the device's rate in bytes per second.
pub fn as_slow_as_the_studys(
    folder: &Path,
    programs: &Programs,
    setup: &Setup,
    (raw, bytes): (f64, u64),
) -> Result<CpuShare> {
    const ATTEMPTS: usize = 4;
    let streams = Streams { files: 1, bytes, record: RECORD_BYTES };
    let mut share = CpuShare::new(0.035)?;
    for _ in 0..ATTEMPTS {
        let place = Place::emulated(folder, &programs.fonio, setup)?;
        let confined = Confined::new(share)?;
        let stock = Daemon::Fonio("mode=stock");
        let mounted = Mounted::start(stock, programs, &place.source, &place.dir, Some(&confined))?;
        let reached = bytes as f64 / write_streams(&mounted.dir, streams)? / raw;
        if (reached / STUDY_SHARE - 1.0).abs() < 0.05 {
            break;
        }
        // The throughput of a daemon grows with its share of the CPU.
        share = CpuShare::new((share.value() * STUDY_SHARE / reached).clamp(0.01, 0.99))?;
    }
    Ok(share)
}
