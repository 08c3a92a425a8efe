//! Builds the images that a power cut could leave on the device.
//!
//! A power cut falls between two records of the [`Log`]. At the time of the cut, each write has one of two
//! states:
//!
//! - *durable* if it has completed and at least one of these conditions is met: it used FUA, the device has
//!   no volatile cache, or a later flush, which arrived after the write had completed, has completed too;
//! - otherwise *in doubt*: the device has kept or lost each of its units (of 4 KiB or one sector).
//!
//! Writes are applied in arrival order, so an earlier write in doubt never hides a later durable write. Cuts
//! with the same seed give the same image.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_sim::Random;
use rustix::fs::{FallocateFlags, SeekFrom};
use serde::{Deserialize, Serialize};

use crate::error::EmulatorError;
use crate::log::{Kind, Log};

/// Size of the units into which a write in doubt is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tear {
    /// Units of 4 KiB: flash pages have at least 4 KiB, so a card keeps or loses at least 4 KiB as a unit.
    #[default]
    Page,
    /// Units of one sector of 512 bytes, the smallest unit that interfaces guarantee to be atomic.
    Sector,
}

impl Tear {
    fn bytes(self) -> u64 {
        match self {
            Tear::Page => 4096,
            Tear::Sector => 512,
        }
    }
}

/// The time of a power cut, and the seed that selects the surviving units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cut {
    /// Number of log records before the power cut.
    pub at: usize,
    /// Seed that decides which units of writes in doubt survive the cut.
    pub seed: u64,
}

impl Cut {
    /// Chooses `count` random power cuts in the range `records` of the log, ordered by time. Panics if
    /// `records` is empty.
    pub fn plan(records: Range<usize>, count: u32, seed: u64) -> Vec<Cut> {
        assert!(!records.is_empty(), "a cut needs at least one record");
        let mut random = Random::new(seed);
        let span = (records.end - records.start) as u64;
        let mut cuts: Vec<Cut> = (0..count)
            .map(|_| Cut { at: records.start + 1 + random.below(span) as usize, seed: random.next_u64() })
            .collect();
        cuts.sort_unstable();
        cuts
    }
}

/// Builds the images that power cuts could leave, from a log, one image after the other.
#[derive(Debug)]
pub struct CutImages<'a> {
    log: &'a Log,
    tear: Tear,
    /// An image with the effects of all records before `settled`. All these records are durable.
    base: File,
    settled: usize,
}

