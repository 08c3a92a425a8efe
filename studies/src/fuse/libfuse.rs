//! Fetches the source of libfuse's example `passthrough_hp`, which Debian's packages do not contain.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

/// The path of the key with which Debian signs the sources.
const KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns the path of the example's source. apt fetches the sources of Debian's libfuse once, with separate
/// package lists, and installs nothing.
pub fn passthrough_hp(folder: &Path) -> Result<PathBuf> {
    let folder = folder.join("libfuse");
    let source = folder.join("example/passthrough_hp.cc");
    if source.exists() {
        return Ok(source);
    }
    std::fs::create_dir_all(folder.join("lists/partial"))?;
    std::fs::create_dir_all(folder.join("cache/archives/partial"))?;
    std::fs::write(folder.join("sources.list"), source_list()?)?;
    for words in [["update"].as_slice(), &["source", "--download-only", "fuse3"]] {
        let mut get = Command::new("apt-get");
        for (name, place) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            get.arg("-o").arg(format!("{name}={}", folder.join(place).display()));
        }
        get.args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root", "-qq"]);
        process::output(get.args(words).current_dir(&folder))?;
    }
    let script = "tar -xf fuse3_*.orig.tar.xz --strip-components=1";
    process::output(Command::new("sh").args(["-c", script]).current_dir(&folder))?;
    ensure!(source.exists(), "the sources of libfuse have no example/passthrough_hp.cc");
    Ok(source)
}

/// Returns a source list of apt for Debian 12, with the mirror that this machine uses.
fn source_list() -> Result<String> {
    let mut targets = Command::new("apt-get");
    let said =
        process::output(targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]))?;
    let mirror = said.lines().find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    let mirror = mirror.context("this machine's apt has no Debian mirror")?;
    Ok(format!("deb-src [signed-by={KEY}] {mirror} bookworm main\n"))
}
