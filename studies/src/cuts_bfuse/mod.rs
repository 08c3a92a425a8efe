//! `cargo studies cuts-bfuse`: cuts the power of a card below `fonio mount`, and compares the surviving files
//! with the contract in docs/bfuse.md.
//!
//! A round runs random operations (`model.rs`) through a mount of an ext4 file system on an emulated card that
//! logs every command. Each power cut of the round builds an image that the card may contain after the cut,
//! mounts this image on a loop device, and compares the tree with the rules of the model. No guest is needed:
//! the log has the order of all writes, flushes and completions, and the image is exact.

mod model;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::ByteCount;
use fonio_core::random::{mix, seed_for};
use fonio_emulator::{Cut, Emulated, Kind, Log, Options, ServeConfig, Tear, Through, scratch};
use fonio_host::{Filesystem, Ledger};

use crate::fuse_safety::Mounted;
use crate::shares::{self, Shares, Study, sum};
use crate::{process, sync_policy, tools};

use model::History;
use work::Place;

/// A way to run the operations.
struct Mode {
    name: &'static str,
    /// The mount options; `None` if the operations run on ext4 itself.
    options: Option<&'static str>,
    without_syncs: bool,
    /// Share of the cuts, relative to the other modes.
    weight: u64,
}

const fn mode(name: &'static str, options: &'static str) -> Mode {
    Mode { name, options: Some(options), without_syncs: false, weight: 10 }
}

const MODES: [Mode; 8] = [
    mode("passthrough", "mode=passthrough"),
    mode("writeback", "mode=writeback"),
    mode("buffered", "mode=buffered"),
    mode("buffered,direct=no", "mode=buffered,direct=no"),
    mode("extended", "mode=extended"),
    mode("stock", "mode=stock"),
    Mode { name: "ext4 without a mount", options: None, without_syncs: false, weight: 2 },
    Mode { name: CONTROL, options: None, without_syncs: true, weight: 2 },
];

/// The mode without syncs. Its cuts must lose data; otherwise the study could not find a loss.
const CONTROL: &str = "control: ext4, syncs left out";

static STUDY: Study = Study {
    id: "cuts-bfuse",
    title: "power cuts below `fonio mount`, against the contract in docs/bfuse.md",
    command: "sudo cargo studies cuts-bfuse",
    rows: "mode",
    columns: &[sum("cuts"), sum("lost or wrong"), sum("operations"), sum("syncs")],
};

/// The profile of a card with a volatile cache, so that a completed write can still be lost.
const PROFILE: &str = "sd_a2";
const CARD: ByteCount = ByteCount(64 << 20);
const OPERATIONS: usize = 300;
const ROUND_MAX: u64 = 100;

