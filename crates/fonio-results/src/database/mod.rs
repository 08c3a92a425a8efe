//! Provides a small common interface to embedded SQLite and PostgreSQL.
//!
//! SQL statements are always `&'static str`, so no text of a request can become SQL; values are always bound.
//! Both databases use the same statements, with parameters `$1`, `$2`, …; only bulk statements differ
//! ([`Bulk`]).
//!
//! Only one process may use a database, because the process keeps summaries in memory, and updates them only
//! when the process itself writes. A lock file in SQLite's folder, or an advisory lock of PostgreSQL, ensures
//! that there is only one such process.

mod migrations;
mod pool;
mod postgres;
mod sqlite;

use std::path::PathBuf;

use thiserror::Error;

pub use pool::Pool;

/// A value bound to a statement or returned by a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value NULL of SQL.
    Null,
    /// An integer value.
    Int(i64),
    /// A finite floating-point value.
    Real(f64),
    /// Text without NUL characters. PostgreSQL cannot store NUL characters.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// A row that a query returned. Reading a column as a wrong type panics, because this is a programming error.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(Vec<Value>);

impl Row {
    /// Returns the integer in this column.
    pub fn int(&self, column: usize) -> i64 {
        match self.0[column] {
            Value::Int(number) => number,
            ref other => panic!("column {column} contains {other:?}, not an integer"),
        }
    }

    /// Returns the floating-point number in this column.
    pub fn real(&self, column: usize) -> f64 {
        match self.0[column] {
            Value::Real(number) => number,
            ref other => panic!("column {column} contains {other:?}, not a number"),
        }
    }

    /// Returns the text in this column; `None` for NULL.
    pub fn optional_text(&self, column: usize) -> Option<&str> {
        match &self.0[column] {
            Value::Text(text) => Some(text),
            Value::Null => None,
            other => panic!("column {column} contains {other:?}, not text"),
        }
    }

    /// Returns the text in this column, which must not be NULL.
    pub fn text(&self, column: usize) -> &str {
        self.optional_text(column).unwrap_or_else(|| panic!("column {column} is NULL"))
    }

    /// Returns the bytes in this column.
    pub fn bytes(&self, column: usize) -> &[u8] {
        match &self.0[column] {
            Value::Bytes(bytes) => bytes,
            other => panic!("column {column} contains {other:?}, not bytes"),
        }
    }
}

/// The values of one column for all rows of a [`Bulk`] statement.
#[derive(Clone, Debug)]
pub enum Column {
    /// A column of integers.
    Ints(Vec<i64>),
    /// A column of floating-point numbers.
    Reals(Vec<f64>),
    /// A column of texts; `None` for NULL.
    Texts(Vec<Option<String>>),
    /// A column of byte strings.
    Bytes(Vec<Vec<u8>>),
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Ints(values) => values.len(),
            Column::Reals(values) => values.len(),
            Column::Texts(values) => values.len(),
            Column::Bytes(values) => values.len(),
        }
    }
}

/// A statement that writes many rows. SQLite executes it once per row, and PostgreSQL executes it once with
/// arrays of values.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// The statement for SQLite. It inserts one row: `VALUES ($1, $2)`.
    pub sqlite: &'static str,
    /// The statement for PostgreSQL. It inserts arrays: `SELECT * FROM UNNEST($1::BIGINT[], $2::TEXT[])`.
    pub postgres: &'static str,
}

/// A connection to SQLite or PostgreSQL.
pub trait Connection: Send {
    /// Executes an SQL statement and returns all its rows.
    fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, DatabaseError>;

    /// Executes a bulk statement for each row of the columns.
    fn bulk(&mut self, sql: Bulk, columns: &[Column]) -> Result<(), DatabaseError>;

    /// Executes SQL statements that return no rows.
    fn script(&mut self, sql: &'static str) -> Result<(), DatabaseError>;

    /// Begins a transaction that may write.
    fn begin(&mut self) -> Result<(), DatabaseError>;

    /// Commits the transaction durably: its changes survive a crash of the machine.
    fn commit(&mut self) -> Result<(), DatabaseError>;

    /// Rolls the transaction back. Has no effect outside a transaction.
    fn rollback(&mut self);

    /// Returns whether the connection can no longer be used.
    fn is_closed(&self) -> bool;

    /// Overwrites the copies of deleted rows that the database still has in its files. Returns false if other
    /// connections prevent this at the moment. A database server does this by itself.
    fn wipe(&mut self) -> Result<bool, DatabaseError> {
        Ok(true)
    }

    /// Prepares for a full disk: keeps space in reserve, and lets the log of a nearly full disk stay small.
    /// Returns false if there is no space for the reserve. A database server has its own means.
    fn keep_reserve(&mut self) -> Result<bool, DatabaseError> {
        Ok(true)
    }

    /// Gives the reserved space to the database. Returns whether there was a reserve.
    fn use_reserve(&mut self) -> bool {
        false
    }
}

/// Where the results are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder with the SQLite database `results.sqlite`.
    Folder(PathBuf),
    /// A database of a PostgreSQL server: `postgres://USER:PASSWORD@HOST:PORT/NAME`.
    Server(String),
}

