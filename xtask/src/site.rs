//! `cargo xtask site`: builds the pages of the documentation with Sphinx, and checks the files for forges.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use xtask::process;

use crate::python::environment_of;

/// The packages of the site with their versions, and the script that builds it.
const REQUIREMENTS: &str = "docs/site/requirements.txt";
const BUILD: &str = "docs/site/build.py";
/// The workflows, each with the schema that checks it.
const WORKFLOWS: [(&str, &[&str]); 2] = [
    ("vendor.github-workflows", &[".github/workflows/check.yml", ".github/workflows/release.yml"]),
    ("vendor.gitlab-ci", &[".gitlab-ci.yml"]),
];

/// The options of `cargo xtask site`.
#[derive(Args)]
pub struct Arguments {}

/// Builds the site. Fails if its packages cannot be installed.
pub fn run(_: &Arguments) -> Result<()> {
    let place = check()?.context("the site was not built")?;
    println!("{}", place.join("index.html").display());
    Ok(())
}

/// Builds the site in `target/site`; warnings are errors. Also checks the workflows against the schemas of their
/// forges. Returns the folder, or `None` if the packages cannot be installed and need not be there.
pub fn check() -> Result<Option<PathBuf>> {
    let Some(python) = environment_of("site-python", REQUIREMENTS, "the site is not built")? else {
        return Ok(None);
    };
    let place = process::target().join("site");
    let mut build = Command::new(&python);
    build.arg(process::root().join(BUILD)).arg(process::scratch("site")?).arg(&place);
    process::run(build.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    for (schema, files) in WORKFLOWS {
        let mut validate = Command::new(&python);
        validate.args(["-m", "check_jsonschema", "--builtin-schema", schema]).args(files);
        process::run(validate.current_dir(process::root()))?;
    }
    Ok(Some(place))
}
