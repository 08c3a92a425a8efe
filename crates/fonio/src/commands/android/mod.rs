//! Records a phone, for `fonio record --in android` and `fonio check --in android`.

pub mod launch;
pub mod script;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fonio_android::{Adb, AppIo, Phone, Root, Step, Wanted};
use fonio_core::{DeviceKind, RowSink};
use fonio_input::UntilStopped;
use fonio_machine::{Machine, StorageDevice};
use fonio_recording::Writer;
use fonio_system::progress::{Done, Progress};
use fonio_system::say;
use tempfile::TempDir;

use crate::cli::{Android, Reading, Record};
use crate::commands::status;
use crate::exit::Exit;
use crate::{input, output, results, signals, temporary};

/// The longest recording that only Ctrl-C ends.
const LONGEST: Duration = Duration::from_secs(3600);

/// Implements `fonio record --in android`.
pub fn run(place: &Android, recorder: Option<&Path>, arguments: &Record) -> Result<Exit> {
    let stop = signals::watch()?;
    let wish = Wish { duration: arguments.time, recorder, overwrite: arguments.overwrite };
    let out = arguments.out.display();
    let Some(requests) = record(place, wish, &arguments.out, &stop)? else { return Ok(Exit::Fine) };
    let what = if requests == 0 {
        "the phone, without requests,".to_owned()
    } else {
        format!("{requests} requests of the phone")
    };
    writeln!(output::screen(), "Recorded {what} to {out}.\nNext: fonio report {out}")?;
    Ok(Exit::Fine)
}

/// How to record a phone.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The length; `None` to record until Ctrl-C.
    pub duration: Option<Duration>,
    /// The recorder that the user named.
    pub recorder: Option<&'a Path>,
    pub overwrite: bool,
}

/// Records the phone in the best way that it allows, and writes the recording to the new folder `out`. Returns the
/// number of its requests; `None` if the phone shows only what its apps did, which is printed then.
pub fn record(place: &Android, wish: Wish<'_>, out: &Path, stop: &AtomicBool) -> Result<Option<u64>> {
    let connected = Connected::open(place)?;
    let done = wish.duration.map_or(Done::Unknown, Done::Lasting);
    let until = if wish.duration.is_none() { " until Ctrl-C, at most 1 h" } else { "" };
    let shown = Progress::of(format!("Recording the phone{until}"), done);
    let recorder = Recorder::Found(wish.recorder);
    let recorded = connected.capture(wish.duration.unwrap_or(LONGEST), recorder, stop, &mut |_| {})?;
    drop(shown);
    // Ctrl-C ended only the recording. From now on, it ends reading, too.
    stop.store(false, Ordering::Relaxed);
    connected.keep(recorded, out, wish.overwrite, stop)
}

