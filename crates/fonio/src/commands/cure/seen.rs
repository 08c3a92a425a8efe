//! The first step of a cure: a recording with a stall, and its analysis.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use fonio_analysis::waits::blocked::BlockedProgram;
use fonio_analysis::{Analyser, Analysis, AnalysisOptions, Filter, FilterOptions};
use fonio_core::{ByteCount, Meta, Nanos};
use fonio_host::WriteBack;
use fonio_input::UntilStopped;
use fonio_machine::units_now;
use fonio_record::{RecordError, RecordOptions, RecordSummary};
use fonio_system::{procfs, say};

use crate::cli::Reading;
use crate::cli::cure::Cure;
use crate::cli::per::Per;
use crate::commands::record;
use crate::{input, last, output};

/// The recording with the stall.
pub(super) struct Seen {
    pub(super) recording: PathBuf,
    /// The time of the recording at which the analysed part begins.
    pub(super) from: Duration,
    pub(super) analysis: Analysis,
    pub(super) meta: Meta,
    /// Whether the recording was made now, so that its processes may still run.
    pub(super) is_new: bool,
    /// Whether a signal such as Ctrl-C ended the recording.
    pub(super) is_interrupted: bool,
}

/// Returns the running unit with this name; `.service` may be left out.
pub(super) fn running_unit(named: &str) -> Result<String> {
    let running = units_now();
    let names = [named.to_owned(), format!("{named}.service")];
    names.into_iter().find(|name| running.contains_key(name)).with_context(|| {
        format!(
            "{named}: no process of a unit or container with this name runs; `systemctl list-units` lists the units"
        )
    })
}

/// Time added to the kernel's write-back delay, so that a recording includes all of the write-back.
const BESIDE_WRITE_BACK: Duration = Duration::from_secs(5);

impl Seen {
    /// Makes a recording, or opens the named one, and analyses it.
    pub(super) fn of(arguments: &Cure, stop: &AtomicBool) -> Result<Seen> {
        if let Some(named) = &arguments.from {
            return Seen::in_recording(last::resolve(named)?, Duration::ZERO, false, arguments, stop);
        }
        let is_free = arguments.time.is_none() && arguments.out.is_none() && arguments.command.is_empty();
        let changed = changed_before();
        if is_free && changed >= MUCH_CHANGED {
            say!(
                "Programs have changed {} that the kernel has not written back yet. To see which programs wait for that, \
                 this records for longer.",
                output::bytes(changed)
            );
            return Seen::of_two_cycles(arguments, stop);
        }
        let recording = record(arguments, arguments.time)?.out;
        let seen = Seen::in_recording(recording, Duration::ZERO, true, arguments, stop)?;
        if !is_free || seen.is_interrupted || !seen.is_behind_earlier_writes() {
            return Ok(seen);
        }
        say!(
            "The kernel wrote back data that programs changed before the recording began, so it does not show which \
             programs. Recording again, for longer."
        );
        Seen::of_two_cycles(arguments, stop)
    }

    /// Records for two cycles of write-back, and analyses the second one. All data that is written back in it was changed
    /// during the recording.
    fn of_two_cycles(arguments: &Cure, stop: &AtomicBool) -> Result<Seen> {
        let cycle = WriteBack::of_machine()?.longest();
        let recording = record(arguments, Some(2 * cycle + BESIDE_WRITE_BACK))?.out;
        Seen::in_recording(recording, cycle, true, arguments, stop)
    }

    /// Analyses a recording from a time of it on.
    fn in_recording(
        recording: PathBuf,
        from: Duration,
        is_new: bool,
        arguments: &Cure,
        stop: &AtomicBool,
    ) -> Result<Seen> {
        // Ctrl-C ends the recording, and what was recorded is analysed.
        let is_interrupted = stop.swap(false, Ordering::Relaxed);
        let from = if is_interrupted { Duration::ZERO } else { from };
        let (analysis, meta) = analyse(&recording, from, arguments.unit.clone(), stop)?;
        Ok(Seen { recording, from, analysis, meta, is_new, is_interrupted })
    }

