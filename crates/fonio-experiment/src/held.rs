//! Gives a run the processor of another machine, and checks that the run really got it.
//!
//! A process of this program runs the short tests of [`fonio_processor::Tests`] inside the control group of the
//! run: before the run, when the quota is corrected until the achieved speed is right, and after it. The
//! process has all its memory before it enters the group, and waits for its standard input during the run.

use std::io::{BufRead, BufReader, Write};
use std::num::{NonZeroU32, NonZeroUsize};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use fonio_host::{Confined, CpuLimit, CpuShare, Entry};
use fonio_processor::{Calibration, Clock, Processor, Rates, Speeds, Tests};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::setup::Setup;
use crate::test_bed::{Roles, TestBed, enter_process};

/// The largest deviation of the achieved speed at which a run counts. Our rule: less than the tests of a
/// processor differ from each other.
const HELD_WITHIN: f64 = 0.15;
/// The quota is corrected if the achieved speed deviates by more.
const CORRECTED_FROM: f64 = 0.03;
/// Maximum number of corrections, and the largest correction of the quota: as large as the error of the kernel's
/// accounting. A larger deviation comes from other programs, and can end during the run.
const CORRECTIONS_MAX: usize = 3;
const CORRECTION_MAX: f64 = 1.15;
/// Time of each of the three short tests, long enough for many periods of the limit.
const TESTED: Duration = Duration::from_millis(400);

/// The argument of the role that measures all speeds once.
const ALL: &str = "all";
const READY: &str = "ready";

/// The processor that a run got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The achieved share of one processor for each core, before the run.
    pub start: f64,
    /// The same after the run.
    pub end: f64,
}

impl Held {
    /// Returns a clause, after a comma, on the shares that the runs really had; `None` without a run.
    pub(crate) fn told(runs: impl Iterator<Item = Held>) -> Option<String> {
        let shares: Vec<f64> = runs.flat_map(|held| [held.start, held.end]).collect();
        let (low, high) =
            (shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?);
        Some(format!(", measured as {low:.2} to {high:.2} before and after each run"))
    }
}

/// Measures the speeds of this machine's processor, and compares them with those of `processor`. Fails if this
/// machine has too few processors, or its processor is too slow.
pub fn calibrate(processor: &Processor, roles: &Roles) -> Result<Calibration, ExperimentError> {
    let has = std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32;
    if has < processor.cores {
        return Err(ExperimentError::TooFewCores {
            name: processor.name.clone(),
            cores: processor.cores,
            has,
        });
    }
    let program = &roles.program;
    let mut command = Command::new(program);
    let output = command
        .args(&roles.measure_speed)
        .arg(ALL)
        .stderr(Stdio::inherit())
        .output()
        .map_err(ExperimentError::system("start", program))?;
    let speeds: Speeds = serde_json::from_slice(&output.stdout)
        .map_err(|error| ExperimentError::system("read from", program)(error.into()))?;
    Ok(Calibration::of(processor, &speeds)?)
}

/// Measures speeds in this process: all speeds once if `what` is `all`, otherwise the short tests in `what`
/// threads, whenever a line arrives on standard input. Prints JSON.
pub fn measure_speed(what: &str) -> Result<(), ExperimentError> {
    let failed = || ExperimentError::system("write to", "standard output");
    let mut out = std::io::stdout();
    if what == ALL {
        serde_json::to_writer(&mut out, &Speeds::measure()).map_err(|error| failed()(error.into()))?;
        return out.flush().map_err(failed());
    }
    let cores = what.parse().unwrap_or(1);
    let mut tests: Vec<Tests> = (0..cores).map(|_| Tests::prepare()).collect();
    writeln!(out, "{READY}").and_then(|()| out.flush()).map_err(failed())?;
    for line in std::io::stdin().lines() {
        line.map_err(ExperimentError::system("read from", "standard input"))?;
        let rates = together(&mut tests);
        serde_json::to_writer(&mut out, &rates).map_err(|error| failed()(error.into()))?;
        writeln!(out).and_then(|()| out.flush()).map_err(failed())?;
    }
    Ok(())
}

/// Runs the tests in one thread each, at the same time, and returns the sum of their speeds.
fn together(tests: &mut [Tests]) -> Rates {
    let begin = Barrier::new(tests.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = tests
            .iter_mut()
            .map(|tests| {
                scope.spawn(|| {
                    begin.wait();
                    tests.rates(Clock::Wall, TESTED)
                })
            })
            .collect();
        let rates = threads.into_iter().map(|thread| thread.join().expect("a test does not panic"));
        rates.reduce(Rates::plus).expect("there is at least one thread")
    })
}

