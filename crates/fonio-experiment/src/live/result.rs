//! Computes the result of a test: numbers, a sentence and a table.

use std::collections::BTreeSet;
use std::fmt::Write;

use fonio_analysis::compare::interval::Side;
use fonio_analysis::compare::paired::{Paired, PairedAnswer, compare_pairs};
use fonio_core::Unit;
use fonio_core::statistics::sample::mean;
use serde::{Deserialize, Serialize};

use super::slice::counts;
use super::{LivePlan, MeasuredSlice, PressureShares};

/// If threads were blocked for less than this time, in seconds per second, users notice no effect of storage.
/// We chose this limit.
const HARDLY: f64 = 1e-3;
/// A program that is blocked for at least this many seconds per second counts as blocked nearly always.
const NEARLY_ALWAYS: f64 = 0.9;

/// The result of a complete or running test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveResult {
    /// One sentence that answers the test's question.
    pub verdict: String,
    /// The confidence interval of the effect, and the answer.
    pub paired: Paired,
    /// The measurement time in seconds that the test needs to show an effect of 20 percent, without the time
    /// to write recordings; `None` with fewer than three pairs.
    pub needed_s: Option<f64>,
    /// The plan: the tested setting and the method.
    pub plan: LivePlan,
    /// The means over all slices without the setting.
    pub without: Option<OfArm>,
    /// The means over all slices with the setting.
    pub with: Option<OfArm>,
    /// The pairs in which both slices are valid.
    pub pairs: Vec<LivePair>,
    /// Number of slices that were omitted because they had a problem or because their pair is incomplete.
    pub slices_left_out: usize,
    /// All slices, including invalid ones.
    pub slices: Vec<MeasuredSlice>,
}

/// A pair of slices, one with the setting and one without it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LivePair {
    /// The number of the pair, counted from 1.
    pub pair: u32,
    /// Whether the slice with the setting was the first of the pair.
    pub setting_first: bool,
    /// The time for which threads were blocked without the setting, in seconds per second.
    pub without: f64,
    /// The time for which threads were blocked with the setting, in seconds per second.
    pub with: f64,
}

/// The means of the slices with, or without, the setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfArm {
    /// The time for which threads were blocked, in seconds per second.
    pub blocked: f64,
    /// Number of waits of at least 100 ms, per minute.
    pub long_per_min: f64,
    /// The I/O pressure on the machine; `None` if the kernel does not measure it.
    pub machine_pressure: Option<PressureShares>,
    /// The I/O pressure in the unit's control group; `None` if it was not measured.
    pub unit_pressure: Option<PressureShares>,
}

/// A pair of valid slices, with the programs that did bulk work in either slice.
struct Counted<'a> {
    without: &'a MeasuredSlice,
    with: &'a MeasuredSlice,
    bulk: BTreeSet<(String, Option<String>)>,
}

impl<'a> Counted<'a> {
    fn slice(&self, with_setting: bool) -> &'a MeasuredSlice {
        if with_setting { self.with } else { self.without }
    }
}

impl LiveResult {
    /// A program that is bulk work in one slice is left out of both slices. Otherwise, a pair would compare
    /// different programs.
    pub(super) fn of(plan: &LivePlan, slices: &[MeasuredSlice]) -> LiveResult {
        let counted = counted(slices);
        let pairs: Vec<LivePair> = (counted.iter())
            .map(|pair| {
                let blocked =
                    |slice: &MeasuredSlice| slice.blocked(|program| counts(program, plan, &pair.bulk));
                LivePair {
                    pair: pair.with.pair,
                    setting_first: pair.with.number < pair.without.number,
                    without: blocked(pair.without),
                    with: blocked(pair.with),
                }
            })
            .collect();
        let values: Vec<(f64, f64)> = pairs.iter().map(|pair| (pair.without, pair.with)).collect();
        let paired = compare_pairs(&values);
        let each = plan.pair_time().as_secs_f64();
        let needed_s = paired.pairs_needed.map(|pairs| pairs as f64 * each);
        let (without, with) = (OfArm::of(&counted, false, plan), OfArm::of(&counted, true, plan));
        LiveResult {
            verdict: verdict(plan, &paired, needed_s, [without.as_ref(), with.as_ref()]),
            paired,
            needed_s,
            plan: plan.clone(),
            without,
            with,
            slices_left_out: slices.len() - 2 * pairs.len(),
            pairs,
            slices: slices.to_vec(),
        }
    }

