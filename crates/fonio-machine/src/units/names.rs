//! Parses the names of containers and packages from files of container engines and Android.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;

/// Range of the user ids of apps (`AID_APP_START` and `AID_APP_END` of Android's
/// `android_filesystem_config.h`).
const APPS: std::ops::Range<u32> = 10_000..20_000;
/// Difference between the user ids of one app for two successive users of the device (`AID_USER_OFFSET`).
const ANDROID_USER: u32 = 100_000;

/// Returns the name of a Docker container from its `config.v2.json`: `docker web`. For a Home Assistant
/// add-on, returns `add-on core_mosquitto`; for a Kubernetes container, `pod web-7f9c/nginx`.
pub(super) fn docker(config: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        name: String,
        config: Option<Inner>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Inner {
        labels: Option<BTreeMap<String, String>>,
    }
    let config: Config = serde_json::from_str(config).ok()?;
    // Docker stores the container's name with a leading slash.
    let name = config.name.strip_prefix('/').unwrap_or(&config.name);
    let labels = config.config.and_then(|inner| inner.labels).unwrap_or_default();
    // Home Assistant's images have the first label; the containers that its supervisor creates have the
    // second label.
    let is_home_assistant = labels.contains_key("io.hass.type") || labels.contains_key("supervisor_managed");
    let home = || {
        let addon = name.strip_prefix("addon_").map(|slug| format!("add-on {slug}"));
        addon.or_else(|| Some(format!("Home Assistant {}", name.strip_prefix("hassio_")?)))
    };
    let other =
        || (!name.is_empty()).then(|| of_kubernetes(name).unwrap_or_else(|| format!("docker {name}")));
    match is_home_assistant {
        true => home().or_else(other),
        false => other(),
    }
}

/// Returns the name of a container of Podman or CRI-O from the `containers.json` of the engine's storage.
pub(super) fn podman(containers: &str, id: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let containers: Vec<Container> = serde_json::from_str(containers).ok()?;
    let container = containers.into_iter().find(|container| container.id == id)?;
    let name = container.names.first().filter(|name| !name.is_empty())?;
    Some(of_kubernetes(name).unwrap_or_else(|| format!("podman {name}")))
}

/// Returns the name of a containerd container from the annotations in its bundle's `config.json`, as set by
/// nerdctl or Kubernetes.
pub(super) fn containerd(config: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let Config { annotations } = serde_json::from_str(config).ok()?;
    let get = |key: &str| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    if let Some(name) = get("nerdctl/name") {
        return Some(format!("nerdctl {name}"));
    }
    let pod = get("io.kubernetes.cri.sandbox-name").or_else(|| get("io.kubernetes.pod.name"))?;
    let container = get("io.kubernetes.cri.container-name")
        .or_else(|| get("io.kubernetes.container.name"))
        .unwrap_or("pause");
    Some(format!("pod {pod}/{container}"))
}

/// Parses the names of the pod and the container from the name that Kubernetes gives a Docker or CRI-O
/// container: `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`. The container name `POD` means the pod's sandbox
/// container.
fn of_kubernetes(name: &str) -> Option<String> {
    let mut parts = name.strip_prefix("k8s_")?.split('_');
    let (container, pod) = (parts.next()?, parts.next()?);
    let container = if container == "POD" { "pause" } else { container };
    // The namespace, user id and attempt follow the pod name.
    (parts.count() >= 3).then(|| format!("pod {pod}/{container}"))
}

/// The packages of an Android device by app user id, from `packages.list`. Several packages can share an id.
#[derive(Debug, Default)]
pub(super) struct Packages(FxHashMap<u32, Vec<String>>);

impl Packages {
    /// Parses lines of `packages.list` such as `com.example.notes 10123 0 /data/user/0/com.example.notes …`.
    pub(super) fn parse(text: &str) -> Packages {
        let mut packages: FxHashMap<u32, Vec<String>> = FxHashMap::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(Ok(uid))) = (words.next(), words.next().map(str::parse)) else { continue };
            packages.entry(uid).or_default().push(name.to_owned());
        }
        packages.values_mut().for_each(|names| names.sort_unstable());
        Packages(packages)
    }

    /// Returns the package of the app with this user id, for any user of the device; `None` if no app has
    /// this user id.
    pub(super) fn of(&self, uid: u32) -> Option<String> {
        let app = Some(uid % ANDROID_USER).filter(|app| APPS.contains(app))?;
        let (first, others) = self.0.get(&app)?.split_first()?;
        Some(match others.len() {
            0 => first.clone(),
            others => format!("{first} and {others} more"),
        })
    }
}

/// Returns Docker's data folder from `daemon.json`: `data-root`, or `graph` before Docker 17.05.
pub(super) fn docker_root(daemon: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Daemon {
        #[serde(rename = "data-root")]
        data_root: Option<String>,
        graph: Option<String>,
    }
    let daemon: Daemon = serde_json::from_str(daemon).ok()?;
    daemon.data_root.or(daemon.graph)
}

/// Returns `graphroot` from the `storage.conf` of Podman and CRI-O.
pub(super) fn podman_root(storage: &str) -> Option<String> {
    storage.lines().find_map(|line| {
        let value = line.trim().strip_prefix("graphroot")?.trim_start().strip_prefix('=')?.trim_start();
        value.strip_prefix('"')?.split('"').next().map(str::to_owned)
    })
}

