//! Reproduces the cost of the study's monitor (section 3.2) with fonio's recorder: by how much recording lengthens a
//! program's run.

use anyhow::{Context, Result};

use super::measured::Kind;
use super::published::Published;
use super::row::Row;
use super::runs::Runs;

const SCRIPT: &str = include_str!("kim_monitor.sh");
const DEVICE: &str = "transcend";
/// Rounds with one run without and one with the recorder.
const ROUNDS: usize = 10;

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let below = published.number("kim.monitor.overhead_percent_below")?;
    let said = runs.on_a_card(DEVICE, "kim_monitor.sh", SCRIPT, ROUNDS)?;
    let with = Kind::RealProgram.runs(times(&said, "with")?);
    let without = Kind::RealProgram.runs(times(&said, "without")?);
    Ok(vec![Row::no_effect(
        "SQLite's shell, with fonio's recorder",
        format!("less than {below} % longer"),
        |times| format!("{:+.1} % longer", (times - 1.0) * 100.0),
        (&with.over(&without), 1.0 + below / 100.0),
        "the recorder shares this machine's processors with the program and with the emulated card",
    )])
}

/// Returns the times of one kind, in seconds, by round.
fn times(said: &str, kind: &str) -> Result<Vec<f64>> {
    let mut times = vec![None; ROUNDS];
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [round, word, ns] = words[..] else { continue };
        let round: usize = round.parse().with_context(|| format!("not a round: {line}"))?;
        let ns: f64 = ns.parse().with_context(|| format!("not a time: {line}"))?;
        if word == kind
            && let Some(time) = round.checked_sub(1).and_then(|at| times.get_mut(at))
        {
            *time = Some(ns / 1e9);
        }
    }
    times.into_iter().collect::<Option<_>>().with_context(|| format!("a round has no run {kind} recorder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_both_kinds_are_read_by_round() {
        let said: String =
            (1..=ROUNDS).rev().map(|round| format!("{round} with {round}000000000\n")).collect();
        assert_eq!(times(&said, "with").expect("all rounds")[2], 3.0);
        let error = times(&said, "without").expect_err("no such run").to_string();
        assert_eq!(error, "a round has no run without recorder");
    }
}
