//! Observes the machine continuously at little cost: each completed request, each long wait of a thread, and
//! the sums of short waits, each with its unit or program.
//!
//! With BPF (Linux 5.15 or later, root), two programs report requests and waits (`requests`,
//! `blocked/always.rs`). Without BPF, an observer samples procfs about twice a second, and sees only long
//! waits, and no requests. [`Observer::limited_because`] explains why BPF is not used.
//!
//! An observer keeps no history, and its tables are bounded, so it can run for years.

mod identities;
mod paths;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fonio_core::{
    BlockedCount, BlockedIn, Content, DeviceId, Inode, Nanos, Op, Request, SeenFile, Timestamp, Wait,
};
use fonio_machine::Machine;
use fonio_system::TRIAL_NAME;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::attribution::swap;
use crate::attribution::thread_names::ReportedThread;
use crate::attribution::threads::TICK_NS;
use crate::clock::now;
use crate::probes::blocked::{BlockedProbe, BlockedWait, blocked_in_procfs};
use crate::probes::bpf::Unavailable;
use crate::probes::requests::{GivenCause, GivenRequest, RequestsProbe};
use crate::sampled::{Looker, Tally};
use identities::{Identities, Shown, text};
use paths::Paths;

/// Minimum time between two samples of procfs, and the pause after a sample as a multiple of the sample's
/// duration. With a pause of 400 times the duration, sampling uses at most 0.25 % of one processor.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PAUSE_PER_LOOK: u32 = 400;
/// Minimum time between two readings of the swap areas.
const SWAP_EVERY: Duration = Duration::from_secs(60);

/// A unit, a program that belongs to no unit, or a kind of kernel thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Party {
    /// The name of the unit, container or package; without a unit, container or package, the name of the
    /// program, or the name of the kernel thread without its number.
    pub name: String,
    /// What the party is.
    pub kind: PartyKind,
}

impl Party {
    /// The party of all trials in which fonio repeats a stall.
    pub(crate) fn trial() -> Party {
        Party { name: TRIAL_NAME.to_owned(), kind: PartyKind::Program }
    }

    /// Returns whether the party is a trial in which fonio repeats a stall. Its waits are no stalls of the
    /// machine's programs.
    pub fn is_trial(&self) -> bool {
        *self == Party::trial()
    }
}

/// What a [`Party`] is: a unit, a program, or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartyKind {
    /// A systemd unit, a container, an add-on or an Android package.
    Unit,
    /// A program that belongs to none of these.
    Program,
    /// A kernel thread.
    Kernel,
}

/// The id of a [`Party`] within one observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId(pub u32);

/// A completed request, and the party that caused it.
///
/// The row has the flags SYNC, META, FUA, PREFLUSH and READAHEAD. `queued` is the time at which the request's
/// first bio was queued; for a flush request, the time at which the first of the flushes that it served was
/// queued. The row has no `file_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// The completed request.
    pub row: Request,
    /// The party that caused the request.
    pub party: Option<PartyId>,
    /// The file whose data the request carries; `None` also for direct I/O, whose pages do not show the file.
    pub file: Option<SeenFile>,
}

impl ObservedRequest {
    /// Returns when the request was queued, and when it completed. Panics if one of these times is missing.
    /// An observer sees only completed requests.
    pub fn span(&self) -> (Timestamp, Timestamp) {
        self.row.queued.zip(self.row.completed).expect("an observed request was queued and has completed")
    }
}

/// A long wait of a thread. The row of the wait has no `file_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedWait {
    /// The long wait of the thread.
    pub row: Wait,
    /// The party to which the waiting thread belongs.
    pub party: PartyId,
    /// The name of the waiting thread. Later, the thread can have another name, and another thread its id.
    pub comm: String,
    /// The file of the operation in which the thread waited.
    pub file: Option<SeenFile>,
}

impl ObservedWait {
    /// Returns whether a program, not a kernel thread, waits for storage.
    pub fn is_for_storage(&self) -> bool {
        let blocked_in = self.row.blocked_in.unwrap_or(BlockedIn::Unknown);
        blocked_in != BlockedIn::KernelThread && blocked_in.is_for_storage(self.row.reason)
    }
}

/// The number of short waits of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedCount {
    /// The number of short waits and their total time.
    pub row: BlockedCount,
    /// The party of the waiting thread.
    pub party: PartyId,
}

/// A request, a long wait, or a count of short waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Observed {
    Request(ObservedRequest),
    Wait(ObservedWait),
    Count(ObservedCount),
}

