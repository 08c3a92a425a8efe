//! Makes folders with a Debian and real programs in it, for programs that run on this machine in a root directory of
//! their own.
//!
//! apt resolves, downloads and verifies the packages, as for system guests ([`root`](crate::root)); the packages' scripts
//! run in the new folder, in namespaces of their own. The folder with further packages starts as a copy of the folder
//! without them.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::archive::{Archive, PackageFile};
use crate::error::LabError;
use crate::programs;
use crate::root::{Scratch, essential, hash, resolved};

const INSTALL: &str = include_str!("program_root.sh");
/// The file in a finished folder that lists its packages' files.
const LIST: &str = "packages";
/// The folder in a finished folder that becomes the programs' root directory.
const ROOT: &str = "root";

/// A folder that becomes the root directory of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRoot {
    /// The packages that were asked for.
    pub packages: Vec<String>,
    /// The root directory.
    pub path: PathBuf,
    /// The versions of the packages that were asked for, in the form `redis-server 5:8.0.2-3`.
    pub versions: Vec<String>,
}

impl ProgramRoot {
    /// Returns the root with `packages` and what they depend on, and makes it if it does not exist. Reports long steps to
    /// `announce`. An existing root is used without asking the archive for newer versions. Fails if a package
    /// does not exist, if the archive cannot be reached, or if this process may not make namespaces, as root may.
    pub fn of(
        archive: &Archive,
        packages: &[String],
        announce: &dyn Fn(&str),
    ) -> Result<ProgramRoot, LabError> {
        let folder = folder(archive);
        fs::create_dir_all(&folder).map_err(LabError::system("make", &folder))?;
        let place = folder.join(name(archive, packages));
        if let Some(found) = ProgramRoot::existing(&place, packages)? {
            return Ok(found);
        }
        let _lock = archive.lock()?;
        // Another process may have just made it.
        if let Some(found) = ProgramRoot::existing(&place, packages)? {
            return Ok(found);
        }
        archive.refresh(announce)?;
        let base = folder.join(name(archive, &[]));
        if !base.join(LIST).exists() {
            build(archive, &base, &[], None, announce)?;
        }
        if !packages.is_empty() {
            build(archive, &place, packages, Some(&base), announce)?;
        }
        let made = ProgramRoot::existing(&place, packages)?;
        made.ok_or_else(|| LabError::system("open", &place)(std::io::ErrorKind::NotFound.into()))
    }

    /// Returns the bytes that the root with `packages` uses on the disk; `None` if it was not made yet.
    pub fn size(archive: &Archive, packages: &[String]) -> Option<u64> {
        let place = folder(archive).join(name(archive, packages));
        place.join(LIST).exists().then(|| bytes_of(&place))
    }

    fn existing(place: &Path, packages: &[String]) -> Result<Option<ProgramRoot>, LabError> {
        let list = place.join(LIST);
        let text = match fs::read_to_string(&list) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::system("read", &list)(error)),
        };
        let files = text.lines().map(|name| PackageFile { name: name.to_owned(), bytes: 0 });
        let asked = |file: &PackageFile| packages.iter().any(|package| package == file.package());
        let versions = files.filter(asked).map(|file| described(&file.name)).collect();
        Ok(Some(ProgramRoot { packages: packages.to_vec(), path: place.join(ROOT), versions }))
    }
}

fn folder(archive: &Archive) -> PathBuf {
    archive.folder().join("program-roots")
}

/// Returns the name of the folder for these packages. It changes when the installation changes.
fn name(archive: &Archive, packages: &[String]) -> String {
    let mut asked: Vec<&str> = packages.iter().map(String::as_str).collect();
    asked.sort_unstable();
    asked.dedup();
    let of = if asked.is_empty() { "base".to_owned() } else { format!("{:08x}", hash(&asked) as u32) };
    format!("{}-{}-{of}-{:08x}", archive.suite(), archive.architecture(), hash(&[INSTALL]) as u32)
}

fn build(
    archive: &Archive,
    place: &Path,
    packages: &[String],
    base: Option<&Path>,
    announce: &dyn Fn(&str),
) -> Result<(), LabError> {
    let scratch = Scratch::make(place.with_extension("building"))?;
    let building = &scratch.0;
    let essentials = essential(archive);
    let files = resolved(archive, packages, &[&essentials])?;
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
    archive.download(&missing, &fetched)?;
    let write =
        |path: PathBuf, text: String| fs::write(&path, text).map_err(LabError::system("write", &path));
    let lines =
        |files: &[PackageFile]| files.iter().map(|file| format!("{}\n", file.name)).collect::<String>();
    let root = building.join(ROOT);
    match base {
        Some(base) => {
            let mut copy = Command::new("cp");
            copy.args(["-a", "--reflink=auto", "--"]).args([base.join(ROOT), root.clone()]);
            programs::output(&mut copy, "coreutils")?;
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
    let mut install = Command::new("unshare");
    install.args(["--mount", "--pid", "--ipc", "--fork", "--kill-child", "--", "sh", "-c", INSTALL, "sh"]);
    programs::run(install.args([&root, &fetched]), "util-linux", Stdio::null())?;
    fs::remove_dir_all(&fetched).map_err(LabError::system("remove", &fetched))?;
    write(building.join(LIST), lines(&files))?;
    fs::rename(building, place).map_err(LabError::system("make", place))
}

fn list(place: &Path) -> Result<Vec<String>, LabError> {
    let list = place.join(LIST);
    let text = fs::read_to_string(&list).map_err(LabError::system("read", &list))?;
    Ok(text.lines().map(str::to_owned).collect())
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
