//! Keeps a folder's content in an image file of fixed size on the same device, so that all writes to the
//! folder go to one address range (Kim, Agrawal, Ungureanu 2012, section 5.3).
//!
//! The image contains an ext4 file system with its own journal. The image is completely allocated and written
//! before use, so that writes to the folder never allocate blocks in the underlying file system. The image is
//! in a folder that belongs to root, in the root directory of the underlying file system ([`FOLDER`]). The
//! image is mounted through a loop device, which the kernel removes when its last user closes it.
//!
//! An image whose name ends in [`COPY`] is only a copy of the folder, and may be removed: it is being filled,
//! or its content was copied back. A complete image gets its final name just before it is mounted. The image
//! loses this name just before it is unmounted, when the covered folder is up to date. So no data are lost if
//! the process is killed or the power is cut. An unmounted image with its final name may be newer than the
//! folder, so it is never removed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use fonio_machine::{Machine, read_number, read_text};
use fonio_system::{MountPoint, MountTable, chain};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::files::{remove, remove_empty_folder, sync_folder};
use crate::kernel::check_filesystem;
use crate::loop_device::driver::{attach_while_used, is_backing};
use crate::program::run;
use crate::settings::folder::survey::{Survey, survey};
use crate::settings::folder::{
    self, NONE, check_copying_back, check_place, check_writers, copy_back, copy_unchanged, copyable,
    copying_back, detached_mount, folder_at, free, lock, not_restorable, open, options_around, put_on,
    read_only, uncovered, words,
};
use crate::settings::kept::fstab;
use crate::settings::kind::*;
use crate::settings::places::reconfigure;

/// The values are the size of the image, and `none`.
pub(super) struct HotRange;

const FACTS: Facts = Facts {
    tag: "hot_range",
    content: Some("image"),
    scope: Scope::Folder,
    title: "the address range for the writes",
    kept_in: "a line in `/etc/fstab`, also without --keep",
    undone: "the content is copied back",
    must_be_kept: true,
    cannot_switch: Some("the folder's content is copied for each change"),
    needs_value: Some("SIZE"),
    fixes: &[SettingFix {
        name: "hot-range",
        changes: Group::Filesystem,
        does: "moves a folder's content to an image file of SIZE on the same device, such as `hot-range=16MiB`, so writes to its files and their metadata stay within one range; each sync then also writes the journal of the file system that holds the image; `fonio bench address-range` measures over which range a card is fast; undoing copies the content back",
        needs: "Linux 5.2, loop devices, `mkfs.ext4`, the folder on ext4, ext3, ext2 or xfs with as much free space, and no program with files in the folder open for writing",
        source: "Kim et al. (TOS 2012)",
        trial: Trial::OwnFolder,
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for HotRange {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        if text.is_none() {
            return Ok(Value::None);
        }
        let size = value::size(text, 0, 1 << 20)?;
        if size.size() < SIZE_MIN {
            return Err(format!(
                "use at least {}, which includes a journal of 4 MiB",
                SIZE_MIN.to_exact_text()
            ));
        }
        Ok(size)
    }

    fn object(&self, wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        if *wanted.value == Value::None {
            return Err(Refusal::Reason(
                "write the size of the range, such as hot-range=16MiB: `fonio bench address-range FOLDER` measures over which range small random writes are fast"
                    .to_owned(),
            ));
        }
        let dir = folder_at(path)?;
        Ok(Object::Folder { content: Some(image_of(&dir)?), dir })
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        let (dir, image) = on.with_content();
        Ok(check(dir, image, wanted.value.size(), wanted.despite_writers)?)
    }

    /// Returns the size of the image over a folder, or `none`; `None` if the folder is gone.
    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let (dir, image) = on.with_content();
        let Some(mount) = mounted(dir, image)? else {
            return Ok(dir.is_dir().then(|| NONE.to_owned()));
        };
        let sectors = read_number(&of_device(&mount, "size")).unwrap_or(0);
        Ok(Some(ByteCount::from_sectors(sectors).to_exact_text()))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let (dir, image) = on.with_content();
        let _lock = lock()?;
        if value == NONE {
            return take_down(dir, image);
        }
        let refused = |reason: &str| HostError::NotSettable {
            setting: format!("hot-range={value}"),
            path: dir.to_owned(),
            reason: reason.to_owned(),
        };
        let size: ByteCount = value.parse().map_err(|_| refused("the value is not a size"))?;
        put(dir, image, size, refused).inspect_err(|_| {
            // Report the first error rather than an error of this call.
            let _ = remove_copy(image);
        })
    }

    fn check_restore(&self, on: &Object) -> Result<(), HostError> {
        let (dir, image) = on.with_content();
        check_undo(dir, image)
    }

    fn restore_needs(&self, on: &Object) -> Option<String> {
        let (dir, image) = on.with_content();
        mounted(dir, image).ok()??;
        copying_back(dir)
    }

    fn check_record(&self, on: &Object, _old: &str) -> Result<(), &'static str> {
        let (dir, image) = on.with_content();
        let is_image = image.parent().is_some_and(|folder| folder.ends_with(FOLDER))
            && image.extension().is_some_and(|extension| extension == FILESYSTEM);
        if dir.is_absolute() && is_image { Ok(()) } else { Err("the image is not one of fonio's images") }
    }

    fn kept_as(&self, on: &Object, _value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
        let (dir, image) = on.with_content();
        // Without X-fstrim.notrim, the weekly fstrim would deallocate blocks of the image.
        let fixed = ["loop", "nofail", "X-fstrim.notrim"];
        let options: Vec<&str> = fixed.into_iter().chain(options_around(dir)?).collect();
        Ok(KeptAs::MountLine(fstab::line_of_mount(image, dir, FILESYSTEM, &options.join(","))))
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        remains_to_do(&folder_at(path).ok()?)
    }
}

