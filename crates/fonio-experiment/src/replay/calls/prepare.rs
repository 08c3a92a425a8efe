//! Creates the files that existed before the first recorded call.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_bench::aligned::Buffer;
use rustix::fs::{Advice, fadvise, syncfs};

use super::super::CHUNK;
use super::{Sequence, file_name};

/// Creates the files of a replay in a new folder. The files' data are durable and not in the page cache.
pub(in crate::replay) fn prepare(sequence: &Sequence, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let mut buffer = Buffer::default();
    let there = || sequence.files.iter().enumerate().filter(|(_, file)| file.is_there && !file.is_folder);
    for (at, before) in there() {
        let file = File::create(folder.join(file_name(at)))?;
        file.set_len(before.bytes)?;
        for chunk in &before.chunks {
            let from = chunk * CHUNK;
            if from < before.bytes {
                file.write_all_at(buffer.of(CHUNK.min(before.bytes - from)), from)?;
            }
        }
    }
    syncfs(File::open(folder)?)?;
    for (at, _) in there() {
        fadvise(File::open(folder.join(file_name(at)))?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
