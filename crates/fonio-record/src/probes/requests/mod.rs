//! Reports each completed block request, by BPF, for a permanent watch.
//!
//! A recording instead uses tracefs, which shows each step of a request. For a watch, BPF programs combine
//! the steps: a request costs two short programs and 120 bytes instead of five events of 63 bytes
//! (`bpf/requests.bpf.c`).

mod layout;

use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Ebpf;
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use fonio_core::lives::Generation;
use fonio_core::{
    ByteCount, Content, DeviceId, Flags, Inode, Nanos, Op, Request, Sector, SeenFile, Timestamp,
};

use crate::probes::bpf::{self, Unavailable};
use layout::{BY_KERNEL, Completed, Counters, OF_JOURNAL, OF_METADATA, UNNOTED};

/// The compiled BPF object, created by `cargo xtask assets`.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/requests.bpf.o"));

/// The programs whose tracepoints every kernel with BPF has, in order of attachment: the program for
/// completions comes last, because it needs the notes of the other programs.
const PROGRAMS: [bpf::Program; 4] = [
    ("queued", "block_bio_queue"),
    ("split", "block_split"),
    ("issued", "block_rq_issue"),
    ("completed", "block_rq_complete"),
];
/// The program for pages that become dirty, with its tracepoint since Linux 5.18 and its tracepoint before
/// Linux 5.18.
const DIRTIED: [bpf::Program; 2] =
    [("dirtied", "writeback_dirty_folio"), ("dirtied", "writeback_dirty_page")];
/// The program for file systems with a journal; a kernel without ext4 lacks this tracepoint.
const JOURNAL: bpf::Program = ("changing", "jbd2_handle_start");

/// A completed request from the kernel: the row, and the values that have no column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenRequest {
    /// The row of the request, with the queue and completion times. `issued` is unknown if the request was
    /// issued to the driver before the probe began. `cause_tid` is not set.
    pub row: Request,
    /// The thread that caused the request.
    pub cause: Option<GivenCause>,
    /// Whether a kernel thread queued the request.
    pub by_kernel: bool,
    /// The file whose data the request carries.
    pub file: Option<SeenFile>,
}

/// The request flags that the BPF programs report.
const FLAGS_KNOWN: [Flags; 5] = [Flags::SYNC, Flags::META, Flags::FUA, Flags::PREFLUSH, Flags::READAHEAD];

/// The thread that caused a request: its process, control group and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenCause {
    pub tid: u32,
    pub pid: u32,
    pub cgroup: u64,
    /// When the thread started, as time since boot.
    pub started: Nanos,
    pub comm: [u8; 16],
}

/// The BPF programs, which are loaded and attached.
pub(crate) struct RequestsProbe {
    _programs: Ebpf,
    _links: Vec<BtfTracePointLink>,
    counters: Array<MapData, Counters>,
    completions: RingBuf<MapData>,
}

impl std::fmt::Debug for RequestsProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestsProbe").finish_non_exhaustive()
    }
}

impl RequestsProbe {
    /// Loads and attaches the BPF programs.
    pub(crate) fn begin() -> Result<RequestsProbe, Unavailable> {
        let (mut programs, attached) = load()?;
        let counters = bpf::map(&mut programs, "counters", Array::try_from)?;
        let completions = bpf::map(&mut programs, "completions", RingBuf::try_from)?;
        let links = bpf::attach(&mut programs, &attached)?;
        Ok(RequestsProbe { _programs: programs, _links: links, counters, completions })
    }

    /// Returns a descriptor that becomes readable when requests should be taken before the buffer is full.
    pub(crate) fn filling(&self) -> BorrowedFd<'_> {
        // SAFETY: the map owns the descriptor, and lives as long as the borrow of `self`.
        unsafe { BorrowedFd::borrow_raw(self.completions.as_raw_fd()) }
    }

    /// Passes the completed requests to `give`.
    pub(crate) fn drain(&mut self, give: &mut dyn FnMut(GivenRequest)) {
        while let Some(record) = self.completions.next() {
            if let Some(completed) = bpf::read_record::<Completed>(&record) {
                give(given(&completed));
            }
        }
    }

    /// Returns the number of requests that are missing because the ring buffer was full.
    pub(crate) fn lost(&self) -> u64 {
        self.counters.get(&0, 0).unwrap_or_default().lost
    }
}

