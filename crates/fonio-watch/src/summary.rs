//! Summaries of a watch's figures over spans of time. A minute and a day have the same kinds of figures, so
//! spans can be merged into longer spans.

use fonio_core::{BlockedIn, ByteCount, Content, Op};
use fonio_record::observer::{Party, PartyKind};
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// Wall-clock time in seconds since 1970.
pub type UnixSeconds = i64;

/// The figures of a watch over a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Wall-clock time at the start of the span.
    pub began: UnixSeconds,
    /// Wall-clock time at the end of the span.
    pub ended: UnixSeconds,
    /// Time in which the watch was running; shorter than the span if the watch or the machine was off.
    pub watched_s: u64,
    /// Figures of each device.
    pub devices: Vec<DeviceFigures>,
    /// Figures of each party on each device.
    pub parties: Vec<PartyFigures>,
    /// Blocked times of each party's threads on each device.
    pub blocked: Vec<BlockedFigures>,
    /// The files with the most written bytes.
    pub files: Vec<FileFigures>,
    /// The kernel's pressure stall information (PSI); `None` if it is not available.
    pub pressure: Option<PressureFigures>,
    /// Number of requests and waits that were not recorded, because the buffers were full.
    pub unobserved: u64,
    /// Number of seconds in which only long waits, and no requests, were observed.
    pub limited_s: u64,
    /// Stalls, in time order.
    pub stalls: Vec<Stall>,
    /// Number of stalls in the span, including stalls that are no longer listed.
    pub stalls_in_all: u64,
    /// Events of the watch itself, in time order.
    pub events: Vec<Event>,
}

/// Requests of a device, or of a party on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Traffic {
    /// Response times of the reads.
    pub reads: Histogram,
    pub writes: Histogram,
    pub flushes: Histogram,
    pub read_bytes: ByteCount,
    pub written_bytes: ByteCount,
}

impl Traffic {
    fn merge(&mut self, more: &Traffic) {
        self.reads.merge(&more.reads);
        self.writes.merge(&more.writes);
        self.flushes.merge(&more.flushes);
        self.read_bytes.0 += more.read_bytes.0;
        self.written_bytes.0 += more.written_bytes.0;
    }
}

/// Figures of one device in a span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DeviceFigures {
    pub name: String,
    /// Model name, which distinguishes a card from the previous card in the slot.
    pub model: Option<String>,
    pub size: Option<ByteCount>,
    /// The requests. The byte counts come from the kernel, which also counts requests that the watch missed.
    pub traffic: Traffic,
    /// Time in which requests were in flight, from the kernel's counter.
    pub busy_ms: u64,
    /// The device's last health reading.
    pub health: Option<HealthReading>,
}

/// The wear that a device reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReading {
    /// Used life in percent, as the upper end of a 10 % step; 110 means that the rated life is exceeded.
    pub life_used_percent: Option<u32>,
    /// Used life of the second type of memory in percent, as the upper end of a 10 % step.
    pub life_used_b_percent: Option<u32>,
    /// State of the reserved blocks: `normal`, `warning` or `urgent`.
    pub reserved_blocks: Option<String>,
    /// Device temperature in thousandths of a degree Celsius.
    pub temperature_millicelsius: Option<i64>,
    /// Month and year of manufacture, `MM/YYYY`.
    pub made: Option<String>,
}

impl HealthReading {
    /// Returns the used life in percent of the device's more worn type of memory.
    pub fn used_percent(&self) -> Option<u32> {
        self.life_used_percent.max(self.life_used_b_percent)
    }
}

/// Figures of a party on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PartyFigures {
    pub party: Party,
    pub device: String,
    pub traffic: Traffic,
}

/// Blocked times of a party's threads on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BlockedFigures {
    pub party: Party,
    /// Name of the device on which the threads waited, or the type of a network file system; `None` if unknown. A
    /// device that is not among the summary's devices was not watched.
    pub device: Option<String>,
    /// Durations of the threads' waits for storage.
    pub waits: Histogram,
}

/// The target of written data: a file, or the kind of data if the target is not a named file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Target {
    /// A file, identified by its path.
    File(String),
    /// A file without a known name: it was deleted before the lookup, or its file system cannot find files by
    /// inode number.
    Unnamed,
    /// The journal of a file system.
    Journal,
    /// Metadata of a file system other than its journal.
    Metadata,
    /// A swap area.
    Swap,
    /// An unknown file written with direct I/O.
    Direct,
}

/// Figures of a written file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FileFigures {
    pub target: Target,
    pub content: Content,
    pub party: Party,
    pub device: String,
    pub written_bytes: ByteCount,
}

/// Time in which some or all tasks were stalled for a resource (`/proc/pressure`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PressureFigures {
    pub io_some_ms: u64,
    pub io_full_ms: u64,
    pub memory_some_ms: u64,
    pub cpu_some_ms: u64,
}

