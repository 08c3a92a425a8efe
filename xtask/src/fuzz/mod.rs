//! `cargo xtask fuzz`: runs libFuzzer with stable Rust.
//!
//! With `--hours`, all fuzz targets share processor time, and `studies/results/fuzz.json` adds up what all calls
//! did: processor time, executed inputs, coverage and findings. A call can end at any moment, because the sum is
//! written after every few minutes, and the inputs that libFuzzer collected remain in `fuzz/corpus`.

mod program;
mod shares;
mod totals;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::process;

use program::{Programs, Run, Work};
use totals::Totals;

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub struct Arguments {
    /// Run only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Run each target for this long.
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u64,
    /// Divide this much processor time among the targets, and add the results to studies/results/fuzz.json.
    ///
    /// Targets with less time in earlier calls get more time. 24 hours can be divided into any number of calls.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = hours)]
    hours: Option<Duration>,
    /// Run this many targets at a time. Without this option, each processor runs one.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Run one target on the input in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "hours"])]
    input: Option<PathBuf>,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of hours, such as 0.5"))?;
    let is_valid = (0.01..=1000.0).contains(&hours);
    is_valid.then(|| Duration::from_secs_f64(hours * 3600.0)).ok_or("use 0.01 to 1000 hours".to_owned())
}

/// The longest run of a target before the sum is written.
const SLICE: Duration = Duration::from_secs(300);

/// Runs the named fuzz targets. If none is named, runs all fuzz targets.
pub fn run(Arguments { targets: chosen, seconds, hours, jobs, input }: &Arguments) -> Result<()> {
    let targets = targets()?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; use one of: {}", targets.join(", "));
    }
    let programs = Programs::build("release")?;
    if let Some(input) = input {
        let [target] = &chosen[..] else { bail!("name one target for the input {}", input.display()) };
        ensure!(
            programs.accepts(target, input, true)?,
            "the fuzz target {target} fails with {}",
            input.display()
        );
        println!("The fuzz target {target} does not fail with {}.", input.display());
        return Ok(());
    }
    let targets = if chosen.is_empty() { targets } else { chosen.clone() };
    let corpora = process::root().join("fuzz/corpus");
    process::outlive_signals()?;
    let mut totals = Totals::read(&targets)?;
    for name in &targets {
        let findings = programs.check_findings(name, &corpora.join(name))?;
        totals.of(name).open = findings;
    }
    let shares = match hours {
        Some(hours) => shares::divide(*hours, &totals.times(&targets)),
        None => vec![Duration::from_secs(*seconds); targets.len()],
    };
    let mut left: Vec<(&String, Duration)> = targets.iter().zip(shares).collect();
    let is_kept = hours.is_some();
    // A target with a finding would find the same again.
    left.retain(|(name, _)| totals.of(name).open.is_empty());
    while !left.is_empty() {
        for group in left.chunks_mut(jobs.map_or_else(process_count, NonZero::get)) {
            let works = group.iter().map(|(name, left)| {
                let options = vec![format!("-max_total_time={}", (*left).min(SLICE).as_secs().max(1))];
                Work { name, options, corpus: corpora.join(name) }
            });
            let runs = programs.run(&works.collect::<Vec<_>>())?;
            for ((name, left), run) in group.iter_mut().zip(runs) {
                println!("{}", said(name, &run));
                *left =
                    if run.finding.is_some() { Duration::ZERO } else { left.saturating_sub(run.processor) };
                totals.of(name).add(run);
            }
            if is_kept {
                totals.write()?;
            }
            if process::check_signals().is_err() {
                totals.show();
                bail!("interrupted; call the command again to continue");
            }
        }
        // With --seconds, one run is enough. Else a run on a busy machine gets less processor time than planned.
        left.retain(|(_, left)| is_kept && *left >= Duration::from_secs(10));
    }
    for name in &targets {
        programs.minimise(name, &corpora.join(name))?;
    }
    totals.show();
    let open: Vec<String> = totals.open();
    ensure!(open.is_empty(), "inputs that make a fuzz target fail:\n{}", open.join("\n"));
    Ok(())
}

fn said(name: &str, run: &Run) -> String {
    let Run { executions, coverage, processor, finding } = run;
    let finding =
        finding.as_ref().map_or("no failure".to_owned(), |file| format!("failed with {}", file.display()));
    let seconds = processor.as_secs_f64();
    format!(
        "fuzz target {name}: {executions} inputs, {coverage} edges, {seconds:.0} s of processor time, {finding}"
    )
}

fn process_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn build() -> Result<()> {
    Programs::build(REPEAT).map(drop)
}

/// Runs every fuzz target on its seed inputs, and then on inputs that are generated from a fixed random seed.
/// Therefore, the result for a change does not depend on chance.
pub fn repeat_all() -> Result<()> {
    // Do not reuse the inputs of an earlier run.
    let found = process::scratch("fuzz")?.join("found");
    process::remove_folder(&found)?;
    let options = [
        "-seed=1".to_owned(),
        format!("-runs={REPEATED_INPUTS}"),
        format!("-max_total_time={REPEATED_SECONDS}"),
    ];
    let (programs, targets) = (Programs::build(REPEAT)?, targets()?);
    for group in targets.chunks(process_count()) {
        let works =
            group.iter().map(|name| Work { name, options: options.to_vec(), corpus: found.join(name) });
        let runs = programs.run(&works.collect::<Vec<_>>())?;
        for (name, run) in group.iter().zip(runs) {
            println!("{}", said(name, &run));
            if let Some(file) = run.finding {
                bail!(
                    "the fuzz target {name} failed; repeat it with `cargo xtask fuzz {name} --input {}`",
                    file.display()
                );
            }
        }
    }
    Ok(())
}

/// The profile for [`repeat_all`], which executes few inputs.
const REPEAT: &str = "repeat";
/// Number of inputs of a fuzz target in a repeatable run, which checks every change. Longer runs are
/// `cargo xtask fuzz --hours`.
const REPEATED_INPUTS: u32 = 30_000;
/// Time limit of a repeatable run in seconds, for slow machines.
const REPEATED_SECONDS: u32 = 8;

/// Returns the names of the fuzz targets in alphabetical order.
fn targets() -> Result<Vec<String>> {
    let dir = process::root().join("fuzz/fuzz_targets");
    let paths =
        files(&dir)?.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    Ok(paths.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect())
}

/// Returns the paths of the files in a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut paths =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.retain(|path| path.is_file());
        paths.sort_unstable();
        Ok(paths)
    };
    list().with_context(|| format!("cannot list {}", folder.display()))
}
