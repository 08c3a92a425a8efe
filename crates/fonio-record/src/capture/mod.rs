//! Runs the capture, from enabling the events to reading the last page.
//!
//! One loop wakes up about five times a second, reads the kernel's pages, and sleeps again. New data does not
//! wake the loop, because each event would then cost the traced threads a check. The recorder writes nothing
//! during the capture, except to a spill file if the user asked for one.

pub(crate) mod command;
mod idle;
pub(crate) mod pace;
pub(crate) mod processes;
mod quota;
pub(crate) mod stop;

use std::ffi::OsString;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fonio_core::meta::Device;
use fonio_core::{ByteCount, Mark, Sample, Timestamp};
use fonio_machine::Machine;
use fonio_system::ProcessId;
use fonio_system::signals::{Listener, Signal};
use fonio_tracefs::ring_buffer::{BlockDecoder, FileDecoder, PageLayout, SchedDecoder, SchedEvent};
use fonio_tracefs::whose::NotedBio;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::ClockId;

use crate::attribution::files::Files;
use crate::attribution::threads::Threads;
use crate::capture::command::Command;
use crate::capture::idle::{IdleWatch, SAMPLE_EVERY};
use crate::capture::pace::Pace;
use crate::capture::processes::ProcessTimes;
use crate::capture::stop::{Decision, Seen, StopPolicy};
use crate::clock::{after, clock, cpu_time, now, until};
use crate::error::RecordError;
use crate::monitor::Monitor;
use crate::options::{Progress, RecordOptions, StopReason};
use crate::probes::bios::BiosProbe;
use crate::probes::blocked::{BlockedCapture, CapturedWaits, NotRecorded, Probe};
use crate::probes::bpf::Unavailable;
use crate::probes::calls::{CallsCapture, CallsProbe, CapturedCalls};
use crate::tracefs::filesystems::FileScope;
use crate::tracefs::pages::{Drained, LeftOut, PageStore, Pages};
use crate::tracefs::{CpuStats, Instance};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Captured {
    /// Size of the raw trace in the page store.
    pub trace_bytes: ByteCount,
    pub threads: Threads,
    pub files: Files,
    pub monitor: Option<Monitor>,
    /// The processor time of each process, if waits were recorded.
    pub process_times: Vec<Sample>,
    pub began: Timestamp,
    pub ended: Timestamp,
    /// The wall-clock time at which the trace clock was 0.
    pub unix_ns_at_zero: i64,
    pub stopped_by: StopReason,
    pub command: Option<Command>,
    pub command_mark: Option<Mark>,
    /// When the command became quiet; `None` if another reason ended the capture.
    pub quiet_since: Option<Timestamp>,
    /// The missed block events; `waits_missed` has the missed scheduler events.
    pub missed: Missed,
    pub waits_missed: Missed,
    /// The blocked threads, or why blocked threads were not recorded; `None` if the user did not want blocked
    /// threads.
    pub blocked: Option<Result<CapturedWaits, NotRecorded>>,
    /// The file-system calls, or why calls were not recorded; `None` if the user did not want calls.
    pub calls: Option<Result<CapturedCalls, Unavailable>>,
    /// The bios whose files no event shows, and how many of them are missing.
    pub bios: (Vec<NotedBio>, u64),
    pub cpu: Duration,
}

/// Events that were not kept in the page store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missed {
    /// The kernel's count of losses in each processor's buffer; `None` if the kernel has no count.
    pub kernel: Vec<(u32, Option<CpuStats>)>,
    /// The events that did not fit into the page store.
    pub left_out: Option<LeftOut>,
}

impl Missed {
    /// Returns the number of all missed events; `None` if the kernel does not report the number of lost
    /// events.
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

/// The options and tools of a capture.
pub(crate) struct Capture<'a> {
    pub options: &'a RecordOptions,
    pub machine: Machine,
    /// The notes that have been shown to the user.
    pub notes: Vec<String>,
    pub signals: Listener,
    pub layout: PageLayout,
    pub decoder: BlockDecoder,
    /// The scope and decoder of file events, if files are recorded.
    pub files: Option<(FileScope, FileDecoder)>,
    /// The decoder of scheduler events; `None` if waits are not recorded.
    pub sched: Option<SchedDecoder>,
}

