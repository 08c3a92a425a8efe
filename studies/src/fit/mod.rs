//! `cargo studies fit`: fits a profile to an emulated card as a black box, with fio, and compares the profile
//! with tests that the fit did not use.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use xtask::results::{Cell, StudyResult};

use crate::{emulated, process};

const CARDS: [&str; 4] = ["kingston", "ridata", "transcend", "sandisk"];

#[derive(Args)]
pub struct Arguments {
    /// Fit these cards (default: one for each translation layer).
    #[arg(value_name = "CARD")]
    cards: Vec<String>,
}

/// Fits a profile to each named card. If no card is named, fits a profile to one card for each translation
/// layer.
pub fn run(Arguments { cards }: &Arguments) -> Result<()> {
    let fonio = emulated::fonio()?;
    let dir = process::scratch("fit")?;
    let cards: Vec<&str> =
        if cards.is_empty() { CARDS.to_vec() } else { cards.iter().map(String::as_str).collect() };
    let how =
        ["--size", "64MiB", "--range-max", "64MiB", "--runs", "2", "--run-time", "8s", "--time", "60min"];
    let columns = ["card and test", "measured", "predicted", "error"];
    let title = "tests that a fit did not use, predicted by the fitted profile";
    let mut result = StudyResult::begin("fit", title, "cargo studies fit", &columns)?;
    for card in &cards {
        let file = |what: &str| dir.join(format!("{card}-{what}"));
        let (seen, held) = (file("seen.json"), file("held.json"));
        let with = |more: &[&'static str]| -> Vec<&str> { [&how[..], more].concat() };
        emulated::bench(&fonio, card, &with(&["--set", "four,response,address-range,fit"]), &seen)?;
        emulated::bench(&fonio, card, &with(&["--set", "held-back", "--seed", "1000"]), &held)?;
        let mut fit = Command::new(&fonio);
        fit.args(["device", "fit", "--json"]).arg(&seen).arg("--against").arg(&held);
        let out = fit.arg("-o").arg(file("fitted.toml")).stderr(Stdio::inherit()).output()?;
        let fitted: Fitted = serde_json::from_slice(&out.stdout)
            .with_context(|| format!("{} gave no profile ({})", process::shown(&fit), out.status))?;
        eprintln!("{card}: {}", fitted.shape);
        for Prediction { test, measured_mb_s: measured, predicted_mb_s: predicted } in fitted.held_back {
            let error = Cell::once((predicted / measured - 1.0) * 100.0, "%", 1);
            let cells = vec![Cell::once(measured, "MB/s", 3), Cell::once(predicted, "MB/s", 3), error];
            result.row(format!("{card}: {test}"), cells);
        }
    }
    result.keep(cards.len() >= CARDS.len())?;
    Ok(())
}

/// The part of the JSON output of `fonio device fit` that this study reads.
#[derive(Deserialize)]
struct Fitted {
    shape: String,
    held_back: Vec<Prediction>,
}

#[derive(Deserialize)]
struct Prediction {
    test: String,
    measured_mb_s: f64,
    predicted_mb_s: f64,
}
