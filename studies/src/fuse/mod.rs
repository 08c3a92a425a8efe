//! `cargo studies fuse`: compares the modes of `fonio mount` with the directory itself, bindfs, libfuse's two
//! passthrough examples, and a server that answers without doing anything. Prints the medians of the rounds.
//!
//! In each round, all configurations are measured, so a slow moment of the machine does not affect only one
//! configuration.

mod confine;
mod daemons;
mod floor;
mod multiples;
mod on_device;
mod once;
mod place;
mod work;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use fonio_core::statistics::sample;
use fonio_host::Ledger;
use rustix::process::{Resource, getrlimit};
use xtask::results::{Cell, StudyResult};

use crate::{process, tools};
use confine::Confined;
use daemons::{Daemon, Mounted, Programs, Transport, Used};
pub use once::{BYTES, Found, Once, Plan, STACKS, Stack, run_in_guest};
use place::Place;
pub use place::Setup;
use work::{WORKS, Work};

const ROUNDS: usize = 5;

const MULTIPLES: &str = "file operations over tmpfs: seconds, and multiples of them";

/// A daemon with its name in tables.
type Configuration = (&'static str, Daemon<'static>);

const CONFIGURATIONS: [Configuration; 14] = [
    ("native", Daemon::None),
    ("bindfs", Daemon::Bindfs),
    ("plain", Daemon::Plain),
    ("hp", Daemon::Hp),
    ("stock", Daemon::Fonio("mode=stock")),
    ("extended", Daemon::Fonio("mode=extended")),
    ("buffered", Daemon::Fonio("mode=buffered")),
    ("no-thread", Daemon::Fonio("mode=buffered,thread=no")),
    ("writeback", Daemon::Fonio("mode=writeback")),
    ("auto", Daemon::Fonio("mode=auto")),
    ("auto-device", Daemon::Fonio("mode=auto,io_uring=no")),
    ("auto-alone", Daemon::Fonio("mode=auto,noallow_other")),
    ("nothing", Daemon::Nothing(Transport::IoUring)),
    ("nothing-device", Daemon::Nothing(Transport::Device)),
];

#[derive(Args)]
pub struct Arguments {
    /// Measure these configurations (default: all).
    #[arg(value_name = "NAME", value_parser = CONFIGURATIONS.map(|(name, _)| name))]
    names: Vec<String>,
    /// Write and read a quarter of the data.
    #[arg(long)]
    quick: bool,
    /// Mount this directory instead of a directory in memory.
    #[arg(long, value_name = "DIR", conflicts_with = "on")]
    over: Option<PathBuf>,
    /// Measure on an emulated device.
    #[arg(long, value_name = "PROFILE")]
    on: Option<String>,
    /// Give the daemon this percentage of one processor; with `study`, the share that matches the study's
    /// phone.
    #[arg(long, value_name = "PERCENT", requires = "on")]
    cpu: Option<String>,
}

impl Arguments {
    fn scale(&self) -> u64 {
        if self.quick { 4 } else { 1 }
    }

    fn configurations(&self) -> Vec<Configuration> {
        let wanted = |name: &str| {
            self.names.is_empty() || name == "native" || self.names.iter().any(|word| word == name)
        };
        // On a device, the study only writes data.
        let possible = |daemon| self.on.is_none() || !matches!(daemon, Daemon::Nothing(_));
        CONFIGURATIONS.into_iter().filter(|(name, daemon)| wanted(name) && possible(*daemon)).collect()
    }
}

