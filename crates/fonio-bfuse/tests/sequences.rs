//! Compares the results of random operations on a mount with a model of a file system. The model consists of
//! a few vectors. A failing sequence of operations is shortened before it is shown.
//!
//! `FONIO_BFUSE_OPERATIONS` sets the number of operations per mode, and `FONIO_BFUSE_SEED` sets the seed of
//! these random operations.

use crate::support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, Timespec, Timestamps};
use support::Numbers;

const NAMES: u64 = 4;
const SLOTS: usize = 4;
const FILE_BYTES_MAX: u64 = 400_000;
const WRITE_BYTES_MAX: u64 = 70_000;
/// Number of operations in a sequence: large enough for complex states, small enough for shortening.
const SEQUENCE: u64 = 400;

/// The option with which the daemon opens files by their handles.
const FEW: &str = "files=256";

/// Maximum number of attempts to shorten a sequence; each attempt runs a complete sequence.
const ATTEMPTS_MAX: usize = 300;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Open { slot: usize, name: u64, how: How },
    Close { slot: usize },
    Write { slot: usize, offset: u64, bytes: u64, seed: u8 },
    // A write that begins where the slot's previous write ended.
    WriteOn { slot: usize, bytes: u64, seed: u8 },
    Read { slot: usize, offset: u64, bytes: u64 },
    Truncate { slot: usize, bytes: u64 },
    TruncatePath { name: u64, bytes: u64 },
    Punch { slot: usize, offset: u64, bytes: u64 },
    Allocate { slot: usize, offset: u64, bytes: u64 },
    Copy { from: usize, to: usize, offset: u64, target: u64, bytes: u64 },
    MapWrite { slot: usize, offset: u64, bytes: u64, seed: u8 },
    MapRead { slot: usize },
    Sync { slot: usize },
    // Compares the results of `SEEK_DATA` and `SEEK_HOLE`.
    Holes { slot: usize },
    Size { name: u64 },
    SetTime { name: u64, seconds: i64 },
    Rename { from: u64, to: u64 },
    Link { from: u64, to: u64 },
    Unlink { name: u64 },
}

#[derive(Clone, Copy, Debug)]
enum How {
    Read,
    Create,
    CreateNew,
    Truncate,
    Append,
    Durable,
    Direct,
}

fn generate(numbers: &mut Numbers) -> Operation {
    let slot = numbers.below(SLOTS as u64) as usize;
    let (name, other) = (numbers.below(NAMES), numbers.below(NAMES));
    let offset = match numbers.below(4) {
        0 => numbers.below(FILE_BYTES_MAX / 4096) * 4096,
        1 => numbers.below(5000),
        _ => numbers.below(FILE_BYTES_MAX),
    };
    let bytes = match numbers.below(3) {
        0 => 4096,
        1 => 1 + numbers.below(300),
        _ => 1 + numbers.below(WRITE_BYTES_MAX),
    };
    let seed = numbers.below(256) as u8;
    match numbers.below(41) {
        0..=4 => {
            let how = [
                How::Read,
                How::Create,
                How::CreateNew,
                How::Truncate,
                How::Append,
                How::Durable,
                How::Direct,
            ];
            Operation::Open { slot, name, how: how[numbers.below(how.len() as u64) as usize] }
        }
        5..=6 => Operation::Close { slot },
        7..=10 => Operation::Write { slot, offset, bytes, seed },
        11..=17 => Operation::WriteOn { slot, bytes, seed },
        18..=22 => Operation::Read { slot, offset, bytes: bytes * 3 },
        23 => Operation::Truncate { slot, bytes: offset },
        24 => Operation::TruncatePath { name, bytes: offset },
        25 => Operation::Punch { slot, offset, bytes },
        26 => Operation::Allocate { slot, offset, bytes },
        27..=28 => {
            let to = numbers.below(SLOTS as u64) as usize;
            Operation::Copy { from: slot, to, offset, target: numbers.below(FILE_BYTES_MAX), bytes }
        }
        29..=30 => Operation::MapWrite { slot, offset, bytes, seed },
        31 => Operation::MapRead { slot },
        32 => Operation::Sync { slot },
        33..=34 => Operation::Size { name },
        35 => Operation::SetTime { name, seconds: numbers.below(1 << 30) as i64 },
        36..=37 => Operation::Rename { from: name, to: other },
        38 => Operation::Link { from: name, to: other },
        39 => Operation::Holes { slot },
        _ => Operation::Unlink { name },
    }
}

