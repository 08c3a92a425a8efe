//! The file of a kept stall: a compact record of the stall and the minute before it, for later analysis.
//!
//! A Parquet recording would have ten files, and writing it would take more memory than the watch may use. In
//! contrast, a kept stall is a single file. The file begins with a magic number and a version. The rest of
//! the file is compressed with gzip: the head ([`Head`]) and the requests in the compact encoding. An encoded
//! request takes about 15 bytes. [`Kept::pour`] converts the file to the rows of a recording.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fonio_core::meta::{BLOCKED_SAMPLED, Clock, SCHEMA_VERSION, SHOWS_BLOCKED, SOURCE_WATCH, Source};
use fonio_core::{
    BlockedCount, BlockedIn, Content, DeviceId, Diagnostic, File, Mark, Meta, Request, RowSink, Severity,
    Thread, Timestamp, Wait,
};
use fonio_system::regular;
use serde::{Deserialize, Serialize};

use crate::compact::Codec;
use crate::error::WatchError;
use crate::summary::Stall;

const MAGIC: &[u8; 12] = b"fonio-stall\n";
const VERSION: u32 = 1;
/// Maximum decompressed size of the file. A watch keeps 3 MiB of encoded requests, 8192 long waits with their
/// threads, and as many counts.
const DECODED_MAX: u64 = 12 << 20;
/// Maximum number of requests: a watch keeps 3 MiB of them, and each takes at least 13 bytes.
const REQUESTS_MAX: u64 = 1 << 18;
/// Maximum length of the contents of `meta.json`, which list the observed devices.
const META_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the file. Data that gzip cannot compress become a few bytes longer.
const PACKED_MAX: u64 = DECODED_MAX + (1 << 20);

/// All data of a kept stall except the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Head {
    /// Contents of `meta.json`.
    pub meta: String,
    /// The kept stall.
    pub stall: Option<Stall>,
    pub began: Timestamp,
    pub stall_began: Timestamp,
    pub stall_ended: Timestamp,
    pub threads: Vec<KeptThread>,
    pub files: Vec<KeptFile>,
    /// The long waits; `file_id` is an index in `files`, as in the requests.
    #[serde(with = "encoded_waits")]
    pub waits: Vec<Wait>,
    pub counts: Vec<BlockedCount>,
    /// Number of requests since the start of the watch that were not recorded.
    pub unobserved: u64,
    /// The reason why only waits, and no requests, were observed.
    pub limited: Option<String>,
}

/// A thread that a kept stall refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptThread {
    pub tid: u32,
    pub pid: Option<u32>,
    pub comm: String,
    pub cgroup: Option<String>,
    pub unit: Option<String>,
}

/// A file that a kept stall refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KeptFile {
    pub device: DeviceId,
    pub inode: u64,
    pub path: Option<String>,
    pub content: Content,
}

/// Encodes long waits; the values and their order belong to version 1 of the file format.
mod encoded_waits {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub(super) fn serialize<S: Serializer>(waits: &[Wait], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(waits.iter().map(|wait| {
            let Wait { tid, began, ended, reason, waker_tid, blocked_in, file_id, .. } = *wait;
            (tid, began, ended, blocked_in.unwrap_or(BlockedIn::Unknown), reason, file_id, waker_tid)
        }))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<Wait>, D::Error> {
        let waits = Vec::deserialize(deserializer)?.into_iter();
        let row = |(tid, began, ended, blocked_in, reason, file_id, waker_tid)| Wait {
            tid,
            began,
            ended,
            reason,
            request_id: None,
            waker_tid,
            blocked_in: Some(blocked_in),
            file_id,
            io_wait: None,
            function: None,
        };
        Ok(waits.map(row).collect())
    }
}

/// Writes the file of a kept stall.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(
    head: &Head,
    requests: impl Iterator<Item = Request> + Clone,
    mut out: impl Write,
) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut gzip = GzEncoder::new(out, Compression::default());
    let encode = |error: postcard::Error| io::Error::other(error.to_string());
    let length = requests.clone().count() as u64;
    gzip.write_all(&postcard::to_stdvec(&(head, length)).map_err(encode)?)?;
    let mut codec = Codec::default();
    let mut bytes = Vec::new();
    for request in requests {
        bytes.clear();
        bytes = codec.encode(&request, bytes).map_err(encode)?;
        gzip.write_all(&bytes)?;
    }
    gzip.finish()?.flush()
}

