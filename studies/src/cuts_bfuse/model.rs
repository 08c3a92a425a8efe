//! Random operations on a small tree of files, and the states of the tree that a power cut may leave.
//!
//! Everything follows from a seed. Operation *n* is complete before operation *n + 1* starts, so a power cut
//! leaves a state between two points of the sequence. These are the rules:
//!
//! 1. **Names.** The names on the device are those after some operation *t*. The file system below has one
//!    journal, so all names come from the same *t*. A sync of a directory moves *t* behind the last change of
//!    the directory's names; `fsync` of a file moves *t* behind the last change of the file's names.
//! 2. **Data.** Each sector of a file has its content at the file's last sync, or a content that was written
//!    since then. Other bytes never appear, for example those of another file.
//! 3. **Size.** The size is between the smallest and the largest size since the file's last sync.
//!
//! Each written sector contains a stamp with the file, the sector and the number of the operation. Two
//! versions of a sector therefore never have equal contents.

use std::collections::{BTreeMap, BTreeSet};

use fonio_core::random::Random;

pub const SECTOR_BYTES: usize = 512;
const MAGIC: u32 = 0x666f_6e69;
/// Maximum number of sectors in all files together, so that the tree fits on the device.
const SECTORS_MAX: u64 = 40 << 10;
/// Maximum size of ordinary files, in sectors.
const FILE_SECTORS_MAX: u64 = 256;
/// Number of names in each directory. Few names make replacements by renames likely.
const NAMES: u64 = 5;
const DIRECTORIES_MAX: usize = 6;

/// An operation on the tree. Paths are relative to its root, with `/` between names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create {
        file: u32,
        path: String,
    },
    /// Writes stamped sectors through the handle of the file.
    Write {
        file: u32,
        from: u64,
        to: u64,
    },
    Truncate {
        file: u32,
        sectors: u64,
    },
    Sync {
        file: u32,
        data_only: bool,
    },
    Link {
        from: String,
        to: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    MakeDir {
        path: String,
    },
    RemoveDir {
        path: String,
    },
    SyncDir {
        path: String,
    },
    /// Closes the handle of the file. The next operation on the file opens it again.
    Close {
        file: u32,
    },
    /// Asks the kernel to write the data of the file back, without a flush of the device.
    WriteBack {
        file: u32,
    },
}

#[derive(Clone, Debug, Default)]
struct File {
    /// For each change of the content: the operation, the range of sectors, and whether the operation wrote
    /// stamps (otherwise it removed the sectors).
    changes: Vec<(u32, u64, u64, bool)>,
    /// The size after each operation that changed it.
    sizes: Vec<(u32, u64)>,
    /// The operations that synced the data.
    syncs: Vec<u32>,
    /// Operation of the last change of the file's names.
    renamed: u32,
}

impl File {
    fn size(&self) -> u64 {
        self.sizes.last().map_or(0, |(_, size)| *size)
    }
}

/// A name in the tree: a directory, or a file with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Directory,
    File(u32),
}

type Names = BTreeMap<String, Entry>;

/// The sequence of operations of a seed, with all states of the tree. Operations have the numbers 1, 2, …
pub struct History {
    pub ops: Vec<Op>,
    /// The names after each operation; before the first operation, the tree is empty.
    names: Vec<Names>,
    /// For each operation: the earliest operation whose names must have survived once this operation is
    /// acknowledged, so that later values include earlier ones.
    names_since: Vec<u32>,
    files: Vec<File>,
}

/// The tree on a device after a power cut.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// For each path: `None` for a directory, otherwise the inode number of the file.
    pub names: BTreeMap<String, Option<u64>>,
    /// The content of each file, by inode number.
    pub contents: BTreeMap<u64, Vec<u8>>,
}

