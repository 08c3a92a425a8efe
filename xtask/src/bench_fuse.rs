//! `cargo xtask bench fuse [--quick] [--over DIR] [CONFIGURATION…]`: the modes of `fonio mount` beside the directory itself,
//! bindfs, and libfuse's example of a plain passthrough with one thread; medians of five, in one run.
//!
//! Rounds interleave the configurations, so that a slow moment of the machine does not fall on one of them alone.

mod work;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{process, tools};
use work::{WORKS, Work};

const ROUNDS: usize = 5;
/// What Debian's package libfuse3-dev holds; it is compiled here.
const PLAIN_SOURCE: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";

/// What is measured, by the name in the table.
const CONFIGURATIONS: &[(&str, Daemon)] = &[
    ("native", Daemon::None),
    ("bindfs", Daemon::Bindfs),
    ("plain", Daemon::Plain),
    ("stock", Daemon::Fonio("mode=stock")),
    ("extended", Daemon::Fonio("mode=extended")),
    ("buffered", Daemon::Fonio("mode=buffered")),
    ("no-thread", Daemon::Fonio("mode=buffered,thread=no")),
    ("writeback", Daemon::Fonio("mode=writeback")),
    ("auto", Daemon::Fonio("mode=auto")),
];

#[derive(Clone, Copy)]
enum Daemon {
    None,
    Bindfs,
    Plain,
    Fonio(&'static str),
}

/// What one work took under one configuration.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    /// Of the daemon.
    cpu_seconds: f64,
    switches: f64,
}

/// Runs the benchmark.
pub fn run(arguments: &[String]) -> Result<()> {
    if !process::is_root() {
        bail!("the peers are mounted by root");
    }
    tools::ensure(&[tools::BUILD, tools::FUSE])?;
    let mut scale = 1;
    let mut over = None;
    let mut names: Vec<&str> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => scale = 4,
            "--over" => over = Some(PathBuf::from(words.next().context("--over takes a directory")?)),
            name if CONFIGURATIONS.iter().any(|(known, _)| *known == name) => names.push(name),
            other => bail!("there is no configuration `{other}`"),
        }
    }
    process::run(process::cargo().args([
        "build",
        "--release",
        "--package",
        "fonio-bfuse",
        "--example",
        "mount",
    ]))?;
    let folder = process::scratch("bench-fuse")?;
    let plain = compile_plain(&folder)?;
    let place = Place::new(&folder, over)?;
    let chosen: Vec<_> = CONFIGURATIONS
        .iter()
        .filter(|(name, _)| names.is_empty() || *name == "native" || names.contains(name))
        .collect();
    let mut samples = vec![vec![Vec::new(); chosen.len()]; WORKS.len()];
    for round in 0..ROUNDS {
        for (column, (name, daemon)) in chosen.iter().enumerate() {
            eprint!("\rround {} of {ROUNDS}, {name:<12}", round + 1);
            let mounted =
                Mounted::start(*daemon, &place, &plain).with_context(|| format!("{name} does not mount"))?;
            for (row, work) in WORKS.iter().enumerate() {
                samples[row][column].push(measure(work, scale, &mounted)?);
            }
        }
    }
    eprintln!();
    let header: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    println!("Medians of {ROUNDS} interleaved rounds over {}.", place.source.display());
    table("seconds", &header, &samples, 3, |sample| sample.seconds);
    ratios(&header, &samples);
    table("CPU seconds of the daemon", &header, &samples, 3, |sample| sample.cpu_seconds);
    table("context switches of the daemon", &header, &samples, 0, |sample| sample.switches);
    Ok(())
}