/// The model of a file system: names of inodes, and their contents.
#[derive(Default)]
struct Model {
    names: BTreeMap<u64, usize>,
    inodes: Vec<Vec<u8>>,
    /// For each inode, the modification time that was set explicitly, unless a later write has changed it.
    times: BTreeMap<usize, i64>,
    slots: [Option<Slot>; SLOTS],
}

struct Slot {
    file: File,
    inode: usize,
    how: How,
    end: u64,
}

fn writable(slot: &Option<Slot>) -> Option<&Slot> {
    slot.as_ref().filter(|slot| slot.how.writes())
}

impl How {
    fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true);
        match self {
            Self::Read => &mut options,
            Self::Create => options.write(true).create(true),
            Self::CreateNew => options.write(true).create_new(true),
            Self::Truncate => options.write(true).truncate(true),
            Self::Append => options.append(true).create(true),
            Self::Durable => options.write(true).custom_flags(libc::O_DSYNC),
            Self::Direct => options.write(true).custom_flags(libc::O_DIRECT),
        };
        options
    }
}

fn pattern(bytes: u64, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(167) ^ (at >> 8) as u8 ^ seed).collect()
}

fn overwrite(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    content.resize(content.len().max(end), 0);
    content[start..end].copy_from_slice(data);
}

fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
}

fn same_bytes(what: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(one, other)| one != other);
    Err(format!("{what}: {} bytes, expected {}, first difference at {at:?}", found.len(), expected.len()))
}

fn said<T>(what: &str, outcome: std::io::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| format!("{what}: {error}"))
}

