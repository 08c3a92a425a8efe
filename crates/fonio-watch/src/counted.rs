//! A watch of another machine of which only counters can be read, such as a phone.
//!
//! The caller reads the counters and notes them here; this keeps the same history as the watch of this machine. The machine can be
//! away for hours: its counters go on, so the first reading after that covers the time, unless the machine was restarted.
//! Requests and waits are not observed, so nothing is known of stalls.

use std::time::Duration;

use fonio_core::Timestamp;
use fonio_machine::StorageDevice;

use crate::clock::{WallClock, monotonic};
use crate::devices::Devices;
use crate::error::WatchError;
use crate::folders::{Folders, Running};
use crate::rings::Rings;
use crate::settings::Settings;
use crate::summary::{Bounds, Event, PartyFigures, Summary};

/// The most summaries that wait for the next write, as in the watch of this machine: a day of minutes.
const UNWRITTEN_MAX: usize = 1500;
/// The most rows of a summary.
const BOUNDS: Bounds = Bounds { parties: 40, files: 1, stalls: 1, events: 20 };

/// The counters of a machine at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Tells starts of the machine apart.
    pub boot: String,
    /// The devices, with their counters since the machine's start.
    pub devices: Vec<StorageDevice>,
    /// What each app did since the reading before this.
    pub parties: Vec<PartyFigures>,
}

/// A watch of another machine.
#[derive(Debug)]
pub struct CountedWatch {
    folders: Folders,
    /// Keeps other watches out of the folders.
    _running: Running,
    rings: Option<Rings>,
    wall: WallClock,
    devices: Devices,
    boot: Option<String>,
    /// When the last counters were read.
    read_at: Option<Timestamp>,
    unwritten: Vec<Summary>,
    written_at: Timestamp,
    write_every: Duration,
    events: Vec<Event>,
    tell: fn(&str),
}

impl CountedWatch {
    /// Begins to watch.
    ///
    /// # Errors
    /// Returns [`WatchError::Runs`] if a watch already uses the folders, or other errors if they cannot be used.
    pub fn begin(settings: &Settings, folders: Folders, tell: fn(&str)) -> Result<CountedWatch, WatchError> {
        let running = folders.begin()?;
        let path = folders.rings();
        let rings = if path.exists() { Some(Rings::open(&path)?) } else { None };
        let mut unwritten = folders.read_unwritten();
        unwritten.truncate(UNWRITTEN_MAX);
        running.ready().map_err(WatchError::file(&folders.run, "written"))?;
        let (wall, now) = (WallClock::now(), monotonic());
        Ok(CountedWatch {
            folders,
            _running: running,
            rings,
            wall,
            devices: Devices::new(&settings.devices),
            boot: None,
            read_at: None,
            unwritten,
            written_at: now,
            write_every: settings.write_every,
            events: vec![Event::Started { at: wall.of(now), limited: None }],
            tell,
        })
    }

    /// Notes the counters that were read now. The first reading after a start of the machine only begins the count.
    pub fn note(&mut self, reading: Reading) {
        self.wall = WallClock::now();
        let now = monotonic();
        let at = self.wall.of(now);
        let is_first = self.boot.as_ref() != Some(&reading.boot);
        if is_first {
            self.devices.begin_again();
        }
        let (rows, events) = self.devices.take(reading.devices, at);
        let from = self.read_at.replace(now).filter(|_| !is_first);
        self.boot = Some(reading.boot);
        self.events.extend(events);
        let Some(from) = from else { return };
        let mut span = Summary {
            began: self.wall.of(from).min(at),
            ended: at,
            watched_s: Duration::from_nanos(now.0.saturating_sub(from.0)).as_secs(),
            events: std::mem::take(&mut self.events),
            ..Summary::default()
        };
        rows.iter().for_each(|row| span.device(row));
        reading.parties.iter().for_each(|row| span.party(row));
        span.trim(BOUNDS);
        self.add(span);
        if Duration::from_nanos(now.0.saturating_sub(self.written_at.0)) >= self.write_every {
            self.write(now);
        }
    }