/// A run whose processor is measured.
pub(crate) struct Holding<'a> {
    calibration: &'a Calibration,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    entry: Option<Entry>,
    start: f64,
}

impl<'a> Holding<'a> {
    /// Starts the measuring process in `confined`, and corrects the quota until the achieved speed is that of
    /// the setup's processor. Returns `None` if the setup has no processor of its own.
    pub(crate) fn begin(
        bed: &mut TestBed,
        setup: &'a Setup,
        confined: &Confined,
        roles: &Roles,
    ) -> Result<Option<Holding<'a>>, ExperimentError> {
        let Some(calibration) = &setup.processor else { return Ok(None) };
        let mut command = Command::new(&roles.program);
        command.args(&roles.measure_speed).arg(calibration.cores.to_string());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(ExperimentError::system("start", &roles.program))?;
        let entry = enter_process(bed.ledger(), &child)?;
        let to = child.stdin.take().expect("its input is piped");
        let from = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut holding = Holding { calibration, child, to, from, entry, start: 0.0 };
        holding.line()?;
        confined.add_for_processor(holding.child.id())?;
        let wanted = calibration.share;
        let mut quota = wanted;
        holding.start = holding.achieved()?;
        for _ in 0..CORRECTIONS_MAX {
            if is_within(holding.start, wanted, CORRECTED_FROM) {
                break;
            }
            quota = (quota * wanted / holding.start).clamp(wanted / CORRECTION_MAX, wanted * CORRECTION_MAX);
            confined.set_cpu(limit(quota, calibration.cores)?)?;
            holding.start = holding.achieved()?;
        }
        check(calibration, holding.start, "before")?;
        Ok(Some(holding))
    }

    /// Measures again after the run, and ends the measuring process. Fails if the run did not have its
    /// processor.
    pub(crate) fn end(mut self, bed: &mut TestBed) -> Result<Held, ExperimentError> {
        let end = self.achieved()?;
        drop(self.to);
        self.child.wait().map_err(ExperimentError::system("wait for", "the speed test"))?;
        if let Some(entry) = self.entry.take() {
            bed.ledger().end(entry)?;
        }
        check(self.calibration, end, "after")?;
        Ok(Held { start: self.start, end })
    }

    /// Returns the achieved share of a processor for each core.
    fn achieved(&mut self) -> Result<f64, ExperimentError> {
        writeln!(self.to).map_err(ExperimentError::system("write to", "the speed test"))?;
        let line = self.line()?;
        let rates: Rates = serde_json::from_str(&line)
            .map_err(|error| ExperimentError::system("read from", "the speed test")(error.into()))?;
        Ok(rates.share_of(&self.calibration.full) / f64::from(self.calibration.cores))
    }

    fn line(&mut self) -> Result<String, ExperimentError> {
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(ExperimentError::system("read from", "the speed test"))?;
        Ok(line)
    }
}

/// Returns the limit that gives a process the calibrated processor.
pub fn processor_limit(calibration: &Calibration) -> Result<CpuLimit, ExperimentError> {
    limit(calibration.share, calibration.cores)
}

/// From this share on, fonio sets no quota: the quota's period would be shorter than the kernel's timer tick.
const COMPLETE_FROM: f64 = 0.99;

fn limit(share: f64, cores: u32) -> Result<CpuLimit, ExperimentError> {
    let share = if share < COMPLETE_FROM { Some(CpuShare::new(share)?) } else { None };
    Ok(CpuLimit { share, cores: NonZeroU32::new(cores) })
}

fn is_within(achieved: f64, wanted: f64, deviation: f64) -> bool {
    (achieved / wanted - 1.0).abs() <= deviation
}

fn check(calibration: &Calibration, achieved: f64, at: &'static str) -> Result<(), ExperimentError> {
    if is_within(achieved, calibration.share, HELD_WITHIN) {
        return Ok(());
    }
    Err(ExperimentError::ProcessorNotHeld {
        name: calibration.name.clone(),
        cores: calibration.cores,
        wanted: calibration.share,
        achieved,
        at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_the_smallest_and_the_largest_share() {
        let runs = [Held { start: 0.21, end: 0.2 }, Held { start: 0.19, end: 0.22 }];
        let told = Held::told(runs.into_iter());
        assert_eq!(told.as_deref(), Some(", measured as 0.19 to 0.22 before and after each run"));
        assert_eq!(Held::told([].into_iter()), None);
    }

    #[test]
    fn a_deviation_counts_in_both_directions() {
        assert!(is_within(0.21, 0.2, 0.06) && is_within(0.19, 0.2, 0.06));
        assert!(!is_within(0.22, 0.2, 0.06) && !is_within(0.18, 0.2, 0.06));
        assert!(!is_within(0.0, 0.2, HELD_WITHIN));
    }
}
