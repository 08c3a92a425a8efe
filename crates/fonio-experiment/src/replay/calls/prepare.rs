//! Creates the files that existed before the first recorded call.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_bench::aligned::Buffer;
use rustix::fs::{Advice, fadvise, syncfs};

use super::{Act, Call, Sequence, file_name};
use fonio_sim::recorded::CHUNK;

/// Creates the files of a replay in a new folder. The files' data are durable and not in the page cache.
pub(in crate::replay) fn prepare(sequence: &Sequence, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    renew(sequence, folder)
}

/// Restores the files of a replay in a folder, after a replay or for the first time. Files that the calls only read
/// are kept. The files' data are durable and not in the page cache.
pub(crate) fn renew(sequence: &Sequence, folder: &Path) -> io::Result<()> {
    let changed = changed(sequence);
    let is_kept = |file: usize| !changed.contains(&file) && sequence.files[file].is_there;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !(0..sequence.files.len()).any(|file| is_kept(file) && *entry.file_name() == *file_name(file)) {
            fs::remove_file(entry.path())?;
        }
    }
    let mut buffer = Buffer::default();
    let there = || sequence.files.iter().enumerate().filter(|(_, file)| file.is_there && !file.is_folder);
    for (at, before) in there() {
        let path = folder.join(file_name(at));
        if is_kept(at) && path.exists() {
            continue;
        }
        let file = File::create(path)?;
        file.set_len(before.bytes)?;
        for range in before.chunks.ranges() {
            let end = before.bytes.min(range.end.saturating_mul(CHUNK));
            let mut from = range.start * CHUNK;
            while from < end {
                let bytes = CHUNK.min(end - from);
                file.write_all_at(buffer.of(bytes), from)?;
                from += bytes;
            }
        }
    }
    syncfs(File::open(folder)?)?;
    for (at, _) in there() {
        fadvise(File::open(folder.join(file_name(at)))?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Returns the files that the calls of a sequence change.
fn changed(sequence: &Sequence) -> BTreeSet<usize> {
    let changes = |call: &&Call| match call.act {
        Act::Read { .. } | Act::Sync { .. } | Act::SyncFilesystem => false,
        Act::Open { made, length } => made || length == Some(0),
        _ => true,
    };
    sequence.threads.iter().flatten().filter(changes).map(|call| call.file).collect()
}
