//! A small common interface to embedded SQLite and PostgreSQL.
//!
//! SQL statements are always `&'static str`, so no text of a request can become SQL; values are always bound.
//! Both databases use the same statements, with parameters `$1`, `$2`, …; only bulk statements differ
//! ([`Bulk`]).
//!
//! One process owns a database, because it keeps summaries in memory that only its own writes update. A lock
//! file in SQLite's folder, or an advisory lock of PostgreSQL, ensures that there is only one.

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
    /// SQL's NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A finite number.
    Real(f64),
    /// Text without NUL characters, which PostgreSQL cannot store.
    Text(String),
    /// Bytes.
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

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// A row returned by a query. Reading a column as the wrong type panics, because it is a programming error.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(Vec<Value>);

impl Row {
    /// Returns the integer in a column.
    pub fn int(&self, column: usize) -> i64 {
        match self.0[column] {
            Value::Int(number) => number,
            ref other => panic!("column {column} holds {other:?}, not a whole number"),
        }
    }

    /// The number in a column.
    pub fn real(&self, column: usize) -> f64 {
        match self.0[column] {
            Value::Real(number) => number,
            ref other => panic!("column {column} holds {other:?}, not a number"),
        }
    }

    /// The text in a column; `None` for NULL.
    pub fn optional_text(&self, column: usize) -> Option<&str> {
        match &self.0[column] {
            Value::Text(text) => Some(text),
            Value::Null => None,
            other => panic!("column {column} holds {other:?}, not text"),
        }
    }

    /// The text in a column.
    pub fn text(&self, column: usize) -> &str {
        self.optional_text(column).unwrap_or_else(|| panic!("column {column} is NULL"))
    }

    /// The bytes in a column.
    pub fn bytes(&self, column: usize) -> &[u8] {
        match &self.0[column] {
            Value::Bytes(bytes) => bytes,
            other => panic!("column {column} holds {other:?}, not bytes"),
        }
    }
}

/// A column of rows for a [`Bulk`] statement.
#[derive(Clone, Debug)]
pub enum Column {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Numbers.
    Reals(Vec<f64>),
    /// Texts, or NULL.
    Texts(Vec<Option<String>>),
    /// Bytes.
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

/// A statement that writes many rows: SQLite executes it once per row, PostgreSQL executes it once with
/// arrays of values.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// The statement for one row: `VALUES ($1, $2)`.
    pub sqlite: &'static str,
    /// The statement for arrays: `SELECT * FROM UNNEST($1::BIGINT[], $2::TEXT[])`.
    pub postgres: &'static str,
}

/// A connection to a database.
pub trait Connection: Send {
    /// Executes a statement and returns all rows.
    fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, DatabaseError>;

    /// Executes a statement once per row of the columns.
    fn bulk(&mut self, sql: Bulk, columns: &[Column]) -> Result<(), DatabaseError>;

    /// Executes statements that return nothing.
    fn script(&mut self, sql: &'static str) -> Result<(), DatabaseError>;

    /// Begins a write transaction.
    fn begin(&mut self) -> Result<(), DatabaseError>;

    /// Commits durably: the transaction survives a crash of the machine.
    fn commit(&mut self) -> Result<(), DatabaseError>;

    /// Rolls back; harmless outside a transaction.
    fn rollback(&mut self);

    /// Returns whether the connection can no longer be used.
    fn is_closed(&self) -> bool;
}

/// The location of the stored results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder with SQLite's database `results.sqlite`.
    Folder(PathBuf),
    /// A PostgreSQL server and database: `postgres://USER:PASSWORD@HOST:PORT/NAME`.
    Server(String),
}

impl Location {
    /// Returns the name for messages, without a password.
    pub fn shown(&self) -> String {
        match self {
            Location::Folder(folder) => folder.join(sqlite::FILE).display().to_string(),
            Location::Server(url) => match url.rsplit_once('@') {
                Some((_, place)) => format!("postgres://{place}"),
                None => url.clone(),
            },
        }
    }

    /// Opens a connection for reading.
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

    /// Copies a database into a new file; the database may be in use.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be written, or if the database is PostgreSQL (use `pg_dump`).
    pub fn back_up(&self, to: &std::path::Path) -> Result<(), DatabaseError> {
        match self {
            Location::Folder(folder) => sqlite::back_up(folder, to),
            Location::Server(_) => Err(DatabaseError::NoBackup { url: self.shown() }),
        }
    }
}

/// An error of a database.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The folder does not exist.
    #[error("the folder {} does not exist; create it, or give another one with --data", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no database to copy.
    #[error("the database {} does not exist; give the service's folder with --data", file.display())]
    NoFile {
        /// The file.
        file: PathBuf,
    },
    /// The backup's file exists.
    #[error("{} exists; a backup does not overwrite files, so remove it or choose another name", file.display())]
    BackupExists {
        /// The file.
        file: PathBuf,
    },
    /// PostgreSQL databases are backed up with PostgreSQL's own programs.
    #[error(
        "fonio-results does not back up PostgreSQL databases; use pg_dump --format=custom --file=FILE {url}"
    )]
    NoBackup {
        /// The database, without a password.
        url: String,
    },
    /// Another process owns the database.
    #[error("another fonio-results uses {place}; stop it first, or use another database")]
    Taken {
        /// The database.
        place: String,
    },
    /// The database was created by a newer version.
    #[error(
        "the database has tables of version {found}, but this fonio-results knows only up to version {known}; \
         install the newer fonio-results, or restore a backup of the older version"
    )]
    Newer {
        /// The version in the database.
        found: i64,
        /// The newest version that this program supports.
        known: i64,
    },
    /// The disk is full.
    #[error("the disk of the database is full; free space, or move the database to a larger disk")]
    Full,
    /// The file is not a database, or it is damaged.
    #[error("{place} is damaged, or is not a database of fonio-results; restore a backup: {reason}")]
    Unreadable {
        /// The database.
        place: String,
        /// The database's own message.
        reason: String,
    },
    /// The database server cannot be reached.
    #[error(
        "cannot connect to {place}: {reason}; check that PostgreSQL runs, and check the name and password in --database"
    )]
    Unreachable {
        /// The database, without a password.
        place: String,
        /// The driver's own message.
        reason: String,
    },
    /// The queue of the service is full.
    #[error("the service is busy")]
    Busy,
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// A database file cannot be created or locked.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An error of SQLite.
    #[error("the database failed: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// An error of PostgreSQL.
    #[error("the database failed: {}", postgres::with_cause(.0))]
    Postgres(#[source] ::postgres::Error),
}
