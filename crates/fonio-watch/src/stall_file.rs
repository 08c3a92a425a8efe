//! The file of a kept stall: what happened in the minute before, in little space, to be explained later.
//!
//! A recording in Parquet would take more memory to write than the watch may use, and ten files. This is one file: a magic
//! number and a version, then in gzip the head ([`Head`]) and the requests, encoded by postcard with differences of times. A
//! request takes about 15 bytes. [`Kept::pour`] gives the rows of a recording.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fonio_core::meta::{BLOCKED_SAMPLED, Clock, SCHEMA_VERSION, SHOWS_BLOCKED, Source};
use fonio_core::{
    BlockedCount, BlockedIn, ByteCount, Content, DeviceId, Diagnostic, File, Flags, Mark, Meta, Nanos, Op,
    Request, RowSink, Sector, Severity, Thread, Timestamp, Wait, WaitReason,
};
use serde::{Deserialize, Serialize};

use crate::error::WatchError;
use crate::summary::Stall;

const MAGIC: &[u8; 12] = b"fonio-stall\n";
const VERSION: u32 = 1;
/// The most bytes that are decompressed: the watch holds 8 MiB, which encode to less.
const DECODED_MAX: u64 = 32 << 20;

/// The `source.format` of the recording that a kept stall gives.
pub const SOURCE_WATCH: &str = "watch";

/// All but the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Head {
    /// `meta.json`.
    pub meta: String,
    /// The stall.
    pub stall: Option<Stall>,
    pub began: Timestamp,
    pub stall_began: Timestamp,
    pub stall_ended: Timestamp,
    pub threads: Vec<KeptThread>,
    pub files: Vec<KeptFile>,
    pub waits: Vec<KeptWait>,
    pub counts: Vec<KeptCount>,
    /// Requests that were not seen since the watch began.
    pub unobserved: u64,
    /// Why only waits were seen.
    pub limited: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptThread {
    pub tid: u32,
    pub pid: Option<u32>,
    pub comm: String,
    pub cgroup: Option<String>,
    pub unit: Option<String>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptFile {
    pub device: DeviceId,
    pub inode: u64,
    pub path: Option<String>,
    pub content: Content,
}

/// A long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptWait {
    pub tid: u32,
    pub began: Timestamp,
    pub ended: Option<Timestamp>,
    pub blocked_in: BlockedIn,
    pub reason: WaitReason,
    /// The place in [`Head::files`].
    pub file: Option<u32>,
    pub waker_tid: Option<u32>,
}

/// Short waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptCount {
    pub tid: u32,
    pub blocked_in: BlockedIn,
    pub reason: WaitReason,
    pub from: Timestamp,
    pub until: Timestamp,
    pub below: Nanos,
    pub count: u64,
    pub total: Nanos,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct KeptRequest {
    pub device: DeviceId,
    pub op: Op,
    pub flags: Flags,
    pub sector: Option<Sector>,
    pub bytes: ByteCount,
    pub queued: Timestamp,
    pub issued: Option<Timestamp>,
    pub completed: Timestamp,
    pub error: i32,
    pub tid: Option<u32>,
    pub cause_tid: Option<u32>,
    /// The place in [`Head::files`].
    pub file: Option<u32>,
    pub content: Content,
}

/// A request as it is encoded: times as differences to the completion of the one before.
#[derive(Serialize, Deserialize)]
struct Encoded {
    device: u32,
    op: Op,
    flags: u32,
    /// The difference to the end of the request before, plus a mark for none.
    sector: Option<i64>,
    bytes: u64,
    completed: i64,
    response: u64,
    /// From queue to issue.
    queue: Option<u64>,
    error: i32,
    tid: Option<u32>,
    cause_tid: Option<u32>,
    file: Option<u32>,
    content: Content,
}

/// What one request leaves for the encoding of the next.
#[derive(Default)]
struct Before {
    completed: u64,
    end: u64,
}

