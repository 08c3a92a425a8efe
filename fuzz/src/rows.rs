//! Makes rows of a recording from bytes. Any bytes give rows, with extreme and ordinary values, in the order
//! that a reader of recordings promises to its sinks.

use std::io;

use fonio_core::{
    Bio, BlockedCount, BlockedIn, ByteCount, Call, Content, DeviceId, Diagnostic, File, FileFlags, Flags,
    IoWait, Link, LinkEnd, LinkKind, Mark, Metric, Nanos, Op, Request, RowSink, Sample, Sector, Severity,
    SqliteWrite, Statement, Thread, Timestamp, Wait, WaitReason,
};

/// Values that sinks look for.
const TEXTS: [&str; 16] = [
    "",
    "/data/app/base.apk",
    "/var/lib/db-wal",
    "/a/b.db-journal",
    "fsync",
    "pwrite64",
    "page_fault",
    "openat",
    "launch",
    "command",
    "eth0",
    "cpu0",
    "INSERT INTO t VALUES(?,?)",
    "COMMIT",
    "/system.slice/cron.service",
    "\u{1b}[31m\u{202e}",
];

/// Bytes that are read as values. After the last byte, all values are zero.
pub struct Bytes<'a> {
    rest: &'a [u8],
    /// The latest time. Most times are soon after it.
    now: u64,
}

