//! The errors of workloads, each with a remedy.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a workload could not be read, prepared or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No shipped workload has this name.
    #[error(
        "no workload is called `{name}`{nearest}; `fonio run` lists them, or give the path of a TOML file"
    )]
    Unknown {
        /// The name asked for.
        name: String,
        /// [`fonio_core::nearest`] of the shipped names.
        nearest: String,
    },
    /// A file that describes a workload or a trace could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is not a workload. The cause names the line, the key and the expected value.
    #[error("{origin}: not a workload")]
    Toml {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// Line, key and expectation.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value is well-formed, but makes no sense.
    #[error("{origin}: {key} = {value}: {problem}")]
    Value {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// Where, as a path of keys.
        key: String,
        /// The value as it is written there.
        value: String,
        /// Why it makes no sense, and the text to write instead.
        problem: String,
    },
    /// A statement or schema that SQLite refuses.
    #[error("{origin}: {key}: SQLite refuses `{statement}`")]
    Statement {
        /// The file's path, or the shipped workload's name.
        origin: String,
        /// Where, as a path of keys.
        key: String,
        /// The statement.
        statement: String,
        /// SQLite's reason.
        #[source]
        source: rusqlite::Error,
    },
    /// An option of Mobibench's command line that has no meaning here.
    #[error("mobibench option `{option} {value}`: {problem}")]
    Mobibench {
        /// The option, such as `-y`.
        option: String,
        /// Its value; empty where there is none.
        value: String,
        /// Why, and the way out.
        problem: String,
    },
    /// A line of a system-call trace that cannot be replayed.
    #[error("{origin}, line {line}: `{text}`: {problem}")]
    Trace {
        /// The trace's path.
        origin: String,
        /// Counted from one.
        line: usize,
        /// The line, shortened.
        text: String,
        /// The mistake in the line.
        problem: String,
    },
    /// The caller gave no directory for a place.
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
    /// An override names something that the workload does not have.
    #[error("workload `{workload}` has no {kind} `{name}` to override; it has {known}")]
    UnknownOverride {
        /// The workload.
        workload: String,
        /// `place` or `database`.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A number among the options is out of range.
    #[error("{option} = {value} is out of range; {remedy}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values.
        remedy: &'static str,
    },
    /// The workload fetches over HTTP and no server's address was given.
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
    /// A directory of a place holds something already.
    #[error("{} is not empty; give an empty directory, since the workload makes its own files there", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A call on a file failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A step needs files of a group that has none at that time.
    #[error(
        "{key}: no file of `{files}` exists to {operation}; write some in `prepare` or in an earlier step"
    )]
    NoFile {
        /// The step, as a path of keys.
        key: String,
        /// The group of files.
        files: String,
        /// The operation that the step wanted to do.
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
    #[error("database `{database}`: asked for {pragma} = {wanted}, SQLite says {got}")]
    Pragma {
        /// The database's name in the workload.
        database: String,
        /// The setting.
        pragma: &'static str,
        /// The value that was set.
        wanted: String,
        /// SQLite's answer.
        got: String,
    },
    /// SQLite finds a database damaged.
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
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The answer is not from fonio's own server.
    #[error("HTTP with {address}: {problem}")]
    HttpAnswer {
        /// The server.
        address: SocketAddr,
        /// The mistake in the answer.
        problem: String,
    },
    /// Fetched bytes could not be decoded.
    #[error("{key}: the bytes at hand cannot be inflated; fetch or read content = \"deflated\" before")]
    Decode {
        /// The step, as a path of keys.
        key: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The runner's stop flag was set.
    #[error("the run was stopped")]
    Stopped,
}
