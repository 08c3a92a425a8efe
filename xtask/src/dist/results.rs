//! `cargo xtask dist results`: the results service as a static program, a Debian package, and a folder for its container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{folder, output, package};
use crate::process;

/// The name of the program, its crate and its package.
const PROGRAM: &str = "fonio-results";

const UNIT: &str = "packages/results/fonio-results.service";

/// The unit's user exists only while the service runs, so no script makes one. The administrator starts the service.
const CONTROL: &str = "\
Package: fonio-results
Maintainer: The fonio developers <fonio@localhost>
Section: net
Priority: optional
Suggests: postgresql
Homepage: https://github.com/fonio/fonio
";

const DESCRIPTION: &str = "\
Description: receives, ranks and shows results of fonio storebench
 The service stores results that owners of flash storage send with fonio
 storebench submit, ranks those that may be compared, and shows them as pages
 without script. It has an embedded database, or uses PostgreSQL.
";

/// Packs a built program for a Debian architecture.
pub fn make(architecture: &str, program: &Path) -> Result<PathBuf> {
    let tree = process::scratch("dist")?.join(format!("results-{architecture}"));
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    copy(program, &tree.join("usr/bin/fonio-results"), 0o755)?;
    copy(&process::root().join(UNIT), &tree.join("usr/lib/systemd/system/fonio-results.service"), 0o644)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "docs/results-service.md"] {
        let from = process::root().join(name);
        let to = from.file_name().context("a file has a name")?;
        copy(&from, &tree.join("usr/share/doc/fonio-results").join(to), 0o644)?;
    }
    let control = tree.join("DEBIAN/control");
    fs::create_dir_all(tree.join("DEBIAN"))?;
    let version = package::VERSION;
    fs::write(&control, format!("{CONTROL}Version: {version}\nArchitecture: {architecture}\n{DESCRIPTION}"))?;
    let made = folder()?.join(format!("{PROGRAM}_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--build", "--root-owner-group", "-Zxz"]).arg(&tree).arg(&made).stdout(Stdio::null());
    process::run(&mut pack)?;
    Ok(made)
}

/// Makes the folder from which the container is built.
pub fn container(program: &Path) -> Result<PathBuf> {
    let context = folder()?.join("results");
    copy(program, &context.join(PROGRAM), 0o755)?;
    fs::create_dir_all(context.join("data"))?;
    Ok(context)
}

/// The exposure of the unit in the words of systemd, if this machine can say it.
pub fn exposure() -> Option<String> {
    let unit = process::root().join(UNIT);
    let text =
        output(Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).arg(unit))
            .ok()?;
    let line = text.lines().rev().find(|line| line.contains("Overall exposure level"))?;
    Some(line.trim_start_matches(['→', ' ']).to_owned())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let parent = to.parent().context("a file is in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}
