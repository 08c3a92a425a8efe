//! What a run measures: a workload, or an app.

use std::path::PathBuf;

use fonio_workload::app::App;
use fonio_workload::definition::Workload;

/// The place of an app's data, by the name that a workload's places have.
pub(crate) const DATA: &str = "data";

/// The path of an app's data in recordings. No fix can be applied there, because the folder is gone after the run.
pub(crate) const DATA_SHOWN: &str = "/run/fonio/data";

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
    /// The app and the script as the user wrote them, such as `app:redis`.
    pub given: String,
    /// The name of the script that runs.
    pub script: String,
    /// The root directory with the app's packages; `None` if the app uses the programs of this machine.
    pub root: Option<PathBuf>,
}

impl AppWork {
    /// Returns whether the data leave the page cache before the clock starts.
    pub(crate) fn is_cold(&self) -> bool {
        self.app.scripts.get(&self.script).is_some_and(|script| script.cold)
    }
}

impl Work<'_> {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Work::Workload(workload) => workload.name.clone(),
            Work::App(work) => format!("app:{}:{}", work.app.name, work.script),
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

    pub(crate) fn needs_http(&self) -> bool {
        match self {
            Work::Workload(workload) => workload.needs_http(),
            Work::App(_) => false,
        }
    }
}
