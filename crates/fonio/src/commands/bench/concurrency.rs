//! Implements `fonio bench concurrency`, which measures how many concurrent requests give the full
//! throughput, and derives settings from this number.

use std::io::{self, Write};
use std::path::Path;
use std::slice;

use anyhow::{Context, Result, bail, ensure};
use fonio_bench::concurrency::RANGE_MIN;
use fonio_bench::concurrency::limits::{Disk, Lifted, known, short_queue};
use fonio_bench::place::Place;
use fonio_bench::plan::Set;
use fonio_bench::result::{Benchmark, Parameter, TestResult};
use fonio_bench::verdict;
use fonio_core::ByteCount;
use fonio_host::{Applied, SMARTIO, Setting, has_scheduler, how_to_get};
use fonio_system::say;
use serde::Serialize;

use crate::cli::{Bench, Colour, Measurement};
use crate::commands::bench_target::{self, Subject};
use crate::commands::{bench, fix, lab};
use crate::exit::Exit;
use crate::{output, signals};

const HEED_CLASSES: [&str; 2] = ["bfq", "mq-deadline"];

/// The measurement and the applied setting, as JSON output.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    benchmark: &'a Benchmark,
    /// The setting changed by `--apply`; `old` and `new` are equal if the setting already had this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
}

/// Measures a device, prints the parameters and, with `apply`, applies them.
pub fn run(measurement: &Measurement, apply: bool, colour: Colour) -> Result<Exit> {
    let Measurement { bench, out } = measurement;
    ensure!(
        bench.range >= RANGE_MIN,
        "up to 32 processes share the range of --range; give at least {}",
        ByteCount(RANGE_MIN).to_exact_text()
    );
    let disk = if apply { Some(disk_to_change(bench)?) } else { None };
    if let Some(kernel) = &bench.emulated.guest {
        return lab::run_bench(kernel, &bench.target, out.as_ref().map_or(&[], slice::from_ref));
    }
    if bench_target::is_real(&bench.target) {
        refuse_memory(&bench.target)?;
    }
    let lifted = if bench.dry_run { None } else { lift(&bench.target)? };
    let measured = bench::measure(bench, &[Set::ConcurrencyParameters], out.as_deref());
    let warning = if bench_target::is_real(&bench.target) { short_queue(&bench.target) } else { None };
    if let Some(lifted) = lifted {
        lifted.restore()?;
    }
    let Some(mut benchmark) = measured? else {
        if let Some(disk) = disk.filter(|_| !bench.json) {
            writeln!(output::screen(), "Then --apply would set {}.", disk.subject())?;
        }
        return Ok(Exit::Fine);
    };
    benchmark.warnings.extend(warning);
    let found = known(&benchmark.concurrency);
    let change = disk.as_ref().zip(found.ok()).map(|(disk, found)| (disk, disk.setting(found)));
    let mut out = output::screen();
    if bench.json {
        let applied = change.map(|(disk, setting)| apply_unless_shorter(disk, &setting)).transpose()?;
        output::json(&Document { benchmark: &benchmark, applied })?;
    } else {
        bench::show(&benchmark, output::wants_colour(colour), &mut out)?;
        // Print the figures before applying the setting, because applying it can fail.
        out.flush()?;
        match change {
            Some((disk, setting)) => say(disk, &setting, &apply_unless_shorter(disk, &setting)?, &mut out)?,
            None if disk.is_none() && bench_target::is_real(&bench.target) => writeln!(
                out,
                "Next: run the same command with --apply as root; it measures again and limits the device's \
                 queue to the result."
            )?,
            _ => {}
        }
    }
    out.flush()?;
    if let (Some(_), Err(why)) = (disk, found) {
        say!("fonio: no setting was changed: {why}; repeat with more time (--for)");
        return Ok(Exit::NotValid);
    }
    Ok(Exit::Fine)
}

/// Rejects a folder in memory, because its I/O reaches no device.
fn refuse_memory(target: &Path) -> Result<()> {
    let place = Place::of(target);
    match place.file_system.as_deref() {
        Some(kind @ ("tmpfs" | "ramfs")) => bail!(
            "{} is in memory ({kind}), so it has no device to measure; name a folder on the device, or the device",
            target.display()
        ),
        _ => Ok(()),
    }
}

/// Returns the disk to change. Checks before the measurement that the setting can be applied.
fn disk_to_change(bench: &Bench) -> Result<Disk> {
    let target = &bench.target;
    ensure!(
        bench.emulated.guest.is_none() && matches!(Subject::of(target, &bench.emulated)?, Subject::Real(_)),
        "{} is an emulated device, which is gone after the benchmark; leave out --apply, or name a device of this machine",
        target.display()
    );
    ensure!(
        !bench.quick && bench.runs.is_none_or(|runs| runs > 1),
        "--apply needs at least two runs to see how much they vary; leave out --quick, or give --runs 2 or more"
    );
    ensure!(bench.dry_run || rustix::process::geteuid().is_root(), fix::hint());
    Disk::of(target).context("--apply changes the queue of a disk: name a device, or a folder on one")
}

