//! Records the threads that wait for storage: every interval in which any thread of the machine is blocked
//! uninterruptibly, and the long intervals in which a thread waits for a blocked thread or for asynchronous
//! I/O.
//!
//! Without BPF, the module [`traced`] records only the uninterruptible waits. A BPF program
//! (`bpf/blocked.bpf.c`) notes when a blocked thread leaves the processor, and when the thread is woken. The
//! program passes each wait above a threshold to this module, and counts shorter waits in the kernel. The
//! life cycle of a probe:
//!
//! 1. [`BlockedProbe::load`] creates the maps and lets the kernel verify the programs.
//! 2. [`BlockedProbe::attach`] begins to record. Waits of threads that are already blocked start
//!    at this time.
//! 3. [`BlockedProbe::drain`], called at each wake-up of the recorder, takes the long waits. About once a
//!    second, it also takes the counts of the last period, and adapts the threshold to the load
//!    ([`shedding`]).
//! 4. [`BlockedProbe::finish`] detaches the programs and finds the open waits.
//!
//! Each wait is reported exactly once: on its own by [`drain`](BlockedProbe::drain), or in a sum of
//! [`ShortWaits`]. [`Lost`] counts the exceptions. The kernel removes programs, links and maps when their
//! last descriptor is closed, so nothing remains after `kill -9`.

mod always;
mod calls;
mod judgement;
mod layout;
mod open;
mod probe;
mod recorded;
mod shedding;
mod short;
mod sleeps;
mod so_far;
mod traced;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use fonio_core::lives::Generation;
use fonio_core::{BlockedIn, DeviceId, Inode, Nanos, SeenFile, Timestamp, WaitReason};
use fonio_machine::{Machine, read_text};
use rustc_hash::FxHashMap;

use crate::attribution::thread_names::{ReportedThread, ThreadNames};
use crate::attribution::threads::ProcessStart;
use crate::probes::bpf::{self, Unavailable};
pub(crate) use judgement::Judgement;
use judgement::StackFunctions;
use layout::{
    BEGAN_BEFORE, Counters, LongWait, MAYBE_WOKEN, ProbeSettings, ShortKey, ShortSum, SleepKey, Sleeper,
    Slot, Started,
};
pub(crate) use open::{blocked_threads as blocked_in_procfs, judgement as judged_in_procfs};
pub(crate) use probe::{NotRecorded, Probe};
pub(crate) use recorded::{BlockedCapture, CapturedWaits};
pub(crate) use short::ShortWaits;
use short::Sum;
pub(crate) use sleeps::ProcessesSeen;

/// The compiled BPF object, created by `cargo xtask assets`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/blocked.bpf.o"));

/// The BPF programs and the tracepoints to which they attach.
const PROGRAMS: [bpf::Program; 3] =
    [("forked", "sched_process_fork"), ("left", "sched_switch"), ("woken", "sched_waking")];

/// How long short waits are counted in the kernel before the counts are taken.
const PERIOD_NS: u64 = 1_000_000_000;

/// A wait that has its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockedWait {
    pub tid: u32,
    pub began: Timestamp,
    /// Whether the wait began before the probe was attached, so that `began` is the time of attachment.
    pub began_before: bool,
    /// The end of the wait; `None` if the wait had not ended when the probe was finished.
    pub ended: Option<Timestamp>,
    pub blocked_in: BlockedIn,
    pub reason: WaitReason,
    pub waker_tid: Option<u32>,
    /// The processor on which an I/O completion ended the wait.
    pub completed_on: Option<u32>,
    /// Whether io_uring carried out the operation, so that no system call shows the file.
    pub is_by_ring: bool,
    /// The file on which the system call operates.
    pub file: Option<SeenFile>,
}

impl BlockedWait {
    /// Returns whether the thread slept interruptibly. The sleep may have begun before any thread was
    /// blocked.
    fn is_sleep(&self) -> bool {
        matches!(self.blocked_in, BlockedIn::OtherThread | BlockedIn::AsyncIo)
    }
}

/// Numbers of waits that are missing or have no row of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Waits missing because a table was full.
    pub missing: u64,
    /// Waits missing because the event that ended them was not seen.
    pub end_missed: u64,
    /// Long waits that were only counted, because the ring buffer was full.
    pub only_counted: u64,
    /// Long waits for other threads or asynchronous I/O that are missing because the ring buffer was full.
    pub sleeps: u64,
}

