//! Derives the familiar names of control groups, which are names of systemd units and containers.
//!
//! The path of a control group contains the name of a systemd unit, but only the id of a container. The
//! recorder looks up the container's name while it records (`fonio-record`, `units`).

/// The number of digits of a container's id that Docker and Podman show.
const SHORT_ID: usize = 12;
/// The number of hexadecimal digits of a container's id.
const FULL_ID: usize = 64;

/// The names of container engines in scopes such as `docker-ID.scope`.
const ENGINES: [(&str, Engine); 8] = [
    ("docker-", Engine::Docker),
    ("libpod-payload-", Engine::Podman),
    ("libpod-", Engine::Podman),
    ("cri-containerd-", Engine::Containerd),
    ("crio-", Engine::CriO),
    ("nerdctl-", Engine::Containerd),
    ("buildkit-", Engine::Buildkit),
    ("lxc.payload.", Engine::Lxc),
];

/// The engine that runs a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Engine {
    Docker,
    Podman,
    Containerd,
    CriO,
    Buildkit,
    Lxc,
    /// A container of a Kubernetes pod; its path does not name the engine.
    Unknown,
}

impl Engine {
    /// Returns the name of the engine, which is shown before the container's name: `docker`, `podman`, …
    pub fn name(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
            Engine::Containerd => "containerd",
            Engine::CriO => "cri-o",
            Engine::Buildkit => "buildkit",
            Engine::Lxc => "lxc",
            Engine::Unknown => "container",
        }
    }
}

/// The systemd unit or container of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupUnit<'c> {
    /// A systemd unit: `notes.service`, `session-3.scope`.
    Systemd(String),
    /// A container, with the unit inside it.
    Container {
        /// The engine that runs the container.
        engine: Engine,
        /// The container's id of 64 hexadecimal digits; for LXC, its name.
        id: &'c str,
        /// The systemd unit inside the container, if the container runs systemd.
        inside: Option<String>,
    },
}

impl<'c> CgroupUnit<'c> {
    /// Reads the unit or container in a path below the cgroup mount; `None` if the path names neither.
    pub fn of_cgroup(cgroup: &'c str) -> Option<CgroupUnit<'c>> {
        let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
        let containers = (0..parts.len()).filter_map(|at| {
            let above = at.checked_sub(1).map_or("", |above| parts[above]);
            Some((at, container(above, parts[at])?))
        });
        // If containers are nested, the host knows only the outermost container.
        if let Some((at, (engine, id))) = containers.min_by_key(|(at, _)| *at) {
            let inside = innermost_unit(&parts[at + 1..]).filter(|inside| inside != "init.scope");
            return Some(CgroupUnit::Container { engine, id, inside });
        }
        // Use the slice if the path contains no other unit.
        let slice = || parts.iter().rev().find(|part| part.ends_with(".slice")).map(|slice| unescaped(slice));
        innermost_unit(&parts).or_else(slice).map(CgroupUnit::Systemd)
    }

    /// Returns the name to show. `name` is the container's name; without a name, the result shows the
    /// container's id: `docker id 0123456789ab`.
    pub fn shown(&self, name: Option<&str>) -> String {
        match self {
            CgroupUnit::Systemd(unit) => unit.clone(),
            CgroupUnit::Container { engine, id, inside } => {
                let inside = inside.as_ref().map(|unit| format!("/{unit}")).unwrap_or_default();
                match name {
                    Some(name) => format!("{name}{inside}"),
                    None if *engine == Engine::Lxc => format!("lxc {id}{inside}"),
                    None => format!("{} id {}{inside}", engine.name(), &id[..SHORT_ID.min(id.len())]),
                }
            }
        }
    }
}

/// Returns the name of the unit or container in a path below the cgroup mount; `None` if there is none.
///
/// ```
/// # use fonio_core::unit_name;
/// assert_eq!(unit_name("/system.slice/notes.service").as_deref(), Some("notes.service"));
/// assert_eq!(unit_name("/").as_deref(), None);
/// ```
pub fn unit_name(cgroup: &str) -> Option<String> {
    CgroupUnit::of_cgroup(cgroup).map(|unit| unit.shown(None))
}

/// Returns the innermost unit that is not a slice. The units that a user started are below the unit of the
/// user's session.
fn innermost_unit(parts: &[&str]) -> Option<String> {
    let kinds = [".service", ".scope", ".socket", ".mount", ".swap"];
    let unit = parts.iter().rev().find(|part| kinds.iter().any(|kind| part.ends_with(kind)));
    unit.map(|unit| unescaped(unit))
}

/// Returns the container to which a path component and its parent component refer.
fn container<'c>(above: &str, part: &'c str) -> Option<(Engine, &'c str)> {
    let is_id = |text: &str| text.len() == FULL_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = part.strip_suffix(".scope").unwrap_or(part);
    for (prefix, engine) in ENGINES {
        // Podman's monitor (conmon) has a separate scope.
        let id = named.strip_prefix(prefix).map(|id| id.strip_prefix("conmon-").unwrap_or(id));
        if let Some(id) = id.filter(|id| is_id(id) || (engine == Engine::Lxc && !id.is_empty())) {
            return Some((engine, id));
        }
    }
    let lxc = part.strip_prefix("lxc.monitor.").filter(|name| !name.is_empty());
    match above {
        _ if lxc.is_some() => lxc.map(|name| (Engine::Lxc, name)),
        "docker" if is_id(part) => Some((Engine::Docker, part)),
        "lxc" => Some((Engine::Lxc, part)),
        pod if pod.starts_with("pod") && is_id(part) => Some((Engine::Unknown, part)),
        // With the `cgroupfs` driver, Podman, nerdctl and others put the id below an arbitrary folder.
        _ => is_id(part).then_some((Engine::Unknown, part)),
    }
}
/// Decodes systemd's escape sequences, such as `\x2d` for a hyphen.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.strip_prefix(b"x").and_then(|after| after.get(..2)).filter(|_| first == b'\\');
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_containers() {
        let id = "0123456789abcdef".repeat(4);
        let name = |cgroup: &str| unit_name(&cgroup.replace("ID", &id)).unwrap_or_default();
        let file = expect_test::expect_file!["unit_names.txt"];
        file.assert_eq(&fonio_testing::cases::lines(&file.data(), name));
        assert_eq!(unit_name(""), None);
        assert_eq!(unescaped("a\\x2db\\xzz\\x2"), "a-b\\xzz\\x2");
    }

    #[test]
    fn a_container_whose_name_is_known() {
        let id = "0123456789abcdef".repeat(4);
        let cgroup = format!("/docker/{id}/system.slice/cron.service");
        let unit = CgroupUnit::of_cgroup(&cgroup).unwrap();
        assert_eq!(unit.shown(Some("docker web")), "docker web/cron.service");
        assert_eq!(CgroupUnit::Systemd("a.service".to_owned()).shown(Some("x")), "a.service");
    }
}
