//! Checks whether a device has its stated capacity: fake cards lose writes beyond their real size, or store
//! them over earlier writes.
//!
//! Test regions across the space are written, flushed from the device's cache, and read back with
//! direct I/O. The written content identifies its region. A device is reported as fake only if all of these
//! conditions are met:
//!
//! - in two reads, no page of a region is correct, and neither the bus nor the file system reported an error;
//! - at least two regions are wrong in this way, or one contains another region's content;
//! - the region is still wrong after another write and flush, or contains another region's content.
//!
//! If these conditions are not met, there is no verdict. An error means that the connection or the device
//! failed. A few damaged regions mean that the device loses data, as genuine devices do at the end of their
//! life.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use fonio_core::Random;
use fonio_storebench_document::document::CapacityCheck;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::schedule::PLACE_BYTES;
use crate::aligned::Buffer;
use crate::error::BenchError;

/// The strictest alignment of memory and offsets for direct I/O; also the unit of the content.
const PAGE: usize = 4096;

/// Magic number at the beginning of each page of a region.
const MAGIC: [u8; 8] = *b"fonioCap";

/// The test regions of a device, which can be written and read back.
pub(super) trait Places {
    fn count(&self) -> u64;
    /// Writes [`PLACE_BYTES`] bytes to a region.
    fn write(&mut self, place: u64, content: &[u8]) -> io::Result<()>;
    /// Flushes all earlier writes, including the device's write cache.
    fn flush(&mut self) -> io::Result<()>;
    fn read(&mut self, place: u64, content: &mut [u8]) -> io::Result<()>;
}

pub(super) struct Checked {
    pub verdict: CapacityCheck,
    pub written_bytes: u64,
}

/// Checks the test regions `places`. After the time `until`, no more regions are written, but the written
/// regions are still read back. `complete` says whether the regions are spread over the complete device.
/// Fails with [`BenchError::Interrupted`] if `stop` returns true during the check.
pub(super) fn check(
    places: &mut impl Places,
    seed: u64,
    complete: bool,
    until: Instant,
    stop: &dyn Fn() -> bool,
) -> Result<Checked, BenchError> {
    let mut buffer = Buffer::default();
    let mut written = 0;
    let not_checked = |reason: String, written: u64| {
        Ok(Checked { verdict: CapacityCheck::NotChecked { reason }, written_bytes: written * PLACE_BYTES })
    };
    let count = places.count();
    for place in 0..count {
        if stop() {
            return Err(BenchError::Interrupted);
        }
        if Instant::now() >= until && place > 0 {
            break;
        }
        fill(buffer.of(PLACE_BYTES), seed, place);
        if let Err(error) = places.write(place, buffer.of(PLACE_BYTES)) {
            return not_checked(failed("writing", place, count, &error), written);
        }
        written += 1;
    }
    if written < 2 {
        return not_checked("there was no time or no space to test more than one region".to_owned(), written);
    }
    if let Err(error) = places.flush() {
        return not_checked(failed("flushing", written - 1, count, &error), written);
    }
    let mut lost = Vec::new();
    for place in 0..written {
        if stop() {
            return Err(BenchError::Interrupted);
        }
        match look(places, &mut buffer, seed, place) {
            Ok(Found::Right) => {}
            Ok(found) => lost.push((place, found)),
            Err(error) => return not_checked(failed("reading", place, count, &error), written),
        }
    }
    let first_written = written;
    let mut proven = Vec::new();
    let mut others = 0;
    for (place, found) in &lost {
        if let Found::Other(_) = found {
            others += 1;
            proven.push(*place);
            continue;
        }
        fill(buffer.of(PLACE_BYTES), seed, *place);
        let again = places.write(*place, buffer.of(PLACE_BYTES)).and_then(|()| places.flush());
        if let Err(error) = again {
            return not_checked(failed("writing", *place, count, &error), written);
        }
        written += 1;
        match look(places, &mut buffer, seed, *place) {
            Ok(Found::Right | Found::Damaged) => {}
            Ok(Found::Lost | Found::Other(_)) => proven.push(*place),
            Err(error) => return not_checked(failed("reading", *place, count, &error), written),
        }
    }
    let verdict = if lost.is_empty() {
        CapacityCheck::Genuine {
            checked_bytes: first_written * PLACE_BYTES,
            complete: complete && first_written == count,
        }
    } else if proven.len() >= 2 || others > 0 {
        let what = if others > 0 {
            "contain data of other regions, so the device overwrites its own data"
        } else {
            "do not keep written data"
        };
        CapacityCheck::Fake {
            reason: format!(
                "{} of {first_written} regions {what}; all were read twice without an error",
                proven.len()
            ),
            checked_bytes: first_written * PLACE_BYTES,
            lost_bytes: proven.len() as u64 * PLACE_BYTES,
        }
    } else {
        CapacityCheck::NotChecked {
            reason: format!(
                "{} of {first_written} regions were damaged, which does not show whether the device is a fake or defective: copy your data \
                 elsewhere, and check the device with f3",
                lost.len()
            ),
        }
    };
    Ok(Checked { verdict, written_bytes: written * PLACE_BYTES })
}

