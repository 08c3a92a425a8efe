//! Writes the recording of a finished capture.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::time::Duration;

use fonio_core::meta::{BLOCKED_PARTLY, SHOWS_BLOCKED, SHOWS_CALLS, SHOWS_STATEMENTS};
use fonio_core::{DeviceId, Diagnostic, Meta, RowSink, Severity};
use fonio_machine::{Machine, read_text};
use fonio_recording::Room;
use fonio_system::signals::{Listener, Signal};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_tracefs::waits::Completions;
use fonio_tracefs::whose::Attribution;
use rustc_hash::FxHashSet;

use crate::attribution::swap;
use crate::attribution::whose::{Follower, WithFiles};
use crate::capture::{Capture, Captured};
use crate::clock::cpu_time;
use crate::error::RecordError;
use crate::options::{OtherRows, Progress, RecordOptions, RecordSummary, StopReason};
use crate::probes::blocked::BlockedWait;
use crate::probes::calls::RecordedCall;
use crate::tracefs::disks;
use crate::tracefs::pages::Pages;
use crate::write::losses::Losses;
use crate::write::reader::{CaptureReader, WithoutOwn};
use crate::write::waits;
use crate::write::writer::{self, RecordingWriter};

/// The name of the counter in `meta.json` for requests that contain bios of several files or threads.
const MIXED_REQUESTS: &str = "mixed_requests";

/// The data of a finished capture except the pages of block events.
pub(crate) struct FinishedCapture<'a> {
    pub capture: Capture<'a>,
    pub captured: Captured,
    /// The stored pages of scheduler events, if waits were recorded.
    pub waits: Option<Pages>,
    /// The swap areas at the beginning of the capture.
    pub swap: Vec<(DeviceId, Range<u64>)>,
    /// The room that is held for the recording.
    pub room: Room,
}

/// The results of assembling and writing the block events.
struct Assembled {
    meta: Meta,
    events: u64,
    /// Number of requests and bios that the recorder itself caused; the recording omits these requests and
    /// bios.
    own_rows: u64,
    losses: Losses,
    /// Remarks about gaps in the attribution of requests to files.
    remarks: Vec<Remark>,
}

