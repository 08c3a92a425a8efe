//! A workload as data: a TOML file that says which files, rows and objects an app touches, and in which order.
//! `docs/workloads.md` explains how to write one.

mod check;
mod param;
mod parse;
mod quantity;
mod rows;
mod step;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::content::Content;
pub use param::Param;
pub(crate) use param::spelled;
pub use parse::{Shipped, shipped};
pub use quantity::{Bytes, Sizes};
pub use step::{Order, Step, SyncPolicy, Work};

/// A workload: the state before, and the steps that the app does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One word: letters, digits and `_`.
    pub name: String,
    /// One line for lists.
    pub title: String,
    /// The app that it models, and which of its numbers are published or assumed.
    #[serde(default)]
    pub about: String,
    /// Named directories that the caller hands in, each with what is kept there.
    #[serde(default)]
    pub places: BTreeMap<String, String>,
    /// SQLite databases by name.
    #[serde(default)]
    pub databases: BTreeMap<String, Database>,
    /// Groups of like files by name.
    #[serde(default)]
    pub files: BTreeMap<String, Files>,
    /// Makes the state that the app finds. It is not timed.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// The phases that are timed, one after the other.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
    /// Figures of the study that the workload follows, to print beside the measured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// A SQLite database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// The place of its files.
    pub place: String,
    /// The main file's name in that place.
    pub file: String,
    /// `PRAGMA journal_mode`.
    #[serde(default)]
    pub journal: Journal,
    /// `PRAGMA synchronous`.
    #[serde(default)]
    pub synchronous: Synchronous,
    /// `PRAGMA page_size`, bytes; a power of two from 512 to 65536.
    #[serde(default = "page_size_default")]
    pub page_size: u32,
    /// `PRAGMA wal_autocheckpoint`, pages; 0 turns it off. SQLite's default where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocheckpoint: Option<u32>,
    /// `PRAGMA journal_size_limit`. SQLite's default (no limit) where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size_limit: Option<Bytes>,
    /// Statements that make the tables, run before `prepare`'s steps.
    pub schema: String,
}

/// Android's page size in every release.
fn page_size_default() -> u32 {
    4096
}

/// How SQLite can undo a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    /// Deletes the rollback journal at commit.
    Delete,
    /// Truncates it: what Android did before release 9.
    #[default]
    Truncate,
    /// Overwrites its header.
    Persist,
    /// A write-ahead log.
    Wal,
    /// Keeps the rollback journal in memory.
    Memory,
    /// No journal.
    Off,
}

impl Journal {
    /// The word of `PRAGMA journal_mode`.
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

/// When SQLite waits for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// Never.
    Off,
    /// At the critical moments; in WAL only at checkpoints.
    Normal,
    /// At each commit.
    #[default]
    Full,
    /// As full, and the directory after the journal is deleted.
    Extra,
}

impl Synchronous {
    /// The word of `PRAGMA synchronous`.
    #[must_use]
    pub fn pragma(self) -> &'static str {
        match self {
            Synchronous::Off => "off",
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        }
    }

    /// The number that the pragma returns.
    pub(crate) fn number(self) -> i64 {
        match self {
            Synchronous::Off => 0,
            Synchronous::Normal => 1,
            Synchronous::Full => 2,
            Synchronous::Extra => 3,
        }
    }
}

/// A group of like files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Their place.
    pub place: String,
    /// Each one's name in that place; `{n}` stands for its number, and `/` makes folders.
    pub name: String,
    /// What they hold.
    #[serde(default)]
    pub content: Content,
}

/// Threads that run at the same time; a phase ends when all of them have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// One word, also the name of its mark.
    pub name: String,
    /// The threads.
    #[serde(rename = "thread")]
    pub threads: Vec<Thread>,
}

/// One thread's work, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// One word.
    pub name: String,
    /// How many such threads there are; each has its own random numbers.
    #[serde(default = "one")]
    pub instances: u64,
    /// What each of them does.
    pub steps: Vec<Step>,
}

fn one() -> u64 {
    1
}

/// A study's figures for the app that a workload stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Study, table, device.
    pub source: String,
    /// Figures by name; the unit is the name's last word.
    pub figures: BTreeMap<String, f64>,
    /// Figures that the definition was adjusted to, sums of them too (`write_mb` of `seq_write_mb` and
    /// `rand_write_mb`): that a run comes near these proves nothing.
    #[serde(default)]
    pub used_in_fit: Vec<String>,
}

impl Workload {
    /// Whether it fetches over HTTP, so that the caller must start a server.
    #[must_use]
    pub fn needs_http(&self) -> bool {
        self.steps().any(|step| matches!(step, Step::Get { .. }))
    }

    /// Every step, of `prepare` and of all phases, those inside others too.
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
