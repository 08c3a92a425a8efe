//! Reads a Compose file: which services it has, and what each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fonio_system::regular;

use super::definition::{Condition, Container, Dependency, File, Health, Image, Mount, Test};
use super::error::Problem;
use super::interpolate;
use super::keys::{self, Use};
use super::yaml::{Entry, Node, Value};

/// Maximum number of bytes of a file with variables.
const VARIABLES_BYTES_MAX: u64 = 1 << 20;
/// Folders whose files belong to this machine's kernel or to its running services.
const OF_THIS_MACHINE: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/run"];

type Result<T> = std::result::Result<T, Problem>;

/// What reading a file needs, and what it finds beside the services.
pub(super) struct Reader<'a> {
    /// The folder of the file, to which its paths are relative.
    pub(super) folder: &'a Path,
    /// The variables of the environment and of `.env`.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// What is left out, with the services and the reason.
    pub(super) left_out: BTreeMap<(String, &'static str), Vec<String>>,
    /// Further sentences for the user.
    pub(super) notes: Vec<String>,
}

fn bad<T>(line: usize, problem: impl Into<String>) -> Result<T> {
    Err(Problem::at(line, problem.into()))
}

impl Reader<'_> {
    /// Returns the services of a file whose variables were replaced. Services with a profile are left out, except those in
    /// `wanted` and those that others need.
    pub(super) fn file(&mut self, top: &Node, wanted: &BTreeSet<&str>) -> Result<File> {
        let entries = map(top, "a Compose file")?;
        self.known(entries, keys::FILE, "")?;
        let name = match find(entries, "name") {
            Some(node) => text(node)?,
            None => {
                self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
        };
        let name: String =
            name.to_lowercase().chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        let name = if name.is_empty() { "stack".to_owned() } else { name };
        let volumes = self.volumes(find(entries, "volumes"))?;
        let Some(services) = find(entries, "services") else {
            return bad(top.line, "the file has no `services`");
        };
        let mut all = Vec::new();
        for entry in map(services, "services")? {
            all.push((self.container(&name, entry, &volumes)?, profiles(&entry.value)?));
        }
        if all.is_empty() {
            return bad(services.line, "`services` is empty");
        }
        let services = self.started(all, wanted)?;
        let services = ordered(services)?;
        let mut sources: Vec<PathBuf> = Vec::new();
        let bound = services.iter().flat_map(|service| &service.mounts).filter_map(|mount| match mount {
            Mount::Bind { source, .. } => Some(source.clone()),
            _ => None,
        });
        let bound: BTreeSet<PathBuf> = bound.collect();
        for source in bound {
            if !sources.iter().any(|copied| source.starts_with(copied)) {
                sources.push(source);
            }
        }
        Ok(File { name, services, sources })
    }

    /// Checks that all keys are known, and notes those that are left out. `of` is the service.
    fn known(&mut self, entries: &[Entry], table: &[(&str, Use)], of: &str) -> Result<()> {
        for Entry { key, line, .. } in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
            match table.iter().find(|(known, _)| known == key) {
                Some((_, Use::Read)) => {}
                Some((_, Use::LeftOut(reason))) => self.leave_out(key, reason, of),
                Some((_, Use::Refused(instead))) => {
                    return bad(*line, format!("`{key}` is not supported: {instead}"));
                }
                None => {
                    let nearest = fonio_core::nearest(key, table.iter().map(|(known, _)| *known));
                    return bad(*line, format!("the key `{key}` is not known{nearest}"));
                }
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, key: &str, reason: &'static str, of: &str) {
        let services = self.left_out.entry((key.to_owned(), reason)).or_default();
        if !of.is_empty() && !services.iter().any(|known| known == of) {
            services.push(of.to_owned());
        }
    }

    /// Returns the names of the volumes at the top of the file.
    fn volumes(&mut self, node: Option<&Node>) -> Result<Vec<String>> {
        let Some(node) = node.filter(|node| node.value != Value::Null) else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in map(node, "volumes")? {
            if entry.value.value != Value::Null {
                let settings = map(&entry.value, "a volume")?;
                self.known(settings, keys::VOLUME, &entry.key)?;
                if let Some(driver) = find(settings, "driver")
                    && text(driver)? != "local"
                {
                    return bad(driver.line, "the volume is a folder on the device: use the driver local");
                }
            }
            names.push(entry.key.clone());
        }
        Ok(names)
    }

    fn container(&mut self, project: &str, entry: &Entry, volumes: &[String]) -> Result<Container> {
        let name = &entry.key;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return bad(
                entry.line,
                format!("`{name}` is not a name of a service: use letters, digits, -, _ and ."),
            );
        }
        let keys = map(&entry.value, "a service")?;
        self.known(keys, keys::SERVICE, name)?;
        let mut made = Container { name: name.clone(), line: entry.line, ..Container::default() };
        made.image = image(project, entry)?;
        for Entry { key, line, value } in keys {
            if value.value == Value::Null {
                continue;
            }
            match key.as_str() {
                "command" => made.command = Some(words(value)?),
                "entrypoint" => made.entrypoint = Some(words(value)?),
                "container_name" => made.aliases.push(text(value)?),
                "hostname" => {
                    made.aliases.push(text(value)?);
                    made.option("--uts=private", "--hostname", text(value)?);
                }
                "links" => {
                    for link in texts(value)? {
                        let (service, alias) = link.split_once(':').unwrap_or((&link, ""));
                        made.depends_on.push(Dependency::started(service.to_owned(), *line));
                        if !alias.is_empty() {
                            made.option_of("--add-host", format!("{alias}:127.0.0.1"));
                        }
                    }
                }
                "environment" => {
                    let own = pairs(value)?;
                    let own = own.into_iter().filter_map(|(name, value)| {
                        let value = value.or_else(|| self.variables.get(&name).cloned())?;
                        Some((name, value))
                    });
                    made.environment.extend(own);
                }
                "env_file" => {
                    for (name, value) in self.env_files(value)? {
                        made.environment.entry(name).or_insert(value);
                    }
                }
                "volumes" => {
                    for node in list(value)? {
                        made.mounts.push(self.mount(node, name, volumes)?);
                    }
                }
                "tmpfs" => made.mounts.extend(texts(value)?.into_iter().map(Mount::Memory)),
                "depends_on" => made.depends_on.extend(self.dependencies(value, name)?),
                "healthcheck" => made.health = self.health(value, name)?,
                "user" => made.option_of("--user", text(value)?),
                "working_dir" => made.option_of("--workdir", text(value)?),
                "cap_add" => texts(value)?.into_iter().for_each(|word| made.option_of("--cap-add", word)),
                "cap_drop" => texts(value)?.into_iter().for_each(|word| made.option_of("--cap-drop", word)),
                "group_add" => texts(value)?.into_iter().for_each(|word| made.option_of("--group-add", word)),
                "shm_size" => made.option_of("--shm-size", text(value)?),
                "init" => made.flag("--init", truth(value)?),
                "privileged" => made.flag("--privileged", truth(value)?),
                "read_only" if truth(value)? => {
                    made.flag("--read-only", true);
                    // Podman alone would add file systems in memory.
                    made.flag("--read-only-tmpfs=false", true);
                }
                "extra_hosts" => {
                    for (host, address) in hosts(value)? {
                        made.option_of("--add-host", format!("{host}:{address}"));
                    }
                }
                "ulimits" => {
                    for limit in ulimits(value)? {
                        made.option_of("--ulimit", limit);
                    }
                }
                "network_mode" => match text(value)?.as_str() {
                    "none" => made.is_offline = true,
                    "bridge" | "default" | "host" => {}
                    other if other.starts_with("service:") => {}
                    other => {
                        return bad(
                            *line,
                            format!("the network mode `{other}` is not supported: use bridge, host or none"),
                        );
                    }
                },
                "networks" => made.aliases.extend(aliases(value)?),
                "deploy" => self.deployment(value, name)?,
                "scale" => one(value)?,
                "platform" => {
                    let (wanted, own) = (text(value)?, own_platform());
                    if wanted != own && wanted.rsplit_once('/').is_none_or(|(rest, _)| rest != own) {
                        return bad(
                            *line,
                            format!("containers for {wanted} do not run here, only those for {own}"),
                        );
                    }
                }
                _ => {}
            }
        }
        Ok(made)
    }

    /// Reads files with variables: one, or a list of files, each perhaps with `required: false`. Later files win.
    fn env_files(&self, node: &Node) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for file in list(node)? {
            let (path, is_required) = match &file.value {
                Value::Map(keys) => {
                    let path = find(keys, "path").map(text).transpose()?;
                    let Some(path) = path else { return bad(file.line, "this needs a `path`") };
                    (path, find(keys, "required").map(truth).transpose()?.unwrap_or(true))
                }
                _ => (text(file)?, true),
            };
            let lines = match regular::read_text(&self.absolute(&path), VARIABLES_BYTES_MAX) {
                Ok(lines) => lines,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_required => continue,
                Err(error) => return bad(file.line, format!("cannot read the env_file {path}: {error}")),
            };
            let read = interpolate::variables(&lines, self.variables);
            let read = read.map_err(|Problem { line, problem }| {
                Problem::at(file.line, format!("{path}, line {line}: {problem}"))
            })?;
            found.extend(read);
        }
        Ok(found)
    }

    /// Returns a path of the file as an absolute one, without `.` and `..`.
    fn absolute(&self, path: &str) -> PathBuf {
        let home = || self.variables.get("HOME").map_or("/root", String::as_str);
        let path = match path.strip_prefix('~') {
            Some(rest) => PathBuf::from(format!("{}{rest}", home())),
            None => self.folder.join(path),
        };
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    clean.pop();
                }
                part => clean.push(part),
            }
        }
        clean
    }

    fn mount(&mut self, node: &Node, of: &str, volumes: &[String]) -> Result<Mount> {
        if let Value::Map(keys) = &node.value {
            return self.long_mount(node.line, keys, of, volumes);
        }
        let given = text(node)?;
        let parts: Vec<&str> = given.split(':').collect();
        let (source, target, options) = match parts[..] {
            [target] => (None, target, ""),
            [source, target] => (Some(source), target, ""),
            [source, target, options] => (Some(source), target, options),
            _ => return bad(node.line, format!("`{given}` is not SOURCE:TARGET or SOURCE:TARGET:MODE")),
        };
        let is_read_only = options.split(',').any(|option| option == "ro");
        for option in options.split(',').filter(|option| !option.is_empty()) {
            if ![
                "ro",
                "rw",
                "z",
                "Z",
                "cached",
                "delegated",
                "consistent",
                "nocopy",
                "rslave",
                "rshared",
                "rprivate",
            ]
            .contains(&option)
            {
                return bad(node.line, format!("the mode `{option}` of a volume is not known: use ro or rw"));
            }
        }
        let is_path = |source: &str| source.starts_with(['.', '/', '~']);
        match source {
            Some(source) if is_path(source) => self.bind(node.line, source, target, is_read_only, true),
            _ => volume(node.line, source, target, is_read_only, options.contains("nocopy"), volumes),
        }
    }

    fn long_mount(&mut self, line: usize, keys: &[Entry], of: &str, volumes: &[String]) -> Result<Mount> {
        self.known(keys, keys::MOUNT, of)?;
        let value = |key: &str| find(keys, key).map(text).transpose();
        let Some(target) = value("target")? else { return bad(line, "this volume needs a `target`") };
        let is_read_only = find(keys, "read_only").map(truth).transpose()?.unwrap_or(false);
        let inner = |key: &str, of: &str| -> Result<Option<String>> {
            let Some(node) = find(keys, key) else { return Ok(None) };
            find(map(node, key)?, of).map(text).transpose()
        };
        match value("type")?.as_deref() {
            Some("tmpfs") => {
                let mut options = Vec::new();
                for key in ["size", "mode"] {
                    options.extend(inner("tmpfs", key)?.map(|value| format!("{key}={value}")));
                }
                let colon = if options.is_empty() { "" } else { ":" };
                Ok(Mount::Memory(format!("{target}{colon}{}", options.join(","))))
            }
            Some("bind") => {
                let Some(source) = value("source")? else { return bad(line, "this volume needs a `source`") };
                let may_be_made = inner("bind", "create_host_path")?.is_none_or(|text| text != "false");
                self.bind(line, &source, &target, is_read_only, may_be_made)
            }
            Some("volume") | None => {
                if inner("volume", "subpath")?.is_some() {
                    return bad(line, "`subpath` is not supported: mount the whole volume");
                }
                let is_plain = inner("volume", "nocopy")?.is_some_and(|text| text == "true");
                volume(line, value("source")?.as_deref(), &target, is_read_only, is_plain, volumes)
            }
            Some(other) => bad(
                line,
                format!("the type `{other}` of a volume is not supported: use bind, volume or tmpfs"),
            ),
        }
    }

    fn bind(
        &mut self,
        line: usize,
        source: &str,
        target: &str,
        is_read_only: bool,
        may_be_made: bool,
    ) -> Result<Mount> {
        check_target(line, target)?;
        let path = self.absolute(source);
        let path = fs::canonicalize(&path).unwrap_or(path);
        if path == Path::new("/") || OF_THIS_MACHINE.iter().any(|folder| path.starts_with(folder)) {
            return bad(
                line,
                format!("{source} is of this machine and is not copied to the device: leave this volume out"),
            );
        }
        match fs::metadata(&path) {
            Ok(found) if found.is_file() || found.is_dir() => {}
            Ok(_) => {
                return bad(line, format!("{source} is neither a file nor a folder: leave this volume out"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && may_be_made => {
                self.notes
                    .push(format!("{source} does not exist, so an empty folder is mounted at {target}"));
            }
            Err(error) => return bad(line, format!("cannot read {source}: {error}")),
        }
        Ok(Mount::Bind { source: path, target: target.to_owned(), is_read_only })
    }

    fn dependencies(&mut self, node: &Node, of: &str) -> Result<Vec<Dependency>> {
        let Value::Map(entries) = &node.value else {
            let named = list(node)?.into_iter().map(|node| Ok(Dependency::started(text(node)?, node.line)));
            return named.collect();
        };
        let mut found = Vec::new();
        for entry in entries {
            let keys = map(&entry.value, "a service in depends_on")?;
            self.known(keys, keys::DEPENDENCY, of)?;
            let condition = match find(keys, "condition") {
                None => Condition::Started,
                Some(node) => match text(node)?.as_str() {
                    "service_started" => Condition::Started,
                    "service_healthy" => Condition::Healthy,
                    "service_completed_successfully" => Condition::Completed,
                    other => {
                        return bad(
                            node.line,
                            format!(
                                "the condition `{other}` is not known: use service_started, service_healthy or \
                             service_completed_successfully"
                            ),
                        );
                    }
                },
            };
            let is_required = find(keys, "required").map(truth).transpose()?.unwrap_or(true);
            let plain = Dependency::started(entry.key.clone(), entry.line);
            found.push(Dependency { condition, is_required, ..plain });
        }
        Ok(found)
    }

    fn health(&mut self, node: &Node, of: &str) -> Result<Health> {
        let keys = map(node, "a healthcheck")?;
        self.known(keys, keys::HEALTH, of)?;
        let mut health = Health::default();
        if let Some(test) = find(keys, "test") {
            health.test = match &test.value {
                Value::List(_) => {
                    let mut words = texts(test)?.into_iter();
                    match words.next().as_deref() {
                        Some("CMD") => Test::Command(words.collect()),
                        Some("CMD-SHELL") => shell(words.collect::<Vec<_>>().join(" ")),
                        Some("NONE") => Test::None,
                        _ => return bad(test.line, "a list in `test` begins with CMD, CMD-SHELL or NONE"),
                    }
                }
                _ => shell(text(test)?),
            };
            if health.test == Test::Command(Vec::new()) {
                return bad(test.line, "name a command after CMD");
            }
        }
        if find(keys, "disable").map(truth).transpose()? == Some(true) {
            health.test = Test::None;
        }
        for (key, place) in [
            ("interval", &mut health.interval),
            ("timeout", &mut health.timeout),
            ("start_period", &mut health.start_period),
        ] {
            if let Some(node) = find(keys, key) {
                *place = duration(node)?;
            }
        }
        if let Some(node) = find(keys, "retries") {
            let retries = text(node)?.parse().ok().filter(|retries| (1..=1000).contains(retries));
            let Some(retries) = retries else {
                return bad(node.line, "`retries` is a number from 1 to 1000");
            };
            health.retries = retries;
        }
        Ok(health)
    }

    fn deployment(&mut self, node: &Node, of: &str) -> Result<()> {
        for entry in map(node, "deploy")? {
            match entry.key.as_str() {
                "replicas" => one(&entry.value)?,
                key => self.leave_out(
                    &format!("deploy.{key}"),
                    "one container for each service, without limits",
                    of,
                ),
            }
        }
        Ok(())
    }

    /// Leaves out services with a profile that nothing needs, and checks what services depend on.
    fn started(
        &mut self,
        mut all: Vec<(Container, Vec<String>)>,
        wanted: &BTreeSet<&str>,
    ) -> Result<Vec<Container>> {
        let names: Vec<String> = all.iter().map(|(service, _)| service.name.clone()).collect();
        for (service, _) in &mut all {
            service.depends_on.retain(|needed| needed.is_required || names.contains(&needed.service));
        }
        let mut is_needed: Vec<bool> = all
            .iter()
            .map(|(service, profiles)| profiles.is_empty() || wanted.contains(service.name.as_str()))
            .collect();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for at in 0..all.len() {
                let (service, _) = &all[at];
                if !is_needed[at] {
                    continue;
                }
                for dependency in &service.depends_on {
                    let Some(found) = names.iter().position(|name| *name == dependency.service) else {
                        let nearest =
                            fonio_core::nearest(&dependency.service, names.iter().map(String::as_str));
                        let problem = format!("the file has no service `{}`{nearest}", dependency.service);
                        return bad(dependency.line, problem);
                    };
                    changed |= !std::mem::replace(&mut is_needed[found], true);
                }
            }
        }
        let mut kept = Vec::new();
        for ((service, profiles), is_needed) in all.into_iter().zip(is_needed) {
            if is_needed {
                kept.push(service);
            } else {
                let profiles = profiles.join(", ");
                self.notes
                    .push(format!("{} is not started, because it has the profile {profiles}", service.name));
            }
        }
        Ok(kept)
    }
}

impl Container {
    fn option_of(&mut self, option: &str, value: String) {
        self.options.extend([option.to_owned(), value]);
    }

    fn option(&mut self, first: &str, option: &str, value: String) {
        self.options.push(first.to_owned());
        self.option_of(option, value);
    }

    fn flag(&mut self, option: &str, is: bool) {
        if is {
            self.options.push(option.to_owned());
        }
    }
}

/// Puts services after those that they depend on, otherwise in the order of the file.
fn ordered(mut services: Vec<Container>) -> Result<Vec<Container>> {
    let mut sorted: Vec<Container> = Vec::new();
    while !services.is_empty() {
        let is_ready = |service: &Container| {
            let is_there = |name: &str| sorted.iter().any(|service| service.name == name);
            service.depends_on.iter().all(|dependency| is_there(&dependency.service))
        };
        let Some(next) = services.iter().position(is_ready) else {
            let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
            return bad(
                services[0].line,
                format!("these services wait for each other: {}", names.join(", ")),
            );
        };
        sorted.push(services.remove(next));
    }
    Ok(sorted)
}

fn image(project: &str, entry: &Entry) -> Result<Image> {
    let keys = map(&entry.value, "a service")?;
    let built_from = match find(keys, "build") {
        None => None,
        Some(node) => Some(match &node.value {
            Value::Map(keys) => {
                find(keys, "context").map(text).transpose()?.unwrap_or_else(|| ".".to_owned())
            }
            _ => text(node)?,
        }),
    };
    match find(keys, "image") {
        Some(node) => Ok(Image { name: text(node)?, built_from }),
        None if built_from.is_some() => Ok(Image { name: format!("{project}-{}", entry.key), built_from }),
        None => bad(entry.line, format!("the service {} has no `image`", entry.key)),
    }
}

fn profiles(service: &Node) -> Result<Vec<String>> {
    find(map(service, "a service")?, "profiles").map_or(Ok(Vec::new()), texts)
}

fn volume(
    line: usize,
    name: Option<&str>,
    target: &str,
    is_read_only: bool,
    is_plain: bool,
    known: &[String],
) -> Result<Mount> {
    check_target(line, target)?;
    if let Some(name) = name
        && !known.iter().any(|known| known == name)
    {
        let nearest = fonio_core::nearest(name, known.iter().map(String::as_str));
        let or = if nearest.is_empty() { "; a folder begins with ./ or /" } else { "" };
        return bad(line, format!("`volumes` at the top of the file has no `{name}`{nearest}{or}"));
    }
    let options = [(is_read_only, "ro"), (is_plain, "nocopy")];
    let options = options.into_iter().filter_map(|(is, option)| is.then_some(option)).collect();
    Ok(Mount::Volume { name: name.map(str::to_owned), target: target.to_owned(), options })
}

fn check_target(line: usize, target: &str) -> Result<()> {
    if target.starts_with('/') && !target.contains(':') {
        return Ok(());
    }
    bad(line, format!("`{target}` is not a path in the container: begin it with /"))
}

/// Returns the command that a shell of the container runs.
fn shell(line: String) -> Test {
    Test::Command(vec!["/bin/sh".to_owned(), "-c".to_owned(), line])
}

fn own_platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("linux/{architecture}")
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
}