/// Raises the queue's limits for the measurement. Without root privileges, warns that the limits remain.
fn lift(target: &Path) -> Result<Option<Lifted>> {
    if !bench_target::is_real(target) {
        return Ok(None);
    }
    let Ok(disk) = Disk::of(target) else { return Ok(None) };
    let is_root = rustix::process::geteuid().is_root();
    let limits = disk.lifting(is_root)?;
    if !is_root {
        if !limits.is_empty() {
            say!(
                "warning: the concurrency parameters of {} stay in effect during the measurement; \
                 run the measurement with sudo to lift these parameters",
                disk.node()
            );
        }
        return Ok(None);
    }
    // From now on, Ctrl-C ends the process only after the limits are restored.
    signals::begin()?;
    Ok(Lifted::lift(&disk, &limits, &mut |note| say!("{note}"))?)
}

fn apply_unless_shorter(disk: &Disk, setting: &Setting) -> Result<Applied> {
    match disk.is_shorter_than(setting)? {
        Some(shorter) => Ok(shorter),
        None => fix::apply_now(setting, Path::new(&disk.node())),
    }
}

/// Prints the applied setting, and other settings that can be applied on this machine.
fn say(disk: &Disk, fix: &Setting, applied: &Applied, out: &mut impl Write) -> Result<()> {
    let Applied { target, old, new } = applied;
    let node = disk.node();
    if old == new {
        writeln!(out, "\nLeft {target} unchanged: {old}.")?;
    } else {
        writeln!(out, "\nSet {target}: {old} -> {new}")?;
        writeln!(
            out,
            "The change lasts until the next boot; `fonio fix apply {fix} {node} --keep` makes it \
            permanent."
        )?;
    }
    if !disk.is_smartio() {
        writeln!(
            out,
            "The scheduler {} has no separate limits for reads and writes; {new} requests are enough for \
             both together.",
            disk.scheduler
        )?;
        if HEED_CLASSES.contains(&disk.scheduler.as_str()) {
            writeln!(
                out,
                "To make background writers wait for other programs: `fonio fix apply io-class=idle UNIT`, \
                 or `ionice -c idle`."
            )?;
        } else if let Some(name) = HEED_CLASSES.into_iter().find(|name| has_scheduler(name)) {
            writeln!(
                out,
                "To make background writers wait for other programs: `fonio fix apply {name} {node}`, then \
                 `fonio fix apply io-class=idle UNIT`."
            )?;
        }
        match how_to_get(SMARTIO).filter(|_| !has_scheduler(SMARTIO)) {
            Some(how) => writeln!(out, "The scheduler smartio has a limit for each kind of request; {how}.")?,
            None => writeln!(
                out,
                "The scheduler smartio has a limit for each kind of request: `fonio fix apply smartio \
                 {node}`, then measure again with --apply."
            )?,
        }
    }
    if old != new {
        writeln!(out, "Next: `fonio fix undo {}` restores the former value.", fix.fix().name)?;
    }
    Ok(())
}

/// Prints the throughput for each number of concurrent requests, and the concurrency parameters.
pub fn table(benchmark: &Benchmark, dim: &str, plain: &str, out: &mut impl Write) -> io::Result<()> {
    let tests: Vec<&TestResult> = benchmark.of(Set::ConcurrencyParameters).collect();
    let mut numbers: Vec<u32> = tests.iter().map(|result| result.test.processes).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let parameters = &benchmark.concurrency;
    let heading: String = parameters.iter().map(|found| format!("{:>15}", found.access.name())).collect();
    writeln!(out, "{dim}{:<10}{heading}{plain}", "at once")?;
    for number in numbers {
        let cell = |found: &Parameter| {
            let of_cell =
                |result: &&&TestResult| result.test.access == found.access && result.test.processes == number;
            let rate = tests
                .iter()
                .find(of_cell)
                .map_or_else(|| "-".to_owned(), |result| verdict::rate(result.mb_s));
            let mark = if found.requests == number { '*' } else { ' ' };
            format!("{rate:>14}{mark}")
        };
        let row: String = parameters.iter().map(cell).collect();
        writeln!(out, "{}", format!("{number:<10}{row}").trim_end())?;
    }
    let runs = tests.iter().map(|result| result.runs.len()).min().unwrap_or(0);
    writeln!(
        out,
        "* enough: no other number was significantly more than 2 % faster ({runs} {}).\n",
        if runs == 1 { "round" } else { "rounds" }
    )?;
    writeln!(
        out,
        "{dim}{:<12}{:>8} {:>16} {:>24}{plain}",
        "kind", "enough", "95 % interval", "times the throughput of one"
    )?;
    for found in parameters {
        let Parameter { access, requests, requests_high, measured_max, speedup, .. } = found;
        let interval = match requests_high {
            Some(high) if high == measured_max && requests == high => format!("{high} or more"),
            Some(high) if high == measured_max => format!("{requests} to {high} or more"),
            Some(high) => format!("{requests} to {high}"),
            None => "-".to_owned(),
        };
        writeln!(out, "{:<12}{requests:>8} {interval:>16} {speedup:>24.2}", access.name())?;
    }
    Ok(())
}