/// Folder that contains the images, in the root directory of their file system.
const FOLDER: &str = ".fonio-hot-range";
/// Suffix of the name of an image that is only a copy.
const COPY: &str = ".copy";
const FILESYSTEM: &str = "ext4";
/// The minimum size of an image. mkfs.ext4 creates no journal larger than half of the free blocks.
const SIZE_MIN: ByteCount = ByteCount(10 << 20);
/// Minimum size of ext4's journal with 4 KiB blocks (`JBD2_MIN_JOURNAL_BLOCKS`).
const JOURNAL_BYTES: u64 = 4 << 20;
/// Size of an inode in the image, and the size of the image per inode, both in bytes.
const INODE_BYTES: u64 = 256;
const BYTES_PER_INODE: u64 = 8 << 10;
/// Space in the image for superblocks, group descriptors, bitmaps and the blocks of the root directory.
const REST_BYTES: u64 = 512 << 10;
const SPARE_BYTES: u64 = 1 << 20;
/// The file systems that overwrite data in place, as an image requires.
const IN_PLACE: [&str; 4] = ["ext4", "ext3", "ext2", "xfs"];
/// The maximum number of extents of an image that is not reported as fragmented.
const FEW_PIECES: usize = 4;
/// Maximum length of the folder's name within the name of its image.
const NAME_LETTERS_MAX: usize = 40;
/// Number of bytes per write while an image is rewritten before use.
const WRITE_BYTES: usize = 1 << 20;

/// Returns the path of a folder's image. The file name contains the folder's name, for readability, and its
/// inode number, which distinguishes folders with the same name.
fn image_of(dir: &Path) -> Result<PathBuf, String> {
    let mounts = MountTable::read().map_err(|error| chain(&error))?;
    let holding = dir.parent().and_then(|parent| mounts.holding(parent));
    let top = &holding.ok_or("the mount of this folder was not found")?.dir;
    let number = match mounts.at(dir) {
        None => fs::metadata(dir).map_err(|error| chain(&error))?.ino(),
        Some(_) => {
            let below = uncovered(dir).and_then(|below| rustix::fs::fstat(&below));
            below.map_err(|error| chain(&error))?.st_ino
        }
    };
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = name.chars().take(NAME_LETTERS_MAX).map(plain).collect();
    Ok(top.join(FOLDER).join(format!("{name}-{number}.{FILESYSTEM}")))
}

fn copy_of(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(COPY);
    name.into()
}

fn mounted(dir: &Path, image: &Path) -> Result<Option<MountPoint>, HostError> {
    let table = MountTable::read()?;
    let is_own = |mount: &&MountPoint| {
        let file = read_text(&of_device(mount, "loop/backing_file")).unwrap_or_default();
        is_backing(&file, image) || is_backing(&file, &copy_of(image))
    };
    Ok(table.at(dir).filter(is_own).cloned())
}

/// Returns the path of a sysfs file of the device that is mounted.
fn of_device(mount: &MountPoint, name: &str) -> PathBuf {
    Machine::here().device_dir(mount.device).join(name)
}