/// Returns the entries of a mapping. An error calls the mapping `what`.
fn map<'a>(node: &'a Node, what: &str) -> Result<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        _ => bad(node.line, format!("{what} consists of keys and values, such as `key: value`")),
    }
}

/// Returns the nodes of a list. A single value is a list of one.
fn list(node: &Node) -> Result<Vec<&Node>> {
    match &node.value {
        Value::List(list) => Ok(list.iter().collect()),
        Value::Text(_) => Ok(vec![node]),
        Value::Null => Ok(Vec::new()),
        Value::Map(_) => bad(node.line, "write a list here, with `- ` before each value"),
    }
}

fn text(node: &Node) -> Result<String> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        _ => bad(node.line, "write a text here"),
    }
}

fn texts(node: &Node) -> Result<Vec<String>> {
    list(node)?.into_iter().map(text).collect()
}

fn truth(node: &Node) -> Result<bool> {
    match text(node)?.as_str() {
        "true" | "True" | "TRUE" | "yes" | "on" => Ok(true),
        "false" | "False" | "FALSE" | "no" | "off" => Ok(false),
        other => bad(node.line, format!("`{other}` is neither true nor false")),
    }
}

/// Returns the words of a command: a list, or a line that is split as a shell does.
fn words(node: &Node) -> Result<Vec<String>> {
    match &node.value {
        Value::List(_) => texts(node),
        _ => {
            let line = text(node)?;
            match shlex::split(&line) {
                Some(words) => Ok(words),
                None => bad(node.line, format!("`{line}` has a quote that does not end")),
            }
        }
    }
}

