//! The capture itself: from switching the events on to having every page.
//!
//! One loop wakes up about five times a second, takes what the kernel has, and goes back to sleep: waking on data would
//! cost the traced threads a check with every event. Nothing is written meanwhile, unless a spill was asked for.

use std::io;
use std::time::Duration;

use fonio_core::{ByteCount, Mark, Timestamp};
use fonio_system::signals::{Listener, Signal};
use fonio_trace::ring_buffer::{BlockDecoder, PageLayout, SchedDecoder, SchedEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::command::Command;
use crate::idle::{IdleWatch, SAMPLE_EVERY};
use crate::machine::Machine;
use crate::monitor::Monitor;
use crate::pages::{Drained, LeftOut, PageStore, Pages};
use crate::threads::Threads;
use crate::tracefs::{CpuStats, Instance};
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
    /// Since when the command had been quiet, where that ended the capture.
    pub quiet_since: Option<Timestamp>,
    /// What was lost of the block events, and of the scheduler's.
    pub missed: Missed,
    pub waits_missed: Missed,
    pub cpu: Duration,
}

/// Events that did not reach the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missed {
    /// What each processor's buffer lost, by the kernel's own count; `None` where the kernel does not say.
    pub kernel: Vec<(u32, Option<CpuStats>)>,
    /// What the store had no room for.
    pub left_out: Option<LeftOut>,
}

impl Missed {
    /// All of them; `None` where the kernel does not say.
    pub(crate) fn total(&self) -> Option<u64> {
        let mut total = 0;
        for (_, stats) in &self.kernel {
            total += stats.map(|stats| stats.overrun + stats.refused)?;
        }
        let left = self.left_out.iter().flat_map(|left| &left.cpus);
        for cpu in left {
            total += (!cpu.uncounted).then_some(cpu.events)?;
        }
        Some(total)
    }
}

/// What a capture works with.
pub(crate) struct Capture<'a> {
    pub machine: &'a Machine,
    pub options: &'a RecordOptions,
    pub signals: &'a Listener,
    pub layout: &'a PageLayout,
    pub decoder: &'a BlockDecoder,
    /// Where waits are recorded.
    pub sched: Option<&'a SchedDecoder>,
}

/// An instance and where its pages go.
pub(crate) struct Feed<'a> {
    pub instance: &'a Instance,
    pub store: PageStore,
}

impl Feed<'_> {
    /// What was lost. The events must be switched off and read to their end.
    fn missed(&self) -> io::Result<Missed> {
        // The kernel counts what it has overwritten of a page when that is read.
        let left_out = self.store.is_full().then(|| self.store.leave_out_rest()).transpose()?;
        let kernel = self.instance.cpus.iter().map(|&cpu| (cpu, self.instance.stats(cpu))).collect();
        Ok(Missed { kernel, left_out })
    }
}

