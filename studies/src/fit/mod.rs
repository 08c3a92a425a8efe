//! `cargo studies fit`: fits a profile to an emulated card with fio, as to a black box, and compares it
//! with tests that the fit did not use.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::{emulated, process};

/// One card for each translation layer.
const CARDS: [&str; 4] = ["kingston", "ridata", "transcend", "sandisk"];

/// The options of `cargo studies fit`.
#[derive(Args)]
pub struct Arguments {
    /// Fit these cards (default: one for each translation layer).
    #[arg(value_name = "CARD")]
    cards: Vec<String>,
}

/// Fits each named card, or one card of each kind.
pub fn run(Arguments { cards }: &Arguments) -> Result<()> {
    let fonio = emulated::fonio()?;
    let dir = process::scratch("fit")?;
    let cards: Vec<&str> =
        if cards.is_empty() { CARDS.to_vec() } else { cards.iter().map(String::as_str).collect() };
    let how =
        ["--range", "64MiB", "--range-max", "64MiB", "--runs", "2", "--run-time", "8s", "--for", "60min"];
    for card in cards {
        let file = |what: &str| dir.join(format!("{card}-{what}"));
        let (seen, held) = (file("seen.json"), file("held.json"));
        let with = |more: &[&'static str]| -> Vec<&str> { [&how[..], more].concat() };
        emulated::bench(&fonio, card, &with(&["--set", "four,response,address-range,fit"]), &seen)?;
        emulated::bench(&fonio, card, &with(&["--set", "held-back", "--seed", "1000"]), &held)?;
        println!("== {card}");
        let mut fit = Command::new(&fonio);
        fit.args(["device", "fit"]).arg(&seen).arg("--against").arg(&held).arg("-o").arg(file("fitted.toml"));
        process::run(&mut fit)?;
    }
    Ok(())
}
