//! Progress of what takes longer than two seconds, on standard error where that is a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Quick work shows nothing: a bar that flashes by only distracts.
const SILENCE: Duration = Duration::from_secs(2);

/// A bar that follows a counter until it is dropped.
pub struct Progress {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Follows `done`, which somebody else advances, towards `total` bytes.
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
        // The templates are our own; without one the bar is only plainer.
        Err(_) => bar,
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the drawing thread has been printed and does not concern the result.
            let _ = thread.join();
        }
    }
}
