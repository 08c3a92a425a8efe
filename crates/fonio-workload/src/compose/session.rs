//! Turns the services of a Compose file into an app: scripts that run their containers with Podman, and the order of the steps.
//!
//! The commands of the file are in scripts, not in the steps, because a step replaces variables such as `$DATA` in its words.
//! Podman's storage is in `$DATA/containers`, and copies of mounted folders in `$DATA/mounts`, both on the device under test.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::definition::{Condition, Container, File, Mount, Test};
use super::{Drive, Work};
use crate::app::{App, Ready, Script, Service, Signal, Step};

/// Debian's packages that run containers.
const PACKAGES: [&str; 5] = ["podman", "crun", "catatonit", "busybox-static", "skopeo"];
/// The folder of the copies of mounted files and folders, in the data.
pub(super) const MOUNTS: &str = "mounts";
/// The variable that stands for the units of work in a driver's words.
const UNITS: &str = "$UNITS";
/// How long a service without a health check runs before it counts as ready.
const SETTLED: &str = "2";
/// The longest time in seconds for starting a container. Its image may have to be written to a slow device.
const START_WITHIN_S: f64 = 600.0;
/// The longest pause between two health checks at the start.
const PAUSE_MAX: Duration = Duration::from_secs(1);

const SETUP: &str = include_str!("setup.sh");
const HEALTHY: &str = include_str!("healthy.sh");

/// Returns the app that runs the services and drives them. `images` has the folder of each image, in the order of
/// [`image_names`].
pub(super) fn app(file: &File, work: &Work, images: &[String]) -> App {
    let mut made = Made { file, images: image_names(file), files: BTreeMap::new(), before: Vec::new() };
    made.files.insert("setup.sh".to_owned(), SETUP.to_owned());
    made.files.insert("healthy.sh".to_owned(), HEALTHY.to_owned());
    let mut pull = "set -e\n".to_owned();
    for (at, folder) in images.iter().enumerate() {
        let _ = writeln!(pull, "podman pull -q {} >\"$RUN/image-{at}\"", quoted(&format!("oci:{folder}")));
    }
    made.files.insert("pull.sh".to_owned(), pull);
    let last = match &work.drive {
        Drive::Until(service) => Some(service.as_str()),
        _ => None,
    };
    for service in &file.services {
        let script = made.container(service);
        made.files.insert(format!("{}.run.sh", service.name), script);
    }
    let mut services = BTreeMap::new();
    let mut healthy: Vec<&str> = Vec::new();
    for service in file.services.iter().filter(|service| Some(service.name.as_str()) != last) {
        for dependency in &service.depends_on {
            if dependency.condition == Condition::Healthy {
                made.wait_for(&dependency.service, &mut healthy);
            }
        }
        let run = script_of(&service.name, "run");
        if file.dependents(&service.name).any(|(_, condition)| condition == Condition::Completed) {
            made.before.push(Step { run: Some(run), name: Some(service.name.clone()), ..Step::default() });
            continue;
        }
        let ready = Ready::File(format!("$RUN/{}.started", service.name));
        services.insert(
            service.name.clone(),
            Service {
                run,
                user: None,
                ready,
                signal: Signal::Kill,
                within_s: START_WITHIN_S,
                behind_link: false,
                may_end: true,
            },
        );
        made.before.push(Step { start: Some(service.name.clone()), ..Step::default() });
    }
    for name in services.keys() {
        made.wait_for(name, &mut healthy);
    }
    if let Some(needed) = last.and_then(|last| file.service(last)) {
        for dependency in &needed.depends_on {
            if dependency.condition == Condition::Healthy {
                made.wait_for(&dependency.service, &mut healthy);
            }
        }
    }
    if services.keys().any(|name| !healthy.contains(&name.as_str())) {
        let run = Some(vec!["sleep".to_owned(), SETTLED.to_owned()]);
        made.before.push(Step { run, name: Some("start".to_owned()), ..Step::default() });
    }
    let step = made.driver(work);
    let environment = [
        ("CONTAINERS_CONF", "$RUN/containers.conf"),
        ("CONTAINERS_STORAGE_CONF", "$RUN/storage.conf"),
        ("DISABLE_HC_SYSTEMD", "true"),
        ("DATA", "$DATA"),
        ("FILES", "$FILES"),
        ("RUN", "$RUN"),
    ];
    let shell = |name: &str| Step {
        run: Some(vec!["sh".to_owned(), format!("$FILES/{name}.sh")]),
        name: Some(name.to_owned()),
        ..Step::default()
    };
    let count = file.services.len();
    let services_told = if count == 1 { "1 service".to_owned() } else { format!("{count} services") };
    App {
        name: file.name.clone(),
        title: format!("{services_told} of a Compose file"),
        about:
            "Real: the images, and Podman's storage on the device. Not real: one network for all services."
                .to_owned(),
        packages: PACKAGES.map(str::to_owned).to_vec(),
        python: Vec::new(),
        unit: work.units.as_ref().map(|(name, _)| name.clone()),
        user: "root".to_owned(),
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        services,
        prepare: vec![shell("setup"), shell("pull")],
        scripts: [(
            super::SCRIPT.to_owned(),
            Script {
                title: String::new(),
                cold: false,
                warm_up: true,
                before: made.before,
                steps: vec![step],
            },
        )]
        .into(),
        files: made.files,
        is_stack: true,
    }
}

