//! `cargo xtask demo results`: runs the results service once, on this machine.
//!
//! The demo starts the service on a free port with a new database, sends the shipped results of models,
//! measures emulated cards with `fonio storebench`, sends these results as a user would do, and shows the
//! page of the first result. The database, the results and their delete tokens are in a temporary folder.
//! This folder is removed at the end, even after Ctrl-C. fonio itself removes the emulated cards.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::results_service::{self, Service};
use crate::{emulated, process, tools};

/// The profiles of the measured cards. The first is the card of the demo, and the others are compared with
/// it.
const CARDS: [&str; 3] = ["sd_a1", "ridata", "kingston"];

/// The time limit of a StoreBench run; a complete run takes ten minutes.
const TIME_MAX: &str = "60s";

/// The names of the figures that are printed with their ranks.
const FIGURES: [&str; 3] = ["bandwidth.total", "response.rand_read.4k.mean", "response.rand_write.4k.mean"];

/// Runs the demo of the results service.
pub fn run(once: bool) -> Result<()> {
    let once = once || !std::io::stdin().is_terminal();
    if !process::is_root() {
        bail!("emulated cards need root: `sudo -E cargo xtask demo results`");
    }
    tools::ensure(&[tools::DEMO])?;
    let stop = process::outlive_signals()?;
    println!("Building fonio and the results service …");
    let fonio = emulated::fonio()?;
    results_service::build()?;
    process::check_signals()?;
    let folder = tempfile::tempdir_in(process::scratch("demo")?)?;
    let outcome = demonstrate(&Demo { fonio, folder: folder.path(), stop: &stop }, once);
    // All programs that use files in the folder have ended, so it can be removed.
    folder.close().context("cannot remove the folder of the demo")?;
    println!("Removed the database, the results and their delete tokens.");
    match outcome {
        // An error after Ctrl-C is not a failure: the user ends the demo with Ctrl-C.
        Err(_) if stop.load(Ordering::Relaxed) => Ok(()),
        outcome => outcome,
    }
}

struct Demo<'a> {
    fonio: PathBuf,
    folder: &'a Path,
    stop: &'a AtomicBool,
}

