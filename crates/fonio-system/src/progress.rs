//! Reports the progress of long work on standard error. On a terminal, a single line is updated. Otherwise, a
//! line is written every ten seconds. These lines show in a log that the work continues.
//!
//! [`say!`](crate::say) prints a sentence without damaging the progress line.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fonio_core::{Unit, printable, printable_line};

/// Delay before progress is shown on a terminal. Without it, lines that appear only briefly would distract
/// the user.
const SILENCE: Duration = Duration::from_secs(2);
/// Time between two updates of the line on a terminal.
const REDRAW: Duration = Duration::from_millis(500);
/// Time between two progress lines if the output is not a terminal.
const EVERY: Duration = Duration::from_secs(10);
/// Erases the progress line on a terminal.
const CLEAR: &str = "\r\x1b[K";

/// Whether the terminal shows a progress line now.
static IS_DRAWN: Mutex<bool> = Mutex::new(false);

/// Prints a sentence on standard error. Standard error may be closed. Characters that could command the
/// terminal are escaped, because errors contain names of foreign files.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::progress::say(::std::format_args!($($text)*)) };
}

/// Prints a sentence on standard error; see [`say!`](crate::say).
pub fn say(text: fmt::Arguments<'_>) {
    let mut is_drawn = lock(&IS_DRAWN);
    let clear = if *is_drawn { CLEAR } else { "" };
    *is_drawn = false;
    // Ignore write errors: standard error may be closed, but the work continues.
    let _ = writeln!(io::stderr().lock(), "{clear}{}", printable_line(&text.to_string()));
}

/// Draws the progress line on the terminal. An empty `line` removes the old line.
fn draw(line: &str) {
    let mut is_drawn = lock(&IS_DRAWN);
    if line.is_empty() && !*is_drawn {
        return;
    }
    *is_drawn = !line.is_empty();
    // Cut the line to the width of the terminal, because a wrapped line could not be overwritten by the next
    // line.
    let columns = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    let shown: String = printable(line).chars().take(columns.saturating_sub(1)).collect();
    let mut err = io::stderr().lock();
    let _ = write!(err, "{CLEAR}{shown}").and_then(|()| err.flush());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Progress display of one task, shown until dropped.
#[derive(Debug)]
pub struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    work: Mutex<Work>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Work {
    phase: String,
    done: Done,
    /// The time at which the work measured by `done` began.
    began: Instant,
    ends_by: Option<Instant>,
}

/// The completed part of the work.
#[derive(Clone, Debug)]
pub enum Done {
    /// Only the elapsed time is known.
    Unknown,
    /// The number of completed steps and the total number of steps. The steps take about equally long.
    Steps(u64, u64),
    /// The number of processed bytes, which other code counts, and the total number of bytes.
    Bytes(Arc<AtomicU64>, Option<u64>),
    /// The total duration of the work.
    Lasting(Duration),
}

impl Progress {
    /// Begins to show the progress of work.
    pub fn of(phase: impl Into<String>, done: Done) -> Progress {
        let work = Work { phase: phase.into(), done, began: Instant::now(), ends_by: None };
        let shared = Arc::new(Shared { work: Mutex::new(work), is_over: AtomicBool::new(false) });
        let is_terminal = io::stderr().is_terminal();
        let of_thread = Arc::clone(&shared);
        Progress { shared, thread: Some(std::thread::spawn(move || follow(&of_thread, is_terminal))) }
    }

    /// Begins to show the progress of work of unknown duration.
    pub fn phase(phase: impl Into<String>) -> Progress {
        Progress::of(phase, Done::Unknown)
    }

    /// Shows the next state of the work. If the kind of progress differs from the kind of the last state, the
    /// measured time restarts.
    pub fn set(&self, phase: impl Into<String>, done: Done) {
        let mut work = lock(&self.shared.work);
        if std::mem::discriminant(&work.done) != std::mem::discriminant(&done) {
            work.began = Instant::now();
        }
        work.phase = phase.into();
        work.done = done;
    }

    /// Announces that the work will end within the time `left`.
    pub fn ends_within(&self, left: Duration) {
        lock(&self.shared.work).ends_by = Some(Instant::now() + left);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic of the drawing thread has already been printed and does not affect the result.
            let _ = thread.join();
        }
    }
}

