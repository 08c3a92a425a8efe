//! Chooses the span by which a trace of the scheduler is judged: a launch, a late frame, or the complete trace.

use fonio_core::{Nanos, Unit};

use super::{AppLaunch, DrawingThread, LateFrame, SleepTime, SleepingThread, Uninterruptible};
use crate::question::ratio::ratio;

/// A trace of at least this length is judged as a whole (our choice).
pub(super) const TRACE_FROM: Nanos = Nanos(1_000_000_000);
/// A tenth of the span matters, as for programs that were blocked on storage (our choice).
const MATTERS_FROM: f64 = 0.1;
/// The reason of a late frame that the app caused; other frames were late because of the display or the compositor.
const BY_APP: &str = "App Deadline Missed";

/// A thread that was blocked in a span.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The span as the start of a sentence: `In the cold launch of com.example.app (99 ms)`.
    pub place: String,
    /// The thread: `its UI thread (thread 3000)`.
    pub who: String,
    pub time: SleepTime,
    pub function: Option<String>,
    pub duration: Nanos,
}

impl Judged {
    /// Returns the share of the span in state D that the kernel counted as I/O.
    pub fn io_share(&self) -> f64 {
        ratio(self.time.io_ns, self.duration).unwrap_or(0.0)
    }

    /// Returns the share of the span in state D.
    pub fn share(&self) -> f64 {
        ratio(self.time.total_ns(), self.duration).unwrap_or(0.0)
    }

    /// Returns 2 if waits that the kernel counted as I/O matter, 1 if waits of any kind matter, 0 otherwise.
    fn level(&self) -> u32 {
        match (self.io_share() >= MATTERS_FROM, self.share() >= MATTERS_FROM) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

impl Uninterruptible {
    /// Returns the span in which waits matter most. A launch comes before a frame, and a frame before the trace.
    /// `None` if the trace is too short and has neither.
    pub(super) fn judged(&self, span: Nanos) -> Option<Judged> {
        let launches = self.launches.iter().filter_map(of_launch);
        let frames =
            (self.late_frames.iter()).filter(|frame| frame.reason.contains(BY_APP)).filter_map(of_frame);
        let trace = (span >= TRACE_FROM).then(|| self.of_trace(span)).flatten();
        let mut best: Option<Judged> = None;
        for one in launches.chain(frames).chain(trace) {
            if best.as_ref().is_none_or(|best| one.level() > best.level()) {
                best = Some(one);
            }
        }
        best
    }

    /// Returns the thread of a program that was blocked longest: by I/O, or if no I/O matters, by anything.
    pub(super) fn longest(&self) -> Option<&SleepingThread> {
        let by_io = |thread: &&SleepingThread| (thread.time.io_ns, thread.time.total_ns());
        // Of equal threads, the first.
        self.threads.iter().rev().filter(|thread| !thread.is_kernel).max_by_key(by_io)
    }

    fn of_trace(&self, span: Nanos) -> Option<Judged> {
        let of = |thread: &SleepingThread| Judged {
            place: format!("In {span}"),
            who: thread.full_name(),
            time: thread.time,
            function: thread.functions.first().map(|row| row.function.clone()),
            duration: span,
        };
        let by_io = of(self.longest()?);
        let by_any = self.threads.iter().find(|thread| !thread.is_kernel).map(of)?;
        Some(if by_any.level() > by_io.level() { by_any } else { by_io })
    }
}

/// Returns the thread that was blocked longest.
fn longest(threads: &[DrawingThread]) -> Option<&DrawingThread> {
    threads.iter().rev().max_by_key(|thread| (thread.time.io_ns, thread.time.total_ns()))
}

fn of_launch(launch: &AppLaunch) -> Option<Judged> {
    let thread = longest(&launch.threads)?;
    Some(Judged {
        place: format!("In the {}launch of {} ({})", launch.kind.word(), launch.package, launch.duration_ns),
        who: format!("its {} (thread {})", thread.role(), thread.tid),
        time: thread.time,
        function: thread.function.clone(),
        duration: launch.duration_ns,
    })
}

fn of_frame(frame: &LateFrame) -> Option<Judged> {
    let thread = longest(&frame.threads)?;
    let at = Unit::S.format(frame.at_ns.as_secs_f64());
    Some(Judged {
        place: format!("In a late frame of {} (at {at}, {} long)", frame.owner, frame.duration_ns),
        who: format!("its {} (thread {})", thread.role(), thread.tid),
        time: thread.time,
        function: thread.function.clone(),
        duration: frame.duration_ns,
    })
}