#[derive(Args)]
pub struct Arguments {
    /// The number of power cuts to add.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    cuts: u64,
    /// Run one round of this mode instead, without changing the result.
    #[arg(long, requires = "seed")]
    mode: Option<String>,
    /// The seed of this round. With the log of a failed round: the seed that the failure names.
    #[arg(long, requires = "mode")]
    seed: Option<u64>,
    /// Repeat a failed cut with the log of its round.
    #[arg(long, value_name = "FILE", requires = "at")]
    log: Option<PathBuf>,
    /// The number of log records before this cut, and the seed of the cut.
    #[arg(long, num_args = 2, value_names = ["RECORDS", "SEED"], requires = "log")]
    at: Option<Vec<u64>>,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices and mounts need root: run it with sudo");
    let stop = process::outlive_signals()?;
    if let (Some(name), Some(seed), Some(log), Some(at)) =
        (&arguments.mode, arguments.seed, &arguments.log, &arguments.at)
    {
        let mode = mode_of(name)?;
        let cut = Cut { at: usize::try_from(at[0])?, seed: at[1] };
        let counts = Round::of(mode, seed, log)?.cut(&[cut], &stop)?;
        println!("{name}, {cut:?}: {}", counts.failures.first().map_or("kept", |(_, why)| why));
        return Ok(());
    }
    tools::ensure(&[tools::BUILD])?;
    let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
    if let (Some(name), Some(seed)) = (&arguments.mode, arguments.seed) {
        let counts = round(mode_of(name)?, seed, arguments.cuts, &fonio, &stop)?;
        println!("{name}, seed {seed}: {} cuts, {} lost or wrong", counts.cuts, counts.failures.len());
        return Ok(());
    }
    let names = MODES.map(|mode| mode.name);
    let mut counted = Shares::open(&STUDY, &names)?;
    counted.note(&format!("{build} of fonio."));
    let mut left = arguments.cuts;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let mode = MODES.iter().min_by_key(|mode| counted.tried(mode.name) * 10 / mode.weight);
        let mode = mode.expect("there are modes");
        let cuts = (arguments.cuts * mode.weight / 64).clamp(1, ROUND_MAX).min(left);
        let seed = mix(seed_for(counted.tried(mode.name), mode.name.len() as u64));
        let done =
            round(mode, seed, cuts, &fonio, &stop).with_context(|| format!("{}, seed {seed}", mode.name))?;
        let failed = done.failures.len();
        println!("{}: {} cuts, {failed} lost or wrong", mode.name, done.cuts);
        if mode.name != CONTROL {
            for (cut, why) in &done.failures {
                counted.note(&format!(
                    "Failed: --mode '{}' --seed {seed} --at {} {}: {why}.",
                    mode.name, cut.at, cut.seed
                ));
            }
        }
        counted.add(mode.name, &[f64::from(done.cuts), failed as f64, OPERATIONS as f64, done.syncs as f64]);
        counted.write()?;
        left -= u64::from(done.cuts).min(left);
    }
    counted.print()?;
    let promised = || names.iter().filter(|name| **name != CONTROL);
    let (tried, failed) = promised()
        .fold((0, 0), |(tried, failed), name| (tried + counted.tried(name), failed + counted.failed(name)));
    println!("{tried} tried, {failed} failed");
    ensure!(failed == 0, "{failed} cuts lost or changed data");
    ensure!(
        counted.tried(CONTROL) < 20 || counted.failed(CONTROL) > 0,
        "no cut lost data that was not synced, so the cuts show nothing"
    );
    Ok(())
}

fn mode_of(name: &str) -> Result<&'static Mode> {
    let found = MODES.iter().find(|mode| mode.name == name);
    found.with_context(|| {
        format!("there is no mode `{name}`; modes: {}", MODES.map(|mode| mode.name).join(", "))
    })
}

#[derive(Default)]
struct Counts {
    cuts: u32,
    failures: Vec<(Cut, String)>,
    syncs: usize,
}

/// Runs the operations of the seed, then cuts the power at random moments.
fn round(mode: &'static Mode, seed: u64, cuts: u64, fonio: &Path, stop: &AtomicBool) -> Result<Counts> {
    let state = tempfile::tempdir()?;
    let log = scratch(CARD.0).join(format!("fonio-cuts-bfuse-{}-log", std::process::id()));
    let _removed = Removed(&log);
    let history = History::new(seed, OPERATIONS);
    record(mode, &history, fonio, &log, &state.path().join("state"))?;
    let round = Round::of(mode, seed, &log)?;
    let plan = Cut::plan(round.begin..round.end, u32::try_from(cuts)?, seed);
    let counts = round.cut(&plan, stop)?;
    if !counts.failures.is_empty() && mode.name != CONTROL {
        let name = format!("{}-{seed}", mode.name.replace([' ', ',', '='], "-"));
        let kept = shares::keep_log(STUDY.id, &name, &log)?;
        for (cut, why) in &counts.failures {
            println!("{}, seed {seed}, {cut:?}: {why}", mode.name);
            println!(
                "  repeat with: {} --mode '{}' --seed {seed} --log {} --at {} {}",
                STUDY.command,
                mode.name,
                kept.display(),
                cut.at,
                cut.seed
            );
        }
    }
    Ok(counts)
}