impl History {
    /// Generates `count` operations.
    pub fn new(seed: u64, count: usize) -> History {
        let mut random = Random::labelled(seed, "operations");
        let mut history =
            History { ops: Vec::new(), names: vec![Names::new()], names_since: vec![0], files: Vec::new() };
        // The last change of the names in each directory.
        let mut changed: BTreeMap<String, u32> = BTreeMap::new();
        while history.ops.len() < count {
            if let Some(op) = history.choose(&mut random) {
                history.apply(op, &mut changed);
            }
        }
        history
    }

    fn choose(&self, random: &mut Random) -> Option<Op> {
        let now = self.names.last().expect("the first state exists");
        let directories: Vec<&str> = [""]
            .into_iter()
            .chain(now.iter().filter(|(_, entry)| **entry == Entry::Directory).map(|(path, _)| path.as_str()))
            .collect();
        let named: Vec<(&String, u32)> = now
            .iter()
            .filter_map(|(path, entry)| match entry {
                Entry::File(file) => Some((path, *file)),
                Entry::Directory => None,
            })
            .collect();
        let directory = directories[random.below(directories.len() as u64) as usize];
        let fresh = join(directory, &format!("f{}", random.below(NAMES)));
        let is_free = !now.contains_key(&fresh);
        let any = (!named.is_empty()).then(|| named[random.below(named.len().max(1) as u64) as usize]);
        let live: BTreeSet<u32> = named.iter().map(|(_, file)| *file).collect();
        let used: u64 = live.iter().map(|file| self.files[*file as usize].size()).sum();
        let size = any.map_or(0, |(_, file)| self.files[file as usize].size());
        Some(match random.below(100) {
            0..12 if is_free => Op::Create { file: self.files.len() as u32, path: fresh },
            12..40 => {
                let (_, file) = any?;
                // One of 40 writes is a stream, which the mode `buffered` handles in another way.
                let (from, length) = if random.below(40) == 0 {
                    (size, random.between(4 << 10, 10 << 10))
                } else {
                    (random.below(size.min(FILE_SECTORS_MAX) + 9), random.between(1, 64))
                };
                if used + length + from.saturating_sub(size) > SECTORS_MAX {
                    return None;
                }
                Op::Write { file, from, to: from + length }
            }
            40..44 => Op::Truncate { file: any?.1, sectors: random.below(size + 4) },
            44..58 => Op::Sync { file: any?.1, data_only: random.below(2) == 0 },
            58..61 if is_free => Op::Link { from: any?.0.clone(), to: fresh },
            // A rename to a name of the same file would do nothing.
            61..71 if now.get(&fresh) != Some(&Entry::File(any?.1)) => {
                Op::Rename { from: any?.0.clone(), to: fresh }
            }
            71..75 => Op::Unlink { path: any?.0.clone() },
            75..78 if directories.len() < DIRECTORIES_MAX && directory.matches('/').count() < 2 => {
                let path = join(directory, &format!("d{}", random.below(3)));
                if now.contains_key(&path) {
                    return None;
                }
                Op::MakeDir { path }
            }
            78..79 if !directory.is_empty() && children(now, directory).next().is_none() => {
                Op::RemoveDir { path: directory.to_owned() }
            }
            79..89 => Op::SyncDir { path: directory.to_owned() },
            89..93 => Op::Close { file: any?.1 },
            93.. => Op::WriteBack { file: any?.1 },
            _ => return None,
        })
    }

