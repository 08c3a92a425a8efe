//! Says what each unit of the delayed program's work, such as an order, waits for storage.

use anyhow::{Result, ensure};
use fonio_analysis::counts::names::Places;
use fonio_core::Unit;
use fonio_recording::Recording;
use serde::Serialize;

use super::seen::Seen;
use crate::cli::per::{Per, PerCount};
use crate::work;

/// What a unit of work waits.
#[derive(Serialize)]
pub(super) struct UnitOfWork {
    /// The name of one unit.
    name: String,
    /// The number of units in the recording.
    units: u64,
    /// The time that the program's threads were blocked on storage, divided by the number of units.
    waits_s: f64,
    /// The longest time for which the program stood still, and with it the unit in work.
    longest_s: Option<f64>,
    /// The number of threads that were blocked.
    threads: u64,
    sentence: String,
}

/// Refuses a count that no recording has, before anything is recorded.
pub(super) fn check(per: Option<&Per>) -> Result<()> {
    let is_lines = per.is_some_and(|per| matches!(per.count, PerCount::Lines(_)));
    ensure!(
        !is_lines,
        "a recording does not have the lines of a program's output; give the number of units: --per order=120"
    );
    Ok(())
}

impl UnitOfWork {
    /// Counts the units in the recording; `None` if no program was delayed.
    pub(super) fn of(seen: &Seen, per: &Per) -> Result<Option<UnitOfWork>> {
        let Some(program) = seen.victim() else { return Ok(None) };
        let units = match per.count {
            PerCount::Given(units) => units,
            _ => {
                let counts = work::counts(&Recording::open(&seen.recording)?, Places::new([], []))?;
                work::units(per, &counts).unwrap_or_default()
            }
        };
        let name = per.name.clone();
        let waited = program.time_ns.as_secs_f64();
        let longest_s = program.longest_ns.map(|time| time.as_secs_f64());
        Ok(Some(UnitOfWork::new(name, units, waited, longest_s, program.threads)))
    }

    fn new(name: String, units: u64, waited: f64, longest_s: Option<f64>, threads: u64) -> UnitOfWork {
        let mut unit = UnitOfWork { name, units, waits_s: 0.0, longest_s, threads, sentence: String::new() };
        if units == 0 {
            unit.longest_s = None;
            unit.sentence =
                format!("The recording does not show a single {}, so its waits are unknown.", unit.name);
            return unit;
        }
        unit.waits_s = waited / units as f64;
        let longest = longest_s.filter(|longest| *longest > unit.waits_s);
        let longest = longest
            .map_or_else(String::new, |longest| format!(", and up to {} once", Unit::S.format(longest)));
        unit.sentence = format!(
            "Each {} {}, on average over {units}{longest}.",
            unit.name,
            unit.waits(unit.waits_s, "waits", "takes")
        );
        unit
    }

    /// Says that a unit waits this long. If several threads work, they may wait for one unit at the same time.
    fn waits(&self, seconds: f64, waits: &str, takes: &str) -> String {
        let time = Unit::S.format(seconds);
        if self.threads > 1 {
            format!("{waits} {time} for storage, in all threads together")
        } else {
            format!("{takes} {time} longer because of storage")
        }
    }

    pub(super) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Says what a unit would wait if all its waits took this share of their time; `None` without units.
    pub(super) fn with(&self, ratio: f64) -> Option<String> {
        (self.units > 0).then(|| {
            format!(
                "By this ratio, each {} would {}, instead of {}.",
                self.name,
                self.waits(self.waits_s * ratio, "wait", "take"),
                Unit::S.format(self.waits_s)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_waits_its_part_of_the_blocked_time() {
        let of = |units, longest, threads| UnitOfWork::new("order".to_owned(), units, 30.0, longest, threads);
        for (unit, says, with) in [
            (
                of(75, Some(3.1), 1),
                "Each order takes 400 ms longer because of storage, on average over 75, and up to 3.1 s once.",
                "By this ratio, each order would take 100 ms longer because of storage, instead of 400 ms.",
            ),
            (
                of(75, None, 4),
                "Each order waits 400 ms for storage, in all threads together, on average over 75.",
                "By this ratio, each order would wait 100 ms for storage, in all threads together, instead of 400 ms.",
            ),
        ] {
            assert_eq!(unit.sentence(), says);
            assert_eq!(unit.with(0.25).as_deref(), Some(with));
        }
        let none = of(0, Some(3.1), 1);
        assert_eq!(none.sentence(), "The recording does not show a single order, so its waits are unknown.");
        assert_eq!(none.with(0.5), None);
    }
}
