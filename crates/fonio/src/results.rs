//! Manages the directory with the results of a series of runs. Only the user who called fonio can read results.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use fonio_recording::WriterOptions;
use fonio_system::{Caller, private, say};

use crate::cli::run::SetupArgs;
use crate::kept;

/// Returns the options for a recording that belongs to the person who called fonio.
pub fn recording(overwrite: bool) -> WriterOptions {
    let owner = Caller::through_sudo().map(|caller| (caller.user, caller.group));
    WriterOptions { overwrite, owner, ..WriterOptions::default() }
}

/// Returns the path of a series' HTML report.
pub fn page(arguments: &SetupArgs, out: &Path) -> PathBuf {
    arguments.html.clone().unwrap_or_else(|| out.join("report.html"))
}

/// The default name of a series' results directory.
pub const RESULTS: &str = "fonio-runs";

/// Creates a directory that no other series uses: the directory that the user named, or the first of
/// `default`, `default-2`, … that does not exist.
pub fn results_directory(named: Option<&Path>, default: &str) -> Result<PathBuf> {
    if let Some(named) = named {
        private::create_folders(named).with_context(|| format!("cannot create {}", named.display()))?;
        let mut entries = fs::read_dir(named).with_context(|| format!("cannot list {}", named.display()))?;
        ensure!(
            entries.next().is_none(),
            "{} is not empty; name a new directory with --output",
            named.display()
        );
        return Ok(named.to_owned());
    }
    for number in 1_u32.. {
        let name = if number == 1 { default.to_owned() } else { format!("{default}-{number}") };
        // Creating the directory also claims it, so two series that start at the same time get different
        // directories.
        match private::create_folder(Path::new(&name)) {
            Ok(()) => return Ok(name.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {name}")),
        }
    }
    unreachable!("a directory has fewer than 2^32 names")
}

/// The folder of the results of proofs in the state folder.
const PROOFS: &str = "proofs";

/// Creates the directory for the results of a proof with a command, or of a cure: the directory that the user named, or a new one
/// in the state folder, so that nothing is left in the folder of the user's program. If the state folder cannot
/// be used, the directory is in the current folder.
pub fn proof_directory(named: Option<&Path>) -> Result<PathBuf> {
    if named.is_some() {
        return results_directory(named, RESULTS);
    }
    let made = kept::place(PROOFS).and_then(|path| {
        private::create_folder(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    });
    made.or_else(|error| {
        say!("The results go to the current folder (name another with --output): {error:#}");
        results_directory(None, RESULTS)
    })
}

/// Returns whether these results are in the state folder.
pub fn is_kept(results: &Path) -> bool {
    kept::folder(PROOFS).is_ok_and(|folder| results.starts_with(folder))
}

/// Writes the series to `summary.json` and returns the text of this file.
pub fn summarise(series: &impl serde::Serialize, out: &Path) -> Result<String> {
    let summary = out.join("summary.json");
    let text = serde_json::to_string_pretty(series)?;
    private::write_file(&summary, text.as_bytes())
        .with_context(|| format!("cannot write {}", summary.display()))?;
    Ok(text)
}
