//! Replays the reads, writes and flushes of a device.

mod play;
mod sequence;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fonio_bench::aligned::Buffer;

pub(super) use play::play;
pub(super) use sequence::Collected;
pub use sequence::{Access, Kind, NO_FLUSHES, Sequence};

use super::CHUNK;

pub(super) fn prepare(sequence: &Sequence, file: &Path) -> io::Result<()> {
    let mut out = File::create(file)?;
    let mut buffer = Buffer::default();
    let chunk = buffer.of(CHUNK);
    for _ in 0..sequence.file_bytes.0 / CHUNK {
        out.write_all(chunk)?;
    }
    out.sync_all()
}
