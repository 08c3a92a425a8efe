//! Defines block events, which every trace reader produces and the assembler consumes.

use serde::{Deserialize, Serialize};

use crate::op::{Flags, Op};
use crate::rows::{Call, Diagnostic, File, Mark, Request, Sample, Thread, Wait};
use crate::units::{ByteCount, DeviceId, Nanos, Sector, Timestamp};

/// One event of the kernel's block layer, read from any trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// When the event happened.
    pub time: Timestamp,
    /// The kind of the event.
    pub kind: EventKind,
    /// The device on which the event happened.
    pub device: DeviceId,
    /// First sector of the request or bio. For a flush without data, this is 0 or, in old kernels,
    /// `u64::MAX`. Trace readers pass this value on unchanged.
    pub sector: Sector,
    /// The current size of the request or bio. For a partial completion, this is the size of the completed
    /// part.
    pub bytes: ByteCount,
    /// The operation of the request or bio.
    pub op: Op,
    /// The flags that are set, as far as the source shows flags.
    pub flags: Flags,
    /// The flags that the source can show.
    pub flags_known: Flags,
    /// The processor on which the event was traced.
    pub cpu: Option<u32>,
    /// The thread that was running when the event was traced. For a completion, this is the thread that the
    /// interrupt interrupted, usually an unrelated thread.
    pub tid: Option<u32>,
    /// The kernel's 16-bit `ioprio`, with the class in the top 3 bits.
    pub ioprio: Option<u16>,
    /// For a completion or requeue: 0 or a negative errno. `None` if the source does not show errors.
    pub error: Option<i32>,
}

impl BlockEvent {
    /// Creates an event with only a time, kind and device.
    pub fn new(time: Timestamp, kind: EventKind, device: DeviceId) -> BlockEvent {
        BlockEvent {
            time,
            kind,
            device,
            sector: Sector(0),
            bytes: ByteCount(0),
            op: Op::Other,
            flags: Flags::NONE,
            flags_known: Flags::NONE,
            cpu: None,
            tid: None,
            ioprio: None,
            error: None,
        }
    }
}

/// The kind of an event. The kinds have the kernel's names; their descriptions begin with the letter that
/// blkparse prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Q: a bio was submitted to the device (`block_bio_queue`).
    BioQueue,
    /// M: a bio was appended to a request (`block_bio_backmerge`). In blktrace, this event can also be
    /// [`EventKind::RequestMerge`].
    BackMerge,
    /// F: a bio was prepended to a request (`block_bio_frontmerge`).
    FrontMerge,
    /// `block_rq_merge`: the request of the event was merged into another request.
    RequestMerge,
    /// B: the data of the bio was copied to lower memory (bounced).
    Bounce,
    /// C: a bio completed on a bio-based device (`block_bio_complete`). blktrace does not distinguish this
    /// event from [`EventKind::Complete`].
    BioComplete,
    /// G: a request was allocated for a bio (`block_getrq`).
    GetRequest,
    /// S: a thread waits for a free request slot.
    SleepRequest,
    /// `block_io_start`: I/O accounting began for a request.
    IoStart,
    /// I: a request was inserted into the I/O scheduler (`block_rq_insert`).
    Insert,
    /// D: a request was issued to the driver (`block_rq_issue`).
    Issue,
    /// R: the driver returned a request to the queue (`block_rq_requeue`).
    Requeue,
    /// C: the driver completed a request or a part of it (`block_rq_complete`).
    Complete,
    /// `block_io_done`: I/O accounting ended for a request.
    IoDone,
    /// X: a bio was split; its remainder begins at `new_sector`.
    Split {
        /// First sector of the remaining bio.
        new_sector: Sector,
    },
    /// A: a bio was remapped to the event's device and sector.
    Remap {
        /// The device on which the bio was queued before.
        from_device: DeviceId,
        /// The bio's sector on that device.
        from_sector: Sector,
    },
    /// `block_rq_remap`: the request moved to the event's device and sector (device mapper's multipath).
    RequestRemap {
        /// The device on which the request was queued before.
        from_device: DeviceId,
        /// The request's sector on that device.
        from_sector: Sector,
    },
    /// P: a thread begins to collect bios on its plug list.
    Plug,
    /// U: the bios on a plug list are released to the device.
    Unplug {
        /// Number of requests on the plug list.
        count: u32,
    },
}

