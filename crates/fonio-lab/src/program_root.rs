//! Makes folders with a Debian and real programs in it, for programs that run on this machine in a root directory of
//! their own.
//!
//! apt resolves, downloads and verifies the packages, as for system guests ([`root`](crate::root)); the packages' scripts
//! run in the new folder, in namespaces of their own. Packages of PyPI come from pip ([`wheels`]). The
//! folder with further packages starts as a copy of the folder without them.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use crate::archive::{Archive, LOCK, PackageFile};
use crate::error::LabError;
use crate::program_disk::ProgramDisk;
use crate::programs;
use crate::root::{Scratch, essential, hash, resolved};
use crate::wheels;

/// The environment variable that names the folder with the programs in a guest, which cannot install them.
pub(crate) const PLACE: &str = "FONIO_PROGRAMS";
const INSTALL: &str = concat!(include_str!("roots.sh"), include_str!("program_root.sh"));
/// The file whose lock a process holds while it makes roots.
const ROOTS_LOCK: &str = "program-roots.lock";
/// The file in a finished folder that lists its packages' files.
const LIST: &str = "packages";
/// The file in a finished folder that lists its packages of PyPI, with those that they depend on.
const WHEELS: &str = "wheels";
/// The folder in a finished folder that becomes the programs' root directory.
const ROOT: &str = "root";
/// The extension of a folder that is being made.
const UNFINISHED: &str = "building";

/// The programs in a root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs<'a> {
    /// Debian's packages. A package can have a version, as in `redis-server=5:8.0.2-3`.
    pub packages: &'a [String],
    /// Packages of PyPI with their versions, as in `homeassistant==2026.2.3`.
    pub wheels: &'a [String],
}
/// The file in a finished folder with an ext4 file system that has the files of the root directory.
const IMAGE: &str = "image";
/// Bytes of the metadata of [`IMAGE`], at least.
const METADATA_BYTES: u64 = 64 << 20;

/// A folder that becomes the root directory of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRoot {
    /// The root directory.
    pub path: PathBuf,
    /// The versions of the packages that were asked for, in the form `redis-server 5:8.0.2-3`.
    pub versions: Vec<String>,
}

impl ProgramRoot {
    /// Returns the root with `programs` and what they depend on, and makes it if it does not exist. Reports long steps to
    /// `announce`. An existing root is used without asking for newer versions. Fails if a package or its version
    /// does not exist, if Debian's archive or PyPI cannot be reached, if this process may not make namespaces, as root may,
    /// or with [`LabError::Interrupted`] when `stop` becomes true. Nothing is left then.
    pub fn of(
        archive: &Archive,
        programs: Programs<'_>,
        announce: &dyn Fn(&str),
        stop: &AtomicBool,
    ) -> Result<ProgramRoot, LabError> {
        let folder = folder(archive);
        fs::create_dir_all(&folder).map_err(LabError::system("make", &folder))?;
        let place = folder.join(name(archive, programs));
        if let Some(found) = ProgramRoot::existing(&place, programs)? {
            return Ok(found);
        }
        let _lock = archive.lock_until(ROOTS_LOCK, announce, stop)?;
        // Another process may have just made it.
        if let Some(found) = ProgramRoot::existing(&place, programs)? {
            return Ok(found);
        }
        let maker = Maker { archive, folder, announce, stop };
        // A signal also ends the programs that work for this one; their complaints are not the reason.
        maker.make(programs).map_err(|error| maker.interrupted().unwrap_or(error))?;
        let made = ProgramRoot::existing(&place, programs)?;
        made.ok_or_else(|| LabError::system("open", &place)(std::io::ErrorKind::NotFound.into()))
    }

    /// Returns the bytes that the root with `programs` uses on the disk; `None` if it was not made yet.
    pub fn size(archive: &Archive, programs: Programs<'_>) -> Option<u64> {
        let place = folder(archive).join(name(archive, programs));
        place.join(LIST).exists().then(|| bytes_of(&place))
    }

    fn existing(place: &Path, programs: Programs<'_>) -> Result<Option<ProgramRoot>, LabError> {
        let list = place.join(LIST);
        let text = match fs::read_to_string(&list) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::system("read", &list)(error)),
        };
        let files = text.lines().map(|name| PackageFile { name: name.to_owned(), bytes: 0 });
        let is_asked = |file: &PackageFile| {
            programs.packages.iter().any(|package| without_version(package) == file.package())
        };
        let packages = files.filter(is_asked).map(|file| described(&file.name));
        let wheels = programs.wheels.iter().map(|wheel| wheel.replace("==", " "));
        Ok(Some(ProgramRoot { path: place.join(ROOT), versions: packages.chain(wheels).collect() }))
    }
}