fn demonstrate(demo: &Demo<'_>, once: bool) -> Result<()> {
    let data = demo.folder.join("data");
    fs::create_dir(&data)?;
    let mut service = Service::start(&data, None)?;
    let address = format!("http://127.0.0.1:{}", service.port);
    println!("\nThe service runs on {address}/ with a new database.");
    let shipped = demo.models()?;
    for file in &shipped {
        demo.submit(&address, file, false)?;
    }
    println!("Sent fonio's {} model results, which have their own ranking.", shipped.len());

    let [first, others @ ..] = CARDS;
    println!(
        "\nMeasuring {first}, an emulated card: `fonio storebench {first} --quick`, at most {TIME_MAX} instead of 10 min. Quick \
         results are ranked among quick ones only.\n"
    );
    let file = demo.measure(first, true)?;
    println!(
        "\nSending the result, after a preview of every field: `fonio storebench submit --server {address} FILE`\n"
    );
    let page = demo.submit(&address, &file, true)?.context("`submit` did not print the page's address")?;
    println!("\nMeasuring {} for the ranking, in the same way …", others.join(" and "));
    for card in others {
        let file = demo.measure(card, false)?;
        demo.submit(&address, &file, false)?;
    }

    let id = page.rsplit('/').next().unwrap_or_default();
    println!();
    for sentence in standing(first, &serde_json::from_str(&service.get(&format!("/api/v1/results/{id}"))?)?)?
    {
        println!("{sentence}");
    }
    println!("\nThe page of the result: {page}\nThe rankings:           {address}/");
    if once {
        let html = service.get(&format!("/results/{id}"))?;
        if !html.contains(first) {
            bail!("the page {page} does not name {first}");
        }
        println!("The page has {} bytes. The demo and the service end.", html.len());
        return Ok(());
    }
    println!("\nCtrl-C ends the demo.");
    while !demo.stop.load(Ordering::Relaxed) {
        if service.has_ended()? && !demo.stop.load(Ordering::Relaxed) {
            bail!("the service has ended unexpectedly; its message is above");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

impl Demo<'_> {
    /// Writes the model results to files. Returns the paths of these files.
    fn models(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("models");
        fs::create_dir(&folder)?;
        process::run(Command::new(results_service::load()).arg("models").arg(&folder))?;
        let files: std::io::Result<Vec<PathBuf>> =
            fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut files = files?;
        files.sort_unstable();
        Ok(files)
    }

    fn command(&self) -> Command {
        let mut command = process::bound_to_this(&self.fonio);
        // Keep the demo's results, unfinished runs and tokens separate from those of the user.
        command.arg("storebench").env("FONIO_LASTING_STATE", self.folder.join("state"));
        command
    }

    /// Measures an emulated card. Returns the path of the result file.
    fn measure(&self, card: &str, shows: bool) -> Result<PathBuf> {
        let file = self.folder.join(format!("{card}.json"));
        let mut command = self.command();
        command.args([card, "--quick", "--for", TIME_MAX, "--size", "1GiB", "--output"]).arg(&file);
        if !shows {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        // fonio also receives the signals, and then undoes its changes.
        let outcome = process::run(&mut command);
        process::check_signals()?;
        outcome.map(|()| file)
    }

    /// Sends a result to the service. Returns the address of the result's page.
    fn submit(&self, server: &str, file: &Path, shows: bool) -> Result<Option<String>> {
        let mut command = self.command();
        command.args(["submit", "--server", server, "--yes"]).arg(file);
        if shows {
            command.stderr(Stdio::inherit());
        }
        let said = process::output(&mut command);
        process::check_signals()?;
        let mut page = None;
        for line in said?.lines() {
            let address = line.strip_prefix("Received: ").unwrap_or(line);
            if address.starts_with(server) && address.contains("/results/") {
                page = Some(address.to_owned());
            }
            if shows {
                println!("  {line}");
            }
        }
        Ok(page)
    }
}

/// Returns sentences about the rank of a result, which is in the service's response.
fn standing(card: &str, shown: &Value) -> Result<Vec<String>> {
    if let Some(reason) = shown["reason"].as_str() {
        return Ok(vec![format!("{card} has no rank: it is hidden, because {reason}.")]);
    }
    let percentiles = shown["percentiles"].as_array().context("the response has no percentiles")?;
    let of = |figure: &str| percentiles.iter().find(|found| found["figure"] == figure);
    let key = shown["key"].as_str().context("the response has no key")?;
    let mut sentences = vec![format!("{card} among the results with the key {key}:")];
    for found in FIGURES.iter().filter_map(|figure| of(figure)) {
        let number = |name: &str| found[name].as_f64();
        let (figure, unit) = (found["figure"].as_str().unwrap_or(""), found["unit"].as_str().unwrap_or(""));
        let mut sentence = format!(
            "  {figure}: {:.3} {unit}, rank {} of {}",
            number("value").context("a value")?,
            number("rank").context("a rank")?,
            number("results").context("a number of results")?
        );
        if let (Some(percentile), Some(low), Some(high)) =
            (number("percentile"), number("low"), number("high"))
        {
            sentence +=
                &format!("; at least as good as {percentile:.0} % of the others ({low:.0} % to {high:.0} %)");
        }
        sentences.push(sentence);
    }
    if sentences.len() == 1 {
        bail!("the service has no rank for any of {}", FIGURES.join(", "));
    }
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_standing_has_rank_and_percentile() {
        let shown = json!({
            "key": "emulated.v1.quick.directory.ext4.1gb",
            "reason": null,
            "percentiles": [
                { "figure": "bandwidth.total", "value": 80.5, "unit": "MB/s", "rank": 1, "results": 3,
                  "percentile": 100.0, "low": 34.2, "high": 100.0 },
                { "figure": "cpu.iowait", "value": 2.0, "unit": "%", "rank": 1, "results": 1 },
            ],
        });
        assert_eq!(
            standing("sd_a1", &shown).unwrap(),
            [
                "sd_a1 among the results with the key emulated.v1.quick.directory.ext4.1gb:",
                "  bandwidth.total: 80.500 MB/s, rank 1 of 3; at least as good as 100 % of the others (34 % to 100 %)",
            ]
        );
        let hidden = json!({ "reason": "the device is virtual" });
        assert_eq!(
            standing("sd_a1", &hidden).unwrap(),
            ["sd_a1 has no rank: it is hidden, because the device is virtual."]
        );
    }
}