/// Fails if the folder's content could not be moved into an image or back.
fn check(dir: &Path, image: &Path, size: ByteCount, despite_writers: bool) -> Result<(), String> {
    if mounted(dir, image).map_err(|error| chain(&error))?.is_some() {
        return Err("the range already has another size: run `fonio fix undo hot-range` first".to_owned());
    }
    check_place(dir)?;
    check_below(image)?;
    if image.exists() {
        return Err(stranded(dir, image));
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("the kernel has no loop devices (/dev/loop-control): run `modprobe loop`".to_owned());
    }
    check_filesystem(FILESYSTEM).map_err(|error| chain(&error))?;
    run("mkfs.ext4", "e2fsprogs", &["-V"]).map_err(|error| chain(&error))?;
    let found = copyable(dir)?;
    let needs = size_needed(&found, size);
    if needs > size {
        return Err(format!(
            "the folder holds {}, which needs a range of at least {}",
            words(found.bytes),
            ByteCount(needs.0.next_multiple_of(1 << 20)).to_exact_text()
        ));
    }
    let own = open(dir).map_err(|error| chain(&error))?;
    let free = free(&own).map_err(|error| chain(&error))?;
    if size.0 + SPARE_BYTES > free.0 {
        return Err(format!(
            "the folder's file system has only {} free, but the image needs {}, because the folder keeps its space",
            words(free),
            size.to_exact_text()
        ));
    }
    if despite_writers { Ok(()) } else { check_writers(dir) }
}

fn inodes(found: &Survey, size: ByteCount) -> u64 {
    (size.0 / BYTES_PER_INODE).max(2 * found.objects() + 64)
}

/// Returns the minimum size of an image that has room for the content of a folder.
fn size_needed(found: &Survey, size: ByteCount) -> ByteCount {
    ByteCount(
        found.memory.0.max(JOURNAL_BYTES) + JOURNAL_BYTES + INODE_BYTES * inodes(found, size) + REST_BYTES,
    )
}

/// Rejects file systems in which an image does not stay in its address range, or in which other users could
/// replace the image.
fn check_below(image: &Path) -> Result<(), String> {
    let top = image.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mounts = MountTable::read().map_err(|error| chain(&error))?;
    let kind = mounts.holding(top).map(|mount| mount.filesystem.clone()).unwrap_or_default();
    if !IN_PLACE.contains(&kind.as_str()) {
        let known = IN_PLACE.join(", ");
        return Err(match kind.as_str() {
            "btrfs" | "bcachefs" | "zfs" | "f2fs" | "nilfs2" => {
                format!(
                    "{kind} writes each change to a new address, so an image would not stay in its range; use one of: {known}"
                )
            }
            _ => format!("fonio does not know whether {kind} overwrites data in place; use one of: {known}"),
        });
    }
    let stat = fs::metadata(top).map_err(|error| format!("{}: {error}", top.display()))?;
    let (by_others, sticky) = (stat.mode() & 0o022 != 0, stat.mode() & 0o1000 != 0);
    if stat.uid() != 0 || (by_others && !sticky) {
        return Err(format!(
            "users other than root can write to {0} and could replace the image, which root mounts: run `chown root {0}` and `chmod go-w {0}`",
            top.display()
        ));
    }
    Ok(())
}

/// Returns advice on what to do with a complete image that is not mounted.
fn stranded(dir: &Path, image: &Path) -> String {
    let (dir, image) = (dir.display(), image.display());
    format!(
        "the folder's content is in {image}, which is not mounted on the folder now: run `mount -o loop {image} {dir}`, then `fonio fix undo hot-range`"
    )
}

fn put(
    dir: &Path,
    image: &Path,
    size: ByteCount,
    refused: impl Fn(&str) -> HostError,
) -> Result<(), HostError> {
    remove_copy(image)?;
    let below = open(dir)?;
    let copy = copy_of(image);
    let file = allocate(&copy, size)?;
    format(&copy, inodes(&survey(&below, dir)?, size))?;
    settle(&file, &copy, size)?;
    // The kernel removes the loop device when the image is unmounted.
    let (device, node) = attach_while_used(&file)?;
    let (filled, root) = detached_mount(FILESYSTEM, &[("source", &node.to_string_lossy())], dir)?;
    drop((device, file));
    if let Some(reason) = copy_unchanged(&below, &root, dir)? {
        return Err(refused(reason));
    }
    fs::rename(&copy, image).map_err(HostError::system("rename", &copy))?;
    put_on(&filled, dir).inspect_err(|_| {
        // No program has written to the image yet.
        let _ = fs::rename(image, &copy);
    })?;
    sync_folder(image)
}

