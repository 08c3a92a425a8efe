//! Implements `fonio watch run --in android` and `fonio watch status --in android`: the counters of a phone over days.
//!
//! The history is the same as that of the watch of this machine, in a folder of the phone's own, so `fonio watch report` shows
//! it too.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fonio_android::{Adb, AndroidError, AppIo, CounterReader, Phone, Root, describe_storage};
use fonio_core::quantity::Unit;
use fonio_core::{ByteCount, printable};
use fonio_machine::{Machine, StorageDevice, storage_devices_of};
use fonio_record::observer::{Party, PartyKind};
use fonio_system::state;
use fonio_watch::answers::{self, WearAnswer};
use fonio_watch::summary::{OTHERS, PartyFigures, Traffic};
use fonio_watch::{CountedWatch, Folders, History, Reading, Settings};
use serde::Serialize;

use super::{history, tell};
use crate::cli::Android;
use crate::cli::watch::{Place, Status};
use crate::exit::{self, Exit};
use crate::{output, signals, temporary};

/// Time between two readings.
const MINUTE: Duration = Duration::from_secs(60);
/// Time between two attempts to find a phone that was unplugged.
const AGAIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
/// Number of readings after which the devices and their wear are read anew: an hour.
const DESCRIBED_EVERY: u32 = 60;
/// The device of an app's bytes, if the phone has several disks, or shows none.
const STORAGE: &str = "storage";
const APPS_SHOWN: usize = 5;
pub(super) const STALLS_UNKNOWN: &str =
    "A phone shows the watch no requests and no waits, so stalls are unknown";
pub(super) const NEXT: &str = "fonio check --in android (records requests and blocked threads)";
const DAY_S: i64 = 24 * 3600;

/// Returns the folder that has a folder for each watched phone.
fn phones() -> Result<PathBuf> {
    let folder = state::lasting_folder();
    let folder = folder.context("cannot find a folder for the history; name one with --state DIR")?;
    Ok(folder.join("phones"))
}

/// Returns the folders of a phone's watch.
fn folders(place: &Place, serial: &str) -> Result<Folders> {
    let name: String = serial
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect();
    let mut folders = place.paths().folders()?;
    if place.state.is_none() {
        folders.state = phones()?.join(&name);
    }
    if place.run.is_none() {
        folders.run = state::folder().join("phones").join(&name);
    }
    Ok(folders)
}

/// A phone that is connected.
struct Connected {
    adb: Adb,
    root: Option<Root>,
    reader: CounterReader,
    /// The phone's description of its storage.
    folder: tempfile::TempDir,
    /// The number of readings since the description.
    readings: u32,
}

impl Connected {
    fn open(serial: Option<&str>) -> Result<Connected> {
        let adb = Adb::connect(serial)?;
        let phone = Phone::ask(&adb)?;
        let root = Root::ask(&adb, &phone)?.ok();
        let reader = match CounterReader::new(&adb, root)? {
            Ok(reader) => reader,
            Err(reason) => bail!("{} cannot be watched: {reason}", phone.name()),
        };
        let folder = temporary::folder("fonio-phone");
        let folder = folder.context("cannot create a temporary folder; name one with TMPDIR=/folder")?;
        Ok(Connected { adb, root, reader, folder, readings: 0 })
    }

    fn read(&mut self) -> Result<Reading, AndroidError> {
        if self.readings.is_multiple_of(DESCRIBED_EVERY) {
            describe_storage(&self.adb, self.root, self.folder.path())?;
            self.reader.forget_names();
        }
        self.readings = self.readings.wrapping_add(1);
        let now = self.reader.read(&self.adb, self.folder.path())?;
        let devices = storage_devices_of(&Machine::at(self.folder.path()));
        let device = only_disk(&devices).unwrap_or(STORAGE).to_owned();
        let parties = now.apps.iter().map(|app| party(app, &device)).collect();
        Ok(Reading { boot: now.boot, devices, parties })
    }
}

/// Returns the name of the only disk with counters.
fn only_disk(devices: &[StorageDevice]) -> Option<&str> {
    let mut disks = devices
        .iter()
        .filter(|device| !device.kind.is_layer() && device.written_bytes.is_some_and(|bytes| bytes.0 > 0));
    match (disks.next(), disks.next()) {
        (Some(disk), None) => disk.device.name.as_deref(),
        _ => None,
    }
}

fn party(app: &AppIo, device: &str) -> PartyFigures {
    let name = match &app.packages[..] {
        [] => format!("user id {}", app.uid),
        packages => packages.join(", "),
    };
    PartyFigures {
        party: Party { name, kind: PartyKind::Unit },
        device: device.to_owned(),
        traffic: Traffic { read_bytes: app.read, written_bytes: app.written, ..Traffic::default() },
    }
}

