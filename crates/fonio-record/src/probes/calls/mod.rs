//! Records the file-system calls of the command, or of processes named by the user, and of their descendants.
//!
//! A BPF program (`bpf/calls.bpf.c`) reports each finished call, with its file and offset. The life cycle of
//! a probe:
//!
//! 1. [`CallsProbe::load`] creates the maps and lets the kernel verify the programs.
//! 2. [`CallsProbe::attach`] begins to record, and follows the processes that the user named.
//! 3. [`CallsProbe::follow_children`] follows the child processes of this thread while this thread starts the
//!    command.
//! 4. [`CallsProbe::drain`], called at each wake-up of the recorder, takes the finished calls.
//! 5. [`CallsProbe::finish`] detaches the programs and finds the open calls.
//!
//! Calls that the program could not note are counted as lost. I/O through io_uring uses none of these system
//! calls, so it is not seen.

mod layout;
mod recorded;
pub(crate) mod sqlite;
pub(crate) mod table;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use fonio_core::lives::Generation;
use fonio_core::{ByteCount, DeviceId, FileFlags, Inode, SqliteWrite, Timestamp};
use rustc_hash::FxHashMap;

use crate::probes::bpf::{self, Unavailable};
use crate::probes::statements::StatementsProbe;
use layout::{Counters, HAS_BYTES, HAS_FILE, HAS_OFFSET, IS_FOLDER, MADE_FILE, OpenCall, RawCall, RawPath};
pub(crate) use recorded::{CallsCapture, CapturedCalls};

/// The compiled BPF object, created by `cargo xtask assets`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/calls.bpf.o"));

/// The programs in order of attachment: the program that follows children comes before the programs that see
/// calls.
const PROGRAMS: [bpf::Program; 4] = [
    ("forked", "sched_process_fork"),
    ("ended", "sched_process_exit"),
    ("entered", "sys_enter"),
    ("exited", "sys_exit"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedCall {
    pub tid: u32,
    pub number: i32,
    pub inode: Option<Inode>,
    /// The generation of the file with this inode number.
    pub generation: Option<Generation>,
    pub offset: Option<u64>,
    pub bytes: Option<ByteCount>,
    pub entered: Timestamp,
    /// Time and value of the call's return; `None` if the call had not returned when the recording ended.
    pub ended: Option<(Timestamp, i64)>,
    pub sqlite_write: Option<SqliteWrite>,
    /// The flags of the open file, if the call has one.
    pub file_flags: Option<FileFlags>,
}

/// A call as reported by the BPF program.
#[derive(Debug)]
pub(crate) struct Given {
    pub call: RecordedCall,
    pub path: Option<RawPath>,
    /// The id and the name of the process.
    pub process: u32,
    pub comm: [u8; 16],
}

/// Numbers of calls and processes that are missing in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Calls missing because a table was full.
    pub missing: u64,
    /// Processes whose calls are missing, because too many processes were followed.
    pub processes: u64,
    /// Number of calls of 32-bit programs, which are not recorded.
    pub compat: u64,
}

/// The BPF programs, loaded and then attached.
pub(crate) struct CallsProbe {
    programs: Ebpf,
    links: Vec<BtfTracePointLink>,
    counters: Array<MapData, Counters>,
    followed: HashMap<MapData, u32, u8>,
    open_calls: HashMap<MapData, u32, OpenCall>,
    calls: RingBuf<MapData>,
    /// The probe for SQL statements, or why it is unavailable; `None` if the user does not want it.
    pub(crate) statements: Option<Result<StatementsProbe, Unavailable>>,
}

impl std::fmt::Debug for CallsProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallsProbe").field("attached", &!self.links.is_empty()).finish_non_exhaustive()
    }
}

impl RecordedCall {
    /// Returns a time at which the file of the call existed. The program reads an open file when the call returns; a call with a
    /// path may have deleted the file by then.
    pub(crate) fn had_file_at(&self) -> Timestamp {
        let ended = self.ended.filter(|_| self.file_flags.is_some());
        ended.map_or(self.entered, |(at, _)| at)
    }
}

impl CallsProbe {
    /// Loads the programs into the kernel without attaching them. `with_statements` also loads the probe for
    /// SQL statements.
    pub(crate) fn load(with_statements: bool) -> Result<CallsProbe, Unavailable> {
        let mut programs = bpf::load(OBJECT, &PROGRAMS, &[])?;
        let mut kinds: Array<MapData, u8> = bpf::map(&mut programs, "call_kinds", Array::try_from)?;
        for (number, kind) in table::kinds() {
            kinds.set(number, kind, 0).map_err(|error| Unavailable::from_map(&error))?;
        }
        let counters = bpf::map(&mut programs, "counters", Array::try_from)?;
        let followed = bpf::map(&mut programs, "followed", HashMap::try_from)?;
        let open_calls = bpf::map(&mut programs, "open_calls", HashMap::try_from)?;
        let calls = bpf::map(&mut programs, "calls", RingBuf::try_from)?;
        let statements = with_statements.then(|| StatementsProbe::load(&mut programs));
        Ok(CallsProbe { programs, links: Vec::new(), counters, followed, open_calls, calls, statements })
    }

