//! Launches the forty apps of Nguyen et al. 2015, section 7.4, cold and warm, and measures processor time
//! during the launches.
//!
//! The apps are the workload `fortyapps`: real files in a folder of the measured directory. Before each
//! repetition, the files are recreated, written back and dropped from the page cache.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fonio_core::Unit;
use fonio_core::statistics::sample::{is_known, median};
use fonio_storebench_document::document::Launch;
use fonio_storebench_document::figures::Part;
use fonio_storebench_document::values;
use fonio_workload::definition::Workload;
use fonio_workload::http::Server;
use fonio_workload::{Mark, Observer, Options, Places, Progress, Runner, WorkloadError};
use rustix::time::{ClockId, clock_gettime};

use super::parts::{NO_TIME, PartResult};
use crate::error::BenchError;

/// The folder that contains the apps' files. The folder is locked while in use, so an unlocked folder is left
/// over from a killed run.
#[derive(Debug)]
pub(super) struct AppsFolder {
    path: PathBuf,
    _held: File,
}

impl AppsFolder {
    /// Creates the folder of the apps' files.
    pub fn make(path: PathBuf) -> io::Result<AppsFolder> {
        fs::create_dir(&path)?;
        let held = File::open(&path)?;
        held.try_lock().map_err(io::Error::from)?;
        Ok(AppsFolder { path, _held: held })
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)?.flatten() {
            fs::remove_dir_all(entry.path())?;
        }
        Ok(())
    }
}

impl Drop for AppsFolder {
    fn drop(&mut self) {
        // If the removal fails, the next benchmark in this directory removes the folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(super) struct Launching<'a> {
    pub folder: AppsFolder,
    pub runs_max: u32,
    pub scale: f64,
    pub seed: u64,
    pub until: Instant,
    pub stop: &'a AtomicBool,
}

const CACHES: [&str; 2] = ["cold", "warm"];

pub(super) fn measure(
    launching: &Launching<'_>,
    progress: &mut dyn FnMut(&str, u32),
) -> Result<PartResult, BenchError> {
    let workload = Workload::load("fortyapps").map_err(launch_error)?;
    let local = ([127, 0, 0, 1], 0).into();
    let server = Server::start(local).map_err(BenchError::system("listen for", "the apps"))?;
    let mut result = PartResult::not_measured(Part::Launch, NO_TIME);
    let mut repetitions = Vec::new();
    let mut dropped = true;
    for number in 0..launching.runs_max {
        progress("launching the apps", number + 1);
        launching.folder.clear().map_err(BenchError::system("empty", &launching.folder.path))?;
        let seed = launching.seed + u64::from(number);
        let options =
            Options { scale: launching.scale, seed, http: Some(server.address()), ..Options::default() };
        let mut runner =
            Runner::new(&workload, &Places::under(&launching.folder.path), options).map_err(launch_error)?;
        let mut spans = Spans {
            end: runner.stop_flag(),
            stop: launching.stop,
            until: launching.until,
            spans: Vec::new(),
        };
        let amounts = match runner.prepare(&mut spans) {
            Err(WorkloadError::Stopped) if !launching.stop.load(Ordering::Relaxed) => break,
            prepared => prepared.map_err(launch_error)?,
        };
        result.written_bytes += amounts.file_bytes_written;
        dropped &= drop_caches(&launching.folder.path, &mut result.notes);
        let (before, own_before) = (Ticks::read(), own_ticks());
        let outcome = match runner.run(&mut spans) {
            Err(WorkloadError::Stopped) if !launching.stop.load(Ordering::Relaxed) => break,
            ran => ran.map_err(launch_error)?,
        };
        result.written_bytes += outcome.amounts.file_bytes_written;
        let ticks = before.zip(Ticks::read()).map(|(before, after)| after.since(before));
        note_others(ticks, own_ticks() - own_before, &mut result.notes);
        repetitions.push(Repetition::of(&spans.spans, ticks));
        let totals: Vec<f64> = repetitions.iter().map(|repetition| repetition.total(0)).collect();
        let remains = launching.until.saturating_duration_since(Instant::now()).as_secs_f64();
        let took = totals.iter().sum::<f64>() / totals.len() as f64;
        if remains < 2.0 * took || (number > 1 && is_known(&totals, values::ERROR_MAX)) {
            break;
        }
    }
    result.caches_dropped = Some(dropped);
    if repetitions.is_empty() {
        return Ok(result);
    }
    figures(&repetitions, &mut result);
    Ok(result)
}

fn launch_error(error: WorkloadError) -> BenchError {
    match error {
        WorkloadError::Stopped => BenchError::Interrupted,
        error => BenchError::Launch(Box::new(error)),
    }
}

fn figures(repetitions: &[Repetition], result: &mut PartResult) {
    for (at, cache) in CACHES.iter().enumerate() {
        let of = |pick: &dyn Fn(&Repetition) -> f64| -> Vec<f64> { repetitions.iter().map(pick).collect() };
        let mut put = |name: &str, values: Vec<f64>| {
            result.figures.insert(format!("launch.{cache}.{name}"), values::mean(&values, Unit::S, NO_TIME));
        };
        put("total", of(&|repetition| repetition.total(at)));
        put("worst", of(&|repetition| repetition.apps.values().map(|times| times[at]).fold(0.0, f64::max)));
    }
    const NO_TICKS: &str = "the kernel does not report processor times";
    let shares: Vec<(f64, f64)> =
        repetitions.iter().filter_map(|repetition| repetition.ticks?.shares()).collect();
    let percents = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> { shares.iter().map(pick).collect() };
    result
        .figures
        .insert("cpu.active".to_owned(), values::mean(&percents(|share| share.0), Unit::Percent, NO_TICKS));
    result
        .figures
        .insert("cpu.iowait".to_owned(), values::mean(&percents(|share| share.1), Unit::Percent, NO_TICKS));
    result.launches = repetitions[0]
        .apps
        .keys()
        .map(|app| {
            let median = |at: usize| {
                let times: Vec<f64> =
                    repetitions.iter().filter_map(|repetition| Some(repetition.apps.get(app)?[at])).collect();
                (median(&times).unwrap_or(0.0) * 1e6).round() / 1e3
            };
            Launch { app: app.clone(), cold_ms: median(0), warm_ms: median(1) }
        })
        .collect();
}

struct Repetition {
    /// Duration of the cold and of the warm launch of each app, in seconds.
    apps: BTreeMap<String, [f64; 2]>,
    ticks: Option<Ticks>,
}

impl Repetition {
    fn of(marks: &[Mark], ticks: Option<Ticks>) -> Repetition {
        let mut apps: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for mark in marks {
            let Some((cache, app)) = mark.name.split_once('-') else { continue };
            let Some(at) = CACHES.iter().position(|name| *name == cache) else { continue };
            apps.entry(app.to_owned()).or_default()[at] = (mark.end_ns - mark.start_ns) as f64 / 1e9;
        }
        Repetition { apps, ticks }
    }

