//! The name by which people know a control group: a systemd unit, or a container.

/// The number of digits by which Docker and Podman show a container's id.
const SHORT_ID: usize = 12;
/// The number of hexadecimal digits of a container's id.
const FULL_ID: usize = 64;

/// The names of container engines in names of scopes such as `docker-ID.scope`, and how we show them.
const ENGINES: [(&str, &str); 6] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
    ("nerdctl-", "containerd"),
    ("buildkit-", "buildkit"),
];

/// The unit or container of a path below the cgroup mount; `None` if the path names none.
///
/// ```
/// # use fonio_core::unit_name;
/// assert_eq!(unit_name("/system.slice/notes.service").as_deref(), Some("notes.service"));
/// assert_eq!(unit_name("/").as_deref(), None);
/// ```
pub fn unit_name(cgroup: &str) -> Option<String> {
    let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
    for (at, part) in parts.iter().enumerate().rev() {
        let above = at.checked_sub(1).map_or("", |above| parts[above]);
        if let Some(name) = container(above, part) {
            return Some(name);
        }
        // Below the unit of a user's session are the units of that user, so the innermost unit says most.
        let kinds = [".service", ".scope", ".socket", ".mount", ".swap"];
        if kinds.iter().any(|kind| part.ends_with(kind)) {
            return Some(unescaped(part));
        }
    }
    // A slice says little, but more than nothing.
    parts.iter().rev().find(|part| part.ends_with(".slice")).map(|slice| unescaped(slice))
}

/// The container of a part of a path, and of the part above it.
fn container(above: &str, part: &str) -> Option<String> {
    let is_id = |text: &str| text.len() == FULL_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(scope) = part.strip_suffix(".scope") {
        for (prefix, engine) in ENGINES {
            // Podman's monitor has a scope of its own.
            let id = scope.strip_prefix(prefix).map(|id| id.strip_prefix("conmon-").unwrap_or(id));
            if let Some(id) = id.filter(|id| is_id(id)) {
                return Some(format!("{engine} {}", &id[..SHORT_ID]));
            }
        }
        return None;
    }
    for prefix in ["lxc.payload.", "lxc.monitor."] {
        if let Some(name) = part.strip_prefix(prefix) {
            return Some(format!("lxc {name}"));
        }
    }
    match above {
        "docker" if is_id(part) => Some(format!("docker {}", &part[..SHORT_ID])),
        "libpod_parent" => Some(format!("podman {}", &part.strip_prefix("libpod-")?.get(..SHORT_ID)?)),
        "lxc" => Some(format!("lxc {part}")),
        pod if pod.starts_with("pod") && is_id(part) => Some(format!("container {}", &part[..SHORT_ID])),
        _ => None,
    }
}

/// Replaces systemd's escapes, such as `\x2d` for a hyphen.
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
        for (cgroup, expected) in [
            ("/system.slice/notes.service".to_owned(), "notes.service"),
            ("/system.slice/system-getty.slice/getty@tty1.service".to_owned(), "getty@tty1.service"),
            ("/user.slice/user-1000.slice/session-3.scope".to_owned(), "session-3.scope"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte\\x2dspawn.scope"
                    .to_owned(),
                "vte-spawn.scope",
            ),
            ("/init.scope".to_owned(), "init.scope"),
            ("/system.slice".to_owned(), "system.slice"),
            (format!("/system.slice/docker-{id}.scope"), "docker 0123456789ab"),
            (format!("/docker/{id}"), "docker 0123456789ab"),
            (format!("/docker/{id}/init.scope"), "init.scope"),
            (format!("/machine.slice/libpod-{id}.scope/container"), "podman 0123456789ab"),
            (format!("/kubepods/burstable/pod12-34/{id}"), "container 0123456789ab"),
            (format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"), "containerd 0123456789ab"),
            ("/lxc.payload.web/system.slice/cron.service".to_owned(), "cron.service"),
            ("/lxc/web".to_owned(), "lxc web"),
            ("/system.slice/docker-short.scope".to_owned(), "docker-short.scope"),
            ("/a\\x2".to_owned(), ""),
            ("/uid_10123/pid_456".to_owned(), ""),
            ("/".to_owned(), ""),
            (String::new(), ""),
        ] {
            assert_eq!(unit_name(&cgroup).unwrap_or_default(), expected, "{cgroup}");
        }
        assert_eq!(unescaped("a\\x2db\\xzz\\x2"), "a-b\\xzz\\x2");
    }
}
