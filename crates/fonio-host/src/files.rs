//! Reads and removes small files, and reads record files in trusted folders.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use fonio_system::{TrustedFolder, lock};
use serde::de::DeserializeOwned;

use crate::error::HostError;

/// Reads a text file; a missing file counts as empty.
pub(crate) fn read(path: &Path) -> Result<String, HostError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(HostError::system("read", path)),
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), HostError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(HostError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_empty_folder(path: &Path) -> Result<(), HostError> {
    match fs::remove_dir(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
            Err(HostError::system("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Maximum size of a record file; a record of thousands of settings is far smaller.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Opens a folder that only this user and root can change, and waits at most `patience` for its lock. Creates
/// the folder if it does not exist. Dropping the returned folder releases the lock.
pub(crate) fn lock_own_folder(dir: &Path, patience: Duration) -> Result<TrustedFolder, HostError> {
    let folder = TrustedFolder::make(dir)?;
    lock::wait(&folder, dir, patience)?;
    Ok(folder)
}

/// The entries of a record file.
#[derive(Debug)]
pub(crate) struct Record<T> {
    pub entries: Vec<T>,
    /// Why not all entries could be read; `None` if the file is complete or missing.
    pub damage: Option<String>,
}

/// Reads a record file, which is a JSON array. A missing file counts as empty. Of a damaged file, all readable
/// entries are returned.
pub(crate) fn read_record<T: DeserializeOwned>(
    folder: &TrustedFolder,
    name: &str,
) -> Result<Record<T>, HostError> {
    let text = folder.read(name, RECORD_BYTES_MAX)?;
    Ok(text.map_or(Record { entries: Vec::new(), damage: None }, |text| entries(&text)))
}

fn entries<T: DeserializeOwned>(text: &[u8]) -> Record<T> {
    let error = match serde_json::from_slice(text) {
        Ok(entries) => return Record { entries, damage: None },
        Err(_) if text.is_empty() => "it is empty".to_owned(),
        Err(error) => error.to_string(),
    };
    let mut entries = Vec::new();
    let mut left = text.trim_ascii_start();
    left = left.strip_prefix(b"[").unwrap_or(left);
    loop {
        let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
        left = &left[left.iter().take_while(|byte| is_between(byte)).count()..];
        let mut values = serde_json::Deserializer::from_slice(left).into_iter::<serde_json::Value>();
        let Some(Ok(value)) = values.next() else { break };
        left = &left[values.byte_offset()..];
        entries.extend(serde_json::from_value(value).ok());
    }
    Record { entries, damage: Some(error) }
}

/// Syncs the directory that contains `path`.
pub(crate) fn sync_folder(path: &Path) -> Result<(), HostError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(HostError::system("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readable_entries_of_a_damaged_record_are_found() {
        for (text, expected, damage) in [
            ("[]", &[][..], None),
            ("[[1, \"a\"], [2, \"b\"]]", &[1, 2], None),
            ("", &[], Some("it is empty")),
            ("[[1, \"a\"], [2, \"b", &[1], Some("EOF while parsing a string at line 1 column 17")),
            (
                "[[1, \"a\"], {\"new\": 1}, [2, \"b\"]]",
                &[1, 2],
                Some("invalid type: map, expected a tuple of size 2 at line 1 column 11"),
            ),
            ("[[1, \"a\"]\0\0\0", &[1], Some("expected `,` or `]` at line 1 column 10")),
            ("\0\0", &[], Some("expected value at line 1 column 1")),
        ] {
            let record = entries::<(u32, String)>(text.as_bytes());
            let found: Vec<u32> = record.entries.iter().map(|(number, _)| *number).collect();
            assert_eq!((found.as_slice(), record.damage.as_deref()), (expected, damage), "{text:?}");
        }
    }
}
