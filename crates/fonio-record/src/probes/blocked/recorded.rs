//! Keeps the waits of a capture, and turns them into rows.

use std::io;

use fonio_core::{BlockedIn, Content, Nanos, Op, RowSink, Timestamp, Wait};
use fonio_machine::Machine;
use fonio_tracefs::waits::{Completed, Completions};
use rustc_hash::FxHashSet;

use super::shedding::THRESHOLD_MIN_NS;
use super::so_far::{Longest, SoFar};
use super::traced::Unseen;
use super::{BlockedWait, FinishedProbe, NotRecorded, Probe, ProcessesSeen};
use crate::attribution::files::Files;
use crate::attribution::threads::Threads;
use crate::options::BlockedSoFar;
use crate::probes::bpf::Unavailable;

/// Maximum number of waits with their own rows: 50 MB at 96 bytes each. Later waits are only counted.
const WAITS_MAX: usize = 1 << 19;

/// A remark on a recording: a stable name, a sentence, and the number of cases to which it applies.
type Remark = (&'static str, String, u64);

/// A running probe, with the waits that it has recorded so far.
#[derive(Debug)]
pub(crate) struct BlockedCapture {
    probe: Probe,
    waits: Vec<BlockedWait>,
    so_far: SoFar,
}

impl BlockedCapture {
    pub(crate) fn begin(
        mut probe: Probe,
        began: Timestamp,
        machine: &Machine,
    ) -> Result<BlockedCapture, NotRecorded> {
        probe.attach(began, machine)?;
        Ok(BlockedCapture { probe, waits: Vec::new(), so_far: SoFar::default() })
    }

    /// Takes the waits that ended since the previous call. Queues new threads and files for look-up.
    pub(crate) fn drain(
        &mut self,
        now: Timestamp,
        machine: &Machine,
        threads: &mut Threads,
        files: &mut Files,
    ) {
        let mut new = Vec::new();
        self.probe.drain(now, machine, &mut |wait| new.push(wait));
        note(&new, files);
        for wait in &new {
            let process = self.probe.names().raw(wait.tid).map(|named| named.pid).filter(|pid| *pid != 0);
            self.so_far.add(process.unwrap_or(wait.tid), wait);
        }
        let room = WAITS_MAX.saturating_sub(self.waits.len()).min(new.len());
        self.waits.extend(new.drain(..room));
        // Sleeps are not counted, because the part that was a wait for storage is determined later.
        new.iter().filter(|wait| !wait.is_sleep()).for_each(|wait| self.probe.count(wait));
        self.probe.names().take_new().into_iter().for_each(|thread| threads.add_with_parent(thread, now));
    }

    /// Returns the fill level and size of the kernel's buffer in bytes; `None` if the recorder need not read
    /// it sooner.
    pub(crate) fn filled(&self) -> Option<(u64, u64)> {
        self.probe.filled()
    }

    /// Returns the program that has been blocked on storage longest so far.
    pub(crate) fn longest(&mut self, threads: &Threads) -> Option<BlockedSoFar> {
        let Longest { pid, tid, time, threads: count, operation } = self.so_far.longest()?;
        let names = self.probe.names();
        // If the process ended before its look-up, a thread is named instead.
        let by_probe = || names.get(pid).or_else(|| names.get(tid)).map(|(_, name)| name);
        let name = threads.name(pid).map(str::to_owned).or_else(by_probe)?;
        Some(BlockedSoFar { name, time, threads: count, blocked_in: operation })
    }

    /// Ends the probe, and returns the waits of the capture.
    pub(crate) fn finish(
        mut self,
        ended: Timestamp,
        machine: &Machine,
        threads: &mut Threads,
        files: &mut Files,
    ) -> CapturedWaits {
        self.drain(ended, machine, threads, files);
        let mut last = Vec::new();
        let (mut finished, instead) = self.probe.finish(ended, machine, &mut |wait| last.push(wait));
        note(&last, files);
        finished.names.take_new().into_iter().for_each(|thread| threads.add_with_parent(thread, ended));
        threads.add_started(std::mem::take(&mut finished.started_by));
        self.waits.extend(last);
        for wait in &mut self.waits {
            wait.ended = wait.ended.filter(|at| *at <= ended);
            if wait.ended.is_none() {
                threads.add(wait.tid, ended);
            }
        }
        // Waits that began after the end of the recording do not belong to the recording.
        self.waits.retain(|wait| wait.began < ended);
        self.waits.sort_unstable_by_key(|wait| (wait.began, wait.tid));
        CapturedWaits { waits: self.waits, finished, instead }
    }
}

fn note(waits: &[BlockedWait], files: &mut Files) {
    for wait in waits {
        let Some(file) = wait.file else { continue };
        files.see(file.inode);
        // The thread was in a call on the file until the end of the wait.
        if let (Some(generation), Some(ended)) = (file.generation, wait.ended) {
            files.sighted(file.inode, ended, generation);
        }
    }
}

fn are_missing(waits: u64) -> String {
    match waits {
        1 => "one wait of a thread is missing".to_owned(),
        _ => format!("{waits} waits of threads are missing"),
    }
}

/// Returns the row of a wait. A wait for asynchronous I/O begins when the request is queued, because the
/// thread may have slept before that. Returns `None` if the request is unknown.
fn row(
    wait: &BlockedWait,
    file_id: Option<u32>,
    completions: &Completions,
    is_without_bpf: bool,
) -> Option<Wait> {
    let completed = wait.completed_on.zip(wait.ended).and_then(|(cpu, at)| completions.before(cpu, at.0));
    let began = match wait.blocked_in {
        BlockedIn::AsyncIo => wait.began.max(completed?.queued),
        _ => wait.began,
    };
    // Without the kernel's symbols, the stack does not distinguish a swap-in from other page faults.
    let blocked_in = match (wait.blocked_in, completed) {
        (BlockedIn::PageFault, Some(Completed { content: Content::Swap, .. })) => BlockedIn::SwapIn,
        (BlockedIn::AsyncIo, Some(Completed { op: Op::Read, .. })) => BlockedIn::AsyncRead,
        (BlockedIn::AsyncIo, Some(Completed { op: Op::Write | Op::WriteZeroes, .. })) => {
            BlockedIn::AsyncWrite
        }
        (blocked_in, _) => blocked_in,
    };
    // A page fault, for example, has no file descriptor, but the request that ended its wait has a file. BPF
    // shows the file of an fsync, unless the call covers several files.
    let by_request = completed.and_then(|completed| completed.file_id).filter(|_| match blocked_in {
        BlockedIn::PageFault
        | BlockedIn::AsyncIo
        | BlockedIn::AsyncRead
        | BlockedIn::AsyncWrite
        | BlockedIn::Read
        | BlockedIn::Write => true,
        BlockedIn::Fsync => is_without_bpf || wait.is_by_ring,
        _ => false,
    });
    Some(Wait {
        tid: wait.tid,
        began,
        ended: wait.ended,
        reason: wait.reason,
        request_id: completed.map(|completed| completed.request_id),
        waker_tid: wait.waker_tid,
        blocked_in: Some(blocked_in),
        file_id: file_id.or(by_request),
        io_wait: None,
        function: None,
    })
}

#[derive(Debug)]
pub(crate) struct CapturedWaits {
    /// The waits, ordered by their start.
    pub waits: Vec<BlockedWait>,
    finished: FinishedProbe,
    /// Why BPF was not used; `None` if the user chose not to use it.
    instead: Option<Unavailable>,
}

impl CapturedWaits {
    /// Takes the times of processes that BPF recorded.
    pub(crate) fn take_processes(&mut self) -> Option<ProcessesSeen> {
        self.finished.processes.take()
    }

    /// Returns whether the recording was made without BPF, so the waits that only BPF shows are missing.
    pub(crate) fn is_without_bpf(&self) -> bool {
        self.finished.unseen.is_some()
    }

    /// Returns the processor and the time of each I/O completion that ended a wait.
    pub(crate) fn wake_ups(&self) -> impl Iterator<Item = (u32, u64)> {
        self.waits.iter().filter_map(|wait| Some((wait.completed_on?, wait.ended?.0)))
    }

    /// Writes the rows of waits. For each wait, `file_ids` contains the number of its file's row in `files`.
    /// `threads` contains all threads, and the ids of the threads with a row.
    pub(crate) fn write(
        &self,
        (began, ended): (Timestamp, Timestamp),
        file_ids: &[Option<u32>],
        completions: &Completions,
        threads: (&Threads, &FxHashSet<u32>),
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let mut tids: Vec<u32> = self.waits.iter().map(|wait| wait.tid).collect();
        tids.extend(self.finished.short.threads());
        self.finished.names.write_rows(tids, began, threads, sink)?;
        let file_ids = file_ids.iter().copied().chain(std::iter::repeat(None));
        let mut rows: Vec<Wait> = self
            .waits
            .iter()
            .zip(file_ids)
            .filter_map(|(wait, file_id)| row(wait, file_id, completions, self.is_without_bpf()))
            .collect();
        rows.sort_by_key(|row| (row.began, row.tid));
        rows.iter().try_for_each(|row| sink.wait(row))?;
        self.finished.short.write(ended, sink)
    }

    /// Returns remarks for the user about losses in a recording without BPF.
    fn unseen(&self, unseen: &Unseen) -> Vec<Remark> {
        let why = match &self.instead {
            Some(unavailable) => format!("without BPF ({unavailable})"),
            None => "without BPF, as requested".to_owned(),
        };
        let message = format!(
            "waits were recorded {why}: waits for locks, for other threads of a program and for asynchronous I/O are missing, and the files of many waits are unknown"
        );
        let mut remarks = vec![("waits-without-bpf", message, 1)];
        if unseen.no_stacks {
            let message = "this kernel cannot record stacks (it needs CONFIG_STACKTRACE=y), so the cause of most waits is unknown";
            remarks.push(("no-stacks", message.to_owned(), 1));
        } else if unseen.without_stack > 0 {
            let message = format!(
                "the cause of {} waits is unknown, because fonio limits the kernel to 4000 stacks a second",
                unseen.without_stack
            );
            remarks.push(("few-stacks", message, unseen.without_stack));
        }
        if unseen.events_lost + unseen.gaps_uncounted > 0 {
            let lost = match (unseen.events_lost, unseen.gaps_uncounted) {
                (events, 0) => events.to_string(),
                (0, _) => "an unknown number of".to_owned(),
                (events, _) => format!("more than {events}"),
            };
            let message = format!(
                "{lost} scheduler events were lost because the kernel's buffer was too small, so some waits are missing; use a larger `--kernel-buffer`"
            );
            remarks.push(("lost-waits", message, unseen.events_lost.max(1)));
        }
        remarks
    }

    /// Returns remarks for the user about missing waits.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if let Some(unseen) = &self.finished.unseen {
            remarks.extend(self.unseen(unseen));
        }
        let FinishedProbe { lost, threshold_max: Nanos(threshold_ns), short, .. } = &self.finished;
        let missing = lost.missing + short.beyond();
        if missing > 0 {
            let message = format!(
                "{}, because too many threads were blocked at once: the tables were full",
                are_missing(missing)
            );
            remarks.push(("lost-blocked-waits", message, missing));
        }
        if lost.sleeps > 0 {
            let message = format!(
                "{0} waits for other threads or for asynchronous I/O may be missing, because the buffer was full",
                lost.sleeps
            );
            remarks.push(("lost-waits-for-threads", message, lost.sleeps));
        }
        if lost.end_missed > 0 {
            let whose = if lost.end_missed == 1 { "its" } else { "their" };
            let message = format!("{}, because {whose} end was not recorded", are_missing(lost.end_missed));
            remarks.push(("unended-blocked-waits", message, lost.end_missed));
        }
        if *threshold_ns > THRESHOLD_MIN_NS {
            let message = format!(
                "many threads were blocked: for some time, only waits of {} ms or more got rows of their own; shorter waits were only counted",
                threshold_ns / 1_000_000
            );
            remarks.push(("wait-threshold", message, 1));
        } else if lost.only_counted > 0 || self.waits.len() >= WAITS_MAX {
            let message = "many threads were blocked: some waits of 1 ms or more were only counted, and have no rows of their own";
            remarks.push(("waits-only-counted", message.to_owned(), lost.only_counted.max(1)));
        }
        if self.finished.without_symbols {
            let message = "the kernel hides its symbols, so the cause of most waits is unknown; `sysctl -w kernel.kptr_restrict=1` shows them to root";
            remarks.push(("no-symbols", message.to_owned(), 1));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{BlockEvent, ByteCount, DeviceId, EventKind, Op, Request, WaitReason};

    use super::*;

    #[test]
    fn the_request_shows_the_operation_and_the_file() {
        let (device, at) = (DeviceId::new(8, 0), Timestamp(5_000_000));
        for (blocked_in, is_by_ring, op, content, expected) in [
            (BlockedIn::PageFault, false, Op::Read, Content::Swap, (BlockedIn::SwapIn, None)),
            (BlockedIn::PageFault, false, Op::Read, Content::Data, (BlockedIn::PageFault, Some(3))),
            (BlockedIn::Read, false, Op::Read, Content::Swap, (BlockedIn::Read, Some(3))),
            (BlockedIn::AsyncIo, false, Op::Read, Content::Data, (BlockedIn::AsyncRead, Some(3))),
            (BlockedIn::AsyncIo, false, Op::Write, Content::Data, (BlockedIn::AsyncWrite, Some(3))),
            (BlockedIn::AsyncIo, false, Op::Flush, Content::Data, (BlockedIn::AsyncIo, Some(3))),
            (BlockedIn::Fsync, false, Op::Write, Content::Data, (BlockedIn::Fsync, None)),
            (BlockedIn::Fsync, true, Op::Write, Content::Data, (BlockedIn::Fsync, Some(3))),
        ] {
            let mut completions = Completions::default();
            let event = BlockEvent::new(at, EventKind::Complete, device);
            completions.event(&BlockEvent { cpu: Some(1), ..event });
            completions.request(&Request {
                completed: Some(at),
                content,
                file_id: Some(3),
                ..Request::new(device, op, ByteCount(4096))
            });
            let wait = BlockedWait {
                tid: 7,
                began: Timestamp(1_000_000),
                began_before: false,
                ended: Some(Timestamp(5_001_000)),
                blocked_in,
                reason: WaitReason::Storage,
                waker_tid: None,
                completed_on: Some(1),
                is_by_ring,
                file: None,
            };
            let row = row(&wait, None, &completions, false).unwrap();
            assert_eq!((row.blocked_in, row.file_id), (Some(expected.0), expected.1), "{content:?}");
        }
    }
}