impl ProgramRoot {
    /// Returns the programs that this guest got from its host; `None` on a machine that installs programs itself. Fails if
    /// the list of packages cannot be read.
    pub fn brought(programs: Programs<'_>) -> Result<Option<ProgramRoot>, LabError> {
        let Some(place) = std::env::var_os(PLACE) else { return Ok(None) };
        let place = PathBuf::from(place);
        let brought = ProgramRoot::existing(&place, programs)?;
        brought.map(Some).ok_or_else(|| LabError::system("open", &place)(std::io::ErrorKind::NotFound.into()))
    }

    /// Returns the folder with the root directory and the list of packages.
    pub(crate) fn place(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns a disk image with the programs, and makes it if it does not exist. Fails if mke2fs fails.
    pub(crate) fn disk(&self, announce: &dyn Fn(&str)) -> Result<ProgramDisk, LabError> {
        let place = self.place();
        let disk = ProgramDisk { image: place.join(IMAGE), root: self.path.clone(), list: place.join(LIST) };
        if disk.image.exists() {
            return Ok(disk);
        }
        announce("making a disk with the programs; this happens only once …");
        let making = tempfile::Builder::new().prefix(IMAGE).tempfile_in(place);
        let making = making.map_err(LabError::system("make a file in", place))?;
        let bytes = bytes_of(&self.path);
        let bytes = bytes + bytes / 4 + METADATA_BYTES;
        // Without a journal, nothing is replayed, so guests need not write to the disk. Programs have many small files.
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-i", "4096", "-m", "0"]);
        mke2fs.args(["-E", "assume_storage_prezeroed=1", "-d"]).arg(&self.path).arg(making.path());
        programs::output(mke2fs.arg(format!("{}k", bytes >> 10)), "e2fsprogs")?;
        making.persist(&disk.image).map_err(|error| LabError::system("make", &disk.image)(error.error))?;
        Ok(disk)
    }
}

fn folder(archive: &Archive) -> PathBuf {
    archive.folder().join("program-roots")
}

/// Returns the name of the folder for these programs. It changes when the installation changes.
fn name(archive: &Archive, programs: Programs<'_>) -> String {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        names
    };
    let mut asked = sorted(programs.packages);
    if !programs.wheels.is_empty() {
        asked.push(wheels::recipe());
        asked.extend(sorted(programs.wheels));
    }
    let of = if asked.is_empty() { "base".to_owned() } else { format!("{:08x}", hash(&asked) as u32) };
    format!("{}-{}-{of}-{:08x}", archive.suite(), archive.architecture(), hash(&[INSTALL]) as u32)
}

/// Removes what killed processes left. The caller must hold both locks.
fn remove_unfinished(folder: &Path) -> Result<(), LabError> {
    let entries = fs::read_dir(folder).map_err(LabError::system("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            fs::remove_dir_all(&path).map_err(LabError::system("remove", &path))?;
        }
    }
    Ok(())
}

/// Makes folders. Its owner holds the lock of the roots.
struct Maker<'a> {
    archive: &'a Archive,
    folder: PathBuf,
    announce: &'a dyn Fn(&str),
    stop: &'a AtomicBool,
}

