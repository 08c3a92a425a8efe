//! The only file system of a guest: an archive that the kernel unpacks into memory when it boots.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use cpio::newc::{Builder, trailer};

use crate::archive::{LIBRARIES, LOADER, Userland};
use crate::error::LabError;
use crate::modules::Module;

/// Symbolic links to folders below `/usr`, at the paths where programs expect these folders.
const LINKS: [(&str, &str); 5] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("etc/mtab", "/proc/self/mounts"),
];

/// File types in `st_mode`.
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

#[derive(Clone, Debug)]
enum Content {
    /// A copy of this file of this machine.
    Copy(PathBuf),
    Bytes(Vec<u8>),
    Link(PathBuf),
}

/// The files that are loaded into a guest's memory.
#[derive(Clone, Debug)]
pub struct Initramfs {
    userland: Userland,
    /// The files, by their path in the guest without the leading `/`.
    files: BTreeMap<PathBuf, (u32, Content)>,
    folders: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// Creates a file system with a shell and the usual small programs. `userland` must contain
    /// `busybox-static` and the libraries of all added programs. Fails if the userland has no busybox.
    pub fn new(userland: &Userland) -> Result<Initramfs, LabError> {
        let mut made =
            Initramfs { userland: userland.clone(), files: BTreeMap::new(), folders: BTreeSet::new() };
        for (link, target) in LINKS {
            made.insert(Path::new(link), LINK | 0o777, Content::Link(target.into()));
        }
        for folder in
            ["dev", "proc", "sys", "tmp", "run", "root", "mnt", "var/tmp", "usr/lib", "usr/lib64", "usr/sbin"]
        {
            made.folder(Path::new(folder));
        }
        made.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n");
        made.text("etc/group", "root:x:0:\nnogroup:x:65534:\n");
        made.text("etc/hosts", "127.0.0.1 localhost\n");
        let missing =
            || LabError::NoLibrary { program: "the guest".to_owned(), library: "busybox".to_owned() };
        let busybox = userland.program("busybox").ok_or_else(missing)?;
        made.insert(Path::new("usr/bin/busybox"), REGULAR | 0o755, Content::Copy(busybox));
        Ok(made)
    }

    /// Adds a program of the userland and its libraries, under its own path. Fails if the userland lacks the
    /// program or one of its libraries.
    pub fn add_tool(&mut self, name: &str) -> Result<(), LabError> {
        let path = self.userland.program(name).ok_or_else(|| LabError::NoLibrary {
            program: "the guest".to_owned(),
            library: name.to_owned(),
        })?;
        // `mkfs.ext4` is a link to `mke2fs`.
        let file = path.canonicalize().map_err(LabError::system("find", &path))?;
        let place = path.strip_prefix(&self.userland.root).unwrap_or(&path).to_owned();
        self.add_program(&file, &place)
    }

    /// Adds a program of this machine at `place`, with its libraries from the userland. Fails if the userland
    /// lacks one of its libraries.
    pub fn add_program(&mut self, program: &Path, place: &Path) -> Result<(), LabError> {
        self.insert(place, REGULAR | 0o755, Content::Copy(program.to_owned()));
        for library in self.libraries(program)? {
            let name = library.file_name().unwrap_or(library.as_os_str());
            let place = Path::new(LIBRARIES).join(name);
            let file = library.canonicalize().map_err(LabError::system("find", &library))?;
            self.insert(&place, REGULAR | 0o755, Content::Copy(file));
        }
        let loader = self.userland.root.join(LOADER);
        let file = loader.canonicalize().map_err(LabError::system("find", &loader))?;
        self.insert(Path::new(LOADER), REGULAR | 0o755, Content::Copy(file));
        Ok(())
    }

    /// Adds a file, or a folder with all its contents, of this machine at `place`. Fails if a file cannot be
    /// read.
    pub fn add_copy(&mut self, path: &Path, place: &Path) -> Result<(), LabError> {
        let metadata = fs::metadata(path).map_err(LabError::system("read", path))?;
        if !metadata.is_dir() {
            let executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
            self.insert(place, REGULAR | executable, Content::Copy(path.to_owned()));
            return Ok(());
        }
        self.folder(&inside(place));
        for entry in fs::read_dir(path).map_err(LabError::system("read", path))? {
            let entry = entry.map_err(LabError::system("read", path))?;
            self.add_copy(&entry.path(), &place.join(entry.file_name()))?;
        }
        Ok(())
    }

    pub(crate) fn add_bytes(&mut self, place: &str, mode: u32, bytes: Vec<u8>) {
        self.insert(Path::new(place), REGULAR | mode, Content::Bytes(bytes));
    }

    pub(crate) fn add_folder(&mut self, place: &Path) {
        self.folder(&inside(place));
    }

    /// Adds kernel modules, which the guest loads in this order.
    pub(crate) fn add_modules(&mut self, modules: &[Module]) {
        for (number, module) in modules.iter().enumerate() {
            let path = format!("modules/{number:03}-{}.ko", module.name);
            self.add_bytes(&path, 0o644, module.bytes.clone());
        }
    }

    /// Returns whether the shell, which needs no libraries, is the only program in the file system.
    pub(crate) fn is_static(&self) -> bool {
        !self.files.contains_key(Path::new(LOADER))
    }

    fn text(&mut self, place: &str, text: &str) {
        self.add_bytes(place, 0o644, text.as_bytes().to_vec());
    }

    fn insert(&mut self, place: &Path, mode: u32, content: Content) {
        let place = inside(place);
        if let Some(folder) = place.parent() {
            self.folder(folder);
        }
        self.files.insert(place, (mode, content));
    }

