//! Writes the results of models that come with fonio into a folder, each in a file of its own: `models DIR`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use fonio_storebench_document::models;

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("usage: models DIR")?);
    for document in models::shipped() {
        let name = document.device.model.as_deref().context("a model has a name")?;
        let file = folder.join(format!("model-{name}.json"));
        fs::write(&file, serde_json::to_vec(&document)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