/// Returns names and values, from a mapping or a list of NAME=VALUE. A name without a value has `None`.
fn pairs(node: &Node) -> Result<Vec<(String, Option<String>)>> {
    let Value::Map(entries) = &node.value else {
        let pairs = texts(node)?.into_iter().map(|pair| match pair.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (pair, None),
        });
        return Ok(pairs.collect());
    };
    let pair = |entry: &Entry| {
        let value = match entry.value.value {
            Value::Null => None,
            _ => Some(text(&entry.value)?),
        };
        Ok((entry.key.clone(), value))
    };
    entries.iter().map(pair).collect()
}

fn hosts(node: &Node) -> Result<Vec<(String, String)>> {
    let given = match &node.value {
        Value::Map(entries) => {
            let host = |entry: &Entry| Ok((entry.key.clone(), text(&entry.value)?));
            entries.iter().map(host).collect::<Result<Vec<_>>>()?
        }
        _ => {
            let mut hosts = Vec::new();
            for pair in texts(node)? {
                let Some((host, address)) = pair.split_once(['=', ':']) else {
                    return bad(node.line, format!("`{pair}` is not HOST:ADDRESS"));
                };
                hosts.push((host.to_owned(), address.to_owned()));
            }
            hosts
        }
    };
    let local = |(host, address): (String, String)| {
        let address = if address == "host-gateway" { "127.0.0.1".to_owned() } else { address };
        (host, address)
    };
    Ok(given.into_iter().map(local).collect())
}