/// A stall: threads were blocked on storage for at least the threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Stall {
    pub began: UnixSeconds,
    pub lasted_ms: u64,
    /// Whether the stall had not ended when it was recorded.
    pub goes_on: bool,
    /// The party that was blocked longest.
    pub party: Party,
    /// The name of the thread that was blocked longest.
    pub thread: String,
    pub blocked_in: BlockedIn,
    pub file: Option<String>,
    pub device: Option<String>,
    /// Other parties that were blocked during the stall.
    pub others: Vec<Party>,
    pub why: Why,
    /// The file name of the kept stall.
    pub kept: Option<String>,
}

/// The reason for a stall, derived from the requests during it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Why {
    /// The reason is unknown: requests were not observed, or none of the observed requests shows it.
    Unknown,
    /// No device was the reason, because every device had requests in flight for only a small part of the
    /// time.
    NoRequest,
    /// One request was in the device for most of the stall.
    OneRequest { op: Op, bytes: ByteCount, took_ms: u64, party: Option<Party> },
    /// The device served requests of other parties: the party with the most bytes, and its share of all bytes
    /// in thousandths.
    Behind { party: Party, op: Op, bytes: ByteCount, share_thousandths: u64 },
    /// The party's own requests filled the time.
    Own { op: Op, bytes: ByteCount, requests: u64 },
}

/// An event that affects the interpretation of the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Event {
    Started { at: UnixSeconds, limited: Option<String> },
    Stopped { at: UnixSeconds },
    ClockSet { at: UnixSeconds, by_s: i64 },
    Removed { at: UnixSeconds, device: String },
    Added { at: UnixSeconds, device: String },
    NotWritten { at: UnixSeconds, why: String },
}

/// Maximum number of rows of each kind in a summary.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Bounds {
    pub parties: usize,
    pub files: usize,
    pub stalls: usize,
    pub events: usize,
}

/// If the wall clock shows a time before 2025-01-01, the clock has not been set yet. A machine without a
/// real-time clock boots with a time in 1970, with its system's build time, or with its last shutdown time.
const CLOCK_IS_SET: UnixSeconds = 1_735_689_600;

/// Name of the row with the sums of all rows that did not fit into a summary.
pub const OTHERS: &str = "others";

fn others() -> Party {
    Party { name: OTHERS.to_owned(), kind: PartyKind::Program }
}

impl Summary {
    /// Adds the figures of a later span.
    pub fn merge(&mut self, later: &Summary) {
        if self.watched_s == 0 && self.ended == 0 {
            self.began = later.began;
        }
        self.began = self.began.min(later.began);
        self.ended = self.ended.max(later.ended);
        self.watched_s += later.watched_s;
        self.limited_s += later.limited_s;
        self.unobserved += later.unobserved;
        later.devices.iter().for_each(|device| self.device(device));
        later.parties.iter().for_each(|row| self.party(row));
        self.blocked_rows(later);
        later.files.iter().for_each(|row| self.file(row));
        if let Some(more) = later.pressure {
            let pressure = self.pressure.get_or_insert_default();
            pressure.io_some_ms += more.io_some_ms;
            pressure.io_full_ms += more.io_full_ms;
            pressure.memory_some_ms += more.memory_some_ms;
            pressure.cpu_some_ms += more.cpu_some_ms;
        }
        self.stalls.extend(later.stalls.iter().cloned());
        self.stalls_in_all += later.stalls_in_all;
        self.events.extend(later.events.iter().cloned());
    }

    /// Adds figures of a device to the summary.
    pub fn device(&mut self, more: &DeviceFigures) {
        let same = |known: &&mut DeviceFigures| known.name == more.name && known.model == more.model;
        let Some(known) = self.devices.iter_mut().find(same) else {
            self.devices.push(more.clone());
            return;
        };
        known.traffic.merge(&more.traffic);
        known.busy_ms += more.busy_ms;
        known.size = more.size.or(known.size);
        if more.health.is_some() {
            known.health.clone_from(&more.health);
        }
    }

    /// Adds figures of a party on a device to the summary.
    pub fn party(&mut self, more: &PartyFigures) {
        let same = |known: &&mut PartyFigures| known.party == more.party && known.device == more.device;
        match self.parties.iter_mut().find(same) {
            Some(known) => known.traffic.merge(&more.traffic),
            None => self.parties.push(more.clone()),
        }
    }

    /// Adds the blocked times in another summary.
    pub fn blocked_rows(&mut self, more: &Summary) {
        more.blocked.iter().for_each(|row| self.blocked_row(row));
    }

    fn blocked_row(&mut self, more: &BlockedFigures) {
        let same = |known: &&mut BlockedFigures| known.party == more.party && known.device == more.device;
        match self.blocked.iter_mut().find(same) {
            Some(known) => known.waits.merge(&more.waits),
            None => self.blocked.push(more.clone()),
        }
    }

    /// Adds figures of a file to the summary.
    pub fn file(&mut self, more: &FileFigures) {
        let same = |known: &&mut FileFigures| {
            known.target == more.target && known.device == more.device && known.party == more.party
        };
        match self.files.iter_mut().find(same) {
            Some(known) => known.written_bytes.0 += more.written_bytes.0,
            None => self.files.push(more.clone()),
        }
    }