/// Returns Debian's packages that run containers and bring images.
pub(super) fn packages() -> Vec<String> {
    PACKAGES.map(str::to_owned).to_vec()
}

/// Returns the images of the services, each once.
pub(super) fn image_names(file: &File) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for service in &file.services {
        if !names.contains(&service.image.name.as_str()) {
            names.push(&service.image.name);
        }
    }
    names
}

struct Made<'a> {
    file: &'a File,
    images: Vec<&'a str>,
    files: BTreeMap<String, String>,
    before: Vec<Step>,
}

impl<'a> Made<'a> {
    /// Adds a step that waits until the service is healthy, if it has a health check and no step waits for it yet.
    fn wait_for(&mut self, name: &str, healthy: &mut Vec<&'a str>) {
        let Some(service) = self.file.service(name) else { return };
        let is_known = healthy.contains(&name);
        let Some(check) = self.check(service).filter(|_| !is_known) else { return };
        healthy.push(&service.name);
        self.files.insert(format!("{name}.check.sh"), format!("exec {check}\n"));
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let health = &service.health;
        let mut run = vec!["sh".to_owned(), "$FILES/healthy.sh".to_owned(), name.to_owned()];
        run.push(health.within().as_secs_f64().ceil().to_string());
        run.push(seconds(health.interval.min(PAUSE_MAX)));
        run.push(seconds(health.timeout));
        self.before.push(Step {
            run: Some(run),
            name: Some(format!("waiting for {name}")),
            ..Step::default()
        });
    }

    /// Returns the command that checks the health of a service.
    fn check(&self, service: &Container) -> Option<String> {
        let words = match &service.health.test {
            Test::None => return None,
            Test::Command(words) => {
                let exec = ["podman", "exec", &service.name];
                exec.into_iter().chain(words.iter().map(String::as_str)).map(quoted).collect()
            }
            Test::OfImage => {
                // Only who waits for it tells that the image must have a check.
                let mut dependents = self.file.dependents(&service.name);
                if !dependents.any(|(_, condition)| condition == Condition::Healthy) {
                    return None;
                }
                ["podman", "healthcheck", "run", &service.name].map(quoted).to_vec()
            }
        };
        Some(words.join(" "))
    }

