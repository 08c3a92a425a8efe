//! Finds the database to which each file belongs.
//!
//! The recorder recognises databases, journals and WALs by their names and first bytes. This module
//! recognises the index of a WAL (`-shm`) by its name. If the database could not be read, a file with the
//! name of a journal or WAL is recognised if a call shows that SQLite wrote it.

use fonio_core::{Content, File};
use rustc_hash::FxHashMap;

use super::finder::Role;

const DATABASES_MAX: usize = 4096;
const FILES_MAX: usize = 1 << 18;

/// The suffixes of the files that SQLite keeps next to a database.
const SUFFIXES: [(&str, Role); 3] = [("-journal", Role::Journal), ("-wal", Role::Wal), ("-shm", Role::Shm)];

#[derive(Debug, Default)]
pub(super) struct Databases {
    pub(super) paths: Vec<String>,
    numbers: FxHashMap<String, usize>,
    /// The path of each file, by the file's number in the recording.
    files: FxHashMap<u32, String>,
    /// For each file: its database and role, cached; `None` for files of no database.
    known: FxHashMap<u32, Option<(usize, Role)>>,
    /// Number of databases dropped because the maximum number was reached.
    pub(super) beyond: u64,
}

impl Databases {
    /// Stores the name of a file. Later names of a file are ignored, because SQLite keeps using the old name.
    pub(super) fn file(&mut self, row: &File) {
        let Some(path) = &row.path else { return };
        if self.files.len() < FILES_MAX {
            self.files.entry(row.file_id).or_insert_with(|| path.clone());
        }
        let database = match row.content {
            Content::SqliteDb => Some(path.as_str()),
            Content::SqliteJournal => path.strip_suffix("-journal"),
            Content::SqliteWal => path.strip_suffix("-wal"),
            _ => None,
        };
        if let Some(database) = database {
            self.number(database);
        }
    }

    fn number(&mut self, path: &str) -> Option<usize> {
        if let Some(number) = self.numbers.get(path) {
            return Some(*number);
        }
        if self.paths.len() >= DATABASES_MAX {
            self.beyond += 1;
            return None;
        }
        // Files that had no database until now may belong to this database.
        self.known.clear();
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), self.paths.len() - 1);
        Some(self.paths.len() - 1)
    }

    /// Records that SQLite wrote to a file, and adds the file's database to the known databases.
    pub(super) fn is_of_sqlite(&mut self, file: u32) {
        if self.of(file).is_some() {
            return;
        }
        let path = self.files.get(&file).cloned().unwrap_or_default();
        if let Some((database, _)) = by_suffix(&path) {
            self.number(database);
        }
    }

    /// Returns the database to which a file belongs, and the file's role in it.
    pub(super) fn of(&mut self, file: u32) -> Option<(usize, Role)> {
        if let Some(known) = self.known.get(&file) {
            return *known;
        }
        let path = self.files.get(&file)?;
        let own = self.numbers.get(path.as_str()).map(|number| (*number, Role::Database));
        let of = own.or_else(|| {
            let (database, role) = by_suffix(path)?;
            Some((*self.numbers.get(database)?, role))
        });
        self.known.insert(file, of);
        of
    }

    pub(super) fn is_folder(&self, file: u32, database: usize) -> bool {
        let folder =
            self.paths.get(database).and_then(|path| path.rsplit_once('/')).map(|(folder, _)| folder);
        folder.is_some() && folder == self.files.get(&file).map(String::as_str)
    }

    pub(super) fn has_path(&self, file: u32) -> bool {
        self.files.contains_key(&file)
    }
}

/// Derives from a file's name the path of the database to which the file belongs, and the file's role.
fn by_suffix(path: &str) -> Option<(&str, Role)> {
    SUFFIXES.iter().find_map(|(suffix, role)| Some((path.strip_suffix(suffix)?, *role)))
}
