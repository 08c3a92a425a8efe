//! Runs the operations of a history through a mount of `fonio mount`, on an emulated card with a log.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::Advice;

use super::model::{Found, History, Op, SECTOR_BYTES, stamped};

/// The directories of a run.
pub struct Place<'a> {
    /// The directory in which the operations run.
    pub dir: &'a Path,
    /// The source of the mount. Equals `dir` if nothing is mounted.
    pub below: &'a Path,
    /// Whether calls that sync are left out, to show that the cuts can lose data.
    pub without_syncs: bool,
}

/// Runs all operations, and calls `done` after each one with its number, and with the inode number of a new
/// file.
pub fn run(
    history: &History,
    place: &Place<'_>,
    done: &mut dyn FnMut(usize, Option<u64>) -> Result<()>,
) -> Result<()> {
    let mut open: BTreeMap<u32, File> = BTreeMap::new();
    for (at, op) in history.ops.iter().enumerate() {
        let number = at + 1;
        let inode = one(history, place, &mut open, number, op)
            .with_context(|| format!("operation {number}, {op:?}"))?;
        done(number, inode)?;
    }
    Ok(())
}

fn one(
    history: &History,
    place: &Place<'_>,
    open: &mut BTreeMap<u32, File>,
    number: usize,
    op: &Op,
) -> Result<Option<u64>> {
    let full = |path: &str| place.dir.join(path);
    match op {
        Op::Create { file, path } => {
            let new = OpenOptions::new().read(true).write(true).create_new(true).open(full(path))?;
            open.insert(*file, new);
            return Ok(Some(fs::metadata(place.below.join(path))?.ino()));
        }
        Op::Write { file, from, to } => {
            let bytes = stamped(*file, number as u32, *from, *to);
            let handle = handle(history, place, open, *file, number)?;
            // A stream consists of several calls, as in applications.
            for (piece, bytes) in bytes.chunks(64 << 10).enumerate() {
                handle.write_all_at(bytes, from * SECTOR_BYTES as u64 + (piece as u64 * (64 << 10)))?;
            }
        }
        Op::Truncate { file, sectors } => {
            handle(history, place, open, *file, number)?.set_len(sectors * SECTOR_BYTES as u64)?;
        }
        Op::Sync { .. } | Op::SyncDir { .. } if place.without_syncs => {}
        Op::Sync { file, data_only: true } => handle(history, place, open, *file, number)?.sync_data()?,
        Op::Sync { file, data_only: false } => handle(history, place, open, *file, number)?.sync_all()?,
        Op::SyncDir { path } => File::open(full(path))?.sync_all()?,
        Op::Link { from, to } => fs::hard_link(full(from), full(to))?,
        Op::Rename { from, to } => fs::rename(full(from), full(to))?,
        Op::Unlink { path } => fs::remove_file(full(path))?,
        Op::MakeDir { path } => fs::create_dir(full(path))?,
        Op::RemoveDir { path } => fs::remove_dir(full(path))?,
        Op::Close { file } => drop(open.remove(file)),
        Op::WriteBack { file } => {
            let path = history.path_of(*file, number);
            for dir in [place.dir, place.below] {
                rustix::fs::fadvise(&File::open(dir.join(path))?, 0, None, Advice::DontNeed)?;
            }
        }
    }
    Ok(None)
}

fn handle<'a>(
    history: &History,
    place: &Place<'_>,
    open: &'a mut BTreeMap<u32, File>,
    file: u32,
    number: usize,
) -> Result<&'a File> {
    if let std::collections::btree_map::Entry::Vacant(free) = open.entry(file) {
        let path = place.dir.join(history.path_of(file, number));
        free.insert(OpenOptions::new().read(true).write(true).open(path)?);
    }
    Ok(&open[&file])
}

/// Reads the tree below `root`.
pub fn read(root: &Path) -> Result<Found> {
    let mut found = Found::default();
    let mut folders: Vec<(PathBuf, String)> = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let data = entry.metadata()?;
            if data.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
                found.names.insert(path, None);
            } else {
                found.names.insert(path, Some(data.ino()));
                let content = fs::read(entry.path())
                    .with_context(|| format!("cannot read {}", entry.path().display()))?;
                found.contents.insert(data.ino(), content);
            }
        }
    }
    Ok(found)
}