/// The probes for waits and calls, or why these probes are unavailable; `None` if the user does not want
/// waits or calls.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// The probe that records which threads are blocked.
    pub blocked: Option<Result<Probe, NotRecorded>>,
    /// The probe that records file-system calls, at first those of `processes`.
    pub calls: Option<Result<CallsProbe, Unavailable>>,
    pub processes: Vec<ProcessId>,
    /// The probe for files that no event shows; `None` if no such file system is followed, or without BPF.
    pub bios: Option<BiosProbe>,
}

pub(crate) struct Feed<'a> {
    pub instance: &'a Instance,
    pub store: PageStore,
}

impl Feed<'_> {
    /// Counts the missed events. The instance must be disabled and fully read before this call.
    fn missed(&self) -> io::Result<Missed> {
        // The kernel counts the overwritten events of a page only when the page is read.
        let left_out = self.store.is_full().then(|| self.store.leave_out_rest()).transpose()?;
        let kernel = self.instance.cpus.iter().map(|&cpu| (cpu, self.instance.stats(cpu))).collect();
        Ok(Missed { kernel, left_out })
    }
}

/// Returns the id of the current thread, which makes the recording.
fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

struct Running<'a> {
    capture: &'a Capture<'a>,
    block: Feed<'a>,
    waits: Option<Feed<'a>>,
    blocked: Option<Result<BlockedCapture, NotRecorded>>,
    calls: Option<Result<CallsCapture, Unavailable>>,
    bios: Option<BiosProbe>,
    monitor: Option<Monitor>,
    process_times: Option<ProcessTimes>,
    threads: Threads,
    files: Files,
    command: Option<Command>,
    command_mark: Option<Mark>,
    idle: Option<IdleWatch>,
    quiet_since: Option<Timestamp>,
    began: Timestamp,
    unix_ns_at_zero: i64,
    /// Processor time that this process had used when the capture began.
    cpu_began: Duration,
}

