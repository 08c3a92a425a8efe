//! The definition of an app, and its checks.

use std::collections::BTreeMap;
use std::path::Path;

use fonio_system::regular;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::scale::scaled;

/// The file with the definition in the folder of an app.
const FILE: &str = "app.toml";
/// Maximum number of bytes of a file in the folder of an app.
const BYTES_MAX: u64 = 4 << 20;
/// The script of an app that runs if no script is named.
const SESSION: &str = "session";

/// An app shipped with fonio.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The app's name.
    pub name: &'static str,
    /// The names and contents of the files in the app's folder.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! ship {
    ($($name:literal: [$($file:literal),*]),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            files: &[$(($file, include_str!(concat!("../../../../apps/", $name, "/", $file)))),*],
        }),*]
    };
}

const SHIPPED: &[Shipped] = include!("shipped.in");

/// Returns the shipped apps, in the order in which they are listed.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

/// A real program, with the scripts that drive it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// The app's name.
    pub name: String,
    /// A sentence on what the app does.
    pub title: String,
    /// What is real about the app, and what is not.
    pub about: String,
    /// Debian's packages of the app, such as `redis-server` or `redis-server=5:8.0.2-3`. Without packages of Debian and
    /// PyPI, the programs of this machine run.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Packages of PyPI, each with its version, such as `homeassistant==2026.2.3`.
    #[serde(default)]
    pub python: Vec<String>,
    /// What a unit of work is, in the singular, such as `SET command`.
    #[serde(default)]
    pub unit: Option<String>,
    /// The user as whom the programs run, and who owns the data.
    #[serde(default = "root")]
    pub user: String,
    /// Environment variables of the programs.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The programs that run until they are stopped, by name.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    /// Steps that make the initial data. They are not recorded.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// What the app does, by name.
    pub scripts: BTreeMap<String, Script>,
    /// The names and contents of the files in the app's folder.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Whether the app was made of a Compose file. Error messages call it a stack.
    #[serde(default)]
    pub is_stack: bool,
}

/// A program that runs until it is stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// The user, if it is not the app's user.
    #[serde(default)]
    pub user: Option<String>,
    /// How the service tells that it is ready.
    pub ready: Ready,
    /// The signal that stops the service.
    #[serde(default)]
    pub signal: Signal,
    /// The longest time in seconds for becoming ready, and for stopping.
    #[serde(default = "minute")]
    pub within_s: f64,
    /// Whether the service is a server on another machine: in a run with a link, it is at the link's far end.
    #[serde(default)]
    pub behind_link: bool,
    /// Whether the service may end with exit code 0 before it is stopped.
    #[serde(default)]
    pub may_end: bool,
}

/// A signal that stops a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// `SIGTERM`.
    #[default]
    Term,
    /// `SIGINT`.
    Int,
    /// `SIGQUIT`.
    Quit,
    /// `SIGKILL`.
    Kill,
}

/// How a service tells that it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ready {
    /// A program accepts connections to this port of 127.0.0.1, or of the far end of the link.
    Port(u16),
    /// A program accepts connections to this socket.
    Socket(String),
    /// This file exists.
    File(String),
    /// The output of the service contains this text.
    Log(String),
    /// This command ends with exit code 0.
    Run(Vec<String>),
}

/// What an app does in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// A sentence on what the script does.
    pub title: String,
    /// Whether the data are dropped from the page cache before the clock starts.
    #[serde(default)]
    pub cold: bool,
    /// Whether the script runs once without being measured before the measured runs, so that the programs' own files are in
    /// the page cache.
    #[serde(default = "is_on", skip_serializing_if = "is_set")]
    pub warm_up: bool,
    /// Steps before the clock starts. They are not recorded.
    #[serde(default)]
    pub before: Vec<Step>,
    /// The steps whose time is measured.
    pub steps: Vec<Step>,
}

fn is_on() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_set(value: &bool) -> bool {
    *value
}

