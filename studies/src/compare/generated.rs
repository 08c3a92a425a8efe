//! Measures how often a comparison of two recordings claims a difference, with and without a true difference.
//!
//! The series are generated, so the true difference is known. Each series is analysed in the same way as a
//! recording.

use anyhow::{Result, ensure};
use fonio_analysis::{Analysis, Answer, Comparison, Named, compare};
use xtask::results::{Cell, StudyResult};

use super::generate::{self, Kind, Plan};

/// The minimum number of pairs in which doubled median latencies must be found, and the total number of
/// pairs.
const DOUBLED: (usize, usize) = (48, 50);
/// For a device that is 20 percent slower, in series of 60 s: the minimum number of pairs in which this must
/// be found, and the total number of pairs.
const SLOWER: (usize, usize) = (18, 20);
/// The maximum share of pairs in which equal devices may be called different.
const FALSE_CLAIMS: f64 = 0.05;

/// Compares `pairs` pairs of equal series and of different series; fails if a limit is violated.
pub fn run(pairs: usize, command: &str, is_complete: bool) -> Result<()> {
    let mut fine = true;
    let columns = [
        "series and length",
        "equal pairs",
        "a difference is claimed",
        "figures",
        "times doubled: reads found",
        "writes found",
        "times up by 20 %: found",
        "called lower",
    ];
    let title = "claims of `fonio compare` on generated series";
    let mut result = StudyResult::begin("compare-generated", title, command, &columns)?;
    result.seed = Some(1);
    for (kind, seconds) in Kind::ALL.into_iter().flat_map(|kind| [(kind, 10), (kind, 60)]) {
        let equal: Vec<Vec<String>> = (0..pairs)
            .map(|pair| claimed(&pair_of(kind, seconds, 1.0, pair), Answer::Higher, Answer::Lower))
            .collect();
        let any = equal.iter().filter(|claims| !claims.is_empty()).count();
        fine &= any as f64 <= FALSE_CLAIMS * pairs as f64;
        let mut other: Vec<Comparison> =
            (0..DOUBLED.1).map(|pair| pair_of(kind, seconds, 2.0, pair)).collect();
        let higher = |figure: &str| {
            other.iter().filter(|comparison| answer(comparison, figure) == Some(Answer::Higher)).count()
        };
        let (reads, writes) =
            (higher("latency.reads.response.p50"), higher("latency.write_sync.response.p50"));
        let mut slower = None;
        if seconds == 60 {
            let all: Vec<Comparison> = (0..SLOWER.1).map(|pair| pair_of(kind, seconds, 1.2, pair)).collect();
            slower = Some(all.iter().filter(|comparison| is_any_response_higher(comparison)).count());
            other.extend(all);
        }
        if kind.can_tell() {
            fine &= reads.min(writes) >= DOUBLED.0 && slower.is_none_or(|found| found >= SLOWER.0);
        }
        result.row(
            format!("{}, {seconds} s", kind.name()),
            vec![
                Cell::count(pairs),
                Cell::once(any as f64 / pairs as f64 * 100.0, "%", 2),
                most(&equal.concat()).into(),
                format!("{reads} of {}", DOUBLED.1).into(),
                format!("{writes} of {}", DOUBLED.1).into(),
                slower.map_or("".into(), |found| format!("{found} of {}", SLOWER.1).into()),
                Cell::count(wrong(&other)),
            ],
        );
    }
    result.keep(is_complete)?;
    ensure!(fine, "the comparison is wrong more often than promised");
    Ok(())
}

fn is_any_response_higher(comparison: &Comparison) -> bool {
    let is_response = |figure: &str| figure.contains(".response.");
    comparison.rows.iter().any(|row| is_response(&row.figure) && row.changes[0].answer == Answer::Higher)
}

/// Generates and compares two series. The service times of the second series are multiplied by `slow`.
fn pair_of(kind: Kind, seconds: u32, slow: f64, pair: usize) -> Comparison {
    let of = |slow: f64, seed: usize| generate::analyse(Plan { kind, seconds, slow, seed: seed as u64 + 1 });
    let (first, other) = (of(1.0, 2 * pair), of(slow, 2 * pair + 1));
    compare(&[named("first", &first), named("other", &other)])
}

fn named<'a>(name: &str, analysis: &'a Analysis) -> Named<Vec<Named<&'a Analysis>>> {
    Named { name: name.to_owned(), value: vec![Named { name: name.to_owned(), value: analysis }] }
}

fn answer(comparison: &Comparison, figure: &str) -> Option<Answer> {
    comparison.rows.iter().find(|row| row.figure == figure).map(|row| row.changes[0].answer)
}

/// Returns the names of the figures for which the answer of the comparison is `one` or `two`.
fn claimed(comparison: &Comparison, one: Answer, two: Answer) -> Vec<String> {
    let rows = comparison.rows.iter().filter(|row| [one, two].contains(&row.changes[0].answer));
    rows.map(|row| row.figure.clone()).collect()
}

/// Returns the number of pairs for which the comparison wrongly claims a lower response time.
fn wrong(all: &[Comparison]) -> usize {
    let lower = |comparison: &&Comparison| {
        claimed(comparison, Answer::Lower, Answer::Lower).iter().any(|figure| figure.starts_with("latency."))
    };
    all.iter().filter(lower).count()
}

fn most(claims: &[String]) -> String {
    let mut counts: Vec<(usize, &String)> = Vec::new();
    for claim in claims {
        match counts.iter_mut().find(|(_, name)| *name == claim) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, claim)),
        }
    }
    counts.sort_by(|a, b| b.cmp(a));
    let words: Vec<String> = counts.iter().take(4).map(|(count, name)| format!("{name} {count}")).collect();
    words.join(", ")
}