    /// Returns whether the program waited for write-back, and the recording does not show who changed the data.
    fn is_behind_earlier_writes(&self) -> bool {
        let mechanism = self.analysis.diagnosis.as_ref().and_then(|found| found.mechanism.as_deref());
        mechanism == Some("behind-earlier-writes")
    }

    /// Returns whether the figures of the recording can be trusted.
    pub(super) fn is_valid(&self) -> bool {
        self.analysis.validity.ok
    }

    /// Returns the program that the diagnosis names as the delayed one.
    pub(super) fn victim(&self) -> Option<&BlockedProgram> {
        let diagnosis = self.analysis.diagnosis.as_ref()?;
        let programs = &self.analysis.blocked.as_ref()?.programs;
        programs.iter().find(|program| {
            Some(&program.name) == diagnosis.program.as_ref() && program.unit == diagnosis.unit
        })
    }

    /// Returns whether the recording was made on this machine.
    pub(super) fn is_from_here(&self) -> bool {
        self.meta.host.name.as_deref() == rustix::system::uname().nodename().to_str().ok()
    }
}

/// If programs have changed so much, a recording begins in the midst of its write-back.
const MUCH_CHANGED: ByteCount = ByteCount(16 << 20);

/// Returns the size of the data that programs have changed and that the kernel has not written back yet.
fn changed_before() -> ByteCount {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let size = |name| procfs::memory(&text, name).unwrap_or_default().0;
    ByteCount(size("Dirty").saturating_add(size("Writeback")))
}

/// Analyses a recording from the time `from` on.
fn analyse(
    path: &Path,
    from: Duration,
    unit_of_interest: Option<String>,
    stop: &AtomicBool,
) -> Result<(Analysis, Meta)> {
    let reading = Reading::default();
    let subject = input::resolve(&[path.to_owned()])?;
    let since = |from: Duration| Nanos(u64::try_from(from.as_nanos()).unwrap_or(u64::MAX));
    let filter = (from > Duration::ZERO)
        .then(|| FilterOptions { from_ns: Some(since(from)), ..FilterOptions::default() });
    let options = AnalysisOptions { unit_of_interest, filter: filter.clone(), ..AnalysisOptions::default() };
    let mut analyser = Filter::new(filter.unwrap_or_default(), Analyser::new(options))?;
    let meta = subject.pour(&reading.settings(), &mut UntilStopped::new(&mut analyser, stop))?;
    Ok((analyser.into_inner().finish(&meta), meta))
}

/// Makes a recording of the command or of the machine, with the file-system calls of the programs. Without BPF, the
/// calls are missing, and the fixes cannot be tried on the stall itself.
fn record(arguments: &Cure, time: Option<Duration>) -> Result<RecordSummary> {
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => last::place().context("cannot keep the recording; name a folder with --output")?,
    };
    let mut options = RecordOptions::new(&out);
    options.duration = time;
    if arguments.command.is_empty() {
        let write_back = WriteBack::of_machine()?.longest() + BESIDE_WRITE_BACK;
        options.duration = Some(time.unwrap_or(write_back));
        options.calls_of_all = true;
        // The programs' calls are enough for a stall. Only the count of transactions needs their SQL statements.
        options.statements = arguments.per.as_ref().is_some_and(Per::needs_statements);
    } else {
        options.command = Some(arguments.command.clone());
        options.calls = true;
    }
    let outcome = fonio_recorder::capture(&options, record::words);
    let Err(error) = &outcome else { return outcome };
    let has_calls = options.calls || options.calls_of_all;
    if !(has_calls && error.downcast_ref::<RecordError>().is_some_and(RecordError::is_about_tracing)) {
        return outcome;
    }
    say!("note: the programs' calls are not recorded: {error:#}");
    (options.calls, options.calls_of_all) = (false, false);
    fonio_recorder::capture(&options, record::words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_must_run() {
        let error = running_unit("no-such-unit").expect_err("there is none");
        assert!(error.to_string().starts_with("no-such-unit: no process of a unit"), "{error}");
        if let Some(service) = units_now().into_keys().find(|unit| unit.ends_with(".service")) {
            let short = service.trim_end_matches(".service");
            assert_eq!(running_unit(short).expect("it runs"), service);
        }
    }
}
