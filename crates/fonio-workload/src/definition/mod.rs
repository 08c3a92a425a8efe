//! Workload definitions: TOML files with an app's steps on files, rows and objects. `docs/workloads.md`
//! explains how to write a definition.

mod check;
mod param;
mod parse;
mod quantity;
mod rates;
mod rows;
mod step;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::content::Content;
pub use param::Param;
pub(crate) use param::spelled;
pub use parse::{Shipped, shipped};
pub use quantity::{Bytes, Sizes};
pub use rates::Rates;
pub use step::{Order, Step, SyncPolicy, Work};

/// A workload: the initial state, and the steps of the app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The workload's name: letters, digits and `_`.
    pub name: String,
    /// The workload's title in lists.
    pub title: String,
    /// A description of the modelled app. The description says which numbers are published and which are
    /// assumed.
    #[serde(default)]
    pub about: String,
    /// Directories that the caller supplies, by name, each with a description of its contents.
    #[serde(default)]
    pub places: BTreeMap<String, String>,
    /// SQLite databases by name.
    #[serde(default)]
    pub databases: BTreeMap<String, Database>,
    /// Groups of similar files, by group name.
    #[serde(default)]
    pub files: BTreeMap<String, Files>,
    /// The steps that create the initial state. The time of these steps is not measured.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// The timed phases, executed one after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
    /// A published study's figures for the app, printed next to the measured figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// An SQLite database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// The name of the place that contains the database's files.
    pub place: String,
    /// The name of the database's main file.
    pub file: String,
    /// The value of `PRAGMA journal_mode`.
    #[serde(default)]
    pub journal: Journal,
    /// The value of `PRAGMA synchronous`.
    #[serde(default)]
    pub synchronous: Synchronous,
    /// The value of `PRAGMA page_size` in bytes; a power of two from 512 to 65536.
    #[serde(default = "page_size_default")]
    pub page_size: u32,
    /// The value of `PRAGMA wal_autocheckpoint` in pages. 0: no automatic checkpoints; absent: SQLite's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocheckpoint: Option<u32>,
    /// The value of `PRAGMA journal_size_limit`. If absent: SQLite's default (no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size_limit: Option<Bytes>,
    /// SQL statements that create the tables; they run before the steps of `prepare`.
    pub schema: String,
}

/// Returns Android's SQLite page size, which is the same in every release.
fn page_size_default() -> u32 {
    4096
}

/// SQLite's journal modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    /// Deletes the rollback journal at commit.
    Delete,
    /// Truncates the rollback journal, as Android did before release 9.
    #[default]
    Truncate,
    /// Overwrites the header of the rollback journal at commit.
    Persist,
    /// Uses a write-ahead log.
    Wal,
    /// Keeps the rollback journal in memory.
    Memory,
    /// Uses no journal.
    Off,
}

impl Journal {
    /// Returns the mode's keyword in `PRAGMA journal_mode`.
    #[must_use]
    pub fn pragma(self) -> &'static str {
        match self {
            Journal::Delete => "delete",
            Journal::Truncate => "truncate",
            Journal::Persist => "persist",
            Journal::Wal => "wal",
            Journal::Memory => "memory",
            Journal::Off => "off",
        }
    }
}

/// The points at which SQLite syncs its files, in the order of the numbers in `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// SQLite never syncs.
    Off,
    /// SQLite syncs at critical points; in WAL mode only at checkpoints.
    Normal,
    /// SQLite syncs at each commit.
    #[default]
    Full,
    /// SQLite syncs as with `full`, and also syncs the directory after deleting the journal.
    Extra,
}

impl Synchronous {
    /// Returns the setting's keyword in `PRAGMA synchronous`.
    #[must_use]
    pub fn pragma(self) -> &'static str {
        ["off", "normal", "full", "extra"][self as usize]
    }

    /// Returns the number that a query of `PRAGMA synchronous` returns for this setting.
    pub(crate) fn number(self) -> i64 {
        self as i64
    }
}

/// A group of similar files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The name of the place that contains the files.
    pub place: String,
    /// The name pattern of the files: `{n}` is the file's number, and `/` creates folders.
    pub name: String,
    /// The kind of content of the files.
    #[serde(default)]
    pub content: Content,
}

/// A phase: threads that run concurrently. The phase ends when all its threads have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The phase's name (one word), which is also the name of the phase's mark.
    pub name: String,
    /// The threads that run during the phase.
    #[serde(rename = "thread")]
    pub threads: Vec<Thread>,
}

/// A thread of a phase, with its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The thread's name (one word).
    pub name: String,
    /// Number of threads that execute these steps; each thread has its own random numbers.
    #[serde(default = "step::one")]
    pub instances: u64,
    /// The steps that each of these threads executes.
    pub steps: Vec<Step>,
}

/// Figures of a published study for the modelled app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The source of the figures: the study, the table and the device.
    pub source: String,
    /// Published figures by name; the last word of a name is the unit.
    pub figures: BTreeMap<String, f64>,
    /// Names of figures that the definition was fitted to, and of sums of these figures (such as `write_mb`).
    /// A result close to these figures proves nothing.
    #[serde(default)]
    pub used_in_fit: Vec<String>,
}

impl Workload {
    /// Returns whether a step fetches objects over HTTP; if so, the caller must start a server.
    #[must_use]
    pub fn needs_http(&self) -> bool {
        self.steps().any(|step| matches!(step, Step::Get { .. }))
    }

    /// Returns all steps of `prepare` and of the phases, including nested steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let timed = self.phases.iter().flat_map(|phase| &phase.threads).flat_map(|thread| &thread.steps);
        let mut waiting: Vec<&Step> = self.prepare.iter().chain(timed).collect();
        waiting.reverse();
        std::iter::from_fn(move || {
            let step = waiting.pop()?;
            waiting.extend(step.inner().iter().rev());
            Some(step)
        })
    }
}
