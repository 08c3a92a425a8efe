//! Fetches the sources of Debian's packages, with package lists of its own. Installs nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// The path of the key with which Debian signs the sources.
const KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns the folder with the sources of a package of Debian 12, as Debian got them from the package's authors. `file` is
/// one of its files. The sources are fetched once and unpacked into `folder`.
pub fn fetch(package: &str, folder: &Path, file: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    if let Some(found) = find(folder, file)? {
        return Ok(found);
    }
    let apt = folder.join("apt");
    fs::create_dir_all(apt.join("lists/partial"))?;
    fs::create_dir_all(apt.join("cache/archives/partial"))?;
    fs::write(apt.join("sources.list"), source_list()?)?;
    for words in [["update"].as_slice(), &["source", "--download-only", package]] {
        let mut get = Command::new("apt-get");
        for (name, place) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            get.arg("-o").arg(format!("{name}={}", apt.join(place).display()));
        }
        get.args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root", "-qq"]);
        // Without this option, an update without a network succeeds.
        get.args(["-o", "APT::Update::Error-Mode=any"]);
        process::output(get.args(words).current_dir(folder))?;
    }
    let script = format!("for archive in {package}_*.orig.tar.xz; do tar -xf \"$archive\"; done");
    process::output(Command::new("sh").args(["-ec", &script]).current_dir(folder))?;
    find(folder, file)?.with_context(|| format!("the sources of {package} have no {file}"))
}

/// Returns the folder in `folder` that has `file`.
fn find(folder: &Path, file: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join(file).exists() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns a source list of apt for Debian 12, with the mirror that this machine uses.
fn source_list() -> Result<String> {
    let mut targets = Command::new("apt-get");
    let said =
        process::output(targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]))?;
    let mirror = said.lines().find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    let mirror =
        mirror.context("this machine's apt has no Debian mirror, which is needed for the sources")?;
    Ok(format!("deb-src [signed-by={KEY}] {mirror} bookworm main\n"))
}
