//! Manages the files of results, unfinished runs and delete tokens in the persistent state folder.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fonio_storebench_document::document::Document;
use fonio_system::{TrustedFolder, private, regular, state};

use super::run::Kept;
use crate::error::BenchError;

/// Maximum size of the file of an unfinished run or a token, which is far smaller.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of bytes of a file that is read as a result. A result has at most 64 KiB, and the check of
/// the document says so.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Opens the folder of results; creates it if it is missing. Other users cannot change this folder.
fn folder() -> Result<TrustedFolder, BenchError> {
    let folder = state::lasting_folder().ok_or(BenchError::NoStateFolder)?.join("storebench");
    Ok(TrustedFolder::make(&folder)?)
}

/// Returns an unused file name for a result, derived from the time of the result.
pub fn new_file(document: &Document) -> Result<PathBuf, BenchError> {
    let folder = folder()?;
    let name = |number: u32| {
        let more = if number == 0 { String::new() } else { format!("-{number}") };
        folder.path().join(format!("storebench-{}{more}.json", document.began_unix_s))
    };
    Ok((0..).map(name).find(|path| !path.exists()).expect("a folder has fewer files than 2³²"))
}

/// Writes a result file.
pub fn write(document: &Document, path: &Path) -> Result<(), BenchError> {
    let text = serde_json::to_string_pretty(document).map_err(std::io::Error::from);
    let written = text.and_then(|text| replace(path, (text + "\n").as_bytes()));
    written.map_err(BenchError::system("write", path))
}

/// Writes a file atomically, readable only by the current user. The user may have named the path.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(new);
    let written = new_file_at(&new).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        // Try to remove the file, which usually works even after a failed write.
        let _ = fs::remove_file(&new);
    })
}

fn new_file_at(path: &Path) -> std::io::Result<File> {
    match fs::remove_file(path) {
        // A killed process with the same id may have left this file.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private::create_new_file(path)
}

/// Reads a result file and checks it.
pub fn read(path: &Path) -> Result<Document, BenchError> {
    let json = regular::read(path, FILE_BYTES_MAX).map_err(BenchError::system("read", path))?;
    let refused = |reason: String| BenchError::NotAResult { path: path.to_owned(), reason };
    if json.is_empty() {
        return Err(refused("it is empty".to_owned()));
    }
    Document::parse(&json).map_err(|problems| {
        let shown: Vec<String> = problems.iter().take(3).map(ToString::to_string).collect();
        refused(shown.join("; "))
    })
}

/// The file that stores an unfinished run on one target.
#[derive(Debug)]
pub struct Unfinished {
    folder: TrustedFolder,
    name: String,
}

impl Unfinished {
    /// Returns the file for unfinished runs on a target; the file may not exist.
    pub fn of(target: &Path) -> Result<Unfinished, BenchError> {
        let name = format!("unfinished-{:016x}.json", number_of(target.as_os_str().as_bytes()));
        Ok(Unfinished { folder: folder()?, name })
    }

    /// Reads the unfinished run from its file. Returns `None` if the file is unreadable, because another
    /// version of fonio wrote it; in this case, the run cannot be continued.
    pub fn read(&self) -> Option<Kept> {
        serde_json::from_slice(&self.folder.read(&self.name, BYTES_MAX).ok()??).ok()
    }

    /// Saves a run to its file.
    pub fn save(&self, kept: &Kept) -> Result<(), BenchError> {
        let path = self.folder.path().join(&self.name);
        let text = serde_json::to_vec(kept).map_err(std::io::Error::from);
        let saved = text.and_then(|text| Ok(self.folder.replace(&self.name, &text)?));
        saved.map_err(BenchError::system("save the finished parts in", path))
    }

    /// Removes the file of the unfinished run.
    pub fn remove(&self) -> Result<(), BenchError> {
        Ok(self.folder.remove(&self.name)?)
    }
}

/// Returns the folder and the name of the file for the delete token of a result on a server.
fn token_file(server: &str, id: &str) -> Result<(TrustedFolder, String), BenchError> {
    // Check the id, because it comes from a server and becomes a file name.
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if id.is_empty() || id.len() > 128 || !id.chars().all(is_safe) {
        return Err(BenchError::NotAnId { id: id.escape_debug().to_string() });
    }
    let folder = TrustedFolder::make(&folder()?.path().join("tokens"))?;
    Ok((folder, format!("{:016x}-{id}", number_of(server.as_bytes()))))
}

/// Hashes a target's path or a server's address to a number for a file name. FNV-1a gives the same number in
/// every version of fonio.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Saves the delete token of a result, and returns its file.
pub fn keep_token(server: &str, id: &str, token: &str) -> Result<PathBuf, BenchError> {
    let (folder, name) = token_file(server, id)?;
    folder.replace(&name, token.as_bytes())?;
    Ok(folder.path().join(name))
}

/// Reads the token with which a submitted result can be deleted.
pub fn token(server: &str, id: &str) -> Result<Option<String>, BenchError> {
    let (folder, name) = token_file(server, id)?;
    let token = folder.read(&name, BYTES_MAX)?;
    Ok(token.map(|token| String::from_utf8_lossy(&token).trim().to_owned()))
}

/// Removes the stored delete token of a deleted result.
pub fn forget_token(server: &str, id: &str) -> Result<(), BenchError> {
    let (folder, name) = token_file(server, id)?;
    Ok(folder.remove(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_results_are_safe_as_names_of_files() {
        for id in ["", "../x", "a/b", "a b", &"x".repeat(129)] {
            assert!(matches!(token_file("https://example.org", id), Err(BenchError::NotAnId { .. })), "{id}");
        }
    }

    #[test]
    fn a_file_is_replaced_completely_and_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result.json");
        for content in ["a longer first content", "short"] {
            replace(&path, content.as_bytes()).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), content);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it can be listed").count(), 1);
        assert!(matches!(read(&path), Err(BenchError::NotAResult { .. })));
    }
}
