//! `fonio run app:NAME`: real programs as workloads.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use fonio_core::Unit;
use fonio_experiment::AppWork;
use fonio_lab::{Archive, ProgramRoot, Programs};
use fonio_system::say;
use fonio_workload::app::{App, Outside, shipped};

use crate::signals::begin;

use crate::cli::run::Run;

/// The beginning of an app's name on the command line.
pub(super) const PREFIX: &str = "app:";

/// Returns the app `given`, which is `app:` and NAME, NAME:SCRIPT, a folder, or FOLDER:SCRIPT. Installs its packages.
pub(super) fn prepared(given: &str, arguments: &Run) -> Result<AppWork> {
    let (app, script) = loaded(given, arguments)?;
    let (root, versions) = match installed(&app)? {
        Some(root) => {
            say!("{} runs {}", app.name, root.versions.join(", "));
            (Some(root.path), root.versions)
        }
        None => (None, Vec::new()),
    };
    let name = format!("{PREFIX}{}:{script}", app.name);
    let outside = Outside::default();
    Ok(AppWork { app, name, given: given.to_owned(), script, root, versions, outside })
}

/// Returns the app `given` and the name of its script. Fails if the arguments do not go with an app.
fn loaded(given: &str, arguments: &Run) -> Result<(App, String)> {
    let name = given.strip_prefix(PREFIX).unwrap_or(given);
    ensure!(arguments.arguments.is_empty(), "an app takes no arguments after `--`; change its app.toml");
    ensure!(arguments.work.pace == 1.0, "an app has no pauses to change; leave out --pace");
    let (name, script) = parts(name);
    let app = App::load(name)?;
    let script = app.script(script)?.0.to_owned();
    ensure!(
        arguments.setup.link.is_none() || app.uses_link(),
        "the app {} has no server behind a link; leave out --link, or write `behind_link = true` for a service",
        app.name
    );
    ensure!(
        rustix::process::geteuid().is_root(),
        "an app runs in a mount namespace of its own, which needs root: run the command with sudo"
    );
    Ok((app, script))
}

/// Returns the programs of the app, and installs them if they are missing; `None` if the app uses those of this machine.
fn installed(app: &App) -> Result<Option<ProgramRoot>> {
    let programs = programs(app);
    if programs.packages.is_empty() && programs.wheels.is_empty() {
        return Ok(None);
    }
    if let Some(brought) = ProgramRoot::brought(programs)? {
        return Ok(Some(brought));
    }
    let stop = begin()?;
    Ok(Some(ProgramRoot::of(&Archive::open()?, programs, &|step| say!("{step}"), &stop)?))
}

fn programs(app: &App) -> Programs<'_> {
    Programs { packages: &app.packages, wheels: &app.python }
}

/// What a guest needs to run an app.
pub(super) struct Packed {
    pub(super) programs: ProgramRoot,
    /// The folder of an app that is not shipped with fonio.
    pub(super) folder: Option<PathBuf>,
}

/// Returns what a guest needs to run the app `given`.
pub(super) fn packed(given: &str, arguments: &Run) -> Result<Packed> {
    let (app, _) = loaded(given, arguments)?;
    let Some(programs) = installed(&app)? else {
        bail!(
            "{} has no packages, so it runs the programs of this machine, which a guest does not have: name packages in its app.toml",
            app.name
        );
    };
    let name = given.strip_prefix(PREFIX).unwrap_or(given);
    let folder = parts(name).0;
    Ok(Packed { programs, folder: folder.contains('/').then(|| PathBuf::from(folder)) })
}

/// Splits NAME:SCRIPT or FOLDER:SCRIPT.
fn parts(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((name, script)) if !script.contains('/') => (name, Some(script)),
        _ => (name, None),
    }
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
        let size = archive.as_ref().and_then(|archive| ProgramRoot::size(archive, programs(&app)));
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