    /// Returns all slices as CSV. Times are in seconds per second; pressure values are shares of the time.
    pub(super) fn table(&self) -> String {
        let mut text = "slice,pair,with_setting,measured_s,blocked_s_per_s,long_waits,machine_some,machine_full,unit_some,\
            unit_full,counts\n"
            .to_owned();
        let counted = counted(&self.slices);
        let none = BTreeSet::new();
        for slice in &self.slices {
            let pair = counted.iter().find(|pair| pair.with.pair == slice.pair);
            let bulk = pair.map_or(&none, |pair| &pair.bulk);
            let is_counted = |program: &_| counts(program, &self.plan, bulk);
            let shares = |pressure: Option<PressureShares>| {
                let text = |share: Option<f64>| share.map(|share| format!("{share:.4}")).unwrap_or_default();
                pressure.map_or_else(
                    || ",".to_owned(),
                    |PressureShares { some, full }| format!("{},{}", text(some), text(full)),
                )
            };
            let _ = writeln!(
                text,
                "{},{},{},{:.3},{:.6},{},{},{},{}",
                slice.number,
                slice.pair,
                slice.with_setting,
                slice.measured_s,
                slice.blocked(is_counted),
                slice.long(is_counted),
                shares(slice.machine_pressure),
                shares(slice.unit_pressure),
                pair.is_some(),
            );
        }
        text
    }
}

fn counted(slices: &[MeasuredSlice]) -> Vec<Counted<'_>> {
    let find = |pair: u32, with_setting: bool| {
        slices
            .iter()
            .find(|slice| slice.pair == pair && slice.with_setting == with_setting && slice.problem.is_none())
    };
    let numbers: BTreeSet<u32> = slices.iter().map(|slice| slice.pair).collect();
    (numbers.into_iter())
        .filter_map(|pair| {
            let (without, with) = (find(pair, false)?, find(pair, true)?);
            Some(Counted { without, with, bulk: without.bulk().chain(with.bulk()).collect() })
        })
        .collect()
}