/// The thread that records.
fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
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
    /// Runs the capture and gives the pages of the block events, and of the scheduler's. The instances are switched off
    /// at the end, and read to their end.
    pub(crate) fn run(
        &self,
        mut block: Feed<'_>,
        mut waits: Option<Feed<'_>>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Captured, Pages, Option<Pages>), RecordError> {
        let mut monitor = self.options.sample_interval.map(|_| Monitor::new(self.machine));
        let mut threads = Threads::default();
        let ring_bytes = block.instance.bytes_per_cpu().unwrap_or(u64::MAX);

        let began = now();
        let unix_ns_at_zero = i64::try_from(clock(ClockId::Realtime)).unwrap_or(0) - began.0 as i64;
        block.instance.switch(true)?;
        let cpu_began = cpu_time();
        if let Some(waits) = &waits {
            // The command is made by this thread, and followed from its first moment because this thread is.
            waits.instance.follow(own_tid())?;
            waits.instance.switch(true)?;
        }
        let mut command = Command::start(self.options)?;
        if let Some(command) = &command {
            threads.add(command.pid());
            progress(Progress::CommandStarted { pid: command.pid() });
        }
        let mut idle = self.options.until_idle.map(|quiet| IdleWatch::new(quiet, now()));
        let mut quiet_since = None;
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
                    trace_bytes: block.store.trace_bytes(),
                    held_bytes: block.store.held_bytes(),
                });
            }
            if let (Some(idle), Some(waits), None) = (&mut idle, &waits, &ending) {
                let mut followed = waits.instance.followed();
                followed.retain(|tid| *tid != own_tid());
                quiet_since = idle.look(self.machine, &followed, now());
            }

            let mut timeout = if idle.is_some() { wake.min(SAMPLE_EVERY) } else { wake };
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

            let drained = self.drain(&mut block.store, waits.as_mut(), &mut threads)?;
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

            if self.signals.count(Signal::INT) > 1 {
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
                    let reason = if self.signals.count(Signal::TERM) > 0 {
                        Some(StopReason::Terminated)
                    } else if self.signals.count(Signal::INT) > 0 {
                        Some(StopReason::Interrupted)
                    } else if quiet_since.is_some() {
                        Some(StopReason::Idle)
                    } else {
                        end.filter(|&end| time >= end).map(|_| StopReason::Duration)
                    };
                    let Some(reason) = reason else { continue };
                    let Some(command) = &mut command else { break reason };
                    // The terminal sends Ctrl-C to the command too; only one that does not heed it is asked again.
                    if reason == StopReason::Interrupted && !self.options.setting.own_group {
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
                        if let (StopReason::Idle, Some(command)) = (ending.reason, &mut command) {
                            command.kill();
                        }
                        break ending.reason;
                    }
                }
            }
        };
        block.instance.switch(false)?;
        if let Some(waits) = &waits {
            waits.instance.switch(false)?;
        }
        let ended = now();
        if let Some(mark) = &mut command_mark {
            mark.until = Some(ended);
        }
        if let Some(command) = command.as_mut().filter(|_| self.options.setting.own_group)
            && stopped_by != StopReason::BufferFull
        {
            command.kill();
        }
        self.drain(&mut block.store, waits.as_mut(), &mut threads)?;
        threads.look_up(self.machine);
        if let Some(monitor) = &mut monitor {
            monitor.sample(ended);
        }
        let missed = block.missed().map_err(|source| self.store_failed(source))?;
        let waits_missed = match &waits {
            Some(waits) => waits.missed().map_err(|source| self.store_failed(source))?,
            None => Missed::default(),
        };
        let cpu = cpu_time().saturating_sub(cpu_began);
        let trace_bytes = block.store.trace_bytes();
        let pages = block.store.finish().map_err(|source| self.store_failed(source))?;
        let waits_pages = match waits {
            Some(waits) => Some(waits.store.finish().map_err(|source| self.store_failed(source))?),
            None => None,
        };
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
            quiet_since,
            missed,
            waits_missed,
            cpu,
        };
        Ok((captured, pages, waits_pages))
    }

    fn drain(
        &self,
        block: &mut PageStore,
        waits: Option<&mut Feed<'_>>,
        threads: &mut Threads,
    ) -> Result<Drained, RecordError> {
        let causing = |record: &[u8]| self.decoder.causing_tid(record);
        let mut drained = block
            .drain(&mut |page| threads.note(self.layout, page, &causing))
            .map_err(|source| self.store_failed(source))?;
        if let (Some(waits), Some(decoder)) = (waits, self.sched) {
            let made = |record: &[u8]| match decoder.decode(record)?.event {
                SchedEvent::Fork { child, .. } => Some(child),
                _ => None,
            };
            let more = waits.store.drain(&mut |page| threads.note(self.layout, page, &made));
            let more = more.map_err(|source| self.store_failed(source))?;
            drained.bytes_max = drained.bytes_max.max(more.bytes_max);
            drained.full |= more.full;
        }
        Ok(drained)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_kernels() {
        let before = clock_gettime(ClockId::Monotonic);
        let between = now().0;
        let after = clock_gettime(ClockId::Monotonic);
        let nanos = |time: rustix::time::Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        assert!((nanos(before)..=nanos(after)).contains(&between), "{between}");
    }
}
