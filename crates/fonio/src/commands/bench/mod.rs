//! Implements `fonio bench`.

mod concurrency;
mod layers;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::slice;

use anyhow::{Context, Result};
use fonio_bench::concurrency::AT_ONCE_QUICK;
use fonio_bench::fio::Fio;
use fonio_bench::plan::{self, Scope, Set, Test, Volume};
use fonio_bench::result::{Benchmark, TestResult};
use fonio_bench::run::{Effort, run as run_plan};
use fonio_bench::target::{Target, room_bytes};
use fonio_bench::verdict;
use fonio_core::{ByteCount, printable};
use fonio_system::{private, say};

use crate::cli::{Bench, BenchWhat, Colour, Measurement};
use crate::commands::bench_target::{self, Subject};
use crate::commands::lab;
use crate::exit::Exit;
use crate::output;
use crate::progress::{Done, Progress};
use crate::signals::{self, begin};

/// Announces the planned writes, measures a device, and prints the verdict.
pub fn run(what: &BenchWhat, colour: Colour) -> Result<Exit> {
    let (Measurement { bench, out }, sets) = match what {
        BenchWhat::Device { measurement, sets } => (measurement, sets.clone()),
        BenchWhat::AddressRange(measurement) => (measurement, vec![Set::AddressRange]),
        BenchWhat::Concurrency { measurement, apply } => {
            return concurrency::run(measurement, *apply, colour);
        }
        BenchWhat::Interference(measurement) => (measurement, vec![Set::Interference]),
        BenchWhat::Layers(layers) => return layers::run(layers, colour),
    };
    if let Some(kernel) = &bench.emulated.guest {
        return lab::run_bench(kernel, &bench.target, out.as_ref().map_or(&[], slice::from_ref));
    }
    let Some(benchmark) = measure(bench, &sets, out.as_deref())? else { return Ok(Exit::Fine) };
    if bench.json {
        return output::json(&benchmark);
    }
    let mut out = output::screen();
    show(&benchmark, output::wants_colour(colour), &mut out)?;
    out.flush()?;
    Ok(Exit::Fine)
}

/// Measures a device, and writes the result to `out`; returns `None` after `--dry-run`.
pub fn measure(bench: &Bench, sets: &[Set], out: Option<&Path>) -> Result<Option<Benchmark>> {
    let subject = Subject::of(&bench.target, &bench.emulated)?;
    let room = match subject {
        Subject::Real(path) => room_bytes(path)?,
        Subject::Profile(_) => bench.emulated.size,
    };
    let tests = tests(bench, sets, room);
    let effort = effort(bench, sets);
    let volume = plan::volume(&tests, effort.runs_min, effort.runs_max);
    if bench.dry_run {
        if bench.json {
            output::json(&volume)?;
        } else {
            writeln!(output::screen(), "{}", announcement(bench, &tests, &volume, &effort))?;
        }
        return Ok(None);
    }
    let fio = Fio::find()?;
    let (stop, emulated) = match subject {
        Subject::Real(_) => (signals::watch()?, None),
        Subject::Profile(profile) => {
            (begin()?, Some(bench_target::start(profile, &bench.emulated, bench.seed, None)?))
        }
    };
    let target = match &emulated {
        None => Target::open(&bench.target, bench.erase.as_deref())?,
        Some(emulated) => {
            let node = bench_target::node(emulated)?;
            Target::open(&node, Some(&node))?
        }
    };
    say!("{}", announcement(bench, &tests, &volume, &effort));
    let progress = Progress::phase("Preparing");
    progress.ends_within(effort.time_max);
    let benchmark = run_plan(&fio, &target, &tests, &effort, &stop, |name, number| {
        let at = tests.iter().position(|test| test.name == name).map_or(0, |at| at + 1);
        let phase = format!("[{at}/{}] {name}, run {number} of at most {}", tests.len(), effort.runs_max);
        progress.set(phase, Done::Unknown);
    });
    drop(progress);
    let mut benchmark = benchmark?;
    drop(target);
    if let Some(emulated) = emulated {
        emulated.stop()?;
        if let Some(place) = &mut benchmark.place {
            place.model = Some(format!("{}, emulated", bench.target.display()));
        }
    }
    if let Some(path) = out {
        save(&benchmark, path)?;
    }
    Ok(Some(benchmark))
}

/// The numbers of concurrent processes that `--quick` measures.
const QUICK_CONCURRENCY: [u32; 2] = [1, 4];

fn tests(bench: &Bench, sets: &[Set], room: u64) -> Vec<Test> {
    let scope = Scope {
        sets: sets.to_vec(),
        size: ByteCount(bench.range),
        range_max: ByteCount(bench.range_max.min(room)),
        sustained: ByteCount(bench.sustained.min(room / 2)),
        room: ByteCount(room),
    };
    let mut tests = plan::tests(&scope);
    if bench.quick {
        tests.retain(|test| match test.set {
            Set::Concurrency => QUICK_CONCURRENCY.contains(&test.processes),
            Set::ConcurrencyParameters => AT_ONCE_QUICK.contains(&test.processes),
            _ => true,
        });
    }
    tests
}

fn effort(bench: &Bench, sets: &[Set]) -> Effort {
    let mut effort = match (sets, bench.quick) {
        ([Set::ConcurrencyParameters], false) => Effort::ROUNDS,
        ([Set::ConcurrencyParameters], true) => Effort::QUICK_ROUND,
        (_, false) => Effort::FULL,
        (_, true) => Effort::QUICK,
    };
    effort.seed = bench.seed;
    if let Some(runs) = bench.runs {
        effort.runs_max = runs;
        effort.runs_min = effort.runs_min.min(runs);
    }
    effort.run_time_max = bench.run_time.unwrap_or(effort.run_time_max);
    effort.time_max = bench.time.unwrap_or(effort.time_max);
    effort
}

