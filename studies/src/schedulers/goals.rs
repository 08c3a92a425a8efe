//! Checks whether each goal of SmartIO is reached, missed or undecided.
//!
//! Start `n` of one scheduler is compared with start `n` of another scheduler, because these two starts have
//! the same think times. `fonio_analysis::compare::interval` computes the confidence interval of the ratio,
//! at 95 % for all comparisons of a goal together.

use fonio_analysis::compare::interval::{Answer, Change, compare_rounds};
use fonio_core::statistics::sample::median;

use super::cell::{SMARTIO, VARIANTS, Values};
use super::figures::{slowdown, slowdowns};
use super::{IN_MEMORY, Results, TUNED_ON};

/// The slowdowns of one reader and one writer on the Galaxy S5 under the study's own SmartIO (section 7.2):
/// first the slowdown of the reads, then of the writes.
const STUDY: [(&str, [f64; 2]); 2] = [("seq", [1.72, 1.51]), ("rand", [1.97, 1.83])];
/// Goal: the throughput of only reads or only writes is at least this share of the throughput without a
/// scheduler.
const THROUGHPUT: f64 = 0.97;
/// Goal: the processor time per request is at most this multiple of mq-deadline's processor time per request.
const COST: f64 = 1.10;
/// Goal: reads with pauses take at most this multiple of their time alone.
const PAUSED: f64 = 3.0;
/// Goal: a copy beside such reads keeps at least this share of its rate.
const COPIED: f64 = 0.6;
/// The parts of the comparison with concurrent reads and writes, each with the name of the run.
const BESIDE: [(&str, &str); 6] =
    [("seq", "1x1"), ("rand", "1x1"), ("seq", "4x4"), ("rand", "4x4"), ("deep", "beside"), ("files", "copy")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Holds,
    Fails,
    NotToldApart,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Fails => "FAILS",
            Outcome::NotToldApart => "not told apart",
        }
    }

    fn and(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Fails, _) | (_, Outcome::Fails) => Outcome::Fails,
            (Outcome::Holds, Outcome::Holds) => Outcome::Holds,
            _ => Outcome::NotToldApart,
        }
    }
}

/// Compares `own` with `most`. The goal is reached if the confidence interval of the ratio of `own` to `most`
/// does not exceed 1.
fn at_most(own: &[f64], most: &[f64]) -> (Outcome, Change) {
    let change = compare_rounds(&[(most, own)]).remove(0);
    let outcome = match (change.low, change.high) {
        (_, Some(high)) if high <= 1.0 => Outcome::Holds,
        (Some(low), _) if low > 1.0 => Outcome::Fails,
        _ => Outcome::NotToldApart,
    };
    (outcome, change)
}

/// Compares `own` with each of `others`. The goal is reached if `own` is less than each of `others`. As
/// everywhere in fonio, "less" and "more" need a difference of 5 percent, because equal configurations differ
/// by less than 5 percent between two boots of a guest.
fn below_all(own: &[f64], others: &[Vec<f64>]) -> (Outcome, Vec<Change>) {
    let pairs: Vec<(&[f64], &[f64])> = others.iter().map(|other| (other.as_slice(), own)).collect();
    let changes = compare_rounds(&pairs);
    let outcome = if changes.iter().any(|change| change.answer == Answer::Higher) {
        Outcome::Fails
    } else if changes.iter().all(|change| change.answer == Answer::Lower) {
        Outcome::Holds
    } else {
        Outcome::NotToldApart
    };
    (outcome, changes)
}

/// Formats the confidence interval of a ratio.
pub fn interval(change: &Change) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |end| format!("{end:.2}"));
    match (change.ratio, change.unknown) {
        (Some(ratio), _) if change.low.is_some() => {
            format!("{ratio:.2} times, {} to {}", end(change.low), end(change.high))
        }
        (Some(ratio), Some(why)) => format!("{ratio:.2} times; {}", why.words()),
        _ => "no ratio".to_owned(),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

fn say(outcome: Outcome, what: &str) {
    println!("{:<15}{what}", outcome.words());
}

/// Returns the name of the run of a part in which one process reads and no process writes.
pub(super) fn alone(part: &str) -> &'static str {
    match part {
        "deep" => "one-alone read",
        "files" => "paced read",
        _ => "read-alone read",
    }
}

