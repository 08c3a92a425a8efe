//! The services of a Compose file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The services of a file, as Compose would run them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
    /// The name of the project.
    pub(super) name: String,
    /// The services, each after those that it depends on.
    pub(super) services: Vec<Container>,
    /// The files and folders of this machine that services mount. None is inside another one.
    pub(super) sources: Vec<PathBuf>,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Container {
    pub(super) name: String,
    /// The line of its name.
    pub(super) line: usize,
    pub(super) image: Image,
    /// Further names by which other services reach it.
    pub(super) aliases: Vec<String>,
    /// The command; `None` for the image's command.
    pub(super) command: Option<Vec<String>>,
    /// The program before the command; `None` for the image's.
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) mounts: Vec<Mount>,
    pub(super) depends_on: Vec<Dependency>,
    pub(super) health: Health,
    /// Further options of `podman run`.
    pub(super) options: Vec<String>,
    /// Whether the service has no network.
    pub(super) is_offline: bool,
}

/// The image of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    /// The image as the file names it, or as Compose names the image that it builds.
    pub(super) name: String,
    /// The folder from which Compose would build it.
    pub(super) built_from: Option<String>,
}

/// What a service mounts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mount {
    /// A volume; without a name, one of this container alone.
    Volume {
        /// Its name.
        name: Option<String>,
        /// The path in the container.
        target: String,
        /// The options, such as `ro`.
        options: Vec<&'static str>,
    },
    /// A copy of a file or folder of this machine.
    Bind {
        /// The file or folder.
        source: PathBuf,
        /// The path in the container.
        target: String,
        /// Whether the container may not write.
        is_read_only: bool,
    },
    /// A file system in memory: the path, and options after a colon.
    Memory(String),
}

/// A service that another one needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dependency {
    pub(super) service: String,
    pub(super) condition: Condition,
    /// Whether the file must have the service.
    pub(super) is_required: bool,
    /// The line where it is named.
    pub(super) line: usize,
}

impl Dependency {
    /// Returns the need for a service that has started.
    pub(super) fn started(service: String, line: usize) -> Dependency {
        Dependency { service, condition: Condition::Started, is_required: true, line }
    }
}

/// The state that a dependency must have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It has started.
    Started,
    /// Its health check succeeded.
    Healthy,
    /// It has ended with exit code 0.
    Completed,
}

/// The health check of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Health {
    pub(super) test: Test,
    /// The time between checks.
    pub(super) interval: Duration,
    /// The longest time of a check.
    pub(super) timeout: Duration,
    /// The failures in a row that make the service unhealthy.
    pub(super) retries: u32,
    /// The time in which failures do not count.
    pub(super) start_period: Duration,
}

/// How a service is checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// By the health check of its image, if it has one and another service waits for it.
    OfImage,
    /// Not at all.
    None,
    /// By this command in the container.
    Command(Vec<String>),
}

impl Default for Health {
    /// The times that Compose has if the file names none.
    fn default() -> Health {
        Health {
            test: Test::OfImage,
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            retries: 3,
            start_period: Duration::ZERO,
        }
    }
}

impl Health {
    /// Returns the time after which Compose gives up on a service that was never healthy.
    pub(super) fn within(&self) -> Duration {
        self.start_period + (self.interval + self.timeout) * self.retries
    }
}

impl File {
    /// Returns the service with this name.
    pub(super) fn service(&self, name: &str) -> Option<&Container> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Returns the services that depend on `name`, with the condition.
    pub(super) fn dependents(&self, name: &str) -> impl Iterator<Item = (&Container, Condition)> {
        self.services.iter().flat_map(move |service| {
            let of_name = service.depends_on.iter().filter(move |dependency| dependency.service == name);
            of_name.map(move |dependency| (service, dependency.condition))
        })
    }

    /// Returns the place of the copy of a mounted file or folder: the number of the copied folder, and the rest of the path.
    pub(super) fn copy_of(&self, source: &Path) -> (usize, PathBuf) {
        let found = self
            .sources
            .iter()
            .enumerate()
            .find_map(|(at, copied)| source.strip_prefix(copied).ok().map(|rest| (at, rest.to_owned())));
        found.expect("every mounted path is below a copied one")
    }
}
