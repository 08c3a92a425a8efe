//! Downloads kernels and programs from Debian's archive.
//!
//! fonio runs apt, with separate lists, caches and sources in the user's cache folder. From the machine's own
//! apt configuration, fonio reads only the mirror. The machine's own lists and packages stay unchanged. apt
//! verifies all downloads with Debian's keys.

use std::fs::{self, File, TryLockError};
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::architecture::Architecture;
use crate::error::LabError;
use crate::kernel::{Kernel, KernelFiles, Wanted, listed};
use crate::programs::{self, POLL};

/// The dynamic loader of Debian's programs, and the folder of their libraries.
pub(crate) const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
pub(crate) const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The Debian releases whose kernels fonio offers.
const SUITES: &[&str] = &["bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];
const SECURITY_SUITES: &[&str] = &["bookworm-security", "trixie-security"];
/// Releases for guest programs, with the version of their C library. fonio uses the first release whose C
/// library is at least as new as this machine's, so that fonio also runs in the guest.
const USERLANDS: &[(&str, (u32, u32))] = &[("trixie", (2, 41)), ("sid", (u32::MAX, 0))];
/// The age after which the archive's lists are downloaded again.
const LISTS_FOR: Duration = Duration::from_secs(24 * 3600);
/// The file whose lock a process holds while it downloads files.
pub(crate) const LOCK: &str = "lock";
/// The environment variable that overrides the mirror of this machine's apt.
const MIRROR: &str = "FONIO_DEBIAN_MIRROR";
/// The environment variable that overrides the Debian release of guest programs: `trixie` or `sid`.
const SUITE: &str = "FONIO_DEBIAN_SUITE";

/// Debian's archive, and the files that were downloaded from it.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
    architecture: Architecture,
}

/// The file of a package in the archive: `procps_2%3a4.0.4-9_amd64.deb`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackageFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Debian programs and libraries that were unpacked but not installed.
#[derive(Clone, Debug)]
pub struct Userland {
    /// The folder that contains the folder `usr`.
    pub root: PathBuf,
}