#[derive(Debug)]
pub(crate) struct FinishedProbe {
    pub short: ShortWaits,
    pub names: ThreadNames,
    /// The parent and the start of each process started during the recording.
    pub started_by: FxHashMap<u32, ProcessStart>,
    /// The times of processes that procfs does not show; `None` without BPF.
    pub processes: Option<ProcessesSeen>,
    pub lost: Lost,
    /// The largest threshold used during the recording.
    pub threshold_max: Nanos,
    /// The kernel hid its symbols, so the reasons and many operations are unknown.
    pub without_symbols: bool,
    /// The losses of the probe without BPF; `None` if BPF was used.
    pub unseen: Option<traced::Unseen>,
}

/// The BPF programs, which are first loaded and then attached.
pub(crate) struct BlockedProbe {
    programs: Ebpf,
    links: Vec<BtfTracePointLink>,
    settings: Array<MapData, ProbeSettings>,
    counters: Array<MapData, Counters>,
    open_slots: Array<MapData, Slot>,
    open_beyond: HashMap<MapData, u32, u64>,
    started_by: HashMap<MapData, u32, Started>,
    sleepers: HashMap<MapData, u32, Sleeper>,
    ran: HashMap<MapData, u32, u64>,
    slept: HashMap<MapData, SleepKey, u64>,
    short_waits: HashMap<MapData, ShortKey, ShortSum>,
    long_waits: RingBuf<MapData>,
    functions: StackFunctions,
    now_set: ProbeSettings,
    short: ShortWaits,
    /// The names of the threads that were seen.
    pub(crate) names: ThreadNames,
    period_began: Timestamp,
    /// The counts of earlier periods are final, but have not been read from the kernel yet.
    is_ripe: bool,
    /// When the threshold was last checked, and the number of long waits at that time.
    looked: (Timestamp, u64),
    threshold_max: Nanos,
}

impl std::fmt::Debug for BlockedProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockedProbe").field("settings", &self.now_set).finish_non_exhaustive()
    }
}

impl BlockedProbe {
    /// Loads the programs into the kernel without attaching them.
    pub(crate) fn load(machine: &Machine) -> Result<BlockedProbe, Unavailable> {
        BlockedProbe::load_sized(machine, &[])
    }

    /// Loads the programs as [`load`](Self::load) does, but with these sizes for some maps.
    fn load_sized(machine: &Machine, sizes: &[bpf::Size]) -> Result<BlockedProbe, Unavailable> {
        let switch_has_state = u8::from(bpf::switch_has_state());
        let constants = [("switch_has_state", switch_has_state)];
        let mut programs = bpf::load_sized(OBJECT, &PROGRAMS, &constants, sizes)?;
        let settings = bpf::map(&mut programs, "settings", Array::try_from)?;
        let counters = bpf::map(&mut programs, "counters", Array::try_from)?;
        let open_slots = bpf::map(&mut programs, "open_slots", Array::try_from)?;
        let open_beyond = bpf::map(&mut programs, "open_beyond", HashMap::try_from)?;
        let started_by = bpf::map(&mut programs, "started_by", HashMap::try_from)?;
        let sleepers = bpf::map(&mut programs, "sleepers", HashMap::try_from)?;
        let ran = bpf::map(&mut programs, "ran", HashMap::try_from)?;
        let slept = bpf::map(&mut programs, "slept", HashMap::try_from)?;
        let short_waits = bpf::map(&mut programs, "short_waits", HashMap::try_from)?;
        let long_waits = bpf::map(&mut programs, "long_waits", RingBuf::try_from)?;
        Ok(BlockedProbe {
            programs,
            links: Vec::new(),
            settings,
            counters,
            open_slots,
            open_beyond,
            started_by,
            sleepers,
            ran,
            slept,
            short_waits,
            long_waits,
            functions: StackFunctions::from_kallsyms(
                &read_text(&machine.proc("kallsyms")).unwrap_or_default(),
            ),
            now_set: ProbeSettings::default(),
            short: ShortWaits::default(),
            names: ThreadNames::default(),
            period_began: Timestamp(0),
            is_ripe: false,
            looked: (Timestamp(0), 0),
            threshold_max: Nanos(shedding::THRESHOLD_MIN_NS),
        })
    }