/// Runs the operations on a new card, and writes the log of the card.
fn record(mode: &Mode, history: &History, fonio: &Path, log: &Path, state: &Path) -> Result<()> {
    let serve = ServeConfig { log: Some(log.to_owned()), ..ServeConfig::of(PROFILE, CARD, 1) };
    let options = Options {
        through: Some(Through::Loop),
        filesystem: Some(Filesystem::Ext4),
        mount: Some(PathBuf::new()),
        // The times do not matter here, and other programs may use the processors.
        at_floor: true,
        ..Options::of(serve, state.to_owned())
    };
    let mut server = Command::new(std::env::current_exe()?);
    server.arg(sync_policy::SERVE);
    let mut emulated = Emulated::start(&options, server)?;
    let below = emulated.mount_dir().context("the card is not mounted")?.join("source");
    std::fs::create_dir(&below)?;
    std::fs::File::open(below.parent().context("a mount point has a parent")?)?.sync_all()?;
    let mounted = mode.options.map(|options| Mounted::start(fonio, &below, options)).transpose()?;
    let dir = mounted.as_ref().map_or(below.as_path(), Mounted::path);
    emulated.mark("0")?;
    let place = Place { dir, below: &below, without_syncs: mode.without_syncs };
    work::run(history, &place, &mut |number, inode| {
        let inode = inode.map_or_else(String::new, |inode| format!(" {inode}"));
        Ok(emulated.mark(&format!("{number}{inode}"))?)
    })?;
    // The daemon syncs nothing when it ends, but the end of the card does.
    drop(mounted);
    emulated.stop()?;
    Ok(())
}

/// A recorded round.
struct Round {
    history: History,
    log: Log,
    /// For each operation: the number of log records when it was complete.
    done: Vec<usize>,
    inodes: Vec<u64>,
    begin: usize,
    end: usize,
}

impl Round {
    fn of(mode: &Mode, seed: u64, log: &Path) -> Result<Round> {
        let history = History::new(seed, OPERATIONS);
        let log = Log::open(log)?;
        let (mut done, mut inodes, mut begin) = (Vec::new(), Vec::new(), None);
        for (at, record) in log.records.iter().enumerate().filter(|(_, record)| record.kind == Kind::Mark) {
            let name = String::from_utf8(log.data(record)?)?;
            let mut words = name.split(' ');
            let number: usize = words.next().and_then(|word| word.parse().ok()).context("a foreign mark")?;
            match number {
                0 => begin = Some(at + 1),
                _ => done.push(at + 1),
            }
            ensure!(number == done.len(), "the log of {} has other operations", mode.name);
            inodes.extend(words.next().map(str::parse::<u64>).transpose()?);
        }
        ensure!(done.len() == OPERATIONS, "the log of {} has {} operations", mode.name, done.len());
        let begin = begin.context("the log has no begin")?;
        let end = *done.last().context("the log has no operation")?;
        Ok(Round { history, log, done, inodes, begin, end })
    }

    fn cut(&self, plan: &[Cut], stop: &AtomicBool) -> Result<Counts> {
        let syncs = |op: &&model::Op| matches!(op, model::Op::Sync { .. } | model::Op::SyncDir { .. });
        let mut counts = Counts { syncs: self.history.ops.iter().filter(syncs).count(), ..Counts::default() };
        let state = tempfile::tempdir()?;
        let mut ledger = Ledger::open(&state.path().join("cuts"))?;
        let place = scratch(self.log.capacity.0);
        fonio_emulator::after_cuts(&mut ledger, &self.log, Tear::Page, &place, plan, &mut |cut, mounted| {
            counts.cuts += 1;
            if let Err(why) = mounted.map_err(str::to_owned).and_then(|dir| self.look(dir, cut)) {
                counts.failures.push((cut, why));
            }
            !stop.load(Ordering::Relaxed)
        })?;
        ledger.close()?;
        Ok(counts)
    }

    fn look(&self, dir: &Path, cut: Cut) -> Result<(), String> {
        let acknowledged = self.done.partition_point(|at| *at <= cut.at);
        let found = work::read(&dir.join("source")).map_err(|error| format!("{error:#}"))?;
        self.history.check(&found, acknowledged as u32, &self.inodes)
    }
}

/// A file that is removed when this value is dropped.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}
