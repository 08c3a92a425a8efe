//! Records waiting threads if the kernel's events are not available, by repeatedly sampling procfs for
//! blocked threads.
//!
//! Sampling needs neither tracefs, BPF nor privileges, but only root sees the causes of other users' waits. A
//! sampled recording does not show requests, waits for other threads, or whose requests delay a thread. The
//! lengths of waits are estimates ([`tally`]).

mod look;
mod tally;

use std::time::Duration;

use fonio_core::meta::{BLOCKED_SAMPLED, Clock, SCHEMA_VERSION, SHOWS_BLOCKED, SOURCE_PROCFS, Source};
use fonio_core::{
    ByteCount, Content, DeviceId, Diagnostic, File, Meta, RowSink, Severity, Thread, Timestamp,
};
use fonio_machine::Machine;
use fonio_recording::Room;
use fonio_system::signals::{Listener, Signal};
use rustix::time::ClockId;

use crate::attribution::threads::{NewThread, Threads};
use crate::capture::processes::ProcessTimes;
use crate::capture::stop::{Decision, Seen, StopPolicy};
use crate::clock::{after, clock, cpu_time, now, until};
use crate::error::RecordError;
use crate::monitor::Monitor;
use crate::options::{Progress, RecordOptions, RecordSummary, StopReason};
use crate::tracefs::disks;
use crate::write::writer::{RecordingWriter, hold_place, not_written};
pub(crate) use look::Looker;
pub(crate) use tally::Tally;

/// Minimum time between two samples of procfs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The pause after a look, as a multiple of the look's duration, so that sampling uses at most 2 % of one
/// processor.
const PAUSE_PER_LOOK: u32 = 50;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl RecordError {
    /// Returns whether the error means that the kernel cannot trace or that this user may not trace.
    /// After such an error, [`record_sampled`] is still possible.
    pub fn is_about_tracing(&self) -> bool {
        matches!(
            self,
            RecordError::NotRoot
                | RecordError::NoTracefs
                | RecordError::Mount { .. }
                | RecordError::Lockdown { .. }
                | RecordError::ReadOnly { .. }
                | RecordError::NoBlockEvents
                | RecordError::NoMonotonicClock
                | RecordError::NoInstances
        )
    }
}