    /// Attaches the programs; the recording begins at `began`.
    pub(crate) fn attach(&mut self, began: Timestamp) -> Result<(), Unavailable> {
        self.now_set = ProbeSettings {
            threshold_ns: shedding::THRESHOLD_MIN_NS,
            began_ns: began.0,
            period: 0,
            own_tgid: std::process::id(),
            counts_processes: 1,
            zero: 0,
        };
        self.set().map_err(|error| Unavailable::from_map(&error))?;
        self.short.begin(0, began);
        self.period_began = began;
        self.looked = (began, 0);
        // Attach the program for wake-ups last: a wake-up whose wait has no noted beginning would look like
        // the end of an earlier wait.
        self.links = bpf::attach(&mut self.programs, &PROGRAMS)?;
        Ok(())
    }

    fn set(&mut self) -> Result<(), aya::maps::MapError> {
        self.settings.set(0, self.now_set, 0)
    }

    /// Passes on the long waits that ended, adapts the threshold, and takes the counts of the last period.
    pub(crate) fn drain(&mut self, now: Timestamp, give: &mut dyn FnMut(BlockedWait)) {
        if self.is_ripe {
            self.take_short(|period, present| period < present);
            self.is_ripe = false;
        }
        self.take_long(&mut |wait, _| give(wait));
        let long_waits = self.counters().long_waits;
        let elapsed = now.0.saturating_sub(self.looked.0.0);
        let since = long_waits - self.looked.1;
        let raised = shedding::next_threshold(self.now_set.threshold_ns, since, elapsed);
        let is_period_over = now.0.saturating_sub(self.period_began.0) >= PERIOD_NS;
        // The threshold is raised immediately, but is lowered only at the end of a period.
        if raised > self.now_set.threshold_ns || is_period_over {
            self.now_set.threshold_ns = raised;
            self.threshold_max = self.threshold_max.max(Nanos(raised));
            self.looked = (now, long_waits);
            if is_period_over {
                self.now_set.period += 1;
                self.period_began = now;
                self.short.begin(self.now_set.period, now);
                self.is_ripe = true;
            }
            // If setting fails, the programs continue with the old settings.
            if self.set().is_err() {
                self.is_ripe = false;
            }
        }
    }

    fn take_long(&mut self, give: &mut dyn FnMut(BlockedWait, ReportedThread)) {
        while let Some(record) = self.long_waits.next() {
            if let Some(wait) = bpf::read_record::<LongWait>(&record) {
                self.names.note(wait.tid, wait.thread(), wait.parent);
                if let Some(judgement) = self.functions.of(&wait) {
                    give(blocked_wait(&wait, &judgement), wait.thread());
                }
            }
        }
    }

    /// Takes the short-wait counts of the periods that `passes` accepts.
    fn take_short(&mut self, passes: impl Fn(u32, u32) -> bool) {
        let present = self.now_set.period;
        let all = self.short_waits.iter().filter_map(Result::ok);
        let taken: Vec<(ShortKey, ShortSum)> = all.filter(|(key, _)| passes(key.period, present)).collect();
        for (key, _) in taken {
            // Concurrent insertions can make an iteration return an entry twice, but the entry is removed
            // once.
            let Ok(sum) = self.short_waits.get(&key, 0) else { continue };
            if self.short_waits.remove(&key).is_ok() {
                self.short.add(key, Sum { count: sum.count, total: Nanos(sum.total_ns) });
                self.names.note(key.tid, sum.thread(), sum.parent);
            }
        }
    }

    fn counters(&self) -> Counters {
        self.counters.get(&0, 0).unwrap_or_default()
    }

    /// Counts a wait that cannot have its own row, because all rows are used.
    pub(crate) fn count(&mut self, wait: &BlockedWait) {
        let lasted = wait.ended.and_then(|ended| ended.since(wait.began)).unwrap_or_default();
        self.short.add_wait(self.now_set.period, (wait.tid, wait.blocked_in, wait.reason), lasted);
    }

