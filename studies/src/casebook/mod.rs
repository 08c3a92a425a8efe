//! `cargo studies casebook`: checks fonio's diagnoses on real programs.
//!
//! Each case was made from a public report. Its author wrote the expected answers without having seen the
//! rules, and before the case was recorded for the first time. A case runs in a Debian root on an emulated
//! card; fonio records the machine as in `fonio check`.

mod case;
mod judge;
mod room;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use xtask::results::{self, Cell, StudyResult};

use crate::emulated::{self, Emulated, Options};
use crate::{asked, process};
use case::Case;
use judge::{Judgement, PARTS};
use room::{Room, Running};

/// The name of a recording in the folder of its case.
const RECORDING: &str = "recording";
/// The time between the start of the load and of the recording.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Args)]
pub struct Arguments {
    /// Run only the cases of this set (default: all sets).
    #[arg(long, value_parser = case::SETS)]
    set: Option<String>,
    /// Run the cases whose names contain one of the words (default: all).
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Keep the recordings in the target directory.
    #[arg(long)]
    keep: bool,
    /// Do not run the cases: judge the recordings that an earlier run kept.
    #[arg(long, conflicts_with = "keep")]
    again: bool,
}

/// Runs the cases whose names contain one of the words, or all cases.
pub fn run(Arguments { set, words, keep, again }: &Arguments) -> Result<()> {
    let folder = process::root().join("studies/casebook");
    let sets = case::SETS.into_iter().filter(|name| set.as_ref().is_none_or(|set| set == name));
    let sets: Vec<&str> = sets.collect();
    let mut cases = Vec::new();
    for set in &sets {
        cases.extend(case::read(&folder, set)?);
    }
    let is_chosen = |case: &&Case| words.is_empty() || words.iter().any(|word| case.name.contains(word));
    let chosen: Vec<&Case> = cases.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        bail!("no case's name contains {}", words.join(" or "));
    }
    let fonio = emulated::fonio()?;
    let room = if *again { None } else { Some(Room::make(&chosen)?) };
    process::outlive_signals()?;
    let mut judged: Vec<(&Case, Judgement)> = Vec::new();
    let mut failed = Vec::new();
    for (at, case) in chosen.iter().enumerate() {
        process::check_signals()?;
        let (number, of) = (at + 1, chosen.len());
        println!("[{number}/{of}] {} (set {}, author {}): {}", case.name, case.set, case.author, case.title);
        println!("      made from {}", case.source);
        let folder = process::scratch("casebook")?.join("cases").join(&case.name);
        let recorded = room.as_ref().map_or(Ok(()), |room| record(&fonio, room, case, &folder));
        let found =
            recorded.and_then(|()| judge::judge(case, &asked::report(&fonio, &folder.join(RECORDING))?));
        if !keep && !again {
            process::remove_folder(&folder)?;
        }
        match found {
            Ok(found) => {
                show(&found);
                judged.push((case, found));
            }
            Err(error) => {
                println!("      not judged: {error:#}");
                failed.push(case.name.as_str());
            }
        }
    }
    if !failed.is_empty() {
        println!("\nNot judged: {}", failed.join(", "));
    }
    for set in sets {
        let of_set: Vec<&(&Case, Judgement)> = judged.iter().filter(|(case, _)| case.set == set).collect();
        let all = cases.iter().filter(|case| case.set == set).count();
        if !of_set.is_empty() {
            keep_result(set, &of_set, of_set.len() == all && !again)?;
        }
    }
    Ok(())
}

fn show(found: &Judgement) {
    let wrong = PARTS.iter().zip(found.parts).filter(|(_, right)| *right == Some(false));
    let wrong: Vec<&str> = wrong.map(|(part, _)| *part).collect();
    let answer = if wrong.is_empty() { "right".to_owned() } else { format!("WRONG: {}", wrong.join("; ")) };
    println!("      {answer}\n      {}", found.said);
}

/// Runs and records one case in a folder.
fn record(fonio: &Path, room: &Room, case: &Case, folder: &Path) -> Result<()> {
    process::remove_folder(folder)?;
    let card = folder.join("card");
    fs::create_dir_all(&card)?;
    let options = Options { mounted: Some((&case.fs, &card)), ..Options::bare(&case.device, &case.size) };
    let emulated = Emulated::start(fonio, &Options { scheduler: "mq-deadline", ..options })?;
    unlimited(&emulated.device)?;
    if let Some(options) = &case.options {
        process::run(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&card))?;
    }
    let mut running = Running::prepare(room, case, &card, folder)?;
    running.load()?;
    thread::sleep(SETTLE);
    let recorded = Command::new(fonio)
        .args(["record", "--for", &format!("{}s", case.seconds), "--output"])
        .arg(folder.join(RECORDING))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot start fonio record")?;
    running.check()?;
    drop(running);
    drop(emulated);
    if !recorded.status.success() {
        bail!("fonio record failed: {}", String::from_utf8_lossy(&recorded.stderr));
    }
    Ok(())
}

/// Removes limits for the write-back to a device, which an earlier case may have set.
fn unlimited(device: &str) -> Result<()> {
    let name = device.trim_start_matches("/dev/");
    for (file, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
        let path = Path::new("/sys/block").join(name).join("bdi").join(file);
        if path.exists() {
            fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Prints the counts of a set, and keeps them if all cases of the set were run. The result of the first set is
/// replaced; the results of other sets remain those of the first run.
fn keep_result(set: &str, judged: &[&(&Case, Judgement)], is_complete: bool) -> Result<()> {
    let id = format!("casebook-{set}");
    let title = format!("correct parts of diagnoses of real programs, {set} set");
    let command = format!("cargo studies casebook --set {set}");
    let mut result = StudyResult::begin(&id, &title, &command, &["", "right", "of"])?;
    println!();
    let count = |parts: &dyn Fn(&Case, &Judgement) -> Option<bool>| {
        let parts: Vec<bool> = judged.iter().filter_map(|(case, found)| parts(case, found)).collect();
        let right = parts.iter().filter(|right| **right).count();
        vec![Cell::count(right), Cell::count(parts.len())]
    };
    for (at, part) in PARTS.iter().enumerate() {
        result.row(*part, count(&|_, found| found.parts[at]));
    }
    let is_right = |found: &Judgement| !found.parts.contains(&Some(false));
    result.row(
        "all parts, where storage is the problem",
        count(&|case, found| case.expected.storage.then(|| is_right(found))),
    );
    result.row(
        "all parts, where it is not",
        count(&|case, found| (!case.expected.storage).then(|| is_right(found))),
    );
    let has_first_run = set != case::SETS[0] && results::folder().join(&id).with_extension("json").exists();
    if has_first_run {
        println!("\nThe kept result of the set `{set}` is that of its first run.");
    }
    result.keep(is_complete && !has_first_run)?;
    Ok(())
}