fn failed(doing: &str, place: u64, count: u64, error: &io::Error) -> String {
    // `SystemError` would add the path; keep only the error text.
    let error = error.to_string();
    format!(
        "{doing} place {} of {count} failed ({error}): the device, its reader or its cable reports errors, which a fake does \
         not; `dmesg` says which",
        place + 1
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Right,
    Other(u64),
    /// No page of the region is correct.
    Lost,
    /// Some pages of the region are correct.
    Damaged,
}

/// Reads a region; reads it a second time if its content is not the written content.
fn look(places: &mut impl Places, buffer: &mut Buffer, seed: u64, place: u64) -> io::Result<Found> {
    let mut expected = vec![0; PLACE_BYTES as usize];
    fill(&mut expected, seed, place);
    let mut found = Found::Right;
    for _ in 0..2 {
        buffer.of(PLACE_BYTES).fill(0);
        places.read(place, buffer.of(PLACE_BYTES))?;
        if buffer.of(PLACE_BYTES) == expected {
            return Ok(Found::Right);
        }
        let some_right = buffer
            .of(PLACE_BYTES)
            .chunks(PAGE)
            .zip(expected.chunks(PAGE))
            .any(|(found, right)| found == right);
        found = match owner(buffer.of(PLACE_BYTES), seed) {
            Some(other) if other != place => Found::Other(other),
            _ if some_right => Found::Damaged,
            _ => Found::Lost,
        };
    }
    Ok(found)
}

/// Fills a region: each page begins with [`MAGIC`], the seed and the region's number, followed by random bytes,
/// which no device can compress.
fn fill(content: &mut [u8], seed: u64, place: u64) {
    for (at, page) in content.chunks_mut(PAGE).enumerate() {
        let mut random = Random::new(seed ^ (place << 16 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for word in page.chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        page[..8].copy_from_slice(&MAGIC);
        page[8..16].copy_from_slice(&seed.to_le_bytes());
        page[16..24].copy_from_slice(&place.to_le_bytes());
    }
}

/// Returns the region to which this content belongs, if all pages agree.
fn owner(content: &[u8], seed: u64) -> Option<u64> {
    let of_page = |page: &[u8]| {
        let is_ours = page.len() >= 24 && page[..8] == MAGIC && page[8..16] == seed.to_le_bytes();
        is_ours.then(|| page[16..24].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let mut pages = content.chunks(PAGE).map(of_page);
    let first = pages.next()??;
    pages.all(|place| place == Some(first)).then_some(first)
}

pub(super) struct FilePlaces {
    places: Vec<(File, u64)>,
    files: Vec<PathBuf>,
}

pub(super) fn open(path: &Path, is_new: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(is_new)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path)
}

/// Share of the free space that is left for other programs.
const FREE_SHARE: f64 = 0.1;
/// Minimum free space of the file system that is left for other programs.
const FREE_MIN_BYTES: u64 = 256 << 20;
/// Maximum size of a file of the check; files on FAT must be smaller than 4 GiB.
const FILE_MAX_BYTES: u64 = 3 << 30;
/// Maximum number of files, which keeps the process below its limit of open files.
const FILES_MAX: u64 = 512;

impl FilePlaces {
    /// Reserves files that fill most of the free space of a file system, so that the beginnings of the files
    /// are spread across this space. The names of the files consist of `prefix`, a number and `.data`.
    /// Returns `None` if the file system cannot reserve space.
    pub fn reserve(prefix: &Path, free_bytes: u64, count: u64) -> io::Result<Option<FilePlaces>> {
        let kept = ((free_bytes as f64 * FREE_SHARE) as u64).max(FREE_MIN_BYTES);
        let space = free_bytes.saturating_sub(kept);
        let count = count.max(space / FILE_MAX_BYTES).min(FILES_MAX);
        let each = (space / count / PLACE_BYTES * PLACE_BYTES).min(FILE_MAX_BYTES);
        let mut reserved = FilePlaces { places: Vec::new(), files: Vec::new() };
        if each < PLACE_BYTES {
            return Ok(Some(reserved));
        }
        for number in 0..count {
            let mut path = prefix.as_os_str().to_owned();
            path.push(format!("-{number}.data"));
            let path = PathBuf::from(path);
            let file = open(&path, true)?;
            // Lock the file, because the next benchmark removes unlocked files.
            file.try_lock().map_err(io::Error::from)?;
            reserved.files.push(path);
            match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, each) {
                Ok(()) => {}
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => return Ok(None),
                // The file system has less free space than it reported, for example because blocks are
                // reserved for root.
                Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => break,
                Err(error) => return Err(error.into()),
            }
            reserved.places.push((file, 0));
        }
        Ok(Some(reserved))
    }

    /// Creates regions at equal distances across a device.
    pub fn across(device: &Path, size_bytes: u64, count: u64) -> io::Result<FilePlaces> {
        let last = size_bytes.saturating_sub(PLACE_BYTES);
        let file = open(device, false)?;
        let at = |number: u64| {
            let offset = (u128::from(last) * u128::from(number) / u128::from((count - 1).max(1))) as u64;
            offset / PLACE_BYTES * PLACE_BYTES
        };
        let places =
            (0..count).map(|number| Ok((file.try_clone()?, at(number)))).collect::<io::Result<_>>()?;
        Ok(FilePlaces { places, files: Vec::new() })
    }
}

impl Drop for FilePlaces {
    fn drop(&mut self) {
        for file in &self.files {
            // If the removal fails, the next benchmark in this folder removes the file.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Places for FilePlaces {
    fn count(&self) -> u64 {
        self.places.len() as u64
    }

    fn write(&mut self, place: u64, content: &[u8]) -> io::Result<()> {
        let (file, offset) = &self.places[place as usize];
        file.write_all_at(content, *offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.places.iter().try_for_each(|(file, _)| file.sync_all())
    }

    fn read(&mut self, place: u64, content: &mut [u8]) -> io::Result<()> {
        let (file, offset) = &self.places[place as usize];
        file.read_exact_at(content, *offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Sound,
        /// Writes to regions from this number on overwrite the first regions.
        Wraps(u64),
        Loses(u64),
        /// Each region from this number on has a flipped bit whenever it is read.
        Flips(u64),
        /// The region with this number has a flipped bit only in the first read.
        FlipsOnce(u64),
        FailsAt(u64),
    }

    struct Device {
        kind: Kind,
        stored: BTreeMap<u64, Vec<u8>>,
        reads: u64,
    }

    impl Places for Device {
        fn count(&self) -> u64 {
            8
        }

        fn write(&mut self, place: u64, content: &[u8]) -> io::Result<()> {
            let at = match self.kind {
                Kind::Wraps(size) => place % size,
                Kind::Loses(size) if place >= size => return Ok(()),
                _ => place,
            };
            self.stored.insert(at, content.to_vec());
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn read(&mut self, place: u64, content: &mut [u8]) -> io::Result<()> {
            let at = if let Kind::Wraps(size) = self.kind { place % size } else { place };
            match self.stored.get(&at) {
                Some(stored) => content.copy_from_slice(stored),
                None => content.fill(0),
            }
            match self.kind {
                Kind::FailsAt(failing) if failing == place => return Err(io::Error::from_raw_os_error(5)),
                Kind::Flips(flipped) if flipped <= place => content[777] ^= 1,
                Kind::FlipsOnce(flipped) if flipped == place => {
                    self.reads += 1;
                    content[777] ^= u8::from(self.reads == 1);
                }
                _ => {}
            }
            Ok(())
        }
    }

    #[test]
    fn only_a_fake_is_accused() {
        let until = Instant::now() + Duration::from_secs(600);
        let mut shown = String::new();
        for kind in [
            Kind::Sound,
            Kind::Wraps(4),
            Kind::Wraps(7),
            Kind::Loses(5),
            Kind::Loses(7),
            Kind::Flips(3),
            Kind::FlipsOnce(3),
            Kind::FailsAt(2),
        ] {
            let mut device = Device { kind, stored: BTreeMap::new(), reads: 0 };
            let checked = check(&mut device, 7, true, until, &|| false).expect("nobody stops it");
            shown += &format!("{kind:?}: {:#?}\n", checked.verdict);
        }
        expect_test::expect_file!["../../tests/golden/capacity.txt"].assert_eq(&shown);
    }

    #[test]
    fn places_of_files_lie_in_the_free_space_and_go_afterwards() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let prefix = folder.path().join(".fonio-bench-1-capacity");
        let reserved = match FilePlaces::reserve(&prefix, FREE_MIN_BYTES + (8 << 20), 4) {
            Ok(reserved) => reserved,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return fonio_testing::skip(fonio_testing::Need::DirectIo, error);
            }
            Err(error) => panic!("{error}"),
        };
        let Some(mut places) = reserved else {
            return fonio_testing::skip(
                fonio_testing::Need::DirectIo,
                "the file system cannot reserve space",
            );
        };
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 4);
        let until = Instant::now() + Duration::from_secs(600);
        let checked = check(&mut places, 7, false, until, &|| false).expect("nobody stops it");
        assert_eq!(checked.verdict, CapacityCheck::Genuine { checked_bytes: 4 << 20, complete: false });
        drop(places);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }
}