    /// Detaches the programs, and passes on the remaining long waits and the open waits.
    pub(crate) fn finish(
        mut self,
        ended: Timestamp,
        machine: &Machine,
        give: &mut dyn FnMut(BlockedWait),
    ) -> FinishedProbe {
        let began = Timestamp(self.now_set.began_ns);
        let noted_before = self.noted();
        let blocked = open::blocked_threads(machine);
        let judged: FxHashMap<u32, Judgement> =
            blocked.into_iter().map(|tid| (tid, open::judgement(machine, tid))).collect();
        self.links.clear();
        self.take_long(&mut |wait, _| give(wait));
        self.take_short(|_, _| true);
        let counters = self.counters();
        let mut lost = Lost {
            missing: counters.not_noted + counters.not_counted,
            end_missed: counters.end_missed,
            only_counted: counters.ring_full,
            sleeps: counters.sleeps_lost,
        };
        let noted = self.noted();
        for (&tid, &noted_ns) in &noted {
            if noted_before.get(&tid) != Some(&noted_ns) {
                // The wait began while the programs were being detached.
                let lasted = ended.since(Timestamp(noted_ns)).unwrap_or_default();
                let what = (tid, BlockedIn::Unknown, WaitReason::Unknown);
                self.short.add_wait(self.now_set.period, what, lasted);
            } else if let Some(judgement) = judged.get(&tid) {
                give(open_wait(tid, Timestamp(noted_ns), false, judgement));
            } else if noted_ns & MAYBE_WOKEN == 0 {
                lost.end_missed += 1;
            }
        }
        // A thread that was blocked during the whole recording was never seen. If waits are missing, an
        // unseen thread may have run.
        let mut never_seen: Vec<(u32, Judgement)> =
            judged.into_iter().filter(|(tid, _)| !noted_before.contains_key(tid)).collect();
        never_seen.retain(|(tid, _)| !noted.contains_key(tid) && !is_own(machine, *tid));
        never_seen.retain(|(tid, _)| counters.not_noted == 0 && open::is_blocked(machine, *tid));
        for (tid, judgement) in never_seen {
            give(open_wait(tid, began, true, &judgement));
        }
        let sleepers = self.sleepers.iter().filter_map(Result::ok);
        let since = sleepers.map(|(tid, sleeper)| (tid, Timestamp(sleeper.slept_ns))).collect();
        let still_asleep = sleeps::still_asleep(machine, &since, (began, ended));
        FinishedProbe {
            short: self.short,
            names: self.names,
            started_by: self
                .started_by
                .iter()
                .filter_map(Result::ok)
                .map(|(pid, Started { parent, started_ns, .. })| {
                    (pid, ProcessStart { parent, started: Nanos(started_ns) })
                })
                .collect(),
            processes: Some(ProcessesSeen::new(
                self.ran.iter().filter_map(Result::ok),
                self.slept.iter().filter_map(Result::ok).chain(still_asleep),
                |pid| sleeps::is_musl(machine, pid),
            )),
            lost,
            threshold_max: self.threshold_max,
            without_symbols: self.functions.is_empty(),
            unseen: None,
        }
    }

    /// Returns the blocked threads, each with the beginning of its wait.
    fn noted(&self) -> FxHashMap<u32, u64> {
        let slots = self.open_slots.iter().filter_map(Result::ok);
        let in_slots =
            slots.filter(|slot| slot.tid != 0 && slot.began_ns != 0).map(|slot| (slot.tid, slot.began_ns));
        in_slots.chain(self.open_beyond.iter().filter_map(Result::ok)).collect()
    }
}

fn is_own(machine: &Machine, tid: u32) -> bool {
    machine.proc(format!("{}/task/{tid}", std::process::id())).exists()
}

fn blocked_wait(wait: &LongWait, judgement: &Judgement) -> BlockedWait {
    // The kernel's `dev_t` has 20 bits for the minor number.
    let fs = DeviceId::new(wait.device >> 20, wait.device & 0xf_ffff);
    BlockedWait {
        tid: wait.tid,
        began: Timestamp(wait.began_ns),
        began_before: wait.flags & BEGAN_BEFORE != 0,
        ended: Some(Timestamp(wait.ended_ns)),
        blocked_in: judgement.blocked_in,
        reason: judgement.reason,
        waker_tid: judgement.waker_tid,
        completed_on: judgement.by_completion.then_some(wait.cpu),
        is_by_ring: judgement.is_by_ring,
        file: judgement.is_of_file.then_some(SeenFile {
            inode: Inode { fs, number: wait.inode },
            generation: Generation::new(wait.generation),
        }),
    }
}

fn open_wait(tid: u32, began: Timestamp, began_before: bool, judgement: &Judgement) -> BlockedWait {
    BlockedWait {
        tid,
        began,
        began_before,
        ended: None,
        blocked_in: judgement.blocked_in,
        reason: judgement.reason,
        waker_tid: None,
        completed_on: None,
        is_by_ring: judgement.is_by_ring,
        file: None,
    }
}

#[cfg(test)]
mod tests;
