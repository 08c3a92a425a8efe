//! Measures sequential throughput in records of 512 KiB, of a file or of a raw device (Jeong and Won 2014,
//! section 2.3).
//!
//! All rates are in 10^6 bytes per second.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, OFlags, fadvise};

/// Size of a record, as in the study.
pub const RECORD_BYTES: usize = 512 << 10;
/// The strictest alignment of memory and offsets for direct I/O.
const ALIGNMENT: usize = 4096;

/// Writes `bytes` to a new file, syncs it, and returns the throughput.
pub fn write_file(path: &Path, bytes: u64) -> io::Result<f64> {
    let data = vec![0x5a; RECORD_BYTES];
    let started = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..bytes / RECORD_BYTES as u64 {
        file.write_all(&data)?;
    }
    file.sync_all()?;
    Ok(rate(bytes, started))
}

/// Drops a file's pages from the page cache, then reads the file. If the file is on FUSE, the pages of the
/// file `below` are dropped too.
pub fn read_file(path: &Path, below: &Path) -> io::Result<f64> {
    fadvise(File::open(below)?, 0, None, Advice::DontNeed)?;
    let mut data = vec![0; RECORD_BYTES];
    let mut file = File::open(path)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let started = Instant::now();
    let mut bytes = 0;
    loop {
        match file.read(&mut data)? {
            0 => return Ok(rate(bytes, started)),
            read => bytes += read as u64,
        }
    }
}

/// Reads the first `bytes` of a device with direct I/O, and returns the throughput.
pub fn read_device(path: &Path, bytes: u64) -> io::Result<f64> {
    let device = open_direct(path, false)?;
    let started = Instant::now();
    let read = each_record(bytes, |data, at| Ok(device.read_at(data, at)? > 0))?;
    Ok(rate(read, started))
}

/// Overwrites the first `bytes` of a device with direct I/O, and syncs the device.
pub fn write_device(path: &Path, bytes: u64) -> io::Result<f64> {
    let device = open_direct(path, true)?;
    let started = Instant::now();
    let written = each_record(bytes, |data, at| device.write_all_at(data, at).map(|()| true))?;
    device.sync_all()?;
    Ok(rate(written, started))
}

fn open_direct(path: &Path, writes: bool) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
}

/// Calls `record` with an aligned buffer at the offset of each record, until `bytes` are done or `record`
/// returns false. Returns the number of bytes for which `record` returned true.
fn each_record(bytes: u64, mut record: impl FnMut(&mut [u8], u64) -> io::Result<bool>) -> io::Result<u64> {
    let mut memory = vec![0x5a; RECORD_BYTES + ALIGNMENT];
    let from = memory.as_ptr().align_offset(ALIGNMENT);
    let data = &mut memory[from..from + RECORD_BYTES];
    let mut at = 0;
    while at + RECORD_BYTES as u64 <= bytes && record(data, at)? {
        at += RECORD_BYTES as u64;
    }
    Ok(at)
}

fn rate(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / started.elapsed().as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_and_read_in_full() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let path = dir.path().join("file");
        let bytes = 3 * RECORD_BYTES as u64;
        assert!(write_file(&path, bytes).expect("it is writable") > 0.0);
        assert_eq!(path.metadata().expect("it was written").len(), bytes);
        assert!(read_file(&path, &path).expect("it is readable") > 0.0);
    }

    #[test]
    fn records_are_aligned_and_end_with_the_bytes_or_the_device() {
        let run = |bytes: u64, device: u64| {
            each_record(bytes, |data, at| {
                assert!(data.len() == RECORD_BYTES && data.as_ptr().align_offset(ALIGNMENT) == 0);
                Ok(at < device)
            })
            .expect("no record fails")
        };
        let record = RECORD_BYTES as u64;
        assert_eq!(run(4 * record, u64::MAX), 4 * record);
        assert_eq!(run(4 * record + 1, u64::MAX), 4 * record);
        assert_eq!(run(4 * record, 2 * record), 2 * record);
    }
}