/// The use of fonio's recorder.
#[derive(Clone, Copy, Debug)]
enum Recorder<'a> {
    /// It is used if it is found: the file that the user named, or one that came with fonio.
    Found(Option<&'a Path>),
    /// It is not used, for this reason.
    Left(&'static str),
}

/// A phone, and what is known of it.
struct Connected {
    adb: Adb,
    phone: Phone,
    root: Result<Root, String>,
    devices: Vec<StorageDevice>,
    /// A temporary folder for what is read from the phone.
    folder: TempDir,
}

/// Time from the start of a recording until it shows everything.
const BEGINS: Duration = Duration::from_secs(3);

impl Connected {
    /// Finds the phone, and prints what it is and the wear of its storage.
    fn open(place: &Android) -> Result<Connected> {
        let (adb, phone) = connect(place)?;
        let folder = temporary::folder("fonio-phone")
            .context("cannot create a temporary folder for the trace; name one with TMPDIR=/folder")?;
        let root = Root::ask(&adb, &phone)?;
        let devices = devices(&adb, root.as_ref().ok().copied(), &folder.path().join("description"))?;
        Ok(Connected { adb, phone, root, devices, folder })
    }

    /// Records in the best way that the phone allows. `tell` hears of each step, which is also printed.
    fn capture(
        &self,
        duration: Duration,
        recorder: Recorder<'_>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&Step),
    ) -> Result<fonio_android::Recorded> {
        let find = |abi: &str| match recorder {
            Recorder::Found(named) => fonio_android::find_recorder(named, &recorder_folders(), abi),
            Recorder::Left(reason) => Err(reason.to_owned()),
        };
        let wanted = Wanted { duration, root: &self.root, folder: self.folder.path(), recorder: &find, stop };
        let recorded = fonio_android::record(&self.adb, &self.phone, &wanted, &mut |step| {
            match &step {
                Step::Refused(way, reason) => say!("Not by {way}: {reason}."),
                Step::Taken(way, shows) => say!("By {way}. {shows}"),
                Step::Begins => say!("The recording begins."),
            }
            tell(&step);
        })?;
        if recorded.is_short {
            say!("The recording ended early, because the recorder's buffer was full.");
        }
        show_apps(&recorded.apps)?;
        Ok(recorded)
    }

    /// Writes the recording. If that fails, what the phone recorded is kept.
    fn keep(
        self,
        recorded: fonio_android::Recorded,
        out: &Path,
        overwrite: bool,
        stop: &AtomicBool,
    ) -> Result<Option<u64>> {
        let Some(input) = &recorded.input else { return Ok(None) };
        match import(input, &self.phone, &self.devices, out, overwrite, stop) {
            Ok(requests) => Ok(Some(requests)),
            Err(error) if !stop.load(Ordering::Relaxed) => {
                let kept = temporary::keep(self.folder).join(input.file_name().unwrap_or_default());
                bail!("{error:#}; what the phone recorded is kept: {}", kept.display())
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads what the phone says of its devices, and prints their wear.
fn devices(adb: &Adb, root: Option<Root>, folder: &Path) -> Result<Vec<StorageDevice>> {
    let storage = fonio_android::describe_storage(adb, root, folder)?;
    let machine = Machine::at(folder);
    let mut devices = fonio_machine::storage_devices_of(&machine);
    for device in devices.iter_mut().filter(|device| device.kind == DeviceKind::DeviceMapper) {
        // Such as `userdata`. On a phone, the names of mapped devices are those of its partitions.
        let name = device.device.name.clone().unwrap_or_default();
        device.device.model = fonio_machine::read_text(&machine.sys("block").join(name).join("dm/name"));
    }
    let is_shown = |device: &&StorageDevice| device.flash && device.device.below.is_empty();
    for device in devices.iter().filter(is_shown) {
        let name = device.device.name.as_deref().unwrap_or("?");
        let model = device.device.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
        let health = device.health.as_ref().map(status::health_line).filter(|line| !line.is_empty());
        let health = health.unwrap_or_else(|| "health unknown".to_owned());
        say!("{name} ({}{model}): {health}.", device.kind.label());
    }
    if !storage.has_disks {
        say!("The health of the phone's storage is unknown: the phone shows no block devices (/sys/block).");
    }
    let refused: Vec<&str> =
        storage.refused.iter().map(String::as_str).filter(|path| is_health(path)).collect();
    if !refused.is_empty() {
        say!("The phone refused to show {}.", refused.join(", "));
    }
    Ok(devices)
}

/// Returns whether a file of sysfs has something about the wear of a device, or about all devices.
fn is_health(path: &str) -> bool {
    path == "/sys/block"
        || path.contains("/health_descriptor/")
        || ["life_time", "pre_eol_info", "manfid", "date"]
            .iter()
            .any(|name| path.ends_with(&format!("/{name}")))
}

/// Returns the folders in which fonio looks for the recorder: that of this program, and in the sources, that of the
/// programs to distribute.
fn recorder_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let sources = folder.and_then(Path::parent).map(|target| target.join("dist"));
    folder.map(Path::to_owned).into_iter().chain(sources).collect()
}

/// Prints what apps did, by the phone's counters.
fn show_apps(apps: &[AppIo]) -> Result<()> {
    if apps.is_empty() {
        return Ok(());
    }
    // Standard output belongs to the report.
    let mut out = output::errors();
    writeln!(out, "By the phone's counters (/proc/uid_io/stats), apps read, wrote and synced:")?;
    writeln!(out, "{:>10}  {:>10}  {:>6}  App", "Read", "Written", "Syncs")?;
    for app in apps.iter().take(APPS_SHOWN) {
        let name = match &app.packages[..] {
            [] => format!("user id {}", app.uid),
            packages => packages.join(", "),
        };
        writeln!(
            out,
            "{:>10}  {:>10}  {:>6}  {name}",
            output::bytes(app.read),
            output::bytes(app.written),
            app.syncs
        )?;
    }
    Ok(())
}

/// The number of apps that are shown.
const APPS_SHOWN: usize = 20;

/// Finds the phone, and says what it is.
fn connect(place: &Android) -> Result<(Adb, Phone)> {
    let adb = Adb::connect(place.serial.as_deref())?;
    let phone = Phone::ask(&adb)?;
    say!("{} ({}).", phone.name(), adb.serial());
    Ok((adb, phone))
}

fn import(
    trace: &Path,
    phone: &Phone,
    devices: &[StorageDevice],
    out: &Path,
    overwrite: bool,
    stop: &AtomicBool,
) -> Result<u64> {
    let subject = input::resolve(&[trace.to_owned()])?;
    let mut writer = Writer::create(out, results::recording(overwrite))?;
    let mut until_stopped = UntilStopped::new(&mut writer, stop);
    let mut meta =
        subject.pour_unordered(&Reading::default().settings(), &mut until_stopped as &mut dyn RowSink)?;
    // The file of the trace is removed.
    meta.source.files = vec![phone.name()];
    // A trace has no more than numbers and names of devices; the recorder describes them itself.
    for known in &mut meta.devices {
        let described = devices.iter().find(|described| described.device.id == known.id);
        let Some(described) = described else { continue };
        if known.size_bytes.is_none() {
            *known = described.device.clone();
        } else if known.model.is_none() {
            known.model.clone_from(&described.device.model);
        }
    }
    let meta = writer.finish(meta)?;
    Ok(meta.rows.get("requests").copied().unwrap_or(0))
}
