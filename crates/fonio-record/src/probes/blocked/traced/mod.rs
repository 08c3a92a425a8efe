//! Records the threads that wait for storage without BPF, from scheduler events in tracefs.
//!
//! The kernel records `sched_switch`, with the kernel stack, only for threads that are blocked when they
//! leave their processor. The kernel records every `sched_waking` and `sched_wakeup`, because these events do
//! not show the kind of the thread's sleep. The events are decoded during the recording, and only the waits
//! are kept ([`BlockedThreads`]). The life cycle is the same as for [`BlockedProbe`](super::BlockedProbe).
//! Unlike the BPF probe, this probe does not see threads that wait for another thread, because these threads
//! sleep interruptibly, and its events do not show the file of a call.
//!
//! After `kill -9`, the next run removes this tracefs instance, like the recorder's other instances.

mod calls;

use std::fs::File;

use fonio_core::{Nanos, Timestamp};
use fonio_machine::{Machine, read_text};
use fonio_tracefs::ring_buffer::{Interrupt, PageLayout, SchedDecoder};
use fonio_tracefs::waits::{BlockedThread, BlockedThreads};
use rustc_hash::{FxHashMap, FxHashSet};

use super::judgement::{Judgement, StackFunctions};
use super::layout::COMM_MAX;
use super::{BlockedWait, FinishedProbe, Lost, PERIOD_NS, ShortWaits, open, shedding};
use crate::attribution::thread_names::{ReportedThread, ThreadNames};
use crate::clock::now;
use crate::error::RecordError;
use crate::tracefs::pages::read_raw;
use crate::tracefs::{Instance, Tracefs};
use calls::CallFunctions;

/// Maximum delay until an event appears in its ring buffer.
const WRITTEN_WITHIN_NS: u64 = 1_000_000;
/// Maximum number of stacks that the kernel records in a period. Each stack costs about 10 µs, so all stacks
/// together cost at most 4 % of one processor.
const STACKS_PER_PERIOD: u64 = 4000;
/// Maximum number of threads without a stack that are looked up in procfs in one round.
const LOOKUPS_PER_ROUND: usize = 16;

/// The losses of a recording without BPF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Events lost in the kernel's buffers.
    pub events_lost: u64,
    /// Gaps in the events, with an unknown number of lost events.
    pub gaps_uncounted: u64,
    /// Whether the kernel cannot record stacks, or recorded none.
    pub no_stacks: bool,
    /// Waits without a stack, because a period had more than [`STACKS_PER_PERIOD`] waits.
    pub without_stack: u64,
}

/// A probe that reads scheduler events from a tracefs instance.
#[derive(Debug)]
pub(crate) struct TracedProbe {
    // These files are closed before the instance is removed.
    buffers: Vec<(u32, File)>,
    instance: Instance,
    layout: PageLayout,
    decoder: SchedDecoder,
    page: Vec<u8>,
    threads: BlockedThreads,
    judge: Judge,
    /// The fill level of the fullest buffer in the last round, in bytes.
    bytes_max: u64,
    period: u32,
    period_began: Timestamp,
    /// Number of waits without a stack when the current period began.
    without_stack_before: u64,
    /// Number of waits with their own row in this period.
    long_waits: u64,
    threshold: Nanos,
    threshold_max: Nanos,
    unseen: Unseen,
}

/// Turns blocked threads into waits with a cause, and counts the short waits.
#[derive(Debug)]
struct Judge {
    functions: StackFunctions,
    calls: CallFunctions,
    /// The judgements about threads without a stack, from procfs, by thread id and beginning of the wait.
    looked_up: FxHashMap<(u32, Timestamp), Judgement>,
    /// The ids of the recorder's own threads.
    own: FxHashSet<u32>,
    short: ShortWaits,
    names: ThreadNames,
}

impl TracedProbe {
    /// Creates the tracefs instance without enabling its events.
    pub(crate) fn load(
        tracefs: &Tracefs,
        machine: &Machine,
        layout: &PageLayout,
        kib_per_cpu: u64,
    ) -> Result<TracedProbe, RecordError> {
        let decoder = tracefs.blocked_layouts()?;
        let mut instance = tracefs.blocked_instance(machine, kib_per_cpu)?;
        let takes_stacks = instance.take_stacks(STACKS_PER_PERIOD).is_ok();
        let kallsyms = read_text(&machine.proc("kallsyms")).unwrap_or_default();
        Ok(TracedProbe {
            buffers: instance.take_buffers(),
            instance,
            layout: layout.clone(),
            decoder,
            page: vec![0; layout.page_bytes()],
            threads: BlockedThreads::default(),
            judge: Judge {
                functions: StackFunctions::from_kallsyms(&kallsyms),
                calls: CallFunctions::from_kallsyms(&kallsyms),
                looked_up: FxHashMap::default(),
                own: FxHashSet::default(),
                short: ShortWaits::default(),
                names: ThreadNames::default(),
            },
            bytes_max: 0,
            period: 0,
            period_began: Timestamp(0),
            without_stack_before: 0,
            long_waits: 0,
            threshold: Nanos(shedding::THRESHOLD_MIN_NS),
            threshold_max: Nanos(shedding::THRESHOLD_MIN_NS),
            unseen: Unseen { no_stacks: !takes_stacks, ..Unseen::default() },
        })
    }