    fn total(&self, at: usize) -> f64 {
        self.apps.values().map(|times| times[at]).sum()
    }
}

/// Observes a run of the launches, and stops the run when its time is over or the user interrupts it.
struct Spans<'a> {
    end: Arc<AtomicBool>,
    stop: &'a AtomicBool,
    until: Instant,
    spans: Vec<Mark>,
}

impl Observer for Spans<'_> {
    fn mark(&mut self, mark: &Mark) {
        self.spans.push(mark.clone());
    }

    fn progress(&mut self, _: &Progress) {
        if self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until {
            self.end.store(true, Ordering::Relaxed);
        }
    }
}

/// Drops the cached pages of all files below `folder`. Returns whether the kernel reports that all cached
/// pages were dropped.
fn drop_caches(folder: &Path, notes: &mut Vec<String>) -> bool {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    let mut failed = 0;
    let mut kept = 0;
    for file in &files {
        let left = fonio_host::drop_file_cache(file).and_then(|()| fonio_host::cached_bytes(file));
        match left {
            Ok(left) => kept += left.map_or(0, |bytes| bytes.0),
            Err(_) => failed += 1,
        }
    }
    let is_dropped = failed == 0 && kept <= KEPT_MAX_BYTES;
    if !is_dropped {
        let note = format!(
            "{failed} files could not be dropped from the cache, and {kept} bytes stayed in it: cold launches are too fast."
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    is_dropped
}

/// Maximum number of bytes that may stay cached. The kernel cannot drop all pages: recently read pages are in
/// per-processor batches. This number of bytes is less than half a percent of the apps' files.
const KEPT_MAX_BYTES: u64 = 1 << 20;

/// If other programs cause more than this share of the active processor time, these programs disturb the
/// launches.
const OTHERS_SHARE: f64 = 0.3;

fn note_others(all: Option<Ticks>, own: u64, notes: &mut Vec<String>) {
    let Some(all) = all else { return };
    let others = 1.0 - (own as f64 / all.active.max(1) as f64).min(1.0);
    let note = "Other programs used the processors during the launches, so launch times and iowait do not depend on the device alone. \
                Close them, and repeat.";
    if all.active > 0 && others > OTHERS_SHARE && !notes.iter().any(|known| known == note) {
        notes.push(note.to_owned());
    }
}

/// Processor time of this process in ticks of `/proc/stat`: hundredths of a second on every architecture that
/// Rust supports.
fn own_ticks() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 100 + time.tv_nsec as u64 / 10_000_000
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    active: u64,
    idle: u64,
    iowait: u64,
}

impl Ticks {
    fn read() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the line `cpu` of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Option<Ticks> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let numbers: Vec<u64> =
            line.split_whitespace().take(8).map_while(|number| number.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, _steal] = numbers[..] else { return None };
        Some(Ticks { active: user + nice + system + irq + softirq, idle, iowait })
    }

    fn since(self, before: Ticks) -> Ticks {
        Ticks {
            active: self.active.saturating_sub(before.active),
            idle: self.idle.saturating_sub(before.idle),
            // The kernel sometimes decreases the iowait counter (proc(5)).
            iowait: self.iowait.saturating_sub(before.iowait),
        }
    }

    /// Returns the active time in percent of the total time, and iowait in percent of the active time plus
    /// iowait.
    fn shares(self) -> Option<(f64, f64)> {
        let all = self.active + self.idle + self.iowait;
        let busy = self.active + self.iowait;
        let percent = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
        percent(self.active, all).zip(percent(self.iowait, busy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_divided_as_in_the_study() {
        let before = Ticks::parse("cpu  100 0 100 1000 50 0 0 5 0 0\ncpu0 1 1 1 1\n").expect("a line");
        let after = Ticks::parse("cpu  130 10 120 1100 90 0 0 5 0 0\n").expect("a line");
        let (active, iowait) = after.since(before).shares().expect("time went by");
        assert_eq!((active, iowait), (30.0, 40.0));
        assert_eq!(Ticks::parse("cpu  1 2\n"), None);
        assert_eq!(after.since(after).shares(), None);
    }

    #[test]
    fn other_programs_are_noted() {
        let all = Some(Ticks { active: 100, idle: 0, iowait: 0 });
        for (all, own, noted) in [(all, 95, 0), (all, 40, 1), (None, 0, 0)] {
            let mut notes = Vec::new();
            note_others(all, own, &mut notes);
            note_others(all, own, &mut notes);
            assert_eq!(notes.len(), noted, "{own:?}");
        }
    }

    #[test]
    fn forty_apps_are_launched_and_nothing_is_left() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let apps = folder.path().join("apps");
        let launching = Launching {
            folder: AppsFolder::make(apps.clone()).expect("it can be made"),
            runs_max: 1,
            scale: 0.02,
            seed: 1,
            until: Instant::now() + std::time::Duration::from_secs(600),
            stop: &AtomicBool::new(false),
        };
        let result = measure(&launching, &mut |_, _| {}).expect("the apps are launched");
        drop(launching);
        assert!(!apps.exists());
        assert_eq!(result.launches.len(), 40);
        assert!(result.launches.iter().all(|launch| launch.cold_ms > 0.0 && launch.warm_ms > 0.0));
        assert!(result.figures.values().all(|measure| measure.value().is_some()), "{:?}", result.figures);
        assert!(result.written_bytes > 1 << 20);
    }

    #[test]
    fn a_stop_ends_it() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let launching = Launching {
            folder: AppsFolder::make(folder.path().join("apps")).expect("it can be made"),
            runs_max: 1,
            scale: 1.0,
            seed: 1,
            until: Instant::now() + std::time::Duration::from_secs(600),
            stop: &AtomicBool::new(true),
        };
        let stopped = measure(&launching, &mut |_, _| {});
        assert!(matches!(stopped, Err(BenchError::Interrupted)), "{stopped:?}");
    }
}