/// A step of a script: exactly one of `start`, `stop` and `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Start this service and wait until it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Stop this service and wait until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Run this command and wait until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// The name of the step in recordings and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user, if it is not the app's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Units of work of the command, for `$UNITS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// How many times the command runs, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The file in which the command writes a line for each answer that it waited for: its kind and its seconds, such as
    /// `toggle 0.0132`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<String>,
    /// Whether the command runs outside of the app's root directory, with the files and the variables of this machine, in
    /// the current folder. Of the variables in its words, only `$UNITS` is replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

fn root() -> String {
    "root".to_owned()
}

fn minute() -> f64 {
    60.0
}

impl App {
    /// Loads a shipped app by name, or the app in a folder (a path with a slash). Fails if no app has this name, if a file
    /// cannot be read, or if [`App::parse`] fails.
    pub fn load(name_or_folder: &str) -> Result<App, WorkloadError> {
        if let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name_or_folder) {
            let (_, text) = shipped.files.iter().find(|(name, _)| *name == FILE).expect("every app has one");
            let mut app = App::parse(text, shipped.name)?;
            let others = shipped.files.iter().filter(|(name, _)| *name != FILE);
            app.files = others.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            return Ok(app);
        }
        let folder = Path::new(name_or_folder);
        if !name_or_folder.contains('/') {
            let nearest = fonio_core::nearest(name_or_folder, SHIPPED.iter().map(|shipped| shipped.name));
            return Err(WorkloadError::UnknownApp { name: name_or_folder.to_owned(), nearest });
        }
        let read = |path: &Path| {
            regular::read_text(path, BYTES_MAX)
                .map_err(|source| WorkloadError::Unreadable { path: path.to_owned(), source })
        };
        let path = folder.join(FILE);
        let mut app = App::parse(&read(&path)?, &path.display().to_string())?;
        let listing = std::fs::read_dir(folder)
            .map_err(|source| WorkloadError::Unreadable { path: folder.to_owned(), source })?;
        for entry in listing.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != FILE && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                app.files.insert(name, read(&entry.path())?);
            }
        }
        Ok(app)
    }

    /// Parses a definition. Error messages call it `origin`. Fails if the text is not TOML or not an app, or if a value is
    /// invalid. The error names the key, the value and a remedy.
    pub fn parse(text: &str, origin: &str) -> Result<App, WorkloadError> {
        let app: App = toml::from_str(text).map_err(|source| WorkloadError::NotAnApp {
            origin: origin.to_owned(),
            source: Box::new(source),
        })?;
        app.check(origin)?;
        Ok(app)
    }

    /// Returns a script and its name: the named one, or else `session`. Fails if the app has no such script.
    pub fn script(&self, name: Option<&str>) -> Result<(&str, &Script), WorkloadError> {
        let wanted = name.unwrap_or(SESSION);
        let found = self.scripts.get_key_value(wanted).map(|(name, script)| (name.as_str(), script));
        found.ok_or_else(|| WorkloadError::UnknownScript {
            app: self.name.clone(),
            script: wanted.to_owned(),
            known: self.scripts.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns the app's kind and name, for error messages.
    pub(super) fn told(&self) -> String {
        format!("the {} {}", if self.is_stack { "stack" } else { "app" }, self.name)
    }

    /// Returns whether a service is at the far end of a link, in a run with a link.
    #[must_use]
    pub fn uses_link(&self) -> bool {
        self.services.values().any(|service| service.behind_link)
    }

    fn check(&self, origin: &str) -> Result<(), WorkloadError> {
        let bad = |key: String, value: &str, problem: String| {
            Err(WorkloadError::Value { origin: origin.to_owned(), key, value: value.to_owned(), problem })
        };
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        let names = [("name", &self.name)].into_iter();
        let names = names.chain(self.services.keys().map(|name| ("services", name)));
        for (key, name) in names.chain(self.scripts.keys().map(|name| ("scripts", name))) {
            if !is_name(name) {
                return bad(key.to_owned(), name, "use letters, digits, - and _".to_owned());
            }
        }
        for (at, package) in self.packages.iter().enumerate() {
            if !is_debian(package) {
                let problem = "write a package of Debian as NAME or NAME=VERSION".to_owned();
                return bad(format!("packages[{at}]"), package, problem);
            }
        }
        for (at, package) in self.python.iter().enumerate() {
            if !is_pinned(package) {
                let problem = "write a package of PyPI with its version, as NAME==VERSION".to_owned();
                return bad(format!("python[{at}]"), package, problem);
            }
        }
        for (name, service) in &self.services {
            if service.run.is_empty() {
                return bad(format!("services.{name}.run"), "[]", "name a program".to_owned());
            }
            if !(service.within_s > 0.0 && service.within_s <= 3600.0) {
                let value = service.within_s.to_string();
                return bad(
                    format!("services.{name}.within_s"),
                    &value,
                    "use 0.1 to 3600 seconds".to_owned(),
                );
            }
        }
        let of_scripts = self.scripts.iter().flat_map(|(name, script)| {
            [
                (format!("scripts.{name}.before"), &script.before),
                (format!("scripts.{name}.steps"), &script.steps),
            ]
        });
        for (key, steps) in [("prepare".to_owned(), &self.prepare)].into_iter().chain(of_scripts) {
            if steps.is_empty() && key.ends_with(".steps") {
                return bad(key, "[]", "a script needs a step to measure".to_owned());
            }
            for (at, step) in steps.iter().enumerate() {
                if let Err((value, problem)) = self.check_step(step) {
                    return bad(format!("{key}[{at}]"), &value, problem);
                }
            }
        }
        Ok(())
    }

    /// Returns the value that is wrong, and what is wrong with it.
    fn check_step(&self, step: &Step) -> Result<(), (String, String)> {
        let Step { start, stop, run, name: _, user, units, times, responses, outside } = step;
        let kinds = [start.is_some(), stop.is_some(), run.is_some()].into_iter().filter(|is| *is).count();
        if kinds != 1 {
            return Err((step.told(), "a step has exactly one of start, stop and run".to_owned()));
        }
        if let Some(service) = start.as_ref().or(stop.as_ref())
            && !self.services.contains_key(service)
        {
            let nearest = fonio_core::nearest(service, self.services.keys().map(String::as_str));
            return Err((service.clone(), format!("the app has no such service{nearest}")));
        }
        if run.as_ref().is_some_and(Vec::is_empty) {
            return Err(("[]".to_owned(), "name a program".to_owned()));
        }
        if run.is_none() && (units.is_some() || times.is_some() || responses.is_some()) {
            return Err((step.told(), "units, times and responses belong to run".to_owned()));
        }
        if *outside && (run.is_none() || times.is_some() || user.is_some()) {
            return Err((step.told(), "outside belongs to run, without times and user".to_owned()));
        }
        let says_units = |words: &Vec<String>| words.iter().any(|word| word.contains("$UNITS"));
        if units.is_some() && !run.as_ref().is_some_and(says_units) {
            return Err((step.told(), "a command with units needs $UNITS, which --scale changes".to_owned()));
        }
        if [units, times].into_iter().flatten().any(|number| *number == 0 || *number > 1_000_000_000) {
            return Err((step.told(), "units and times are 1 to 1000000000".to_owned()));
        }
        Ok(())
    }
}

impl Step {
    /// Returns how many units of work the step does each time, with this scale; 1 if it counts none.
    pub(super) fn scaled_units(&self, scale: f64) -> u64 {
        self.units.map_or(1, |units| scaled(units, scale))
    }

    /// Returns the name of the step in recordings and results.
    #[must_use]
    pub fn told(&self) -> String {
        match (&self.name, &self.start, &self.stop, &self.run) {
            (Some(name), ..) => name.clone(),
            (_, Some(service), ..) => format!("start {service}"),
            (_, _, Some(service), _) => format!("stop {service}"),
            (.., Some(words)) => words.first().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }
}

/// Returns whether the text is a name of a package of Debian (Debian Policy, 5.6.1), or a name and a version (5.6.12).
fn is_debian(text: &str) -> bool {
    let (name, version) = text.split_once('=').unwrap_or((text, "0"));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_plain)
        && name.chars().all(|c| is_plain(c) || "+-.".contains(c))
        && !version.is_empty()
        && version.chars().all(|c| c.is_ascii_alphanumeric() || ".+-:~".contains(c))
}

/// Returns whether the text is the name of a package of PyPI, perhaps with extras, `==` and one version (PEP 508, PEP 440).
fn is_pinned(text: &str) -> bool {
    let Some((named, version)) = text.split_once("==") else { return false };
    let (name, extras) = match named.split_once('[') {
        Some((name, rest)) => (name, rest.strip_suffix(']')),
        None => (named, Some("")),
    };
    let is_word = |word: &str, others: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    is_word(name, "-_.")
        && extras.is_some_and(|extras| extras.is_empty() || is_word(extras, "-_.,"))
        && is_word(version, ".+!-_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_an_app_is_shipped_whole() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let names = |folder: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        let mut listed: Vec<&str> = shipped().iter().map(|app| app.name).collect();
        listed.sort_unstable();
        assert_eq!(names(&folder), listed);
        for app in shipped() {
            let mut files: Vec<&str> = app.files.iter().map(|(name, _)| *name).collect();
            files.sort_unstable();
            assert_eq!(names(&folder.join(app.name)), files, "{}", app.name);
            let loaded = App::load(app.name).expect("it is right");
            assert_eq!(loaded.name, app.name);
            // A launch with a cold and a warm cache, a typical session, and a long one.
            let scripts: Vec<&str> = loaded.scripts.keys().map(String::as_str).collect();
            assert_eq!(scripts, ["cold", "long", "session", "warm"], "{}", app.name);
            assert!(loaded.scripts["cold"].cold && !loaded.scripts["warm"].cold, "{}", app.name);
            assert!(loaded.about.contains("Real:") && loaded.about.contains("Not real:"), "{}", app.name);
            assert!(!loaded.packages.is_empty(), "{}", app.name);
        }
    }

    #[test]
    fn packages_of_pypi_need_a_version() {
        for (text, is) in [
            ("homeassistant==2026.2.3", true),
            ("zeroconf[extra]==0.1+local", true),
            ("homeassistant", false),
            ("homeassistant>=2026.2", false),
            ("homeassistant==", false),
            ("homeassistant==2026.*", false),
            ("homeassistant===2026.2", false),
            ("a==1,==2", false),
            ("a==1; python_version<'4'", false),
            ("-r==1", false),
            ("a @ file:///tmp/a==1", false),
        ] {
            assert_eq!(is_pinned(text), is, "{text}");
        }
        for (text, is) in [
            ("redis-server", true),
            ("libstdc++6", true),
            ("redis-server=5:8.0.2-3+deb13u1", true),
            ("redis-server=", false),
            ("Redis", false),
            ("-o=x", false),
            ("redis server", false),
        ] {
            assert_eq!(is_debian(text), is, "{text}");
        }
    }

    #[test]
    fn a_script_warms_up_unless_it_says_otherwise() {
        for (line, warms_up) in [("", true), ("warm_up = true\n", true), ("warm_up = false\n", false)] {
            let text = format!(
                "name = \"a\"\ntitle = \"\"\nabout = \"\"\n[scripts.session]\ntitle = \"\"\n{line}\
                 steps = [{{ run = [\"true\"] }}]\n"
            );
            let app = App::parse(&text, "a test").expect(line);
            assert_eq!(app.scripts["session"].warm_up, warms_up, "{line}");
            // The process that runs the script gets the app as JSON.
            let json = serde_json::to_string(&app).expect("JSON");
            let read: App = serde_json::from_str(&json).expect(&json);
            assert_eq!(read, app);
        }
    }

    #[test]
    fn a_step_has_a_name() {
        for (step, told) in [
            ("{ start = \"s\" }", "start s"),
            ("{ stop = \"s\" }", "stop s"),
            ("{ run = [\"sh\", \"-c\", \"true\"] }", "sh"),
            ("{ run = [\"true\"], name = \"work\" }", "work"),
        ] {
            let text = format!(
                "name = \"a\"\ntitle = \"\"\nabout = \"\"\n[services.s]\nrun = [\"x\"]\nready = {{ port = 1 }}\n\
                 [scripts.session]\ntitle = \"\"\nsteps = [{step}]\n"
            );
            let app = App::parse(&text, "a test").expect(step);
            assert_eq!(app.scripts["session"].steps[0].told(), told);
        }
    }
}
