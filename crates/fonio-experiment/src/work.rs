//! What a run measures: a workload, or an app.

use std::path::PathBuf;

use fonio_workload::app::{App, Outside};
use fonio_workload::definition::Workload;

/// The place of an app's data, by the name that a workload's places have.
pub(crate) const DATA: &str = "data";

/// The path of an app's data in recordings. No fix can be applied there, because the folder is gone after the run.
pub(crate) const DATA_SHOWN: &str = "/run/fonio/data";

/// The path of the data of a workload in the background, in recordings.
pub(crate) const BACKGROUND_SHOWN: &str = "/run/fonio/background";

/// What a run measures.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// A workload, which this program executes.
    Workload(&'a Workload),
    /// A real program and the script that drives it.
    App(&'a AppWork),
}

/// An app, and what it does in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AppWork {
    /// The app.
    pub app: App,
    /// The name in reports, such as `app:redis:session`.
    pub name: String,
    /// The app and the script as the user wrote them, such as `app:redis`.
    pub given: String,
    /// The name of the script that runs.
    pub script: String,
    /// The root directory with the app's packages; `None` if the app uses the programs of this machine.
    pub root: Option<PathBuf>,
    /// The packages that the app names, with their versions; empty if the app uses the programs of this machine.
    pub versions: Vec<String>,
    /// What the app needs from outside of its root directory.
    pub outside: Outside,
}

impl AppWork {
    /// Returns whether the data leave the page cache before the clock starts.
    pub(crate) fn is_cold(&self) -> bool {
        self.app.scripts.get(&self.script).is_some_and(|script| script.cold)
    }

    /// Returns whether the script runs once without being measured, before the measured runs.
    pub(crate) fn has_warm_up(&self) -> bool {
        self.app.scripts.get(&self.script).is_some_and(|script| script.warm_up)
    }
}

impl Work<'_> {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Work::Workload(workload) => workload.name.clone(),
            Work::App(work) => work.name.clone(),
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn given(&self) -> &str {
        match self {
            Work::Workload(workload) => &workload.name,
            Work::App(work) => &work.given,
        }
    }

    /// Returns the names of the folders that the work needs.
    pub(crate) fn places(&self) -> Vec<&str> {
        match self {
            Work::Workload(workload) => workload.places.keys().map(String::as_str).collect(),
            Work::App(_) => vec![DATA],
        }
    }

    /// Returns the packages of an app, with their versions.
    pub(crate) fn packages(&self) -> Vec<String> {
        match self {
            Work::Workload(_) => Vec::new(),
            Work::App(work) => work.versions.clone(),
        }
    }

    pub(crate) fn needs_http(&self) -> bool {
        match self {
            Work::Workload(workload) => workload.needs_http(),
            Work::App(_) => false,
        }
    }
}