impl EventKind {
    /// Returns the name in [`Source::shows`](crate::meta::Source::shows), and the kind's bit in a
    /// [`KindSet`].
    fn entry(self) -> (usize, &'static str) {
        match self {
            EventKind::BioQueue => (0, "queue"),
            EventKind::BackMerge => (1, "back_merge"),
            EventKind::FrontMerge => (2, "front_merge"),
            EventKind::RequestMerge => (3, "request_merge"),
            EventKind::Bounce => (4, "bounce"),
            EventKind::BioComplete => (5, "bio_complete"),
            EventKind::GetRequest => (6, "get_request"),
            EventKind::SleepRequest => (7, "sleep_request"),
            EventKind::IoStart => (8, "io_start"),
            EventKind::Insert => (9, "insert"),
            EventKind::Issue => (10, "issue"),
            EventKind::Requeue => (11, "requeue"),
            EventKind::Complete => (12, "complete"),
            EventKind::IoDone => (13, "io_done"),
            EventKind::Split { .. } => (14, "split"),
            EventKind::Remap { .. } => (15, "remap"),
            EventKind::RequestRemap { .. } => (16, "request_remap"),
            EventKind::Plug => (17, "plug"),
            EventKind::Unplug { .. } => (18, "unplug"),
        }
    }

    /// Returns the kind's name in [`Source::shows`](crate::meta::Source::shows).
    pub fn name(self) -> &'static str {
        self.entry().1
    }
}

/// The set of event kinds that occur in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSet {
    names: [Option<&'static str>; 19],
}

impl KindSet {
    /// Adds an event kind.
    pub fn insert(&mut self, kind: EventKind) {
        let (place, name) = kind.entry();
        self.names[place] = Some(name);
    }

    /// Returns the names of the event kinds, for [`Source::shows`](crate::meta::Source::shows), in a fixed
    /// order.
    pub fn names(&self) -> Vec<String> {
        self.names.iter().flatten().map(|name| (*name).to_owned()).collect()
    }
}

/// Events that were lost: a ring buffer overran, or bytes of a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostEvents {
    /// The processor whose buffer lost the events; `None` if the source does not show the processor.
    pub cpu: Option<u32>,
    /// The number of events lost in the gap; `None` if it is unknown.
    pub count: Option<u64>,
    /// The start of the gap: no event at this time or earlier is missing.
    pub after: Timestamp,
    /// The end of the gap: no event at this time or later is missing.
    pub before: Timestamp,
}

/// The timestamps of a source, stored as a few runs. An ordinary trace has one run; each outlier adds a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    runs: Vec<Run>,
}

/// A run of timestamps with gaps of at most [`Instants::FAR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The earliest timestamp of the run.
    pub first: Timestamp,
    /// The latest timestamp of the run.
    pub last: Timestamp,
    /// The number of timestamps in the run.
    pub count: u64,
}

impl Run {
    fn is_near(&self, time: Timestamp) -> bool {
        let far = Instants::FAR.0;
        time.0 >= self.first.0.saturating_sub(far) && time.0 <= self.last.0.saturating_add(far)
    }
}

impl Instants {
    /// Maximum gap within a run: 30 days. We chose this value because a block device in use never goes this
    /// long without an event.
    pub const FAR: Nanos = Nanos(30 * 24 * 3600 * 1_000_000_000);
    /// Maximum number of runs of timestamps. After this number of runs, further timestamps extend the last
    /// run.
    const RUNS_MAX: usize = 64;

    /// Adds a single timestamp.
    #[inline]
    pub fn see(&mut self, time: Timestamp) {
        self.add(Run { first: time, last: time, count: 1 });
    }

