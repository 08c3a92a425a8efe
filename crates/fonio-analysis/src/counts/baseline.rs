//! Compares counts with the counts of an earlier version of a program, exactly.
//!
//! A [`Baseline`] is a small file in the program's repository, with one line for each count. Counts that differ between
//! repeated runs of the same program are not in the baseline; the baseline only has their names. If a unit of work is
//! counted, such as an order, costs are compared per unit, so more tests do not look like a higher cost.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::approximate::{Approximate, ApproximatelyCompared};
use super::{ALL, CREATED, Counts, SYNCS, WRITES, WRITTEN_BYTES};

/// The version of the file.
const VERSION: u32 = 1;

/// Kinds of counts for which a higher value is worse. The other kinds count work: transactions, checkpoints.
const COSTS: [&str; 10] = [
    CREATED,
    "deleted",
    "renamed",
    "resized",
    SYNCS,
    WRITES,
    WRITTEN_BYTES,
    "transaction_syncs",
    "transaction_writes",
    "transaction_bytes",
];

/// The counts of an earlier version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The version of the format.
    fonio_baseline: u32,
    /// The unit of work and its number, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The counts that were the same in each run.
    pub counts: BTreeMap<String, u64>,
    /// The names of counts that differed between runs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub varying: BTreeSet<String>,
    /// Counts that are compared with a tolerance: block writes and flushes. `None` if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate: Option<Approximate>,
}

/// The unit of work for which costs are compared, such as an order, and how often it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The name of the work done once: `order`.
    pub name: String,
    /// How often it was done in one run.
    pub count: u64,
}

/// The costs of one or more runs of the same program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The unit of work and its number in the first run.
    pub work: Option<Work>,
    /// The counts of the first run.
    pub counts: Counts,
    /// The names of counts that differed between the runs.
    pub varying: BTreeSet<String>,
    /// The number of runs.
    pub runs: u32,
    /// Block writes and flushes; `None` if they were not counted in each run.
    pub approximate: Option<Approximate>,
}

/// Why runs or baselines cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BaselineError {
    /// A newer version of fonio wrote the file.
    #[error("the baseline has version {0}, but this fonio knows only version {VERSION}: update fonio")]
    Version(u32),
    /// The baseline and the run count different units.
    #[error(
        "the baseline counts {was}, but this run counts {is}: use the same `--per`, or write a new baseline with `--update`"
    )]
    Work {
        /// The unit in the baseline.
        was: String,
        /// The unit of the run.
        is: String,
    },
    /// No unit of work was done.
    #[error("this run has no {0}, so the cost of one {0} is unknown: check the pattern after `--per`")]
    NoWork(String),
    /// The number of units differs between two runs.
    #[error("the command did {first} times {name} in the first run, but {other} times in another run")]
    WorkVaries {
        /// The name of the unit.
        name: String,
        /// The number in the first run.
        first: u64,
        /// The number in another run.
        other: u64,
    },
}

/// A count, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The name of the count.
    pub name: String,
    /// The count in the baseline; `None` if it is new.
    pub was: Option<u64>,
    /// The count in this run.
    pub is: u64,
}

/// The result of comparing a run with a baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Costs that are higher than in the baseline.
    pub grown: Vec<Compared>,
    /// Costs that are lower than in the baseline.
    pub shrunk: Vec<Compared>,
    /// Costs that are not in the baseline.
    pub new: Vec<Compared>,
    /// Counts of work, such as transactions, that differ from the baseline.
    pub others: Vec<Compared>,
}

