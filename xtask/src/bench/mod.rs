//! `cargo xtask bench`: the speed and the cost of fonio's own code. Measurements with a scientific answer are studies
//! (`cargo studies`).

mod report;
mod results;
mod sync_policy;
mod watch;

use anyhow::Result;

use crate::{process, tools};

/// The benchmarks that are examples of a crate: their names, the crates and the examples.
const EXAMPLES: [(&str, &str, &str); 4] = [
    ("devices", "fonio-sim", "speed"),
    ("record", "fonio-record", "overhead"),
    ("blocked", "fonio-record", "blocked_cost"),
    ("statements", "fonio-record", "statements_cost"),
];

/// Runs the named benchmark, or without a name that of the report.
pub fn run(arguments: &[String]) -> Result<()> {
    let [name, rest @ ..] = arguments else { return report::run(arguments) };
    match name.as_str() {
        "results" => results::run(rest),
        "sync-policy" => sync_policy::run(rest),
        "watch" => watch::run(rest),
        name => match EXAMPLES.into_iter().find(|(known, ..)| *known == name) {
            Some((_, package, example)) => {
                tools::ensure(&[tools::BUILD, tools::BENCH])?;
                let mut bench = process::cargo();
                bench.args(["run", "--release", "--package", package, "--example", example, "--"]);
                process::run(bench.args(rest))
            }
            None => report::run(arguments),
        },
    }
}