pub fn run(wanted: &Arguments) -> Result<()> {
    if !process::is_root() {
        bail!("mounting the other daemons needs root");
    }
    tools::ensure(&[tools::BUILD, tools::FUSE])?;
    let open_files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let folder = process::scratch("bench-fuse")?;
    let mut chosen = wanted.configurations();
    let programs = Programs::build(&folder, &mut chosen)?;
    Ledger::recover(&Ledger::default_dir())?;
    process::outlive_signals()?;
    if wanted.on.is_some() {
        return on_device::run(wanted, &folder, &programs, &chosen);
    }
    let place = match wanted.over.clone() {
        Some(source) => Place::over(&folder, source)?,
        None => Place::tmpfs(&folder)?,
    };
    let mut samples = vec![vec![Vec::new(); chosen.len()]; WORKS.len()];
    for round in 0..ROUNDS {
        for (column, (name, daemon)) in chosen.iter().enumerate() {
            eprint!("\rround {} of {ROUNDS}, {name:<14}", round + 1);
            let mounted = Mounted::start(*daemon, &programs, &place.source, &place.dir, None)
                .with_context(|| format!("{name} does not mount"))?;
            for (row, work) in WORKS.iter().enumerate() {
                let is_possible = match daemon {
                    Daemon::Nothing(_) => work.needs_only_names,
                    // libfuse's examples keep a descriptor of each file that the kernel knows.
                    Daemon::Plain | Daemon::Hp => work.files / wanted.scale() < open_files_max,
                    _ => true,
                };
                let sample = is_possible.then(|| measure(work, wanted.scale(), &mounted)).transpose()?;
                samples[row][column].push(sample);
            }
        }
    }
    eprintln!();
    println!("Medians of {ROUNDS} interleaved rounds over {}.", place.source.display());
    println!(
        "auto-device does not use io_uring. Like plain, auto-alone admits only root, so permissions are not \
         checked twice. hp is libfuse's passthrough_hp; the kernel keeps its names and attributes for a day. \
         nothing answers without doing anything, over io_uring or, as nothing-device, over /dev/fuse. plain and hp \
         keep a descriptor of each file, so they cannot have more files than this process may open \
         ({open_files_max})."
    );
    let command = format!("cargo studies fuse{}", if wanted.quick { " --quick" } else { "" });
    let is_complete = !wanted.quick && wanted.over.is_none() && wanted.names.is_empty();
    let columns: Vec<&str> = [""].into_iter().chain(chosen.iter().map(|(name, _)| *name)).collect();
    let figures: [(&str, &str, Figure, usize); 4] = [
        ("fuse-memory", "seconds of file operations over tmpfs", |sample| Some(sample.seconds), 3),
        ("fuse-memory-cpu", "processor seconds of the daemon", |sample| Some(sample.used.cpu_seconds), 3),
        ("fuse-memory-switches", "context switches of the daemon", |of| Some(of.used.switches as f64), 0),
        ("fuse-memory-writes", "write calls of the daemon", |of| Some(of.used.write_calls? as f64), 0),
    ];
    for (at, (id, title, figure, decimals)) in figures.into_iter().enumerate() {
        println!("\n{title}\n");
        let mut result = StudyResult::begin(id, title, &command, &columns)?;
        result.rounds = Some(ROUNDS as u64);
        for (work, row) in WORKS.iter().zip(&samples) {
            let value = |sample: &Option<Sample>| figure(sample.as_ref()?);
            let cell = |column: &Vec<_>| Cell::rounds(column.iter().map(value), "", decimals);
            result.row(work.name, row.iter().map(cell).collect());
        }
        if at == 0 {
            result.remark = floor::remark(&result);
            if !result.remark.is_empty() {
                println!("\n{}", result.remark);
            }
        }
        // The documents show only the tables of the first figure.
        result.keep(is_complete && at == 0)?;
        if at == 0 {
            println!("\n{MULTIPLES}\n");
            let mut multiples = StudyResult::begin("fuse-memory-multiples", MULTIPLES, &command, &columns)?;
            multiples.rounds = result.rounds;
            for row in multiples::rows(&result) {
                multiples.row(row.name, row.cells);
            }
            multiples.keep(is_complete)?;
        }
    }
    Ok(())
}

type Figure = fn(&Sample) -> Option<f64>;

#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
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
    sample::median(&samples.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}
