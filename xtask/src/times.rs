//! `cargo xtask times`: measures the time of each part of the demo and the tests in a new clone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::parts::PARTS;
use xtask::process;
use xtask::results::{Cell, StudyResult};

/// The commands that can be timed, with the arguments of `cargo xtask`.
const COMMANDS: [(&str, &[&str]); 3] =
    [("demo", &["demo"]), ("test", &["test"]), ("fast", &["test", "--fast"])];

/// The options of `cargo xtask times`.
#[derive(Args)]
pub struct Arguments {
    /// Commands to time; `fast` is `test --fast`.
    #[arg(value_parser = COMMANDS.map(|(name, _)| name), default_values = ["demo", "test"])]
    commands: Vec<String>,
}

/// Runs the named commands one after the other, each in a new clone of the last commit. If none are named,
/// runs the demo and the tests. After a run of `fast`, changes one file and runs `fast` again.
pub fn run(Arguments { commands: chosen }: &Arguments) -> Result<()> {
    process::outlive_signals()?;
    let mut text = String::new();
    for (name, words) in COMMANDS.iter().filter(|(name, _)| chosen.iter().any(|word| word == name)) {
        let folder = tempfile::tempdir_in(process::scratch("times")?).context("cannot make a folder")?;
        let clone = folder.path().join("fonio");
        process::run(
            Command::new("git").args(["clone", "--quiet", "--local"]).arg(process::root()).arg(&clone),
        )?;
        let (command, title) = (format!("cargo xtask times {name}"), "the time in a new clone");
        let mut result = StudyResult::begin(&format!("times-{name}"), title, &command, &["", "elapsed"])?;
        let mut times = vec![timed(&format!("cargo xtask {}, cold", words.join(" ")), &clone, words)?];
        if *name == "fast" {
            // Make a typical change: add a comment to a file of a crate on which other crates depend.
            let file = clone.join("crates/fonio-analysis/src/lib.rs");
            let mut source = std::fs::read_to_string(&file)?;
            source.push_str("\n// A change.\n");
            std::fs::write(&file, source)?;
            times.push(timed("cargo xtask test --fast, after a change of fonio-analysis", &clone, words)?);
        }
        for (seconds, name) in times.concat() {
            text += &format!("{:>11}  {name}\n", clock(seconds));
            result.row(name, vec![Cell::once(seconds, "s", 0)]);
        }
        text.push('\n');
        result.keep(true)?;
        process::check_signals()?;
    }
    println!("\n{text}");
    Ok(())
}

/// Runs a command in the clone. Returns the command's time in seconds, and the times of its parts.
fn timed(title: &str, clone: &Path, words: &[&str]) -> Result<Vec<(f64, String)>> {
    let parts = clone.with_file_name("parts");
    std::fs::write(&parts, "")?;
    println!("==== {title}");
    let began = Instant::now();
    let status = Command::new("cargo")
        .arg("xtask")
        .args(words)
        .current_dir(clone)
        .env(PARTS, &parts)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .status()
        .context("cannot start cargo")?;
    let seconds = began.elapsed().as_secs_f64();
    let text = std::fs::read_to_string(&parts)?;
    if !status.success() {
        bail!("{title} failed after {}: {status}\n{text}", clock(seconds));
    }
    Ok(rows(title, seconds, &text))
}

/// Returns the time of the command, the times of its parts, and the rest of the time.
fn rows(title: &str, seconds: f64, parts: &str) -> Vec<(f64, String)> {
    let parts: Vec<(f64, &str)> = parts
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(seconds, name)| Some((seconds.parse().ok()?, name)))
        .collect();
    let rest = seconds - parts.iter().map(|(seconds, _)| seconds).sum::<f64>();
    let mut rows = vec![(seconds, title.to_owned())];
    rows.extend(parts.into_iter().map(|(seconds, name)| (seconds, format!("- {name}"))));
    // This rest includes the compilation of xtask before the first part.
    rows.push((rest, "- the rest, such as the build of xtask".to_owned()));
    rows
}

fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_the_rest_add_up() {
        let rows = rows("cargo xtask test, cold", 610.4, "187.6\tlints\n360.8\ttests\n");
        let shown: Vec<String> =
            rows.iter().map(|(seconds, name)| format!("{} {name}", clock(*seconds))).collect();
        let expected = [
            "10 min 10 s cargo xtask test, cold",
            "3 min 08 s - lints",
            "6 min 01 s - tests",
            "1 min 02 s - the rest, such as the build of xtask",
        ];
        assert_eq!(shown, expected);
    }
}
