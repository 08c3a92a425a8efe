//! Creates Debian disk images for system guests, without root and without a network in the guest.
//!
//! apt on this machine resolves, downloads and verifies the packages. A guest unpacks the packages on an
//! empty disk and runs their scripts, as debootstrap's second stage does. Therefore, the files have the
//! correct owners, and the scripts run on the architecture of the packages. An image with additional packages
//! starts as a copy of the image without the additional packages.

use std::fs::{self, File, TryLockError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::architecture::Architecture;
use crate::archive::{Archive, PackageFile, Userland};
use crate::error::LabError;
use crate::guest::{Guest, Shape, Task};
use crate::initramfs::Initramfs;
use crate::kernel::{Kernel, KernelFiles};
use crate::machine::POLL;
use crate::programs;

const INSTALL: &str = include_str!("install.sh");
/// Packages of every system guest, in addition to the essential packages.
const BASE: &[&str] = &[
    "apt",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "kmod",
    "libpam-systemd",
    "login",
    "mount",
    "passwd",
    "procps",
    "qemu-guest-agent",
    "systemd",
    "systemd-sysv",
    "udev",
];
/// Size of the disk that the guest sees, in bytes. The image file grows with its contents.
const DISK_BYTES: u64 = 16 << 30;
const INSTALL_MEMORY_MIB: u64 = 1024;
/// Packages of the programs that create disk images. With libarchive, `mke2fs` takes files and their owners
/// from a tar archive.
const DISK_PROGRAMS: &[&str] = &["e2fsprogs", "libarchive13t64", "kmod", "libc6"];

/// A disk image that no other process removes while this value exists.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) image: PathBuf,
    _lock: File,
}

/// Everything that creating disk images requires.
pub(crate) struct Maker<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) kernel: &'a KernelFiles,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) announce: &'a dyn Fn(&str),
}

impl Root {
    /// Returns the image with Debian and `packages`. Creates the image if it does not exist or if the archive
    /// has newer versions of its packages. Fails if a package does not exist, if the archive cannot be
    /// reached, or if the packages cannot be installed.
    pub(crate) fn of(maker: &Maker<'_>, packages: &[String]) -> Result<Root, LabError> {
        let folder = maker.archive.folder().join("roots");
        fs::create_dir_all(&folder).map_err(LabError::system("make", &folder))?;
        if let Some(known) = known(maker.archive, &folder, packages)
            && let Some(root) = Root::existing(&folder.join(known))?
        {
            return Ok(root);
        }
        let wanted = Contents::of(maker.archive, packages)?;
        let root = Root::current(maker, &folder, &wanted)?;
        remember(maker.archive, &folder, &wanted)?;
        Ok(root)
    }

    fn current(maker: &Maker<'_>, folder: &Path, wanted: &Contents) -> Result<Root, LabError> {
        if let Some(root) = Root::existing(&folder.join(wanted.folder()))? {
            return Ok(root);
        }
        let _building = maker.lock(&folder.join("lock"))?;
        let base = Contents::of(maker.archive, &[])?;
        let place = folder.join(base.folder());
        let root = match Root::existing(&place)? {
            Some(root) => root,
            None => maker.build(folder, &base, None)?,
        };
        if *wanted == base {
            return Ok(root);
        }
        // Another process may have just created this image.
        match Root::existing(&folder.join(wanted.folder()))? {
            Some(root) => Ok(root),
            None => maker.build(folder, wanted, Some((&root, &base))),
        }
    }

