//! The journal mode of an SQLite database, stored in its file.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::engine::Engine;
use crate::settings::kind::*;

/// The values are a write-ahead log and a rollback journal. Each connection chooses the mode of a rollback
/// journal.
const WAL: &str = "wal";
const ROLLBACK: &str = "rollback";

pub(super) struct Database;

const FACTS: Facts = Facts {
    tag: "database",
    only_value: Some(WAL),
    scope: Scope::Database,
    title: "the journal mode",
    kept_in: "the database's file itself",
    held: Held::Itself,
    lasts: true,
    cannot_switch: Some("programs have the database open"),
    fixes: &[SettingFix {
        name: "wal-full",
        changes: Group::Application,
        does: "SQLite in WAL mode, still synced at every commit",
        needs: "an SQLite database that no other program uses during the change",
        source: "SQLite's documentation",
        trial: Trial::WriteAheadLog,
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for Database {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        Ok(Object::Database(database_at(path)?))
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        mode(on.path())
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        set_mode(on.path(), value)
    }
}

/// Time to wait for a database that another program has locked.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the database at a path; the error is the reason why it is not a database.
fn database_at(path: &Path) -> Result<PathBuf, String> {
    let path = fs::canonicalize(path).map_err(|error| error.to_string())?;
    if !path.is_file() {
        return Err("name the file of an SQLite database".to_owned());
    }
    match mode(&path) {
        Ok(Some(_)) => Ok(path),
        Ok(None) => Err(match Engine::at(&path, &path) {
            Some(engine) => {
                format!("this file belongs to {}, not to SQLite. {}", engine.name(), engine.setting())
            }
            None => "this file is not an SQLite database".to_owned(),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the journal mode in the file header (<https://www.sqlite.org/fileformat.html>, 1.3); `None` if the
/// file is gone or not a database.
fn mode(path: &Path) -> Result<Option<String>, HostError> {
    let mut header = [0; 20];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
            return Ok(None);
        }
        Err(error) => return Err(HostError::system("read", path)(error)),
    }
    let is_database = header.starts_with(b"SQLite format 3\0");
    Ok(is_database.then(|| if header[18] == 2 { WAL } else { ROLLBACK }.to_owned()))
}

/// Returns whether the database at a path has a write-ahead log; `None` if the file is gone or not a database.
/// Fails with [`HostError::System`] if the file cannot be read.
pub(crate) fn journal_mode(path: &Path) -> Result<Option<bool>, HostError> {
    Ok(mode(path)?.map(|mode| mode == WAL))
}

/// Gives the database at a path a write-ahead log or a rollback journal. Fails with [`HostError::NotSettable`]
/// if SQLite refuses the change.
pub(crate) fn set_journal_mode(path: &Path, is_wal: bool) -> Result<(), HostError> {
    set_mode(path, if is_wal { WAL } else { ROLLBACK })
}

/// Returns whether the file at a path is an SQLite database; false if it cannot be read.
pub fn is_sqlite(path: &Path) -> bool {
    mode(path).is_ok_and(|mode| mode.is_some())
}

/// Changes the journal mode. SQLite refuses the change while another program uses the database.
fn set_mode(path: &Path, mode: &str) -> Result<(), HostError> {
    let refused = |reason: String| HostError::NotSettable {
        setting: format!("the journal mode {mode}"),
        path: path.to_owned(),
        reason,
    };
    let wanted = if mode == WAL { "wal" } else { "delete" };
    let change = || -> rusqlite::Result<String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags)?;
        database.busy_timeout(PATIENCE)?;
        database.query_row(&format!("PRAGMA journal_mode={wanted}"), [], |row| row.get(0))
    };
    match change() {
        Ok(got) if got.eq_ignore_ascii_case(wanted) => Ok(()),
        Ok(got) => {
            Err(refused(format!("SQLite kept mode {got}: stop the other program that uses the database")))
        }
        Err(rusqlite::Error::SqliteFailure(error, _))
            if matches!(
                error.code,
                rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked
            ) =>
        {
            Err(refused("another program uses the database: stop that program first".to_owned()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_gets_a_write_ahead_log_and_its_former_mode_back() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("notes.db");
        let fill = Connection::open(&path).expect("a database");
        fill.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("filled");
        drop(fill);
        let before = fs::read(&path).expect("read");
        let found = database_at(&path).expect("a database");
        assert_eq!(mode(&found).expect("read").as_deref(), Some("rollback"));
        set_mode(&found, WAL).expect("set");
        assert_eq!(mode(&found).expect("read").as_deref(), Some("wal"));
        set_mode(&found, "rollback").expect("set");
        assert_eq!(mode(&found).expect("read").as_deref(), Some("rollback"));
        // Afterwards, only SQLite's change counters differ.
        let after = fs::read(&path).expect("read");
        let differs: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
        assert!(differs.iter().all(|at| (24..28).contains(at) || (92..96).contains(at)), "{differs:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_database_in_use_and_other_files_are_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("notes.db");
        let user = Connection::open(&path).expect("a database");
        user.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t (x); BEGIN; SELECT * FROM t")
            .expect("in use");
        let error = set_mode(&path, "rollback").expect_err("refused").to_string();
        assert!(error.ends_with("another program uses the database: stop that program first"), "{error}");
        let text = dir.path().join("text");
        fs::write(&text, "hello, this is a text of some length").expect("write");
        assert_eq!(database_at(&text), Err("this file is not an SQLite database".to_owned()));
        assert_eq!(database_at(dir.path()), Err("name the file of an SQLite database".to_owned()));
    }
}
