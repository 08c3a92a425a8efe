//! `cargo xtask bench fuse`: compares the modes of `fonio mount` with the directory itself, bindfs, and libfuse's
//! example of a plain passthrough with one thread; prints medians of one run.
//!
//! Rounds interleave the configurations, so that a slow moment of the machine does not fall on one of them alone.

mod confine;
mod daemons;
mod on_device;
#[cfg(feature = "results")]
mod once;
mod place;
mod work;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fonio_host::Ledger;

use crate::{process, tools};
use confine::Confined;
use daemons::{Daemon, Mounted, Programs, Used};
#[cfg(feature = "results")]
pub use once::{BYTES, Found, Once, Plan, Stack, run_in_guest};
use place::Place;
pub use place::Setup;
use work::{WORKS, Work};

const ROUNDS: usize = 5;

/// The measured configurations, by their names in the table.
const CONFIGURATIONS: &[(&str, Daemon<'static>)] = &[
    ("native", Daemon::None),
    ("bindfs", Daemon::Bindfs),
    ("plain", Daemon::Plain),
    ("stock", Daemon::Fonio("mode=stock")),
    ("extended", Daemon::Fonio("mode=extended")),
    ("buffered", Daemon::Fonio("mode=buffered")),
    ("no-thread", Daemon::Fonio("mode=buffered,thread=no")),
    ("writeback", Daemon::Fonio("mode=writeback")),
    ("auto", Daemon::Fonio("mode=auto")),
    ("auto-device", Daemon::Fonio("mode=auto,io_uring=no")),
    ("auto-alone", Daemon::Fonio("mode=auto,noallow_other")),
];

/// The arguments of the command.
pub struct Wanted<'a> {
    /// The divisor of all sizes.
    scale: u64,
    over: Option<PathBuf>,
    on: Option<&'a str>,
    /// The daemon's share of one CPU, or [`on_device::STUDY`].
    cpu: Option<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    fn parse(arguments: &'a [String]) -> Result<Self> {
        let mut wanted = Self { scale: 1, over: None, on: None, cpu: None, names: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => wanted.scale = 4,
                "--over" => wanted.over = Some(words.next().context("--over takes a directory")?.into()),
                "--on" => wanted.on = Some(words.next().context("--on takes a device profile")?),
                "--cpu" => wanted.cpu = Some(words.next().context("--cpu takes a percentage, or `study`")?),
                name if CONFIGURATIONS.iter().any(|(known, _)| *known == name) => wanted.names.push(name),
                other => bail!(
                    "there is no configuration `{other}`; there are {}",
                    CONFIGURATIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
                ),
            }
        }
        if wanted.cpu.is_some() && wanted.on.is_none() {
            bail!("--cpu goes with --on PROFILE: a slow processor matters beside a slow device");
        }
        Ok(wanted)
    }

    fn configurations(&self) -> Vec<(&'static str, Daemon<'static>)> {
        let wanted = |name: &str| self.names.is_empty() || name == "native" || self.names.contains(&name);
        CONFIGURATIONS.iter().copied().filter(|(name, _)| wanted(name)).collect()
    }
}

/// Runs the benchmark.
pub fn run(arguments: &[String]) -> Result<()> {
    let wanted = Wanted::parse(arguments)?;
    if !process::is_root() {
        bail!("the peers are mounted by root");
    }
    tools::ensure(&[tools::BUILD, tools::FUSE])?;
    let folder = process::scratch("bench-fuse")?;
    let programs = Programs::build(&folder)?;
    Ledger::recover(&Ledger::default_dir())?;
    process::outlive_signals()?;
    if wanted.on.is_some() {
        return on_device::run(&wanted, &folder, &programs);
    }
    let place = match wanted.over.clone() {
        Some(source) => Place::over(&folder, source)?,
        None => Place::tmpfs(&folder)?,
    };
    let chosen = wanted.configurations();
    let mut samples = vec![vec![Vec::new(); chosen.len()]; WORKS.len()];
    for round in 0..ROUNDS {
        for (column, (name, daemon)) in chosen.iter().enumerate() {
            eprint!("\rround {} of {ROUNDS}, {name:<12}", round + 1);
            let mounted = Mounted::start(*daemon, &programs, &place.source, &place.dir, None)
                .with_context(|| format!("{name} does not mount"))?;
            for (row, work) in WORKS.iter().enumerate() {
                samples[row][column].push(measure(work, wanted.scale, &mounted)?);
            }
        }
    }
    eprintln!();
    let header: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    println!("Medians of {ROUNDS} interleaved rounds over {}.", place.source.display());
    println!(
        "auto-device is without io_uring; auto-alone lets nobody in but root, as plain does, so that nobody checks \
         permissions twice."
    );
    let native = |row: &[Vec<Sample>]| median(&row[0], |sample| sample.seconds);
    table("seconds", &header, &samples, 3, |sample, _| sample.seconds);
    table("times native", &header, &samples, 2, |sample, row| sample.seconds / native(row));
    if let Some(plain) = header.iter().position(|name| *name == "plain") {
        let plain = |row: &[Vec<Sample>]| median(&row[plain], |sample| sample.seconds);
        table("times plain", &header, &samples, 2, |sample, row| sample.seconds / plain(row));
    }
    table("CPU seconds of the daemon", &header, &samples, 3, |sample, _| sample.used.cpu_seconds);
    table("context switches of the daemon", &header, &samples, 0, |sample, _| sample.used.switches as f64);
    table("write calls of the daemon", &header, &samples, 0, |sample, _| {
        sample.used.write_calls.map_or(f64::NAN, |calls| calls as f64)
    });
    Ok(())
}

/// The measurement of one work under one configuration.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    /// The resources used by the daemon.
    used: Used,
}

fn measure(work: &Work, scale: u64, mounted: &Mounted) -> Result<Sample> {
    process::check_signals()?;
    (work.prepare)(&mounted.dir, scale)?;
    let before = mounted.used();
    let started = Instant::now();
    (work.run)(&mounted.dir, scale).with_context(|| format!("{} failed", work.name))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Sample { seconds, used: mounted.used().since(before) })
}

fn median<T>(samples: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a table; `of` computes a cell from a sample and its row.
fn table(
    title: &str,
    header: &[&str],
    samples: &[Vec<Vec<Sample>>],
    digits: usize,
    of: impl Fn(&Sample, &[Vec<Sample>]) -> f64,
) {
    print!("\n{title:<32}");
    for name in header {
        print!("{name:>12}");
    }
    println!();
    for (work, row) in WORKS.iter().zip(samples) {
        print!("{:<32}", work.name);
        for column in row {
            let cell = median(column, |sample| of(sample, row));
            if cell.is_nan() { print!("{:>12}", "-") } else { print!("{cell:>12.digits$}") }
        }
        println!();
    }
}