impl Model {
    fn step(&mut self, dir: &Path, operation: Operation) -> Result<(), String> {
        let path = |name: u64| dir.join(name.to_string());
        match operation {
            Operation::Open { slot, name, how } => {
                let known = self.names.get(&name).copied();
                let outcome = how.options().open(path(name));
                let creates = matches!(how, How::Create | How::CreateNew | How::Append);
                let expected = match known {
                    Some(_) => !matches!(how, How::CreateNew),
                    None => creates,
                };
                // A source file system without direct I/O may return an error.
                if matches!(how, How::Direct) && outcome.is_err() {
                    return Ok(());
                }
                same("open succeeds", outcome.is_ok(), expected)?;
                let Ok(file) = outcome else { return Ok(()) };
                let inode = known.unwrap_or_else(|| {
                    self.inodes.push(Vec::new());
                    self.names.insert(name, self.inodes.len() - 1);
                    self.inodes.len() - 1
                });
                if matches!(how, How::Truncate) {
                    self.inodes[inode].clear();
                    self.times.remove(&inode);
                }
                self.slots[slot] = Some(Slot { file, inode, how, end: 0 });
            }
            Operation::Close { slot } => self.slots[slot] = None,
            Operation::Write { slot, offset, bytes, seed } => self.write(slot, Some(offset), bytes, seed)?,
            Operation::WriteOn { slot, bytes, seed } => self.write(slot, None, bytes, seed)?,
            Operation::Read { slot, offset, bytes } => {
                let Some(slot) = &self.slots[slot] else { return Ok(()) };
                if matches!(slot.how, How::Direct) {
                    return Ok(());
                }
                let content = &self.inodes[slot.inode];
                let mut found = vec![0; bytes as usize];
                let mut length = 0;
                while length < found.len() {
                    let at = offset + length as u64;
                    match said("read", slot.file.read_at(&mut found[length..], at))? {
                        0 => break,
                        read => length += read,
                    }
                }
                let from = content.len().min(offset as usize);
                let to = content.len().min((offset + bytes) as usize);
                same_bytes("read", &found[..length], &content[from..to])?;
            }
            Operation::Truncate { slot, bytes } => {
                let Some(slot) = writable(&self.slots[slot]) else { return Ok(()) };
                said("truncate", slot.file.set_len(bytes))?;
                self.inodes[slot.inode].resize(bytes as usize, 0);
                self.times.remove(&slot.inode);
            }
            Operation::TruncatePath { name, bytes } => {
                let Some(inode) = self.names.get(&name) else { return Ok(()) };
                let outcome =
                    File::options().write(true).open(path(name)).and_then(|file| file.set_len(bytes));
                said("truncate by name", outcome)?;
                self.inodes[*inode].resize(bytes as usize, 0);
                self.times.remove(inode);
            }
            Operation::Punch { slot, offset, bytes } => {
                let Some(slot) = writable(&self.slots[slot]) else { return Ok(()) };
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                said("punch", rustix::fs::fallocate(&slot.file, flags, offset, bytes).map_err(Into::into))?;
                let content = &mut self.inodes[slot.inode];
                let (from, to) = (offset as usize, (offset + bytes) as usize);
                let length = content.len();
                content[from.min(length)..to.min(length)].fill(0);
                self.times.remove(&slot.inode);
            }
            Operation::Allocate { slot, offset, bytes } => {
                let Some(slot) = writable(&self.slots[slot]) else { return Ok(()) };
                let outcome = rustix::fs::fallocate(&slot.file, FallocateFlags::empty(), offset, bytes);
                said("allocate", outcome.map_err(Into::into))?;
                let content = &mut self.inodes[slot.inode];
                content.resize(content.len().max((offset + bytes) as usize), 0);
                self.times.remove(&slot.inode);
            }
            Operation::Holes { slot } => {
                let Some(slot) = &self.slots[slot] else { return Ok(()) };
                without_holes(&slot.file, &self.inodes[slot.inode])?;
            }
            Operation::Copy { from, to, offset, target, bytes } => {
                self.copy(from, to, offset, target, bytes)?
            }
            Operation::MapWrite { slot, offset, bytes, seed } => self.map_write(slot, offset, bytes, seed)?,
            Operation::MapRead { slot } => {
                let Some(slot) = &self.slots[slot] else { return Ok(()) };
                let content = &self.inodes[slot.inode];
                if content.is_empty() || matches!(slot.how, How::Direct) {
                    return Ok(());
                }
                with_map(&slot.file, content.len(), false, |map| same_bytes("mapped", map, content))?;
            }
            Operation::Sync { slot } => {
                let Some(slot) = &self.slots[slot] else { return Ok(()) };
                said("sync", slot.file.sync_data())?;
            }
            Operation::Size { name } => match self.names.get(&name) {
                None => same("size of nothing", path(name).exists(), false)?,
                Some(inode) => {
                    let found = said("size", path(name).metadata())?;
                    same("size", found.len(), self.inodes[*inode].len() as u64)?;
                    let links = self.names.values().filter(|other| *other == inode).count() as u64;
                    same("links", found.nlink(), links)?;
                    if let Some(seconds) = self.times.get(inode) {
                        same("time of modification", found.mtime(), *seconds)?;
                    }
                }
            },
            Operation::SetTime { name, seconds } => {
                let Some(inode) = self.names.get(&name) else { return Ok(()) };
                let time = Timespec { tv_sec: seconds, tv_nsec: 7 };
                let times = Timestamps { last_access: time, last_modification: time };
                let flags = rustix::fs::AtFlags::empty();
                let outcome = rustix::fs::utimensat(rustix::fs::CWD, path(name), &times, flags);
                said("set times", outcome.map_err(Into::into))?;
                self.times.insert(*inode, seconds);
            }
            Operation::Rename { from, to } => {
                let outcome = std::fs::rename(path(from), path(to));
                let known = self.names.get(&from).copied();
                same("rename succeeds", outcome.is_ok(), known.is_some())?;
                // For two names of one inode, rename does nothing, according to POSIX.
                if let Some(inode) = known
                    && self.names.get(&to) != Some(&inode)
                {
                    self.names.remove(&from);
                    self.names.insert(to, inode);
                }
            }
            Operation::Link { from, to } => {
                let known = self.names.get(&from).copied();
                let outcome = std::fs::hard_link(path(from), path(to));
                let expected = known.is_some() && !self.names.contains_key(&to);
                same("link succeeds", outcome.is_ok(), expected)?;
                if let Some(inode) = known.filter(|_| expected) {
                    self.names.insert(to, inode);
                }
            }
            Operation::Unlink { name } => {
                let outcome = std::fs::remove_file(path(name));
                same("unlink succeeds", outcome.is_ok(), self.names.remove(&name).is_some())?;
            }
        }
        Ok(())
    }

