//! `fonio bench concurrency`: how many requests at once are enough, and the settings that follow from it.

use std::io::{self, Write};
use std::path::Path;
use std::slice;

use anyhow::{Context, Result, bail, ensure};
use fonio_bench::concurrency::{AT_ONCE, RANGE_MIN};
use fonio_bench::place::Place;
use fonio_bench::plan::Set;
use fonio_bench::result::{Benchmark, Parameter, TestResult};
use fonio_bench::verdict;
use fonio_core::{Access, ByteCount};
use fonio_host::{
    Applied, Concurrency, Ledger, OnlyChanger, Queue, SMARTIO, Setting, Settings, Target, borrow_setting,
    has_scheduler, how_to_get,
};
use fonio_system::say;
use serde::Serialize;

use crate::cli::{Bench, Colour, Measurement};
use crate::commands::bench_target::{self, Subject};
use crate::commands::{bench, fix, lab, run};
use crate::exit::Exit;
use crate::output;

/// The least number of requests of a queue (`BLKDEV_MIN_RQ` of the kernel's `include/linux/blkdev.h`).
const QUEUE_MIN: u32 = 4;

/// Schedulers that heed I/O classes.
const HEED_CLASSES: [&str; 2] = ["bfq", "mq-deadline"];

/// The measurement and what was set, for `--json`.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    benchmark: &'a Benchmark,
    /// The setting, if it was to be changed; `old` and `new` are equal if it had the value already.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
}

/// Measures, prints the parameters, and with `apply` sets what follows from them.
pub fn run(measurement: &Measurement, apply: bool, colour: Colour) -> Result<Exit> {
    let Measurement { bench, out } = measurement;
    ensure!(
        bench.range >= RANGE_MIN,
        "--range is the range that up to 32 processes share: write at least {}",
        ByteCount(RANGE_MIN).to_exact_text()
    );
    let disk = if apply { Some(Disk::to_change(bench)?) } else { None };
    if let Some(kernel) = &bench.emulated.guest {
        return lab::run_bench(kernel, &bench.target, out.as_ref().map_or(&[], slice::from_ref));
    }
    if bench_target::is_real(&bench.target) {
        refuse_memory(&bench.target)?;
    }
    let lifted = if bench.dry_run { None } else { Lifted::of(&bench.target)? };
    let measured = bench::measure(bench, &[Set::ConcurrencyParameters], out.as_deref());
    let warning = if bench_target::is_real(&bench.target) { short_queue(&bench.target) } else { None };
    if let Some(lifted) = lifted {
        lifted.restore()?;
    }
    let Some(mut benchmark) = measured? else {
        if let Some(disk) = disk.filter(|_| !bench.json) {
            writeln!(output::screen(), "Then it would set {}.", disk.subject())?;
        }
        return Ok(Exit::Fine);
    };
    benchmark.warnings.extend(warning);
    let found = found(&benchmark.concurrency);
    let change = match (&disk, &found) {
        (Some(disk), Ok(found)) => Some(disk.change(*found)?),
        _ => None,
    };
    let mut out = output::screen_unless(bench.json);
    if bench.json {
        let applied = change.as_ref().map(Change::apply).transpose()?;
        serde_json::to_writer_pretty(&mut out, &Document { benchmark: &benchmark, applied })?;
        writeln!(out)?;
    } else {
        bench::show(&benchmark, output::wants_colour(colour), &mut out)?;
        // The figures are printed even if the setting fails.
        out.flush()?;
        match (&disk, change) {
            (Some(disk), Some(change)) => {
                let applied = change.apply()?;
                say(disk, &change, &applied, &mut out)?;
            }
            (None, _) if bench_target::is_real(&bench.target) => writeln!(
                out,
                "Next: the same command with --apply, as root, measures again and limits the device's queue to the result."
            )?,
            _ => {}
        }
    }
    out.flush()?;
    if let (Some(_), Err(why)) = (disk, found) {
        say!("fonio: nothing was set: {why}; repeat with more time (--for)");
        return Ok(Exit::NotValid);
    }
    Ok(Exit::Fine)
}

/// Limits of the queue that are lifted while the device is measured: a measurement under the limits that an earlier one set
/// would find these limits. Dropped, it restores them; after `kill -9`, the next command of fonio does.
struct Lifted {
    ledger: Ledger,
    _locks: Vec<OnlyChanger>,
}