fn allocate(path: &Path, size: ByteCount) -> Result<File, HostError> {
    let folder = path.parent().expect("it is in a folder");
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made.map_err(HostError::system("make", folder))?,
    }
    sync_folder(folder)?;
    let stat = fs::symlink_metadata(folder).map_err(HostError::system("look at", folder))?;
    if !stat.is_dir() || stat.uid() != 0 || stat.mode() & 0o077 != 0 {
        return Err(HostError::NotSettable {
            setting: "an image in this folder".to_owned(),
            path: folder.to_owned(),
            reason: "this path is not a folder owned by root that only root can access: remove it".to_owned(),
        });
    }
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(no_link)
        .open(path);
    let file = file.map_err(HostError::system("make", path))?;
    let whole = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0);
    match whole {
        // ext2 and ext3 allocate a file's blocks when data are written to it.
        Err(Errno::OPNOTSUPP) => file.set_len(size.0).map_err(HostError::system("allocate", path))?,
        whole => whole.map_err(HostError::system("allocate", path))?,
    }
    Ok(file)
}

/// Rewrites the complete image with the same content. Otherwise, the first write to each allocated extent
/// would make the underlying file system mark the extent as written, which is a write outside the image.
fn settle(file: &File, path: &Path, size: ByteCount) -> Result<(), HostError> {
    let mut bytes = vec![0; WRITE_BYTES];
    let write = |bytes: &mut Vec<u8>| {
        let mut at = 0;
        while at < size.0 {
            let left = usize::try_from(size.0 - at).unwrap_or(usize::MAX);
            bytes.truncate(left);
            file.read_exact_at(bytes, at)?;
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        file.sync_all()
    };
    write(&mut bytes).map_err(HostError::system("write", path))
}

/// Creates the file system in the image. Discards are off, because they would free the image's blocks.
fn format(image: &Path, inodes: u64) -> Result<(), HostError> {
    let (inodes, inode_bytes) = (inodes.to_string(), INODE_BYTES.to_string());
    let journal = format!("size={}", JOURNAL_BYTES >> 20);
    let options = ["-q", "-F", "-b", "4096", "-m", "0", "-I", &inode_bytes, "-N", &inodes, "-J", &journal];
    let features = ["-O", "^resize_inode", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
    let words: Vec<&OsStr> = options.iter().chain(&features).map(OsStr::new).collect();
    run("mkfs.ext4", "e2fsprogs", &[&words[..], &[image.as_os_str()]].concat()).map(drop)
}

fn remove_copy(image: &Path) -> Result<(), HostError> {
    let copy = copy_of(image);
    let Some(folder) = image.parent() else { return Ok(()) };
    remove(&copy)?;
    remove_empty_folder(folder)
}

/// Fails if moving the content back would lose data. Does not change anything.
fn check_undo(dir: &Path, image: &Path) -> Result<(), HostError> {
    match mounted(dir, image)? {
        Some(_) => check_copying_back(dir),
        None if image.exists() => Err(not_restorable(dir, stranded(dir, image))),
        None => Ok(()),
    }
}

fn take_down(dir: &Path, image: &Path) -> Result<(), HostError> {
    check_undo(dir, image)?;
    if mounted(dir, image)?.is_some() {
        unmount(dir, image)?;
    }
    remove_copy(image)
}

fn unmount(dir: &Path, image: &Path) -> Result<(), HostError> {
    read_only(dir, reconfigure(dir, "ro", None))?;
    let copy = copy_of(image);
    let leave = || {
        copy_back(dir)?;
        if image.exists() {
            fs::rename(image, &copy).map_err(HostError::system("rename", image))?;
            sync_folder(image)?;
        }
        folder::unmount(dir)
    };
    leave().inspect_err(|_| {
        // Report the first error rather than an error of removing the copy.
        if copy.exists() {
            let _ = fs::rename(&copy, image);
        }
        let _ = reconfigure(dir, "rw", None);
    })
}

/// Returns remarks for the user on the state after the change.
fn remains_to_do(dir: &Path) -> Option<String> {
    let mut sentences = Vec::new();
    sentences.extend(folder::left_below(dir, "and their writes to these files are lost"));
    let image = image_of(dir).ok().filter(|image| image.exists());
    if let Some(pieces) = image.as_deref().and_then(pieces).filter(|pieces| *pieces > FEW_PIECES) {
        sentences.push(format!(
            "The free space is fragmented: the image has {pieces} extents, so its range is wider than its size."
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

/// Returns the number of a file's extents, as reported by filefrag of e2fsprogs.
fn pieces(file: &Path) -> Option<usize> {
    let said = run("filefrag", "e2fsprogs", &[file]).ok()?;
    said.rsplit_once(": ")?.1.split_whitespace().next()?.parse().ok()
}