/// Prints each goal with its figures. Skips goals for which no figures were measured.
pub(super) fn show(profiles: &[&'static str], results: &Results) {
    println!(
        "\nGoals. Figures are medians of the starts. In brackets: the mean ratio to the other figure and its confidence\n\
         interval, at 95 % for all comparisons of a goal together. The interval decides whether a goal is reached."
    );
    for profile in profiles {
        let of = |variant: &'static str, part: &'static str| results.get(&(profile, variant, part));
        if *profile == TUNED_ON {
            for (part, study) in STUDY {
                show_study(profile, part, study, of(SMARTIO, part));
            }
        }
        for (part, run) in BESIDE {
            show_beside(profile, part, run, &of);
        }
        for (name, what) in [("reads read iops", "reads"), ("writes write iops", "writes")] {
            let values = |variant| of(variant, "deep")?.get(name);
            if let (Some(own), Some(none)) = (values(SMARTIO), values("none")) {
                let least: Vec<f64> = none.iter().map(|none| none * THROUGHPUT).collect();
                let (outcome, change) = at_most(&least, own);
                say(
                    outcome,
                    &format!(
                        "{profile}: {what} alone, 32 at a time: {:.0} a second, at least {THROUGHPUT} of {:.0} without a scheduler \
                         (this limit divided by the rate: {})",
                        middle(own),
                        middle(none),
                        interval(&change)
                    ),
                );
            }
        }
        if let Some(values) = of(SMARTIO, "pauses") {
            show_pauses(profile, values);
        }
        let p99 = |variant| of(variant, "files")?.get("copy fsync p99");
        if let (Some(own), Some(deadline)) = (p99(SMARTIO), p99("mq-deadline")) {
            let (outcome, change) = at_most(own, deadline);
            let count = of(SMARTIO, "files").and_then(|values| median(values.get("copy fsyncs")?));
            say(
                outcome,
                &format!(
                    "{profile}: the 99th percentile of {:.0} fsyncs during a copy is {:.1} ms in the median of {} starts, and {:.1} \
                     under mq-deadline ({})",
                    count.unwrap_or_default(),
                    middle(own) / 1e3,
                    own.len(),
                    middle(deadline) / 1e3,
                    interval(&change)
                ),
            );
        }
    }
    show_cost(results);
}

/// Shows whether a reader that pauses is slowed down little by other loads, and whether a copy beside it keeps most
/// of its rate.
fn show_pauses(profile: &str, values: &Values) {
    for pause_us in [100, 1_000, 5_000, 20_000] {
        for load in ["copy", "commits", "discards"] {
            let (beside, alone) = (format!("{load}-{pause_us} read"), format!("alone-{pause_us} read"));
            let Some(times) = slowdowns(values, &beside, &alone) else { continue };
            let (outcome, change) = at_most(&times, &vec![PAUSED; times.len()]);
            say(
                outcome,
                &format!(
                    "{profile}: reads with pauses of {pause_us} µs beside {load}: {:.2} times as long as alone, at most {PAUSED} (of \
                     that bound {})",
                    middle(&times),
                    interval(&change)
                ),
            );
        }
        let Some(shares) = slowdowns(values, &format!("copy-{pause_us}_mib_s"), "copy-alone_mib_s") else {
            continue;
        };
        let (outcome, change) = at_most(&vec![COPIED; shares.len()], &shares);
        say(
            outcome,
            &format!(
                "{profile}: the copy beside reads with pauses of {pause_us} µs keeps {:.2} of its rate, at least {COPIED} (this limit \
                 divided by the share: {})",
                middle(&shares),
                interval(&change)
            ),
        );
    }
}

/// Shows whether the slowdowns of reads and writes are at most those of the study's own SmartIO on the
/// study's device.
fn show_study(profile: &str, part: &str, study: [f64; 2], values: Option<&Values>) {
    let times = |op: &str| slowdowns(values?, &format!("1x1 {op}"), &format!("{op}-alone {op}"));
    let (Some(read), Some(write)) = (times("read"), times("write")) else { return };
    let held = |own: &[f64], most: f64| at_most(own, &vec![most; own.len()]).0;
    say(
        held(&read, study[0]).and(held(&write, study[1])),
        &format!(
            "{profile} {part}: slowdowns of reads {:.2} (at most {}) and writes {:.2} (at most {})",
            middle(&read),
            study[0],
            middle(&write),
            study[1]
        ),
    );
}

/// Shows whether reads during writes are faster than under each of the kernel's schedulers.
fn show_beside<'a>(
    profile: &str,
    part: &'static str,
    run: &str,
    of: &impl Fn(&'static str, &'static str) -> Option<&'a Values>,
) {
    let times = |variant| slowdowns(of(variant, part)?, &format!("{run} read"), alone(part));
    // The cost of faster reads is the response time of the writes, relative to the response time of writes
    // alone.
    let writes = |variant| {
        let times = slowdown(of(variant, part)?, &format!("{run} write"), "write-alone write")?[1];
        Some(format!(" (writes {times:.2} times)"))
    };
    let Some(own) = times(SMARTIO) else { return };
    let rivals = VARIANTS.iter().filter(|variant| variant.is_rival());
    let rivals = rivals.filter_map(|variant| Some((variant.name, times(variant.name)?)));
    let (names, others): (Vec<&'static str>, Vec<Vec<f64>>) =
        rivals.filter(|(_, times)| times.len() == own.len()).unzip();
    let middles = others.iter().map(|other| middle(other)).enumerate();
    let Some((best, _)) = middles.min_by(|one, other| one.1.total_cmp(&other.1)) else { return };
    let (outcome, changes) = below_all(&own, &others);
    say(
        outcome,
        &format!(
            "{profile} {part} {run}: reads {:.2} times as long as alone{}; {:.2} under {}{}, the best of {} others ({})",
            middle(&own),
            writes(SMARTIO).unwrap_or_default(),
            middle(&others[best]),
            names[best],
            writes(names[best]).unwrap_or_default(),
            others.len(),
            interval(&changes[best])
        ),
    );
}

fn show_cost(results: &Results) {
    for run in ["serial", "deep"] {
        let cost = |variant| {
            let values = results.get(&(IN_MEMORY, variant, "cost"))?;
            let rates = |op: &str| values.get(&format!("{run} {op} iops"));
            // Pair the rates of reads with the rates of writes.
            let pairs = rates("read")?.iter().zip(rates("write")?);
            Some(pairs.map(|(read, write)| 0.5e6 * (1.0 / read + 1.0 / write)).collect::<Vec<f64>>())
        };
        if let (Some(own), Some(deadline), Some(none)) = (cost(SMARTIO), cost("mq-deadline"), cost("none")) {
            let most: Vec<f64> = deadline.iter().map(|deadline| deadline * COST).collect();
            let (outcome, change) = at_most(&own, &most);
            let others = ["kyber", "bfq"].map(|name| {
                cost(name).map(|cost| format!(", {name} {:.2}", middle(&cost))).unwrap_or_default()
            });
            say(
                outcome,
                &format!(
                    "processor time of a request, {run} ({}): {:.2} µs, at most {COST} times mq-deadline's {:.2} (of that bound {}); \
                     none {:.2}{}",
                    if run == "deep" { "16 at a time" } else { "one at a time" },
                    middle(&own),
                    middle(&deadline),
                    interval(&change),
                    middle(&none),
                    others.concat()
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_holds_fails_or_is_not_decided() {
        for (own, outcome) in [
            ([1.0, 1.01, 0.99, 1.0], Outcome::Holds),
            ([2.0, 2.1, 1.9, 2.0], Outcome::NotToldApart),
            ([2.0, 3.0, 1.0, 2.0], Outcome::NotToldApart),
            ([3.0, 3.1, 2.9, 3.0], Outcome::Fails),
        ] {
            assert_eq!(at_most(&own, &[2.0; 4]).0, outcome, "{own:?}");
            assert_eq!(below_all(&own, &[vec![2.0; 4], vec![9.0; 4]]).0, outcome, "{own:?}");
        }
        // The values are equal in all starts, so the ratio is exactly 1. This satisfies "at most".
        assert_eq!(at_most(&[2.0; 4], &[2.0; 4]).0, Outcome::Holds);
        assert_eq!(below_all(&[2.0; 4], &[vec![2.0; 4]]).0, Outcome::NotToldApart);
    }

    #[test]
    fn fewer_than_three_starts_decide_nothing() {
        assert_eq!(at_most(&[1.0; 2], &[2.0; 2]).0, Outcome::NotToldApart);
        let (outcome, changes) = below_all(&[1.0], &[vec![2.0]]);
        assert_eq!(
            (outcome, interval(&changes[0]).as_str()),
            (Outcome::NotToldApart, "0.50 times; fewer than three runs each")
        );
    }

    #[test]
    fn conditions_together() {
        use Outcome::{Fails, Holds, NotToldApart};
        for (one, other, both) in [
            (Holds, Holds, Holds),
            (Holds, NotToldApart, NotToldApart),
            (NotToldApart, Fails, Fails),
            (Fails, Holds, Fails),
        ] {
            assert_eq!((one.and(other), other.and(one)), (both, both));
        }
    }
}