    fn existing(folder: &Path) -> Result<Option<Root>, LabError> {
        let image = folder.join("image.qcow2");
        let Ok(lock) = File::open(&image) else { return Ok(None) };
        lock.lock_shared().map_err(LabError::system("lock", &image))?;
        // Another process may have removed the image before we locked it.
        Ok(image.exists().then_some(Root { image, _lock: lock }))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Contents {
    any_version: String,
    /// Names of the requested packages, in alphabetical order.
    asked: Vec<String>,
    /// The files of all packages, including dependencies.
    files: Vec<PackageFile>,
}

fn sorted(packages: &[String]) -> Vec<String> {
    let mut asked = packages.to_vec();
    asked.sort();
    asked.dedup();
    asked
}

/// Returns the prefix that the names of all folders with these packages share, regardless of the versions.
fn any_version(archive: &Archive, asked: &[String]) -> String {
    format!("{}-{}-{:08x}-", archive.suite(), archive.architecture(), hash(asked) as u32)
}

/// Returns the folder name for these packages, if this name was stored after the lists were downloaded. This
/// avoids resolving the dependencies, which takes seconds.
fn known(archive: &Archive, folder: &Path, packages: &[String]) -> Option<String> {
    let text = fs::read_to_string(folder.join(any_version(archive, &sorted(packages)) + "known")).ok()?;
    let (state, name) = text.split_once(' ')?;
    (state == state_of_recipe(archive)?).then(|| name.to_owned())
}

fn remember(archive: &Archive, folder: &Path, contents: &Contents) -> Result<(), LabError> {
    let Some(state) = state_of_recipe(archive) else { return Ok(()) };
    let path = folder.join(any_version(archive, &contents.asked) + "known");
    fs::write(&path, format!("{state} {}", contents.folder())).map_err(LabError::system("write", &path))
}

/// Returns a text that changes whenever the lists or the procedure for creating images change.
fn state_of_recipe(archive: &Archive) -> Option<String> {
    let recipe: Vec<&str> = BASE.iter().copied().chain([INSTALL]).collect();
    Some(format!("{}-{:x}", archive.state_of_lists()?, hash(&recipe)))
}

impl Contents {
    fn of(archive: &Archive, packages: &[String]) -> Result<Contents, LabError> {
        let asked = sorted(packages);
        let essential = essential(archive);
        let others: Vec<&str> = [essential.as_str()].into_iter().chain(BASE.iter().copied()).collect();
        let files = resolved(archive, &asked, &others)?;
        let any_version = any_version(archive, &asked);
        Ok(Contents { any_version, asked, files })
    }

    fn folder(&self) -> String {
        let names: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).chain([INSTALL]).collect();
        format!("{}{:016x}", self.any_version, hash(&names))
    }
}

/// Returns the files of the packages `asked`, of `others` (names and patterns), and of what they depend on. A package in
/// `asked` can have a version: `redis-server=5:8.0.2-3`. Fails with [`LabError::NoPackage`] or [`LabError::NoVersion`] if the
/// archive does not have one of them.
pub(crate) fn resolved(
    archive: &Archive,
    asked: &[String],
    others: &[&str],
) -> Result<Vec<PackageFile>, LabError> {
    let unknown = |package: &str| LabError::NoPackage {
        package: package.to_owned(),
        suite: archive.suite(),
        architecture: archive.architecture(),
    };
    if let Some(name) = asked.iter().find(|asked| !is_name(asked.split('=').next().unwrap_or(asked))) {
        return Err(unknown(name));
    }
    let names: Vec<&str> = others.iter().copied().chain(asked.iter().map(String::as_str)).collect();
    archive.resolve(&names).map_err(|error| {
        let LabError::ProgramFailed { complaint, .. } = &error else { return error };
        if let Some((package, version)) = version_not_found(complaint) {
            let has = archive.versions(package).unwrap_or_default().join(", ");
            let (package, version) = (package.to_owned(), version.to_owned());
            return LabError::NoVersion { package, version, has };
        }
        not_located(complaint).map(unknown).unwrap_or(error)
    })
}

/// Returns whether the text is a valid package name (Debian Policy, 5.6.1), not an apt option or pattern.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || b"+-.".contains(&byte))
}

/// Returns the name of the package that apt could not locate.
fn not_located(complaint: &str) -> Option<&str> {
    let (_, rest) = complaint.split_once("Unable to locate package ")?;
    rest.split_whitespace().next()
}

/// Returns the package and its version that apt did not find.
fn version_not_found(complaint: &str) -> Option<(&str, &str)> {
    let (_, rest) = complaint.split_once("Version '")?;
    let (version, rest) = rest.split_once("' for '")?;
    let (package, rest) = rest.split_once('\'')?;
    rest.starts_with(" was not found").then_some((package, version))
}

/// Returns the apt search pattern for essential packages.
pub(crate) fn essential(archive: &Archive) -> String {
    format!("?narrow(?codename(^{}$),?essential)", archive.suite())
}