impl Archive {
    /// Opens the archive. Downloaded files stay in `fonio/lab` below the user's cache folder
    /// (`$XDG_CACHE_HOME` or `~/.cache`). Fails if this machine has no apt or lacks Debian's keys, if its
    /// architecture is not supported, or if the folder cannot be created.
    pub fn open() -> Result<Archive, LabError> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        let cache = cache.or_else(home).unwrap_or_else(std::env::temp_dir);
        Archive::open_in(&cache.join("fonio/lab"))
    }

    /// Opens the archive, and stores downloaded files in `folder`. Returns the errors of [`Archive::open`].
    pub fn open_in(folder: &Path) -> Result<Archive, LabError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(LabError::Architecture);
        }
        if !Path::new(KEYS).exists() {
            return Err(LabError::NoKeys { path: KEYS.into() });
        }
        Archive { folder: folder.to_owned(), architecture: Architecture::Amd64 }.prepared()
    }

    /// Opens the same archive for packages of another architecture. Fails if the folder for this architecture
    /// cannot be created.
    pub fn for_architecture(&self, architecture: Architecture) -> Result<Archive, LabError> {
        Archive { folder: self.folder.clone(), architecture }.prepared()
    }

    fn prepared(self) -> Result<Archive, LabError> {
        let apt = self.apt_folder();
        for path in
            [apt.join("state/lists/partial"), apt.join("cache/archives/partial"), self.folder.join("kernels")]
        {
            fs::create_dir_all(&path).map_err(LabError::system("make", &path))?;
        }
        Ok(self)
    }

    /// Returns the folder with the downloaded files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the architecture of the archive's packages.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns all kernels in the archive, oldest first. Downloads the archive's lists again if they are
    /// older than a day, and reports this to `announce`. If the archive cannot be reached, the previous lists
    /// are used. Fails if there are no lists and the archive cannot be reached.
    pub fn kernels(&self, announce: &dyn Fn(&str)) -> Result<Vec<Kernel>, LabError> {
        let _lock = self.lock()?;
        self.refresh(announce)?;
        let available = programs::output(self.apt("apt-cache").arg("dumpavail"), "apt")?;
        let mut kernels = listed(&available, self.architecture.facts().kernel_flavour);
        for kernel in &mut kernels {
            kernel.fetched = self.kernel_folder(kernel).exists();
        }
        Ok(kernels)
    }

    /// Returns the files of a kernel, downloading them the first time. Fails if the archive lacks this kernel
    /// or cannot be reached.
    pub fn kernel(
        &self,
        wanted: &Wanted,
        announce: &dyn Fn(&str),
    ) -> Result<(Kernel, KernelFiles), LabError> {
        let kernels = self.kernels(announce)?;
        let Some(kernel) = wanted.choose(&kernels) else {
            let wanted = wanted.to_string();
            let nearest = fonio_core::nearest(&wanted, kernels.iter().map(|kernel| kernel.series.as_str()));
            return Err(LabError::NoKernel { wanted, nearest });
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
        Ok((kernel, KernelFiles::in_package(&files, self.architecture)?))
    }

    /// Returns a folder with the files of `packages` and their dependencies, downloading missing packages.
    /// Fails if the archive lacks a package or cannot be reached.
    pub fn userland(&self, packages: &[&str], announce: &dyn Fn(&str)) -> Result<Userland, LabError> {
        let suite = self.suite();
        let root = match self.architecture {
            Architecture::Amd64 => format!("userland-{suite}"),
            other => format!("userland-{suite}-{other}"),
        };
        let root = self.folder.join(root);
        self.unpack(packages, &root, announce)?;
        Ok(Userland { root })
    }

    /// Unpacks `packages` and their dependencies into the folder `root`, without installing anything.
    /// Downloads only packages that earlier calls did not unpack into this folder. A package can be given
    /// with its version: `linux-source-6.12=6.12.117-1`. Fails if the archive lacks a package or cannot be
    /// reached.
    pub fn unpack(&self, packages: &[&str], root: &Path, announce: &dyn Fn(&str)) -> Result<(), LabError> {
        // These folders contain one empty file per requested package, and one per unpacked package.
        let (asked, there) = (root.join("asked"), root.join("unpacked"));
        let new: Vec<&str> =
            packages.iter().filter(|package| !asked.join(package).exists()).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for folder in [&asked, &there] {
            fs::create_dir_all(folder).map_err(LabError::system("make", folder))?;
        }
        self.refresh(announce)?;
        let missing: Vec<PackageFile> =
            self.resolve(packages)?.into_iter().filter(|file| !there.join(&file.name).exists()).collect();
        let mebibytes = missing.iter().map(|file| file.bytes).sum::<u64>() >> 20;
        announce(&format!("fetching Debian programs: {} ({mebibytes} MiB) …", new.join(", ")));
        let scratch = self.scratch()?;
        self.download(&missing, scratch.path())?;
        for file in missing {
            let archive = scratch.path().join(&file.name);
            programs::output(Command::new("dpkg").arg("-x").args([archive.as_path(), root]), "dpkg")?;
            touch(&there.join(&file.name))?;
        }
        new.iter().try_for_each(|package| touch(&asked.join(package)))
    }

    /// Unpacks `packages` without their dependencies into the folder `root`, without installing anything. A
    /// package that an earlier call has unpacked into this folder is not downloaded again. Fails if the archive
    /// lacks a package or cannot be reached.
    pub fn unpack_alone(
        &self,
        packages: &[&str],
        root: &Path,
        announce: &dyn Fn(&str),
    ) -> Result<(), LabError> {
        let there = root.join("unpacked-alone");
        let new: Vec<&str> =
            packages.iter().filter(|package| !there.join(package).exists()).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        fs::create_dir_all(&there).map_err(LabError::system("make", &there))?;
        self.refresh(announce)?;
        announce(&format!("fetching Debian packages for {}: {} …", self.architecture, new.join(", ")));
        let scratch = self.scratch()?;
        self.fetch(self.apt("apt-get").arg("download").args(&new).current_dir(scratch.path()))?;
        for archive in entries(scratch.path())? {
            programs::output(Command::new("dpkg").arg("-x").args([archive.as_path(), root]), "dpkg")?;
        }
        new.iter().try_for_each(|package| touch(&there.join(package)))
    }

    /// Returns the folder with the sources of `package`, including Debian's patches, downloading them the
    /// first time. Fails if the archive lacks the package or cannot be reached, or if `dpkg-source` is not
    /// installed.
    pub fn source(&self, package: &str, announce: &dyn Fn(&str)) -> Result<PathBuf, LabError> {
        let suite = self.suite();
        let place = self.folder.join(format!("source-{suite}-{package}"));
        if place.exists() {
            return Ok(place);
        }
        let _lock = self.lock()?;
        announce(&format!("fetching the sources of Debian's package {package} …"));
        // Source packages have separate lists, so that users who need no sources do not download these lists.
        let apt = self.folder.join("apt-source");
        for path in [apt.join("state/lists/partial"), apt.join("cache/archives/partial")] {
            fs::create_dir_all(&path).map_err(LabError::system("make", &path))?;
        }
        let mirror = mirror(&self.mirrors()?, "debian").ok_or(LabError::NoMirror)?;
        let write = |name: &str, text: String| {
            let path = apt.join(name);
            fs::write(&path, text).map_err(LabError::system("write", &path))
        };
        write("sources.list", format!("deb-src [signed-by={KEYS}] {mirror} {suite} main\n"))?;
        write("status", String::new())?;
        self.fetch(self.apt_with(&apt, "apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"]))?;
        let scratch = self.scratch()?;
        self.fetch(self.apt_with(&apt, "apt-get").args(["source", package]).current_dir(scratch.path()))?;
        let unpacked = entries(scratch.path())?.into_iter().find(|path| path.is_dir());
        let unpacked = unpacked.ok_or_else(|| {
            LabError::system("find the sources in", scratch.path())(std::io::ErrorKind::NotFound.into())
        })?;
        fs::rename(&unpacked, &place).map_err(LabError::system("make", &place))?;
        Ok(place)
    }

    pub(crate) fn suite(&self) -> &'static str {
        // The user can override the release, because the mirror may lack the default release.
        if let Ok(wanted) = std::env::var(SUITE)
            && let Some((suite, _)) = USERLANDS.iter().find(|(suite, _)| *suite == wanted)
        {
            return suite;
        }
        // Only guests of this machine's architecture run programs of this machine.
        let runs_own_programs = Architecture::of_this_machine() == Some(self.architecture);
        suite_for(if runs_own_programs { own_c_library() } else { None })
    }

    /// Returns the files of `packages` and their dependencies, in alphabetical order. `packages` may contain
    /// patterns (see apt-patterns(7)). The archive's lists must have been downloaded.
    pub(crate) fn resolve(&self, packages: &[&str]) -> Result<Vec<PackageFile>, LabError> {
        // apt does not print files that are already in its cache, so use an empty folder as the cache.
        let empty = self.folder.join("apt-no-archives");
        fs::create_dir_all(empty.join("partial")).map_err(LabError::system("make", &empty))?;
        let mut command = self.apt("apt-get");
        for option in [
            format!("APT::Default-Release={}", self.suite()),
            format!("Dir::Cache::archives={}", empty.display()),
            "APT::Install-Recommends=false".to_owned(),
            "Debug::NoLocking=true".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        let uris = programs::output(command.args(["-y", "--print-uris", "install"]).args(packages), "apt")?;
        let mut files: Vec<PackageFile> = uris.lines().filter_map(archive_file).collect();
        files.sort();
        Ok(files)
    }

    pub(crate) fn download(&self, files: &[PackageFile], folder: &Path) -> Result<(), LabError> {
        if files.is_empty() {
            return Ok(());
        }
        let exact = files.iter().filter_map(PackageFile::exact);
        self.fetch(self.apt("apt-get").arg("download").args(exact).current_dir(folder))
    }

    /// Downloads the lists of the archive if the lists are missing or old.
    pub(crate) fn refresh(&self, announce: &dyn Fn(&str)) -> Result<(), LabError> {
        let stamp = self.apt_folder().join("read");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified()).ok();
        let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age < LISTS_FOR) {
            return Ok(());
        }
        announce("reading the lists of Debian's archive …");
        let sources = self.apt_folder().join("sources.list");
        fs::write(&sources, self.sources()?).map_err(LabError::system("write", &sources))?;
        let status = self.apt_folder().join("status");
        fs::write(&status, "").map_err(LabError::system("write", &status))?;
        match self.fetch(self.apt("apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"])) {
            Ok(()) => touch(&stamp),
            Err(LabError::ProgramFailed { complaint, .. }) if age.is_some() => {
                let last = complaint.lines().last().unwrap_or_default();
                announce(&format!("the archive cannot be read ({last}); using the previous lists"));
                Ok(())
            }
            // A mirror can be inconsistent for a single release, so use the lists if the needed release is
            // there.
            Err(LabError::ProgramFailed { complaint, .. }) if self.has_list()? => {
                for line in complaint.lines().filter_map(not_fetched) {
                    announce(&format!("skipped, because the mirror's list cannot be read: {line}"));
                }
                touch(&stamp)
            }
            Err(LabError::ProgramFailed { complaint, .. }) => Err(LabError::Unreachable { complaint }),
            Err(other) => Err(other),
        }
    }

    fn has_list(&self) -> Result<bool, LabError> {
        let end = format!("_dists_{}_main_binary-{}_Packages", self.suite(), self.architecture);
        let lists = entries(&self.apt_folder().join("state/lists"))?;
        Ok(lists.iter().any(|path| path.to_string_lossy().contains(&end)))
    }

    fn sources(&self) -> Result<String, LabError> {
        let uris = self.mirrors()?;
        let mirror = mirror(&uris, "debian").ok_or(LabError::NoMirror)?;
        let mut lines = String::new();
        let mut add = |mirror: &str, suites: &[&str]| {
            for suite in suites {
                lines +=
                    &format!("deb [signed-by={KEYS} arch={}] {mirror} {suite} main\n", self.architecture);
            }
        };
        add(&mirror, SUITES);
        // A private mirror may lack security updates.
        if let Some(security) = self::mirror(&uris, "debian-security") {
            add(&security, SECURITY_SUITES);
        }
        Ok(lines)
    }

    /// Returns the mirror URLs of this machine's apt, or the user's override.
    fn mirrors(&self) -> Result<String, LabError> {
        if let Ok(mirror) = std::env::var(MIRROR) {
            return Ok(mirror);
        }
        let mut own = Command::new("apt-get");
        programs::output(own.args(["indextargets", "--format", "$(REPO_URI)"]), "apt")
    }

    /// Returns a command for one of apt's programs. The command uses fonio's configuration in addition to the
    /// machine's own configuration, which may set a proxy.
    fn apt(&self, program: &str) -> Command {
        self.apt_with(&self.apt_folder(), program)
    }

    /// Returns the command of [`Archive::apt`], but with the lists in another folder.
    fn apt_with(&self, apt: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        for (option, place) in [
            ("Dir::State", apt.join("state")),
            ("Dir::State::status", apt.join("status")),
            ("Dir::Cache", apt.join("cache")),
            // Container images often disable these caches. Without them, each call reads all lists, which
            // takes seconds.
            ("Dir::Cache::pkgcache", "pkgcache.bin".into()),
            ("Dir::Cache::srcpkgcache", "srcpkgcache.bin".into()),
            ("Dir::Etc::sourcelist", apt.join("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::Etc::preferences", "/dev/null".into()),
            ("Dir::Etc::preferencesparts", "/dev/null".into()),
        ] {
            command.arg("-o").arg(format!("{option}={}", place.display()));
        }
        // When started by root, apt downloads as the user `_apt`, which cannot write to this folder.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        for option in ["APT::Architecture", "APT::Architectures"] {
            command.arg("-o").arg(format!("{option}={}", self.architecture));
        }
        command.args(["-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs a command that downloads files; on a terminal, apt shows its progress.
    fn fetch(&self, command: &mut Command) -> Result<(), LabError> {
        let shown = stderr().is_terminal();
        programs::run(command, "apt", if shown { Stdio::from(stderr()) } else { Stdio::null() })
    }

    /// Returns a text that changes whenever the lists are downloaded.
    pub(crate) fn state_of_lists(&self) -> Option<String> {
        let modified =
            fs::metadata(self.apt_folder().join("read")).and_then(|stamp| stamp.modified()).ok()?;
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(since.as_nanos().to_string())
    }

    fn apt_folder(&self) -> PathBuf {
        self.folder.join(match self.architecture {
            Architecture::Amd64 => "apt".to_owned(),
            other => format!("apt-{other}"),
        })
    }

    pub(crate) fn kernel_folder(&self, kernel: &Kernel) -> PathBuf {
        self.folder.join("kernels").join(format!("{}_{}", kernel.package, kernel.version))
    }

    /// Waits until no other process downloads files, and locks the folder.
    pub(crate) fn lock(&self) -> Result<File, LabError> {
        let path = self.folder.join(LOCK);
        let file = File::create(&path).map_err(LabError::system("make", &path))?;
        file.lock().map_err(LabError::system("lock", &path))?;
        Ok(file)
    }

    /// Locks the file `name` in the folder, reports to `announce` that it waits, and stops waiting when `stop` becomes true, with
    /// [`LabError::Interrupted`].
    pub(crate) fn lock_until(
        &self,
        name: &str,
        announce: &dyn Fn(&str),
        stop: &AtomicBool,
    ) -> Result<File, LabError> {
        let path = self.folder.join(name);
        let file = File::create(&path).map_err(LabError::system("make", &path))?;
        let mut has_waited = false;
        while let Err(error) = file.try_lock() {
            if let TryLockError::Error(error) = error {
                return Err(LabError::system("lock", &path)(error));
            }
            if !has_waited {
                announce("waiting for another process that fetches programs …");
                has_waited = true;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            thread::sleep(POLL);
        }
        Ok(file)
    }

    /// Returns the versions of a package in the archive, newest first. The archive's lists must have been downloaded.
    pub(crate) fn versions(&self, package: &str) -> Result<Vec<String>, LabError> {
        let said = programs::output(self.apt("apt-cache").args(["madison", package]), "apt")?;
        let mut versions: Vec<String> = Vec::new();
        for version in said.lines().filter_map(|line| line.split(" | ").nth(1)) {
            if !versions.iter().any(|known| known == version.trim()) {
                versions.push(version.trim().to_owned());
            }
        }
        Ok(versions)
    }

    /// Creates a temporary folder for a download. Removes the leftovers of a killed download first. The
    /// caller must hold the lock of the archive's folder.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, LabError> {
        let folder = self.folder.join("fetching");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(LabError::system("remove", &folder))?;
        }
        fs::create_dir(&folder).map_err(LabError::system("make", &folder))?;
        tempfile::tempdir_in(&folder).map_err(LabError::system("write into", &folder))
    }
}

impl PackageFile {
    /// Returns the package's name and version in the form of `apt-get download`: `procps=2:4.0.4-9`.
    fn exact(&self) -> Option<String> {
        let mut parts = self.name.strip_suffix(".deb")?.split('_');
        Some(format!("{}={}", parts.next()?, parts.next()?.replace("%3a", ":")))
    }

    pub(crate) fn package(&self) -> &str {
        self.name.split('_').next().unwrap_or(&self.name)
    }
}

impl Userland {
    /// Returns the path of a program of the userland, for example `mkfs.ext4`.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        ["usr/bin", "usr/sbin", "bin", "sbin"]
            .into_iter()
            .map(|folder| self.root.join(folder).join(name))
            .find(|path| path.symlink_metadata().is_ok())
    }

    /// Returns a command that runs a program of the userland on this machine, with the userland's libraries.
    pub(crate) fn command(&self, name: &str) -> Result<Command, LabError> {
        let missing =
            || LabError::NoLibrary { program: "the laboratory".to_owned(), library: name.to_owned() };
        let program = self.program(name).ok_or_else(missing)?;
        // Set argv[0]: for example, `kmod` acts as depmod if argv[0] is `depmod`.
        let mut command = Command::new(self.root.join(LOADER));
        command.arg("--inhibit-cache").arg("--library-path").arg(self.root.join(LIBRARIES));
        command.arg("--argv0").arg(name).arg(program);
        Ok(command)
    }
}

