//! Replays the reads, writes and flushes of a device.

mod play;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fonio_bench::aligned::Buffer;
use fonio_sim::recorded::CHUNK;
pub(super) use fonio_sim::recorded::Collected;

pub use fonio_sim::recorded::{Access, Kind, NO_FLUSHES, Sequence};
pub(super) use play::play;

pub(super) fn prepare(sequence: &Sequence, file: &Path) -> io::Result<()> {
    let mut out = File::create(file)?;
    let mut buffer = Buffer::default();
    let chunk = buffer.of(CHUNK);
    for _ in 0..sequence.file_bytes.0 / CHUNK {
        out.write_all(chunk)?;
    }
    out.sync_all()
}
