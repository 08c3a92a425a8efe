//! Stores results in SQLite in a folder, with a write-ahead log that is synced at each commit.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql};

use super::{Bulk, Column, Connection, DatabaseError, Row, Value};

pub(super) const FILE: &str = "results.sqlite";

/// Name of the file that the owning process locks.
const LOCK: &str = "results.lock";

/// Name of the file that keeps space in reserve.
const RESERVE: &str = "results.reserve";

/// Size of the reserve. Deleting a result changes a few hundred pages of 4 KiB, which must fit into the log. A
/// checkpoint of a small log must fit as well.
const RESERVE_BYTES: usize = 4 << 20;

/// The free space below which the disk counts as nearly full. It is more than the log needs on other disks.
const SCARCE_BYTES: u64 = 96 << 20;

/// The maximum time for which SQLite waits for a lock. Only backups and checkpoints lock the database for
/// long.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The settings of each connection. In SQLite, a negative `cache_size` is a size in KiB. Other pages of the
/// database are in the kernel's page cache.
const SETTINGS: &str = "PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;";

/// `synchronous = FULL` syncs the log at each commit, so a commit survives a power cut. Every 64 MiB, a
/// checkpoint copies the log into the database. The checkpoint writes each changed page only once, no matter
/// how often the page changed.
const WRITER: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 16384; \
     PRAGMA journal_size_limit = 134217728; PRAGMA secure_delete = ON;";

/// Checkpoints after 64 MiB of log, as in [`WRITER`].
const LARGE_LOG: &str = "PRAGMA wal_autocheckpoint = 16384;";

/// Checkpoints after each commit. On a nearly full disk, the log is then as small as one transaction, and fits into
/// the reserve.
const SMALL_LOG: &str = "PRAGMA wal_autocheckpoint = 1;";

/// How long [`Connection::wipe`] waits for other connections, because the writer waits, too.
const WIPE_WAIT: Duration = Duration::from_millis(100);

struct Sqlite {
    connection: rusqlite::Connection,
    /// The path of the database, for messages.
    place: PathBuf,
    /// The lock file, which is locked while the connection is open.
    _lock: Option<File>,
    /// Whether the log is kept small, because the disk is nearly full.
    has_small_log: bool,
}

/// Opens a connection that only reads.
pub(super) fn open_reader(folder: &Path) -> Result<Box<dyn Connection>, DatabaseError> {
    let sqlite = open(folder, OpenFlags::SQLITE_OPEN_READ_WRITE, None)?;
    sqlite.setting("PRAGMA query_only = ON;")?;
    Ok(Box::new(sqlite))
}

/// Opens a connection that can write, without the lock of the folder.
pub(super) fn open_beside(folder: &Path) -> Result<Box<dyn Connection>, DatabaseError> {
    let sqlite = open(folder, OpenFlags::SQLITE_OPEN_READ_WRITE, None)?;
    sqlite.setting("PRAGMA synchronous = FULL;")?;
    Ok(Box::new(sqlite))
}

/// Locks the folder for this process, and opens the database for writing.
pub(super) fn open_writer(folder: &Path) -> Result<Box<dyn Connection>, DatabaseError> {
    if !folder.is_dir() {
        return Err(DatabaseError::NoFolder { folder: folder.to_owned() });
    }
    let path = folder.join(LOCK);
    let failed = |source| DatabaseError::File { path: path.clone(), source };
    let lock = File::options().create(true).append(true).open(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(DatabaseError::Taken { place: folder.display().to_string() });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let sqlite = open(folder, flags, Some(lock))?;
    sqlite.setting(WRITER)?;
    Ok(Box::new(sqlite))
}

/// Copies the database into a new file; the service can keep running.
pub(super) fn back_up(folder: &Path, to: &Path) -> Result<(), DatabaseError> {
    let file = folder.join(FILE);
    if !file.is_file() {
        return Err(DatabaseError::NoFile { file });
    }
    if to.exists() {
        return Err(DatabaseError::BackupExists { file: to.to_owned() });
    }
    let sqlite = open(folder, OpenFlags::SQLITE_OPEN_READ_WRITE, None)?;
    let target = to.to_string_lossy().into_owned();
    sqlite.connection.execute("VACUUM INTO ?1", [target]).map_err(|error| sqlite.error(error))?;
    // Sync the copy, because SQLite does not sync it.
    let failed = |source| DatabaseError::File { path: to.to_owned(), source };
    File::open(to).and_then(|copy| copy.sync_all()).map_err(failed)
}

fn open(folder: &Path, flags: OpenFlags, lock: Option<File>) -> Result<Sqlite, DatabaseError> {
    let place = folder.join(FILE);
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        rusqlite::Connection::open_with_flags(&place, flags).map_err(|error| explain(error, &place))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.busy_timeout(LOCK_WAIT).map_err(|error| explain(error, &place))?;
    let sqlite = Sqlite { connection, place, _lock: lock, has_small_log: false };
    sqlite.setting(SETTINGS)?;
    Ok(sqlite)
}

fn explain(error: rusqlite::Error, place: &Path) -> DatabaseError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => DatabaseError::Full,
        Some(
            ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly,
        ) => DatabaseError::Unreadable { place: place.display().to_string(), reason: error.to_string() },
        _ => DatabaseError::Sqlite(error),
    }
}