/// Facts about a recently seen thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ObservedThread {
    /// The process id; `None` if unknown.
    pub pid: Option<u32>,
    pub comm: String,
    pub cgroup: Option<String>,
    pub party: PartyId,
}

/// Numbers of requests and waits that the observer did not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unobserved {
    /// Number of requests missed since the beginning, because the kernel's buffer was full.
    pub requests: u64,
    /// Number of waits missed since the beginning, because the kernel's tables were full.
    pub waits: u64,
}

/// Observes the machine from [`Observer::begin`] until it is dropped.
#[derive(Debug)]
pub struct Observer {
    machine: Machine,
    source: Source,
    identities: Identities,
    paths: Paths,
    swap: Vec<(DeviceId, std::ops::Range<u64>)>,
    swap_read: Instant,
    /// The threads that were blocked when the observer began. Only waits of these threads can have begun
    /// earlier.
    blocked_before: FxHashSet<u32>,
    /// When short waits were last counted.
    counted: Timestamp,
}

#[derive(Debug)]
enum Source {
    Bpf { requests: Box<RequestsProbe>, blocked: Box<BlockedProbe> },
    Procfs { looker: Looker, tally: Box<Tally>, pause: Duration, because: String },
}

/// Makes the C library return large freed blocks of memory to the kernel immediately.
///
/// At first, glibc returns these blocks, but then it keeps ever larger blocks: after the recorder has read
/// the kernel's types, glibc keeps 16 MiB until the process ends. musl always returns large blocks.
fn return_large_blocks() {
    // SAFETY: the call only sets a parameter of the allocator, under the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

impl Observer {
    /// Begins to observe the machine.
    pub fn begin() -> Observer {
        return_large_blocks();
        let machine = Machine::here();
        let source = match bpf(&machine) {
            Ok(source) => source,
            Err(unavailable) => Source::Procfs {
                looker: Looker::new(&machine),
                tally: Box::new(Tally::new(now())),
                pause: LOOK_EVERY,
                because: unavailable.to_string(),
            },
        };
        Observer {
            identities: Identities::new(&machine),
            source,
            paths: Paths::default(),
            swap: swap::areas(&machine),
            swap_read: Instant::now(),
            blocked_before: blocked_in_procfs(&machine).into_iter().collect(),
            counted: now(),
            machine,
        }
    }

    /// Returns the reason why the observer sees only long waits and no requests; `None` if the observer sees
    /// all waits and requests.
    pub fn limited_because(&self) -> Option<&str> {
        match &self.source {
            Source::Bpf { .. } => None,
            Source::Procfs { because, .. } => Some(because),
        }
    }

    /// Sleeps for `longest`. New data or a signal ends the sleep early.
    pub fn sleep(&self, longest: Duration) {
        let longest = match &self.source {
            Source::Bpf { .. } => longest,
            Source::Procfs { pause, .. } => longest.min(*pause),
        };
        let time = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        let filling = self.filling();
        let mut polled: Vec<PollFd<'_>> = filling.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let _ = poll(&mut polled, Some(&time));
    }

    fn filling(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Bpf { requests, .. } => Some(requests.filling()),
            Source::Procfs { .. } => None,
        }
    }

    /// Passes all observations since the last call to `give`, and returns the current time.
    pub fn drain(&mut self, give: &mut dyn FnMut(Observed)) -> Timestamp {
        if self.swap_read.elapsed() > SWAP_EVERY {
            self.swap = swap::areas(&self.machine);
            self.swap_read = Instant::now();
        }
        let at = now();
        let span = (self.counted, at);
        let give = &mut |observed: Observed| {
            match &observed {
                Observed::Count(_) => self.counted = at,
                Observed::Request(request) if request.row.op != Op::Write => {}
                Observed::Request(request) => self.paths.note(request.file, request.row.bytes.0),
                // There are few long waits, and each of them can be a stall.
                Observed::Wait(wait) => self.paths.note(wait.file, u64::MAX),
            }
            give(observed);
        };
        match &mut self.source {
            Source::Bpf { requests, blocked } => {
                let (identities, swap) = (&mut self.identities, &self.swap);
                requests.drain(&mut |raw| give(Observed::Request(request(&raw, swap, identities))));
                drain_blocked(blocked, span, (identities, &self.blocked_before), give);
            }
            Source::Procfs { looker, tally, pause, .. } => {
                let seen = looker.blocked();
                *pause = LOOK_EVERY.max(until_now(at) * PAUSE_PER_LOOK);
                let pids: FxHashMap<u32, u32> = seen.iter().map(|thread| (thread.tid, thread.pid)).collect();
                for (&tid, &pid) in &pids {
                    self.identities.of(&procfs_thread(&self.machine, tid, pid));
                }
                tally.look(at, seen);
                drain_tally(tally, span, (&self.machine, &mut self.identities), give);
            }
        }
        self.paths.look_up_new(&self.machine);
        at
    }

    /// Returns the open waits that have lasted `least` or longer. This call takes some milliseconds.
    pub fn open_waits(&mut self, least: Duration) -> Vec<ObservedWait> {
        let at = now();
        let is_long = |began: &Timestamp| {
            at.since(*began).is_some_and(|lasted| Duration::from_nanos(lasted.0) >= least)
        };
        match &self.source {
            Source::Bpf { blocked, .. } => {
                let open = blocked.open_waits().into_iter().filter(|(_, began)| is_long(began));
                let open: Vec<(u32, Timestamp)> = open.collect();
                open.into_iter().filter_map(|(tid, began)| self.open_wait(tid, began)).collect()
            }
            // Sampling reports a long wait only after its end.
            Source::Procfs { .. } => Vec::new(),
        }
    }

    fn open_wait(&mut self, tid: u32, began: Timestamp) -> Option<ObservedWait> {
        let task = self.machine.task(tid);
        // If the end of a wait was not seen, the kernel's table still contains the thread.
        if task.stat()?.state != 'D' {
            return None;
        }
        let judgement = crate::probes::blocked::judged_in_procfs(&self.machine, tid);
        let pid = task.owner().and_then(|owner| owner.pid).unwrap_or(0);
        let is_kernel = judgement.blocked_in == BlockedIn::KernelThread;
        let thread = Shown { is_kernel, ..procfs_thread(&self.machine, tid, pid) };
        let (party, comm) = (self.identities.of(&thread), text(&thread.comm));
        let row = Wait {
            tid,
            began,
            ended: None,
            reason: judgement.reason,
            request_id: None,
            waker_tid: None,
            blocked_in: Some(judgement.blocked_in),
            file_id: None,
            io_wait: None,
            function: None,
        };
        Some(ObservedWait { row, party, comm, file: None })
    }

    /// Returns the numbers of requests and waits that the observer did not see.
    pub fn unobserved(&self) -> Unobserved {
        match &self.source {
            Source::Bpf { requests, blocked } => {
                Unobserved { requests: requests.lost(), waits: blocked.lost() }
            }
            Source::Procfs { .. } => Unobserved::default(),
        }
    }

    /// Returns the party with this id.
    pub fn party(&self, id: PartyId) -> &Party {
        self.identities.party(id)
    }

    /// Returns the known facts about a thread that was seen recently.
    pub fn thread(&self, tid: u32) -> Option<ObservedThread> {
        let known = self.identities.thread(tid)?;
        Some(ObservedThread {
            pid: (known.pid != 0).then_some(known.pid),
            comm: known.comm.clone(),
            cgroup: known.cgroup.clone(),
            party: known.party,
        })
    }

    /// Returns the path and data kind of each file; `None` if the file was deleted before it was looked up, or if
    /// its file system cannot find files by number.
    pub fn paths(&mut self, files: &[SeenFile]) -> Vec<Option<(String, Content)>> {
        self.paths.of(files, &self.machine)
    }

    /// Returns the path and data kind of a file if they are known without a look-up.
    pub fn known_path(&self, file: SeenFile) -> Option<&(String, Content)> {
        self.paths.known_path(&file)
    }

    /// Returns the disk of a file system; `None` if the device number of the file system is not that of a
    /// disk, as with btrfs.
    pub fn disk_of(&self, file_system: DeviceId) -> Option<DeviceId> {
        (file_system.major() != 0).then(|| self.machine.disk_of(file_system))
    }
}

