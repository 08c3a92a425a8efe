//! `cargo xtask bench storebench models`: computes the results of the shipped profiles' models, which fonio ships as a data set.

use std::fs;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fonio_bench::storebench::models;
use fonio_sim::profile::{Profile, SHIPPED};

use crate::process;

const DATA: &str = "crates/fonio-bench/data/storebench-models.jsonl.gz";

/// Runs the command.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments != ["models"] {
        bail!("`cargo xtask bench storebench models` is the command");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
    // The day is enough.
    let day = now - now % 86_400;
    let tool = format!("fonio {}", env!("CARGO_PKG_VERSION"));
    let mut documents = Vec::new();
    for (name, _) in SHIPPED.iter().filter(|(name, _)| !models::NOT_FLASH.contains(name)) {
        let profile = Profile::shipped(name).context("a shipped profile")?;
        let began = Instant::now();
        let document = models::document(&profile, &tool, day)?;
        let problems = document.check();
        if let Some(problem) = problems.first() {
            bail!("the result of {name} is not in order: {problem}");
        }
        println!("{name:<16} {:>5.1} s  {}", began.elapsed().as_secs_f64(), document.verdict);
        documents.push(document);
    }
    let packed = models::pack(&documents)?;
    let path = process::root().join(DATA);
    fs::write(&path, &packed).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} results in {DATA}: {} bytes", documents.len(), packed.len());
    Ok(())
}
