//! `fonio run app:NAME`: real programs as workloads.

use anyhow::{Result, ensure};
use fonio_core::Unit;
use fonio_experiment::AppWork;
use fonio_lab::{Archive, ProgramRoot};
use fonio_system::say;
use fonio_workload::app::{App, shipped};

use crate::cli::run::Run;

/// The beginning of an app's name on the command line.
pub(super) const PREFIX: &str = "app:";

/// Returns the app `given`, which is `app:` and NAME, NAME:SCRIPT, a folder, or FOLDER:SCRIPT. Installs its packages.
pub(super) fn prepared(given: &str, arguments: &Run) -> Result<AppWork> {
    let name = given.strip_prefix(PREFIX).unwrap_or(given);
    ensure!(arguments.arguments.is_empty(), "an app takes no arguments after `--`; change its app.toml");
    ensure!(
        arguments.work.background.is_none(),
        "a workload in the background does not go with an app; leave out --background"
    );
    ensure!(arguments.setup.link.is_none(), "an app has no link to a server; leave out --link");
    ensure!(arguments.work.pace == 1.0, "an app has no pauses to change; leave out --pace");
    let (name, script) = match name.rsplit_once(':') {
        Some((name, script)) if !script.contains('/') => (name, Some(script)),
        _ => (name, None),
    };
    let app = App::load(name)?;
    let script = app.script(script)?.0.to_owned();
    ensure!(
        rustix::process::geteuid().is_root(),
        "an app runs in a mount namespace of its own, which needs root: run the command with sudo"
    );
    let root = if app.packages.is_empty() {
        None
    } else {
        let root = ProgramRoot::of(&Archive::open()?, &app.packages, &|step| say!("{step}"))?;
        say!("{} runs {}", app.name, root.versions.join(", "));
        Some(root.path)
    };
    Ok(AppWork { app, given: given.to_owned(), script, root })
}

/// An app in the list of workloads.
pub(super) struct ListedApp {
    pub(super) name: String,
    pub(super) title: String,
    /// Its scripts, and the space that it uses on the disk.
    pub(super) detail: String,
}

/// Returns the shipped apps.
pub(super) fn listed() -> Result<Vec<ListedApp>> {
    // A machine without apt can still list them.
    let archive = Archive::open().ok();
    let listed = |app: App| {
        let size = archive.as_ref().and_then(|archive| ProgramRoot::size(archive, &app.packages));
        let size = size.map_or("not installed".to_owned(), |bytes| Unit::Bytes.format(bytes as f64));
        let scripts = app.scripts.keys().cloned().collect::<Vec<_>>().join(", ");
        ListedApp {
            name: format!("{PREFIX}{}", app.name),
            title: app.title,
            detail: format!("{scripts}; {size}"),
        }
    };
    shipped().iter().map(|shipped| Ok(listed(App::load(shipped.name)?))).collect()
}