fn follow(shared: &Shared, is_terminal: bool) {
    let mut next = Instant::now() + if is_terminal { SILENCE } else { EVERY };
    while !shared.is_over.load(Ordering::Relaxed) {
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
        if Instant::now() < next {
            continue;
        }
        let line = lock(&shared.work).line(Instant::now());
        if is_terminal {
            draw(&line);
        } else {
            say!("{line}");
        }
        next = Instant::now() + if is_terminal { REDRAW } else { EVERY };
    }
    if is_terminal {
        draw("");
    }
}

impl Work {
    /// Returns the line to show: the phase, the progress, and the remaining time at the present speed.
    fn line(&self, now: Instant) -> String {
        let took = now.saturating_duration_since(self.began);
        let bytes = |count: u64| Unit::Bytes.format(count as f64);
        let (done, share) = match &self.done {
            Done::Unknown => (format!("{} so far", whole_seconds(took)), None),
            Done::Steps(done, all) => {
                (format!("{done} of {all} done"), Some(*done as f64 / (*all).max(1) as f64))
            }
            Done::Bytes(done, all) => {
                let done = done.load(Ordering::Relaxed);
                match all {
                    Some(all) => (
                        format!("{} of {}", bytes(done), bytes(*all)),
                        Some(done as f64 / (*all).max(1) as f64),
                    ),
                    None => (bytes(done), None),
                }
            }
            Done::Lasting(all) => {
                let share = took.as_secs_f64() / all.as_secs_f64().max(1e-9);
                (format!("{} of {}", whole_seconds(took.min(*all)), whole_seconds(*all)), Some(share))
            }
        };
        let left = match (self.ends_by, share) {
            (Some(by), _) => {
                format!(", at most {} left", rounded(by.saturating_duration_since(now).as_secs_f64()))
            }
            (None, Some(share)) if share > 0.0 && share < 1.0 => {
                format!(", about {} left", rounded(took.as_secs_f64() * (1.0 - share) / share))
            }
            _ => String::new(),
        };
        format!("{}: {done}{left}", self.phase)
    }
}

fn whole_seconds(time: Duration) -> String {
    Unit::S.format(time.as_secs_f64().round())
}

/// Rounds a time to full minutes if it is at least two minutes, otherwise to tens of seconds.
pub fn rounded(seconds: f64) -> String {
    if seconds >= 120.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.0} s", (seconds / 10.0).ceil() * 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_left_are_rounded() {
        for (seconds, text) in [(3.0, "10 s"), (61.0, "70 s"), (150.0, "2 min"), (3600.0, "60 min")] {
            assert_eq!(rounded(seconds), text);
        }
    }

    #[test]
    fn a_line_says_what_is_done_and_how_much() {
        let began = Instant::now();
        let now = began + Duration::from_secs(40);
        let line = |done: Done, left: Option<u64>| {
            let ends_by = left.map(|seconds| now + Duration::from_secs(seconds));
            Work { phase: "reading".to_owned(), done, began, ends_by }.line(now)
        };
        let bytes = |all| Done::Bytes(Arc::new(AtomicU64::new(1 << 20)), all);
        for (done, left, expected) in [
            (Done::Unknown, None, "reading: 40 s so far"),
            (Done::Unknown, Some(200), "reading: 40 s so far, at most 3 min left"),
            (Done::Steps(0, 4), None, "reading: 0 of 4 done"),
            (Done::Steps(1, 4), None, "reading: 1 of 4 done, about 2 min left"),
            (Done::Steps(4, 4), None, "reading: 4 of 4 done"),
            (bytes(Some(4 << 20)), None, "reading: 1 MiB of 4 MiB, about 2 min left"),
            (bytes(None), None, "reading: 1 MiB"),
            (Done::Lasting(Duration::from_secs(50)), None, "reading: 40 s of 50 s, about 10 s left"),
        ] {
            assert_eq!(line(done, left), expected);
        }
    }
}