impl Measured {
    /// Puts the counts of repeated runs together. Fails if a unit of work was not done, or not equally often.
    pub fn of(runs: Vec<(Counts, Option<Work>)>) -> Result<Measured, BaselineError> {
        let mut measured = Measured { runs: runs.len() as u32, ..Measured::default() };
        for (at, (counts, work)) in runs.into_iter().enumerate() {
            if let Some(work) = work.as_ref().filter(|work| work.count == 0) {
                return Err(BaselineError::NoWork(work.name.clone()));
            }
            if at == 0 {
                (measured.counts, measured.work) = (counts, work);
                continue;
            }
            if let (Some(first), Some(other)) = (&measured.work, &work)
                && first.count != other.count
            {
                let (name, first, other) = (first.name.clone(), first.count, other.count);
                return Err(BaselineError::WorkVaries { name, first, other });
            }
            let names = measured.counts.values.keys().chain(counts.values.keys());
            let varies = |name: &&String| measured.counts.value(name) != counts.value(name);
            let varying: Vec<String> = names.filter(varies).cloned().collect();
            measured.varying.extend(varying);
        }
        Ok(measured)
    }

    /// Returns the baseline of this version.
    pub fn baseline(&self) -> Baseline {
        let is_exact = |name: &String| !self.varying.contains(name);
        let exact = self.counts.values.iter().filter(|(name, _)| is_exact(name));
        Baseline {
            fonio_baseline: VERSION,
            work: self.work.clone(),
            counts: exact.map(|(name, count)| (name.clone(), *count)).collect(),
            varying: self.varying.clone(),
            approximate: self.approximate.clone(),
        }
    }

    /// Compares block writes and flushes with a baseline. Empty if one of the two has none.
    pub fn approximately_against(&self, baseline: &Baseline) -> Vec<ApproximatelyCompared> {
        let units = |work: &Option<Work>| work.as_ref().map_or(1, |work| work.count);
        let (Some(was), Some(is)) = (&baseline.approximate, &self.approximate) else { return Vec::new() };
        is.against(was, (units(&baseline.work), units(&self.work)))
    }

    /// Compares the counts with a baseline. Counts that vary, here or in the baseline, are not compared. Fails if the
    /// units of work differ.
    pub fn against(&self, baseline: &Baseline) -> Result<Judgement, BaselineError> {
        if baseline.fonio_baseline != VERSION {
            return Err(BaselineError::Version(baseline.fonio_baseline));
        }
        let of = |work: &Option<Work>| work.as_ref().map(|work| work.name.clone());
        let (was_work, is_work) = (of(&baseline.work), of(&self.work));
        if was_work != is_work {
            let words = |unit: Option<String>| unit.map_or("no unit".to_owned(), |unit| format!("`{unit}`"));
            return Err(BaselineError::Work { was: words(was_work), is: words(is_work) });
        }
        let times = |work: &Option<Work>| work.as_ref().map_or(1, |work| u128::from(work.count));
        let (was_times, is_times) = (times(&baseline.work), times(&self.work));
        let mut judgement = Judgement::default();
        let names: BTreeSet<&String> = baseline.counts.keys().chain(self.counts.values.keys()).collect();
        for name in names {
            if self.varying.contains(name) || baseline.varying.contains(name) {
                continue;
            }
            let (was, is) = (baseline.counts.get(name).copied(), self.counts.value(name));
            let per_work = (u128::from(was.unwrap_or(0)) * is_times, u128::from(is) * was_times);
            let is_cost = COSTS.iter().any(|cost| kind(name) == *cost);
            // The sums over all files are always in the baseline; a file without a line had no cost.
            let is_new = was.is_none() && !name.starts_with(ALL);
            let list = match (is_cost, is_new) {
                _ if per_work.0 == per_work.1 => continue,
                (false, _) => &mut judgement.others,
                (true, true) => &mut judgement.new,
                (true, false) if per_work.1 > per_work.0 => &mut judgement.grown,
                (true, false) => &mut judgement.shrunk,
            };
            list.push(Compared { name: name.clone(), was, is });
        }
        Ok(judgement)
    }
}