impl<'a> CutImages<'a> {
    /// Prepares images from the log of a device that initially held only zeros. `base` is the path of a new
    /// file for intermediate data.
    pub fn new(log: &'a Log, tear: Tear, base: &Path) -> Result<CutImages<'a>, EmulatorError> {
        let base = create(base, log.capacity.0)?;
        Ok(CutImages { log, tear, base, settled: 0 })
    }

    /// Writes the image that the power cut leaves to the new file `path`. Fails with
    /// [`EmulatorError::System`] if a file cannot be read or written. Panics if the cut is beyond the end of
    /// the log, or before the previous call's cut.
    pub fn make(&mut self, cut: Cut, path: &Path) -> Result<(), EmulatorError> {
        assert!(cut.at <= self.log.records.len(), "the cut is beyond the end of the log");
        let durable = durable(self.log, cut.at);
        let first_in_doubt = (0..cut.at).find(|at| changes(self.log, *at) && !durable[*at]).unwrap_or(cut.at);
        assert!(self.settled <= first_in_doubt, "cuts must be made in the order of the log");
        for at in self.settled..first_in_doubt {
            self.apply(at, &self.base, path, None)?;
        }
        self.settled = first_in_doubt;
        let image = create(path, self.log.capacity.0)?;
        copy_sparse(&self.base, &image).map_err(EmulatorError::system("copy an image to", path))?;
        let mut random = Random::new(cut.seed);
        // Each cut has its own probability, between 0 and 1, that a unit in doubt is kept.
        let mut doubt = Doubt { kept_per_mille: random.below(1001), random };
        for (at, durable) in durable.iter().enumerate().skip(first_in_doubt) {
            self.apply(at, &image, path, (!durable).then_some(&mut doubt))?;
        }
        Ok(())
    }

    /// Applies record `at` to `image`, or only the units of it that `doubt` keeps.
    fn apply(
        &self,
        at: usize,
        image: &File,
        path: &Path,
        doubt: Option<&mut Doubt>,
    ) -> Result<(), EmulatorError> {
        if !changes(self.log, at) {
            return Ok(());
        }
        let record = &self.log.records[at];
        let data = match record.kind {
            Kind::Write => Some(self.log.data(record)?),
            _ => None,
        };
        let kept = match doubt {
            None => std::iter::once(record.offset..record.offset + record.bytes).collect(),
            Some(doubt) => doubt.keep(record.offset, record.bytes, self.tear.bytes()),
        };
        for part in kept.into_iter().filter(|part| !part.is_empty()) {
            match &data {
                Some(data) => {
                    let from = (part.start - record.offset) as usize;
                    let to = (part.end - record.offset) as usize;
                    image.write_all_at(&data[from..to], part.start)
                }
                None => {
                    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(image, hole, part.start, part.end - part.start).map_err(Into::into)
                }
            }
            .map_err(EmulatorError::system("write", path))?;
        }
        Ok(())
    }
}

struct Doubt {
    kept_per_mille: u64,
    random: Random,
}

impl Doubt {
    /// Returns the surviving parts of a write of `bytes` at `offset`. Unit boundaries are multiples of
    /// `unit`.
    fn keep(&mut self, offset: u64, bytes: u64, unit: u64) -> Vec<Range<u64>> {
        let end = offset + bytes;
        let mut parts = Vec::new();
        let mut from = offset;
        while from < end {
            let to = ((from / unit + 1) * unit).min(end);
            if self.random.below(1000) < self.kept_per_mille {
                parts.push(from..to);
            }
            from = to;
        }
        parts
    }
}

fn changes(log: &Log, at: usize) -> bool {
    matches!(log.records[at].kind, Kind::Write | Kind::Discard | Kind::WriteZeroes)
}

/// Returns one value per record: true if a power cut after the first `end` records cannot lose the record's
/// data, or if the record changes no data.
fn durable(log: &Log, end: usize) -> Vec<bool> {
    let mut completed: BTreeMap<u64, usize> = BTreeMap::new();
    let mut flushes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut flushed_before = 0;
    for (at, record) in log.records[..end].iter().enumerate() {
        match record.kind {
            Kind::Completed => {
                completed.insert(record.serial, at);
                if let Some(arrival) = flushes.remove(&record.serial) {
                    flushed_before = flushed_before.max(arrival);
                }
            }
            Kind::Flush => {
                flushes.insert(record.serial, at);
            }
            _ => {}
        }
    }
    let is_durable = |at: usize| {
        let record = &log.records[at];
        !changes(log, at)
            || completed
                .get(&record.serial)
                .is_some_and(|completed| *completed < flushed_before || record.fua || !log.volatile_cache)
    };
    (0..end).map(is_durable).collect()
}

fn create(path: &Path, bytes: u64) -> Result<File, EmulatorError> {
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = opened.map_err(EmulatorError::system("make", path))?;
    file.set_len(bytes).map_err(EmulatorError::system("size", path))?;
    Ok(file)
}

/// Copies the data of `from` into the empty file `to`; holes in `from` stay holes in `to`.
fn copy_sparse(from: &File, to: &File) -> io::Result<()> {
    // No copy is needed if the file system can share blocks.
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?;
        at = start;
        while at < end {
            let bytes = (end - at).min(buffer.len() as u64) as usize;
            from.read_exact_at(&mut buffer[..bytes], at)?;
            to.write_all_at(&buffer[..bytes], at)?;
            at += bytes as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, Nanos};
    use proptest::prelude::*;

    use super::*;
    use crate::log::LogWriter;

    const SECTORS: u64 = 32;

    #[derive(Clone, Debug)]
    enum Step {
        /// A write: first sector, number of sectors, FUA.
        Write(u64, u64, bool),
        Discard(u64, u64),
        Flush,
        /// The completion of the n-th command in flight.
        Complete(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = || (0..SECTORS).prop_flat_map(|at| (Just(at), 1..=(SECTORS - at).min(12)));
        prop_oneof![
            5 => (place(), prop::bool::weighted(0.1)).prop_map(|((at, count), fua)| Step::Write(at, count, fua)),
            1 => place().prop_map(|(at, count)| Step::Discard(at, count)),
            2 => Just(Step::Flush),
            6 => (0_usize..8).prop_map(Step::Complete),
        ]
    }

    /// Writes the steps of a test to a log. The n-th write command fills its sectors with n.
    fn logged(path: &Path, steps: &[Step], volatile: bool) {
        let mut log = LogWriter::create(path, ByteCount(SECTORS * 512), volatile).expect("log");
        let (mut open, mut serial) = (Vec::new(), 0_u64);
        let mut put = |kind, fua, serial, place, data: &[u8]| {
            log.append(kind, fua, serial, place, Nanos(0), data).expect("append");
        };
        for step in steps {
            if let Step::Complete(nth) = step {
                if !open.is_empty() {
                    put(Kind::Completed, false, open.remove(nth % open.len()), (0, 0), &[]);
                }
                continue;
            }
            serial += 1;
            open.push(serial);
            match *step {
                Step::Write(at, count, fua) => {
                    let data = vec![serial as u8; (count * 512) as usize];
                    put(Kind::Write, fua, serial, (at * 512, count * 512), &data);
                }
                Step::Discard(at, count) => put(Kind::Discard, false, serial, (at * 512, count * 512), &[]),
                Step::Flush => put(Kind::Flush, false, serial, (0, 0), &[]),
                Step::Complete(_) => {}
            }
        }
        log.flush()().expect("flush");
    }

    /// Computes the possible contents of `sector` after a cut before record `end`, with a naive
    /// implementation of the rules.
    fn allowed(log: &Log, end: usize, sector: u64) -> Vec<u8> {
        let records = &log.records[..end];
        let completed = |serial: u64, before: usize| {
            records[..before].iter().any(|r| r.kind == Kind::Completed && r.serial == serial)
        };
        let mut allowed = Vec::new();
        for record in records.iter().rev() {
            let covers = (record.offset..record.offset + record.bytes).contains(&(sector * 512));
            let value = match record.kind {
                Kind::Write if covers => log.data(record).expect("data")[0],
                Kind::Discard if covers => 0,
                _ => continue,
            };
            allowed.push(value);
            let flushed = records.iter().enumerate().any(|(at, flush)| {
                flush.kind == Kind::Flush && completed(flush.serial, end) && completed(record.serial, at)
            });
            let safe = record.fua || !log.volatile_cache;
            if flushed || safe && completed(record.serial, end) {
                return allowed;
            }
        }
        allowed.push(0);
        allowed
    }

    proptest! {
        #[test]
        fn every_sector_holds_what_the_rules_allow(
            steps in prop::collection::vec(step(), 1..60), volatile in prop::bool::weighted(0.8), seed in any::<u64>()
        ) {
            let dir = tempfile::tempdir().expect("dir");
            let path = dir.path().join("log");
            logged(&path, &steps, volatile);
            let log = Log::open(&path).expect("log");
            prop_assume!(!log.records.is_empty());
            for tear in [Tear::Sector, Tear::Page] {
                let base = dir.path().join(format!("base-{tear:?}"));
                let mut images = CutImages::new(&log, tear, &base).expect("images");
                for (number, cut) in Cut::plan(0..log.records.len(), 5, seed).into_iter().enumerate() {
                    let image = dir.path().join(format!("{tear:?}-{number}"));
                    images.make(cut, &image).expect("image");
                    let bytes = std::fs::read(&image).expect("read");
                    prop_assert_eq!(bytes.len() as u64, SECTORS * 512);
                    for sector in 0..SECTORS {
                        let content = &bytes[(sector * 512) as usize..][..512];
                        let allowed = allowed(&log, cut.at, sector);
                        let found = allowed.contains(&content[0]) && content.iter().all(|b| *b == content[0]);
                        prop_assert!(found, "{cut:?}, sector {sector}: {} is none of {allowed:?}", content[0]);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_in_doubt_tears_between_its_units() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log");
        logged(&path, &[Step::Write(4, 12, false)], true);
        let log = Log::open(&path).expect("log");
        let mut seen = std::collections::BTreeSet::new();
        let mut images = CutImages::new(&log, Tear::Page, &dir.path().join("base")).expect("images");
        for seed in 0..100 {
            let image = dir.path().join(seed.to_string());
            images.make(Cut { at: 1, seed }, &image).expect("image");
            let bytes = std::fs::read(&image).expect("read");
            let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
            assert!(sectors[4..8].iter().all(|value| *value == sectors[4]), "{sectors:?}");
            assert!(sectors[8..16].iter().all(|value| *value == sectors[8]), "{sectors:?}");
            seen.insert((sectors[4], sectors[8]));
        }
        assert_eq!(seen.len(), 4, "not all four combinations of two units: {seen:?}");
    }
}
