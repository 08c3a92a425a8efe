//! Measures how often a comparison of two recordings claims a difference, with and without a true difference.
//!
//!     cargo xtask bench compare [--pairs N]
//!
//! The series are generated, so the truth is known. The analyser treats each like any recording.

mod generate;

use std::process::ExitCode;

use fonio_analysis::{Analysis, Answer, Comparison, Named, compare};
use generate::{Kind, Plan};

/// Doubled medians must be found in this many of this many pairs.
const DOUBLED: (usize, usize) = (48, 50);
/// The same for a device slower by 20 percent, in 60 s.
const SLOWER: (usize, usize) = (18, 20);
/// Equal devices may be called different in this share of pairs.
const FALSE_CLAIMS: f64 = 0.05;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pairs = match words.as_slice() {
        [] => 400,
        [flag, number] if flag == "--pairs" => match number.parse() {
            Ok(pairs) if pairs > 0 => pairs,
            _ => return usage(),
        },
        _ => return usage(),
    };
    let mut fine = true;
    println!(
        "Equal things, {pairs} pairs of each: pairs in which any figure is claimed to differ (at most 5 %)"
    );
    println!("  {:<16} {:>6} {:>14}  figures", "series", "length", "claimed");
    for kind in Kind::ALL {
        for seconds in [10, 60] {
            let found: Vec<Vec<String>> = (0..pairs)
                .map(|pair| claimed(&pair_of(kind, seconds, 1.0, pair), Answer::Higher, Answer::Lower))
                .collect();
            let any = found.iter().filter(|claims| !claims.is_empty()).count();
            let share = any as f64 / pairs as f64;
            fine &= share <= FALSE_CLAIMS;
            println!(
                "  {:<16} {:>4} s {:>5} {:>6.2} %  {}",
                kind.name(),
                seconds,
                any,
                share * 100.0,
                most(&found.concat())
            );
        }
    }
    println!(
        "\nEvery service time doubled: pairs in which the medians of reads and synchronous writes are called higher"
    );
    println!("  {:<16} {:>6} {:>10} {:>10} {:>16}", "series", "length", "reads", "writes", "called lower");
    for kind in Kind::ALL {
        for seconds in [10, 60] {
            let all: Vec<Comparison> = (0..DOUBLED.1).map(|pair| pair_of(kind, seconds, 2.0, pair)).collect();
            let of = |figure: &str| {
                all.iter().filter(|comparison| answer(comparison, figure) == Some(Answer::Higher)).count()
            };
            let (reads, writes) = (of("latency.reads.response.p50"), of("latency.write_sync.response.p50"));
            if kind.can_tell() {
                fine &= reads.min(writes) >= DOUBLED.0;
            }
            println!(
                "  {:<16} {:>4} s {:>5} of {} {:>5} of {} {:>16}",
                kind.name(),
                seconds,
                reads,
                DOUBLED.1,
                writes,
                DOUBLED.1,
                wrong(&all)
            );
        }
    }
    println!("\nEvery service time up by 20 percent, 60 s: pairs in which any response is called higher");
    println!("  {:<16} {:>10} {:>16}", "series", "found", "called lower");
    for kind in Kind::ALL {
        let all: Vec<Comparison> = (0..SLOWER.1).map(|pair| pair_of(kind, 60, 1.2, pair)).collect();
        let found =
            all.iter()
                .filter(|comparison| {
                    comparison.rows.iter().any(|row| {
                        row.figure.contains(".response.") && row.changes[0].answer == Answer::Higher
                    })
                })
                .count();
        if kind.can_tell() {
            fine &= found >= SLOWER.0;
        }
        println!("  {:<16} {:>4} of {} {:>16}", kind.name(), found, SLOWER.1, wrong(&all));
    }
    println!("\n{}", if fine { "Every bound is kept." } else { "A bound is broken." });
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("it takes --pairs N, with a whole number above 0");
    ExitCode::from(2)
}

/// Compares two recordings; the service times of the second are multiplied by `slow`.
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

/// The figures whose answer is one of the two.
fn claimed(comparison: &Comparison, one: Answer, two: Answer) -> Vec<String> {
    let rows = comparison.rows.iter().filter(|row| [one, two].contains(&row.changes[0].answer));
    rows.map(|row| row.figure.clone()).collect()
}

/// Pairs in which a response is claimed to be lower although it is higher.
fn wrong(all: &[Comparison]) -> usize {
    let lower = |comparison: &&Comparison| {
        claimed(comparison, Answer::Lower, Answer::Lower).iter().any(|figure| figure.starts_with("latency."))
    };
    all.iter().filter(lower).count()
}

/// The figures that were claimed most often.
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