impl Before {
    fn encode(&mut self, request: &KeptRequest) -> Encoded {
        let encoded = Encoded {
            device: request.device.0,
            op: request.op,
            flags: request.flags.0,
            sector: request.sector.map(|sector| sector.0.wrapping_sub(self.end) as i64),
            bytes: request.bytes.0,
            completed: request.completed.0.wrapping_sub(self.completed) as i64,
            response: request.completed.0.wrapping_sub(request.queued.0),
            queue: request.issued.map(|issued| issued.0.wrapping_sub(request.queued.0)),
            error: request.error,
            tid: request.tid,
            cause_tid: request.cause_tid,
            file: request.file,
            content: request.content,
        };
        self.note(request.completed, request.sector, request.bytes);
        encoded
    }

    fn decode(&mut self, encoded: &Encoded) -> KeptRequest {
        let completed = Timestamp(self.completed.wrapping_add(encoded.completed as u64));
        let queued = Timestamp(completed.0.wrapping_sub(encoded.response));
        let sector = encoded.sector.map(|sector| Sector(self.end.wrapping_add(sector as u64)));
        let bytes = ByteCount(encoded.bytes);
        self.note(completed, sector, bytes);
        KeptRequest {
            device: DeviceId(encoded.device),
            op: encoded.op,
            flags: Flags(encoded.flags),
            sector,
            bytes,
            queued,
            issued: encoded.queue.map(|queue| Timestamp(queued.0.wrapping_add(queue))),
            completed,
            error: encoded.error,
            tid: encoded.tid,
            cause_tid: encoded.cause_tid,
            file: encoded.file,
            content: encoded.content,
        }
    }

    fn note(&mut self, completed: Timestamp, sector: Option<Sector>, bytes: ByteCount) {
        self.completed = completed.0;
        self.end = sector.map_or(self.end, |sector| sector.0.wrapping_add(bytes.0 / 512));
    }
}

/// Writes the file.
///
/// # Errors
/// Those of `out`.
pub fn write(
    head: &Head,
    requests: impl ExactSizeIterator<Item = KeptRequest>,
    mut out: impl Write,
) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut gzip = GzEncoder::new(out, Compression::default());
    let encode = |error: postcard::Error| io::Error::other(error.to_string());
    let length = requests.len() as u64;
    gzip.write_all(&postcard::to_stdvec(&(head, length)).map_err(encode)?)?;
    let mut before = Before::default();
    let mut bytes = Vec::new();
    for request in requests {
        bytes.clear();
        bytes = postcard::to_extend(&before.encode(&request), bytes).map_err(encode)?;
        gzip.write_all(&bytes)?;
    }
    gzip.finish()?.flush()
}

/// A kept stall that was read.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Kept {
    pub head: Head,
    pub requests: Vec<KeptRequest>,
    pub meta: Meta,
}

/// Whether a file begins as a kept stall does.
pub fn is_kept(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *MAGIC
}