fn announcement(bench: &Bench, tests: &[Test], volume: &Volume, effort: &Effort) -> String {
    let bytes = |count| output::bytes(ByteCount(count));
    format!(
        "{} tests on {}: they write {} to {} within its first {}; no run starts after {} min.",
        tests.len(),
        bench.target.display(),
        bytes(volume.writes_min_bytes),
        bytes(volume.writes_max_bytes),
        bytes(volume.extent_bytes),
        effort.time_max.as_secs().div_ceil(60)
    )
}

fn save(benchmark: &Benchmark, path: &Path) -> Result<()> {
    let file = private::create_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, benchmark)?;
    writeln!(file).and_then(|()| file.flush()).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints the verdict of a benchmark, its tests, and the environment in which they ran.
pub fn show(benchmark: &Benchmark, colour: bool, out: &mut impl Write) -> io::Result<()> {
    let (bold, dim, plain) = if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    writeln!(out, "{bold}{}{plain}\n", benchmark.verdict)?;
    if benchmark.concurrency.is_empty() {
        tests_table(benchmark, dim, plain, out)?;
    } else {
        concurrency::table(benchmark, dim, plain, out)?;
    }
    speedups(benchmark, out)?;
    slowdowns(benchmark, out)?;
    let classes = verdict::classes(benchmark);
    if benchmark.find(Set::Four, fonio_core::Access::SeqWrite).is_some() {
        let reached = if classes.is_empty() { "none".to_owned() } else { classes.join(", ") };
        writeln!(out, "\nSD classes with lower or equal figures (the standard's tests differ): {reached}")?;
    }
    if let Some(place) = &benchmark.place {
        let mut parts = vec![format!("kernel {}", place.kernel)];
        parts.extend(place.device.clone());
        parts.extend(place.model.clone());
        parts.extend(place.file_system.clone());
        parts.extend(place.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
        let by = |what: &str, by: &Option<String>, none: &str| {
            by.as_ref().map_or_else(|| none.to_owned(), |by| format!("{what} {by}"))
        };
        parts.push(by("compression", &place.compression, "no compression"));
        parts.push(by("encryption", &place.encryption, "no encryption seen"));
        parts.push(format!("{} free", output::bytes(ByteCount(place.free_bytes))));
        let Benchmark { tool, seed, .. } = benchmark;
        let parts = parts.join(", ");
        writeln!(out, "{dim}{tool}, {}; direct I/O, seed {seed}{plain}", printable(&parts))?;
    }
    writeln!(out, "{dim}{} written{plain}", output::bytes(ByteCount(benchmark.written_bytes)))?;
    for warning in &benchmark.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

fn tests_table(benchmark: &Benchmark, dim: &str, plain: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{dim}{:<30} {:>12} {:>8} {:>9}  {:>9} {:>9}  runs{plain}",
        "test", "mean", "± σ", "IOPS", "p50 ms", "p99 ms"
    )?;
    for result in &benchmark.tests {
        let spread = if result.runs.len() > 1 {
            format!("{:.1} %", 100.0 * result.sigma_mb_s / result.mb_s)
        } else {
            "-".to_owned()
        };
        let (p50, p99) = match result.percentiles_ms() {
            Some((p50, p99)) => (format!("{p50:.3}"), format!("{p99:.3}")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        writeln!(
            out,
            "{:<30} {:>12} {spread:>8} {:>9.1}  {p50:>9} {p99:>9}  {}{}",
            result.test.name,
            verdict::rate(result.mb_s),
            result.iops,
            result.runs.len(),
            if result.stable || result.runs.len() == 1 { "" } else { ", not stable" }
        )?;
    }
    Ok(())
}

/// Prints the speedup of n concurrent processes over n processes that run one after another (Nguyen et al.,
/// section 4.5).
fn speedups(benchmark: &Benchmark, out: &mut impl Write) -> io::Result<()> {
    let tests: Vec<&TestResult> = benchmark.of(Set::Concurrency).collect();
    let alone = |result: &TestResult| {
        tests
            .iter()
            .find(|one| one.test.access == result.test.access && one.test.processes == 1)
            .map(|one| one.mb_s)
    };
    for access in fonio_core::Access::ALL {
        let parts: Vec<String> = tests
            .iter()
            .filter(|result| result.test.access == access && result.test.processes > 1)
            .filter_map(|result| {
                Some(format!("{:.2} by {}", result.mb_s / alone(result)?, result.test.processes))
            })
            .collect();
        if !parts.is_empty() {
            writeln!(out, "Speedup of {} processes: {}", access.name(), parts.join(", "))?;
        }
    }
    Ok(())
}

/// Prints the response time of each operation while the other operation runs, relative to its response time
/// alone.
fn slowdowns(benchmark: &Benchmark, out: &mut impl Write) -> io::Result<()> {
    if benchmark.slowdowns.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:<44} {:>10} {:>10} {:>10}  runs", "slowdown", "alone ms", "during ms", "ratio")?;
    for found in &benchmark.slowdowns {
        let what =
            format!("{} during {}, {} of each", found.access.name(), found.beside.name(), found.processes);
        let range = match (found.slowdown_min, found.slowdown_max) {
            (Some(min), Some(max)) => format!("{min:.2} to {max:.2}"),
            _ => "-".to_owned(),
        };
        writeln!(
            out,
            "{what:<44} {:>10.3} {:>10.3} {:>10.2}  {range}",
            found.alone_ms, found.beside_ms, found.slowdown
        )?;
    }
    Ok(())
}