impl Capture<'_> {
    /// Runs the capture and returns the pages of block events and scheduler events. At the end of the
    /// capture, disables the tracefs instances and reads all remaining pages.
    pub(crate) fn run(
        &self,
        block: Feed<'_>,
        waits: Option<Feed<'_>>,
        probes: Probes,
        devices: &[Device],
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Captured, Pages, Option<Pages>), RecordError> {
        let mut running = self.begin(block, waits, probes, devices, progress)?;
        let stopped_by = running.watch(progress)?;
        let ended = running.switch_off()?;
        running.settle_command(stopped_by, ended);
        running.collect(stopped_by, ended)
    }

    /// Enables the events, and then starts the command.
    fn begin<'a>(
        &'a self,
        block: Feed<'a>,
        waits: Option<Feed<'a>>,
        probes: Probes,
        devices: &[Device],
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Running<'a>, RecordError> {
        let monitor = self.options.sample_interval.map(|_| Monitor::new(&self.machine));
        let mut threads = Threads::default();
        let setting = &self.options.setting;
        let files = self.files.as_ref().map(|(scope, _)| {
            Files::watching(&self.machine, |fs| scope.has(fs)).with_setting(setting, &self.machine)
        });
        let process_times = probes.blocked.as_ref().map(|_| ProcessTimes::begin(&self.machine));
        let began = now();
        let unix_ns_at_zero = i64::try_from(clock(ClockId::Realtime)).unwrap_or(0) - began.0 as i64;
        block.instance.switch(true)?;
        let cpu_began = cpu_time();
        if let Some(waits) = &waits {
            // This thread starts the command. So if tracing follows this thread, it follows the command from
            // its beginning.
            waits.instance.follow(own_tid())?;
            waits.instance.switch(true)?;
        }
        let Probes { blocked, calls, processes, bios } = probes;
        let blocked =
            blocked.map(|probe| probe.and_then(|probe| BlockedCapture::begin(probe, began, &self.machine)));
        let program = self.options.command.as_ref().and_then(|words| words.first()).map(OsString::as_os_str);
        let mut calls = calls.map(|probe| {
            probe.and_then(|probe| CallsCapture::begin(probe, &self.machine, program, &processes))
        });
        progress(Progress::Started { devices });
        let command = self.start_command(&mut calls)?;
        if let Some(command) = &command {
            threads.add(command.pid(), began);
            progress(Progress::CommandStarted { pid: command.pid() });
        }
        let idle = self.options.until_idle.map(|quiet| IdleWatch::new(quiet, now()));
        let command_mark = command.as_ref().map(|command| Mark {
            at: now(),
            until: None,
            name: "command".to_owned(),
            tid: Some(command.pid()),
        });
        let quiet_since = None;
        Ok(Running {
            capture: self,
            block,
            waits,
            blocked,
            calls,
            bios,
            monitor,
            process_times,
            threads,
            files: files.unwrap_or_default(),
            command,
            command_mark,
            idle,
            quiet_since,
            began,
            unix_ns_at_zero,
            cpu_began,
        })
    }

    /// Starts the command, and records its calls from the first call on.
    fn start_command(
        &self,
        calls: &mut Option<Result<CallsCapture, Unavailable>>,
    ) -> Result<Option<Command>, RecordError> {
        if self.options.calls
            && let Some(Ok(capture)) = calls
        {
            match capture.follow_children(true) {
                Ok(()) => {
                    let command = Command::start(self.options);
                    // This process starts no other processes from now on.
                    let _ = capture.follow_children(false);
                    return command;
                }
                Err(unavailable) => *calls = Some(Err(unavailable)),
            }
        }
        Command::start(self.options)
    }
}

