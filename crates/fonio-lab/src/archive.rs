//! Debian's archive: which kernels and programs it has, and their files.
//!
//! apt does the work, with lists, caches and sources of its own, below a folder of the user's. The machine's own apt is
//! only asked for its mirror; its lists, its packages and its configuration stay as they are. Downloads are verified by
//! apt against Debian's keys.

use std::fs::{self, File};
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use crate::kernel::{Kernel, KernelFiles, Wanted, listed};
use crate::{LabError, programs};

/// Debian's keys.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The releases whose kernels are offered.
const SUITES: &[&str] = &["bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];
const SECURITY_SUITES: &[&str] = &["bookworm-security", "trixie-security"];
/// Programs for guests come from the first of these whose C library is at least as new as this machine's: this program
/// runs there too.
const USERLANDS: &[(&str, (u32, u32))] = &[("trixie", (2, 41)), ("sid", (u32::MAX, 0))];
/// Lists older than this are read again.
const LISTS_FOR: Duration = Duration::from_secs(24 * 3600);
/// Overrides the mirror of this machine's apt.
const MIRROR: &str = "FONIO_DEBIAN_MIRROR";

/// Debian's archive, and what has been fetched from it.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
    architecture: &'static str,
}

/// Programs and libraries of Debian, unpacked and never installed.
#[derive(Clone, Debug)]
pub struct Userland {
    /// The folder that contains `usr`.
    pub root: PathBuf,
}

