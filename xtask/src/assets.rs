//! `cargo xtask assets`: bundles the script and the style of the HTML report, and compiles the BPF programs.
//!
//! The bundle is committed to the repository, so compiling fonio needs neither npm nor a network. The lock
//! file pins the packages, so the bundle is reproducible.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::{bpf, process, tools};

/// The folder of the bundle's sources, relative to the root folder of the repository.
const WEB: &str = "crates/fonio-report/web";

/// The files and folders in [`WEB`] from which the bundle is made.
const SOURCES: [&str; 5] = [".npmrc", "build.mjs", "package.json", "package-lock.json", "src"];

/// The names of the bundle's files in `dist`.
const BUNDLE: [&str; 3] = ["LICENSES.txt", "report.css", "report.js"];

/// The options of `cargo xtask assets`.
#[derive(Args)]
pub struct Arguments {
    /// Make only these assets.
    #[arg(value_parser = ["report", "bpf"])]
    assets: Vec<String>,
}

/// Builds the named assets, or all assets if none is named, and replaces them in the repository.
pub fn run(Arguments { assets }: &Arguments) -> Result<()> {
    let wanted = |name: &str| assets.is_empty() || assets.iter().any(|word| word == name);
    if wanted("bpf") {
        tools::ensure(&[tools::BPF])?;
        for (name, bytes) in bpf::compile()? {
            let path = process::root().join(bpf::FOLDER).join(&name);
            fs::write(&path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
            println!("{}/{name}: {} KiB", bpf::FOLDER, bytes.len().div_ceil(1024));
        }
    }
    if wanted("report") {
        replace_bundle()?;
    }
    Ok(())
}

/// Bundles the sources, and replaces the bundle in the repository.
fn replace_bundle() -> Result<()> {
    tools::ensure(&[tools::ASSETS])?;
    let dist = process::root().join(WEB).join("dist");
    fs::create_dir_all(&dist).with_context(|| format!("cannot create {}", dist.display()))?;
    for (name, bytes) in bundle()? {
        let path = dist.join(name);
        fs::write(&path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{WEB}/dist/{name}: {} KiB", bytes.len().div_ceil(1024));
    }
    Ok(())
}

/// Bundles a copy of the sources in a temporary folder. Returns the names and contents of the bundle's files.
fn bundle() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let folder = tempfile::tempdir_in(process::scratch("assets")?).context("cannot create a folder")?;
    let folder = folder.path();
    let web = process::root().join(WEB);
    process::output(Command::new("cp").arg("-r").args(SOURCES.map(|name| web.join(name))).arg(folder))?;
    npm(folder, &["ci", "--ignore-scripts", "--prefer-offline"])?;
    npm(folder, &["run", "--silent", "build"])?;
    let read = |name| {
        let path = folder.join("dist").join(name);
        Ok((name, fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
    };
    BUNDLE.into_iter().map(read).collect()
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<()> {
    process::output(Command::new("npm").args(arguments).current_dir(folder)).map(drop)
}

#[cfg(test)]
mod tests {
    use fonio_testing::{Need, skip_without};

    use super::*;

    /// Error codes with which npm reports that it cannot reach its registry.
    const UNREACHABLE: &str =
        "EAI_AGAIN ECONNREFUSED ECONNRESET EHOSTUNREACH ENETUNREACH ENOTCACHED ENOTFOUND ETIMEDOUT";

    #[test]
    fn the_bundle_is_made_from_its_sources() {
        skip_without!(Node, Npm);
        let made = match bundle() {
            Ok(made) => made,
            Err(error) => {
                let why = error.to_string();
                let code = UNREACHABLE.split(' ').find(|code| why.contains(&format!("code {code}")));
                let code = code.unwrap_or_else(|| panic!("{why}"));
                return fonio_testing::skip(Need::Npm, format!("npm cannot reach its registry: {code}"));
            }
        };
        for (name, bytes) in made {
            let kept = fs::read(process::root().join(WEB).join("dist").join(name)).unwrap_or_default();
            assert!(kept == bytes, "{WEB}/dist/{name} is out of date: run `cargo xtask assets`");
        }
    }
}
