//! The history of a watch: a day of minutes, a week of hours and a year of days, in one file of bounded size.
//!
//! The file is divided into slots, which are overwritten in turn, so the file never grows beyond
//! [`FILE_BYTES_MAX`]:
//!
//! | ring | contents of a slot | slots | bytes each |
//! |---|---|---|---|
//! | day | the minutes since the last write, two hours by default | 26 | 16 KiB |
//! | week | the sum of these minutes | 170 | 4 KiB |
//! | year | the sum of 24 hours | 367 | 4 KiB |
//!
//! Each write overwrites one slot of the day and one slot of the week, in place. So the file system writes
//! only these slots (8 to 20 KiB), the inode and its journal record. A new history file is synced once. Later
//! writes are not synced, because the loss of two hours of figures is less harmful than regular flushes. A
//! torn slot fails its checksum and is skipped; the other slots stay valid.
//!
//! A slot is a header (`slot.rs`) and the summaries, encoded by postcard and compressed. If the minutes do
//! not fit, the smallest parties and files are merged, and then neighbouring minutes are merged.

mod slot;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;

use crate::error::WatchError;
use crate::own_file;
use crate::summary::{Bounds, Summary, UnixSeconds};
use slot::HEADER_BYTES;
pub(crate) use slot::{decode, encode};

const MAGIC: &[u8; 12] = b"fonio-rings\n";
const VERSION: u32 = 1;
/// Size of the file's first page, which contains only the magic number and the version.
const PAGE: u64 = 4096;
/// Minimum length in seconds of a day in the year's ring. This is half an hour less than 24 hours, because a
/// day can end only when the history is written.
const DAY_S: i64 = 24 * 3600 - 1800;

#[derive(Clone, Copy, Debug)]
struct Ring {
    /// File offset of the ring's first slot.
    at: u64,
    slots: u64,
    slot_bytes: u64,
}

const DAY: Ring = Ring { at: PAGE, slots: 26, slot_bytes: 4 * PAGE };
const WEEK: Ring = Ring { at: DAY.at + DAY.slots * DAY.slot_bytes, slots: 170, slot_bytes: PAGE };
const YEAR: Ring = Ring { at: WEEK.at + WEEK.slots * WEEK.slot_bytes, slots: 367, slot_bytes: PAGE };

/// Maximum size of the history file.
pub const FILE_BYTES_MAX: u64 = YEAR.at + YEAR.slots * YEAR.slot_bytes;

/// Maximum numbers of rows of a summary in each ring; a summary has fewer rows if they do not fit into the
/// slot.
const MINUTE_BOUNDS: Bounds = Bounds { parties: 24, files: 20, stalls: 20, events: 20 };
const HOUR_BOUNDS: Bounds = Bounds { parties: 24, files: 24, stalls: 10, events: 10 };
const DAY_BOUNDS: Bounds = Bounds { parties: 24, files: 24, stalls: 3, events: 5 };

/// The rings of a history file, open for writing.
#[derive(Debug)]
pub struct Rings {
    file: File,
    path: PathBuf,
    /// Sequence number of the next slot of each ring.
    next: [u64; 3],
    /// Sum of the hours since the last slot of the year's ring was written.
    day: Summary,
}

/// Contents of a history file, in time order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Minutes of the last day, or longer spans where minutes were merged.
    pub minutes: Vec<Summary>,
    /// Hours of the last week, each as one summary.
    pub hours: Vec<Summary>,
    /// Days of the last year, each as one summary; the present day is not included.
    pub days: Vec<Summary>,
    /// Number of damaged slots that were skipped.
    pub damaged: u64,
}

impl Rings {
    /// Opens the history file, or creates it.
    ///
    /// # Errors
    /// Returns [`WatchError`] if the file cannot be opened or is not a history file.
    pub fn open(path: &Path) -> Result<Rings, WatchError> {
        let file = own_file::open(path, true)?.expect("it is created if it is missing");
        let mut rings = Rings { file, path: path.to_owned(), next: [0; 3], day: Summary::default() };
        if !check_header(&rings.file, path)? {
            return Ok(rings);
        }
        let mut last_day = UnixSeconds::MIN;
        let mut hours = Vec::new();
        for (ring, next) in [DAY, WEEK, YEAR].into_iter().zip(0..) {
            for (number, summaries) in slots(&rings.file, ring).flatten() {
                rings.next[next] = rings.next[next].max(number + 1);
                match next {
                    1 => hours.extend(summaries),
                    2 => last_day = summaries.iter().map(|day| day.ended).fold(last_day, i64::max),
                    _ => {}
                }
            }
        }
        hours.sort_by_key(|hour: &Summary| hour.ended);
        let since: Vec<Summary> = hours.into_iter().filter(|hour| hour.began >= last_day).collect();
        // If the watch was off for a long time, begin a new day.
        since.iter().for_each(|hour| rings.day.merge(hour));
        Ok(rings)
    }