impl Kept {
    /// Reads a file.
    ///
    /// # Errors
    /// [`WatchError`] names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Kept, WatchError> {
        let bytes = std::fs::read(path).map_err(WatchError::file(path, "read"))?;
        Kept::decode(&bytes, path)
    }

    /// Decodes the bytes of a file, which errors call `path`.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Kept, WatchError> {
        let damaged = |at: Option<usize>, problem: String| WatchError::Damaged {
            path: path.to_owned(),
            at: at.map(|at| at as u64),
            problem,
        };
        let Some((version, packed)) =
            bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>())
        else {
            return Err(WatchError::NotOurs { path: path.to_owned(), what: "a kept stall" });
        };
        let found = u32::from_le_bytes(*version);
        if found > VERSION {
            return Err(WatchError::Newer { path: path.to_owned(), found, known: VERSION });
        }
        let mut plain = Vec::new();
        GzDecoder::new(packed)
            .take(DECODED_MAX + 1)
            .read_to_end(&mut plain)
            .map_err(|error| damaged(None, error.to_string()))?;
        if plain.len() as u64 > DECODED_MAX {
            return Err(damaged(Some(DECODED_MAX as usize), "it holds more than a watch keeps".to_owned()));
        }
        let at = |rest: &[u8]| Some(plain.len() - rest.len());
        let ((head, length), mut rest): ((Head, u64), &[u8]) =
            postcard::take_from_bytes(&plain).map_err(|error| damaged(Some(0), error.to_string()))?;
        let meta: Meta =
            serde_json::from_str(&head.meta).map_err(|error| damaged(Some(0), error.to_string()))?;
        let mut requests = Vec::new();
        let mut before = Before::default();
        for _ in 0..length {
            let (encoded, more) =
                postcard::take_from_bytes(rest).map_err(|error| damaged(at(rest), error.to_string()))?;
            requests.push(before.decode(&encoded));
            rest = more;
        }
        if !rest.is_empty() {
            return Err(damaged(at(rest), "something follows the last request".to_owned()));
        }
        Ok(Kept { head, requests, meta })
    }

    /// Gives the rows of a recording, in the order of its tables.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn pour(&self, sink: &mut dyn RowSink) -> io::Result<Meta> {
        let head = &self.head;
        sink.began(head.began)?;
        for thread in &head.threads {
            sink.thread(&Thread {
                tid: thread.tid,
                from: head.began,
                pid: thread.pid,
                comm: Some(thread.comm.clone()),
                cgroup: thread.cgroup.clone(),
                unit: thread.unit.clone(),
                ..Thread::default()
            })?;
        }
        for (file_id, file) in (0..).zip(&head.files) {
            sink.file(&File {
                file_id,
                from: head.began,
                device: Some(file.device),
                inode: Some(file.inode),
                path: file.path.clone(),
                content: file.content,
            })?;
        }
        let mut waits = head.waits.clone();
        waits.sort_unstable_by_key(|wait| (wait.began, wait.tid));
        for wait in waits {
            sink.wait(&Wait {
                tid: wait.tid,
                began: wait.began,
                ended: wait.ended,
                reason: wait.reason,
                request_id: None,
                waker_tid: wait.waker_tid,
                blocked_in: Some(wait.blocked_in),
                file_id: wait.file,
            })?;
        }
        for count in &head.counts {
            sink.blocked_count(&BlockedCount {
                tid: count.tid,
                blocked_in: count.blocked_in,
                reason: count.reason,
                from: count.from,
                until: count.until,
                below: count.below,
                count: count.count,
                total: count.total,
            })?;
        }
        self.pour_requests(sink)?;
        sink.mark(&Mark {
            at: head.stall_began,
            until: Some(head.stall_ended),
            name: "stall".to_owned(),
            tid: None,
        })?;
        self.diagnostics().iter().try_for_each(|row| sink.diagnostic(row))?;
        Ok(self.meta.clone())
    }

    fn pour_requests(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        let known = [Flags::SYNC, Flags::META, Flags::FUA, Flags::PREFLUSH, Flags::READAHEAD];
        let flags_known = known.into_iter().fold(Flags::NONE, |all, flag| all | flag);
        let mut rows: Vec<Request> = (0..)
            .zip(&self.requests)
            .map(|(request_id, kept)| Request {
                request_id,
                flags: kept.flags,
                flags_known,
                sector: kept.sector,
                queued: Some(kept.queued),
                issued: kept.issued,
                completed: Some(kept.completed),
                tid: kept.tid,
                cause_tid: kept.cause_tid,
                file_id: kept.file,
                content: kept.content,
                error: Some(kept.error),
                ..Request::new(kept.device, kept.op, kept.bytes)
            })
            .collect();
        rows.sort_by(Request::order);
        rows.iter().try_for_each(|row| sink.request(row))
    }

    fn diagnostics(&self) -> Vec<Diagnostic> {
        let note = |code: &str, message: String| Diagnostic {
            severity: Severity::Warning,
            code: code.to_owned(),
            message,
            file: None,
            record: None,
            offset: None,
            count: 1,
        };
        let mut notes = vec![note(
            "kept-by-watch",
            "`fonio watch` kept this: waits shorter than 8 ms are only counted, and requests show their first bio only"
                .to_owned(),
        )];
        if self.head.unobserved > 0 {
            let message = format!("{} requests since the watch began were not seen", self.head.unobserved);
            notes.push(note("unobserved-requests", message));
        }
        if let Some(because) = &self.head.limited {
            notes.push(note("sampled-waits", format!("who waits was sampled from /proc, because {because}")));
        }
        notes
    }
}