    fn apply(&mut self, op: Op, changed: &mut BTreeMap<String, u32>) {
        let number = self.ops.len() as u32 + 1;
        let mut names = self.names.last().expect("the first state exists").clone();
        let mut since = *self.names_since.last().expect("the first state exists");
        let mut touch = |path: &str| {
            changed.insert(parent(path).to_owned(), number);
        };
        match &op {
            Op::Create { file, path } => {
                touch(path);
                names.insert(path.clone(), Entry::File(*file));
                self.files.push(File { renamed: number, sizes: vec![(number, 0)], ..File::default() });
            }
            Op::Write { file, from, to } => {
                let file = &mut self.files[*file as usize];
                let size = file.size().max(*to);
                file.changes.push((number, *from, *to, true));
                file.sizes.push((number, size));
            }
            Op::Truncate { file, sectors } => {
                let file = &mut self.files[*file as usize];
                file.changes.push((number, *sectors, u64::MAX, false));
                file.sizes.push((number, *sectors));
            }
            Op::Sync { file, data_only } => {
                let file = &mut self.files[*file as usize];
                file.syncs.push(number);
                if !data_only {
                    since = since.max(file.renamed);
                }
            }
            Op::Link { from, to } => {
                touch(to);
                let entry = names[from];
                names.insert(to.clone(), entry);
                self.rename(entry, number);
            }
            Op::Rename { from, to } => {
                touch(from);
                touch(to);
                let entry = names.remove(from).expect("the renamed file exists");
                names.insert(to.clone(), entry);
                self.rename(entry, number);
            }
            Op::Unlink { path } => {
                touch(path);
                names.remove(path);
            }
            Op::MakeDir { path } => {
                touch(path);
                names.insert(path.clone(), Entry::Directory);
                // The number of an earlier directory of this name does not count.
                changed.insert(path.clone(), 0);
            }
            Op::RemoveDir { path } => {
                touch(path);
                names.remove(path);
            }
            Op::SyncDir { path } => since = since.max(changed.get(path).copied().unwrap_or(0)),
            Op::Close { .. } | Op::WriteBack { .. } => {}
        }
        self.ops.push(op);
        self.names.push(names);
        self.names_since.push(since);
    }

    fn rename(&mut self, entry: Entry, number: u32) {
        if let Entry::File(file) = entry {
            self.files[file as usize].renamed = number;
        }
    }

    /// Returns a path of the file after operation `op`. Panics if the file has no name then.
    pub fn path_of(&self, file: u32, op: usize) -> &str {
        let found = self.names[op].iter().find(|(_, entry)| **entry == Entry::File(file));
        found.expect("operations use only files with a name").0
    }

    /// Compares the tree after a power cut with the rules. `acknowledged` is the number of the last operation
    /// that was complete before the cut, and `inodes` has the inode number of each file. Returns the first
    /// broken rule.
    pub fn check(&self, found: &Found, acknowledged: u32, inodes: &[u64]) -> Result<(), String> {
        // The next operation may have started.
        let last = (acknowledged as usize + 1).min(self.ops.len());
        let since = self.names_since[acknowledged as usize] as usize;
        let is_equal = |names: &Names| {
            names.len() == found.names.len()
                && names.iter().zip(&found.names).all(|((path, entry), (found_path, found))| {
                    path == found_path
                        && match entry {
                            Entry::Directory => found.is_none(),
                            Entry::File(file) => {
                                found.is_some() && inodes.get(*file as usize).copied() == *found
                            }
                        }
                })
        };
        // Between equal states, the latest one counts.
        let Some(at) = (since..=last).rev().find(|at| is_equal(&self.names[*at])) else {
            return Err(format!(
                "the names are not those after any of the operations {since} to {last}: {:?}, expected at \
                 least {:?}",
                found.names, self.names[since]
            ));
        };
        for (path, entry) in &self.names[at] {
            let Entry::File(number) = entry else { continue };
            let inode = inodes[*number as usize];
            let content = found.contents.get(&inode).ok_or_else(|| format!("{path} cannot be read"))?;
            self.check_file(*number, content, acknowledged, last as u32)
                .map_err(|why| format!("{path} (file {number}): {why}"))?;
        }
        Ok(())
    }

