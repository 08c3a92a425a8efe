//! The errors of workloads, each with a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of reading, preparing or running a workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No shipped workload has this name.
    #[error(
        "there is no workload `{name}`{nearest}; `fonio run` lists them, or give the path of a TOML file"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The result of [`fonio_core::nearest`] for the shipped names.
        nearest: String,
    },
    /// A workload definition or a trace could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The text is not a workload. The source error names the line, the key and the expected value.
    #[error("{origin}: not a workload")]
    Toml {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// Line, key and expectation.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A well-formed value is invalid.
    #[error("{origin}: {key} = {value}: {problem}")]
    Value {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// The location, as a path of keys.
        key: String,
        /// The value as written.
        value: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// SQLite rejects a statement or schema.
    #[error("{origin}: {key}: SQLite rejects `{statement}`")]
    Statement {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// The location, as a path of keys.
        key: String,
        /// The statement.
        statement: String,
        /// SQLite's reason.
        #[source]
        source: rusqlite::Error,
    },
    /// An invalid option on Mobibench's command line.
    #[error("mobibench option `{option} {value}`: {problem}")]
    Mobibench {
        /// The option, such as `-y`.
        option: String,
        /// Its value; may be empty.
        value: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// A line of a system-call trace that cannot be replayed.
    #[error("{origin}, line {line}: `{text}`: {problem}")]
    Trace {
        /// The trace's path.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The line, shortened.
        text: String,
        /// The problem.
        problem: String,
    },
    /// A place has no directory.
    #[error(
        "workload `{workload}` needs a directory for its place `{place}` ({about}); give one, or a root for all places"
    )]
    PlaceMissing {
        /// The workload.
        workload: String,
        /// The place.
        place: String,
        /// A description of the place's contents.
        about: String,
    },
    /// An override has an unknown name.
    #[error("workload `{workload}` has no {kind} `{name}` to override; it has {known}")]
    UnknownOverride {
        /// The workload.
        workload: String,
        /// `place` or `database`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A numeric option is out of range.
    #[error("{option} = {value} is out of range; {remedy}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values.
        remedy: &'static str,
    },
    /// The workload fetches over HTTP, but no server address was given.
    #[error(
        "workload `{workload}` fetches over HTTP; start a `fonio_workload::http::Server` and give its address"
    )]
    NeedsHttp {
        /// The workload.
        workload: String,
    },
    /// `run` was called before `prepare`.
    #[error("workload `{workload}` was not prepared; call `prepare` before `run`, once for each run")]
    NotPrepared {
        /// The workload.
        workload: String,
    },
    /// A place's directory is not empty.
    #[error("{} is not empty; give an empty directory, because the workload creates its own files there", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A step needs files of an empty group.
    #[error(
        "{key}: no file of `{files}` exists to {operation}; write some in `prepare` or in an earlier step"
    )]
    NoFile {
        /// The step, as a path of keys.
        key: String,
        /// The group of files.
        files: String,
        /// The step's operation.
        operation: &'static str,
    },
    /// SQLite failed.
    #[error("database `{database}` ({}): cannot {operation}", path.display())]
    Sqlite {
        /// The database's name in the workload.
        database: String,
        /// Its file.
        path: PathBuf,
        /// The operation that failed.
        operation: String,
        /// SQLite's reason.
        #[source]
        source: rusqlite::Error,
    },
    /// SQLite did not accept a setting.
    #[error("database `{database}`: {pragma} was set to {wanted}, but SQLite reports {got}")]
    Pragma {
        /// The database's name in the workload.
        database: String,
        /// The setting.
        pragma: &'static str,
        /// The value that was set.
        wanted: String,
        /// The value reported by SQLite.
        got: String,
    },
    /// A database is damaged.
    #[error("database `{database}` ({}) is damaged: {found}", path.display())]
    Damaged {
        /// The database's name in the workload.
        database: String,
        /// Its file.
        path: PathBuf,
        /// The output of `PRAGMA integrity_check`.
        found: String,
    },
    /// The HTTP exchange failed.
    #[error("HTTP with {address}: cannot {operation}")]
    Http {
        /// The server.
        address: SocketAddr,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The response does not come from fonio's server.
    #[error("HTTP with {address}: {problem}")]
    HttpAnswer {
        /// The server.
        address: SocketAddr,
        /// The problem.
        problem: String,
    },
    /// Fetched or read bytes could not be decoded.
    #[error(
        "{key}: the bytes fetched or read last cannot be inflated; use content = \"deflated\" in the step before"
    )]
    Decode {
        /// The step, as a path of keys.
        key: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The runner's stop flag was set.
    #[error("the run was stopped")]
    Stopped,
}
