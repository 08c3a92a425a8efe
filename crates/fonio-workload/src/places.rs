//! The directories of a workload's places, and a fix's overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::definition::{Journal, Synchronous, Workload};
use crate::error::WorkloadError;

/// A directory for each place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The parent directory of all places that are not in `named`. Each of these places gets a directory with
    /// the place's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Directories of single places.
    #[serde(default)]
    pub named: BTreeMap<String, PathBuf>,
}

impl Places {
    /// Puts all places below one directory.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        Places { root: Some(root.to_owned()), named: BTreeMap::new() }
    }

    fn of(&self, place: &str) -> Option<PathBuf> {
        self.named.get(place).cloned().or_else(|| Some(self.root.as_ref()?.join(place)))
    }
}

/// The changes of a fix below an unchanged app. In every map and set, `*` means all names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Another directory for a place, such as RAM for the web cache.
    pub places: BTreeMap<String, PathBuf>,
    /// Other settings for a database.
    pub databases: BTreeMap<String, DatabaseOverride>,
    /// Places without file syncs, regardless of the steps.
    pub no_sync_places: BTreeSet<String>,
    /// Databases with `synchronous = off`, regardless of all other settings.
    pub no_sync_databases: BTreeSet<String>,
}

/// Other settings for a database; `None` keeps the workload's setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseOverride {
    /// The journal mode.
    pub journal: Option<Journal>,
    /// The synchronous setting.
    pub synchronous: Option<Synchronous>,
    /// Pages between checkpoints of a write-ahead log.
    pub autocheckpoint: Option<u32>,
    /// Its own directory.
    pub directory: Option<PathBuf>,
}

const ALL: &str = "*";

impl Overrides {
    /// Checks that the workload has all named places and databases.
    pub(crate) fn check(&self, workload: &Workload) -> Result<(), WorkloadError> {
        let places: Vec<&str> = workload.places.keys().map(String::as_str).collect();
        let databases: Vec<&str> = workload.databases.keys().map(String::as_str).collect();
        let named = |kind, known: &[&str], name: &String| {
            if name == ALL || known.contains(&name.as_str()) {
                return Ok(());
            }
            Err(WorkloadError::UnknownOverride {
                workload: workload.name.clone(),
                kind,
                name: name.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            })
        };
        self.places.keys().chain(&self.no_sync_places).try_for_each(|name| named("place", &places, name))?;
        self.databases
            .keys()
            .chain(&self.no_sync_databases)
            .try_for_each(|name| named("database", &databases, name))
    }

    pub(crate) fn syncs_place(&self, place: &str) -> bool {
        !self.no_sync_places.contains(place) && !self.no_sync_places.contains(ALL)
    }

    /// Returns the override for a database, or else the override for all databases.
    pub(crate) fn database<T>(&self, name: &str, pick: impl Fn(&DatabaseOverride) -> Option<T>) -> Option<T> {
        [name, ALL].into_iter().filter_map(|key| self.databases.get(key)).find_map(pick)
    }

    pub(crate) fn synchronous(&self, name: &str, own: Synchronous) -> Synchronous {
        if self.no_sync_databases.contains(name) || self.no_sync_databases.contains(ALL) {
            return Synchronous::Off;
        }
        self.database(name, |database| database.synchronous).unwrap_or(own)
    }
}

/// Returns the directory of each place, with overrides applied.
pub(crate) fn resolve(
    workload: &Workload,
    places: &Places,
    overrides: &Overrides,
) -> Result<BTreeMap<String, PathBuf>, WorkloadError> {
    let directory = |place: &String, about: &String| {
        let moved = overrides.places.get(place).cloned();
        // Several places can share one directory, so each gets its own folder.
        let moved_with_all = || overrides.places.get(ALL).map(|all| all.join(place));
        moved.or_else(moved_with_all).or_else(|| places.of(place)).ok_or_else(|| {
            WorkloadError::PlaceMissing {
                workload: workload.name.clone(),
                place: place.clone(),
                about: about.clone(),
            }
        })
    };
    workload.places.iter().map(|(place, about)| Ok((place.clone(), directory(place, about)?))).collect()
}
