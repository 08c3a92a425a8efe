//! The main loop of a watch. About once a second, the loop reads the observer's rows. The loop sums up these
//! rows every minute, and writes to the medium at longer intervals.
//!
//! Lifecycle: [`Watch::begin`] locks out other watches and reads the files of the previous watch.
//! [`Watch::run`] continues until it is stopped, and then writes and syncs the remaining minutes. Memory is
//! bounded: 8 MiB for the last minute, and a few hundred KiB for the minutes between two writes.
//!
//! A failed write does not stop the watch: the minutes stay in memory, the failure becomes an event, and the
//! next write tries again.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fonio_core::{ByteCount, Timestamp};
use fonio_record::observer::{Observed, Observer};
use fonio_system::Pressure;

use crate::budget::Budget;
use crate::clock::{WallClock, monotonic};
use crate::devices::Devices;
use crate::error::WatchError;
use crate::folders::{Folders, Running};
use crate::recent::Recent;
use crate::rings::Rings;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stall_keeper;
use crate::stalls::{FoundStall, StallFinder};
use crate::summary::{Bounds, DeviceFigures, Event, PressureFigures, Summary};
use crate::tally::{Tally, sort_by_end};

/// Sleep time of the watch loop, unless the kernel's buffer fills up earlier.
const SLEEP: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Time between two searches for waits that have not ended.
const LOOK_FOR_OPEN: Duration = Duration::from_secs(30);
const BOUNDS: Bounds = Bounds { parties: 40, files: 30, stalls: 20, events: 20 };
/// Maximum number of minutes not yet in the history. If there are more such minutes, they are merged, so that
/// memory use stays bounded on a full disk.
const UNWRITTEN_MAX: usize = 360;
/// Size of a history write in the budget: a typical slot of the daily ring and of the weekly ring.
const HISTORY_WRITE: ByteCount = ByteCount(12 << 10);
const KEPT_PER_HOUR: usize = 12;

/// A running watch.
#[derive(Debug)]
pub struct Watch {
    settings: Settings,
    folders: Folders,
    _running: Running,
    shared: Arc<Shared>,
    observer: Observer,
    devices: Devices,
    /// Figures of the current minute so far, from the devices' counters.
    counted: Vec<DeviceFigures>,
    tally: Tally,
    recent: Recent,
    stalls: StallFinder,
    pressure: Option<PressureFigures>,
    unobserved: u64,
    wall: WallClock,
    minute: Summary,
    minute_began: Timestamp,
    /// Complete minutes that are not yet in the history.
    unwritten: Vec<Summary>,
    written_at: Timestamp,
    rings: Option<Rings>,
    budget: Budget,
    /// Kept stalls that are only in memory, oldest first.
    only_in_memory: VecDeque<String>,
    kept_at: VecDeque<Timestamp>,
    tell: fn(&str),
}

impl Watch {
    /// Begins to watch. The watch passes log messages to `tell`.
    ///
    /// # Errors
    /// Returns [`WatchError::Runs`] if a watch is already running, or other errors if its folders or its
    /// history cannot be used.
    pub fn begin(settings: Settings, folders: Folders, tell: fn(&str)) -> Result<Watch, WatchError> {
        let running = folders.begin()?;
        let wall = WallClock::now();
        let now = monotonic();
        let at = wall.of(now);
        let path = folders.rings();
        // A new history file is created when it is first written, so that one journal transaction contains
        // the creation and the write.
        let rings = match path.exists().then(|| Rings::open(&path)) {
            // The medium may be unwritable for a while. A file that another user owns is an error.
            Some(Err(WatchError::File { cause, .. })) if cause.kind() != ErrorKind::Other => None,
            None => None,
            Some(opened) => Some(opened?),
        };
        let mut unwritten = folders.read_unwritten();
        unwritten.truncate(UNWRITTEN_MAX);
        let observer = Observer::begin();
        let mut devices = Devices::new(&settings.devices);
        let (rows, _) = devices.look(at);
        for name in devices.missing() {
            tell(&format!("there is no device {name}; it will be watched when it appears"));
        }
        let limited = observer.limited_because().map(str::to_owned);
        if let Some(because) = &limited {
            tell(&format!("only long waits are observed, but no requests, because {because}"));
        }
        let mut minute = Summary { began: at, ..Summary::default() };
        minute.events.push(Event::Started { at, limited });
        let path = &folders.run;
        running.ready().map_err(WatchError::file(path, "written"))?;
        let began = Duration::from_nanos(monotonic().0);
        let budget = Budget::new(began, settings.write_at_most, settings.write_every, HISTORY_WRITE);
        Ok(Watch {
            stalls: StallFinder::new(settings.stall),
            settings,
            only_in_memory: stall_keeper::names_in(&folders.kept()[0]).into(),
            folders,
            _running: running,
            shared: Arc::new(Shared::default()),
            observer,
            devices,
            counted: rows,
            tally: Tally::default(),
            recent: Recent::new(now),
            pressure: read_pressure(),
            unobserved: 0,
            wall,
            minute,
            minute_began: now,
            unwritten,
            written_at: now,
            rings,
            budget,
            kept_at: VecDeque::new(),
            tell,
        })
    }

