//! Records a trace on the phone, and reads it.
//!
//! A shell script on the phone starts `perfetto` and watches its own input. If fonio ends, by `kill -9` too, or if the
//! connection is lost, the input ends; the script then ends `perfetto` and removes the trace. If the script dies as
//! well, `perfetto` ends at the time that its configuration names, and the next recording removes the file.

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
pub struct Captured {
    /// The size of the trace.
    pub bytes: ByteCount,
    /// Whether the user ended the recording before its time.
    pub was_stopped: bool,
}

/// Records the phone for this time, and writes the trace (Perfetto, protocol buffers) to the file `to`. When `stop`
/// becomes true, the recording ends, and what was recorded is read. The trace is removed from the phone.
///
/// # Errors
/// Fails if the phone cannot record, or if the connection is lost.
pub fn capture(
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
    adb.shell(&clean_up(traces))?;
    if stop.load(Ordering::Relaxed) {
        return Err(AndroidError::Stopped);
    }
    let config = Config { duration, size_max: SIZE_MAX };
    let mut running = adb.start_shell(&script(&config.bytes(), &file))?;
    let ended = Ended::watch(running.output());
    let mut was_stopped = false;
    let has_ended = running.wait(duration + GRACE, || ended.code().is_some() || stop.load(Ordering::Relaxed));
    if ended.code().is_none() && stop.load(Ordering::Relaxed) {
        was_stopped = true;
        running.send(b"stop\n");
        let _ = running.wait(GRACE, || ended.code().is_some());
    }
    // The trace stays until it has been read.
    running.send(b"stop\n");
    running.close_input();
    let status = match has_ended {
        Ok(_) => running.wait(SHORT, || false).ok().flatten(),
        Err(_) => None,
    };
    let outcome = match ended.code() {
        Some(0) => read(adb, &file, to),
        Some(code) => Err(AndroidError::Perfetto { code, complaint: running.complaint() }),
        None => Err(AndroidError::Failed {
            words: "shell perfetto".to_owned(),
            complaint: format!("the connection was lost (exit code {})", code(status)),
        }),
    };
    // If the connection is lost, the script has removed the file, or the next recording does.
    let removed = adb.shell(&format!("rm -f {file}"));
    let bytes = outcome?;
    removed?;
    Ok(Captured { bytes, was_stopped })
}

/// Returns a line that removes the traces of recordings that no longer run.
fn clean_up(folder: &str) -> String {
    format!(
        "for file in {folder}/fonio-*.pftrace; do [ -e \"$file\" ] && command -v pgrep >/dev/null && \
         ! pgrep -f \"$file\" >/dev/null && rm -f \"$file\"; done; true"
    )
}

/// Returns the script that records on the phone. A service manager that ends adbd with all its commands sends `TERM` first.
/// `perfetto` gets its configuration on its standard input, because some
/// versions may not read files of the shell.
fn script(config: &[u8], file: &str) -> String {
    let octal: String = config.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!(
        "trap '' HUP\n\
         exec 3<&0\n\
         printf '{octal}' | perfetto -c - -o {file} 3<&- >&2 & recorder=$!\n\
         trap 'kill -TERM $recorder 2>/dev/null; sleep 1; rm -f {file}; exit 143' TERM\n\
         ( read -r word <&3; kill -TERM $recorder 2>/dev/null; \
         [ \"$word\" = stop ] || {{ sleep 3; rm -f {file}; }} ) & \n\
         wait $recorder\n\
         echo \"ended $?\"\n\
         wait\n"
    )
}

/// The end of `perfetto`, which the script reports.
#[derive(Clone, Debug)]
struct Ended(Arc<Mutex<Option<i32>>>);

impl Ended {
    fn watch(output: impl io::Read + Send + 'static) -> Ended {
        let ended = Ended(Arc::default());
        let told = ended.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(code) = line.strip_prefix("ended ").and_then(|code| code.trim().parse().ok()) {
                    *told.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
                }
            }
        });
        ended
    }

    fn code(&self) -> Option<i32> {
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