impl Lifted {
    /// Lifts the concurrency parameters of smartio, and the number of requests if `fonio fix` has changed it. Without root, says
    /// that they hold. `None` if there is nothing to lift.
    fn of(target: &Path) -> Result<Option<Lifted>> {
        if !bench_target::is_real(target) {
            return Ok(None);
        }
        let Ok(Disk { name, scheduler }) = Disk::of(target) else { return Ok(None) };
        let node = format!("/dev/{name}");
        let is_root = rustix::process::geteuid().is_root();
        let mut limits = Vec::new();
        if scheduler == SMARTIO {
            limits.push(concurrency(Concurrency::UNLIMITED));
        }
        if is_root {
            let of_queue = Setting::requests(QUEUE_MIN);
            let is_own = |target: &Target| of_queue.is_of(target) && target.disk() == Some(&name);
            let record = Settings::on_record(&Ledger::default_dir())?;
            let before = record.iter().find(|applied| is_own(&applied.target));
            limits.extend(before.and_then(|applied| applied.old.parse().ok()).map(Setting::requests));
        }
        if !is_root {
            if !limits.is_empty() {
                say!(
                    "warning: the concurrency parameters of {node} hold during the measurement; run it with sudo, which lifts them"
                );
            }
            return Ok(None);
        }
        // From now on, Ctrl-C does not end the process before the limits are restored.
        run::begin()?;
        let mut lifted = None;
        for limit in &limits {
            let planned = limit.plan_or_current(Path::new(&node))?;
            if planned.old == planned.new {
                continue;
            }
            let lifted = match &mut lifted {
                Some(lifted) => lifted,
                none => {
                    none.insert(Lifted { ledger: Ledger::open(&Ledger::default_dir())?, _locks: Vec::new() })
                }
            };
            let (_, lock) = borrow_setting(limit, Path::new(&node), &mut lifted.ledger)?;
            lifted._locks.push(lock);
            say!("Lifted {} for the measurement: {} -> {}", planned.target, planned.old, planned.new);
        }
        Ok(lifted)
    }

    fn restore(self) -> Result<()> {
        Ok(self.ledger.close()?)
    }
}

/// A warning if the queue takes fewer requests than the measurement makes.
fn short_queue(target: &Path) -> Option<String> {
    let planned = Setting::requests(QUEUE_MIN).plan_or_current(target).ok()?;
    let number: u32 = planned.old.parse().ok()?;
    let most = AT_ONCE.last().copied().filter(|most| number < *most)?;
    Some(format!(
        "The queue of {} takes {number} requests (nr_requests), so with up to {most} at once some waited in the kernel.",
        planned.target.path().display()
    ))
}

/// Refuses a folder in memory: what is measured there are not requests of a device.
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

/// The disk to change.
struct Disk {
    /// Its name in `/sys/block`.
    name: String,
    /// Its scheduler.
    scheduler: String,
}

impl Disk {
    /// Checks, before anything is measured, that the result can be applied.
    fn to_change(bench: &Bench) -> Result<Disk> {
        let target = &bench.target;
        ensure!(
            bench.emulated.guest.is_none()
                && matches!(Subject::of(target, &bench.emulated)?, Subject::Real(_)),
            "{} is an emulated device, which is gone after the benchmark; leave out --apply, or name a device of this machine",
            target.display()
        );
        ensure!(
            !bench.quick && bench.runs.is_none_or(|runs| runs > 1),
            "--apply needs to know how much the runs differ; leave out --quick, and let --runs be 2 or more"
        );
        ensure!(bench.dry_run || rustix::process::geteuid().is_root(), fix::hint());
        Disk::of(target).context("--apply changes the queue of a disk: name a device, or a folder on one")
    }

    /// The disk that `target` is, or that holds it.
    fn of(target: &Path) -> Result<Disk> {
        let probe = Setting::requests(QUEUE_MIN).plan_or_current(target)?;
        let name = probe.target.disk().context("the number of requests is a disk's")?.to_owned();
        let (scheduler, _) = Queue::of(&name).schedulers()?;
        Ok(Disk { name, scheduler })
    }

    fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    fn is_smartio(&self) -> bool {
        self.scheduler == SMARTIO
    }

    /// What is set.
    fn subject(&self) -> String {
        let (node, scheduler) = (self.node(), &self.scheduler);
        if self.is_smartio() {
            format!("the concurrency parameters of {node}")
        } else {
            format!(
                "the number of requests of {node}, because its scheduler {scheduler} has no concurrency parameters"
            )
        }
    }