    /// Returns the figures for the servers; the watch updates them each minute.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Watches until `stop` is set, then writes the remaining minutes.
    ///
    /// # Errors
    /// Returns [`WatchError`] if the last minutes cannot be written.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), WatchError> {
        let mut looked = monotonic();
        while !stop.load(Ordering::Relaxed) {
            let left = MINUTE.saturating_sub(passed(self.minute_began, monotonic()));
            self.observer.sleep(SLEEP.min(left.max(Duration::from_millis(1))));
            let now = self.take();
            if passed(looked, now) >= LOOK_FOR_OPEN {
                looked = now;
                let mut open = self.observer.open_waits(LOOK_FOR_OPEN);
                open.retain(|wait| !self.observer.party(wait.party).is_trial());
                self.stalls.see_open(&open, now);
            }
            if let Some(stall) = self.stalls.ripe(now) {
                self.tell_stall(&stall, now);
            }
            self.look_at_clock(now);
            if passed(self.minute_began, now) >= MINUTE {
                self.end_minute(now);
                if passed(self.written_at, now) >= self.settings.write_every {
                    self.write(now);
                }
            }
        }
        self.finish()
    }

    /// Reads the observer's new rows. Returns the time at which the rows were read.
    fn take(&mut self) -> Timestamp {
        let mut seen = Vec::new();
        let now = self.observer.drain(&mut |observed| seen.push(observed));
        sort_by_end(&mut seen);
        for observed in &seen {
            self.tally.add(observed, &self.devices);
            self.recent.add(observed);
            if let Observed::Wait(wait) = observed
                && !self.observer.party(wait.party).is_trial()
                && let Some(before) = self.stalls.see(wait)
            {
                self.tell_stall(&before, now);
            }
        }
        self.recent.forget(now);
        now
    }

    fn tell_stall(&mut self, found: &FoundStall, now: Timestamp) {
        self.kept_at.retain(|at| passed(*at, now) < Duration::from_secs(3600));
        let mut told = stall_keeper::tell(
            found,
            (self.wall, now),
            &self.recent,
            &mut self.observer,
            (&self.devices, &mut self.tally),
        );
        if self.kept_at.len() < KEPT_PER_HOUR {
            self.kept_at.push_back(now);
            match stall_keeper::store(&told, &self.recent, &self.folders.kept()[0]) {
                Ok(name) => {
                    told.stall.kept = Some(name.clone());
                    self.only_in_memory.push_back(name);
                }
                Err(error) => (self.tell)(&format!("a stall could not be kept: {error}")),
            }
        }
        self.minute.stalls_in_all += 1;
        self.minute.stalls.push(told.stall);
    }

    /// Checks whether the wall clock was set. If the clock was set for the first time, corrects the times of
    /// earlier minutes.
    fn look_at_clock(&mut self, now: Timestamp) {
        let wall = WallClock::now();
        let Some(by_s) = wall.set_since(self.wall) else {
            // Update the offset, so that slow corrections do not accumulate to a jump.
            self.wall = wall;
            return;
        };
        let before = self.wall.of(now);
        self.wall = wall;
        self.minute.events.push(Event::ClockSet { at: wall.of(now), by_s });
        for summary in &mut self.unwritten {
            summary.clock_was_set(before, by_s);
        }
        self.minute.clock_was_set(before, by_s);
        self.minute.began = self.minute.began.min(wall.of(now));
    }

    fn end_minute(&mut self, now: Timestamp) {
        let at = self.wall.of(now);
        let (rows, events) = self.devices.look(at);
        let mut minute = std::mem::replace(&mut self.minute, Summary { began: at, ..Summary::default() });
        minute.ended = at.max(minute.began);
        minute.watched_s = passed(self.minute_began, now).as_secs();
        minute.events.extend(events);
        if self.observer.limited_because().is_some() {
            minute.limited_s = minute.watched_s;
        }
        let counted = std::mem::take(&mut self.counted);
        counted.iter().chain(&rows).for_each(|row| minute.device(row));
        self.tally.finish(&mut minute, &mut self.observer, &self.devices);
        let pressure = read_pressure();
        minute.pressure = pressure.zip(self.pressure).map(|(new, old)| since(new, old));
        self.pressure = pressure;
        let unobserved = self.observer.unobserved();
        let unobserved = unobserved.requests + unobserved.waits;
        minute.unobserved = unobserved.saturating_sub(self.unobserved);
        self.unobserved = unobserved;
        minute.trim(BOUNDS);
        self.minute_began = now;
        self.shared.add(&minute);
        self.unwritten.push(minute);
        if self.unwritten.len() > UNWRITTEN_MAX {
            let second = self.unwritten.remove(1);
            self.unwritten[0].merge(&second);
            self.unwritten[0].trim(BOUNDS);
        }
        if let Err(error) = self.folders.store_unwritten(&self.unwritten) {
            (self.tell)(&format!("{} cannot be written: {error}", self.folders.run.display()));
        }
    }

    /// Writes the complete minutes to the medium, and then the kept stalls that fit into the budget.
    fn write(&mut self, now: Timestamp) {
        self.written_at = now;
        match self.write_history(now) {
            Ok(()) => self.write_kept(now),
            Err(error) => {
                let why = error.to_string();
                // Report a failure to write the history only once: a full disk stays full for hours.
                let is_new = !matches!(self.unwritten.last().and_then(|minute| minute.events.last()), Some(Event::NotWritten { why: known, .. }) if *known == why);
                if is_new {
                    (self.tell)(&format!("the history stays in memory until the next write, because {why}"));
                }
                self.minute.events.push(Event::NotWritten { at: self.wall.of(now), why });
            }
        }
    }

    fn write_history(&mut self, now: Timestamp) -> Result<(), WatchError> {
        if self.rings.is_none() {
            self.rings = Some(Rings::open(&self.folders.rings())?);
        }
        if let Some(rings) = &mut self.rings {
            // After an error, reopen the file at the next write, because the card or the file may have been
            // removed.
            let written = rings.append(&self.unwritten);
            if written.is_err() || !self.folders.rings().exists() {
                self.rings = None;
            }
            self.budget.note(Duration::from_nanos(now.0), written?);
        }
        self.unwritten.clear();
        self.shared.written(self.budget.spent(Duration::from_nanos(now.0)));
        let _ = self.folders.store_unwritten(&self.unwritten);
        Ok(())
    }

    fn write_kept(&mut self, now: Timestamp) {
        let [memory, medium] = self.folders.kept();
        let at = Duration::from_nanos(now.0);
        let mut left = VecDeque::new();
        for name in std::mem::take(&mut self.only_in_memory) {
            let from = memory.join(&name);
            let Ok(length) = from.metadata().map(|metadata| metadata.len()) else { continue };
            if !self.budget.allows(at, ByteCount(length)) {
                left.push_back(name);
                continue;
            }
            match stall_keeper::copy(&from, &medium, &name) {
                Ok(()) => {
                    self.budget.note(at, ByteCount(length));
                    let _ = fs::remove_file(from);
                }
                Err(error) => {
                    (self.tell)(&error.to_string());
                    left.push_back(name);
                }
            }
        }
        self.only_in_memory = left;
    }

    fn finish(mut self) -> Result<(), WatchError> {
        let now = self.take();
        if let Some(stall) = self.stalls.finish() {
            self.tell_stall(&stall, now);
        }
        self.minute.events.push(Event::Stopped { at: self.wall.of(now) });
        self.end_minute(now);
        self.write_history(now)?;
        self.write_kept(now);
        self.rings.as_ref().map_or(Ok(()), Rings::sync)
    }

    /// Returns the folder of the history, for use in messages.
    pub fn state(&self) -> PathBuf {
        self.folders.state.clone()
    }
}

fn passed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_nanos(to.0.saturating_sub(from.0))
}

fn read_pressure() -> Option<PressureFigures> {
    let read = |resource: &str| Pressure::read(&PathBuf::from("/proc/pressure").join(resource));
    let ms =
        |time: Option<Duration>| time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let io = read("io")?;
    Some(PressureFigures {
        io_some_ms: ms(io.some),
        io_full_ms: ms(io.full),
        memory_some_ms: ms(read("memory").and_then(|memory| memory.some)),
        cpu_some_ms: ms(read("cpu").and_then(|cpu| cpu.some)),
    })
}

fn since(new: PressureFigures, old: PressureFigures) -> PressureFigures {
    PressureFigures {
        io_some_ms: new.io_some_ms.saturating_sub(old.io_some_ms),
        io_full_ms: new.io_full_ms.saturating_sub(old.io_full_ms),
        memory_some_ms: new.memory_some_ms.saturating_sub(old.memory_some_ms),
        cpu_some_ms: new.cpu_some_ms.saturating_sub(old.cpu_some_ms),
    }
}