impl Running<'_> {
    /// Reads the kernel's pages at each wake-up, until there is a reason to stop.
    fn watch(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<StopReason, RecordError> {
        let options = self.capture.options;
        let policy = StopPolicy::new(options.duration.map(|duration| after(self.began, duration)));
        let mut policy = match (&self.command, &options.until) {
            (Some(_), _) => policy.with_command(!options.setting.own_group),
            // The caller ends its own work after Ctrl-C, and sets the flag then.
            (None, Some(_)) => policy.with_command(true),
            (None, None) => policy,
        };
        let mut pace = Pace::new(ByteCount(self.block.instance.bytes_per_cpu().unwrap_or(u64::MAX)));
        let mut next_sample = self.began;
        let mut next_progress = after(self.began, PROGRESS_EVERY);
        loop {
            self.sample_if_due(&mut next_sample);
            self.tell_if_due(&mut next_progress, progress);
            if !policy.is_ending() {
                self.look_whether_quiet();
            }
            let next_sample = self.monitor.as_ref().map(|_| next_sample);
            self.sleep(pace.sleep, [next_sample, policy.deadline()])?;
            let drained = self.drain()?;
            pace.note(drained.most);
            let seen = Seen {
                buffer_full: drained.full,
                interrupts: self.capture.signals.count(Signal::INT),
                terminations: self.capture.signals.count(Signal::TERM),
                now: now(),
                command_ended: self.command.as_mut().is_some_and(Command::has_ended) || self.is_over(),
                quiet: self.quiet_since.is_some(),
            };
            match policy.decide(&seen) {
                Decision::Continue => {}
                Decision::Terminate => self.terminate_command(),
                Decision::GiveUp => {
                    self.terminate_command();
                    return Err(RecordError::Aborted);
                }
                Decision::Stop { reason, kill } => {
                    if let Some(command) = self.command.as_mut().filter(|_| kill) {
                        command.kill();
                    }
                    return Ok(reason);
                }
            }
        }
    }

    /// Returns whether the caller has ended the capture.
    fn is_over(&self) -> bool {
        self.capture.options.until.as_ref().is_some_and(|until| until.load(Ordering::Acquire))
    }

    fn sample_if_due(&mut self, next: &mut Timestamp) {
        let time = now();
        if let (Some(monitor), Some(interval)) = (&mut self.monitor, self.capture.options.sample_interval)
            && time >= *next
        {
            monitor.sample(time);
            *next = after(time.max(*next), interval);
        }
    }

    fn tell_if_due(&mut self, next: &mut Timestamp, progress: &mut dyn FnMut(Progress<'_>)) {
        let time = now();
        if time >= *next {
            *next = after(time, PROGRESS_EVERY);
            progress(Progress::Running {
                elapsed: until(self.began, time),
                trace_bytes: self.block.store.trace_bytes(),
                held_bytes: self.block.store.held_bytes(),
                blocked: (self.blocked.as_mut())
                    .and_then(|blocked| blocked.as_mut().ok()?.longest(&self.threads)),
            });
        }
    }

    fn look_whether_quiet(&mut self) {
        if let (Some(idle), Some(waits)) = (&mut self.idle, &self.waits) {
            let mut followed = waits.instance.followed();
            followed.retain(|tid| *tid != own_tid());
            self.quiet_since = idle.look(&self.capture.machine, &followed, now());
        }
    }

    /// Sleeps for `longest` or until the earliest of `deadlines`. Signals and the end of the command end the
    /// sleep early.
    fn sleep(&self, longest: Duration, deadlines: [Option<Timestamp>; 2]) -> Result<(), RecordError> {
        let mut time = if self.idle.is_some() { longest.min(SAMPLE_EVERY) } else { longest };
        for deadline in deadlines.into_iter().flatten() {
            time = time.min(until(now(), deadline));
        }
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let ended = self.command.as_ref().and_then(Command::ended);
        let mut polled: Vec<PollFd<'_>> = ended.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => {
                Err(RecordError::File { path: "poll".into(), doing: "waiting", source: errno.into() })
            }
        }
    }

    /// Reads the kernel's pages, and looks up some of the new threads and files that occur in these pages.
    fn drain(&mut self) -> Result<Drained, RecordError> {
        let from = now();
        let seen = (&mut self.threads, &mut self.files);
        let mut drained = self.capture.drain(&mut self.block.store, self.waits.as_mut(), seen)?;
        if let Some(Ok(blocked)) = &mut self.blocked {
            blocked.drain(now(), &self.capture.machine, &mut self.threads, &mut self.files);
            if let Some(filled) = blocked.filled() {
                drained.most = drained.most.max(self.scaled(filled));
            }
        }
        if let Some(Ok(calls)) = &mut self.calls {
            let machine = &self.capture.machine;
            let (used, size) = calls.drain(now(), machine, &mut self.threads, &mut self.files);
            self.files.name_opened(from, machine);
            drained.most = drained.most.max(self.scaled((used, size)));
        }
        if let Some(bios) = &mut self.bios {
            bios.drain(&mut self.files);
        }
        // Look up files before threads: many files exist only for a moment.
        self.files.look_up(&self.capture.machine, from);
        self.threads.look_up(&self.capture.machine);
        Ok(drained)
    }

    /// Scales the fill level `used` of a buffer of `size` bytes to the size of the buffer for block events,
    /// because the pace is based on the size of the buffer for block events.
    fn scaled(&self, (used, size): (u64, u64)) -> ByteCount {
        let ring = self.block.instance.bytes_per_cpu().unwrap_or(size);
        let used = u128::from(used) * u128::from(ring) / u128::from(size.max(1));
        ByteCount(u64::try_from(used).unwrap_or(u64::MAX))
    }

    fn terminate_command(&mut self) {
        if let Some(command) = &mut self.command {
            command.terminate();
        }
    }

    /// Disables the events, and returns the time at which the recording ends.
    fn switch_off(&self) -> Result<Timestamp, RecordError> {
        self.block.instance.switch(false)?;
        if let Some(waits) = &self.waits {
            waits.instance.switch(false)?;
        }
        Ok(now())
    }

    /// If the command has its own process group, ends all processes of the group. If the capture ended
    /// because the buffer was full, the command continues undisturbed.
    fn settle_command(&mut self, stopped_by: StopReason, ended: Timestamp) {
        if let Some(mark) = &mut self.command_mark {
            mark.until = Some(ended);
        }
        let own_group = self.capture.options.setting.own_group;
        if let Some(command) = self.command.as_mut().filter(|_| own_group)
            && stopped_by != StopReason::BufferFull
        {
            command.kill();
        }
    }

    /// Reads the remaining pages of the buffers, and counts the missed events.
    fn collect(
        mut self,
        stopped_by: StopReason,
        ended: Timestamp,
    ) -> Result<(Captured, Pages, Option<Pages>), RecordError> {
        let (machine, threads, files) = (&self.capture.machine, &mut self.threads, &mut self.files);
        let blocked = self.blocked.take();
        let mut blocked =
            blocked.map(|blocked| blocked.map(|blocked| blocked.finish(ended, machine, threads, files)));
        let (span, calls) = ((self.began, ended), self.calls.take());
        let calls = calls.map(|calls| calls.map(|calls| calls.finish(span, machine, threads, files)));
        self.drain()?;
        let bios = self.bios.take().map(|bios| bios.finish(&mut self.files)).unwrap_or_default();
        self.files.look_again(&self.capture.machine);
        if let Some(monitor) = &mut self.monitor {
            monitor.sample(ended);
        }
        let seen = blocked.as_mut().and_then(|blocked| blocked.as_mut().ok()?.take_processes());
        let process_times =
            self.process_times.map(|times| times.finish(&self.capture.machine, ended, seen.as_ref()));
        let process_times = process_times.unwrap_or_default();
        self.threads.add_working(processes::working(&process_times), &self.capture.machine);
        let readers = self.monitor.iter().flat_map(Monitor::wal_readers);
        self.threads.add_working(readers, &self.capture.machine);
        let failed = |source| self.capture.store_failed(source);
        let missed = self.block.missed().map_err(failed)?;
        let waits_missed = self.waits.as_ref().map(Feed::missed).transpose().map_err(failed)?;
        let cpu = cpu_time().saturating_sub(self.cpu_began);
        let trace_bytes = self.block.store.trace_bytes();
        let pages = self.block.store.finish().map_err(failed)?;
        let waits_pages = self.waits.map(|waits| waits.store.finish()).transpose().map_err(failed)?;
        let captured = Captured {
            trace_bytes,
            threads: self.threads,
            files: self.files,
            monitor: self.monitor,
            process_times,
            began: self.began,
            ended,
            unix_ns_at_zero: self.unix_ns_at_zero,
            stopped_by,
            command: self.command,
            command_mark: self.command_mark,
            quiet_since: self.quiet_since,
            missed,
            waits_missed: waits_missed.unwrap_or_default(),
            blocked,
            calls,
            bios,
            cpu,
        };
        Ok((captured, pages, waits_pages))
    }
}

impl Capture<'_> {
    fn drain(
        &self,
        block: &mut PageStore,
        waits: Option<&mut Feed<'_>>,
        (threads, files): (&mut Threads, &mut Files),
    ) -> Result<Drained, RecordError> {
        let causing = |record: &[u8]| self.decoder.causing_tid(record);
        let mut drained = block
            .drain(&mut |page| {
                threads.note(&self.layout, page, &causing);
                if let Some((_, decoder)) = &self.files {
                    files.note(&self.layout, page, decoder, threads);
                }
            })
            .map_err(|source| self.store_failed(source))?;
        if let (Some(waits), Some(decoder)) = (waits, &self.sched) {
            let made = |record: &[u8]| match decoder.decode(record)?.event {
                SchedEvent::Fork { child, .. } => Some(child),
                _ => None,
            };
            let more = waits.store.drain(&mut |page| threads.note(&self.layout, page, &made));
            let more = more.map_err(|source| self.store_failed(source))?;
            drained.most = drained.most.max(more.most);
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