/// Returns the first of `uris` whose last part is `name`, as in the URLs of Debian mirrors.
fn mirror(uris: &str, name: &str) -> Option<String> {
    uris.split_whitespace()
        .map(|uri| uri.trim_end_matches('/'))
        .find(|uri| uri.rsplit('/').next() == Some(name))
        .map(str::to_owned)
}

/// Returns the URL and the reason from an error line of apt.
fn not_fetched(line: &str) -> Option<&str> {
    line.split_once("Failed to fetch ").map(|(_, rest)| rest)
}

/// Parses a line of `apt-get --print-uris`: name and size of a package file.
fn archive_file(line: &str) -> Option<PackageFile> {
    let mut words = line.strip_prefix('\'')?.split(' ').skip(1);
    Some(PackageFile { name: words.next()?.to_owned(), bytes: words.next()?.parse().ok()? })
}

fn suite_for(c_library: Option<(u32, u32)>) -> &'static str {
    let needed = c_library.unwrap_or_default();
    let suite = USERLANDS.iter().find(|(_, version)| *version >= needed);
    suite.map_or("sid", |(suite, _)| suite)
}

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
    fn lists_that_apt_does_not_get_are_named() {
        let line = "E: Failed to fetch http://mirror.example/Packages.xz  File has unexpected size (1 != 2).";
        let shown = Some("http://mirror.example/Packages.xz  File has unexpected size (1 != 2).");
        assert_eq!(not_fetched(line), shown);
        assert_eq!(not_fetched("E: Some index files failed to download."), None);
    }

    #[test]
    fn files_in_what_apt_prints() {
        let line =
            "'http://mirror.example/procps_4.0.4-9_amd64.deb' procps_2%3a4.0.4-9_amd64.deb 871348 MD5Sum:4d";
        let file = archive_file(line).expect("a file");
        assert_eq!((file.package(), file.bytes), ("procps", 871_348));
        assert_eq!(file.exact().as_deref(), Some("procps=2:4.0.4-9"));
        assert_eq!(archive_file("Reading package lists..."), None);
    }

    #[test]
    fn programs_fit_this_machines_c_library() {
        let suites = [None, Some((2, 36)), Some((2, 41)), Some((2, 42))].map(suite_for);
        assert_eq!(suites, ["trixie", "trixie", "trixie", "sid"]);
    }
}