fn measure(work: &Work, scale: u64, mounted: &Mounted) -> Result<Sample> {
    (work.prepare)(&mounted.dir, scale)?;
    let before = mounted.daemon_use();
    let started = Instant::now();
    (work.run)(&mounted.dir, scale).with_context(|| format!("{} failed", work.name))?;
    let seconds = started.elapsed().as_secs_f64();
    let after = mounted.daemon_use();
    Ok(Sample { seconds, cpu_seconds: after.0 - before.0, switches: after.1.saturating_sub(before.1) as f64 })
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn head(title: &str, header: &[&str]) {
    print!("\n{title:<30}");
    for name in header {
        print!("{name:>11}");
    }
    println!();
}

fn table(
    title: &str,
    header: &[&str],
    samples: &[Vec<Vec<Sample>>],
    digits: usize,
    of: impl Fn(&Sample) -> f64,
) {
    head(title, header);
    for (work, row) in WORKS.iter().zip(samples) {
        print!("{:<30}", work.name);
        for column in row {
            print!("{:>11.digits$}", median(column, &of));
        }
        println!();
    }
}

fn ratios(header: &[&str], samples: &[Vec<Vec<Sample>>]) {
    head("times native", header);
    for (work, row) in WORKS.iter().zip(samples) {
        print!("{:<30}", work.name);
        let native = median(&row[0], |sample| sample.seconds);
        for column in row {
            print!("{:>11.2}", median(column, |sample| sample.seconds) / native);
        }
        println!();
    }
}

fn compile_plain(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("passthrough_ll");
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "fuse3"]).output()?;
    let flags = String::from_utf8(flags.stdout).context("pkg-config prints text")?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-w", PLAIN_SOURCE]).args(flags.split_whitespace()).arg("-o").arg(&program);
    process::run(&mut compiler)?;
    Ok(program)
}

/// The directory that is mounted, and where: on a tmpfs of its own unless one is given.
struct Place {
    source: PathBuf,
    dir: PathBuf,
    is_ours: bool,
}

impl Place {
    fn new(folder: &Path, over: Option<PathBuf>) -> Result<Self> {
        let dir = folder.join("mounted");
        std::fs::create_dir_all(&dir)?;
        if let Some(source) = over {
            return Ok(Self { source, dir, is_ours: false });
        }
        let source = folder.join("source");
        std::fs::create_dir_all(&source)?;
        process::run(Command::new("mount").args(["-t", "tmpfs", "fonio-bench"]).arg(&source))?;
        Ok(Self { source, dir, is_ours: true })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_ours {
            // The next run mounts over it at worst.
            let _ = Command::new("umount").arg(&self.source).status();
        }
    }
}

struct Mounted {
    dir: PathBuf,
    daemon: Option<Child>,
}

impl Mounted {
    fn start(daemon: Daemon, place: &Place, plain: &Path) -> Result<Self> {
        let mut command = match daemon {
            Daemon::None => return Ok(Self { dir: place.source.clone(), daemon: None }),
            Daemon::Bindfs => {
                let mut command = Command::new("bindfs");
                command.arg("-f").arg(&place.source).arg(&place.dir);
                command
            }
            Daemon::Plain => {
                let mut command = Command::new(plain);
                let source = format!("source={}", place.source.display());
                command.args(["-f", "-s", "-o", &source]).arg(&place.dir);
                command
            }
            Daemon::Fonio(options) => {
                let mut command = Command::new(fonio());
                command.arg(&place.source).arg(&place.dir).arg(options).stdout(Stdio::piped());
                command
            }
        };
        let mut child = command.stdin(Stdio::null()).spawn()?;
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut String::new())?;
        }
        let mounted = Self { dir: place.dir.clone(), daemon: Some(child) };
        mounted.wait_until_there()?;
        Ok(mounted)
    }

    fn wait_until_there(&self) -> Result<()> {
        let needle = format!(" {} ", self.dir.display());
        for _ in 0..200 {
            if std::fs::read_to_string("/proc/self/mountinfo")?.contains(&needle) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("it did not mount within two seconds")
    }

    /// CPU seconds and context switches of the daemon until now; those of threads that have ended are not in it.
    fn daemon_use(&self) -> (f64, u64) {
        let Some(daemon) = &self.daemon else { return (0.0, 0) };
        let folder = PathBuf::from(format!("/proc/{}", daemon.id()));
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        // After the name in brackets: user time is the 12th word, system time the 13th, in hundredths of a second.
        let words: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
        let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let mut switches = 0;
        for task in std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            switches += lines.filter_map(|line| line.split('\t').nth(1)?.parse::<u64>().ok()).sum::<u64>();
        }
        ((ticks(11) + ticks(12)) / 100.0, switches)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // A daemon of any kind ends when its mount goes.
            let _ = Command::new("umount").arg(&self.dir).status();
            let _ = daemon.wait();
        }
    }
}

fn fonio() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| process::root().join("target")).join("release/examples/mount")
}