fn bpf(machine: &Machine) -> Result<Source, Unavailable> {
    let blocked = BlockedProbe::begin_always(machine, now())?;
    Ok(Source::Bpf { requests: Box::new(RequestsProbe::begin()?), blocked: Box::new(blocked) })
}

fn until_now(since: Timestamp) -> Duration {
    crate::clock::until(since, now())
}

/// Returns a thread that was just seen in procfs.
fn procfs_thread(machine: &Machine, tid: u32, pid: u32) -> Shown {
    let task = machine.task(tid);
    // A watch runs for months, so other threads with the same name get the number later.
    let started = task.stat().map(|stat| Nanos(stat.started_ticks.saturating_mul(TICK_NS)));
    let name = task.name().unwrap_or_default();
    let mut comm = [0; 16];
    let length = name.len().min(15);
    comm[..length].copy_from_slice(&name.as_bytes()[..length]);
    Shown { tid, pid, comm, started, cgroup: None, is_kernel: false }
}

fn request(
    raw: &GivenRequest,
    swap: &[(DeviceId, std::ops::Range<u64>)],
    identities: &mut Identities,
) -> ObservedRequest {
    let party = raw.cause.map(|cause| identities.of(&shown(raw, &cause)));
    let is_swap = raw.file.is_none()
        && raw.row.sector.is_some_and(|sector| {
            swap.iter().any(|(device, range)| *device == raw.row.device && range.contains(&sector.0))
        });
    let mut row = raw.row.clone();
    row.cause_tid = raw.cause.map(|cause| cause.tid).filter(|cause| Some(*cause) != row.tid);
    if is_swap {
        row.content = Content::Swap;
    }
    ObservedRequest { row, party, file: raw.file }
}