pub(crate) fn hash(texts: &[impl AsRef<str>]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.as_ref().bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Maker<'_> {
    /// Creates an image, from scratch or from an image with fewer packages.
    fn build(
        &self,
        folder: &Path,
        wanted: &Contents,
        from: Option<(&Root, &Contents)>,
    ) -> Result<Root, LabError> {
        let scratch = Scratch::make(folder.join("building"))?;
        let missing: Vec<PackageFile> = match from {
            None => wanted.files.clone(),
            Some((_, base)) => {
                wanted.files.iter().filter(|file| !base.files.contains(file)).cloned().collect()
            }
        };
        let mebibytes = missing.iter().map(|file| file.bytes).sum::<u64>() >> 20;
        let what = match wanted.asked.as_slice() {
            [] => String::new(),
            asked => format!(" with {}", asked.join(", ")),
        };
        let (suite, architecture) = (self.archive.suite(), self.archive.architecture());
        (self.announce)(&format!("fetching Debian {suite} ({architecture}){what}: {mebibytes} MiB …"));
        let fetched = scratch.0.join("fetched");
        fs::create_dir(&fetched).map_err(LabError::system("make", &fetched))?;
        self.archive.download(&missing, &fetched)?;
        self.check()?;

        (self.announce)("installing Debian in a guest; this happens only once and takes minutes …");
        let packages = scratch.0.join("packages");
        fs::create_dir(&packages).map_err(LabError::system("make", &packages))?;
        let essential = match from {
            None => Some(self.archive.resolve(&[&essential(self.archive)])?),
            Some(_) => None,
        };
        let (mut first, mut rest) = (Vec::new(), String::new());
        for file in &missing {
            self.check()?;
            let unpacked = packages.join(&file.name);
            let offset = uncompressed(&fetched.join(&file.name), &unpacked)?;
            if essential.as_ref().is_some_and(|files| files.contains(file)) {
                first.push((file, offset));
            } else {
                rest += &format!("{}\n", file.name);
            }
        }
        fs::remove_dir_all(&fetched).map_err(LabError::system("remove", &fetched))?;
        // The package base-files contains links such as /bin, which must exist before the other packages'
        // files.
        first.sort_by_key(|(file, _)| file.package() != "base-files");
        let write = |name: &str, text: String| {
            let path = packages.join(name);
            fs::write(&path, text).map_err(LabError::system("write", &path))
        };
        write("rest", rest)?;
        if from.is_none() {
            write("first", first.iter().map(|(file, offset)| format!("{} {offset}\n", file.name)).collect())?;
        }
        let tools = self.tools()?;
        let second = scratch.0.join("packages.ext4");
        file_system(&tools, &packages, &second)?;
        fs::remove_dir_all(&packages).map_err(LabError::system("remove", &packages))?;

        let disk = scratch.0.join("disk");
        match from {
            None => empty_file_system(&tools, &disk, DISK_BYTES)?,
            Some((root, _)) => convert(&root.image, "raw", &disk)?,
        }
        self.install(vec![disk.clone(), second])?;
        let made = scratch.0.join("made");
        fs::create_dir(&made).map_err(LabError::system("make", &made))?;
        convert(&disk, "qcow2", &made.join("image.qcow2"))?;
        let list: String = wanted.files.iter().map(|file| format!("{}\n", file.name)).collect();
        let path = made.join("packages");
        fs::write(&path, list).map_err(LabError::system("write", &path))?;
        let place = folder.join(wanted.folder());
        fs::rename(&made, &place).map_err(LabError::system("make", &place))?;
        remove_older(folder, wanted)?;
        let root = Root::existing(&place)?;
        root.ok_or_else(|| LabError::system("open", &place)(std::io::ErrorKind::NotFound.into()))
    }

    /// Runs the installation in a guest with these disks.
    fn install(&self, disks: Vec<PathBuf>) -> Result<(), LabError> {
        let mut files = Initramfs::new(&self.busybox()?)?;
        files.add_bytes("install", 0o755, INSTALL.as_bytes().to_vec());
        let guest = Guest {
            kernel: self.kernel.clone(),
            shape: Shape::Test,
            memory_mib: INSTALL_MEMORY_MIB,
            modules: Vec::new(),
            wishes: CHECKSUMS.to_vec(),
            files,
            disks,
            programs: None,
            card: None,
        };
        let words = ["sh".to_owned(), "/install".to_owned()];
        let root = Path::new("/");
        let task = Task { words: &words, folder: root, bring: &[], to: self.archive.folder() };
        let ended = guest.run(self.archive, &task, self.stop, self.announce)?;
        match ended.code {
            0 => Ok(()),
            code => Err(LabError::refused("the guest", "install", format!("exit code {code}"))),
        }
    }

    /// Returns the userland with busybox, the shell for guests of this architecture.
    pub(crate) fn busybox(&self) -> Result<Userland, LabError> {
        self.archive.userland(&["busybox-static"], self.announce)
    }

    /// Returns the programs of this machine that create disk images.
    fn tools(&self) -> Result<Userland, LabError> {
        let own = Architecture::of_this_machine().ok_or(LabError::Architecture)?;
        self.archive.for_architecture(own)?.userland(DISK_PROGRAMS, self.announce)
    }

    /// Returns the file-system image for `/usr/lib/modules` with the kernel's modules. The first call creates
    /// the image.
    pub(crate) fn modules(&self, kernel: &Kernel) -> Result<PathBuf, LabError> {
        let mut image = self.archive.kernel_folder(kernel).into_os_string();
        image.push(".modules");
        let image = PathBuf::from(image);
        if image.exists() {
            return Ok(image);
        }
        let tools = self.tools()?;
        let _lock = self.archive.lock()?;
        (self.announce)(&format!("creating a disk with the modules of Linux {} …", kernel.version));
        let scratch = self.archive.scratch()?;
        // depmod finds modules only below these paths.
        for link in ["lib/modules", "usr/lib/modules"].map(|below| scratch.path().join("tree").join(below)) {
            fs::create_dir_all(&link).map_err(LabError::system("make", &link))?;
            let link = link.join(&self.kernel.release);
            std::os::unix::fs::symlink(&self.kernel.modules, &link)
                .map_err(LabError::system("make", &link))?;
        }
        let mut depmod = tools.command("depmod")?;
        depmod.arg("-b").arg(scratch.path().join("tree")).arg(&self.kernel.release);
        programs::output(&mut depmod, "kmod")?;
        let disk = scratch.path().join("disk");
        // This folder contains the modules of this kernel only.
        let folder = self.kernel.modules.parent().unwrap_or(&self.kernel.modules);
        file_system(&tools, folder, &disk)?;
        fs::rename(&disk, &image).map_err(LabError::system("make", &image))?;
        Ok(image)
    }

    fn check(&self) -> Result<(), LabError> {
        if self.stop.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Waits until no other process creates an image.
    fn lock(&self, path: &Path) -> Result<File, LabError> {
        let file = File::create(path).map_err(LabError::system("make", path))?;
        let mut has_waited = false;
        while let Err(error) = file.try_lock() {
            if let TryLockError::Error(error) = error {
                return Err(LabError::system("lock", path)(error));
            }
            if !has_waited {
                (self.announce)("waiting for another process that installs Debian for its guest …");
                has_waited = true;
            }
            self.check()?;
            thread::sleep(POLL);
        }
        Ok(file)
    }
}

/// Kernel modules for checksums, which ext4 requests by algorithm name.
pub(crate) const CHECKSUMS: &[&str] = &["crc32c_generic", "crc32c_cryptoapi"];

/// A folder for building something, which is removed with this value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Makes the folder. Fails if it cannot be made, or if what a killed process left there cannot be removed.
    pub(crate) fn make(folder: PathBuf) -> Result<Scratch, LabError> {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(LabError::system("remove", &folder))?;
        }
        fs::create_dir(&folder).map_err(LabError::system("make", &folder))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, the next build removes the rest.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes images with other versions of the same packages, unless a guest uses them.
fn remove_older(folder: &Path, newest: &Contents) -> Result<(), LabError> {
    for entry in fs::read_dir(folder).map_err(LabError::system("read", folder))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(&newest.any_version) || name == newest.folder() {
            continue;
        }
        if File::open(entry.path().join("image.qcow2")).is_ok_and(|file| file.try_lock().is_ok()) {
            fs::remove_dir_all(entry.path()).map_err(LabError::system("remove", entry.path()))?;
        }
    }
    Ok(())
}

