//! Records one slice of time, and keeps how long each program was blocked.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fonio_analysis::waits::blocked::Role;
use fonio_core::{Diagnostic, Nanos, RowSink, ignore_rows};
use fonio_host::{Scope, Target};
use fonio_record::{Progress, RecordOptions, Selector, StopReason, record};
use fonio_recording::{Recording, Tables};
use fonio_system::Pressure;
use serde::{Deserialize, Serialize};

use super::LivePlan;
use crate::analysed::Analysed;
use crate::error::ExperimentError;
use crate::rounds::check_stop;

const MACHINE_PRESSURE: &str = "/proc/pressure/io";

/// A slice is left out if at least this share of its waits was lost. Other lost events have the same limit.
const LOST_SHARE_MAX: f64 = 0.01;

/// A slice shorter than this share of the planned time is omitted.
const SHORT_SHARE: f64 = 0.9;

/// A slice of time with or without the setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSlice {
    /// The number of the slice, counted from 1.
    pub number: u32,
    /// The number of the pair to which the slice belongs, counted from 1.
    pub pair: u32,
    /// Whether the setting was in force during the slice.
    pub with_setting: bool,
    /// The measured time of the slice in seconds.
    pub measured_s: f64,
    /// The programs whose threads were blocked, except kernel threads.
    pub programs: Vec<BlockedProgramTime>,
    /// The I/O pressure on the complete machine; `None` if the kernel does not measure pressure.
    pub machine_pressure: Option<PressureShares>,
    /// The I/O pressure in the unit's control group.
    pub unit_pressure: Option<PressureShares>,
    /// The reason why the slice is left out; `None` if the slice is valid.
    pub problem: Option<String>,
    /// The path of the slice's recording, a folder in the test's folder.
    pub recording: String,
}

/// The time for which a program's threads were blocked in a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedProgramTime {
    /// The name of the program's threads.
    pub name: String,
    /// The unit of the program's threads, if known.
    pub unit: Option<String>,
    /// The role of the program's threads in the verdict.
    pub role: Role,
    /// The blocked time in nanoseconds, summed over the program's threads.
    pub time_ns: Nanos,
    /// Number of waits of at least 100 ms in operations that users wait for.
    pub long: u64,
}

/// The shares of a slice in which I/O stalled tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PressureShares {
    /// The share of the slice in which at least one task was stalled.
    pub some: Option<f64>,
    /// The share of the slice in which all tasks that were not idle were stalled.
    pub full: Option<f64>,
}

impl PressureShares {
    fn between(before: Pressure, after: Pressure, time: Duration) -> PressureShares {
        let share = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.checked_sub(before?)?.as_secs_f64() / time.as_secs_f64())
        };
        PressureShares { some: share(before.some, after.some), full: share(before.full, after.full) }
    }
}

impl MeasuredSlice {
    /// Returns how long the threads of the programs selected by `counts` were blocked, in seconds per second.
    pub fn blocked(&self, counts: impl Fn(&BlockedProgramTime) -> bool) -> f64 {
        let time: Nanos =
            self.programs.iter().filter(|program| counts(program)).map(|program| program.time_ns).sum();
        time.as_secs_f64() / self.measured_s
    }

    /// Returns the number of long waits of the programs selected by `counts`.
    pub(super) fn long(&self, counts: impl Fn(&BlockedProgramTime) -> bool) -> u64 {
        self.programs.iter().filter(|program| counts(program)).map(|program| program.long).sum()
    }

    pub(super) fn bulk(&self) -> impl Iterator<Item = (String, Option<String>)> {
        let bulk = self.programs.iter().filter(|program| program.role == Role::BulkWork);
        bulk.map(|program| (program.name.clone(), program.unit.clone()))
    }
}

