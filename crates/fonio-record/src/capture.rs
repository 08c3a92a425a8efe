//! The capture itself: from switching the events on to having every page.
//!
//! One loop wakes up about five times a second, takes what the kernel has, and goes back to sleep: waking on data would
//! cost the traced threads a check with every event. Nothing is written meanwhile, unless a spill was asked for.

use std::io;
use std::time::Duration;

use fonio_core::{ByteCount, Mark, Timestamp};
use fonio_trace::ring_buffer::{BlockDecoder, PageLayout};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::command::Command;
use crate::machine::Machine;
use crate::monitor::Monitor;
use crate::pages::{PageStore, Pages};
use crate::signals::Signals;
use crate::threads::Threads;
use crate::tracefs::Instance;
use crate::{Progress, RecordError, RecordOptions, StopReason};

/// Between wake-ups, while the buffers fill slowly.
const WAKE_MAX: Duration = Duration::from_millis(200);
/// Between wake-ups, while they fill fast.
const WAKE_MIN: Duration = Duration::from_millis(5);
/// How long a command may take to end after it was asked to; the capture goes on meanwhile.
const GRACE: Duration = Duration::from_secs(2);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A finished capture.
pub(crate) struct Captured {
    /// Raw trace, as it was kept.
    pub trace_bytes: ByteCount,
    pub threads: Threads,
    pub monitor: Option<Monitor>,
    pub began: Timestamp,
    pub ended: Timestamp,
    /// The wall clock at the trace clock's 0.
    pub unix_ns_at_zero: i64,
    pub stopped_by: StopReason,
    pub command: Option<Command>,
    pub command_mark: Option<Mark>,
    /// Events that the kernel overwrote, and that it refused, by its own count.
    pub overrun: u64,
    pub refused: u64,
    pub cpu: Duration,
}

/// What a capture works with.
pub(crate) struct Capture<'a> {
    pub machine: &'a Machine,
    pub options: &'a RecordOptions,
    pub signals: &'a Signals,
    pub layout: &'a PageLayout,
    pub decoder: &'a BlockDecoder,
}

/// The trace clock `mono`.
pub(crate) fn now() -> Timestamp {
    Timestamp(clock(ClockId::Monotonic))
}

/// Processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    Duration::from_nanos(clock(ClockId::ProcessCPUTime))
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn after(time: Timestamp, span: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_nanos(then.0.saturating_sub(now.0))
}

/// Why the capture is to end, and by when at the latest.
struct Ending {
    reason: StopReason,
    /// When the command is to be sent SIGTERM, where that has not been done.
    terminate_at: Option<Timestamp>,
    by: Timestamp,
}

