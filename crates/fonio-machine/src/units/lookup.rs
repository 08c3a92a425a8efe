//! Looks up the human-readable name of a control group or a user. It is the name of a systemd unit, a
//! container (Docker, Podman, containerd, CRI-O, Kubernetes), a Home Assistant add-on, or an Android package.
//!
//! The path of a control group contains the name of a systemd unit, but only the id of a container. The name
//! of a container is read from a file of its container engine, without a request to the engine's daemon. Each
//! container is looked up once, while the container exists.

use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::{CgroupUnit, Engine};
use fonio_system::regular;
use rustc_hash::FxHashMap;

use super::names::{self, Packages};

/// Maximum number of control groups for which a name is cached.
const KNOWN_MAX: usize = 10_000;
/// Maximum number of bytes in a container engine's file; larger files are not read. Podman's container list
/// has about 1 KiB per container.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Docker's data directory, for distribution packages and for the snap.
const DOCKER_ROOTS: [&str; 2] = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
/// The storage folders of Podman and CRI-O; the second folder is for containers that do not survive a reboot.
const PODMAN_ROOTS: [&str; 2] = ["var/lib/containers/storage", "run/containers/storage"];
/// The folders in which containerd keeps bundles, for containerd's packages, k3s, MicroK8s, and containerd
/// before 1.2. Each of them has a folder for each namespace.
const CONTAINERD_ROOTS: [&str; 4] = [
    "run/containerd/io.containerd.runtime.v2.task",
    "run/k3s/containerd/io.containerd.runtime.v2.task",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
    "run/containerd/io.containerd.runtime.v1.linux",
];
const PACKAGES: &str = "data/system/packages.list";

/// Looks up and caches the names of control groups and users.
#[derive(Debug)]
pub struct Units {
    /// The directory that is used as `/`; tests use a copy of the files.
    root: PathBuf,
    known: FxHashMap<String, Option<String>>,
    /// The packages on Android; `None` before the first lookup, and `Some(None)` on machines without Android.
    packages: Option<Option<Packages>>,
    unnamed: u64,
}

impl Default for Units {
    fn default() -> Units {
        Units::below(Path::new("/"))
    }
}

impl Units {
    /// Creates a lookup for a machine whose files are below `root`.
    pub fn below(root: &Path) -> Units {
        Units { root: root.to_owned(), known: FxHashMap::default(), packages: None, unnamed: 0 }
    }

    /// Returns the name of a control group or, if the control group has no name, of a user; `None` if neither
    /// has a name. For a container without a known name, returns a name that contains the container's id.
    pub fn of(&mut self, cgroup: Option<&str>, uid: Option<u32>) -> Option<String> {
        let by_cgroup = cgroup.and_then(|cgroup| self.of_cgroup(cgroup));
        by_cgroup.or_else(|| self.package(uid?))
    }