/// Returns whether the test measures a program. If the plan names a unit, the programs of this unit are
/// measured. Otherwise, all programs are measured, except bulk work according to `program` or `bulk`.
pub(super) fn counts(
    program: &BlockedProgramTime,
    plan: &LivePlan,
    bulk: &BTreeSet<(String, Option<String>)>,
) -> bool {
    match &plan.unit {
        Some(unit) => program.unit.as_ref() == Some(unit),
        None => {
            program.role == Role::OfInterest && !bulk.contains(&(program.name.clone(), program.unit.clone()))
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Pressures {
    machine: Option<Pressure>,
    unit: Option<Pressure>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) number: u32,
    pub(super) pair: u32,
    pub(super) with_setting: bool,
    pub(super) pressure: Option<&'a Path>,
    /// The folder for the recording of the slice.
    pub(super) to: &'a Path,
}

/// Waits for the carry-over time and records the slice. The caller must have switched the setting.
pub(super) fn measure(
    plan: &LivePlan,
    place: Place<'_>,
    stop: &AtomicBool,
    note: &mut dyn FnMut(&str),
) -> Result<MeasuredSlice, ExperimentError> {
    sleep(Duration::from_secs_f64(plan.carry_over_s), stop)?;
    let expect = || if place.with_setting { plan.setting.expect_new() } else { plan.setting.expect_old() };
    expect()?;
    let options = RecordOptions {
        select: watched(&plan.setting.target),
        duration: Some(Duration::from_secs_f64(plan.slice_s)),
        overwrite: true,
        ..RecordOptions::new(place.to)
    };
    let pressures = || Pressures {
        machine: Pressure::read(Path::new(MACHINE_PRESSURE)),
        unit: place.pressure.and_then(Pressure::read),
    };
    let (mut before, mut after) = (None, None);
    let mut last_note = String::new();
    let summary = record(&options, &mut |progress| match progress {
        Progress::Note(text) => {
            text.clone_into(&mut last_note);
            note(text);
        }
        Progress::Started { .. } => before = Some((Instant::now(), pressures())),
        // No message reports the end of the capture, so take the time of this message, which arrives once a
        // second.
        Progress::Running { .. } => after = Some((Instant::now(), pressures())),
        _ => {}
    })?;
    check_stop(stop)?;
    expect()?;
    let Analysed { analysis, .. } = Analysed::of(place.to)?;
    let Some(blocked) = analysis.blocked else {
        return Err(ExperimentError::NoWaits { reason: last_note });
    };
    let mut lost = LostWaits::default();
    Recording::open(place.to)?.replay(&mut lost, Tables::DIAGNOSTICS)?;
    let measured_s = summary.ended.since(summary.began).map_or(0.0, |time| time.0 as f64 / 1e9);
    let waits: u64 = blocked.programs.iter().map(|program| program.waits).sum();
    let problem = if summary.stopped_by == StopReason::BufferFull {
        Some(format!("the recorder's buffer was full after {measured_s:.0} s; use shorter slices"))
    } else if measured_s < SHORT_SHARE * plan.slice_s {
        Some(format!("the slice lasted only {measured_s:.1} s"))
    } else if lost.0 as f64 > LOST_SHARE_MAX * (waits + lost.0) as f64 {
        Some(format!("{} of {} waits were lost", lost.0, waits + lost.0))
    } else {
        None
    };
    let pressure = |of: fn(&Pressures) -> Option<Pressure>| {
        let ((began, before), (ended, after)) = before.as_ref().zip(after.as_ref())?;
        Some(PressureShares::between(of(before)?, of(after)?, ended.duration_since(*began)))
    };
    let programs = blocked.programs.into_iter().filter(|program| program.role != Role::Kernel);
    Ok(MeasuredSlice {
        number: place.number,
        pair: place.pair,
        with_setting: place.with_setting,
        measured_s,
        programs: (programs)
            .map(|program| BlockedProgramTime {
                name: program.name,
                unit: program.unit,
                role: program.role,
                time_ns: program.time_ns,
                long: program.long,
            })
            .collect(),
        machine_pressure: pressure(|both| both.machine),
        unit_pressure: pressure(|both| both.unit),
        problem,
        recording: place.to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    })
}

/// Returns the devices to record: the device of the setting, or all devices for a setting of the machine.
fn watched(target: &Target) -> Vec<Selector> {
    match target.scope() {
        Scope::Disk => vec![Selector::Device(target.path().into_os_string())],
        Scope::Mount => vec![Selector::Path(target.path())],
        _ => Vec::new(),
    }
}

fn sleep(time: Duration, stop: &AtomicBool) -> Result<(), ExperimentError> {
    /// Interval at which `stop` is checked. A user who pressed Ctrl-C does not notice a tenth of a second.
    const LOOK: Duration = Duration::from_millis(100);
    let began = Instant::now();
    loop {
        check_stop(stop)?;
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Counts the waits that the recorder lost, in the rows of a recording.
#[derive(Default)]
struct LostWaits(u64);

impl RowSink for LostWaits {
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        if ["lost-waits", "lost-blocked-waits"].contains(&row.code.as_str()) {
            self.0 += row.count;
        }
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, settled
    }
}
