//! Records a trace on the phone, and reads it.
//!
//! A shell script on the phone starts `perfetto` and listens to fonio, which says a line each second (`heart.rs`). After
//! the word `stop`, the script ends `perfetto`; after the word `read`, it removes the trace. If fonio is lost, the script
//! does both by itself. If the script is killed as well, `perfetto` ends at the time that its configuration names, and the
//! next recording removes the file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fonio_core::ByteCount;

use crate::adb::{Adb, SHORT, code};
use crate::config::Config;
use crate::error::AndroidError;
use crate::heart::{Heart, SILENCE, listener};
use crate::phone::Phone;

/// The folder in which `perfetto` may write. A shell without root may read and remove its files.
const TRACES: &str = "/data/misc/perfetto-traces";
/// The most bytes that a trace has.
const SIZE_MAX: ByteCount = ByteCount(1 << 30);
/// Time for which the phone may need to end a trace after its duration.
const GRACE: Duration = Duration::from_secs(30);
/// Time limit for reading a trace: a slow cable moves 2 MB/s.
const READ_LIMIT: Duration = Duration::from_secs(600);

/// A trace that was read from the phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    /// The size of the trace.
    pub(crate) bytes: ByteCount,
    /// Whether the user ended the recording before its time.
    pub(crate) was_stopped: bool,
}

/// Records the phone for this time, and writes the trace (Perfetto, protocol buffers) to the file `to`. When `stop`
/// becomes true, the recording ends, and what was recorded is read. The trace is removed from the phone.
///
/// # Errors
/// Fails if the phone cannot record, or if the connection is lost.
pub(crate) fn capture(
    adb: &Adb,
    phone: &Phone,
    duration: Duration,
    to: &Path,
    stop: &AtomicBool,
) -> Result<Captured, AndroidError> {
    capture_in(adb, phone, TRACES, duration, to, stop)
}

/// Records as [`capture`] does; the trace is written to the folder `traces` on the phone.
fn capture_in(
    adb: &Adb,
    phone: &Phone,
    traces: &str,
    duration: Duration,
    to: &Path,
    stop: &AtomicBool,
) -> Result<Captured, AndroidError> {
    phone.check().map_err(|reason| AndroidError::CannotRecord { reason })?;
    let file = format!("{traces}/fonio-{}.pftrace", std::process::id());
    if stop.load(Ordering::Relaxed) {
        return Err(AndroidError::Stopped);
    }
    let config = Config { duration, size_max: SIZE_MAX };
    let mut running = adb.start_shell(&script(&config.bytes(), &file, SILENCE))?;
    let heart = Heart::start(running.input());
    let ended = Ended::watch(running.output());
    let mut was_stopped = false;
    let has_ended = running.wait(duration + GRACE, || ended.get().is_some() || stop.load(Ordering::Relaxed));
    if ended.get().is_none() && stop.load(Ordering::Relaxed) {
        was_stopped = true;
        heart.say("stop");
        let _ = running.wait(GRACE, || ended.get().is_some());
    }
    heart.say("stop");
    // The trace stays until it has been read. The heart beats meanwhile.
    let bytes = (ended.get() == Some(End::Code(0))).then(|| read(adb, &file, to));
    heart.say("read");
    drop(heart);
    let status = match has_ended {
        Ok(_) => running.wait(SHORT, || false).ok().flatten(),
        Err(_) => None,
    };
    let failed = |complaint| AndroidError::Failed { words: "shell perfetto".to_owned(), complaint };
    let outcome = match (bytes, ended.get()) {
        (Some(bytes), _) => bytes,
        (None, Some(End::Code(code))) => Err(AndroidError::Perfetto { code, complaint: running.complaint() }),
        (None, Some(End::HostLost)) => Err(failed(format!(
            "fonio did not run for {} s, so the phone ended the recording and removed the trace",
            SILENCE.as_secs()
        ))),
        (None, None) => Err(failed(format!("the connection was lost (exit code {})", code(status)))),
    };
    // The script has removed the file, unless something has killed it.
    let removed = adb.shell(&format!("rm -f {file}"));
    let bytes = outcome?;
    removed?;
    Ok(Captured { bytes, was_stopped })
}