/// Writes a copy of a Debian package with uncompressed members, because decompression on an emulated
/// processor is slow. Returns the position in bytes at which the archive with the package's files starts. The
/// position is counted from 1, as in `tail -c +N`.
fn uncompressed(package: &Path, copy: &Path) -> Result<usize, LabError> {
    let member = |option: &str| {
        let mut command = Command::new("dpkg-deb");
        let out = command.arg(option).arg(package).stdin(Stdio::null()).output();
        let out = out.map_err(|error| programs::not_started(&command, "dpkg", error))?;
        if out.status.success() { Ok(out.stdout) } else { Err(programs::failed(&command, &out.stderr)) }
    };
    let (control, data) = (member("--ctrl-tarfile")?, member("--fsys-tarfile")?);
    let file = File::create(copy).map_err(LabError::system("make", copy))?;
    let mut out = BufWriter::new(file);
    write_archive(&mut out, &control, &data)
        .and_then(|from| out.flush().map(|()| from))
        .map_err(LabError::system("write", copy))
}

/// Writes the three members of a package (deb(5)) as an ar(5) archive.
fn write_archive(out: &mut impl Write, control: &[u8], data: &[u8]) -> std::io::Result<usize> {
    const MAGIC: &[u8] = b"!<arch>\n";
    out.write_all(MAGIC)?;
    let mut at = MAGIC.len();
    let mut data_from = 0;
    for (name, bytes) in
        [("debian-binary", b"2.0\n".as_slice()), ("control.tar", control), ("data.tar", data)]
    {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, bytes.len());
        out.write_all(header.as_bytes())?;
        at += header.len();
        data_from = at + 1;
        out.write_all(bytes)?;
        at += bytes.len();
        if at % 2 == 1 {
            out.write_all(b"\n")?;
            at += 1;
        }
    }
    Ok(data_from)
}

