//! Records a phone, for `fonio record --in android` and `fonio check --in android`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fonio_android::{Adb, Phone, capture};
use fonio_core::RowSink;
use fonio_recording::Writer;
use fonio_system::progress::{Done, Progress};
use fonio_system::say;

use crate::cli::{Android, Reading, Record};
use crate::exit::Exit;
use crate::filter::UntilStopped;
use crate::input::Subject;
use crate::{output, results, signals};

/// The longest recording that only Ctrl-C ends.
const LONGEST: Duration = Duration::from_secs(3600);

/// Implements `fonio record --in android`.
pub fn run(place: &Android, arguments: &Record) -> Result<Exit> {
    let stop = signals::watch()?;
    let requests = record(place, arguments.time, &arguments.out, arguments.overwrite, &stop)?;
    let out = arguments.out.display();
    writeln!(
        output::screen(),
        "Recorded {requests} requests of the phone to {out}.\nNext: fonio report {out}"
    )?;
    Ok(Exit::Fine)
}

/// Records the phone, and writes the recording to the new folder `out`. Returns the number of its requests.
pub fn record(
    place: &Android,
    duration: Option<Duration>,
    out: &Path,
    overwrite: bool,
    stop: &AtomicBool,
) -> Result<u64> {
    let adb = Adb::connect(place.serial.as_deref())?;
    let phone = Phone::ask(&adb)?;
    say!("{} ({}). {}", phone.name(), adb.serial(), phone.way());
    let trace = tempfile::Builder::new()
        .prefix("fonio-phone-")
        .suffix(".pftrace")
        .tempfile()
        .context("cannot create a temporary file for the trace; name a folder with TMPDIR=/folder")?;
    let done = duration.map_or(Done::Unknown, Done::Lasting);
    let until = if duration.is_none() { " until Ctrl-C, at most 1 h" } else { "" };
    let shown = Progress::of(format!("Recording the phone{until}"), done);
    let captured = capture(&adb, &phone, duration.unwrap_or(LONGEST), trace.path(), stop)?;
    drop(shown);
    // Ctrl-C ended only the recording. From now on, it ends reading, too.
    stop.store(false, Ordering::Relaxed);
    match import(trace.path(), out, overwrite, stop) {
        Ok(requests) => Ok(requests),
        Err(error) if captured.bytes.0 > 0 && !stop.load(Ordering::Relaxed) => {
            let (_, kept) = trace.keep().context("cannot keep the trace")?;
            bail!("{error:#}; the trace itself is kept: {}", kept.display())
        }
        Err(error) => Err(error),
    }
}

fn import(trace: &Path, out: &Path, overwrite: bool, stop: &AtomicBool) -> Result<u64> {
    let subject = Subject::resolve(&[PathBuf::from(trace)])?;
    let mut writer = Writer::create(out, results::recording(overwrite))?;
    let mut until_stopped = UntilStopped::new(&mut writer, stop);
    let meta = subject.pour_unordered(&Reading::default(), &mut until_stopped as &mut dyn RowSink)?;
    let meta = writer.finish(meta)?;
    Ok(meta.rows.get("requests").copied().unwrap_or(0))
}
