//! Shows the progress of work that takes longer than two seconds, on standard error if that is a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fonio_experiment::Trial;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing: a bar that appears briefly only distracts.
const SILENCE: Duration = Duration::from_secs(2);

/// A bar that follows a counter until it is dropped.
pub struct Progress {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Follows `done`, which other code advances, up to `total` bytes.
    pub fn bytes(what: &'static str, total: Option<u64>, done: Arc<AtomicU64>) -> Progress {
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::io::stderr().is_terminal().then(|| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || follow(what, total, &done, &over))
        });
        Progress { over, thread }
    }
}

fn follow(what: &'static str, total: Option<u64>, done: &AtomicU64, over: &AtomicBool) {
    let began = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if bar.is_none() && began.elapsed() >= SILENCE {
            bar = Some(new_bar(what, total).with_elapsed(began.elapsed()));
        }
        if let Some(bar) = &bar {
            bar.set_position(done.load(Ordering::Relaxed));
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_message(what);
    let template = match total {
        Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left",
        None => "{msg} {spinner} {bytes}, {bytes_per_sec}",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        // The templates are our own; without a template the bar only looks plainer.
        Err(_) => bar,
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic of the drawing thread has already been printed and does not affect the result.
            let _ = thread.join();
        }
    }
}

/// The progress of a series of trials, and the remaining time if each takes as long as those before.
pub struct Estimate {
    began: Instant,
    done: usize,
}

impl Estimate {
    pub fn new() -> Estimate {
        Estimate { began: Instant::now(), done: 0 }
    }

    /// Prints that `trial` begins; `what` describes it.
    pub fn announce<S>(&mut self, trial: &Trial<'_, S>, what: &str) {
        let (at, left) = self.next(trial.trials);
        eprintln!("[{at}] round {}: {what}{left} …", trial.round);
    }

    /// Returns the progress for the trial that begins now, of `count`: `3/12`, and `, about 4 min left`.
    fn next(&mut self, count: usize) -> (String, String) {
        let at = format!("{}/{count}", self.done + 1);
        let left = match self.done {
            0 => String::new(),
            done => {
                let each = self.began.elapsed().as_secs_f64() / done as f64;
                let left = each * count.saturating_sub(done) as f64;
                format!(", about {} left", rounded(left))
            }
        };
        self.done += 1;
        (at, left)
    }
}

/// Rounds to minutes from two minutes on, otherwise to tens of seconds.
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
    fn estimates_are_rounded() {
        for (seconds, text) in [(3.0, "10 s"), (61.0, "70 s"), (150.0, "2 min"), (3600.0, "60 min")] {
            assert_eq!(rounded(seconds), text);
        }
        let mut estimate = Estimate::new();
        assert_eq!(estimate.next(3), ("1/3".to_owned(), String::new()));
        assert!(estimate.next(3).1.ends_with(" left"));
    }
}