/// Returns the home directory of a user from the text of `/etc/passwd`.
pub(super) fn home(passwd: &str, uid: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid)).then(|| fields.get(5).map(|home| (*home).to_owned()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_docker() {
        let config = include_str!("data/docker.config.v2.json");
        assert_eq!(docker(config).as_deref(), Some("docker reverse-proxy"));
        let named = |name: &str, labels: &str| {
            docker(&format!("{{\"ID\":\"1\",\"Name\":\"{name}\",\"Config\":{{\"Labels\":{labels}}}}}"))
        };
        let hass = "{\"io.hass.type\":\"addon\",\"io.hass.arch\":\"aarch64\"}";
        for (name, labels, expected) in [
            ("/web", "{}", Some("docker web")),
            ("/web", "null", Some("docker web")),
            ("web", "{}", Some("docker web")),
            ("/addon_core_mosquitto", hass, Some("add-on core_mosquitto")),
            ("/addon_core_mosquitto", "{\"supervisor_managed\":\"\"}", Some("add-on core_mosquitto")),
            ("/addon_core_mosquitto", "{}", Some("docker addon_core_mosquitto")),
            ("/hassio_supervisor", "{\"io.hass.type\":\"supervisor\"}", Some("Home Assistant supervisor")),
            ("/homeassistant", "{\"io.hass.type\":\"core\"}", Some("docker homeassistant")),
            (
                "/k8s_nginx_web-7f9c_default_5a1d6d0b-7c43-4f0e-a3c2-2f5be1a7f3aa_0",
                "{}",
                Some("pod web-7f9c/nginx"),
            ),
            (
                "/k8s_POD_web-7f9c_default_5a1d6d0b-7c43-4f0e-a3c2-2f5be1a7f3aa_0",
                "{}",
                Some("pod web-7f9c/pause"),
            ),
            ("/k8s_tool", "{}", Some("docker k8s_tool")),
            ("", "{}", None),
        ] {
            assert_eq!(named(name, labels).as_deref(), expected, "{name} {labels}");
        }
        assert_eq!(docker("{\"Name\":\"/web\"}").as_deref(), Some("docker web"));
        for damaged in ["", "{", "{}", "[]", "{\"Name\":7}"] {
            assert_eq!(docker(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn containers_of_podman() {
        let containers = include_str!("data/podman.containers.json");
        for (id, expected) in [
            ("579635db3532e954d07927bdc32bd435bd082f03a0696ded072f04d762a18775", Some("podman contenedor1")),
            ("7d4a7a3c52f0e26ee0dd4a1f7e9a5f8f6c9f2b1be67e4a20a1f5d3c2b1a09f8e", Some("pod web-7f9c/nginx")),
            ("99", None),
        ] {
            assert_eq!(podman(containers, id).as_deref(), expected, "{id}");
        }
        for damaged in ["", "[", "{}", "[{}]", "[{\"id\":\"99\"}]", "[{\"id\":\"99\",\"names\":[\"\"]}]"] {
            assert_eq!(podman(damaged, "99"), None, "{damaged}");
        }
    }

    #[test]
    fn containers_of_containerd() {
        for (config, expected) in [
            (include_str!("data/nerdctl.config.json"), Some("nerdctl runcdev")),
            (include_str!("data/kubernetes.config.json"), Some("pod coco-pod/coco-container")),
            ("{\"annotations\":{\"io.kubernetes.cri.sandbox-name\":\"web\"}}", Some("pod web/pause")),
            ("{\"ociVersion\":\"1.0.2\"}", None),
            ("{", None),
        ] {
            assert_eq!(containerd(config).as_deref(), expected, "{config}");
        }
    }

    #[test]
    fn packages_by_user_id() {
        let packages = Packages::parse(include_str!("data/packages.list"));
        for (uid, expected) in [
            (10_123, Some("com.example.notes")),
            // The app under the second user of an Android device.
            (1_010_123, Some("com.example.notes")),
            (10_300, Some("com.shared.a and 1 more")),
            // A system user id, which many packages share.
            (1000, None),
            (10_999, None),
            (99_001, None),
        ] {
            assert_eq!(packages.of(uid).as_deref(), expected, "{uid}");
        }
    }

    #[test]
    fn where_the_programs_keep_their_data() {
        assert_eq!(docker_root("{\"data-root\": \"/mnt/docker\"}").as_deref(), Some("/mnt/docker"));
        assert_eq!(docker_root("{\"graph\": \"/old\", \"debug\": true}").as_deref(), Some("/old"));
        assert_eq!(docker_root("{}"), None);
        let storage =
            "[storage]\ndriver = \"overlay\"\n# graphroot = \"/no\"\n graphroot = \"/mnt/pods\" # here\n";
        assert_eq!(podman_root(storage).as_deref(), Some("/mnt/pods"));
        assert_eq!(podman_root("[storage]\n"), None);
        let passwd = "root:x:0:0:root:/root:/bin/bash\nana:x:1000:1000:Ana,,,:/home/ana:/bin/sh\n";
        assert_eq!(home(passwd, "1000").as_deref(), Some("/home/ana"));
        assert_eq!(home(passwd, "10"), None);
    }
}
