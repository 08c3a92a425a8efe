//! Identifies the files of a traced command's calls.
//!
//! A file is known by its device, inode, time of birth and path. The path comes from the link of its descriptor in
//! `/proc`, so it is the path in this mount namespace. Nothing here asks a file system that a traced program may
//! serve: a question to its stopped server would never be answered. Therefore, the file of a call with a path, such
//! as unlink, is the file that was last open at this path.

use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use fonio_core::{Content, DeviceId, File, RowSink, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, readlinkat, statx};

/// Maximum number of files in a recording.
const FILES_MAX: usize = 1 << 18;

/// What the kernel appends to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// A file, apart from its name. The inode number alone is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Life {
    device: DeviceId,
    inode: u64,
    /// Seconds and nanoseconds since 1970; 0 if the file system does not store this time.
    born: (i64, u32),
}

/// An open file of a traced program.
#[derive(Clone, Debug)]
pub(super) struct Open {
    life: Life,
    pub(super) path: Vec<u8>,
    pub(super) is_folder: bool,
    pub(super) size: u64,
}

/// The files of a recording.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: FxHashMap<(Life, Vec<u8>), u32>,
    lives: FxHashSet<Life>,
    /// The file that was last seen at each path.
    at: FxHashMap<Vec<u8>, u32>,
    /// The real path of each folder that programs name by another path.
    folders: FxHashMap<PathBuf, PathBuf>,
    rows: Vec<File>,
    /// Number of look-ups of files beyond the maximum.
    pub(super) beyond: u64,
}

impl Open {
    /// Returns the file behind a descriptor of a thread; `None` for pipes, sockets, terminals and similar, and
    /// for a file that is this process's own output. The command inherits it, and its writes to it must not
    /// depend on whether the caller redirects the output to a file or to a pipe.
    pub(super) fn of(tid: i32, descriptor: u64) -> Option<Open> {
        let link = format!("/proc/{tid}/fd/{}", descriptor as i32);
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::BlockDevice) {
            return None;
        }
        let life = Life::of(&found);
        if own_output().contains(&life) {
            return None;
        }
        let mut path = readlinkat(CWD, &link, Vec::new()).ok()?.into_bytes();
        if found.stx_nlink == 0 && path.ends_with(DELETED) {
            path.truncate(path.len() - DELETED.len());
        }
        let is_folder = kind == FileType::Directory;
        Some(Open { life, path, is_folder, size: found.stx_size })
    }

    /// Returns whether the file was created at this time of the coarse clock or later.
    pub(super) fn is_born_since(&self, coarse: (i64, u32)) -> bool {
        self.life.born >= coarse
    }
}

/// Returns the regular files that are this process's standard output and standard error.
fn own_output() -> &'static [Life] {
    static OWN: OnceLock<Vec<Life>> = OnceLock::new();
    OWN.get_or_init(|| {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let file = |descriptor: u32| {
            let link = format!("/proc/self/fd/{descriptor}");
            let found = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
            let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
            is_file.then(|| Life::of(&found))
        };
        [1, 2].into_iter().filter_map(file).collect()
    })
}

impl Life {
    fn of(found: &Statx) -> Life {
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        Life {
            device: DeviceId::new(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: if has_birth { (found.stx_btime.tv_sec, found.stx_btime.tv_nsec) } else { (0, 0) },
        }
    }
}

impl Files {
    /// Returns whether this file was seen before, under any name.
    pub(super) fn knows(&self, open: &Open) -> bool {
        self.lives.contains(&open.life)
    }

    /// Returns the number of an open file. `None` if there are too many files.
    pub(super) fn number(&mut self, open: &Open, now: Timestamp) -> Option<u32> {
        let key = (open.life, open.path.clone());
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let Life { device, inode, .. } = open.life;
        let number = self.add(&open.path, Some((device, inode)), now)?;
        self.lives.insert(open.life);
        self.numbers.insert(key, number);
        self.at.insert(open.path.clone(), number);
        Some(number)
    }

    /// Returns the number of the file that was last seen at a path.
    pub(super) fn number_at(&mut self, path: &Path, now: Timestamp) -> Option<u32> {
        let path = self.real(path).into_os_string().into_vec();
        if let Some(number) = self.at.get(&path) {
            return Some(*number);
        }
        let number = self.add(&path, None, now)?;
        self.at.insert(path, number);
        Some(number)
    }

    fn add(&mut self, path: &[u8], identity: Option<(DeviceId, u64)>, now: Timestamp) -> Option<u32> {
        if self.rows.len() >= FILES_MAX {
            self.beyond += 1;
            return None;
        }
        let number = self.rows.len() as u32;
        self.rows.push(File {
            file_id: number,
            from: now,
            device: identity.map(|(device, _)| device),
            inode: identity.map(|(_, inode)| inode),
            path: Some(String::from_utf8_lossy(path).into_owned()),
            content: Content::Unknown,
        });
        Some(number)
    }

