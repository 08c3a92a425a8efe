//! Errors of reading, preparing and running workloads, each with a remedy.

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
        /// The requested workload name.
        name: String,
        /// The result of [`fonio_core::nearest`] among the shipped names.
        nearest: String,
    },
    /// No shipped app has this name.
    #[error(
        "no app is called `{name}`{nearest}; `fonio run` lists them, and app:./{name} is the folder {name} with an app.toml"
    )]
    UnknownApp {
        /// The requested name.
        name: String,
        /// The result of [`fonio_core::nearest`] among the shipped names.
        nearest: String,
    },
    /// The app has no script with this name.
    #[error("the app {app} has no script `{script}`; it has {known}")]
    UnknownScript {
        /// The app's name.
        app: String,
        /// The requested script.
        script: String,
        /// The names of the app's scripts.
        known: String,
    },
    /// The text is not the definition of an app. The source error names the line, the key and the expectation.
    #[error("{origin}: not an app")]
    NotAnApp {
        /// The file's path, or the shipped app's name.
        origin: String,
        /// The line, the key and the expected value.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The root directory of an app has no user with this name.
    #[error(
        "the app {app} runs as the user {user}, whom its root directory does not have; set `user` in its app.toml"
    )]
    NoUser {
        /// The app's name.
        app: String,
        /// The name of the user.
        user: String,
    },
    /// A service or a command of an app failed.
    #[error("{app}: {part}: {problem}")]
    AppFailed {
        /// The app, such as `the app redis`.
        app: String,
        /// The name of the service or step.
        part: String,
        /// What failed, with the end of the program's output.
        problem: String,
    },
    /// A workload definition or a trace could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// Path of the file that could not be read.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The text is not a workload definition. The source error names the line, the key and the expectation.
    #[error("{origin}: not a workload")]
    Toml {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// The line, the key and the expected value.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value in a workload definition is invalid.
    #[error("{origin}: {key} = {value}: {problem}")]
    Value {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// The location of the value, as a path of keys.
        key: String,
        /// The value as written in the definition.
        value: String,
        /// The problem with the value, and the remedy.
        problem: String,
    },
    /// SQLite rejects a statement or schema.
    #[error("{origin}: {key}: SQLite rejects `{statement}`")]
    Statement {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// The location of the statement, as a path of keys.
        key: String,
        /// The rejected statement.
        statement: String,
        /// The error that SQLite returned.
        #[source]
        source: rusqlite::Error,
    },
    /// An option on Mobibench's command line is invalid.
    #[error("mobibench option `{option} {value}`: {problem}")]
    Mobibench {
        /// The name of the option, such as `-y`.
        option: String,
        /// The value of the option; may be empty.
        value: String,
        /// The problem with the option, and the remedy.
        problem: String,
    },
    /// A line of a system-call trace cannot be replayed.
    #[error("{origin}, line {line}: `{text}`: {problem}")]
    Trace {
        /// The trace's path.
        origin: String,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line, shortened.
        text: String,
        /// The problem with the line.
        problem: String,
    },
    /// The caller gave no directory for a place.
    #[error(
        "workload `{workload}` needs a directory for its place `{place}` ({about}); give one, or a root for all places"
    )]
    PlaceMissing {
        /// The workload's name.
        workload: String,
        /// The place's name.
        place: String,
        /// A description of the place's contents.
        about: String,
    },
    /// An override refers to a name that the workload does not have.
    #[error("workload `{workload}` has no {kind} `{name}` to override; it has {known}")]
    UnknownOverride {
        /// The workload's name.
        workload: String,
        /// The kind of the name: `place` or `database`.
        kind: &'static str,
        /// The name in the override.
        name: String,
        /// The names of this kind that the workload has.
        known: String,
    },
    /// A numeric option of a run is out of range.
    #[error("{option} = {value} is out of range; {remedy}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The invalid value.
        value: f64,
        /// The allowed values of the option.
        remedy: &'static str,
    },
    /// The workload fetches over HTTP, but no server address was given.
    #[error(
        "workload `{workload}` fetches over HTTP; start a `fonio_workload::http::Server` and give its address"
    )]
    NeedsHttp {
        /// The workload's name.
        workload: String,
    },
    /// The method `run` was called before `prepare`.
    #[error("workload `{workload}` was not prepared; call `prepare` before `run`, once for each run")]
    NotPrepared {
        /// The workload's name.
        workload: String,
    },
    /// A place's directory is not empty.
    #[error("{} is not empty; give an empty directory, because the workload creates its own files there", path.display())]
    NotEmpty {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The file operation that failed.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A step needs files, but its group of files is empty.
    #[error(
        "{key}: no file of `{files}` exists to {operation}; write some in `prepare` or in an earlier step"
    )]
    NoFile {
        /// The location of the step, as a path of keys.
        key: String,
        /// The name of the group of files.
        files: String,
        /// The step's operation.
        operation: &'static str,
    },
    /// An SQLite operation failed.
    #[error("database `{database}` ({}): cannot {operation}", path.display())]
    Sqlite {
        /// The database's name in the workload.
        database: String,
        /// Path of the database file.
        path: PathBuf,
        /// The database operation that failed.
        operation: String,
        /// The error that SQLite returned.
        #[source]
        source: rusqlite::Error,
    },
    /// SQLite did not accept the value of a setting.
    #[error("database `{database}`: {pragma} was set to {wanted}, but SQLite reports {got}")]
    Pragma {
        /// The database's name in the workload.
        database: String,
        /// The name of the pragma.
        pragma: &'static str,
        /// The value to which the pragma was set.
        wanted: String,
        /// The pragma's value as reported by SQLite.
        got: String,
    },
    /// A database file is damaged.
    #[error("database `{database}` ({}) is damaged: {found}", path.display())]
    Damaged {
        /// The database's name in the workload.
        database: String,
        /// Path of the database file.
        path: PathBuf,
        /// The output of `PRAGMA integrity_check`.
        found: String,
    },
    /// An HTTP request to the object server failed.
    #[error("HTTP with {address}: cannot {operation}")]
    Http {
        /// Address of the HTTP server.
        address: SocketAddr,
        /// The network operation that failed.
        operation: &'static str,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The response does not come from fonio's server.
    #[error("HTTP with {address}: {problem}")]
    HttpAnswer {
        /// Address of the HTTP server.
        address: SocketAddr,
        /// The problem with the response.
        problem: String,
    },
    /// The bytes that a thread last fetched or read could not be decompressed.
    #[error(
        "{key}: the bytes fetched or read last cannot be inflated; use content = \"deflated\" in the step before"
    )]
    Decode {
        /// The location of the step, as a path of keys.
        key: String,
        /// The error of the decoder.
        #[source]
        source: io::Error,
    },
    /// The run was stopped by the runner's stop flag.
    #[error("the run was stopped")]
    Stopped,
}