    /// Attaches the programs, and follows these processes.
    pub(crate) fn attach(&mut self, processes: &[u32]) -> Result<(), Unavailable> {
        for process in processes {
            self.follow(*process, layout::FOLLOWED)?;
        }
        self.links = bpf::attach(&mut self.programs, &PROGRAMS)?;
        Ok(())
    }

    fn follow(&mut self, process: u32, how: u8) -> Result<(), Unavailable> {
        self.followed.insert(process, how, 0).map_err(|error| Unavailable::from_map(&error))
    }

    /// Stops following a process. It may already have ended.
    fn stop_following(&mut self, process: u32) {
        let _ = self.followed.remove(&process);
    }

    /// Starts or stops following the future child processes of this thread.
    pub(crate) fn follow_children(&mut self, follow: bool) -> Result<(), Unavailable> {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        if follow {
            return self.follow(own, layout::ONLY_CHILDREN);
        }
        self.followed.remove(&own).map_err(|error| Unavailable::from_map(&error))
    }

    /// Passes the finished calls to `give`. Returns the number of bytes that the calls used in the ring
    /// buffer, and the size of the buffer.
    pub(crate) fn drain(&mut self, give: &mut dyn FnMut(Given)) -> (u64, u64) {
        let mut taken = 0;
        while let Some(record) = self.calls.next() {
            taken += record.len() as u64 + bpf::RING_HEADER_BYTES;
            if let Some((raw, path)) = RawCall::read(&record) {
                give(given(&raw, path));
            }
        }
        (taken, layout::RING_BYTES)
    }

    /// Detaches the programs, and passes on the remaining finished calls and the open calls.
    pub(crate) fn finish(mut self, ended: Timestamp, give: &mut dyn FnMut(Given)) -> Lost {
        self.links.clear();
        self.drain(give);
        let open: FxHashMap<u32, OpenCall> = self.open_calls.iter().filter_map(Result::ok).collect();
        for (tid, call) in open {
            if call.entered_ns >= ended.0 {
                continue;
            }
            let call = RecordedCall {
                tid,
                number: call.number,
                inode: None,
                generation: None,
                offset: None,
                bytes: None,
                entered: Timestamp(call.entered_ns),
                ended: None,
                sqlite_write: None,
                file_flags: None,
            };
            give(Given { call, path: None, process: 0, comm: [0; 16] });
        }
        let counters = self.counters.get(&0, 0).unwrap_or_default();
        Lost {
            missing: counters.ring_full + counters.not_noted,
            processes: counters.not_followed,
            compat: counters.compat,
        }
    }
}

/// The kernel's flags of an open file, and fonio's bits. The value of `O_SYNC` is `O_DSYNC` plus another bit.
pub(crate) const OPEN_FLAGS: [(libc::c_int, FileFlags); 4] = [
    (libc::O_APPEND, FileFlags::APPEND),
    (libc::O_DIRECT, FileFlags::DIRECT),
    (libc::O_DSYNC, FileFlags::DSYNC),
    (libc::O_SYNC, FileFlags::SYNC),
];

/// Converts the kernel's flags of an open file to fonio's bits.
fn file_flags(raw: &RawCall) -> FileFlags {
    let mut flags = FileFlags::NONE;
    for (bits, flag) in OPEN_FLAGS {
        if raw.file_flags & bits as u32 == bits as u32 {
            flags |= flag;
        }
    }
    for (bit, flag) in [(MADE_FILE, FileFlags::MADE), (IS_FOLDER, FileFlags::FOLDER)] {
        if raw.has(bit) {
            flags |= flag;
        }
    }
    flags
}

fn given(raw: &RawCall, path: Option<RawPath>) -> Given {
    // The kernel's `dev_t` has 20 bits for the minor number.
    let fs = DeviceId::new(raw.device >> 20, raw.device & 0xf_ffff);
    let call = RecordedCall {
        tid: raw.tid,
        number: raw.number,
        inode: raw.has(HAS_FILE).then_some(Inode { fs, number: raw.inode }),
        generation: Generation::new(raw.generation).filter(|_| raw.has(HAS_FILE)),
        offset: raw.has(HAS_OFFSET).then_some(raw.offset),
        bytes: raw.has(HAS_BYTES).then_some(ByteCount(raw.bytes)),
        entered: Timestamp(raw.entered_ns),
        ended: Some((Timestamp(raw.exited_ns), raw.result)),
        sqlite_write: sqlite::sqlite_write(raw),
        file_flags: raw.has(HAS_FILE).then(|| file_flags(raw)),
    };
    Given { call, path, process: raw.tgid, comm: raw.comm }
}