impl Archive {
    /// Opens the archive; what is fetched is kept in `fonio/lab` below the user's cache folder (`$XDG_CACHE_HOME`, else
    /// `~/.cache`).
    ///
    /// # Errors
    ///
    /// If this machine has no apt or lacks Debian's keys, if its architecture is not supported, or if the folder cannot be
    /// made.
    pub fn open() -> Result<Archive, LabError> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        let cache = cache.or_else(home).unwrap_or_else(std::env::temp_dir);
        Archive::open_in(&cache.join("fonio/lab"))
    }

    /// The same in another folder.
    ///
    /// # Errors
    ///
    /// Those of [`Archive::open`].
    pub fn open_in(folder: &Path) -> Result<Archive, LabError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(LabError::Architecture);
        }
        if !Path::new(KEYS).exists() {
            return Err(LabError::NoKeys { path: KEYS.into() });
        }
        for below in ["apt/state/lists/partial", "apt/cache/archives/partial", "kernels"] {
            let path = folder.join(below);
            fs::create_dir_all(&path).map_err(LabError::system("make", &path))?;
        }
        Ok(Archive { folder: folder.to_owned(), architecture: "amd64" })
    }

    /// The folder of everything that was fetched.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kernels of the archive, the oldest first. Reads the archive's lists again if they are older than a day, and says
    /// so with `announce`; if it cannot be reached, the lists of the last time are used.
    ///
    /// # Errors
    ///
    /// If there are no lists and the archive cannot be reached.
    pub fn kernels(&self, announce: &dyn Fn(&str)) -> Result<Vec<Kernel>, LabError> {
        let _lock = self.lock()?;
        self.refresh(announce)?;
        let available = programs::output(self.apt("apt-cache").arg("dumpavail"), "apt")?;
        let mut kernels = listed(&available, self.architecture);
        for kernel in &mut kernels {
            kernel.fetched = self.kernel_folder(kernel).exists();
        }
        Ok(kernels)
    }

    /// Returns the files of a kernel; fetches them the first time.
    ///
    /// # Errors
    ///
    /// If the archive has no such kernel, or cannot be reached.
    pub fn kernel(
        &self,
        wanted: &Wanted,
        announce: &dyn Fn(&str),
    ) -> Result<(Kernel, KernelFiles), LabError> {
        let kernels = self.kernels(announce)?;
        let Some(kernel) = wanted.choose(&kernels) else {
            let mut have: Vec<String> = kernels.into_iter().map(|kernel| kernel.series).collect();
            have.dedup();
            return Err(LabError::NoKernel { wanted: wanted.to_string(), have });
        };
        let files = self.kernel_folder(kernel);
        if !files.exists() {
            let _lock = self.lock()?;
            let mebibytes = kernel.download_bytes >> 20;
            announce(&format!("fetching Linux {} from Debian ({mebibytes} MiB) …", kernel.version));
            let scratch = self.scratch()?;
            let packages = [&kernel.package].into_iter().chain(&kernel.parts);
            let packages: Vec<String> =
                packages.map(|package| format!("{package}={}", kernel.version)).collect();
            self.fetch(self.apt("apt-get").arg("download").args(packages).current_dir(scratch.path()))?;
            let unpacked = self.folder.join("fetching/files");
            for archive in entries(scratch.path())? {
                programs::output(Command::new("dpkg").arg("-x").args([&archive, &unpacked]), "dpkg")?;
            }
            fs::rename(&unpacked, &files).map_err(LabError::system("make", &files))?;
        }
        let kernel = Kernel { fetched: true, ..kernel.clone() };
        Ok((kernel, KernelFiles::in_package(&files)?))
    }

    /// Returns a folder with the files of `packages` and of everything that they depend on; fetches what is missing.
    ///
    /// # Errors
    ///
    /// If the archive lacks a package or cannot be reached.
    pub fn userland(&self, packages: &[&str], announce: &dyn Fn(&str)) -> Result<Userland, LabError> {
        let suite = suite_for(own_c_library());
        let root = self.folder.join(format!("userland-{suite}"));
        // One empty file for each package that was asked for, and each that was unpacked.
        let (asked, there) = (root.join("asked"), root.join("unpacked"));
        if packages.iter().all(|package| asked.join(package).exists()) {
            return Ok(Userland { root });
        }
        let _lock = self.lock()?;
        self.refresh(announce)?;
        for folder in [&asked, &there] {
            fs::create_dir_all(folder).map_err(LabError::system("make", folder))?;
        }
        let release = format!("APT::Default-Release={suite}");
        let install = |only: &str| {
            let mut command = self.apt("apt-get");
            command.args([
                "-o",
                &release,
                "-o",
                "APT::Install-Recommends=false",
                "-o",
                "Debug::NoLocking=true",
            ]);
            command.args(["-y", only, "install"]).args(packages);
            command
        };
        let uris = programs::output(&mut install("--print-uris"), "apt")?;
        let missing: Vec<(&str, u64)> =
            uris.lines().filter_map(archive_file).filter(|(name, _)| !there.join(name).exists()).collect();
        let mebibytes = missing.iter().map(|(_, bytes)| bytes).sum::<u64>() >> 20;
        announce(&format!("fetching {} from Debian ({mebibytes} MiB) …", packages.join(", ")));
        self.fetch(&mut install("--download-only"))?;
        for (name, _) in missing {
            let archive = self.folder.join("apt/cache/archives").join(name);
            programs::output(Command::new("dpkg").arg("-x").args([&archive, &root]), "dpkg")?;
            touch(&there.join(name))?;
            fs::remove_file(&archive).map_err(LabError::system("remove", &archive))?;
        }
        packages.iter().try_for_each(|package| touch(&asked.join(package)))?;
        Ok(Userland { root })
    }

    /// Reads the lists of the archive if they are missing or old.
    fn refresh(&self, announce: &dyn Fn(&str)) -> Result<(), LabError> {
        let stamp = self.folder.join("apt/read");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified()).ok();
        let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age < LISTS_FOR) {
            return Ok(());
        }
        announce("reading the lists of Debian's archive …");
        let sources = self.folder.join("apt/sources.list");
        fs::write(&sources, self.sources()?).map_err(LabError::system("write", &sources))?;
        let status = self.folder.join("apt/status");
        fs::write(&status, "").map_err(LabError::system("write", &status))?;
        match self.fetch(self.apt("apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"])) {
            Ok(()) => touch(&stamp),
            Err(LabError::ProgramFailed { complaint, .. }) if age.is_some() => {
                let last = complaint.lines().last().unwrap_or_default();
                announce(&format!(
                    "the archive cannot be read ({last}); its lists of the last time are used"
                ));
                Ok(())
            }
            Err(LabError::ProgramFailed { complaint, .. }) => Err(LabError::Unreachable { complaint }),
            Err(other) => Err(other),
        }
    }

    /// The contents of `sources.list`.
    fn sources(&self) -> Result<String, LabError> {
        let uris = match std::env::var(MIRROR) {
            Ok(mirror) => mirror,
            Err(_) => {
                let mut own = Command::new("apt-get");
                programs::output(own.args(["indextargets", "--format", "$(REPO_URI)"]), "apt")?
            }
        };
        let mirror = mirror(&uris, "debian").ok_or(LabError::NoMirror)?;
        let mut lines = String::new();
        let mut add = |mirror: &str, suites: &[&str]| {
            for suite in suites {
                lines +=
                    &format!("deb [signed-by={KEYS} arch={}] {mirror} {suite} main\n", self.architecture);
            }
        };
        add(&mirror, SUITES);
        // A mirror of one's own may lack them.
        if let Some(security) = self::mirror(&uris, "debian-security") {
            add(&security, SECURITY_SUITES);
        }
        Ok(lines)
    }

    /// One of apt's programs, with our configuration. The machine's own (a proxy, for example) applies to the rest.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let apt = self.folder.join("apt");
        for (option, place) in [
            ("Dir::State", apt.join("state")),
            ("Dir::State::status", apt.join("status")),
            ("Dir::Cache", apt.join("cache")),
            ("Dir::Etc::sourcelist", apt.join("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::Etc::preferences", "/dev/null".into()),
            ("Dir::Etc::preferencesparts", "/dev/null".into()),
        ] {
            command.arg("-o").arg(format!("{option}={}", place.display()));
        }
        // Started by root, apt would download as a user who may not write here.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        command.args(["-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs a command that downloads; on a terminal, apt shows its progress.
    fn fetch(&self, command: &mut Command) -> Result<(), LabError> {
        let shown = stderr().is_terminal();
        programs::run(command, "apt", if shown { Stdio::from(stderr()) } else { Stdio::null() })
    }

    fn kernel_folder(&self, kernel: &Kernel) -> PathBuf {
        self.folder.join("kernels").join(format!("{}_{}", kernel.package, kernel.version))
    }

    /// Waits until nobody else fetches.
    fn lock(&self) -> Result<File, LabError> {
        let path = self.folder.join("lock");
        let file = File::create(&path).map_err(LabError::system("make", &path))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| LabError::system("lock", &path)(error.into()))?;
        Ok(file)
    }

    /// A folder for a download, under the lock: what a killed fetch left is removed first.
    fn scratch(&self) -> Result<tempfile::TempDir, LabError> {
        let folder = self.folder.join("fetching");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(LabError::system("remove", &folder))?;
        }
        fs::create_dir(&folder).map_err(LabError::system("make", &folder))?;
        tempfile::tempdir_in(&folder).map_err(LabError::system("write into", &folder))
    }
}