impl<'a> Bytes<'a> {
    pub fn new(rest: &'a [u8]) -> Bytes<'a> {
        Bytes { rest, now: 0 }
    }

    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn number(&mut self) -> u64 {
        match self.byte() % 8 {
            0 => 0,
            1 | 2 => self.byte().into(),
            3 => u16::from_le_bytes(self.fixed()).into(),
            4 => u32::from_le_bytes(self.fixed()).into(),
            5 => u64::from_le_bytes(self.fixed()),
            6 => u64::MAX - u64::from(self.byte()),
            _ => 1 << (self.byte() % 64),
        }
    }

    fn small(&mut self) -> u32 {
        match self.byte() {
            byte @ 0..=249 => u32::from(byte % 16),
            _ => self.number() as u32,
        }
    }

    fn time(&mut self) -> Timestamp {
        self.now = match self.byte() {
            byte @ 0..=199 => self.now.wrapping_add(u64::from(byte) << 12),
            200..=239 => self.now.wrapping_add(self.number()),
            _ => self.number(),
        };
        Timestamp(self.now)
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 4 != 0).then(|| value(self))
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    fn text(&mut self) -> String {
        match self.byte() {
            byte @ 0..=191 => TEXTS[usize::from(byte) % TEXTS.len()].to_owned(),
            192..=223 => {
                let length = usize::from(self.byte()).min(self.rest.len());
                let (text, rest) = self.rest.split_at(length);
                self.rest = rest;
                String::from_utf8_lossy(text).into_owned()
            }
            byte => "/x".repeat(usize::from(byte) << 4),
        }
    }

    fn device(&mut self) -> DeviceId {
        match self.byte() {
            byte @ 0..=239 => DeviceId::new(8, u32::from(byte % 4)),
            _ => DeviceId(self.number() as u32),
        }
    }
}

/// All rows of a recording.
#[derive(Default)]
pub struct Rows {
    pub began: Option<Timestamp>,
    pub requests: Vec<Request>,
    pub bios: Vec<Bio>,
    pub links: Vec<Link>,
    pub calls: Vec<Call>,
    pub statements: Vec<Statement>,
    pub waits: Vec<Wait>,
    pub blocked_counts: Vec<BlockedCount>,
    pub files: Vec<File>,
    pub threads: Vec<Thread>,
    pub samples: Vec<Sample>,
    pub marks: Vec<Mark>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Rows {
    /// Reads rows until the bytes end. Each row begins with the number of its table.
    pub fn read(bytes: &mut Bytes<'_>) -> Rows {
        let mut rows = Rows { began: bytes.maybe(Bytes::time), ..Rows::default() };
        while !bytes.rest.is_empty() {
            rows.add(bytes);
        }
        rows.requests.sort_by(Request::order);
        rows.bios.sort_by_key(|bio| (bio.queued, bio.bio_id));
        rows
    }

    fn add(&mut self, b: &mut Bytes<'_>) {
        match b.byte() % 16 {
            0..=4 => self.requests.push(Request {
                request_id: b.number(),
                device: b.device(),
                op: b.one(&Op::ALL),
                flags: Flags(b.small()),
                flags_known: Flags(b.small()),
                sector: b.maybe(|b| Sector(b.number())),
                bytes: ByteCount(b.number()),
                queued: b.maybe(Bytes::time),
                inserted: b.maybe(Bytes::time),
                issued: b.maybe(Bytes::time),
                reissued: b.maybe(Bytes::time),
                completed: b.maybe(Bytes::time),
                requeues: b.maybe(Bytes::small),
                cpu: b.maybe(Bytes::small),
                tid: b.maybe(Bytes::small),
                cause_tid: b.maybe(Bytes::small),
                file_id: b.maybe(Bytes::small),
                content: b.one(Content::ALL),
                ioprio: b.maybe(|b| b.number() as u16),
                error: b.maybe(|b| b.number() as i32),
            }),
            5 => self.bios.push(Bio {
                bio_id: b.number(),
                device: b.device(),
                op: b.one(&Op::ALL),
                flags: Flags(b.small()),
                flags_known: Flags(b.small()),
                sector: b.maybe(|b| Sector(b.number())),
                bytes: ByteCount(b.number()),
                queued: b.time(),
                completed: b.maybe(Bytes::time),
                tid: b.maybe(Bytes::small),
                cause_tid: b.maybe(Bytes::small),
                file_id: b.maybe(Bytes::small),
                request_id: b.maybe(Bytes::number),
            }),
            6 => self.links.push(Link {
                kind: b.one(LinkKind::ALL),
                parent_table: b.one(LinkEnd::ALL),
                parent: b.number(),
                child_table: b.one(LinkEnd::ALL),
                child: b.number(),
            }),
            7 => self.calls.push(Call {
                call_id: b.number(),
                name: b.text(),
                tid: b.small(),
                file_id: b.maybe(Bytes::small),
                offset: b.maybe(Bytes::number),
                bytes: b.maybe(|b| ByteCount(b.number())),
                entered: b.time(),
                exited: b.maybe(Bytes::time),
                result: b.maybe(|b| b.number() as i64),
                sqlite_write: b.maybe(|b| b.one(SqliteWrite::ALL)),
                file_flags: b.maybe(|b| FileFlags(b.small())),
            }),
            8 => self.statements.push(Statement {
                tid: b.small(),
                connection: b.maybe(Bytes::small),
                entered: b.time(),
                exited: b.maybe(Bytes::time),
                steps: b.number(),
                stepping: Nanos(b.number()),
                text: b.maybe(Bytes::text),
            }),
            9 => self.waits.push(Wait {
                tid: b.small(),
                began: b.time(),
                ended: b.maybe(Bytes::time),
                reason: b.one(WaitReason::ALL),
                request_id: b.maybe(Bytes::number),
                waker_tid: b.maybe(Bytes::small),
                blocked_in: b.maybe(|b| b.one(BlockedIn::ALL)),
                file_id: b.maybe(Bytes::small),
                io_wait: b.maybe(|b| b.one(IoWait::ALL)),
                function: b.maybe(Bytes::text),
            }),
            10 => self.blocked_counts.push(BlockedCount {
                tid: b.small(),
                blocked_in: b.one(BlockedIn::ALL),
                reason: b.one(WaitReason::ALL),
                from: b.time(),
                until: b.time(),
                below: Nanos(b.number()),
                count: b.number(),
                total: Nanos(b.number()),
            }),
            11 => self.files.push(File {
                file_id: b.small(),
                from: b.time(),
                device: b.maybe(Bytes::device),
                inode: b.maybe(Bytes::number),
                path: b.maybe(Bytes::text),
                content: b.one(Content::ALL),
            }),
            12 => self.threads.push(Thread {
                tid: b.small(),
                from: b.time(),
                pid: b.maybe(Bytes::small),
                comm: b.maybe(Bytes::text),
                cgroup: b.maybe(Bytes::text),
                uid: b.maybe(Bytes::small),
                parent_pid: b.maybe(Bytes::small),
                unit: b.maybe(Bytes::text),
            }),
            13 => self.samples.push(Sample {
                time: b.time(),
                metric: b.one(Metric::ALL),
                subject: b.maybe(Bytes::text),
                value: b.number() as i64,
            }),
            14 => self.marks.push(Mark {
                at: b.time(),
                until: b.maybe(Bytes::time),
                name: b.text(),
                tid: b.maybe(Bytes::small),
            }),
            _ => self.diagnostics.push(Diagnostic {
                severity: if b.byte() % 2 == 0 { Severity::Warning } else { Severity::Error },
                code: b.text(),
                message: b.text(),
                file: b.maybe(Bytes::text),
                record: b.maybe(Bytes::number),
                offset: b.maybe(Bytes::number),
                count: b.number(),
            }),
        }
    }

    /// Passes the rows to `sink`, in the order of `Recording::replay`.
    pub fn pour(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        if let Some(began) = self.began {
            sink.began(began)?;
        }
        self.threads.iter().try_for_each(|row| sink.thread(row))?;
        self.files.iter().try_for_each(|row| sink.file(row))?;
        self.marks.iter().try_for_each(|row| sink.mark(row))?;
        self.samples.iter().try_for_each(|row| sink.sample(row))?;
        self.calls.iter().try_for_each(|row| sink.call(row))?;
        self.statements.iter().try_for_each(|row| sink.statement(row))?;
        self.waits.iter().try_for_each(|row| sink.wait(row))?;
        self.blocked_counts.iter().try_for_each(|row| sink.blocked_count(row))?;
        let mut bios =
            self.bios.iter().filter(|_| sink.wants_bios()).collect::<Vec<_>>().into_iter().peekable();
        for request in &self.requests {
            while let Some(bio) = bios.next_if(|bio| bio.queued <= request.order_time()) {
                sink.bio(bio)?;
            }
            sink.request(request)?;
        }
        bios.try_for_each(|bio| sink.bio(bio))?;
        if sink.wants_bios() {
            self.links.iter().try_for_each(|row| sink.link(row))?;
        }
        self.diagnostics.iter().try_for_each(|row| sink.diagnostic(row))
    }
}
