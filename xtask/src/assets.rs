//! The script and the style of the HTML report: what `crates/fonio-report/build.rs` runs by itself when they are
//! missing or old, asked for by name.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{process, tools};

/// Builds `crates/fonio-report/web/dist` from the pinned packages.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(unknown) = arguments.first() {
        bail!("`{unknown}` is not an option; the command takes none");
    }
    tools::ensure(&[tools::BUILD])?;
    let web = process::root().join("crates/fonio-report/web");
    process::run(Command::new("npm").args(["run", "--silent", "assets"]).current_dir(&web))?;
    for name in ["report.js", "report.css"] {
        let bytes = web.join("dist").join(name).metadata()?.len();
        println!("crates/fonio-report/web/dist/{name}: {} KiB", bytes.div_ceil(1024));
    }
    Ok(())
}
