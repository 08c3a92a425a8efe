//! Seeds databases, and generates load for a results service on this machine. `cargo xtask bench results` and
//! `cargo xtask demo results` run this program. The program connects only to 127.0.0.1.
//!
//! - `load seed DIR RESULTS [--check]`: fills an empty SQLite database with generated results; `--check`
//!   compares the tables with the tables that submissions create
//! - `load models DIR`: writes the results of the shipped models, one file per result
//! - `load ranking PORT RATE SECONDS`: requests pages of rankings at a constant rate, even if replies are
//!   late
//! - `load submit PORT RATE SECONDS FILE`: submits at a constant rate, and adds the id of each acknowledged result to FILE
//! - `load check PORT FILE`: requests each result whose id is in FILE
//! - `load query DIR SECONDS`: reads pages of rankings directly from the SQLite database
//!
//! The last four commands print one JSON object each.

mod clients;
mod seed;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_storebench_document::models;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let printed = match words.as_slice() {
        ["seed", folder, results] => return seed::seed(Path::new(folder), results.parse()?),
        ["seed", folder, results, "--check"] => {
            seed::seed(Path::new(folder), results.parse()?)?;
            return seed::compare(Path::new(folder), results.parse()?);
        }
        ["models", folder] => return models(Path::new(folder)),
        ["ranking", port, rate, seconds] => clients::ranking(port.parse()?, rate.parse()?, seconds.parse()?)?,
        ["submit", port, rate, seconds, file] => {
            clients::submit(port.parse()?, rate.parse()?, seconds.parse()?, file)?
        }
        ["check", port, file] => clients::check(port.parse()?, file)?,
        ["query", folder, seconds] => clients::query(folder.into(), seconds.parse()?)?,
        _ => bail!("usage: load seed|models|ranking|submit|check|query …; main.rs documents the arguments"),
    };
    println!("{printed}");
    Ok(())
}

fn models(folder: &Path) -> Result<()> {
    for document in models::shipped() {
        let name = document.device.model.as_deref().context("a shipped model has no name")?;
        let file = folder.join(format!("model-{name}.json"));
        fs::write(&file, serde_json::to_vec(&document)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
