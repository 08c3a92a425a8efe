//! `cargo xtask test`: everything that must pass before a change lands.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::{fuzz, process, tally, tidy, tools};

/// Runs all steps, the cheap ones first and the tests last, so that the output ends with their summary.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(unknown) = arguments.first() {
        bail!("`{unknown}` is not an option; it takes none");
    }
    // A wrong name is reported now, not minutes later at the first test.
    fonio_testing::required(&std::env::var(fonio_testing::REQUIRE).unwrap_or_default())
        .map_err(anyhow::Error::msg)?;
    tools::ensure(&[tools::BUILD, tools::ASSETS, tools::TEST])?;
    tools::ensure_duckdb()?;
    step("invariants", tidy::run)?;
    step("format", || process::run(process::cargo().args(["fmt", "--all", "--check"])))?;
    step("lints", || {
        let mut clippy = process::cargo();
        clippy.arg("clippy").args(process::WHOLE_WORKSPACE);
        process::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
    })?;
    step("documentation", || {
        let mut doc = process::cargo();
        doc.arg("doc").args(process::WHOLE_WORKSPACE).args(["--no-deps", "--document-private-items"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    if process::cargo().args(["deny", "--version"]).output().is_ok_and(|out| out.status.success()) {
        step("licences", || {
            process::run(process::cargo().args(["deny", "check", "licenses", "bans", "sources"]))
        })?;
    } else {
        println!("== licences: skipped, cargo-deny is not installed (`cargo install cargo-deny`)");
    }
    step("fuzz", fuzz::repeat_all)?;
    println!("== tests");
    tally::run()
}

fn step(name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    println!("== {name}");
    body()?;
    println!("== {name}: fine, {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}