/// Creates an ext4 image with the files of a folder, all owned by root.
fn file_system(tools: &Userland, folder: &Path, image: &Path) -> Result<(), LabError> {
    let archive = image.with_extension("tar");
    let mut tar = Command::new("tar");
    tar.args(["--owner=root:0", "--group=root:0", "--sort=name", "-cf"]).arg(&archive).arg("-C").arg(folder);
    programs::output(tar.arg("."), "tar")?;
    let bytes = fs::metadata(&archive).map_err(LabError::system("read", &archive))?.len();
    // Reserve space for metadata and changes.
    make(tools, image, bytes + bytes / 4 + (64 << 20), Some(&archive))?;
    fs::remove_file(&archive).map_err(LabError::system("remove", &archive))
}

fn empty_file_system(tools: &Userland, image: &Path, bytes: u64) -> Result<(), LabError> {
    make(tools, image, bytes, None)
}

fn make(tools: &Userland, image: &Path, bytes: u64, files: Option<&Path>) -> Result<(), LabError> {
    // Tell mke2fs that a new file reads as zeros. Without this option, the guest's kernel would initialise
    // the remainder of the file system in the background, during measurements.
    let mut mke2fs = tools.command("mke2fs")?;
    mke2fs.args(["-q", "-F", "-t", "ext4", "-E", "assume_storage_prezeroed=1"]);
    if let Some(files) = files {
        mke2fs.arg("-d").arg(files);
    }
    mke2fs.arg(image).arg(format!("{}k", bytes >> 10));
    programs::output(&mut mke2fs, "e2fsprogs").map(drop)
}

fn convert(image: &Path, format: &str, copy: &Path) -> Result<(), LabError> {
    let from = if format == "raw" { "qcow2" } else { "raw" };
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-f", from, "-O", format]).args([image, copy]);
    programs::output(&mut command, "qemu-utils").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apt_did_not_find_is_named() {
        let complaint = "Reading state information...\nE: Version '9:9' for 'bash' was not found";
        assert_eq!(version_not_found(complaint), Some(("bash", "9:9")));
        assert_eq!(not_located(complaint), None);
        let complaint = "E: Unable to locate package no-such-package";
        assert_eq!(not_located(complaint), Some("no-such-package"));
        assert_eq!(version_not_found(complaint), None);
    }

    #[test]
    fn a_package_whose_members_are_not_compressed() {
        let mut bytes = Vec::new();
        let from = write_archive(&mut bytes, b"odd", b"files").expect("an archive");
        assert_eq!(&bytes[from - 1..from + 4], b"files");
        // Members of an `ar` archive start at even offsets.
        assert_eq!((from - 1) % 2, 0);
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x.deb");
        fs::write(&path, &bytes).expect("a file");
        let out = Command::new("ar").arg("t").arg(&path).output();
        if let Ok(out) = out {
            assert_eq!(String::from_utf8_lossy(&out.stdout), "debian-binary\ncontrol.tar\ndata.tar\n");
        }
    }

    #[test]
    fn packages_that_do_not_exist() {
        assert_eq!(not_located("E: Unable to locate package nosuch\n"), Some("nosuch"));
        assert_eq!(not_located("E: Unmet dependencies"), None);
        for (name, holds) in
            [("fio", true), ("g++", true), ("libarchive13t64", true), ("", false), ("-o", false)]
        {
            assert_eq!(is_name(name), holds, "{name}");
        }
    }

    #[test]
    fn hashes_differ_with_the_boundaries_of_texts() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        // The published FNV-1a hash of a single zero byte.
        assert_eq!(hash(&[""]), 0xaf63_bd4c_8601_b7df);
    }
}