    fn check_file(&self, number: u32, content: &[u8], acknowledged: u32, last: u32) -> Result<(), String> {
        let file = &self.files[number as usize];
        let synced = file.syncs.iter().rev().find(|sync| **sync <= acknowledged).copied().unwrap_or(0);
        let before = file.sizes.iter().rev().find(|(op, _)| *op <= synced).map_or(0, |(_, size)| *size);
        let after = file.sizes.iter().filter(|(op, _)| (synced + 1..=last).contains(op));
        let (least, most) =
            after.fold((before, before), |(least, most), (_, size)| (least.min(*size), most.max(*size)));
        let bytes = content.len() as u64;
        let unit = SECTOR_BYTES as u64;
        if !(least * unit..=most * unit).contains(&bytes) {
            return Err(format!(
                "{bytes} bytes; operation {synced} synced {before} sectors, then {least} to {most}"
            ));
        }
        let mut versions = vec![0_u32; most as usize];
        for (op, from, to, is_written) in file.changes.iter().filter(|(op, ..)| *op <= synced) {
            let range = (*from).min(most) as usize..(*to).min(most) as usize;
            versions[range].fill(if *is_written { *op } else { 0 });
        }
        let later: Vec<_> = file.changes.iter().filter(|(op, ..)| (synced + 1..=last).contains(op)).collect();
        for (at, sector) in content.chunks(SECTOR_BYTES).enumerate() {
            let Some(version) = version(sector, number, at as u64) else {
                return Err(format!("sector {at} has foreign bytes: {:?}", &sector[..sector.len().min(16)]));
            };
            let is_later = later.iter().any(|(op, from, to, is_written)| {
                (*from..*to).contains(&(at as u64)) && version == if *is_written { *op } else { 0 }
            });
            if version != versions[at] && !is_later {
                return Err(format!(
                    "sector {at} has the content of operation {version}; operation {synced} synced that of \
                     operation {}",
                    versions[at]
                ));
            }
        }
        Ok(())
    }
}

/// Returns the bytes of the sectors `from` to `to` as operation `op` writes them.
pub fn stamped(file: u32, op: u32, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((to - from) as usize * SECTOR_BYTES);
    for sector in from..to {
        bytes.extend(stamp(file, sector as u32, op).repeat(SECTOR_BYTES / 16));
    }
    bytes
}