    fn write(&mut self, slot: usize, offset: Option<u64>, bytes: u64, seed: u8) -> Result<(), String> {
        let Some(slot) = self.slots[slot].as_mut().filter(|slot| slot.how.writes()) else { return Ok(()) };
        let content = &mut self.inodes[slot.inode];
        let offset = offset.unwrap_or(slot.end);
        if offset + bytes > FILE_BYTES_MAX || matches!(slot.how, How::Direct) {
            return Ok(());
        }
        let at = if matches!(slot.how, How::Append) { content.len() as u64 } else { offset };
        if at + bytes > 2 * FILE_BYTES_MAX {
            return Ok(());
        }
        let data = pattern(bytes, seed);
        said("write", slot.file.write_all_at(&data, offset))?;
        overwrite(content, at, &data);
        slot.end = at + bytes;
        self.times.remove(&slot.inode);
        Ok(())
    }

    fn copy(&mut self, from: usize, to: usize, offset: u64, target: u64, bytes: u64) -> Result<(), String> {
        let (Some(source), Some(sink)) = (&self.slots[from], &self.slots[to]) else { return Ok(()) };
        let is_plain = |slot: &Slot| !matches!(slot.how, How::Append | How::Direct);
        if source.inode == sink.inode || !sink.how.writes() || !is_plain(sink) || !is_plain(source) {
            return Ok(());
        }
        let (mut at, mut into) = (offset, target);
        let outcome = rustix::fs::copy_file_range(
            &source.file,
            Some(&mut at),
            &sink.file,
            Some(&mut into),
            bytes as usize,
        );
        let copied = said("copy", outcome.map_err(Into::into))?;
        let content = &self.inodes[source.inode];
        let expected = content.len().saturating_sub(offset as usize).min(bytes as usize);
        if copied > expected || (copied == 0 && expected > 0) {
            return Err(format!("copy_file_range copied {copied} bytes, expected {expected}"));
        }
        if copied > 0 {
            let data = content[offset as usize..offset as usize + copied].to_vec();
            let inode = sink.inode;
            overwrite(&mut self.inodes[inode], target, &data);
            self.times.remove(&inode);
        }
        Ok(())
    }

    fn map_write(&mut self, slot: usize, offset: u64, bytes: u64, seed: u8) -> Result<(), String> {
        let Some(slot) = writable(&self.slots[slot]) else { return Ok(()) };
        let content = &mut self.inodes[slot.inode];
        if content.is_empty() || matches!(slot.how, How::Append | How::Direct) {
            return Ok(());
        }
        let from = content.len().min(offset as usize);
        let to = content.len().min((offset + bytes) as usize);
        let data = pattern((to - from) as u64, seed);
        with_map(&slot.file, content.len(), true, |map| {
            map[from..to].copy_from_slice(&data);
            Ok(())
        })?;
        content[from..to].copy_from_slice(&data);
        self.times.remove(&slot.inode);
        Ok(())
    }
}

/// Reads the ranges that `SEEK_DATA` and `SEEK_HOLE` report as data, as a copy that keeps holes does. Bytes
/// outside these ranges must be zero.
fn without_holes(file: &File, content: &[u8]) -> Result<(), String> {
    use rustix::fs::{SeekFrom, seek};
    let mut copy = vec![0; content.len()];
    let mut at = 0;
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(format!("seeking data from {at} failed: {error}")),
        };
        let hole = said("seek hole", seek(file, SeekFrom::Hole(data)).map_err(Into::into))?;
        if data < at || hole <= data || hole > content.len() as u64 {
            return Err(format!("from {at}, data at {data}, a hole at {hole}, of {} bytes", content.len()));
        }
        let (from, to) = (data as usize, hole as usize);
        copy[from..to].copy_from_slice(&content[from..to]);
        at = hole;
    }
    same_bytes("data outside holes", &copy, content)
}

/// Maps the first `bytes` bytes of a file and runs `work` on a copy of them. If the mapping is writable,
/// writes the copy back and syncs the mapping.
fn with_map(
    file: &File,
    bytes: usize,
    writes: bool,
    work: impl FnOnce(&mut [u8]) -> Result<(), String>,
) -> Result<(), String> {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    // Bytes after the end of a mapped file cannot be accessed.
    same("size before mapping", said("size", file.metadata())?.len(), bytes as u64)?;
    let protection = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    // SAFETY: a new mapping with the file's length in the model; no other process truncates the file.
    let map = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) };
    let map = said("map", map.map_err(Into::into))?;
    let mut copy = vec![0; bytes];
    // SAFETY: the mapping is `bytes` long and has no other references.
    unsafe { std::ptr::copy_nonoverlapping(map.cast::<u8>(), copy.as_mut_ptr(), bytes) };
    let outcome = work(&mut copy);
    if writes {
        // SAFETY: the mapping is `bytes` long, has no other references, and is writable.
        unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), map.cast::<u8>(), bytes) };
        // SAFETY: the range is the mapping.
        let synced = unsafe { msync(map, bytes, MsyncFlags::SYNC) };
        said("msync", synced.map_err(Into::into))?;
    }
    // SAFETY: the range is the mapping, without any remaining references.
    let unmapped = unsafe { munmap(map, bytes) };
    said("unmap", unmapped.map_err(Into::into))?;
    outcome
}