    /// What to set.
    fn change(&self, found: Concurrency) -> Result<Change> {
        let path = self.node();
        if self.is_smartio() {
            return Ok(Change { setting: concurrency(found), path });
        }
        // Reads and writes share the queue.
        let Concurrency { seq_read, rand_read, seq_write, rand_write } = found;
        let number = (seq_read.max(rand_read) + seq_write.max(rand_write)).max(QUEUE_MIN);
        Ok(Change { setting: Setting::requests(number), path })
    }
}

/// The concurrency parameters as a setting.
fn concurrency(numbers: Concurrency) -> Setting {
    Setting::parse(&format!("concurrency={numbers}")).expect("the scheduler takes these numbers")
}

/// A setting, and the device that gets it.
struct Change {
    setting: Setting,
    path: String,
}

impl Change {
    /// Applies it, unless the queue is shorter already.
    fn apply(&self) -> Result<Applied> {
        let planned = self.setting.plan_or_current(Path::new(&self.path))?;
        let is_shorter = |old: &str, new: &str| Some(old.parse::<u32>().ok()? < new.parse::<u32>().ok()?);
        if self.setting.scheduler().is_none() && is_shorter(&planned.old, &planned.new) == Some(true) {
            return Ok(Applied { new: planned.old.clone(), ..planned });
        }
        fix::apply_now(&self.setting, Path::new(&self.path))
    }
}

/// The parameters of all four kinds, or why they are not known well enough to be set.
fn found(parameters: &[Parameter]) -> Result<Concurrency, &'static str> {
    let of = |access: Access| -> Result<u32, &'static str> {
        let found = parameters.iter().find(|found| found.access == access);
        let found = found.ok_or("a kind of I/O was not measured")?;
        found.requests_high.ok_or("each test ran only once, so it is not known how much the runs differ")?;
        Ok(found.requests)
    };
    Ok(Concurrency {
        seq_read: of(Access::SeqRead)?,
        rand_read: of(Access::RandRead)?,
        seq_write: of(Access::SeqWrite)?,
        rand_write: of(Access::RandWrite)?,
    })
}

/// Says what was set, and what else can be done on this machine.
fn say(disk: &Disk, change: &Change, applied: &Applied, out: &mut impl Write) -> Result<()> {
    let Applied { target, old, new } = applied;
    let (node, fix) = (disk.node(), &change.setting);
    if old == new {
        writeln!(out, "\nLeft {target} unchanged: {old}.")?;
    } else {
        writeln!(out, "\nSet {target}: {old} -> {new}")?;
        writeln!(out, "It lasts until the next boot; `fonio fix apply {fix} {node} --keep` keeps it.")?;
    }
    if !disk.is_smartio() {
        writeln!(
            out,
            "Its scheduler {} has no limit for each kind; {new} requests are enough for the reads and the writes together.",
            disk.scheduler
        )?;
        if HEED_CLASSES.contains(&disk.scheduler.as_str()) {
            writeln!(
                out,
                "Programs that write in the background can wait for others: `fonio fix apply io-class=idle UNIT`, or `ionice -c idle`."
            )?;
        } else if let Some(name) = HEED_CLASSES.into_iter().find(|name| has_scheduler(name)) {
            writeln!(
                out,
                "With `fonio fix apply {name} {node}`, programs that write in the background can wait for others: `fonio fix apply io-class=idle UNIT`."
            )?;
        }
        match how_to_get(SMARTIO).filter(|_| !has_scheduler(SMARTIO)) {
            Some(how) => writeln!(out, "The scheduler smartio has a limit for each kind; {how}.")?,
            None => writeln!(
                out,
                "The scheduler smartio has a limit for each kind: `fonio fix apply smartio {node}`, then measure again with --apply."
            )?,
        }
    }
    if old != new {
        writeln!(out, "Next: `fonio fix undo {}` takes it back.", fix.fix().name)?;
    }
    Ok(())
}

/// Prints the throughput by number of requests at once, and the parameters.
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
        "* enough: no other number was shown to give over 2 % more ({runs} {}).\n",
        if runs == 1 { "round" } else { "rounds" }
    )?;
    writeln!(
        out,
        "{dim}{:<12}{:>8} {:>16} {:>24}{plain}",
        "kind", "enough", "95 % interval", "times one at a time"
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
