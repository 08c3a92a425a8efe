//! The directories of a workload's places, and a fix's overrides of the workload's settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::definition::{Journal, Synchronous, Workload};
use crate::error::WorkloadError;

/// The directory of each place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The parent directory of all places that are not in `named`. Each place that is not in `named` gets a
    /// directory with the place's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Directories of individual places, by place name.
    #[serde(default)]
    pub named: BTreeMap<String, PathBuf>,
}

impl Places {
    /// Puts each place in a folder below `root`.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        Places { root: Some(root.to_owned()), named: BTreeMap::new() }
    }

    fn of(&self, place: &str) -> Option<PathBuf> {
        self.named.get(place).cloned().or_else(|| Some(self.root.as_ref()?.join(place)))
    }
}

/// The settings that a fix overrides, without changing the app. In every map and set, `*` means all names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Replacement directories of places, such as a RAM disk for the web cache.
    pub places: BTreeMap<String, PathBuf>,
    /// Replacement settings of databases, by database name.
    pub databases: BTreeMap<String, DatabaseOverride>,
    /// Places in which files are never synced, regardless of the steps.
    pub no_sync_places: BTreeSet<String>,
    /// Databases that use `synchronous = off`, regardless of all other settings.
    pub no_sync_databases: BTreeSet<String>,
}

/// Replacement settings of a database; `None` keeps the workload's setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseOverride {
    /// The database's journal mode.
    pub journal: Option<Journal>,
    /// The database's synchronous setting.
    pub synchronous: Option<Synchronous>,
    /// The number of pages between checkpoints of a write-ahead log.
    pub autocheckpoint: Option<u32>,
    /// Directory of the database's files.
    pub directory: Option<PathBuf>,
}

const ALL: &str = "*";

impl Overrides {
    /// Checks that the workload has all places and databases that the overrides name.
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

    /// Returns the override for a database; if there is none, the override for all databases.
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

/// Returns the directory of each place, after applying the overrides.
pub(crate) fn resolve(
    workload: &Workload,
    places: &Places,
    overrides: &Overrides,
) -> Result<BTreeMap<String, PathBuf>, WorkloadError> {
    let directory = |place: &String, about: &String| {
        let moved = overrides.places.get(place).cloned();
        // With `*`, several places share one directory, so each gets its own folder.
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