/// The description of the recording that a kept stall gives.
pub fn meta(host: fonio_core::meta::Host, unix_ns_at_zero: i64, limited: bool) -> Meta {
    let mut shows: Vec<String> = ["queue", "issue", "complete"].into_iter().map(str::to_owned).collect();
    if limited {
        shows = vec![BLOCKED_SAMPLED.to_owned()];
    }
    shows.push(SHOWS_BLOCKED.to_owned());
    Meta {
        schema_version: SCHEMA_VERSION,
        writer: concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: Source { format: SOURCE_WATCH.to_owned(), files: Vec::new(), shows },
        clock: Clock { name: "mono".to_owned(), unix_ns_at_zero: Some(unix_ns_at_zero) },
        host,
        ..Meta::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Vec<KeptRequest>> {
        let one = (any::<(u32, u32, u64, u64, u64, i32)>(), any::<Option<(u64, u32)>>(), 0..3_usize)
            .prop_map(|((device, flags, queued, completed, bytes, error), some, op)| KeptRequest {
                device: DeviceId(device),
                op: [Op::Read, Op::Write, Op::Flush][op],
                flags: Flags(flags),
                sector: some.map(|(sector, _)| Sector(sector)),
                bytes: ByteCount(bytes),
                queued: Timestamp(queued),
                issued: some.map(|(at, _)| Timestamp(at)),
                completed: Timestamp(completed),
                error,
                tid: some.map(|(_, tid)| tid),
                cause_tid: None,
                file: some.map(|(_, file)| file),
                content: Content::SqliteWal,
            });
        prop::collection::vec(one, 0..30)
    }

    fn head() -> Head {
        Head {
            meta: serde_json::to_string(&Meta::default()).unwrap(),
            began: Timestamp(5),
            ..Head::default()
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(requests in requests()) {
            let mut bytes = Vec::new();
            write(&head(), requests.clone().into_iter(), &mut bytes).unwrap();
            let kept = Kept::decode(&bytes, Path::new("x")).unwrap();
            prop_assert_eq!((kept.head, kept.requests), (head(), requests));
        }

        #[test]
        fn damage_is_an_error(at in 16_usize..200, value in any::<u8>(), requests in requests()) {
            let mut bytes = Vec::new();
            write(&head(), requests.into_iter(), &mut bytes).unwrap();
            let at = at.min(bytes.len() - 1);
            prop_assume!(bytes[at] != value);
            bytes[at] = value;
            // gzip's own header has fields that mean nothing; all else has a checksum.
            if let Ok(kept) = Kept::decode(&bytes, Path::new("x")) {
                prop_assert!(at < 26);
                prop_assert_eq!(kept.head, head());
            }
        }
    }

    #[test]
    fn other_files_are_told() {
        let decode = |bytes: &[u8]| Kept::decode(bytes, Path::new("/x")).unwrap_err().to_string();
        assert!(decode(b"").starts_with("/x is not a kept stall"));
        assert!(decode(b"fonio-stall\n\x02\0\0\0").contains("newer fonio"));
        assert!(decode(b"fonio-stall\n\x01\0\0\0nonsense").starts_with("/x is damaged: "));
    }
}