impl Sqlite {
    fn error(&self, error: rusqlite::Error) -> DatabaseError {
        explain(error, &self.place)
    }

    fn setting(&self, sql: &'static str) -> Result<(), DatabaseError> {
        self.connection.execute_batch(sql).map_err(|error| self.error(error))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value(from: ValueRef<'_>) -> Value {
    match from {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// Replaces `$1` by `?1`, because SQLite numbers parameters differently from PostgreSQL.
fn numbered(sql: &'static str) -> String {
    sql.replace('$', "?")
}

impl Connection for Sqlite {
    fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let run = || {
            let mut statement = self.connection.prepare_cached(&numbered(sql))?;
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(values))?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let values: rusqlite::Result<Vec<Value>> =
                    (0..columns).map(|column| Ok(value(row.get_ref(column)?))).collect();
                all.push(Row(values?));
            }
            Ok(all)
        };
        run().map_err(|error| self.error(error))
    }

    fn bulk(&mut self, sql: Bulk, columns: &[Column]) -> Result<(), DatabaseError> {
        let rows = columns.first().map_or(0, Column::len);
        assert!(columns.iter().all(|column| column.len() == rows), "all columns have the same length");
        let run = || {
            let mut statement = self.connection.prepare_cached(&numbered(sql.sqlite))?;
            for row in 0..rows {
                for (at, column) in columns.iter().enumerate() {
                    match column {
                        Column::Ints(values) => statement.raw_bind_parameter(at + 1, values[row])?,
                        Column::Reals(values) => statement.raw_bind_parameter(at + 1, values[row])?,
                        Column::Texts(values) => {
                            statement.raw_bind_parameter(at + 1, values[row].as_deref())?
                        }
                        Column::Bytes(values) => statement.raw_bind_parameter(at + 1, &values[row][..])?,
                    }
                }
                statement.raw_execute()?;
            }
            Ok(())
        };
        run().map_err(|error| self.error(error))
    }

    fn script(&mut self, sql: &'static str) -> Result<(), DatabaseError> {
        self.setting(sql)
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.setting("BEGIN IMMEDIATE")
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.setting("COMMIT")
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // If the rollback fails, the transaction stays open, and the next `begin` reports this.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn wipe(&mut self) -> Result<bool, DatabaseError> {
        // `secure_delete` overwrites deleted rows, but the log and the database keep older versions of a page
        // until a checkpoint copies the newest version, and cuts the log.
        let run = || {
            self.connection.busy_timeout(WIPE_WAIT)?;
            let busy =
                self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            self.connection.busy_timeout(LOCK_WAIT)?;
            Ok(busy? == 0)
        };
        run().map_err(|error| self.error(error))
    }

    fn keep_reserve(&mut self) -> Result<bool, DatabaseError> {
        let file = self.place.with_file_name(RESERVE);
        let failed = |source| DatabaseError::File { path: file.clone(), source };
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let space = rustix::fs::statvfs(folder).map_err(|error| failed(error.into()))?;
        let is_scarce = space.f_bavail.saturating_mul(space.f_frsize) < SCARCE_BYTES;
        if is_scarce != self.has_small_log {
            self.setting(if is_scarce { SMALL_LOG } else { LARGE_LOG })?;
            self.has_small_log = is_scarce;
        }
        if std::fs::metadata(&file).is_ok_and(|found| found.len() == RESERVE_BYTES as u64) {
            return Ok(true);
        }
        // Random bytes, because a file system that compresses would store zeros without space.
        let mut bytes = vec![0; RESERVE_BYTES];
        getrandom::fill(&mut bytes).expect("the kernel provides random numbers");
        let written = std::fs::write(&file, &bytes).and_then(|()| File::open(&file)?.sync_all());
        match written {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                // The file does not exist if not even an empty file fits.
                let _ = std::fs::remove_file(&file);
                Ok(false)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn use_reserve(&mut self) -> bool {
        std::fs::remove_file(self.place.with_file_name(RESERVE)).is_ok()
    }
}