impl Userland {
    /// The path of a program, for example `mkfs.ext4`.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        ["usr/bin", "usr/sbin", "bin", "sbin"]
            .into_iter()
            .map(|folder| self.root.join(folder).join(name))
            .find(|path| path.symlink_metadata().is_ok())
    }
}

/// The first of `uris` whose last part is `name`, as mirrors of Debian have it.
fn mirror(uris: &str, name: &str) -> Option<String> {
    uris.split_whitespace()
        .map(|uri| uri.trim_end_matches('/'))
        .find(|uri| uri.rsplit('/').next() == Some(name))
        .map(str::to_owned)
}

/// Name and size of a package's file in a line of `apt-get --print-uris`.
fn archive_file(line: &str) -> Option<(&str, u64)> {
    let mut words = line.strip_prefix('\'')?.split(' ').skip(1);
    Some((words.next()?, words.next()?.parse().ok()?))
}

fn suite_for(c_library: Option<(u32, u32)>) -> &'static str {
    let needed = c_library.unwrap_or_default();
    let suite = USERLANDS.iter().find(|(_, version)| *version >= needed);
    suite.map_or("sid", |(suite, _)| suite)
}

/// The version of this machine's C library.
fn own_c_library() -> Option<(u32, u32)> {
    let text = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let text = String::from_utf8(text).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let entries = fs::read_dir(folder).map_err(LabError::system("read", folder))?;
    entries.map(|entry| Ok(entry.map_err(LabError::system("read", folder))?.path())).collect()
}

fn touch(path: &Path) -> Result<(), LabError> {
    File::create(path)
        .and_then(|file| file.set_modified(SystemTime::now()))
        .map_err(LabError::system("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_among_the_addresses_of_a_machine() {
        let uris = "https://vendor.example/apt/\nhttp://mirror.example/debian/\nhttp://mirror.example/debian-security/\n";
        assert_eq!(mirror(uris, "debian").as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror(uris, "debian-security").as_deref(), Some("http://mirror.example/debian-security"));
        assert_eq!(mirror("https://vendor.example/apt", "debian"), None);
    }

    #[test]
    fn files_in_what_apt_prints() {
        let line = "'http://mirror.example/f2fs-tools_1.16.0-1.1%2bb1_amd64.deb' f2fs-tools_1.16.0-1.1+b1_amd64.deb 190372 SHA256:4d";
        assert_eq!(archive_file(line), Some(("f2fs-tools_1.16.0-1.1+b1_amd64.deb", 190_372)));
        assert_eq!(archive_file("Reading package lists..."), None);
    }

    #[test]
    fn programs_fit_this_machines_c_library() {
        let suites = [None, Some((2, 36)), Some((2, 41)), Some((2, 42))].map(suite_for);
        assert_eq!(suites, ["trixie", "trixie", "trixie", "sid"]);
    }
}