/// The contents of a kept stall's file.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Kept {
    pub head: Head,
    pub requests: Vec<Request>,
    pub meta: Meta,
}

/// Returns whether a file begins with the magic number of a kept stall.
pub fn is_kept(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = regular::open(path).and_then(|(mut file, _)| file.read_exact(&mut magic));
    read.is_ok() && magic == *MAGIC
}

impl Kept {
    /// Reads a kept stall.
    ///
    /// # Errors
    /// Returns [`WatchError`] with the file and the damage.
    pub fn read(path: &Path) -> Result<Kept, WatchError> {
        let bytes = regular::read(path, PACKED_MAX).map_err(WatchError::file(path, "read"))?;
        Kept::decode(&bytes, path)
    }

    /// Decodes the bytes of a kept stall's file. Error messages name `path`.
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
            return Err(damaged(Some(DECODED_MAX as usize), "the data is too large for a stall".to_owned()));
        }
        let at = |rest: &[u8]| Some(plain.len() - rest.len());
        let ((head, length), mut rest): ((Head, u64), &[u8]) =
            postcard::take_from_bytes(&plain).map_err(|error| damaged(Some(0), error.to_string()))?;
        if length > REQUESTS_MAX || head.meta.len() > META_BYTES_MAX {
            return Err(damaged(Some(0), "it has more data than a watch keeps".to_owned()));
        }
        let meta: Meta =
            serde_json::from_str(&head.meta).map_err(|error| damaged(Some(0), error.to_string()))?;
        let mut requests = Vec::new();
        let mut codec = Codec::default();
        for _ in 0..length {
            let (request, more) = codec.decode(rest).map_err(|error| damaged(at(rest), error.to_string()))?;
            requests.push(request);
            rest = more;
        }
        if !rest.is_empty() {
            return Err(damaged(at(rest), "there are extra bytes after the last request".to_owned()));
        }
        Ok(Kept { head, requests, meta })
    }

    /// Passes the rows of a recording with this kept stall to `sink`, in table order.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
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
        waits.iter().try_for_each(|wait| sink.wait(wait))?;
        head.counts.iter().try_for_each(|count| sink.blocked_count(count))?;
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
        let mut rows = self.requests.clone();
        for (request_id, row) in (0..).zip(&mut rows) {
            row.request_id = request_id;
        }
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
            "`fonio watch` saved this recording of a stall, so waits shorter than 8 ms are counted but not listed, and only the first bio of each request is listed"
                .to_owned(),
        )];
        if self.head.unobserved > 0 {
            let message =
                format!("{} requests since the watch began were not recorded", self.head.unobserved);
            notes.push(note("unobserved-requests", message));
        }
        if let Some(because) = &self.head.limited {
            notes.push(note(
                "sampled-waits",
                format!("waiting threads were sampled from /proc, because {because}"),
            ));
        }
        notes
    }
}