impl Capture<'_> {
    /// Runs the capture and gives its pages. `instance` is switched off at the end, and read to its end.
    pub(crate) fn run(
        &self,
        instance: &Instance,
        mut store: PageStore,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Captured, Pages), RecordError> {
        let mut monitor = self.options.sample_interval.map(|_| Monitor::new(self.machine));
        let mut threads = Threads::default();
        let ring_bytes = instance.bytes_per_cpu().unwrap_or(u64::MAX);

        let began = now();
        let unix_ns_at_zero = i64::try_from(clock(ClockId::Realtime)).unwrap_or(0) - began.0 as i64;
        instance.switch(true)?;
        let cpu_began = cpu_time();
        let mut command = match &self.options.command {
            Some(words) => Some(Command::start(words)?),
            None => None,
        };
        let mut command_mark = command.as_ref().map(|command| Mark {
            at: now(),
            until: None,
            name: "command".to_owned(),
            tid: Some(command.pid()),
        });

        let end = self.options.duration.map(|duration| after(began, duration));
        let mut next_sample = began;
        let mut next_progress = after(began, PROGRESS_EVERY);
        // A command may begin with all its might.
        let mut wake = WAKE_MAX / 4;
        let mut ending: Option<Ending> = None;
        let stopped_by = loop {
            let time = now();
            if let (Some(monitor), Some(interval)) = (&mut monitor, self.options.sample_interval)
                && time >= next_sample
            {
                monitor.sample(time);
                next_sample = after(time.max(next_sample), interval);
            }
            if time >= next_progress {
                next_progress = after(time, PROGRESS_EVERY);
                progress(Progress::Running {
                    elapsed: until(began, time),
                    trace_bytes: store.trace_bytes(),
                    held_bytes: store.held_bytes(),
                });
            }

            let mut timeout = wake;
            let deadlines = [
                monitor.as_ref().map(|_| next_sample),
                end.filter(|_| ending.is_none()),
                ending.as_ref().map(|ending| ending.by),
                ending.as_ref().and_then(|ending| ending.terminate_at),
            ];
            for deadline in deadlines.into_iter().flatten() {
                timeout = timeout.min(until(now(), deadline));
            }
            sleep(timeout, command.as_ref())?;

            let drained = self.drain(&mut store, &mut threads)?;
            threads.look_up(self.machine);
            // Leave room for a wake-up that comes late on a busy machine.
            if drained.bytes_max > ring_bytes / 4 {
                wake = (wake / 2).max(WAKE_MIN);
            } else if drained.bytes_max < ring_bytes / 16 {
                wake = (wake * 2).min(WAKE_MAX);
            }
            if drained.full {
                break StopReason::BufferFull;
            }

            if self.signals.interrupts() > 1 {
                if let Some(command) = &mut command {
                    command.terminate();
                }
                return Err(RecordError::Aborted);
            }
            let time = now();
            if let Some(command) = &mut command
                && command.has_ended()
            {
                break ending.map_or(StopReason::CommandEnded, |ending| ending.reason);
            }
            match &mut ending {
                None => {
                    let reason = if self.signals.terminations() > 0 {
                        Some(StopReason::Terminated)
                    } else if self.signals.interrupts() > 0 {
                        Some(StopReason::Interrupted)
                    } else {
                        end.filter(|&end| time >= end).map(|_| StopReason::Duration)
                    };
                    let Some(reason) = reason else { continue };
                    let Some(command) = &mut command else { break reason };
                    // The terminal sends Ctrl-C to the command too; only one that does not heed it is asked again.
                    if reason == StopReason::Interrupted {
                        let terminate_at = after(time, GRACE);
                        ending = Some(Ending {
                            reason,
                            terminate_at: Some(terminate_at),
                            by: after(terminate_at, GRACE),
                        });
                    } else {
                        command.terminate();
                        ending = Some(Ending { reason, terminate_at: None, by: after(time, GRACE) });
                    }
                }
                Some(ending) => {
                    if ending.terminate_at.is_some_and(|at| time >= at) {
                        ending.terminate_at = None;
                        if let Some(command) = &mut command {
                            command.terminate();
                        }
                    }
                    if time >= ending.by {
                        break ending.reason;
                    }
                }
            }
        };
        instance.switch(false)?;
        let ended = now();
        if let Some(mark) = &mut command_mark {
            mark.until = Some(ended);
        }
        if stopped_by != StopReason::BufferFull {
            self.drain(&mut store, &mut threads)?;
        }
        threads.look_up(self.machine);
        if let Some(monitor) = &mut monitor {
            monitor.sample(ended);
        }
        let stats: Vec<_> = instance.cpus.iter().map(|&cpu| instance.stats(cpu)).collect();
        let cpu = cpu_time().saturating_sub(cpu_began);
        let trace_bytes = store.trace_bytes();
        let pages = store.finish().map_err(|source| self.store_failed(source))?;
        let captured = Captured {
            trace_bytes,
            threads,
            monitor,
            began,
            ended,
            unix_ns_at_zero,
            stopped_by,
            command,
            command_mark,
            overrun: stats.iter().map(|stats| stats.overrun).sum(),
            refused: stats.iter().map(|stats| stats.refused).sum(),
            cpu,
        };
        Ok((captured, pages))
    }

    fn drain(
        &self,
        store: &mut PageStore,
        threads: &mut Threads,
    ) -> Result<crate::pages::Drained, RecordError> {
        store
            .drain(&mut |page| threads.note(self.layout, self.decoder, page))
            .map_err(|source| self.store_failed(source))
    }

    fn store_failed(&self, source: io::Error) -> RecordError {
        match &self.options.spill_to {
            Some(dir) => RecordError::Spill { dir: dir.clone(), source },
            None => RecordError::File { path: "trace_pipe_raw".into(), doing: "reading", source },
        }
    }
}

/// Sleeps until the time is over, the command ends, or a signal comes.
fn sleep(timeout: Duration, command: Option<&Command>) -> Result<(), RecordError> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    let ended = command.and_then(Command::ended);
    let mut polled: Vec<PollFd<'_>> = ended.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(RecordError::File { path: "poll".into(), doing: "waiting", source: errno.into() }),
    }
}
