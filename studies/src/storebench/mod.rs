//! `cargo studies storebench`: computes results for the models of the shipped profiles, or counts how often
//! comparisons of equal cards claim a difference.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use fonio_bench::storebench::models;
use fonio_sim::profile::{Profile, SHIPPED};
use fonio_storebench_document::compare::{Answer, compare};
use fonio_storebench_document::document::Document;
use xtask::results::{Cell, StudyResult};

use crate::{emulated, process};

const DATA: &str = "crates/fonio-storebench-document/data/models.jsonl.gz";

const CARD: &str = "sd_a1";
const CAPACITY: &str = "4GiB";

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Compute the results for the models of the shipped profiles: the data set with which `fonio storebench`
    /// compares results.
    Models,
    /// Measure an emulated card several times, and compare the results with each other (root; 10 minutes per
    /// run).
    Equal {
        /// Measure the card this many times.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
        runs: u32,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.part {
        Part::Models => make_models(),
        Part::Equal { runs } => measure_equal(runs as usize),
    }
}

/// Measures the same emulated card several times, and compares all pairs of results.
fn measure_equal(runs: usize) -> Result<()> {
    let fonio = emulated::fonio()?;
    // The temporary folder must be removed even after a signal.
    process::outlive_signals()?;
    let scratch = process::scratch("storebench")?;
    let folder = tempfile::tempdir_in(scratch).context("cannot make a folder")?;
    println!("Measuring {CARD}, an emulated card, {runs} times: at most {} min.", 10 * runs);
    let mut results = Vec::new();
    for run in 1..=runs {
        process::check_signals()?;
        let file = folder.path().join(format!("{run}.json"));
        let mut command = process::bound_to_this(&fonio);
        command.args(["storebench", CARD, "--size", CAPACITY, "--restart", "--output"]).arg(&file);
        // Hide the output of `fonio storebench`, because it is about a single result.
        command.env("FONIO_LASTING_STATE", folder.path()).stdout(std::process::Stdio::null());
        process::run(&mut command)?;
        let result = read(&file)?;
        println!("run {run}: {}", result.verdict);
        results.push(result);
    }
    let (mut pairs, mut claims) = (0_u32, 0_u32);
    let command = format!("cargo studies storebench equal --runs {runs}");
    let columns = ["runs", "figures compared", "a difference is claimed"];
    let title = "comparisons of StoreBench's results of equal cards";
    let mut kept = StudyResult::begin("storebench-equal", title, &command, &columns)?;
    println!();
    for (at, first) in results.iter().enumerate() {
        for (other, second) in results.iter().enumerate().skip(at + 1) {
            let comparison = compare(first, second);
            let is_compared = |answer| !matches!(answer, Answer::OneRun | Answer::NotMeasured);
            let compared = comparison.figures.iter().filter(|row| is_compared(row.answer)).count();
            let claimed = comparison
                .figures
                .iter()
                .filter(|row| matches!(row.answer, Answer::Better | Answer::Worse | Answer::Differs));
            let names: Vec<String> = claimed
                .map(|row| format!("{} ({:.2})", row.figure.name, row.ratio.unwrap_or(f64::NAN)))
                .collect();
            let said = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            kept.row(format!("{} and {}", at + 1, other + 1), vec![Cell::count(compared), said.into()]);
            pairs += 1;
            claims += u32::from(!names.is_empty());
        }
    }
    kept.remark = format!(
        "{claims} of {pairs} comparisons of equal cards claim a difference. Promised: at most one comparison in twenty."
    );
    println!("\n{}", kept.remark);
    kept.keep(runs >= 3)?;
    Ok(())
}

fn read(file: &Path) -> Result<Document> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a result", file.display()))
}

fn make_models() -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
    // The results contain only the day, not the time of day.
    let day = now - now % 86_400;
    let tool = format!("fonio {}", env!("CARGO_PKG_VERSION"));
    let mut documents = Vec::new();
    for (name, _) in SHIPPED.iter().filter(|(name, _)| !models::NOT_FLASH.contains(name)) {
        let profile = Profile::shipped(name).context("a shipped profile")?;
        let began = Instant::now();
        let document = models::document(&profile, &tool, day)?;
        let problems = document.check();
        if let Some(problem) = problems.first() {
            bail!("the result of {name} is not valid: {problem}");
        }
        println!("{name:<16} {:>5.1} s  {}", began.elapsed().as_secs_f64(), document.verdict);
        documents.push(document);
    }
    let packed = fonio_storebench_document::models::pack(&documents)?;
    let path = process::root().join(DATA);
    fs::write(&path, &packed).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} results in {DATA}: {} bytes", documents.len(), packed.len());
    Ok(())
}