impl Location {
    /// Returns the location for messages, without the password.
    pub fn shown(&self) -> String {
        match self {
            Location::Folder(folder) => folder.join(sqlite::FILE).display().to_string(),
            Location::Server(url) => match url.rsplit_once('@') {
                Some((_, place)) => format!("postgres://{place}"),
                None => url.clone(),
            },
        }
    }

    /// Opens a connection that only reads.
    pub fn open_reader(&self) -> Result<Box<dyn Connection>, DatabaseError> {
        match self {
            Location::Folder(folder) => sqlite::open_reader(folder),
            Location::Server(url) => postgres::open_reader(url),
        }
    }

    /// Locks the database for this process, migrates its tables, and opens the write connection.
    pub fn open_writer(&self) -> Result<Box<dyn Connection>, DatabaseError> {
        let (mut connection, dialect) = match self {
            Location::Folder(folder) => (sqlite::open_writer(folder)?, migrations::Dialect::Sqlite),
            Location::Server(url) => (postgres::open_writer(url)?, migrations::Dialect::Postgres),
        };
        migrations::apply(connection.as_mut(), dialect, migrations::ALL)?;
        Ok(connection)
    }

    /// Opens a connection that can write, next to the service that owns the database. Only the tables that the
    /// service does not keep in memory may be changed.
    pub fn open_beside(&self) -> Result<Box<dyn Connection>, DatabaseError> {
        match self {
            Location::Folder(folder) => sqlite::open_beside(folder),
            Location::Server(url) => postgres::open_beside(url),
        }
    }

    /// Copies a database into a new file; the database may be in use. Fails if the file exists or cannot be
    /// written, or if the database is PostgreSQL (use `pg_dump`).
    pub fn back_up(&self, to: &std::path::Path) -> Result<(), DatabaseError> {
        match self {
            Location::Folder(folder) => sqlite::back_up(folder, to),
            Location::Server(_) => Err(DatabaseError::NoBackup { url: self.shown() }),
        }
    }
}

/// An error that occurred while opening or using a database.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The folder for the SQLite database does not exist.
    #[error("the folder {} does not exist; create it, or give another one with --data", folder.display())]
    NoFolder {
        /// The folder that does not exist.
        folder: PathBuf,
    },
    /// The SQLite database that should be backed up does not exist.
    #[error("the database {} does not exist; give the service's folder with --data", file.display())]
    NoFile {
        /// The path of the missing database file.
        file: PathBuf,
    },
    /// The file for the backup already exists.
    #[error("{} exists; a backup does not overwrite files, so remove it or choose another name", file.display())]
    BackupExists {
        /// The path of the existing file.
        file: PathBuf,
    },
    /// The service does not back up PostgreSQL databases, because PostgreSQL's own programs can do this.
    #[error(
        "fonio-results does not back up PostgreSQL databases; use pg_dump --format=custom --file=FILE {url}"
    )]
    NoBackup {
        /// The URL of the database, without the password.
        url: String,
    },
    /// Another process of the service owns the database.
    #[error("another fonio-results uses {place}; stop it first, or use another database")]
    Taken {
        /// The location of the database.
        place: String,
    },
    /// The database was created by a newer version of the service.
    #[error(
        "the database has tables of version {found}, but this fonio-results knows only up to version {known}; \
         install the newer fonio-results, or restore a backup of the older version"
    )]
    Newer {
        /// The schema version in the database.
        found: i64,
        /// The newest schema version that this program supports.
        known: i64,
    },
    /// The disk with the database is full.
    #[error("the disk of the database is full; free space, or move the database to a larger disk")]
    Full,
    /// The file is not an SQLite database of the service, or it is damaged.
    #[error("{place} is damaged, or is not a database of fonio-results; restore a backup: {reason}")]
    Unreadable {
        /// The location of the database.
        place: String,
        /// The database's own message about the damage.
        reason: String,
    },
    /// The service cannot connect to the database server.
    #[error(
        "cannot connect to {place}: {reason}; check that PostgreSQL runs, and check the name and password in --database"
    )]
    Unreachable {
        /// The location of the database, without the password.
        place: String,
        /// The driver's own message about the failed connection.
        reason: String,
    },
    /// The queue for database queries is full.
    #[error("the service is busy")]
    Busy,
    /// The service is stopping and accepts no more work.
    #[error("the service is stopping")]
    Stopping,
    /// A database file cannot be created or locked.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The path of the database file.
        path: PathBuf,
        /// The system's error for the file.
        source: std::io::Error,
    },
    /// An error that SQLite reported.
    #[error("the database failed: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// An error that PostgreSQL reported.
    #[error("the database failed: {}", postgres::with_cause(.0))]
    Postgres(#[source] ::postgres::Error),
}