    /// If the span ended before the clock was first set, shifts its times by `by_s` seconds. `before` is the
    /// wall-clock time just before the clock was set. If the clock was already correct, the times stay as the
    /// user saw them.
    pub fn clock_was_set(&mut self, before: UnixSeconds, by_s: i64) {
        if before >= CLOCK_IS_SET || by_s <= 0 || self.began >= CLOCK_IS_SET {
            return;
        }
        self.began += by_s;
        self.ended += by_s;
        self.stalls.iter_mut().for_each(|stall| stall.began += by_s);
    }

    /// Keeps the most important rows of the summary and merges the others, so that sums stay the same.
    pub fn trim(&mut self, bounds: Bounds) {
        self.trim_parties(bounds.parties);
        self.trim_blocked(bounds.parties);
        self.files
            .sort_by(|a, b| b.written_bytes.cmp(&a.written_bytes).then_with(|| a.target.cmp(&b.target)));
        let rest = self.files.split_off(bounds.files.min(self.files.len()));
        for row in rest {
            self.file(&FileFigures {
                target: Target::Unnamed,
                party: others(),
                content: Content::Unknown,
                ..row
            });
        }
        if self.stalls.len() > bounds.stalls {
            self.stalls.sort_by_key(|stall| std::cmp::Reverse(stall.lasted_ms));
            self.stalls.truncate(bounds.stalls);
            self.stalls.sort_by_key(|stall| stall.began);
        }
        let surplus = self.events.len().saturating_sub(bounds.events);
        self.events.drain(..surplus);
    }

    fn trim_parties(&mut self, keep: usize) {
        let weight = |row: &PartyFigures| {
            row.traffic.written_bytes.0.saturating_mul(4).saturating_add(row.traffic.read_bytes.0)
        };
        self.parties.sort_by(|a, b| {
            weight(b)
                .cmp(&weight(a))
                .then_with(|| (&a.party.name, &a.device).cmp(&(&b.party.name, &b.device)))
        });
        let rest = self.parties.split_off(keep.min(self.parties.len()));
        rest.into_iter().for_each(|row| self.party(&PartyFigures { party: others(), ..row }));
    }

    fn trim_blocked(&mut self, keep: usize) {
        self.blocked.sort_by(|a, b| {
            b.waits.total().cmp(&a.waits.total()).then_with(|| a.party.name.cmp(&b.party.name))
        });
        let rest = self.blocked.split_off(keep.min(self.blocked.len()));
        rest.into_iter().for_each(|row| self.blocked_row(&BlockedFigures { party: others(), ..row }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(name: &str) -> Party {
        Party { name: name.to_owned(), kind: PartyKind::Unit }
    }

    fn written(name: &str, bytes: u64) -> Summary {
        let mut writes = Histogram::default();
        writes.add(fonio_core::Nanos(bytes * 1000));
        Summary {
            began: 60 * bytes as i64,
            ended: 60 * bytes as i64 + 60,
            watched_s: 60,
            parties: vec![PartyFigures {
                party: party(name),
                device: "mmcblk0".into(),
                traffic: Traffic { writes, written_bytes: ByteCount(bytes), ..Traffic::default() },
            }],
            files: vec![FileFigures {
                target: Target::File(format!("/var/{name}")),
                content: Content::Data,
                party: party(name),
                device: "mmcblk0".into(),
                written_bytes: ByteCount(bytes),
            }],
            ..Summary::default()
        }
    }

    fn sum(summary: &Summary) -> (u64, u64, u64) {
        let parties: u64 = summary.parties.iter().map(|row| row.traffic.written_bytes.0).sum();
        let files: u64 = summary.files.iter().map(|row| row.written_bytes.0).sum();
        (parties, files, summary.parties.iter().map(|row| row.traffic.writes.count()).sum())
    }

    #[test]
    fn a_first_time_corrects_what_was_before() {
        let year_2026 = 1_767_225_600;
        for (began, before, by_s, expected) in [
            (60, 200, year_2026, 60 + year_2026),
            (year_2026, year_2026 + 100, 7200, year_2026),
            (year_2026, year_2026 + 100, -7200, year_2026),
            (year_2026, 200, year_2026, year_2026),
        ] {
            let mut span = Summary { began, ended: began + 60, ..Summary::default() };
            span.clock_was_set(before, by_s);
            assert_eq!((span.began, span.ended - span.began), (expected, 60));
        }
    }

    #[test]
    fn spans_add_up_and_rows_beyond_the_bounds_are_added_together() {
        let mut all = Summary::default();
        for minute in 1..=30 {
            all.merge(&written(&format!("unit{}", minute % 10), minute));
        }
        assert_eq!((all.began, all.ended, all.watched_s), (60, 1860, 1800));
        assert_eq!((all.parties.len(), sum(&all)), (10, (465, 465, 30)));
        all.trim(Bounds { parties: 3, files: 2, stalls: 1, events: 1 });
        assert_eq!(sum(&all), (465, 465, 30));
        let names: Vec<_> = all.parties.iter().map(|row| row.party.name.as_str()).collect();
        assert_eq!(names, ["unit0", "unit9", "unit8", OTHERS]);
        assert_eq!(all.files.len(), 3);
    }
}