fn ulimits(node: &Node) -> Result<Vec<String>> {
    let mut limits = Vec::new();
    for entry in map(node, "ulimits")? {
        let limit = match &entry.value.value {
            Value::Map(keys) => match (find(keys, "soft"), find(keys, "hard")) {
                (Some(soft), Some(hard)) => format!("{}:{}", text(soft)?, text(hard)?),
                _ => return bad(entry.line, "a limit is a number, or has `soft` and `hard`"),
            },
            _ => text(&entry.value)?,
        };
        limits.push(format!("{}={limit}", entry.key));
    }
    Ok(limits)
}

/// Returns the further names of a service in the networks that it names.
fn aliases(node: &Node) -> Result<Vec<String>> {
    let Value::Map(networks) = &node.value else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for network in networks {
        if let Value::Map(keys) = &network.value.value
            && let Some(aliases) = find(keys, "aliases")
        {
            found.extend(texts(aliases)?);
        }
    }
    Ok(found)
}

fn one(node: &Node) -> Result<()> {
    if text(node)? == "1" {
        return Ok(());
    }
    bad(node.line, "each service has one container, because all share one network: write 1")
}

/// Parses a time such as `1m30s`.
fn duration(node: &Node) -> Result<Duration> {
    let given = text(node)?;
    let wrong =
        || Problem::at(node.line, format!("`{given}` is not a time: write it as 30s, 500ms or 1m30s"));
    let (mut rest, mut seconds) = (given.as_str(), 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
        rest = &rest[end..];
    }
    if given.is_empty() || seconds > 86_400.0 {
        return Err(wrong());
    }
    Ok(Duration::from_secs_f64(seconds))
}