/// Records blocked threads by sampling procfs up to fifty times a second, for the duration in `options` or
/// until Ctrl-C. Writes a recording without requests. `instead` is the reason why tracing was impossible; the
/// recording includes this reason. Options that concern traces have no effect, and no command is started.
/// Fails with [`RecordError`] if the recording cannot be written or the named device does not exist.
pub fn record_sampled(
    options: &RecordOptions,
    instead: &RecordError,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RecordSummary, RecordError> {
    let machine = Machine::here();
    let room = hold_place(&options.out, options.overwrite)?;
    let mut devices: Vec<_> = disks::resolve(&machine, &options.select)?.named().to_vec();
    if devices.is_empty() {
        devices = machine.devices().iter().map(|device| device.id).collect();
    }
    let signals = Listener::begin(&[Signal::INT, Signal::TERM]).map_err(|source| RecordError::File {
        path: "signal handlers".into(),
        doing: "setting",
        source,
    })?;
    let note = format!("waits are sampled from /proc, because {instead}");
    progress(Progress::Note(&note));
    let mut sampled = Sampled::begin(machine, options);
    let stopped_by = sampled.watch(&signals, progress)?;
    sampled.write((options, room), stopped_by, (devices, note), progress)
}

/// A recording for which procfs is being sampled.
struct Sampled {
    machine: Machine,
    looker: Looker,
    tally: Tally,
    threads: Threads,
    monitor: Option<(Monitor, Duration)>,
    process_times: ProcessTimes,
    duration: Option<Duration>,
    began: Timestamp,
    unix_ns_at_zero: i64,
    cpu_began: Duration,
}

impl Sampled {
    fn begin(machine: Machine, options: &RecordOptions) -> Sampled {
        let began = now();
        let monitor = options.sample_interval.map(|interval| (Monitor::new(&machine), interval));
        Sampled {
            process_times: ProcessTimes::begin(&machine),
            looker: Looker::new(&machine),
            machine,
            tally: Tally::new(began),
            threads: Threads::default(),
            monitor,
            duration: options.duration,
            began,
            unix_ns_at_zero: i64::try_from(clock(ClockId::Realtime)).unwrap_or(0) - began.0 as i64,
            cpu_began: cpu_time(),
        }
    }

    /// Takes samples until there is a reason to stop.
    fn watch(
        &mut self,
        signals: &Listener,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<StopReason, RecordError> {
        let mut policy = StopPolicy::new(self.duration.map(|duration| after(self.began, duration)));
        let mut next_sample = self.began;
        let mut next_progress = after(self.began, PROGRESS_EVERY);
        loop {
            let at = now();
            if let Some((monitor, interval)) = &mut self.monitor
                && at >= next_sample
            {
                monitor.sample(at);
                next_sample = after(at.max(next_sample), *interval);
            }
            if at >= next_progress {
                next_progress = after(at, PROGRESS_EVERY);
                progress(Progress::Running {
                    elapsed: until(self.began, at),
                    trace_bytes: ByteCount(0),
                    held_bytes: ByteCount(0),
                    blocked: None,
                });
            }
            let took = self.look();
            let pause = LOOK_EVERY.max(took * PAUSE_PER_LOOK);
            let left = policy.deadline().map_or(pause, |end| until(now(), end));
            std::thread::sleep(pause.min(left));
            let seen = Seen {
                now: now(),
                interrupts: signals.count(Signal::INT),
                terminations: signals.count(Signal::TERM),
                ..Seen::default()
            };
            match policy.decide(&seen) {
                Decision::Continue | Decision::Terminate => {}
                Decision::GiveUp => return Err(RecordError::Aborted),
                Decision::Stop { reason, .. } => return Ok(reason),
            }
        }
    }

    /// Takes one sample of the blocked threads. Returns how long this took.
    fn look(&mut self) -> Duration {
        let at = now();
        let blocked = self.looker.blocked();
        for thread in &blocked {
            let parent = self.machine.task(thread.pid).owner().and_then(|owner| owner.parent).unwrap_or(0);
            self.threads.add_with_parent(NewThread { tid: thread.tid, pid: thread.pid, parent }, at);
        }
        self.tally.look(at, blocked);
        self.threads.look_up(&self.machine);
        until(at, now())
    }

    /// Ends the capture, and writes the recording.
    fn write(
        mut self,
        (options, room): (&RecordOptions, Room),
        stopped_by: StopReason,
        (devices, note): (Vec<DeviceId>, String),
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RecordSummary, RecordError> {
        let ended = now();
        self.tally.finish(ended);
        if let Some((monitor, _)) = &mut self.monitor {
            monitor.sample(ended);
        }
        let capture_cpu = cpu_time().saturating_sub(self.cpu_began);
        let write_began = cpu_time();
        let mut out = RecordingWriter::create(options, room)?;
        let rate =
            self.tally.looks as f64 / ended.since(self.began).unwrap_or_default().as_secs_f64().max(1e-9);
        let message = format!("{note}; the lengths of waits are estimates from {rate:.0} samples a second");
        self.rows(ended, &message, &mut out).map_err(|source| not_written(&options.out, source))?;
        let mut notes = vec![note];
        let finished = out.install(self.meta(ended, &devices), &options.out, &mut |note| {
            progress(Progress::Note(&note));
            notes.push(note);
        })?;
        Ok(RecordSummary {
            out: finished.path,
            began: self.began,
            ended,
            stopped_by,
            command_exit: None,
            command_signal: None,
            events: 0,
            trace_bytes: ByteCount(0),
            rows: finished.meta.rows,
            own_rows: 0,
            lost: finished.meta.lost,
            capture_cpu,
            write_cpu: cpu_time().saturating_sub(write_began),
            notes,
        })
    }

    fn rows(&self, ended: Timestamp, message: &str, out: &mut RecordingWriter) -> std::io::Result<()> {
        out.began(self.began)?;
        if let Some((monitor, _)) = &self.monitor {
            monitor.write(out)?;
        }
        for sample in self.process_times.finish(&self.machine, ended, None) {
            out.sample(&sample)?;
        }
        let mut tids: Vec<u32> = self.tally.waits.iter().map(|wait| wait.tid).collect();
        tids.extend(self.tally.counts.threads());
        tids.sort_unstable();
        tids.dedup();
        let parents = self.threads.parents(self.began);
        let others = tids.into_iter().filter(|tid| parents.iter().all(|row| row.tid != *tid));
        let others = others.map(|tid| {
            let mut row = Thread { tid, from: self.began, ..Thread::default() };
            self.threads.complete(&mut row);
            row
        });
        let mut rows: Vec<Thread> = others.collect();
        rows.extend(parents);
        rows.sort_unstable_by_key(|row| row.tid);
        rows.iter().try_for_each(|row| out.thread(row))?;
        for (number, (file, from)) in self.tally.files.iter().enumerate() {
            out.file(&File {
                file_id: number as u32,
                from: *from,
                device: Some(file.device),
                inode: Some(file.inode),
                path: Some(file.path.to_string_lossy().into_owned()),
                content: Content::Unknown,
            })?;
        }
        self.tally.waits.iter().try_for_each(|wait| out.wait(wait))?;
        self.tally.counts.write(ended, out)?;
        out.diagnostic(&Diagnostic {
            severity: Severity::Warning,
            code: "sampled-waits".to_owned(),
            message: message.to_owned(),
            file: None,
            record: None,
            offset: None,
            count: 1,
        })
    }

    fn meta(&self, ended: Timestamp, devices: &[DeviceId]) -> Meta {
        Meta {
            schema_version: SCHEMA_VERSION,
            writer: concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned(),
            source: Source {
                format: SOURCE_PROCFS.to_owned(),
                files: Vec::new(),
                shows: vec![SHOWS_BLOCKED.to_owned(), BLOCKED_SAMPLED.to_owned()],
            },
            clock: Clock { name: "mono".to_owned(), unix_ns_at_zero: Some(self.unix_ns_at_zero) },
            began: Some(self.began),
            ended: Some(ended),
            host: self.machine.host(),
            devices: self
                .machine
                .with_all_below(devices)
                .into_iter()
                .filter_map(|id| self.machine.device(id))
                .collect(),
            ..Meta::default()
        }
    }
}