impl Maker<'_> {
    fn interrupted(&self) -> Option<LabError> {
        self.stop.load(std::sync::atomic::Ordering::Relaxed).then_some(LabError::Interrupted)
    }

    /// Waits until no other process downloads files. pip needs minutes: this lock is not held meanwhile.
    fn lock_archive(&self) -> Result<File, LabError> {
        self.archive.lock_until(LOCK, self.announce, self.stop)
    }

    fn make(&self, programs: Programs<'_>) -> Result<(), LabError> {
        {
            let _fetching = self.lock_archive()?;
            remove_unfinished(&self.folder)?;
            self.archive.refresh(self.announce)?;
        }
        let nothing = Programs { packages: &[], wheels: &[] };
        let base = self.folder.join(name(self.archive, nothing));
        if !base.join(LIST).exists() {
            self.build(&base, nothing, None, None)?;
        }
        if programs == nothing {
            return Ok(());
        }
        let builder: Vec<String> = wheels::BUILDER.iter().map(|&package| package.to_owned()).collect();
        let builder = Programs { packages: &builder, wheels: &[] };
        let builder_place = self.folder.join(name(self.archive, builder));
        if !programs.wheels.is_empty() && !builder_place.join(LIST).exists() {
            self.build(&builder_place, builder, Some(&base), None)?;
        }
        let place = self.folder.join(name(self.archive, programs));
        if place.join(LIST).exists() {
            return Ok(());
        }
        self.build(&place, programs, Some(&base), Some(&builder_place.join(ROOT)))
    }

    fn build(
        &self,
        place: &Path,
        programs: Programs<'_>,
        base: Option<&Path>,
        builder: Option<&Path>,
    ) -> Result<(), LabError> {
        let (archive, announce) = (self.archive, self.announce);
        let scratch = Scratch::make(place.with_extension(UNFINISHED))?;
        let building = &scratch.0;
        let essentials = essential(archive);
        let mut packages = programs.packages.to_vec();
        if !programs.wheels.is_empty() {
            packages.extend(wheels::NEEDED.iter().map(|&package| package.to_owned()));
        }
        let files = resolved(archive, &packages, &[&essentials])?;
        // The wheels come first: their names are more often wrong.
        let wheels = match builder {
            Some(builder) if !programs.wheels.is_empty() => {
                let what = programs.wheels.join(", ");
                announce(&format!("fetching {what} from PyPI; this takes minutes, and happens only once …"));
                Some(wheels::unpacked(builder, programs.wheels, &building.join("pip"), self.stop)?)
            }
            _ => None,
        };
        let there = match base {
            Some(base) => list(base)?,
            None => Vec::new(),
        };
        let missing: Vec<PackageFile> =
            files.iter().filter(|file| !there.contains(&file.name)).cloned().collect();
        let mebibytes = missing.iter().map(|file| file.bytes).sum::<u64>() >> 20;
        let what = if packages.is_empty() { "a Debian for programs".to_owned() } else { packages.join(", ") };
        announce(&format!("fetching {what} from Debian ({mebibytes} MiB) …"));
        let fetched = building.join("fetched");
        fs::create_dir(&fetched).map_err(LabError::system("make", &fetched))?;
        {
            let _fetching = self.lock_archive()?;
            archive.download(&missing, &fetched)?;
        }
        self.interrupted().map_or(Ok(()), Err)?;
        let write =
            |path: PathBuf, text: String| fs::write(&path, text).map_err(LabError::system("write", &path));
        let lines =
            |files: &[PackageFile]| files.iter().map(|file| format!("{}\n", file.name)).collect::<String>();
        let root = building.join(ROOT);
        match base {
            Some(base) => {
                let mut copy = Command::new("cp");
                copy.args(["-a", "--reflink=auto", "--"]).args([base.join(ROOT), root.clone()]);
                programs::run_until(&mut copy, "coreutils", Stdio::null(), self.stop)?;
                write(fetched.join("rest"), lines(&missing))?;
            }
            None => {
                // Users of their own must reach the programs.
                fs::DirBuilder::new().mode(0o755).create(&root).map_err(LabError::system("make", &root))?;
                // The package base-files has links such as /bin, which must exist before the other packages' files.
                let mut first = missing.clone();
                first.sort_by_key(|file| file.package() != "base-files");
                write(fetched.join("first"), lines(&first))?;
                write(fetched.join("rest"), String::new())?;
            }
        }
        announce(&format!("installing {what}; this happens only once …"));
        let mut install = programs::in_namespaces(INSTALL);
        programs::run_until(install.args([&root, &fetched]), "util-linux", Stdio::null(), self.stop)?;
        fs::remove_dir_all(&fetched).map_err(LabError::system("remove", &fetched))?;
        if let Some(unpacked) = wheels {
            let mut copy = Command::new("cp");
            copy.args(["-a", "--reflink=auto", "--"]).args([unpacked.tree.join("."), root.clone()]);
            programs::run_until(&mut copy, "coreutils", Stdio::null(), self.stop)?;
            write(building.join(WHEELS), unpacked.versions)?;
            let of_pip = building.join("pip");
            fs::remove_dir_all(&of_pip).map_err(LabError::system("remove", &of_pip))?;
        }
        write(building.join(LIST), lines(&files))?;
        fs::rename(building, place).map_err(LabError::system("make", place))
    }
}

fn list(place: &Path) -> Result<Vec<String>, LabError> {
    let list = place.join(LIST);
    let text = fs::read_to_string(&list).map_err(LabError::system("read", &list))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns the name in `redis-server=5:8.0.2-3`.
fn without_version(package: &str) -> &str {
    package.split('=').next().unwrap_or(package)
}

/// Returns the name and the version in the name of a package's file.
fn described(file: &str) -> String {
    let mut parts = file.split('_');
    let (name, version) = (parts.next().unwrap_or(file), parts.next().unwrap_or_default());
    format!("{name} {}", version.replace("%3a", ":"))
}

/// Returns the bytes of a folder's files on the disk. Files that cannot be read count nothing.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