/// Removes the traces of recordings that no longer run, because the phone was switched off or their scripts were killed.
///
/// # Errors
/// Fails if the connection is lost.
pub(crate) fn remove_left(adb: &Adb) -> Result<(), AndroidError> {
    remove_left_in(adb, TRACES)
}

fn remove_left_in(adb: &Adb, folder: &str) -> Result<(), AndroidError> {
    let line = format!(
        "for file in {folder}/fonio-*.pftrace; do [ -e \"$file\" ] && command -v pgrep >/dev/null && \
         ! pgrep -f \"$file\" >/dev/null && rm -f \"$file\"; done; true"
    );
    adb.shell(&line).map(drop)
}

/// Returns the script that records on the phone. A service manager that ends adbd with all its commands sends `TERM` first, to
/// both shells and to perfetto. If the connection is lost, nobody reads what the script says, so `PIPE` would end it before the
/// trace is removed. `perfetto` gets its configuration on its standard input, because some versions may not read files of the
/// shell.
fn script(config: &[u8], file: &str, silence: Duration) -> String {
    let octal: String = config.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!(
        "trap '' HUP PIPE\n\
         {}\
         printf '{octal}' | perfetto -c - -o {file} 3<&- >&2 & recorder=$!\n\
         trap 'kill -TERM $recorder 2>/dev/null; sleep 1; rm -f {file}; exit 143' TERM\n\
         ( trap 'rm -f {file}; exit 143' TERM; listen stop || echo lost; kill -TERM $recorder 2>/dev/null; \
         [ \"$word\" = stop ] && listen read || sleep 1; rm -f {file} ) & \n\
         wait $recorder\n\
         echo \"ended $?\"\n\
         wait\n",
        listener(silence)
    )
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The exit code of `perfetto`.
    Code(i32),
    /// The script heard nothing of fonio, and ended the recording.
    HostLost,
}

/// The end of the recording, which the script reports.
#[derive(Clone, Debug)]
struct Ended(Arc<Mutex<Option<End>>>);

impl Ended {
    fn watch(output: impl io::Read + Send + 'static) -> Ended {
        let ended = Ended(Arc::default());
        let told = ended.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let code = line.strip_prefix("ended ").and_then(|code| code.trim().parse().ok());
                let end = if line.trim() == "lost" { Some(End::HostLost) } else { code.map(End::Code) };
                if let Some(end) = end {
                    told.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
                }
            }
        });
        ended
    }

    fn get(&self) -> Option<End> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies a file of the phone to a file here.
fn read(adb: &Adb, from: &str, to: &Path) -> Result<ByteCount, AndroidError> {
    let mut file = File::create(to).map_err(AndroidError::file("write", to))?;
    let mut running = adb.start_shell(&format!("cat {from}"))?;
    running.close_input();
    let mut output = running.output();
    let copied = thread::spawn(move || {
        let copied = io::copy(&mut output, &mut file)?;
        file.flush()?;
        Ok::<u64, io::Error>(copied)
    });
    let status = running.wait(READ_LIMIT, || false);
    let copied = copied.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let words = || "shell cat".to_owned();
    match status {
        Err(_) => Err(AndroidError::NoAnswer { words: words(), limit: READ_LIMIT }),
        Ok(status) if code(status) != 0 => {
            let complaint = running.complaint().trim_start_matches(": ").to_owned();
            Err(AndroidError::Failed { words: words(), complaint })
        }
        Ok(_) => match copied.map_err(AndroidError::file("write", to))? {
            0 => Err(AndroidError::CannotRecord { reason: "its trace is empty".to_owned() }),
            bytes => Ok(ByteCount(bytes)),
        },
    }
}

#[cfg(test)]
mod tests;