    pub(crate) fn attach(&mut self, began: Timestamp, machine: &Machine) -> Result<(), RecordError> {
        let before = open::blocked_threads(machine);
        self.instance.switch(true)?;
        self.judge.note_own(machine);
        // If a thread is blocked both before and after the events are enabled, it is assumed to have been
        // blocked in between. The few threads that ran in between cause an event later.
        for tid in before {
            if open::is_blocked(machine, tid) && !self.judge.own.contains(&tid) {
                self.judge.looked_up.insert((tid, began), open::judgement(machine, tid));
                self.threads.was_blocked(tid, began);
            }
        }
        self.judge.short.begin(0, began);
        self.period_began = began;
        Ok(())
    }

    /// Passes on the long waits that ended, and adapts the threshold.
    pub(crate) fn drain(&mut self, now: Timestamp, machine: &Machine, give: &mut dyn FnMut(BlockedWait)) {
        self.judge.note_own(machine);
        let until = self.read().0.saturating_sub(WRITTEN_WITHIN_NS);
        self.handle(until, give);
        self.look_up(machine);
        self.turn_period(now);
    }

    /// Reads the buffers; returns a time up to which no event is missing.
    fn read(&mut self) -> Timestamp {
        let started = now();
        self.bytes_max = 0;
        for (cpu, buffer) in &self.buffers {
            let mut bytes = 0;
            // If a page cannot be read, the next round tries again.
            while let Ok(Some(read)) = read_raw(buffer, &mut self.page) {
                bytes += self.page.len() as u64;
                let page = &self.page[..read];
                let Ok((header, mut cursor)) = self.layout.open(page) else {
                    self.unseen.gaps_uncounted += 1;
                    self.threads.gap(now().0, *cpu);
                    continue;
                };
                if let Some(lost) = header.lost {
                    self.unseen.events_lost += lost.unwrap_or(0);
                    self.unseen.gaps_uncounted += u64::from(lost.is_none());
                    self.threads.gap(header.time.0, *cpu);
                }
                while let Some(record) = cursor.next(page) {
                    let Ok(record) = record else {
                        self.unseen.gaps_uncounted += 1;
                        break;
                    };
                    if let Some(event) = self.decoder.decode(record.data) {
                        self.threads.event(record.time.0, *cpu, &event);
                    }
                }
                // On a busy machine, the buffer never becomes empty, so stop at events after `started`.
                if header.time > started {
                    break;
                }
            }
            self.bytes_max = self.bytes_max.max(bytes);
        }
        started
    }

    fn handle(&mut self, until_ns: u64, give: &mut dyn FnMut(BlockedWait)) {
        let (judge, threshold, period) = (&mut self.judge, self.threshold, self.period);
        let (has_stacks, mut without_stack, mut long_waits) = (!self.unseen.no_stacks, 0, 0);
        self.threads.until(until_ns, &mut |thread| {
            without_stack += u64::from(has_stacks && thread.stack.is_empty() && !thread.began_before);
            let Some(wait) = judge.wait(&thread) else { return };
            let lasted = wait.ended.and_then(|ended| ended.since(wait.began)).unwrap_or_default();
            if lasted >= threshold {
                long_waits += 1;
                give(wait);
            } else {
                judge.short.add_wait(period, (wait.tid, wait.blocked_in, wait.reason), lasted);
            }
        });
        self.unseen.without_stack += without_stack;
        self.long_waits += long_waits;
    }

    /// Looks up threads that are still blocked and have no stack.
    fn look_up(&mut self, machine: &Machine) {
        let judge = &mut self.judge;
        let without = self.threads.open().filter(|open| open.stack.is_empty());
        let mut new: Vec<(u32, Timestamp)> = without
            .map(|open| (open.tid, open.began))
            .filter(|key| !judge.looked_up.contains_key(key) && !judge.own.contains(&key.0))
            .collect();
        new.sort_unstable_by_key(|(tid, began)| (*began, *tid));
        for (tid, began) in new.into_iter().take(LOOKUPS_PER_ROUND) {
            if open::is_blocked(machine, tid) {
                judge.looked_up.insert((tid, began), open::judgement(machine, tid));
            }
        }
    }

