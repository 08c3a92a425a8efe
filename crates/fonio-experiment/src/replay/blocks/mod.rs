//! Replays the reads, writes and flushes of a device.

mod plan;
mod play;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) use plan::Collected;
pub use plan::{Access, Kind, Plan};
pub(super) use play::play;

use super::CHUNK;
use super::memory::Buffer;

/// Writes the file on which a replay works.
pub(super) fn prepare(plan: &Plan, file: &Path) -> io::Result<()> {
    let mut out = File::create(file)?;
    let mut buffer = Buffer::default();
    let chunk = buffer.of(CHUNK);
    for _ in 0..plan.file_bytes.0 / CHUNK {
        out.write_all(chunk)?;
    }
    out.sync_all()
}