/// Loads the programs for the tracepoints that this kernel has.
fn load() -> Result<(Ebpf, Vec<bpf::Program>), Unavailable> {
    let mut refused = None;
    for journal in [Some(JOURNAL), None] {
        for dirtied in DIRTIED {
            let all: Vec<bpf::Program> = journal.into_iter().chain([dirtied]).chain(PROGRAMS).collect();
            match bpf::load(OBJECT, &all, &[]) {
                Ok(programs) => return Ok((programs, all)),
                // Keep the first error, which is about the programs for new kernels.
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
    }
    Err(refused.unwrap_or(Unavailable::NoTypes))
}

/// Converts the kernel's `dev_t`, which has 20 bits for the minor number, to a device id.
fn device(number: u32) -> DeviceId {
    DeviceId::new(number >> 20, number & 0xf_ffff)
}

fn given(raw: &Completed) -> GivenRequest {
    let (note, cause) = (&raw.note, &raw.note.cause);
    let is_noted = note.flags & UNNOTED == 0;
    let op = op(raw.op_flags);
    let row = Request {
        flags: flags(raw.op_flags),
        flags_known: FLAGS_KNOWN.into_iter().fold(Flags::NONE, |all, flag| all | flag),
        sector: (op != Op::Flush).then_some(Sector(raw.sector)),
        queued: Some(Timestamp(note.queued_ns)),
        issued: (note.issued_ns != 0).then_some(Timestamp(note.issued_ns)),
        completed: Some(Timestamp(raw.completed_ns)),
        tid: is_noted.then_some(note.tid),
        content: match note.flags {
            flags if flags & OF_JOURNAL != 0 => Content::FsJournal,
            flags if flags & OF_METADATA != 0 => Content::FsMetadata,
            _ if note.inode != 0 => Content::Data,
            _ => Content::Unknown,
        },
        error: Some(errno(raw.error)),
        ..Request::new(device(raw.device), op, ByteCount(raw.bytes.into()))
    };
    GivenRequest {
        row,
        cause: is_noted.then_some(GivenCause {
            tid: cause.tid,
            pid: cause.tgid,
            cgroup: cause.cgroup,
            started: Nanos(cause.started_ns),
            comm: cause.comm,
        }),
        by_kernel: note.flags & BY_KERNEL != 0,
        // The metadata of some file systems is in files that nobody else can see.
        file: (note.inode != 0 && note.flags & OF_METADATA == 0).then_some(SeenFile {
            inode: Inode { fs: device(note.fs), number: note.inode },
            generation: Generation::new(note.generation),
        }),
    }
}

/// Converts the kernel's operation (`enum req_op` of `include/linux/blk_types.h`) to an op. The numbers of
/// zone operations differ between kernels.
fn op(op_flags: u32) -> Op {
    match op_flags & 0xff {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 => Op::Discard,
        5 => Op::SecureErase,
        9 => Op::WriteZeroes,
        _ => Op::Other,
    }
}

/// Converts the kernel's request flags (`enum req_flag_bits`) to fonio's flags. The bit positions are the
/// same in Linux 5.15 to 6.18.
fn flags(op_flags: u32) -> Flags {
    const BITS: [u32; 5] = [11, 12, 17, 18, 19];
    let set = BITS.into_iter().zip(FLAGS_KNOWN).filter(|(bit, _)| op_flags >> bit & 1 != 0);
    set.fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

/// Converts the tracepoint's error to an errno. Before Linux 5.16, the error already is an errno; since then,
/// it is a `blk_status_t` (`block/blk-core.c`).
fn errno(error: i32) -> i32 {
    match error {
        ..=0 => error,
        1 => -libc::EOPNOTSUPP,
        2 => -libc::ETIMEDOUT,
        3 => -libc::ENOSPC,
        4 => -libc::ENOLINK,
        5 => -libc::EREMOTEIO,
        7 => -libc::ENODATA,
        8 => -libc::EILSEQ,
        9 => -libc::ENOMEM,
        _ => -libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_their_meaning() {
        let mut raw = Completed {
            device: 179 << 20 | 8,
            bytes: 4096,
            op_flags: 1 | 1 << 11 | 1 << 18,
            sector: 80,
            error: 10,
            ..Completed::default()
        };
        (raw.note.inode, raw.note.fs, raw.note.issued_ns) = (12, 179 << 20 | 9, 5);
        let write = given(&raw);
        let row = &write.row;
        assert_eq!((row.device, row.op, row.error), (DeviceId::new(179, 8), Op::Write, Some(-libc::EIO)));
        assert_eq!(row.flags, Flags::SYNC | Flags::PREFLUSH);
        assert_eq!((row.issued, row.content), (Some(Timestamp(5)), Content::Data));
        raw.op_flags = 2;
        (raw.note.flags, raw.note.issued_ns, raw.note.inode) = (UNNOTED, 0, 0);
        let flush = given(&raw);
        assert_eq!(
            (flush.row.op, flush.row.sector, flush.row.tid, flush.file),
            (Op::Flush, None, None, None)
        );
        raw.note.flags = OF_JOURNAL | OF_METADATA;
        assert_eq!(given(&raw).row.content, Content::FsJournal);
        (raw.note.flags, raw.note.inode) = (OF_METADATA, 1);
        let nodes = given(&raw);
        assert_eq!((nodes.row.content, nodes.file), (Content::FsMetadata, None));
    }
}