/// Watches the phone until a signal. If it is unplugged, waits for it.
pub(super) fn watch(phone: &Android, place: &Place) -> Result<Exit> {
    let settings = Settings::read(place.config.as_deref())?;
    let stop = signals::watch()?;
    let mut connected = Connected::open(phone.serial.as_deref())?;
    let serial = connected.adb.serial().to_owned();
    let folders = folders(place, &serial)?;
    let mut watch = CountedWatch::begin(&settings, folders.clone(), tell)?;
    tell(&format!(
        "watching the phone {serial}; the history is in {}, and `fonio watch status --in android:{serial}` shows it. {}",
        folders.state.display(),
        connected.reader.shows()
    ));
    while !stop.load(Ordering::Relaxed) {
        match connected.read() {
            Ok(reading) => {
                watch.note(reading);
                sleep(MINUTE, &stop);
            }
            Err(error) => {
                tell(&format!("the phone does not answer; fonio waits for it: {error}"));
                match wait_for(&serial, &stop) {
                    Some(found) => connected = found,
                    None => break,
                }
                tell("the phone answers again");
            }
        }
    }
    // The time since the last reading counts, too.
    if let Ok(reading) = connected.read() {
        watch.note(reading);
    }
    if let Err(error) = watch.finish() {
        tell(&format!("{error}; the last minutes stay in memory, and the next watch stores them"));
        return Ok(Exit::Command(exit::usage(false)));
    }
    Ok(Exit::Fine)
}

/// Waits until the phone is connected again; returns nothing if a signal came.
fn wait_for(serial: &str, stop: &AtomicBool) -> Option<Connected> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(connected) = Connected::open(Some(serial)) {
            return Some(connected);
        }
        sleep(AGAIN, stop);
    }
    None
}

fn sleep(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
}

/// The state of the watch of a phone, as JSON output.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    runs: bool,
    watched_s: u64,
    wear: WearAnswer,
    apps: Vec<App>,
}

/// What an app read and wrote.
#[derive(Serialize)]
struct App {
    app: String,
    read_bytes: ByteCount,
    written_bytes: ByteCount,
}

/// Returns the folders and the history of a phone that was watched.
pub(super) fn watched(phone: &Android, place: &Place) -> Result<(Folders, History)> {
    let serial = match &phone.serial {
        Some(serial) => serial.clone(),
        None if place.state.is_some() => String::new(),
        None => only_watched()?,
    };
    let folders = folders(place, &serial)?;
    let history = history::history_of(&folders)?;
    if history::history_is_empty(&history) && folders.runs().is_none() {
        bail!(
            "no watch of the phone has run here ({}); start one with `fonio watch run --in android`",
            folders.state.display()
        );
    }
    Ok((folders, history))
}

/// Shows the watch of a phone.
pub(super) fn show(phone: &Android, arguments: &Status) -> Result<Exit> {
    let place = &arguments.place;
    let (folders, history) = watched(phone, place)?;
    let is_empty = history::history_is_empty(&history);
    let since = history::now()? - DAY_S;
    let settings = Settings::read(place.config.as_deref())?;
    let sum = history.sum_since(since);
    let document = Document {
        schema: "fonio.watch-phone/1",
        runs: folders.runs().is_some(),
        watched_s: sum.watched_s,
        wear: answers::wear(&history, since, &settings.endurance),
        apps: apps(&sum.parties),
    };
    let exit = if is_empty { Exit::NotValid } else { Exit::Fine };
    if arguments.json {
        output::json(&document)?;
        return Ok(exit);
    }
    let mut out = output::screen();
    if is_empty {
        writeln!(out, "The watch started less than a minute ago; run this again after its first minute.")?;
        return Ok(exit);
    }
    let state = match document.runs {
        true => "The watch runs.",
        false => "No watch runs; `fonio watch run --in android` starts one.",
    };
    writeln!(
        out,
        "{state} It has watched {} of the last 24 hours.",
        Unit::S.format(document.watched_s as f64)
    )?;
    for line in document.wear.verdict.lines() {
        writeln!(out, "• {}", printable(line))?;
    }
    if !document.apps.is_empty() {
        writeln!(out, "• Apps that wrote most:")?;
    }
    for app in document.apps.iter().take(APPS_SHOWN) {
        let (written, read) = (output::bytes(app.written_bytes), output::bytes(app.read_bytes));
        writeln!(out, "  {written:>10} written, {read:>10} read  {}", printable(&app.app))?;
    }
    writeln!(out, "! {STALLS_UNKNOWN}.")?;
    document.wear.notes.iter().take(2).try_for_each(|note| writeln!(out, "! {}", printable(note)))?;
    writeln!(out, "Next: {NEXT}")?;
    Ok(exit)
}

/// Returns the serial number of the only phone that was watched.
fn only_watched() -> Result<String> {
    let folder = phones()?;
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut serials: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    serials.sort();
    match &serials[..] {
        [] => bail!("no watch of a phone has run here; start one with `fonio watch run --in android`"),
        [serial] => Ok(serial.clone()),
        _ => bail!("several phones were watched; name one: --in android:SERIAL with {}", serials.join(", ")),
    }
}

/// Sums what each app did on all devices, those that wrote most first.
fn apps(parties: &[PartyFigures]) -> Vec<App> {
    let mut apps: Vec<App> = Vec::new();
    for row in parties.iter().filter(|row| row.party.name != OTHERS) {
        match apps.iter_mut().find(|app| app.app == row.party.name) {
            Some(app) => {
                app.read_bytes += row.traffic.read_bytes;
                app.written_bytes += row.traffic.written_bytes;
            }
            None => apps.push(App {
                app: row.party.name.clone(),
                read_bytes: row.traffic.read_bytes,
                written_bytes: row.traffic.written_bytes,
            }),
        }
    }
    apps.sort_by(|a, b| {
        (b.written_bytes, b.read_bytes, &a.app).cmp(&(a.written_bytes, a.read_bytes, &b.app))
    });
    apps
}