    /// Writes the given minutes to the history. Returns the number of bytes passed to the file system.
    ///
    /// # Errors
    /// Returns [`WatchError::File`], for example on a full disk. The caller can write the minutes again
    /// later.
    pub fn append(&mut self, minutes: &[Summary]) -> Result<ByteCount, WatchError> {
        let Some(first) = minutes.first() else { return Ok(ByteCount(0)) };
        let mut hour = Summary { began: first.began, ..Summary::default() };
        minutes.iter().for_each(|minute| hour.merge(minute));
        let mut day = self.day.clone();
        day.merge(&hour);
        let header = self.write_header()?;
        let mut written = header;
        written += self.write(DAY, 0, slot::fitting(minutes, MINUTE_BOUNDS, DAY.slot_bytes, self.next[0]))?;
        let hours = slot::fitting(std::slice::from_ref(&hour), HOUR_BOUNDS, WEEK.slot_bytes, self.next[1]);
        written += self.write(WEEK, 1, hours)?;
        if day.ended - day.began >= DAY_S {
            let days = slot::fitting(std::slice::from_ref(&day), DAY_BOUNDS, YEAR.slot_bytes, self.next[2]);
            written += self.write(YEAR, 2, days)?;
            day = Summary::default();
        }
        // Update the day last, so that a failed write can be repeated without counting minutes twice.
        self.day = day;
        if header > 0 {
            // With a sync now, one journal transaction contains the new file and its first blocks; otherwise,
            // there would be two transactions. A failed sync does no harm.
            let _ = self.file.sync_data();
        }
        Ok(ByteCount(written))
    }

    fn write_header(&self) -> Result<u64, WatchError> {
        let length = self.file.metadata().map_err(WatchError::file(&self.path, "read"))?.len();
        if length >= PAGE {
            return Ok(0);
        }
        let mut header = vec![0; PAGE as usize];
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        header[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&VERSION.to_le_bytes());
        self.file.write_all_at(&header, 0).map_err(WatchError::file(&self.path, "written"))?;
        Ok(PAGE)
    }

    fn write(&mut self, ring: Ring, which: usize, slot: Vec<u8>) -> Result<u64, WatchError> {
        assert!(slot.len() as u64 <= ring.slot_bytes, "the data must fit into one slot of the ring");
        let at = ring.at + self.next[which] % ring.slots * ring.slot_bytes;
        self.file.write_all_at(&slot, at).map_err(WatchError::file(&self.path, "written"))?;
        self.next[which] += 1;
        Ok(slot.len() as u64)
    }

    /// Syncs the history file.
    pub fn sync(&self) -> Result<(), WatchError> {
        self.file.sync_data().map_err(WatchError::file(&self.path, "written"))
    }
}

impl History {
    /// Reads a history file. A missing file is read as an empty history.
    ///
    /// # Errors
    /// Returns [`WatchError`] if the file cannot be read or is not a history file.
    pub fn read(path: &Path) -> Result<History, WatchError> {
        let Some(file) = own_file::open(path, false)? else { return Ok(History::default()) };
        let mut history = History::default();
        if !check_header(&file, path)? {
            return Ok(history);
        }
        for (ring, which) in [DAY, WEEK, YEAR].into_iter().zip(0..) {
            let rows = match which {
                0 => &mut history.minutes,
                1 => &mut history.hours,
                _ => &mut history.days,
            };
            let mut read: Vec<(u64, Vec<Summary>)> = Vec::new();
            for slot in slots(&file, ring) {
                match slot {
                    Some(slot) => read.push(slot),
                    None => history.damaged += 1,
                }
            }
            // Sort by slot number, because the wall clock may have been set between two writes.
            read.sort_by_key(|(number, _)| *number);
            rows.extend(read.into_iter().flat_map(|(_, summaries)| summaries));
        }
        Ok(history)
    }
}

/// Returns whether the file has a header. Fails if the file is not a history file.
fn check_header(file: &File, path: &Path) -> Result<bool, WatchError> {
    let mut header = [0; MAGIC.len() + 4];
    let length = file.metadata().map_err(WatchError::file(path, "read"))?.len();
    if length == 0 {
        return Ok(false);
    }
    let not_ours = || WatchError::NotOurs { path: path.to_owned(), what: "the history of a watch" };
    file.read_exact_at(&mut header, 0).map_err(|_| not_ours())?;
    let (magic, version) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(not_ours());
    }
    let found = u32::from_le_bytes([version[0], version[1], version[2], version[3]]);
    if found > VERSION {
        return Err(WatchError::Newer { path: path.to_owned(), found, known: VERSION });
    }
    Ok(true)
}

/// Returns the written slots of a ring; `None` for each damaged slot.
fn slots(file: &File, ring: Ring) -> impl Iterator<Item = Option<(u64, Vec<Summary>)>> {
    let mut bytes = vec![0; ring.slot_bytes as usize];
    (0..ring.slots).filter_map(move |slot| {
        bytes.fill(0);
        // Slots that were never written are beyond the end of the file.
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], ring.at + slot * ring.slot_bytes + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Some(None),
            }
        }
        if bytes[..HEADER_BYTES].iter().all(|byte| *byte == 0) {
            return None;
        }
        Some(decode(&bytes))
    })
}

#[cfg(test)]
mod tests;