    /// Returns the script that runs the container of a service until it ends.
    fn container(&self, service: &Container) -> String {
        let mut script = "exec podman run".to_owned();
        let mut add = |words: &[&str]| {
            let words: Vec<String> = words.iter().copied().map(quoted).collect();
            let _ = write!(script, " \\\n    {}", words.join(" "));
        };
        add(&["--name", &service.name]);
        add(&["--network", if service.is_offline { "none" } else { "host" }]);
        if service.health.test != Test::OfImage {
            add(&["--no-healthcheck"]);
        }
        if !service.is_offline {
            for other in &self.file.services {
                for name in std::iter::once(&other.name).chain(&other.aliases) {
                    add(&["--add-host", &format!("{name}:127.0.0.1")]);
                }
            }
        }
        for option in service.options.chunk_by(|_, next| !next.starts_with("--")) {
            add(&option.iter().map(String::as_str).collect::<Vec<_>>());
        }
        for (name, value) in &service.environment {
            add(&["--env", &format!("{name}={value}")]);
        }
        if let Some(entrypoint) = &service.entrypoint {
            add(&["--entrypoint", &json(entrypoint)]);
        }
        let mut mounted = String::new();
        for mount in &service.mounts {
            match mount {
                Mount::Memory(given) => add(&["--tmpfs", given]),
                Mount::Volume { name, target, options } => {
                    let source = name.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
                    let colon = if options.is_empty() { "" } else { ":" };
                    add(&["--volume", &format!("{source}{target}{colon}{}", options.join(","))]);
                }
                Mount::Bind { source, target, is_read_only } => {
                    let (at, rest) = self.file.copy_of(source);
                    let mut path = format!("{MOUNTS}/{at}");
                    if !rest.as_os_str().is_empty() {
                        let _ = write!(path, "/{}", rest.display());
                    }
                    let mode = if *is_read_only { ":ro" } else { "" };
                    let _ = write!(
                        mounted,
                        " \\\n    --volume \"$DATA\"/{}",
                        quoted(&format!("{path}:{target}{mode}"))
                    );
                }
            }
        }
        script += &mounted;
        let at = self.images.iter().position(|name| *name == service.image.name).unwrap_or_default();
        let _ = write!(
            script,
            " \\\n    --pidfile \"$RUN\"/{} \\\n    \"$(cat \"$RUN/image-{at}\")\"",
            quoted(&format!("{}.started", service.name))
        );
        for word in service.command.iter().flatten() {
            let _ = write!(script, " {}", quoted(word));
        }
        script + "\n"
    }

    /// Returns the measured step.
    fn driver(&mut self, work: &Work) -> Step {
        let mut step = match &work.drive {
            Drive::For(time) => Step {
                run: Some(vec!["sleep".to_owned(), time.as_secs_f64().to_string()]),
                name: Some("running".to_owned()),
                ..Step::default()
            },
            Drive::Until(service) => {
                Step { run: Some(script_of(service, "run")), name: Some(service.clone()), ..Step::default() }
            }
            Drive::Exec { service, words } => {
                let with_units = |word: &String| {
                    let pieces: Vec<String> = word.split(UNITS).map(quoted).collect();
                    pieces.join("\"$1\"")
                };
                let words: Vec<String> = words.iter().map(with_units).collect();
                let script = format!("exec podman exec {} {}\n", quoted(service), words.join(" "));
                self.files.insert("driver.sh".to_owned(), script);
                let run = ["sh", "$FILES/driver.sh", UNITS].map(str::to_owned).to_vec();
                Step { run: Some(run), name: Some(format!("in {service}")), ..Step::default() }
            }
            Drive::Command(words) => {
                let name = words.first().map(|word| word.rsplit('/').next().unwrap_or(word).to_owned());
                Step { run: Some(words.clone()), name, outside: true, ..Step::default() }
            }
        };
        step.units = work.units.as_ref().map(|(_, number)| *number);
        step
    }
}

fn script_of(service: &str, kind: &str) -> Vec<String> {
    vec!["sh".to_owned(), format!("$FILES/{service}.{kind}.sh")]
}

/// Returns a word as a shell needs it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns a list of texts as JSON.
fn json(words: &[String]) -> String {
    serde_json::Value::from(words.to_vec()).to_string()
}