fn stamp(file: u32, sector: u32, op: u32) -> [u8; 16] {
    let mut stamp = [0; 16];
    for (word, value) in stamp.chunks_exact_mut(4).zip([MAGIC, file, sector, op]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    stamp
}

/// Returns the operation that wrote the sector, or 0 for zeros. Returns `None` if the bytes have another
/// origin. The last sector of a file can be incomplete.
fn version(bytes: &[u8], file: u32, sector: u64) -> Option<u32> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let op = u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?);
    let stamp = stamp(file, sector as u32, op);
    let is_equal = bytes.chunks(stamp.len()).all(|chunk| *chunk == stamp[..chunk.len()]);
    (is_equal && op > 0).then_some(op)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn children<'a>(names: &'a Names, directory: &'a str) -> impl Iterator<Item = &'a String> {
    names.keys().filter(move |path| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree after `count` operations, if every operation is durable at once. Inode numbers are file
    /// numbers plus 100.
    fn perfect(history: &History, count: usize) -> Found {
        let mut contents: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (at, op) in history.ops[..count].iter().enumerate() {
            match op {
                Op::Create { file, .. } => drop(contents.insert(*file, Vec::new())),
                Op::Write { file, from, to } => {
                    let content = contents.get_mut(file).expect("file");
                    let (from_byte, to_byte) = (*from as usize * SECTOR_BYTES, *to as usize * SECTOR_BYTES);
                    content.resize(content.len().max(to_byte), 0);
                    content[from_byte..to_byte].copy_from_slice(&stamped(*file, at as u32 + 1, *from, *to));
                }
                Op::Truncate { file, sectors } => {
                    contents.get_mut(file).expect("file").resize(*sectors as usize * SECTOR_BYTES, 0);
                }
                _ => {}
            }
        }
        let contents = contents.into_iter().map(|(file, bytes)| (u64::from(file) + 100, bytes));
        Found { names: names_after(history, count), contents: contents.collect() }
    }

    fn names_after(history: &History, count: usize) -> BTreeMap<String, Option<u64>> {
        let inode = |entry: &Entry| match entry {
            Entry::Directory => None,
            Entry::File(file) => Some(u64::from(*file) + 100),
        };
        history.names[count].iter().map(|(path, entry)| (path.clone(), inode(entry))).collect()
    }

    fn inodes(history: &History) -> Vec<u64> {
        (0..history.files.len() as u64).map(|file| file + 100).collect()
    }

    #[test]
    fn a_device_without_losses_keeps_all_rules() {
        for seed in 0..3 {
            let history = History::new(seed, 150);
            for acknowledged in (0..150).step_by(7) {
                // The next operation has started, and may be on the device or not.
                for count in [acknowledged, acknowledged + 1] {
                    let found = perfect(&history, count);
                    history.check(&found, acknowledged as u32, &inodes(&history)).expect("nothing is lost");
                }
            }
        }
    }

    #[test]
    fn a_device_of_the_last_sync_keeps_the_rules_and_an_older_one_breaks_them() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..6 {
            let history = History::new(seed, 150);
            let contents = perfect(&history, 150).contents;
            for acknowledged in 20..149 {
                let Op::SyncDir { path } = &history.ops[acknowledged - 1] else { continue };
                let since = history.names_since[acknowledged] as usize;
                let names = |count| Found { contents: contents.clone(), names: names_after(&history, count) };
                let says = |count| history.check(&names(count), acknowledged as u32, &inodes(&history));
                // Contents are from the future here, so only errors about names count.
                let is_lost = |count| says(count).is_err_and(|why| why.starts_with("the names"));
                assert!(!is_lost(since), "{path}: {:?}", says(since));
                kept += 1;
                if since > 0 && history.names[since - 1] != history.names[since] {
                    let is_back = history.names[since..=acknowledged + 1].contains(&history.names[since - 1]);
                    assert!(is_back || is_lost(since - 1), "seed {seed}, operation {acknowledged}");
                    lost += u32::from(!is_back);
                }
            }
        }
        assert!(kept > 20 && lost > 10, "{kept} {lost}");
    }

    #[test]
    fn lost_torn_and_foreign_data_are_found() {
        let mut tried = 0;
        for seed in 0..3 {
            let history = History::new(seed, 150);
            for acknowledged in 20..149 {
                let Op::Sync { file, .. } = &history.ops[acknowledged - 1] else { continue };
                let found = perfect(&history, acknowledged);
                let inode = u64::from(*file) + 100;
                let content = found.contents[&inode].clone();
                let written =
                    (content.chunks(SECTOR_BYTES)).position(|sector| sector.iter().any(|byte| *byte != 0));
                let Some(at) = written else { continue };
                let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
                    let mut found = found.clone();
                    change(found.contents.get_mut(&inode).expect("content"));
                    history.check(&found, acknowledged as u32, &inodes(&history))
                };
                let place = at * SECTOR_BYTES;
                // The next operation may change the sector, so zeros are not an error then.
                let next = &history.ops[acknowledged];
                if !matches!(next, Op::Truncate { file: other, .. } if other == file) {
                    damaged(&|content| content[place..place + SECTOR_BYTES].fill(0)).expect_err("lost");
                    damaged(&|content| content.truncate(place)).expect_err("too short");
                }
                damaged(&|content| content[place + 100] ^= 1).expect_err("torn");
                damaged(&|content| {
                    content[place..place + SECTOR_BYTES].copy_from_slice(&stamped(9999, 1, 0, 1))
                })
                .expect_err("foreign");
                damaged(&|content| content.resize(content.len() + (8 << 20), 0)).expect_err("too long");
                tried += 1;
            }
        }
        assert!(tried > 20, "{tried}");
    }
}