    /// Returns the number of containers whose name could not be found.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    fn of_cgroup(&mut self, cgroup: &str) -> Option<String> {
        if let Some(known) = self.known.get(cgroup) {
            return known.clone();
        }
        let unit = CgroupUnit::of_cgroup(cgroup);
        let name = match &unit {
            Some(CgroupUnit::Container { id, .. }) => self.container(cgroup, id),
            _ => None,
        };
        if matches!(unit, Some(CgroupUnit::Container { engine, .. }) if engine != Engine::Lxc && name.is_none())
        {
            self.unnamed += 1;
        }
        let shown = unit.map(|unit| unit.shown(name.as_deref()));
        if self.known.len() < KNOWN_MAX {
            self.known.insert(cgroup.to_owned(), shown.clone());
        }
        shown
    }

    /// Looks up a container by its id. Ids are unique across container engines.
    fn container(&self, cgroup: &str, id: &str) -> Option<String> {
        let home = self.home(cgroup);
        self.in_docker(home.as_deref(), id)
            .or_else(|| self.in_podman(home.as_deref(), id))
            .or_else(|| self.in_containerd(id))
    }

    fn in_docker(&self, home: Option<&Path>, id: &str) -> Option<String> {
        let mut roots: Vec<PathBuf> = DOCKER_ROOTS.iter().map(|root| self.root.join(root)).collect();
        let set = read(&self.root.join("etc/docker/daemon.json"));
        roots.extend(set.and_then(|text| names::docker_root(&text)).map(|root| self.placed(&root)));
        roots.extend(home.map(|home| home.join(".local/share/docker")));
        let config = |root: PathBuf| read(&root.join("containers").join(id).join("config.v2.json"));
        roots.into_iter().find_map(|root| names::docker(&config(root)?))
    }

    fn in_podman(&self, home: Option<&Path>, id: &str) -> Option<String> {
        let mut roots: Vec<PathBuf> = PODMAN_ROOTS.iter().map(|root| self.root.join(root)).collect();
        let set = read(&self.root.join("etc/containers/storage.conf"));
        roots.extend(set.and_then(|text| names::podman_root(&text)).map(|root| self.placed(&root)));
        roots.extend(home.map(|home| home.join(".local/share/containers/storage")));
        // The directory is `overlay-containers`, or has the name of another storage driver instead of
        // `overlay`.
        let drivers = roots.iter().flat_map(|root| folders(root)).filter(|dir| {
            dir.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-containers"))
        });
        drivers.into_iter().find_map(|dir| {
            // Containers that are removed when they end (`--rm`) are in a separate list.
            let lists = ["containers.json", "volatile-containers.json"];
            lists.iter().find_map(|list| names::podman(&read(&dir.join(list))?, id))
        })
    }

    fn in_containerd(&self, id: &str) -> Option<String> {
        let namespaces = CONTAINERD_ROOTS.iter().flat_map(|root| folders(&self.root.join(root)));
        namespaces.into_iter().find_map(|dir| names::containerd(&read(&dir.join(id).join("config.json"))?))
    }

    /// Returns the home folder of the user whose slice contains a control group. A user's containers that run
    /// without root are stored in this folder.
    fn home(&self, cgroup: &str) -> Option<PathBuf> {
        let uid = cgroup.split('/').find_map(|part| part.strip_prefix("user-")?.strip_suffix(".slice"))?;
        let home = names::home(&read(&self.root.join("etc/passwd"))?, uid)?;
        Some(self.placed(&home))
    }

    fn package(&mut self, uid: u32) -> Option<String> {
        let list = self.root.join(PACKAGES);
        let packages = self.packages.get_or_insert_with(|| Some(Packages::parse(&read(&list)?)));
        packages.as_ref()?.of(uid)
    }

    /// Returns an absolute path below `root`.
    fn placed(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Reads a text file of at most [`FILE_BYTES_MAX`] bytes. A user can put anything in the place of the files below
/// the own home folder, so only regular files are opened.
fn read(path: &Path) -> Option<String> {
    regular::read_text(path, FILE_BYTES_MAX).ok()
}

/// Returns the subfolders of a folder, sorted by name.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8ad700d1f7115aba42de87ce088d3f16808a1ac54e2d7f562c499bdef8d0a0d4";
    const PODMAN_ID: &str = "579635db3532e954d07927bdc32bd435bd082f03a0696ded072f04d762a18775";

    fn machine(files: &[(String, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn each_place_of_a_name() {
        let docker = include_str!("data/docker.config.v2.json");
        let podman = include_str!("data/podman.containers.json");
        let nerdctl = include_str!("data/nerdctl.config.json");
        let passwd = ("etc/passwd".to_owned(), "ana:x:1000:1000::/home/ana:/bin/sh\n");
        let of_user = "/user.slice/user-1000.slice/user@1000.service/user.slice";
        for (files, cgroup, expected) in [
            (
                vec![(format!("var/lib/docker/containers/{ID}/config.v2.json"), docker)],
                format!("/docker/{ID}"),
                "docker reverse-proxy",
            ),
            (
                vec![
                    ("etc/docker/daemon.json".to_owned(), "{\"data-root\":\"/mnt/docker\"}"),
                    (format!("mnt/docker/containers/{ID}/config.v2.json"), docker),
                ],
                format!("/system.slice/docker-{ID}.scope"),
                "docker reverse-proxy",
            ),
            (
                vec![
                    passwd.clone(),
                    (format!("home/ana/.local/share/docker/containers/{ID}/config.v2.json"), docker),
                ],
                format!("{of_user}/docker-{ID}.scope"),
                "docker reverse-proxy",
            ),
            (
                vec![("var/lib/containers/storage/overlay-containers/containers.json".to_owned(), podman)],
                format!("/machine.slice/libpod-{PODMAN_ID}.scope/container"),
                "podman contenedor1",
            ),
            (
                vec![(
                    "var/lib/containers/storage/vfs-containers/volatile-containers.json".to_owned(),
                    podman,
                )],
                format!("/machine.slice/libpod-{PODMAN_ID}.scope/container"),
                "podman contenedor1",
            ),
            (
                vec![
                    passwd,
                    (
                        "home/ana/.local/share/containers/storage/overlay-containers/containers.json"
                            .to_owned(),
                        podman,
                    ),
                ],
                format!("{of_user}/libpod-{PODMAN_ID}.scope"),
                "podman contenedor1",
            ),
            (
                vec![(
                    format!("run/containerd/io.containerd.runtime.v2.task/default/{ID}/config.json"),
                    nerdctl,
                )],
                format!("/system.slice/nerdctl-{ID}.scope"),
                "nerdctl runcdev",
            ),
            (vec![], format!("/docker/{ID}"), "docker id 8ad700d1f711"),
            (vec![], "/system.slice/cron.service".to_owned(), "cron.service"),
        ] {
            let root = machine(&files);
            let mut units = Units::below(root.path());
            assert_eq!(units.of(Some(&cgroup), None).as_deref(), Some(expected), "{cgroup}");
            assert_eq!(units.unnamed(), u64::from(expected.contains(" id ")), "{cgroup}");
            // After a container was removed, its name is still known.
            drop(root);
            assert_eq!(units.of(Some(&cgroup), None).as_deref(), Some(expected), "{cgroup}");
        }
    }

    #[test]
    fn files_of_a_hostile_user_are_not_opened() {
        let home = "home/ana/.local/share/docker/containers";
        let files = [
            ("etc/passwd".to_owned(), "ana:x:1000:1000::/home/ana:/bin/sh\n"),
            (format!("{home}/{ID}/config.v2.json"), include_str!("data/docker.config.v2.json")),
        ];
        let root = machine(&files);
        let file = root.path().join(&files[1].0);
        let name = || {
            let cgroup =
                format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope");
            Units::below(root.path()).of(Some(&cgroup), None)
        };
        assert_eq!(name().as_deref(), Some("docker reverse-proxy"));
        fs::remove_file(&file).unwrap();
        // Nobody writes to the FIFO, so opening it would wait.
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(name().as_deref(), Some("docker id 8ad700d1f711"));
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert_eq!(name().as_deref(), Some("docker id 8ad700d1f711"));
        fs::remove_file(&file).unwrap();
        fs::File::create(&file).and_then(|file| file.set_len(FILE_BYTES_MAX + 1)).unwrap();
        assert_eq!(name().as_deref(), Some("docker id 8ad700d1f711"));
    }

    #[test]
    fn the_package_of_an_android_app() {
        let root = machine(&[(PACKAGES.to_owned(), include_str!("data/packages.list"))]);
        let mut units = Units::below(root.path());
        let cgroup = Some("/uid_10123/pid_456");
        assert_eq!(units.of(cgroup, Some(10_123)).as_deref(), Some("com.example.notes"));
        assert_eq!(units.of(cgroup, Some(1000)), None);
        // On a machine without Android, a user with the same id is not an app.
        assert_eq!(Units::below(&root.path().join("other")).of(None, Some(10_123)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut units = Units::below(Path::new("/does/not/exist"));
        for number in 0..KNOWN_MAX + 10 {
            units.of(Some(&format!("/system.slice/{number}.service")), None);
        }
        assert_eq!(units.known.len(), KNOWN_MAX);
    }
}