    /// Notes that a program opened the file at `real` by the path `named`.
    pub(super) fn opened(&mut self, named: &Path, real: &Path) {
        let (Some(folder), Some(real_folder)) = (named.parent(), real.parent()) else { return };
        if folder != real_folder && named.file_name() == real.file_name() && self.folders.len() < FILES_MAX {
            self.folders.insert(folder.to_owned(), real_folder.to_owned());
        }
    }

    fn real(&self, path: &Path) -> PathBuf {
        let real = path.parent().and_then(|folder| self.folders.get(folder));
        match (real, path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => path.to_owned(),
        }
    }

    /// Notes the kind of data in a file.
    pub(super) fn contains(&mut self, number: u32, content: Content) {
        self.rows[number as usize].content = content;
    }

    pub(super) fn content(&self, number: u32) -> Content {
        self.rows[number as usize].content
    }

    /// Returns the folder of a file.
    pub(super) fn folder(&self, number: u32) -> Option<PathBuf> {
        let path = self.rows.get(number as usize)?.path.as_deref()?;
        Path::new(path).parent().map(Path::to_owned)
    }

    pub(super) fn write(&self, sink: &mut dyn RowSink) -> std::io::Result<()> {
        self.rows.iter().try_for_each(|row| sink.file(row))
    }
}

/// Returns the absolute path that a thread means by `path`, relative to the folder `descriptor` or, without it, to
/// its working directory.
pub(super) fn absolute(tid: i32, descriptor: Option<u64>, path: &Path) -> Option<PathBuf> {
    let mut absolute = PathBuf::from("/");
    if path.is_relative() {
        let descriptor = descriptor.map(|descriptor| descriptor as i32);
        let link = match descriptor.filter(|descriptor| *descriptor != libc::AT_FDCWD) {
            Some(descriptor) => format!("/proc/{tid}/fd/{descriptor}"),
            None => format!("/proc/{tid}/cwd"),
        };
        absolute.push(std::fs::read_link(link).ok()?);
    }
    for component in path.components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => {
                absolute.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(absolute)
}

/// Returns whether the file behind a link in `/proc` is on a file system that a program serves (FUSE).
pub(super) fn is_served_by_program(tid: i32, link: &str) -> bool {
    let Ok(found) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS) else { return true };
    let device = format!("{}:{}", found.stx_dev_major, found.stx_dev_minor);
    // Only file systems without a disk have the major number 0.
    if found.stx_dev_major != 0 {
        return false;
    }
    let Ok(mounts) = std::fs::read_to_string(format!("/proc/{tid}/mountinfo")) else { return true };
    mounts.lines().any(|line| {
        line.split_whitespace().nth(2) == Some(device.as_str())
            && line.split_once(" - ").is_some_and(|(_, rest)| rest.starts_with("fuse"))
    })
}

/// Returns the position and the flags of an open file.
pub(super) fn position_and_flags(tid: i32, descriptor: u64) -> Option<(u64, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{}", descriptor as i32)).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position = field("pos:")?.parse().ok()?;
    Some((position, u32::from_str_radix(field("flags:")?, 8).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn paths_are_relative_to_a_folder() {
        let own = std::process::id() as i32;
        let here = std::env::current_dir().expect("a folder");
        let folder = std::fs::File::open("/proc").expect("a folder");
        let of = |descriptor, path: &str| absolute(own, descriptor, Path::new(path));
        assert_eq!(of(None, "./a/../b"), Some(here.join("b")));
        assert_eq!(of(Some(libc::AT_FDCWD as u64), "b"), Some(here.join("b")));
        assert_eq!(of(Some(folder.as_raw_fd() as u64), "b"), Some(PathBuf::from("/proc/b")));
        assert_eq!(of(None, "/x//y/../../../z"), Some(PathBuf::from("/z")));
    }

    #[test]
    fn a_file_keeps_its_number_and_a_new_file_at_its_path_gets_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let (own, path) = (std::process::id() as i32, dir.path().join("x"));
        let mut files = Files::default();
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(b"some bytes").expect("a write");
        let descriptor = file.as_raw_fd() as u64;
        let open = Open::of(own, descriptor).expect("a regular file");
        assert!(!files.knows(&open));
        assert_eq!((files.number(&open, Timestamp(1)), open.size), (Some(0), 10));
        assert_eq!(position_and_flags(own, descriptor).map(|(position, _)| position), Some(10));
        std::fs::remove_file(&path).expect("it is there");
        let open = Open::of(own, descriptor).expect("it is still open");
        assert_eq!((files.knows(&open), files.number(&open, Timestamp(2))), (true, Some(0)));
        let other = std::fs::File::create(&path).expect("a file");
        let open = Open::of(own, other.as_raw_fd() as u64).expect("a regular file");
        assert_eq!(files.number(&open, Timestamp(3)), Some(1));
        assert_eq!(files.number_at(&path, Timestamp(4)), Some(1));
        files.opened(Path::new("/link/x"), &path);
        assert_eq!(files.number_at(Path::new("/link/x"), Timestamp(4)), Some(1));
        assert_eq!(files.number_at(Path::new("/link/unseen"), Timestamp(5)), Some(2));
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(Open::of(own, reader.as_raw_fd() as u64).is_none());
    }
}