    fn add(&mut self, span: Summary) {
        self.unwritten.push(span);
        if self.unwritten.len() > UNWRITTEN_MAX {
            let second = self.unwritten.remove(1);
            self.unwritten[0].merge(&second);
            self.unwritten[0].trim(BOUNDS);
        }
        if let Err(error) = self.folders.store_unwritten(&self.unwritten) {
            (self.tell)(&format!("{} cannot be written: {error}", self.folders.run.display()));
        }
    }

    fn write(&mut self, now: Timestamp) {
        self.written_at = now;
        if let Err(error) = self.write_history() {
            (self.tell)(&format!("the history stays in memory until the next write, because {error}"));
            self.events.push(Event::NotWritten { at: self.wall.of(now), why: error.to_string() });
        }
    }

    fn write_history(&mut self) -> Result<(), WatchError> {
        let rings = match &mut self.rings {
            Some(rings) => rings,
            none => none.insert(Rings::open(&self.folders.rings())?),
        };
        let written = rings.append(&self.unwritten);
        if written.is_err() {
            self.rings = None;
        }
        written?;
        self.unwritten.clear();
        let _ = self.folders.store_unwritten(&self.unwritten);
        Ok(())
    }

    /// Writes what is not yet in the history.
    ///
    /// # Errors
    /// Returns [`WatchError`] if it cannot be written.
    pub fn finish(mut self) -> Result<(), WatchError> {
        let at = WallClock::now().of(monotonic());
        self.events.push(Event::Stopped { at });
        let events = std::mem::take(&mut self.events);
        self.unwritten.push(Summary { began: at, ended: at, events, ..Summary::default() });
        self.write_history()?;
        self.rings.as_ref().map_or(Ok(()), Rings::sync)
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::meta::Device;
    use fonio_core::{ByteCount, DeviceId, DeviceKind};
    use fonio_record::observer::{Party, PartyKind};

    use super::*;
    use crate::History;
    use crate::summary::Traffic;

    fn reading(boot: &str, written: u64, by_app: u64) -> Reading {
        let device = StorageDevice {
            device: Device {
                id: DeviceId::new(8, 0),
                name: Some("sda".to_owned()),
                size_bytes: Some(ByteCount(1 << 30)),
                ..Device::default()
            },
            kind: DeviceKind::Ufs,
            flash: true,
            read_bytes: Some(ByteCount(0)),
            written_bytes: Some(ByteCount(written)),
            ..StorageDevice::default()
        };
        let party = PartyFigures {
            party: Party { name: "com.example".to_owned(), kind: PartyKind::Unit },
            device: "sda".to_owned(),
            traffic: Traffic { written_bytes: ByteCount(by_app), ..Traffic::default() },
        };
        Reading { boot: boot.to_owned(), devices: vec![device], parties: vec![party] }
    }

    #[test]
    fn counters_of_one_start_are_compared_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { state: dir.path().join("state"), run: dir.path().join("run") };
        let begin = || CountedWatch::begin(&Settings::default(), folders.clone(), |_| {});
        let mut watch = begin().unwrap();
        assert!(matches!(begin(), Err(WatchError::Runs { .. })), "one watch at a time");
        watch.note(reading("a", 1000, 0));
        watch.note(reading("a", 1500, 300));
        // A restart: its counters begin at 0 and say nothing of the time before.
        watch.note(reading("b", 9000, 0));
        watch.note(reading("b", 9010, 5));
        // Killed: the minutes in memory are taken over.
        drop(watch);
        let mut watch = begin().unwrap();
        watch.note(reading("b", 9100, 0));
        watch.note(reading("b", 9101, 1));
        watch.finish().unwrap();
        let history = History::read(&folders.rings()).unwrap();
        let sum = history.sum_since(0);
        assert_eq!(sum.devices[0].traffic.written_bytes, ByteCount(500 + 10 + 1));
        assert_eq!(sum.parties[0].traffic.written_bytes, ByteCount(306));
    }
}