    fn folder(&mut self, folder: &Path) {
        let parents = folder.ancestors().filter(|parent| !parent.as_os_str().is_empty());
        self.folders.extend(parents.map(Path::to_owned));
    }

    /// Returns the libraries that the userland's loader finds for a program.
    fn libraries(&self, program: &Path) -> Result<Vec<PathBuf>, LabError> {
        let loader = self.userland.root.join(LOADER);
        // Some programs name private library folders by path. On this machine, such a path could contain
        // another version of the library.
        let libraries = self.userland.root.join(LIBRARIES);
        let mut search = libraries.clone().into_os_string();
        for entry in fs::read_dir(&libraries).map_err(LabError::system("read", &libraries))?.flatten() {
            if entry.path().is_dir() {
                search.push(":");
                search.push(entry.path());
            }
        }
        let mut list = Command::new(&loader);
        list.arg("--inhibit-cache").arg("--library-path").arg(search).arg("--list").arg(program);
        let out = list.output().map_err(LabError::system("start", &loader))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let complaint = String::from_utf8_lossy(&out.stderr);
        if let Some(library) = missing(&text).or_else(|| missing(&complaint)) {
            return Err(LabError::NoLibrary {
                program: program.display().to_string(),
                library: library.to_owned(),
            });
        }
        let elsewhere = found(&text).find(|library| !library.starts_with(&self.userland.root));
        if let Some(library) = elsewhere {
            return Err(LabError::NoLibrary {
                program: program.display().to_string(),
                library: library.display().to_string(),
            });
        }
        Ok(found(&text).map(Path::to_owned).collect())
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), LabError> {
        let file = File::create(path).map_err(LabError::system("make", path))?;
        self.write_to(BufWriter::with_capacity(1 << 20, file)).map_err(LabError::system("write", path))
    }

    fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        let mut number = 0;
        let mut entry = |path: &Path, mode: u32| {
            number += 1;
            Builder::new(&path.to_string_lossy()).ino(number).mode(mode).nlink(1)
        };
        // In the archive, a folder must precede its contents.
        for folder in self.folders.iter().filter(|folder| !self.files.contains_key(*folder)) {
            out = entry(folder, FOLDER | 0o755).write(out, 0).finish()?;
        }
        for (path, (mode, content)) in &self.files {
            let bytes = match content {
                Content::Copy(file) => fs::read(file)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?,
                Content::Bytes(bytes) => bytes.clone(),
                Content::Link(target) => target.to_string_lossy().into_owned().into_bytes(),
            };
            let length = u32::try_from(bytes.len())
                .map_err(|_| io::Error::other(format!("{} is larger than 4 GiB", path.display())))?;
            let mut writer = entry(path, *mode).write(out, length);
            writer.write_all(&bytes)?;
            out = writer.finish()?;
        }
        trailer(out)?.flush()
    }
}

/// Returns the path without leading `/` and `.`.
fn inside(place: &Path) -> PathBuf {
    place.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Returns the libraries that the loader has found: `libm.so.6 => /…/libm.so.6 (0x7f…)`.
fn found(text: &str) -> impl Iterator<Item = &Path> {
    text.lines().filter_map(|line| {
        let (_, found) = line.split_once("=> ")?;
        let (path, _) = found.split_once(" (")?;
        path.starts_with('/').then(|| Path::new(path))
    })
}

/// Returns the first library that the dynamic loader did not find.
fn missing(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        if let Some((name, "not found")) = line.trim().split_once(" => ") {
            return Some(name);
        }
        let (_, rest) = line.split_once("error while loading shared libraries: ")?;
        Some(rest.split(':').next().unwrap_or(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loader_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /x/libm.so.6 (0x00007f)\n\
                    \t/usr/lib64/ld-linux-x86-64.so.2 => /y/ld-linux-x86-64.so.2 (0x0)\n\tstatically linked\n";
        assert_eq!(
            found(text).collect::<Vec<_>>(),
            ["/x/libm.so.6", "/y/ld-linux-x86-64.so.2"].map(Path::new)
        );
        assert_eq!(missing(text), None);
        assert_eq!(missing("\tlibx.so.1 => not found\n"), Some("libx.so.1"));
        let error = "prog: error while loading shared libraries: liby.so.2: cannot open shared object file\n";
        assert_eq!(missing(error), Some("liby.so.2"));
    }

    #[test]
    fn an_archive_holds_what_was_added() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("userland");
        fs::create_dir_all(root.join("usr/bin")).expect("folders");
        fs::write(root.join("usr/bin/busybox"), "a shell").expect("a file");
        fs::create_dir_all(dir.path().join("input/below")).expect("folders");
        fs::write(dir.path().join("input/below/file"), "text").expect("a file");
        let mut files = Initramfs::new(&Userland { root }).expect("an initramfs");
        files.add_copy(&dir.path().join("input"), Path::new("/home/me/input")).expect("a copy");
        files.add_bytes("init", 0o755, b"#!".to_vec());
        let mut archive = Vec::new();
        files.write_to(&mut archive).expect("an archive");
        let (mut rest, mut names) = (archive.as_slice(), Vec::new());
        loop {
            let reader = cpio::NewcReader::new(rest).expect("an entry");
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().file_size()));
            rest = reader.finish().expect("the next entry");
        }
        for expected in
            [("home/me/input/below/file", 4), ("init", 2), ("bin", 7), ("home/me", 0), ("usr/bin/busybox", 7)]
        {
            assert!(names.contains(&(expected.0.to_owned(), expected.1)), "{expected:?} in {names:?}");
        }
        let at = |name: &str| names.iter().position(|(other, _)| other == name);
        assert!(at("home") < at("home/me") && at("home/me/input/below") < at("home/me/input/below/file"));
    }
}