impl OfArm {
    /// Returns the means over the slices with or without the setting; `None` if there are no pairs.
    fn of(pairs: &[Counted<'_>], with_setting: bool, plan: &LivePlan) -> Option<OfArm> {
        if pairs.is_empty() {
            return None;
        }
        let mean_of = |value: &dyn Fn(&Counted<'_>, &MeasuredSlice) -> Option<f64>| {
            let values: Option<Vec<f64>> =
                pairs.iter().map(|pair| value(pair, pair.slice(with_setting))).collect();
            mean(&values?)
        };
        let pressure = |of: fn(&MeasuredSlice) -> Option<PressureShares>| {
            pairs.iter().all(|pair| of(pair.slice(with_setting)).is_some()).then(|| PressureShares {
                some: mean_of(&|_, slice| of(slice)?.some),
                full: mean_of(&|_, slice| of(slice)?.full),
            })
        };
        Some(OfArm {
            blocked: mean_of(&|pair, slice| {
                Some(slice.blocked(|program| counts(program, plan, &pair.bulk)))
            })?,
            long_per_min: mean_of(&|pair, slice| {
                let long = slice.long(|program| counts(program, plan, &pair.bulk));
                Some(long as f64 * 60.0 / slice.measured_s)
            })?,
            machine_pressure: pressure(|slice| slice.machine_pressure),
            unit_pressure: pressure(|slice| slice.unit_pressure),
        })
    }
}

fn verdict(plan: &LivePlan, paired: &Paired, needed_s: Option<f64>, arms: [Option<&OfArm>; 2]) -> String {
    let (fix, slice) = (&plan.fix, Unit::S.format(plan.slice_s));
    let time = format!("the time that {} are blocked on storage", plan.whose());
    let pairs = match paired.pairs {
        1 => format!("1 pair of slices of {slice}"),
        pairs => format!("{pairs} pairs of slices of {slice}"),
    };
    let (Some(ratio), [Some(without), Some(with)]) = (paired.ratio, arms) else {
        return "Not shown: no pair of slices was completed.".to_owned();
    };
    let interval = format!("{} to {}", change(paired.low), change(paired.high));
    let little = |side: Side| {
        let verb = if side.is_higher { "increases" } else { "reduces" };
        format!("{fix} {verb} {time} a little: {} ({interval}; {pairs}).", change(Some(ratio)))
    };
    let sentence = paired.side().map(little).unwrap_or_else(|| match paired.answer {
        PairedAnswer::Lower => {
            let of = |ratio: f64| format!("{:.0}", 100.0 * (1.0 - ratio));
            let interval = match (paired.high, paired.low) {
                (Some(least), Some(most)) => format!("{} to {} %", of(least), of(most)),
                _ => interval,
            };
            format!("{fix} reduces {time} by {} % ({interval}; {pairs}).", of(ratio))
        }
        PairedAnswer::Higher => {
            format!("{fix} increases {time}: {} ({interval}; {pairs}).", change(Some(ratio)))
        }
        PairedAnswer::LittleDifference => format!(
            "No difference of 20 % or more: with {fix}, {time} changes by {} ({interval}; {pairs}).",
            change(Some(ratio))
        ),
        PairedAnswer::NotShown => {
            let need = match needed_s {
                Some(seconds) => format!("to show a 20 % effect, the test needs about {}", minutes(seconds)),
                None if paired.pairs < 3 => "too few pairs to estimate the time for a 20 % effect".to_owned(),
                None => "this load varies too much to show a 20 % effect".to_owned(),
            };
            let known = match (paired.low, paired.high) {
                (None, None) => String::new(),
                _ => format!(", which leaves {interval} possible"),
            };
            format!("Not shown: in {pairs}, {fix} makes no clear difference to {time}{known}; {need}.")
        }
    });
    if without.blocked < HARDLY {
        return format!(
            "{sentence} They were hardly blocked: {} per second.",
            Unit::S.format(without.blocked)
        );
    }
    let is_unclear = matches!(paired.answer, PairedAnswer::LittleDifference | PairedAnswer::NotShown);
    if is_unclear && without.blocked.min(with.blocked) >= NEARLY_ALWAYS {
        // A program that always has more to write is blocked all the time on any storage.
        return format!(
            "{sentence} They were blocked nearly all the time with and without it, so only their throughput can show a gain: measure it with `fonio fix prove {fix} --on PLACE -- CMD`."
        );
    }
    sentence
}

/// Formats a ratio as a change: `-41 %`, `+20 %`, `+1.3 %`, `3.2 times`, or `any change` for an open end of
/// an interval.
fn change(ratio: Option<f64>) -> String {
    match ratio {
        None => "any change".to_owned(),
        Some(ratio) if ratio >= 2.0 => format!("{ratio:.1} times"),
        Some(ratio) if (ratio - 1.0).abs() < 0.1 => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
        Some(ratio) => format!("{:+.0} %", 100.0 * (ratio - 1.0)),
    }
}

/// Formats a planned duration: in minutes if it is at least two minutes, otherwise in seconds.
pub(super) fn minutes(seconds: f64) -> String {
    if seconds >= 120.0 {
        format!("{:.0} min", (seconds / 60.0).ceil())
    } else {
        format!("{:.0} s", seconds.ceil())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use fonio_analysis::waits::blocked::Role;
    use fonio_core::Nanos;

    use super::super::tests::{plan, slice};
    use super::super::{BlockedProgramTime, LivePlan};
    use super::*;

    /// Computes the result of pairs. Each pair has the blocked ms per second without and with the setting.
    fn result(pairs: &[(u64, u64)], plan: &LivePlan) -> LiveResult {
        let slices: Vec<MeasuredSlice> = (pairs.iter().zip(1..))
            .flat_map(|(&(without, with), pair)| {
                [slice(2 * pair - 1, pair, false, 40 * without), slice(2 * pair, pair, true, 40 * with)]
            })
            .collect();
        LiveResult::of(plan, &slices)
    }

    #[test]
    fn sentences() {
        let of_unit = LivePlan { unit: Some("notes.service".to_owned()), ..plan() };
        let mut shown = String::new();
        for (plan, pairs) in [
            (
                &of_unit,
                &[(100, 60), (120, 70), (90, 52), (100, 65), (110, 60), (105, 61), (99, 60), (100, 56)][..],
            ),
            (
                &plan(),
                &[(60, 100), (70, 120), (52, 90), (65, 100), (60, 110), (61, 105), (60, 190), (56, 100)],
            ),
            (&plan(), &[(100, 101); 6]),
            (&plan(), &[(100, 130), (100, 80), (90, 100), (120, 90)]),
            (&plan(), &[(100, 50)]),
            (&of_unit, &[(980, 985), (990, 985), (985, 990), (980, 980), (990, 991), (985, 981)]),
            (&plan(), &[]),
            (&plan(), &[(0, 0); 3]),
        ] {
            shown += &format!("{pairs:?}\n{}\n", result(pairs, plan).verdict);
        }
        expect_test::expect_file!["../../tests/golden/live.txt"].assert_eq(&shown);
    }

    #[test]
    fn half_pairs_and_slices_with_problems_do_not_count() {
        let mut slices = vec![
            slice(1, 1, true, 1),
            slice(2, 1, false, 2),
            slice(3, 2, false, 3),
            slice(4, 3, true, 4),
            slice(5, 3, false, 5),
        ];
        slices[4].problem = Some("waits were lost".to_owned());
        let result = LiveResult::of(&plan(), &slices);
        assert_eq!((result.pairs.len(), result.slices_left_out), (1, 3));
        assert!(result.pairs[0].setting_first);
        expect![[r#"
            slice,pair,with_setting,measured_s,blocked_s_per_s,long_waits,machine_some,machine_full,unit_some,unit_full,counts
            1,1,true,40.000,0.000025,1,0.5000,,,,true
            2,1,false,40.000,0.000050,1,0.5000,,,,true
            3,2,false,40.000,0.000075,1,0.5000,,,,false
            4,3,true,40.000,0.000100,1,0.5000,,,,false
            5,3,false,40.000,0.000125,1,0.5000,,,,false
        "#]]
        .assert_eq(&result.table());
    }

    #[test]
    fn bulk_work_in_one_slice_counts_in_neither() {
        let program = |name: &str, role, time_ns| BlockedProgramTime {
            name: name.to_owned(),
            unit: Some(format!("{name}.service")),
            role,
            time_ns: Nanos(time_ns),
            long: 0,
        };
        let mut slices = [slice(1, 1, true, 1000), slice(2, 1, false, 1000)];
        slices[0].programs.push(program("cp", Role::BulkWork, 40_000_000_000));
        slices[1].programs.push(program("cp", Role::OfInterest, 20_000_000_000));
        let pair = LiveResult::of(&plan(), &slices).pairs[0];
        assert_eq!((pair.without, pair.with), (0.025, 0.025));
        let of_unit = LivePlan { unit: Some("cp.service".to_owned()), ..plan() };
        let pair = LiveResult::of(&of_unit, &slices).pairs[0];
        assert_eq!((pair.without, pair.with), (0.5, 1.0), "a unit that the user named always counts");
    }
}
