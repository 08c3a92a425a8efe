//! `cargo xtask times`: measures the time of each part of the demo and the tests in a new clone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::parts::PARTS;
use xtask::process;

/// The commands whose times can be measured, with the arguments of `cargo xtask`.
const COMMANDS: [(&str, &[&str]); 3] =
    [("demo", &["demo"]), ("test", &["test"]), ("fast", &["test", "--fast"])];

/// The options of `cargo xtask times`.
#[derive(Args)]
pub struct Arguments {
    /// Commands to time; `fast` is `test --fast`.
    #[arg(value_parser = COMMANDS.map(|(name, _)| name), default_values = ["demo", "test"])]
    commands: Vec<String>,
}

/// Runs the named commands, or the demo and the tests if none are named, one after the other, each in a new
/// clone of the last commit. Runs `fast` a second time after one file was changed.
pub fn run(Arguments { commands: chosen }: &Arguments) -> Result<()> {
    process::outlive_signals()?;
    let mut tables = Vec::new();
    for (name, words) in COMMANDS.iter().filter(|(name, _)| chosen.iter().any(|word| word == name)) {
        let folder = tempfile::tempdir_in(process::scratch("times")?).context("cannot make a folder")?;
        let clone = folder.path().join("fonio");
        process::run(
            Command::new("git").args(["clone", "--quiet", "--local"]).arg(process::root()).arg(&clone),
        )?;
        tables.push(timed(&format!("cargo xtask {}, cold", words.join(" ")), &clone, words)?);
        if *name == "fast" {
            // Make a typical change: add a comment to a crate on which other crates depend.
            let file = clone.join("crates/fonio-analysis/src/lib.rs");
            let mut text = std::fs::read_to_string(&file)?;
            text.push_str("\n// A change.\n");
            std::fs::write(&file, text)?;
            tables.push(timed("cargo xtask test --fast, after a change of fonio-analysis", &clone, words)?);
        }
        process::check_signals()?;
    }
    println!("\n{}", tables.join("\n\n"));
    Ok(())
}

/// Runs a command in the clone, and returns a table with the times of its parts.
fn timed(title: &str, clone: &Path, words: &[&str]) -> Result<String> {
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
    let table = table(title, seconds, &text);
    if !status.success() {
        bail!("{table}\n{title} failed: {status}");
    }
    Ok(table)
}

/// Formats a table with the times of the parts and the remaining time.
fn table(title: &str, seconds: f64, parts: &str) -> String {
    let parts: Vec<(f64, &str)> = parts
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(seconds, name)| Some((seconds.parse().ok()?, name)))
        .collect();
    let rest = seconds - parts.iter().map(|(seconds, _)| seconds).sum::<f64>();
    let mut lines = vec![format!("{:>11}  {title}", clock(seconds))];
    // The remaining time includes the compilation of xtask before the first part.
    lines.extend(parts.iter().map(|(seconds, name)| format!("{:>11}    {name}", clock(*seconds))));
    lines.push(format!("{:>11}    the rest, such as the build of xtask", clock(rest)));
    lines.join("\n")
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
        let lines = [
            "10 min 10 s  cargo xtask test, cold",
            " 3 min 08 s    lints",
            " 6 min 01 s    tests",
            " 1 min 02 s    the rest, such as the build of xtask",
        ];
        let table = table("cargo xtask test, cold", 610.4, "187.6\tlints\n360.8\ttests\n");
        assert_eq!(table.lines().collect::<Vec<_>>(), lines);
    }
}