/// Returns what a count counts: the last part of its name.
pub fn kind(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        let pair = |word: &str| {
            let (name, count) = word.split_once('=').expect("name=count");
            (name.to_owned(), count.parse().expect("a number"))
        };
        Counts { values: text.split_whitespace().map(pair).collect() }
    }

    fn orders(count: u64) -> Option<Work> {
        (count > 0).then(|| Work { name: "order".to_owned(), count })
    }

    fn measured(text: &str, units: u64) -> Measured {
        Measured::of(vec![(counts(text), orders(units))]).expect("one run")
    }

    #[track_caller]
    fn check((was, was_times): (&str, u64), (is, is_times): (&str, u64), expected: [&str; 4]) {
        let judgement = measured(is, is_times).against(&measured(was, was_times).baseline()).expect("alike");
        let Judgement { grown, shrunk, new, others } = judgement;
        let found = [grown, shrunk, new, others]
            .map(|list| list.into_iter().map(|row| row.name).collect::<Vec<_>>().join(" "));
        assert_eq!(found, expected);
    }

    #[test]
    fn counts_are_compared_exactly() {
        check(("all.writes=3", 0), ("all.writes=3", 0), ["", "", "", ""]);
        check(("all.writes=3", 0), ("all.writes=4", 0), ["all.writes", "", "", ""]);
        check(("all.writes=3 f.syncs=1", 0), ("all.writes=3", 0), ["", "f.syncs", "", ""]);
        check(
            ("all.writes=3", 0),
            ("all.writes=3 all.syncs=1 f.syncs=1", 0),
            ["all.syncs", "", "f.syncs", ""],
        );
        check(("d.transactions=3", 0), ("d.transactions=4", 0), ["", "", "", "d.transactions"]);
    }

    #[test]
    fn costs_are_compared_for_each_unit() {
        check(("all.writes=30", 10), ("all.writes=60", 20), ["", "", "", ""]);
        check(("all.writes=30", 10), ("all.writes=61", 20), ["all.writes", "", "", ""]);
        check(("all.writes=30", 10), ("all.writes=30", 20), ["", "all.writes", "", ""]);
        let baseline = measured("all.writes=1", 3).baseline();
        let error = measured("all.writes=1", 0).against(&baseline).expect_err("no unit");
        assert_eq!(error, BaselineError::Work { was: "`order`".to_owned(), is: "no unit".to_owned() });
        let work = Some(Work { name: "order".to_owned(), count: 0 });
        let error = Measured::of(vec![(counts(""), work)]).expect_err("no order");
        assert_eq!(error, BaselineError::NoWork("order".to_owned()));
        let error = Measured::of(vec![(counts(""), orders(2)), (counts(""), orders(3))]).expect_err("varies");
        assert!(matches!(error, BaselineError::WorkVaries { first: 2, other: 3, .. }));
    }

    #[test]
    fn counts_that_vary_are_named_and_not_compared() {
        let runs = ["all.writes=3 f.writes=2", "all.writes=4 f.writes=2 g.writes=1"];
        let runs = runs.map(|run| (counts(run), None)).to_vec();
        let measured = Measured::of(runs).expect("two runs");
        let baseline = measured.baseline();
        assert_eq!(baseline.counts, counts("f.writes=2").values);
        assert_eq!(baseline.varying.iter().collect::<Vec<_>>(), ["all.writes", "g.writes"]);
        let later = Measured::of(vec![(counts("all.writes=9 f.writes=3"), None)]).expect("one run");
        let judgement = later.against(&baseline).expect("alike");
        assert_eq!(judgement.grown, [Compared { name: "f.writes".to_owned(), was: Some(2), is: 3 }]);
        assert_eq!(judgement.new, []);
    }

    #[test]
    fn a_baseline_has_one_line_for_each_count() {
        let baseline = measured("all.writes=3 file[./a.b].syncs=1", 2).baseline();
        let text = serde_json::to_string_pretty(&baseline).expect("JSON");
        expect_test::expect![[r#"
            {
              "fonio_baseline": 1,
              "work": {
                "name": "order",
                "count": 2
              },
              "counts": {
                "all.writes": 3,
                "file[./a.b].syncs": 1
              }
            }"#]]
        .assert_eq(&text);
        assert_eq!(serde_json::from_str::<Baseline>(&text).expect("its own text"), baseline);
        let newer: Baseline = serde_json::from_str(r#"{"fonio_baseline":2,"counts":{}}"#).expect("JSON");
        let error = measured("", 0).against(&newer).expect_err("newer");
        assert_eq!(error, BaselineError::Version(2));
    }
}