/// A remark on a recording: a stable name, a sentence, and how often it applies.
type Remark = (&'static str, String, u64);

impl FinishedCapture<'_> {
    pub(crate) fn write(
        mut self,
        pages: Pages,
        other_rows: &mut OtherRows<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RecordSummary, RecordError> {
        wait_for_command(&mut self.captured, &self.capture.signals)?;
        let cpu_began = cpu_time();
        let mut writer = RecordingWriter::create(self.capture.options, self.room.clone())?;
        self.write_non_trace_rows(other_rows, &mut writer).map_err(|source| self.not_written(source))?;
        let completions = match &self.captured.blocked {
            Some(Ok(blocked)) => Some(RefCell::new(Completions::before_wake_ups(blocked.wake_ups()))),
            _ => self.waits.as_ref().map(|_| RefCell::default()),
        };
        let spill_failed = pages.spill_failed.as_ref().map(ToString::to_string);
        let mut assembled = self.write_requests(pages, completions.as_ref(), &mut writer, progress)?;
        let mut remarks = std::mem::take(&mut assembled.remarks);
        let losses = assembled.losses.finish(&mut assembled.meta.lost);
        remarks.extend(losses.into_iter().map(|(code, message)| (code, message, 1)));
        if let Some(reason) = spill_failed {
            let message = format!(
                "the spill file could not be written ({reason}), so later events stayed in memory; no event was lost"
            );
            remarks.push(("spill-failed", message, 1));
        }
        let own_rows = assembled.own_rows;
        if own_rows > 0 {
            let message = format!(
                "{own_rows} requests and bios that fonio itself caused (spill file, look-up of container names) were left out"
            );
            remarks.push(("own-requests", message, own_rows));
        }
        remarks.extend(self.probe_remarks());
        remarks.extend(self.short_of_write_back());
        remarks.extend(self.unnamed_containers());
        remarks
            .extend(self.write_waits(completions, &mut writer).map_err(|source| self.not_written(source))?);
        for remark in remarks {
            self.remark(remark, &mut writer, progress).map_err(|source| self.not_written(source))?;
        }
        complete_meta(&mut assembled.meta, self.capture.options, &self.capture.machine, &self.captured);
        let notes = &mut self.capture.notes;
        let finished = writer.install(assembled.meta, &self.capture.options.out, &mut |note| {
            progress(Progress::Note(&note));
            notes.push(note);
        })?;
        let (captured, meta) = (self.captured, finished.meta);
        Ok(RecordSummary {
            out: finished.path,
            began: captured.began,
            ended: captured.ended,
            stopped_by: captured.stopped_by,
            command_exit: meta.command_exit,
            command_signal: captured.command.as_ref().and_then(|command| command.exit_signal()),
            events: assembled.events,
            trace_bytes: captured.trace_bytes,
            rows: meta.rows,
            own_rows,
            lost: meta.lost,
            capture_cpu: captured.cpu,
            write_cpu: cpu_time().saturating_sub(cpu_began),
            notes: self.capture.notes,
        })
    }

    fn not_written(&self, source: io::Error) -> RecordError {
        writer::not_written(&self.capture.options.out, source)
    }

    /// Writes the rows without trace events: the monitor's samples, the command's mark, and the caller's
    /// rows.
    fn write_non_trace_rows(
        &self,
        other_rows: &mut OtherRows<'_>,
        writer: &mut RecordingWriter,
    ) -> io::Result<()> {
        writer.began(self.captured.began)?;
        if let Some(monitor) = &self.captured.monitor {
            monitor.write(writer)?;
        }
        for sample in &self.captured.process_times {
            writer.sample(sample)?;
        }
        if let Some(mark) = &self.captured.command_mark {
            writer.mark(mark)?;
        }
        for row in self.captured.threads.parents(self.captured.began) {
            writer.thread(&row)?;
        }
        other_rows(writer)
    }

    /// Writes the requests assembled from block events, then the waits of blocked threads, which use the same
    /// `files` table. Notes the completion of each request in `completions`.
    fn write_requests(
        &self,
        pages: Pages,
        completions: Option<&RefCell<Completions>>,
        writer: &mut RecordingWriter,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Assembled, RecordError> {
        let own_tid = pages.own_tid;
        let (layout, decoder) = (self.capture.layout.clone(), self.capture.decoder.clone());
        let partitions = self.capture.files.iter().flat_map(|(scope, _)| scope.partitions.iter().copied());
        let btrfs = self.capture.files.iter().flat_map(|(scope, _)| &scope.btrfs);
        // Swap areas may have been disabled or enabled during the capture.
        let swap = self.swap.iter().cloned().chain(swap::areas(&self.capture.machine));
        let attribution = Attribution::new(partitions).with_btrfs(btrfs).with_swap(swap);
        let (bios, bios_missing) = &self.captured.bios;
        let attribution =
            attribution.with_mapped(self.capture.machine.mapped()).with_noted(bios, *bios_missing);
        let attribution = RefCell::new(attribution);
        let follower = self.capture.files.as_ref().map(|(_, decoder)| Follower::new(decoder, &attribution));
        let mut reader =
            CaptureReader::new(layout, decoder, pages, &self.captured, &self.capture.signals, progress)
                .noting(completions)
                .followed_by(follower);
        let mut sink =
            WithoutOwn { inner: writer, own_tid, completions, named: FxHashSet::default(), left_out: 0 };
        let (mut file_ids, mut call_file_ids) = (Vec::new(), Vec::new());
        let mut remarks = Vec::new();
        let assembled = if self.capture.files.is_some() {
            let mut sink = WithFiles::new(&mut sink, &attribution, &self.captured.files, self.captured.began);
            let assembled = assemble(&mut reader, AssemblerOptions::default(), &mut sink);
            remarks.extend(sink.beyond());
            file_ids = self.files_of_waits(&mut sink).map_err(|source| self.not_written(source))?;
            call_file_ids = self.files_of_calls(&mut sink).map_err(|source| self.not_written(source))?;
            assembled.map(|mut meta| {
                if sink.mixed > 0 {
                    meta.assembly.insert(MIXED_REQUESTS.to_owned(), sink.mixed);
                }
                meta
            })
        } else {
            assemble(&mut reader, AssemblerOptions::default(), &mut sink)
        };
        let meta = assembled.map_err(|source| match self.capture.signals.count(Signal::INT) {
            0 | 1 => self.not_written(source),
            _ => RecordError::Aborted,
        })?;
        if let Some(Ok(calls)) = &self.captured.calls {
            let named = sink.named.clone();
            let threads = (&self.captured.threads, &named);
            calls
                .write(self.captured.began, &call_file_ids, threads, &mut sink)
                .map_err(|source| self.not_written(source))?;
        }
        if let (Some(Ok(blocked)), Some(completions)) = (&self.captured.blocked, completions) {
            let span = (self.captured.began, self.captured.ended);
            let threads = (&self.captured.threads, &sink.named);
            blocked
                .write(span, &file_ids, &completions.borrow(), threads, &mut *sink.inner)
                .map_err(|source| self.not_written(source))?;
        }
        let own_rows = sink.left_out;
        let events = reader.events;
        Ok(Assembled { meta, events, own_rows, losses: reader.into_losses(), remarks })
    }

    /// Returns the row in `files` for each wait, in the order of the waits.
    fn files_of_waits(&self, sink: &mut WithFiles<'_>) -> io::Result<Vec<Option<u32>>> {
        let Some(Ok(blocked)) = &self.captured.blocked else { return Ok(Vec::new()) };
        // The file was read at the end of the wait.
        let at = |wait: &BlockedWait| wait.ended.unwrap_or(wait.began);
        let file_id = |wait: &BlockedWait| {
            let file = wait.file.map(|file| sink.file_at(file.inode, file.generation, at(wait)));
            file.transpose()
        };
        blocked.waits.iter().map(file_id).map(|id| id.map(Option::flatten)).collect()
    }

    /// Returns the row in `files` for each call, in the order of the calls.
    fn files_of_calls(&self, sink: &mut WithFiles<'_>) -> io::Result<Vec<Option<u32>>> {
        let Some(Ok(calls)) = &self.captured.calls else { return Ok(Vec::new()) };
        let file_id = |call: &RecordedCall| {
            let Some(inode) = call.inode else { return Ok(None) };
            sink.file_at(inode, call.generation, call.had_file_at())
        };
        calls.calls.iter().map(file_id).collect()
    }

    /// Returns remarks for the user about the recording of blocked threads and of calls.
    fn probe_remarks(&self) -> Vec<Remark> {
        let mut remarks = match &self.captured.blocked {
            Some(Ok(blocked)) => blocked.remarks(),
            Some(Err(unavailable)) => {
                let message = format!("waits for storage are not recorded: {unavailable}");
                vec![("no-blocked-waits", message, 1)]
            }
            None => Vec::new(),
        };
        match &self.captured.calls {
            Some(Ok(calls)) => remarks.extend(calls.remarks()),
            Some(Err(unavailable)) => {
                let message = format!("file-system calls are not recorded: {unavailable}");
                remarks.push(("no-calls", message, 1));
            }
            None => {}
        }
        remarks
    }

    /// Returns a remark about containers that the recording shows by id, not by name.
    fn unnamed_containers(&self) -> Option<Remark> {
        let unnamed = self.captured.threads.unnamed_containers();
        (unnamed > 0).then(|| {
            let (containers, have) = if unnamed == 1 { ("container", "has its name") } else { ("containers", "has their names") };
            let message = format!(
                "{unnamed} {containers} appear with an id instead of a name, because no readable file of Docker, Podman, CRI-O or containerd {have}"
            );
            ("unnamed-containers", message, unnamed)
        })
    }

    /// Remarks on a machine recording that is shorter than a write-back cycle: data is written at the first
    /// wake-up of the flusher after it has been dirty for `dirty_expire_centisecs`.
    fn short_of_write_back(&self) -> Option<Remark> {
        if self.capture.options.command.is_some() {
            return None;
        }
        let centiseconds = |name: &str| {
            let text = read_text(&self.capture.machine.proc("sys/vm").join(name))?;
            text.trim().parse::<u64>().ok()
        };
        let cycle_ms =
            10 * (centiseconds("dirty_expire_centisecs")? + centiseconds("dirty_writeback_centisecs")?);
        let recorded_ms = self.captured.ended.since(self.captured.began)?.0 / 1_000_000;
        (recorded_ms < cycle_ms).then(|| {
            let message = format!(
                "the kernel writes changed data back up to {} s later, but the recording is shorter: some write-back may be missing",
                cycle_ms.div_ceil(1000)
            );
            ("short-of-write-back", message, 1)
        })
    }

    /// Writes why threads waited, if this was recorded. Returns remarks about missing waits.
    fn write_waits(
        &mut self,
        completions: Option<RefCell<Completions>>,
        writer: &mut RecordingWriter,
    ) -> io::Result<Vec<Remark>> {
        let waits = self.waits.take().zip(completions);
        let Some(((pages, completions), sched)) = waits.zip(self.capture.sched.as_ref()) else {
            return Ok(Vec::new());
        };
        let formats = (self.capture.layout.clone(), sched);
        waits::write(formats, pages, &self.captured, &completions, &self.capture.machine, writer)
    }

    /// Shows the remarks to the user and stores them in the recording.
    fn remark(
        &mut self,
        (code, message, count): Remark,
        writer: &mut RecordingWriter,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> io::Result<()> {
        progress(Progress::Note(&message));
        self.capture.notes.push(message.clone());
        writer.diagnostic(&Diagnostic {
            severity: Severity::Warning,
            code: code.to_owned(),
            message,
            file: None,
            record: None,
            offset: None,
            count,
        })
    }
}

/// Adds facts about this machine and this capture to the metadata.
fn complete_meta(meta: &mut Meta, options: &RecordOptions, machine: &Machine, captured: &Captured) {
    if let Some(Ok(blocked)) = &captured.blocked {
        meta.source.shows.push(SHOWS_BLOCKED.to_owned());
        if blocked.is_without_bpf() {
            meta.source.shows.push(BLOCKED_PARTLY.to_owned());
        }
    }
    if let Some(Ok(calls)) = &captured.calls {
        meta.source.shows.push(SHOWS_CALLS.to_owned());
        if let Some(Ok(_)) = &calls.statements {
            meta.source.shows.push(SHOWS_STATEMENTS.to_owned());
        }
    }
    meta.began = Some(captured.began);
    meta.ended = Some(captured.ended);
    let ran = options.command.as_ref();
    let ran = ran.map(|words| words.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    meta.command = options.told_command.clone().or(ran);
    // A command that stands for another process, such as a prepared process of a workload, is not the parent
    // of that process.
    let own = captured.command.as_ref().filter(|_| options.told_command.is_none());
    meta.command_pid = own.map(|command| command.pid());
    meta.command_exit = captured.command.as_ref().and_then(|command| command.exit_code());
    let cpu = captured.command.as_ref().and_then(|command| command.cpu());
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    meta.command_user_ns = cpu.map(|(user, _)| nanos(user));
    meta.command_system_ns = cpu.map(|(_, system)| nanos(system));
    meta.host = machine.host();
    // List the devices with events, the devices named by the user, and the devices below them.
    let mut ids: Vec<DeviceId> = meta.devices.iter().map(|device| device.id).collect();
    if let Ok(watched) = disks::resolve(machine, &options.select) {
        ids.extend(watched.named());
        if !options.select.is_empty() {
            meta.watched = watched.named().to_vec();
        }
    }
    ids.retain(|&id| id != DeviceId::default());
    ids = machine.with_all_below(&ids);
    let known = |id: DeviceId| meta.devices.iter().find(|device| device.id == id).cloned();
    meta.devices = ids.into_iter().filter_map(|id| machine.device(id).or_else(|| known(id))).collect();
}

/// If the capture ended because the buffer was full, waits for the command, which continues undisturbed.
fn wait_for_command(captured: &mut Captured, signals: &Listener) -> Result<(), RecordError> {
    if captured.stopped_by != StopReason::BufferFull {
        return Ok(());
    }
    let Some(command) = &mut captured.command else { return Ok(()) };
    let terminations = signals.count(Signal::TERM);
    while !command.has_ended() {
        if signals.count(Signal::INT) > 1 {
            return Err(RecordError::Aborted);
        }
        if signals.count(Signal::TERM) > terminations {
            command.terminate();
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
