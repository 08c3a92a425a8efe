//! Records with Android's own `atrace`, for phones whose Perfetto may not record.
//!
//! A shell script on the phone starts an asynchronous trace and listens to fonio (`heart.rs`). After `stop`, it prints the
//! trace, which is compressed. If fonio is lost, the script ends the trace.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::ByteCount;

use crate::adb::{Adb, code};
use crate::error::AndroidError;
use crate::heart::{Heart, SILENCE, listener};
use crate::phone::Phone;

/// The categories of atrace that show storage, blocked threads and launches.
const WANTED: [&str; 6] = ["disk", "sched", "am", "wm", "view", "gfx"];
/// Memory of the kernel per processor. When it is full, the oldest events are overwritten.
const BUFFER_KIB: u32 = 16 << 10;
/// Time limit for reading a trace.
const READ_LIMIT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(50);

/// Returns the categories that this phone lets its shell record. The inner error is the reason why there are none.
pub(crate) fn categories(
    adb: &Adb,
    phone: &Phone,
) -> Result<Result<Vec<&'static str>, String>, AndroidError> {
    if !phone.has_atrace {
        return Ok(Err("it has no program `atrace`".to_owned()));
    }
    let answer = adb.shell("atrace --list_categories")?;
    let found = parse(&answer.out);
    if found.contains(&"disk") || found.contains(&"sched") {
        return Ok(Ok(found));
    }
    Ok(Err("its atrace lets the shell record neither disk nor sched".to_owned()))
}

fn parse(text: &str) -> Vec<&'static str> {
    let named: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" - ")).map(|(name, _)| name.trim()).collect();
    WANTED.into_iter().filter(|wanted| named.contains(wanted)).collect()
}

/// Records the phone for this time, and writes the trace to the file `to`. Returns its size, and whether the user ended
/// the recording before its time.
pub(crate) fn record(
    adb: &Adb,
    categories: &[&str],
    duration: Duration,
    to: &Path,
    stop: &AtomicBool,
) -> Result<(ByteCount, bool), AndroidError> {
    let mut file = File::create(to).map_err(AndroidError::file("write", to))?;
    let mut running = adb.start_shell(&script(categories))?;
    let heart = Heart::start(running.input());
    let mut output = running.output();
    let copied = thread::spawn(move || {
        let copied = io::copy(&mut output, &mut file)?;
        file.flush()?;
        Ok::<u64, io::Error>(copied)
    });
    let until = Instant::now() + duration;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) && !copied.is_finished() {
        thread::sleep(LOOK);
    }
    let was_stopped = Instant::now() < until && stop.load(Ordering::Relaxed);
    heart.say("stop");
    let status = running.wait(READ_LIMIT, || false);
    let words = || "shell atrace".to_owned();
    let status = status.map_err(|_| AndroidError::NoAnswer { words: words(), limit: READ_LIMIT })?;
    let copied = copied.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let bytes = copied.map_err(AndroidError::file("write", to))?;
    if code(status) != 0 {
        let complaint = running.complaint();
        let complaint = format!("exit code {}{complaint}", code(status));
        return Err(AndroidError::Failed { words: words(), complaint });
    }
    Ok((ByteCount(bytes), was_stopped))
}

/// Returns the script that records on the phone.
fn script(categories: &[&str]) -> String {
    format!(
        "trap '' HUP PIPE\n\
         trap 'atrace --async_stop >/dev/null 2>&1; exit 143' TERM\n\
         {}\
         atrace --async_start -b {BUFFER_KIB} {} >&2 || exit $?\n\
         if listen stop; then atrace -z --async_stop; else atrace --async_stop >/dev/null 2>&1; fi\n",
        listener(SILENCE),
        categories.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_those_of_the_phone() {
        // The text is that of AOSP's atrace.
        let text = "         gfx - Graphics\n       input - Input\n        view - View System\n          am - Activity \
                    Manager\n       sched - CPU Scheduling\n";
        assert_eq!(parse(text), ["sched", "am", "view", "gfx"]);
        assert_eq!(parse("        disk - Disk I/O\n"), ["disk"]);
        assert_eq!(parse("atrace: not found\n"), [] as [&str; 0]);
    }
}
