//! Manages files that belong only to fonio: systemd drop-ins and units.
//!
//! Invariant: files and folders are recorded before they are created. Only empty folders and files with
//! fonio's content are removed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::{files, replace};

/// The first line of each file that belongs only to fonio.
pub(in crate::settings) const HEADER: &str =
    "# Written by `fonio fix apply --keep`; `fonio fix undo` takes the lines out again.\n";

/// The first line of fonio's files that earlier builds wrote.
pub(super) const FORMER_HEADER: &str =
    "# Written by `fonio fix --keep`; `fonio fix --undo` takes the lines out again.\n";

/// Returns the text of one of fonio's files without the first line.
pub(super) fn body(text: &str) -> &str {
    let without = [HEADER, FORMER_HEADER].iter().find_map(|header| text.strip_prefix(header));
    without.unwrap_or(text)
}

/// Files that belong only to fonio, and the folders that were created for these files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnFiles {
    files: Vec<OwnFile>,
    folders: Vec<PathBuf>,
}

/// A file that belongs only to fonio, with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::settings) struct OwnFile {
    pub path: PathBuf,
    /// The lines after fonio's header.
    pub lines: Vec<String>,
}

impl OwnFile {
    fn body(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn is_there(&self) -> Result<bool, HostError> {
        let text = files::read(&self.path)?;
        let own = body(&text);
        Ok(own.len() < text.len() && own == self.body())
    }
}

impl OwnFiles {
    /// Plans to create `files`. These files also own each folder that is missing or was created for `others`,
    /// so a folder is removed with its last owner.
    pub(super) fn plan<'o>(files: Vec<OwnFile>, others: impl Iterator<Item = &'o OwnFiles>) -> OwnFiles {
        let known: Vec<&PathBuf> = others.flat_map(|other| &other.folders).collect();
        let mut folders = Vec::new();
        for file in &files {
            let is_ours = |folder: &&Path| !folder.exists() || known.contains(&&folder.to_path_buf());
            let missing: Vec<_> = file.path.ancestors().skip(1).take_while(is_ours).collect();
            for folder in missing.into_iter().rev().map(Path::to_path_buf) {
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
        OwnFiles { files, folders }
    }

    pub(super) fn files(&self) -> &[OwnFile] {
        &self.files
    }

    /// Returns whether any of the files exists with fonio's content.
    pub(super) fn are_there(&self) -> Result<bool, HostError> {
        self.files.iter().try_fold(false, |found, file| Ok(found || file.is_there()?))
    }

    pub(super) fn put(&self) -> Result<(), HostError> {
        for folder in &self.folders {
            fs::create_dir_all(folder).map_err(HostError::system("make", folder))?;
            files::sync_folder(folder)?;
        }
        for file in &self.files {
            replace::replace(&file.path, &format!("{HEADER}{}", file.body()))?;
        }
        Ok(())
    }

    /// Removes the files that have fonio's content. Returns whether all files had this content.
    pub(super) fn take(&self) -> Result<bool, HostError> {
        let mut were_there = true;
        for OwnFile { path, .. } in &self.files {
            // A killed process may have left a temporary file.
            replace::finish(path)?;
        }
        for file in &self.files {
            if file.is_there()? {
                files::remove(&file.path)?;
                files::sync_folder(&file.path)?;
            } else {
                were_there = false;
            }
        }
        self.folders.iter().rev().try_for_each(|folder| files::remove_empty_folder(folder))?;
        Ok(were_there)
    }
}
