//! The services of a Compose file (`docker-compose.yml`) as a workload: their containers run with Podman.
//!
//! [`Stack::load`] reads the file, with its variables, and checks it. [`Stack::app`] turns it into an [`App`], which pulls
//! the images into a storage on the device under test, starts the services in the order of their dependencies, waits until
//! they are ready, and drives them.
//!
//! Every key of the file is used, listed in [`Stack::notes`] as not used, or refused with its line.

mod definition;
mod error;
mod interpolate;
mod keys;
mod parse;
mod session;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_system::regular;

pub use error::ComposeError;

use crate::app::{App, Outside};
use definition::File;
use error::Problem;
use parse::Reader;

/// Maximum number of bytes of a Compose file.
const BYTES_MAX: u64 = 4 << 20;
/// The name of the script of the app.
pub const SCRIPT: &str = "session";

/// The services of a Compose file.
#[derive(Clone, Debug)]
pub struct Stack {
    path: PathBuf,
    folder: PathBuf,
    file: File,
    notes: Vec<String>,
}

/// What a run of a stack measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// What drives the services.
    pub drive: Drive,
    /// The name of a unit of work, and their number.
    pub units: Option<(String, u64)>,
}

/// What drives the services of a stack while the clock runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// Nothing: the services run for this time.
    For(Duration),
    /// The service with this name, which is started last. The clock stops when it ends.
    Until(String),
    /// A command in the container of a service.
    Exec {
        /// The service.
        service: String,
        /// The command and its arguments.
        words: Vec<String>,
    },
    /// A command with the files of this machine, in the network of the stack.
    Command(Vec<String>),
}

/// An image that a stack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededImage<'a> {
    /// The image as the file names it, or as Compose names the image that it would build.
    pub name: &'a str,
    /// The first service that uses it.
    pub service: &'a str,
    /// The folder from which Compose would build it.
    pub built_from: Option<&'a str>,
}

impl Stack {
    /// Reads a Compose file, with `environment` and the file `.env` beside it for its variables. Services with a profile are
    /// left out if nothing needs them; `wanted` are names of services that are needed. Fails with the line if a key or a value
    /// is wrong or cannot be used, or if a file that it names cannot be read.
    pub fn load(
        path: &Path,
        environment: &BTreeMap<String, String>,
        wanted: &[&str],
    ) -> Result<Stack, ComposeError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| ComposeError::Unreadable { path, source }
        };
        let text = regular::read_text(path, BYTES_MAX).map_err(unreadable(path))?;
        let absolute = fs::canonicalize(path).map_err(unreadable(path))?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        let mut variables = environment.clone();
        let of_folder = folder.join(".env");
        match regular::read_text(&of_folder, BYTES_MAX) {
            Ok(text) => {
                let read =
                    interpolate::variables(&text, environment).map_err(|Problem { line, problem }| {
                        ComposeError::Wrong { path: of_folder.clone(), line, problem }
                    })?;
                for (name, value) in read {
                    variables.entry(name).or_insert(value);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&of_folder)(error)),
        }
        Stack::parse(&text, path, &folder, &variables, wanted)
    }

    /// Parses the text of a Compose file in `folder`, with these variables. Errors name the file `path`. Otherwise as
    /// [`Stack::load`].
    pub fn parse(
        text: &str,
        path: &Path,
        folder: &Path,
        variables: &BTreeMap<String, String>,
        wanted: &[&str],
    ) -> Result<Stack, ComposeError> {
        let wrong = |Problem { line, problem }| ComposeError::Wrong { path: path.to_owned(), line, problem };
        let mut top = yaml::parse(text).map_err(wrong)?;
        let mut unset = Vec::new();
        interpolate::interpolate(&mut top, variables, &mut unset).map_err(wrong)?;
        let mut reader = Reader { folder, variables, left_out: BTreeMap::new(), notes: Vec::new() };
        let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
        let file = reader.file(&top, &wanted).map_err(wrong)?;
        let mut notes = reader.notes;
        if !unset.is_empty() {
            notes.push(format!("not set, and therefore empty: {}", unset.join(", ")));
        }
        for ((key, reason), services) in &reader.left_out {
            let of = if services.is_empty() { String::new() } else { format!(" of {}", services.join(", ")) };
            notes.push(format!("not used: `{key}`{of} ({reason})"));
        }
        let stack = Stack { path: path.to_owned(), folder: folder.to_owned(), file, notes };
        wanted.into_iter().try_for_each(|service| stack.check_service(service))?;
        Ok(stack)
    }

    /// Returns the name of the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the folder of the file, to which its paths are relative.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns sentences on what is left out or differs from Compose.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns Debian's packages that a stack needs.
    #[must_use]
    pub fn packages() -> Vec<String> {
        session::packages()
    }

    /// Returns the images of the services, each once.
    #[must_use]
    pub fn images(&self) -> Vec<NeededImage<'_>> {
        let of = |name: &str| self.file.services.iter().find(|service| service.image.name == name);
        let services = session::image_names(&self.file).into_iter().filter_map(of);
        let needed = services.map(|service| NeededImage {
            name: &service.image.name,
            service: &service.name,
            built_from: service.image.built_from.as_deref(),
        });
        needed.collect()
    }

    /// Fails if another service depends on the one that ends the run.
    pub fn check(&self, work: &Work) -> Result<(), ComposeError> {
        if let Drive::Until(service) = &work.drive
            && let Some((dependent, _)) = self.file.dependents(service).next()
        {
            return Err(ComposeError::EndNeeded {
                path: self.path.clone(),
                service: service.clone(),
                dependent: dependent.name.clone(),
            });
        }
        Ok(())
    }

    /// Returns the app that runs the stack, and what it needs from outside of its root directory. `images` are folders with
    /// the images, in the format of the Open Container Initiative, in the order of [`Stack::images`].
    #[must_use]
    pub fn app(&self, work: &Work, images: &[PathBuf]) -> (App, Outside) {
        assert_eq!(images.len(), self.images().len(), "every image has a folder");
        let folders: Vec<String> = images.iter().map(|folder| folder.display().to_string()).collect();
        let app = session::app(&self.file, work, &folders);
        let copies = self.file.sources.iter().enumerate();
        let copies =
            copies.map(|(at, from)| (from.clone(), PathBuf::from(format!("{}/{at}", session::MOUNTS))));
        (app, Outside { copies: copies.collect(), folders: images.to_vec() })
    }

    fn check_service(&self, service: &str) -> Result<(), ComposeError> {
        if self.file.service(service).is_some() {
            return Ok(());
        }
        let names = self.file.services.iter().map(|service| service.name.as_str());
        let nearest = fonio_core::nearest(service, names);
        Err(ComposeError::NoService { path: self.path.clone(), service: service.to_owned(), nearest })
    }
}