fn shown(raw: &GivenRequest, cause: &GivenCause) -> Shown {
    Shown {
        tid: cause.tid,
        pid: cause.pid,
        comm: cause.comm,
        started: Some(cause.started),
        cgroup: Some(cause.cgroup),
        is_kernel: raw.by_kernel && Some(cause.tid) == raw.row.tid,
    }
}

fn drain_blocked(
    blocked: &mut BlockedProbe,
    span: (Timestamp, Timestamp),
    (identities, blocked_before): (&mut Identities, &FxHashSet<u32>),
    give: &mut dyn FnMut(Observed),
) {
    let (mut waits, mut counts): (Vec<(BlockedWait, ReportedThread)>, Vec<_>) = (Vec::new(), Vec::new());
    let mut long = |wait: BlockedWait, thread| {
        if !wait.began_before || blocked_before.contains(&wait.tid) {
            waits.push((wait, thread));
        }
    };
    blocked.drain_always(span, &mut long, &mut |count, thread| counts.push((count, thread)));
    let mut party = |tid, ReportedThread { pid, comm, started }, blocked_in| {
        let is_kernel = blocked_in == BlockedIn::KernelThread;
        identities.of(&Shown { tid, pid, comm, started: Some(started), cgroup: None, is_kernel })
    };
    for (wait, thread) in waits {
        let row = Wait {
            tid: wait.tid,
            began: wait.began,
            ended: wait.ended,
            reason: wait.reason,
            request_id: None,
            waker_tid: wait.waker_tid,
            blocked_in: Some(wait.blocked_in),
            file_id: None,
            io_wait: None,
            function: None,
        };
        let comm = text(&thread.comm);
        let party = party(wait.tid, thread, wait.blocked_in);
        give(Observed::Wait(ObservedWait { row, party, comm, file: wait.file }));
    }
    for (row, thread) in counts {
        let party = party(row.tid, thread, row.blocked_in);
        give(Observed::Count(ObservedCount { row, party }));
    }
}

fn drain_tally(
    tally: &mut Tally,
    span: (Timestamp, Timestamp),
    (machine, identities): (&Machine, &mut Identities),
    give: &mut dyn FnMut(Observed),
) {
    let mut named = |tid: u32, blocked_in| match identities.thread(tid) {
        Some(known) => (known.party, known.comm.clone()),
        None => {
            let is_kernel = blocked_in == BlockedIn::KernelThread;
            let thread = Shown { is_kernel, ..procfs_thread(machine, tid, 0) };
            (identities.of(&thread), text(&thread.comm))
        }
    };
    for wait in std::mem::take(&mut tally.waits) {
        let blocked_in = wait.blocked_in.unwrap_or(BlockedIn::Unknown);
        let file = wait.file_id.and_then(|id| tally.files.get(id as usize));
        let file = file.map(|(file, _)| SeenFile {
            inode: Inode { fs: file.device, number: file.inode },
            generation: file.generation,
        });
        let row = Wait { file_id: None, ..wait };
        let (party, comm) = named(row.tid, blocked_in);
        give(Observed::Wait(ObservedWait { row, party, comm, file }));
    }
    for count in tally.counts.take(span) {
        let (party, _) = named(count.tid, count.blocked_in);
        give(Observed::Count(ObservedCount { row: count, party }));
    }
}
