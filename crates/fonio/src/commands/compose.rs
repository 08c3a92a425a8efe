//! `fonio run --compose FILE`: the containers of a Compose file as a workload.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use fonio_experiment::AppWork;
use fonio_lab::{Archive, ContainerImage, Images, ProgramRoot, Programs, WantedImage};
use fonio_system::say;
use fonio_workload::compose::{self, Drive, Stack, Work};

use crate::cli::per::{Per, PerCount};
use crate::cli::run::Run;
use crate::signals::begin;

/// The part of a driver's words that stands for the units of work.
const UNITS: &str = "$UNITS";
/// How many characters of an image's digest are shown.
const DIGEST_CHARACTERS: usize = "sha256:".len() + 12;

/// Returns the services of the Compose file `path` as an app, and their images, which must live as long as the run. Installs
/// Podman, and brings the images.
pub(super) fn prepared(path: &Path, arguments: &Run) -> Result<(AppWork, Vec<ContainerImage>)> {
    let (stack, work) = loaded(path, arguments)?;
    let packages = Stack::packages();
    let programs = Programs { packages: &packages, wheels: &[] };
    let stop = begin()?;
    let announce = |step: &str| say!("{step}");
    let archive = Archive::open()?;
    let root = ProgramRoot::of(&archive, programs, &announce, &stop)?;
    for note in stack.notes() {
        say!("note: {note}");
    }
    let needed = stack.images();
    let wanted: Vec<WantedImage<'_>> = needed
        .iter()
        .map(|image| WantedImage {
            name: image.name,
            service: image.service,
            built_from: image.built_from,
            folder: stack.folder(),
        })
        .collect();
    let images = Images::new(&archive, &root, &announce, &stop).bring(&wanted, &arguments.stack.images)?;
    let told = needed.iter().zip(&images).map(|(needed, image)| {
        let digest: String = image.digest.chars().take(DIGEST_CHARACTERS).collect();
        format!("image {} {digest}", needed.name)
    });
    let versions: Vec<String> = root.versions.iter().cloned().chain(told).collect();
    say!("{} runs {}", stack.name(), versions.join(", "));
    let folders: Vec<_> = images.iter().map(|image| image.folder.clone()).collect();
    let (app, outside) = stack.app(&work, &folders);
    let work = AppWork {
        name: format!("compose:{}", app.name),
        app,
        given: format!("--compose={}", path.display()),
        script: compose::SCRIPT.to_owned(),
        root: Some(root.path),
        versions,
        outside,
    };
    Ok((work, images))
}

/// Reads the file, and checks the command line.
fn loaded(path: &Path, arguments: &Run) -> Result<(Stack, Work)> {
    ensure!(arguments.work.pace == 1.0, "containers have no pauses to change; leave out --pace");
    ensure!(
        arguments.setup.link.is_none(),
        "the services of a Compose file share one network without a link; leave out --link"
    );
    let work = Work { drive: drive(arguments)?, units: units(arguments)? };
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let wanted: Vec<&str> = match &work.drive {
        Drive::Until(service) | Drive::Exec { service, .. } => vec![service],
        Drive::For(_) | Drive::Command(_) => Vec::new(),
    };
    let stack = Stack::load(path, &environment, &wanted)?;
    stack.check(&work)?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "containers run in namespaces of their own, which need root: run the command with sudo"
    );
    Ok((stack, work))
}

fn drive(arguments: &Run) -> Result<Drive> {
    let given = &arguments.stack;
    let text = |word: &OsString| {
        word.to_str().map(str::to_owned).ok_or_else(|| anyhow!("{} is not UTF-8", word.display()))
    };
    let words: Vec<String> = arguments.arguments.iter().map(text).collect::<Result<_>>()?;
    Ok(match (given.time, &given.ends_with, &given.exec, words.is_empty()) {
        (Some(time), None, None, true) => Drive::For(time),
        (None, Some(service), None, true) => Drive::Until(service.clone()),
        (None, None, Some(service), false) => Drive::Exec { service: service.clone(), words },
        (None, None, None, false) => Drive::Command(words),
        (None, None, Some(service), true) => bail!("name the command for {service} after `--`"),
        (None, None, None, true) => bail!(
            "a run of containers needs an end: add --for 30s, --ends-with SERVICE, or a command after `--` (with --exec \
             SERVICE, it runs in the container)"
        ),
        _ => bail!("--for, --ends-with and a command after `--` each end the run; use one of them"),
    })
}

/// Returns the name and the number of the units of work.
fn units(arguments: &Run) -> Result<Option<(String, u64)>> {
    let is_scalable = arguments.arguments.iter().any(|word| word.to_string_lossy().contains(UNITS));
    let units = match &arguments.stack.per {
        None => None,
        Some(Per { name, count: PerCount::Given(count) }) => Some((name.clone(), *count)),
        Some(Per { name, .. }) => bail!("write the number of units, as in --per {name}=500"),
    };
    ensure!(
        units.is_some() || !is_scalable,
        "the command has {UNITS}: add the number of its units, as in --per request=500"
    );
    ensure!(
        arguments.work.scale == 1.0 || is_scalable,
        "--scale changes the units of a command with {UNITS}; leave it out, or add --per request=500 and write {UNITS} in the \
         command"
    );
    Ok(units)
}