    /// Adds several timestamps. The timestamps are nearly always close together, so they are added as one
    /// run.
    pub fn see_all(&mut self, times: impl Iterator<Item = Timestamp> + Clone) {
        let start = Run { first: Timestamp(u64::MAX), last: Timestamp(0), count: 0 };
        let all = times.clone().fold(start, |run, time| Run {
            first: run.first.min(time),
            last: run.last.max(time),
            count: run.count + 1,
        });
        let together = match &self.runs[..] {
            [] => all.last.0.saturating_sub(all.first.0) <= Self::FAR.0,
            [run] => run.is_near(all.first) && run.is_near(all.last),
            _ => false,
        };
        if all.count > 0 && together {
            self.add(all);
        } else {
            times.for_each(|time| self.see(time));
        }
    }

    /// Adds a run of timestamps that are close together.
    pub fn add(&mut self, more: Run) {
        let near = self.runs.iter().rposition(|run| run.is_near(more.first) || run.is_near(more.last));
        let place = near.or_else(|| (self.runs.len() >= Self::RUNS_MAX).then(|| self.runs.len() - 1));
        let Some(place) = place else { return self.runs.push(more) };
        let run = &mut self.runs[place];
        run.first = run.first.min(more.first);
        run.last = run.last.max(more.last);
        run.count += more.count;
    }

    /// Adds several runs.
    pub fn add_all(&mut self, runs: impl IntoIterator<Item = Run>) {
        runs.into_iter().for_each(|run| self.add(run));
    }

    /// Returns the runs, in order of their first timestamps. Runs with a gap of at most [`Instants::FAR`]
    /// between them are joined.
    pub fn runs(&self) -> Vec<Run> {
        let mut sorted = self.runs.clone();
        sorted.sort_unstable_by_key(|run| run.first);
        let mut joined: Vec<Run> = Vec::with_capacity(sorted.len());
        for run in sorted {
            match joined.last_mut().filter(|before| before.is_near(run.first)) {
                Some(before) => {
                    before.last = before.last.max(run.last);
                    before.count += run.count;
                }
                None => joined.push(run),
            }
        }
        joined
    }

    fn clear(&mut self) {
        self.runs.clear();
    }
}

/// A wait of a thread that a trace shows. The assembler adds the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenWait {
    /// The wait, without its request.
    pub row: Wait,
    /// The processor that completed the request which ended the wait; `None` if no completion ended it.
    pub completed_on: Option<u32>,
}

/// The result of one step of a reader. Events are in time order within and across batches, unless the source
/// itself is out of order. The assembler must handle such sources.
#[derive(Debug, Default)]
pub struct Batch {
    /// Block events found in this step.
    pub events: Vec<BlockEvent>,
    /// Complete requests, from sources that list requests (biosnoop, MSR CSV). The assembler assigns the
    /// `request_id` of these requests.
    pub requests: Vec<Request>,
    /// Threads that are new or have a new name.
    pub threads: Vec<Thread>,
    /// Files of the calls in this or a later step, each once. The source numbers them.
    pub files: Vec<File>,
    /// Marks that the source contains (`trace_marker`, blktrace messages).
    pub marks: Vec<Mark>,
    /// Waits of threads that the source shows, each at its end.
    pub waits: Vec<SeenWait>,
    /// File-system calls that the source shows, each at its end. The assembler does not number them.
    pub calls: Vec<Call>,
    /// Samples that the source contains (`cpu_frequency`, thermal events).
    pub samples: Vec<Sample>,
    /// Gaps in which events of the source were lost.
    pub lost: Vec<LostEvents>,
    /// The timestamps of all parsed events, including events for which there is no row. These timestamps
    /// define the span of a trace. The timestamps of the rows in the other fields can be omitted here.
    pub instants: Instants,
    /// Errors found in the input.
    pub diagnostics: Vec<Diagnostic>,
}

impl Batch {
    /// Removes all rows from the batch but keeps its allocated memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.requests.clear();
        self.threads.clear();
        self.files.clear();
        self.marks.clear();
        self.waits.clear();
        self.calls.clear();
        self.samples.clear();
        self.lost.clear();
        self.instants.clear();
        self.diagnostics.clear();
    }
}