/// Runs a sequence of operations in an empty directory. At the end, compares all files, through the mount and
/// in the source.
fn run(operations: &[Operation], dir: &Path, below: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(dir);
    said("create the folder", std::fs::create_dir(dir))?;
    let mut model = Model::default();
    for (at, operation) in operations.iter().enumerate() {
        model.step(dir, *operation).map_err(|why| format!("operation {at}: {why}"))?;
    }
    model.slots = Default::default();
    for place in [dir, below] {
        let found = said("list", std::fs::read_dir(place))?.count();
        same("names", found, model.names.len())?;
        for (name, inode) in &model.names {
            let found = said("read at the end", std::fs::read(place.join(name.to_string())))?;
            same_bytes(&format!("`{name}` in {}", place.display()), &found, &model.inodes[*inode])?;
        }
    }
    Ok(())
}

/// Removes operations that are not needed to reproduce the failure.
fn shorten(mut operations: Vec<Operation>, fails: impl Fn(&[Operation]) -> bool) -> Vec<Operation> {
    let mut piece = operations.len() / 2;
    let mut attempts = 0;
    while piece > 0 && attempts < ATTEMPTS_MAX {
        let mut at = 0;
        while at < operations.len() && attempts < ATTEMPTS_MAX {
            attempts += 1;
            let mut fewer = operations.clone();
            fewer.drain(at..(at + piece).min(fewer.len()));
            if fails(&fewer) {
                operations = fewer;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    operations
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[track_caller]
fn check(options: &str) {
    let Some(mounted) = support::mount(options) else { return };
    if options.contains(FEW) && !mounted.use_up_descriptors() {
        return fonio_testing::skip(
            fonio_testing::Need::FileHandles,
            format!("{} has none", mounted.source.display()),
        );
    }
    let seed = setting("FONIO_BFUSE_SEED", 1);
    let total = setting("FONIO_BFUSE_OPERATIONS", 6000);
    // Three sequences run at the same time, each in its own directory. The sequences share the daemon's
    // threads and its buffer.
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let mounted = &mounted;
            scope.spawn(move || {
                let folder = worker.to_string();
                let (dir, below) = (mounted.path(&folder), mounted.below(&folder));
                for sequence in 0..total.div_ceil(3 * SEQUENCE) {
                    let mut numbers = Numbers::new(seed ^ (worker << 56) ^ (sequence << 24));
                    let operations: Vec<_> = (0..SEQUENCE).map(|_| generate(&mut numbers)).collect();
                    if let Err(why) = run(&operations, &dir, &below) {
                        let short = shorten(operations, |fewer| run(fewer, &dir, &below).is_err());
                        let still = run(&short, &dir, &below);
                        panic!(
                            "{options}, seed {seed}, worker {worker}, sequence {sequence}: {why}\n\
                             shortened ({still:?}): {short:#?}"
                        );
                    }
                }
            });
        }
    });
}

macro_rules! tests {
    ($($name:ident $options:literal)*) => {$(
        #[test]
        fn $name() {
            check($options);
        }
    )*};
}

tests! {
    stock "mode=stock"
    extended "mode=extended"
    buffered "mode=buffered"
    buffered_in_little_memory "mode=buffered,buffer=48K,entry=16K,flush=1ms"
    buffered_without_the_thread "mode=buffered,thread=no,buffer=128K,entry=64K"
    writeback "mode=writeback"
    auto "mode=auto"
    auto_without_io_uring "mode=auto,io_uring=no"
    buffered_for_one_user "mode=buffered,noallow_other"
    buffered_by_handle "mode=buffered,files=256"
    writeback_by_handle "mode=writeback,files=256"
    auto_by_handle "mode=auto,files=256"
}
