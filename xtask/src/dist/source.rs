//! Makes the source archive: the files of the last commit, as `fonio-VERSION.tar.gz`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::folder;
use super::package::{self, VERSION};
use crate::process;

/// Creates the archive. The same commit gives the same bytes: git writes the files in order with the time of the
/// commit, and the compressed file has no name and no time.
pub fn make() -> Result<PathBuf> {
    let mut git = Command::new("git");
    git.args(["-c", "tar.umask=0022", "archive", "--format=tar"]).current_dir(process::root());
    git.arg(format!("--prefix=fonio-{VERSION}/")).arg("HEAD");
    let out = git.stderr(Stdio::inherit()).output().context("cannot start git")?;
    ensure!(
        out.status.success(),
        "{} failed: {}; the source archive needs the git repository",
        process::shown(&git),
        out.status
    );
    let archive = folder()?.join(format!("fonio-{VERSION}.tar.gz"));
    fs::write(&archive, package::gzipped(&out.stdout)?)
        .with_context(|| format!("cannot write {}", archive.display()))?;
    let changed = process::output(
        Command::new("git")
            .args(["status", "--porcelain", "--untracked-files=no"])
            .current_dir(process::root()),
    )?;
    if !changed.is_empty() {
        println!(
            "The source archive has the last commit, without the changes of {} files.",
            changed.lines().count()
        );
    }
    Ok(archive)
}