/// Returns the metadata of a recording made from a kept stall.
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
    use crate::compact::tests::any_request;

    fn head() -> Head {
        Head {
            meta: serde_json::to_string(&Meta::default()).unwrap(),
            began: Timestamp(5),
            ..Head::default()
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(requests in prop::collection::vec(any_request(), 0..30)) {
            let mut bytes = Vec::new();
            write(&head(), requests.clone().into_iter(), &mut bytes).unwrap();
            let kept = Kept::decode(&bytes, Path::new("x")).unwrap();
            prop_assert_eq!((kept.head, kept.requests), (head(), requests));
        }

        #[test]
        fn damage_is_an_error(at in 16_usize..200, value in any::<u8>(), requests in prop::collection::vec(any_request(), 0..30)) {
            let mut bytes = Vec::new();
            write(&head(), requests.into_iter(), &mut bytes).unwrap();
            let at = at.min(bytes.len() - 1);
            prop_assume!(bytes[at] != value);
            bytes[at] = value;
            // gzip's own header has unused fields; all other bytes are covered by a checksum.
            if let Ok(kept) = Kept::decode(&bytes, Path::new("x")) {
                prop_assert!(at < 26);
                prop_assert_eq!(kept.head, head());
            }
        }
    }

    /// Encodes a file with these contents.
    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        let mut gzip = GzEncoder::new(&mut bytes, Compression::default());
        gzip.write_all(plain).unwrap();
        gzip.finish().unwrap();
        bytes
    }

    #[test]
    fn a_hostile_file_is_refused_before_it_needs_memory() {
        let refused = |plain: &[u8]| Kept::decode(&packed(plain), Path::new("/x")).unwrap_err().to_string();
        let zeros = refused(&vec![0; DECODED_MAX as usize + 1]);
        assert!(zeros.contains("the data is too large for a stall"), "{zeros}");
        let many = refused(&postcard::to_stdvec(&(head(), REQUESTS_MAX + 1)).unwrap());
        assert!(many.contains("it has more data than a watch keeps"), "{many}");
        let devices = Head { meta: " ".repeat(META_BYTES_MAX + 1), ..head() };
        let devices = refused(&postcard::to_stdvec(&(devices, 0_u64)).unwrap());
        assert!(devices.contains("it has more data than a watch keeps"), "{devices}");
    }

    #[test]
    fn other_files_are_told() {
        let decode = |bytes: &[u8]| Kept::decode(bytes, Path::new("/x")).unwrap_err().to_string();
        assert!(decode(b"").starts_with("/x is not a kept stall"));
        assert!(decode(b"fonio-stall\n\x02\0\0\0").contains("newer fonio"));
        assert!(decode(b"fonio-stall\n\x01\0\0\0nonsense").starts_with("/x is damaged: "));
    }

    /// Collects the rows of a recording as text.
    #[derive(Default)]
    struct Rows(String);

    impl Rows {
        fn add(&mut self, row: &dyn std::fmt::Debug) -> io::Result<()> {
            self.0 += &format!("{row:?}\n");
            Ok(())
        }
    }

    impl RowSink for Rows {
        fn began(&mut self, at: Timestamp) -> io::Result<()> {
            self.add(&at)
        }
        fn request(&mut self, row: &Request) -> io::Result<()> {
            self.add(row)
        }
        fn wait(&mut self, row: &Wait) -> io::Result<()> {
            self.add(row)
        }
        fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
            self.add(row)
        }
        fn file(&mut self, row: &File) -> io::Result<()> {
            self.add(row)
        }
        fn thread(&mut self, row: &Thread) -> io::Result<()> {
            self.add(row)
        }
        fn mark(&mut self, row: &Mark) -> io::Result<()> {
            self.add(row)
        }
        fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
            self.add(row)
        }
        fonio_core::ignore_rows!(bio, link, call, statement, sample, settled);
    }

    #[test]
    fn files_of_the_first_version_are_read() {
        let bytes = include_bytes!("data/version-1.stall");
        let kept = Kept::decode(bytes, Path::new("x")).unwrap();
        let mut rows = Rows::default();
        kept.pour(&mut rows).unwrap();
        expect_test::expect![[r#"
            Timestamp(1000000000)
            Thread { tid: 71, from: Timestamp(1000000000), pid: Some(70), comm: Some("writer"), cgroup: Some("/system.slice/db.service"), uid: None, parent_pid: None, unit: Some("db.service") }
            File { file_id: 0, from: Timestamp(1000000000), device: Some(DeviceId(187695106)), inode: Some(12), path: Some("/srv/db-wal"), content: SqliteWal }
            Wait { tid: 72, began: Timestamp(4000000000), ended: None, reason: Unknown, request_id: None, waker_tid: None, blocked_in: Some(KernelThread), file_id: None, io_wait: None, function: None }
            Wait { tid: 71, began: Timestamp(5000000000), ended: Some(Timestamp(7100000000)), reason: Storage, request_id: None, waker_tid: Some(9), blocked_in: Some(Fsync), file_id: Some(0), io_wait: None, function: None }
            BlockedCount { tid: 71, blocked_in: Read, reason: Storage, from: Timestamp(1000000000), until: Timestamp(4000000000), below: Nanos(2048000), count: 17, total: Nanos(20000000) }
            Request { request_id: 0, device: DeviceId(187695104), op: Write, flags: Flags(5), flags_known: Flags(31), sector: Some(Sector(2048)), bytes: ByteCount(8192), queued: Some(Timestamp(4999300000)), inserted: None, issued: Some(Timestamp(4999500000)), reissued: None, completed: Some(Timestamp(5000000000)), requeues: None, cpu: None, tid: Some(71), cause_tid: Some(72), file_id: Some(0), content: SqliteWal, ioprio: None, error: Some(-5) }
            Request { request_id: 1, device: DeviceId(187695104), op: Write, flags: Flags(5), flags_known: Flags(31), sector: Some(Sector(2064)), bytes: ByteCount(8192), queued: Some(Timestamp(5000200000)), inserted: None, issued: None, reissued: None, completed: Some(Timestamp(5000900000)), requeues: None, cpu: None, tid: Some(71), cause_tid: Some(72), file_id: Some(0), content: SqliteWal, ioprio: None, error: Some(-5) }
            Request { request_id: 2, device: DeviceId(187695104), op: Flush, flags: Flags(5), flags_known: Flags(31), sector: None, bytes: ByteCount(0), queued: Some(Timestamp(5000100000)), inserted: None, issued: Some(Timestamp(5000500000)), reissued: None, completed: Some(Timestamp(5000800000)), requeues: None, cpu: None, tid: Some(71), cause_tid: None, file_id: None, content: SqliteWal, ioprio: None, error: Some(-5) }
            Request { request_id: 3, device: DeviceId(187695104), op: Write, flags: Flags(5), flags_known: Flags(31), sector: Some(Sector(8)), bytes: ByteCount(8192), queued: Some(Timestamp(6999300000)), inserted: None, issued: Some(Timestamp(6999900000)), reissued: None, completed: Some(Timestamp(7000000000)), requeues: None, cpu: None, tid: Some(71), cause_tid: Some(72), file_id: Some(0), content: SqliteWal, ioprio: None, error: Some(-5) }
            Mark { at: Timestamp(5000000000), until: Some(Timestamp(7100000000)), name: "stall", tid: None }
            Diagnostic { severity: Warning, code: "kept-by-watch", message: "`fonio watch` saved this recording of a stall, so waits shorter than 8 ms are counted but not listed, and only the first bio of each request is listed", file: None, record: None, offset: None, count: 1 }
            Diagnostic { severity: Warning, code: "unobserved-requests", message: "3 requests since the watch began were not recorded", file: None, record: None, offset: None, count: 1 }
            Diagnostic { severity: Warning, code: "sampled-waits", message: "waiting threads were sampled from /proc, because the kernel has no types", file: None, record: None, offset: None, count: 1 }
        "#]]
        .assert_eq(&rows.0);
        let mut again = Vec::new();
        write(&kept.head, kept.requests.into_iter(), &mut again).unwrap();
        let plain = |bytes: &[u8]| {
            let mut plain = Vec::new();
            GzDecoder::new(&bytes[MAGIC.len() + 4..]).read_to_end(&mut plain).unwrap();
            plain
        };
        assert_eq!(plain(&again), plain(bytes));
    }
}
