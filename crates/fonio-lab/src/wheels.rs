//! Packages of PyPI for root directories of programs.
//!
//! pip runs in a Debian with a compiler, because some packages are sources only, and installs into a folder whose files are
//! then copied into the programs' root directory. So that root has neither pip nor a compiler.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use crate::error::LabError;
use crate::programs;
use crate::root::hash;

const INSTALL: &str = concat!(include_str!("roots.sh"), include_str!("wheels.sh"));
/// Debian's packages that fetch and build packages of PyPI.
pub(crate) const BUILDER: &[&str] = &["build-essential", "python3-dev", "python3-pip"];
/// Debian's packages that packages of PyPI need: wheels for any Linux expect the C++ library.
pub(crate) const NEEDED: &[&str] = &["libstdc++6", "python3"];
/// Environment variables that say where pip finds PyPI.
const KEPT: &[&str] = &[
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// The files of installed packages.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The folder whose files belong into the root directory.
    pub(crate) tree: PathBuf,
    /// All packages with their versions, one in a line.
    pub(crate) versions: String,
}

/// Returns a text that changes when the installation changes.
pub(crate) fn recipe() -> String {
    let parts: Vec<&str> = BUILDER.iter().chain(NEEDED).copied().chain([INSTALL]).collect();
    format!("{:08x}", hash(&parts) as u32)
}

/// Installs `wheels` and what they depend on into `folder`, which is made, with the programs in the root directory
/// `builder`. Fails if PyPI cannot be reached or lacks a package, if packages do not go together, or if one cannot be
/// built.
pub(crate) fn unpacked(
    builder: &Path,
    wheels: &[String],
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Unpacked, LabError> {
    let tree = folder.join("tree");
    for made in [folder.to_owned(), tree.clone(), folder.join("scratch"), folder.join("tmp")] {
        fs::create_dir(&made).map_err(LabError::system("make", &made))?;
    }
    let list = folder.join("list");
    let lines: String = wheels.iter().map(|wheel| format!("{wheel}\n")).collect();
    fs::write(&list, lines).map_err(LabError::system("write", &list))?;
    let mut install = programs::in_namespaces(INSTALL);
    install.args([builder, folder]);
    for name in KEPT {
        if let Ok(value) = std::env::var(name) {
            install.arg(format!("{name}={value}"));
        }
    }
    let shown = stderr().is_terminal();
    let shown = if shown { Stdio::from(stderr()) } else { Stdio::null() };
    let ended = programs::ended(&mut install, "util-linux", shown, stop)?;
    if !ended.success {
        let complaint = String::from_utf8_lossy(&ended.complaint);
        return Err(explained(&complaint).unwrap_or_else(|| programs::failed(&install, &ended.complaint)));
    }
    let versions = folder.join("versions");
    let versions = fs::read_to_string(&versions).map_err(LabError::system("read", &versions))?;
    Ok(Unpacked { tree, versions })
}

/// Returns the reason for which pip failed, if its complaint tells it.
fn explained(complaint: &str) -> Option<LabError> {
    let after = |text: &str| {
        let found = complaint.lines().find_map(|line| Some(line.split_once(text)?.1))?;
        Some(found.trim().to_owned())
    };
    if let Some(wanted) = after("No matching distribution found for ") {
        // The list of versions is empty if PyPI has no such package, or if it cannot be read.
        let versions = after("(from versions: ").unwrap_or_default();
        let versions = versions.trim_end_matches(')');
        if versions == "none" && complaint.contains("Retrying (") {
            let connection = complaint.lines().find(|line| line.contains("Retrying ("))?;
            let connection =
                connection.split_once("after connection broken by ").map_or("", |(_, rest)| rest);
            return Some(LabError::NoPypi { complaint: shortened(connection) });
        }
        let wanted = wanted.split(' ').next().unwrap_or_default();
        let name = wanted.split(['=', '<', '>', '!', '~', '[', ';']).next().unwrap_or_default().to_owned();
        let for_others: Vec<&str> =
            complaint.lines().filter(|line| line.contains("require a different python version")).collect();
        if versions == "none" && for_others.is_empty() {
            return Some(LabError::NoWheel { name });
        }
        let asked = wanted.split_once("==").map_or(wanted, |(_, version)| version);
        if for_others.iter().any(|line| line.contains(&format!(" {asked} Requires-Python"))) {
            return Some(LabError::WheelForOtherPython { name, version: asked.to_owned() });
        }
        let newest = versions.rsplit(", ").next().unwrap_or_default().to_owned();
        return Some(LabError::NoWheelVersion { name, version: asked.to_owned(), newest });
    }
    if let Some(wheels) = after("ERROR: Cannot install ") {
        return Some(LabError::WheelsConflict { wheels });
    }
    let wheel = after("Failed building wheel for ").or_else(|| after("Failed to build "))?;
    let error = complaint.lines().rfind(|line| line.trim_start().starts_with("error: "));
    let error = error.unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
    Some(LabError::WheelNotBuilt { wheel, complaint: shortened(&error) })
}

/// The longest part of a message of pip that an error repeats, in characters.
const SAID_CHARACTERS: usize = 300;

fn shortened(text: &str) -> String {
    let end = text.char_indices().nth(SAID_CHARACTERS).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found_in_what_pip_prints() {
        for (complaint, said) in [
            (
                "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(\"x\")': \
                 /simple/a/\nERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)\n\
                 ERROR: No matching distribution found for a==1\n",
                "PyPI cannot be read ('NewConnectionError(\"x\")': /simple/a/); is the network up?",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)\n\
                 ERROR: No matching distribution found for a==1\n",
                "PyPI has no package `a`",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1.0, 1.1)\n\
                 ERROR: No matching distribution found for a==9\n",
                "PyPI has no version 9 of `a`; the newest one for the Python of this Debian is 1.1",
            ),
            (
                "ERROR: Ignored the following versions that require a different python version: 9 Requires-Python >=3.99\n\
                 ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1.0, 1.1)\n\
                 ERROR: No matching distribution found for a==9\n",
                "version 9 of `a` needs another Python than the one of this Debian; name an older or a newer version",
            ),
            (
                "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\n",
                "pip cannot install a==1 and b==2 because these package versions have conflicting dependencies.",
            ),
            (
                "  x.c:1:10: fatal error: no.h: No such file\n  error: command 'gcc' failed with exit code 1\n\
                 ERROR: Failed building wheel for a\n",
                "the package `a` of PyPI must be built from its sources, and this fails (command 'gcc' failed with exit code 1)",
            ),
        ] {
            let found = explained(complaint).expect(complaint).to_string();
            assert!(found.starts_with(said), "{found}");
        }
        assert!(explained("no space left on device").is_none());
    }
}