    /// Begins a new period if the current period is over.
    fn turn_period(&mut self, now: Timestamp) {
        let elapsed_ns = now.0.saturating_sub(self.period_began.0);
        let next = Nanos(shedding::next_threshold(self.threshold.0, self.long_waits, elapsed_ns));
        if elapsed_ns < PERIOD_NS && next <= self.threshold {
            return;
        }
        self.threshold = next;
        self.threshold_max = self.threshold_max.max(next);
        self.long_waits = 0;
        self.period += 1;
        self.period_began = now;
        self.judge.short.begin(self.period, now);
        if self.unseen.without_stack > self.without_stack_before {
            // The kernel has stopped recording stacks. If this call fails, later waits are counted as waits
            // without a stack.
            let _ = self.instance.take_stacks(STACKS_PER_PERIOD);
            self.without_stack_before = self.unseen.without_stack;
        }
    }

    /// Returns the fill level and the size of the kernel's buffer in the last round, in bytes.
    pub(crate) fn filled(&self) -> (u64, u64) {
        (self.bytes_max, self.instance.bytes_per_cpu().unwrap_or(u64::MAX))
    }

    /// Counts a wait that cannot have its own row, because all rows are used.
    pub(crate) fn count(&mut self, wait: &BlockedWait) {
        let lasted = wait.ended.and_then(|ended| ended.since(wait.began)).unwrap_or_default();
        self.judge.short.add_wait(self.period, (wait.tid, wait.blocked_in, wait.reason), lasted);
    }

    /// Returns the names of the threads that were seen.
    pub(crate) fn names(&mut self) -> &mut ThreadNames {
        &mut self.judge.names
    }

    /// Disables the events, and passes on the remaining long waits and the open waits.
    pub(crate) fn finish(
        mut self,
        ended: Timestamp,
        machine: &Machine,
        give: &mut dyn FnMut(BlockedWait),
    ) -> FinishedProbe {
        self.look_up(machine);
        let blocked: FxHashSet<u32> = open::blocked_threads(machine).into_iter().collect();
        let looked = now();
        // If disabling fails, events are recorded until the instance is removed.
        let _ = self.instance.switch(false);
        self.read();
        self.handle(u64::MAX, give);
        let mut lost = Lost {
            missing: self.threads.missing(),
            end_missed: self.threads.end_missed(),
            ..Lost::default()
        };
        for thread in self.threads.take_open() {
            let is_own = self.judge.own.contains(&thread.tid);
            if blocked.contains(&thread.tid) {
                self.judge.wait(&thread).into_iter().for_each(&mut *give);
            } else if thread.began > looked {
                // The wait began while the events were being disabled.
                if let Some(wait) = self.judge.wait(&thread) {
                    let lasted = ended.since(wait.began).unwrap_or_default();
                    self.judge.short.add_wait(self.period, (wait.tid, wait.blocked_in, wait.reason), lasted);
                }
            } else if !thread.began_before && !is_own {
                lost.end_missed += 1;
            }
        }
        self.unseen.no_stacks |= self.threads.stacks() == 0;
        FinishedProbe {
            short: self.judge.short,
            names: self.judge.names,
            started_by: FxHashMap::default(),
            processes: None,
            lost,
            threshold_max: self.threshold_max,
            without_symbols: self.judge.functions.is_empty(),
            unseen: Some(self.unseen),
        }
    }
}

impl Judge {
    fn note_own(&mut self, machine: &Machine) {
        let tasks = std::fs::read_dir(machine.proc(format!("{}/task", std::process::id())));
        let tids = tasks.into_iter().flatten().flatten();
        self.own.extend(tids.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()));
    }

    /// Returns the wait of a thread; `None` if the thread belongs to this process.
    fn wait(&mut self, thread: &BlockedThread) -> Option<BlockedWait> {
        let looked_up = self.looked_up.remove(&(thread.tid, thread.began));
        if self.own.contains(&thread.tid) {
            return None;
        }
        let mut comm = [0; COMM_MAX];
        for (to, from) in comm.iter_mut().zip(&thread.comm) {
            *to = *from;
        }
        if comm != [0; COMM_MAX] {
            let reported = ReportedThread { comm, ..ReportedThread::default() };
            self.names.note(thread.tid, reported, 0);
        }
        let mut judgement = match looked_up {
            Some(judgement) if thread.stack.is_empty() => judgement,
            _ => self.functions.of_stack(&thread.stack, self.calls.of(&thread.stack), thread.is_io),
        };
        let by = thread.woken_by;
        // The idle thread wakes other threads only in interrupts.
        let by_interrupt = |interrupt: Option<Interrupt>, current| interrupt.is_some() || current == 0;
        judgement.by_completion = by.is_some_and(|by| by_interrupt(by.interrupt, by.current));
        judgement.waker_tid = by.filter(|_| !judgement.by_completion).map(|by| by.current);
        Some(BlockedWait {
            tid: thread.tid,
            began: thread.began,
            began_before: thread.began_before,
            ended: thread.ended,
            blocked_in: judgement.blocked_in,
            reason: judgement.reason,
            waker_tid: judgement.waker_tid,
            completed_on: by.filter(|_| judgement.by_completion).map(|by| by.cpu),
            is_by_ring: judgement.is_by_ring,
            file: None,
        })
    }
}
