//! Generates any number of rows from a seed, in little memory, in the order in which a producer emits them.

#![allow(dead_code, clippy::manual_is_multiple_of)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use fonio_core::{
    Bio, ByteCount, Content, DeviceId, File, Flags, Link, LinkEnd, LinkKind, Mark, Metric, Op, Request,
    RowSink, Sample, Sector, Thread, Timestamp, ignore_rows,
};

/// Generates random numbers from a seed.
pub struct Random(fonio_core::Random);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(fonio_core::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The parameters of a generated trace.
#[derive(Clone, Copy, Debug)]
pub struct Generated {
    pub seed: u64,
    pub requests: u64,
    /// Approximate number of requests in flight.
    pub depth: u64,
    /// Also generate bios with links to requests; some requests merge two bios.
    pub bios: bool,
    /// Whether the first request never completes. If so, the settled mark does not advance until the end.
    pub stuck: bool,
}

impl Default for Generated {
    fn default() -> Generated {
        Generated { seed: 1, requests: 10_000, depth: 32, bios: false, stuck: false }
    }
}

/// Time in nanoseconds after which a request without a completion is abandoned.
const HORIZON: u64 = 5_000_000;
const THREADS: u64 = 12;
const FILES: u64 = 40;

impl Generated {
    /// Passes the rows to `sink` as an assembler does: each request when it completes.
    pub fn feed(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        self.identities(sink)?;
        let mut random = Random::new(self.seed);
        let mut in_flight: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
        let mut slots: Vec<Option<Request>> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut open: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut closed: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let (mut now, mut end, mut bio_id) = (1_000_000_000, 0, 0);
        for id in 0..self.requests {
            now += 1000 + random.below(20_000);
            let row = self.make(id, now, &mut end, &mut random);
            if self.bios {
                self.give_bios(&row, &mut bio_id, &mut random, sink)?;
            }
            // A request that does not complete is abandoned after a while, except the stuck request, which is
            // abandoned at the end.
            let given = match row.completed {
                _ if self.stuck && id == 0 => u64::MAX,
                Some(time) => time.0,
                None => now + HORIZON,
            };
            if !self.stuck {
                open.push(Reverse((row.order_time().0, id)));
            }
            let slot = free.pop().unwrap_or_else(|| {
                slots.push(None);
                slots.len() - 1
            });
            slots[slot] = Some(row);
            in_flight.push(Reverse((given, id, slot)));
            while in_flight.peek().is_some_and(|Reverse((given, ..))| *given <= now) {
                let Some(Reverse((_, _, slot))) = in_flight.pop() else { break };
                if let Some(row) = slots[slot].take() {
                    if !self.stuck {
                        closed.push(Reverse((row.order_time().0, row.request_id)));
                    }
                    sink.request(&row)?;
                }
                free.push(slot);
            }
            while open.peek().is_some() && open.peek() == closed.peek() {
                open.pop();
                closed.pop();
            }
            if id % 64 == 0 {
                let oldest = match open.peek() {
                    Some(Reverse((time, _))) => *time,
                    None if self.stuck => 0,
                    None => now,
                };
                // The mark is earlier than the requests, because a bio is queued before its request is
                // issued.
                sink.settled(Timestamp(oldest.min(now.saturating_sub(60_000))))?;
            }
        }
        while let Some(Reverse((_, _, slot))) = in_flight.pop() {
            slots[slot].take().map(|row| sink.request(&row)).transpose()?;
        }
        Ok(())
    }

    fn identities(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        for tid in 0..THREADS as u32 {
            let comm = ["mysqld", "jbd2/mmcblk0p2-8", "kworker/u8:1", "chrome"][tid as usize % 4];
            sink.thread(&Thread {
                tid: 100 + tid,
                from: Timestamp(0),
                pid: Some(100 + tid / 2 * 2),
                comm: Some(comm.to_owned()),
                cgroup: (tid % 3 == 0).then(|| format!("/system.slice/app{tid}.service")),
                uid: Some(1000),
                parent_pid: Some(1),
                unit: (tid % 3 == 0).then(|| format!("app{tid}.service")),
            })?;
        }
        // The first thread changes its name halfway through the trace.
        let from = Timestamp(1_000_000_000 + self.requests * 5000);
        let comm = Some("renamed".to_owned());
        sink.thread(&Thread {
            tid: 100,
            from,
            pid: Some(100),
            comm,
            cgroup: None,
            uid: Some(1000),
            parent_pid: None,
            unit: None,
        })?;
        for file_id in 0..FILES as u32 {
            sink.file(&File {
                file_id,
                from: Timestamp(0),
                device: Some(DeviceId::new(179, 0)),
                inode: Some(12 + u64::from(file_id)),
                path: Some(format!("/var/lib/app/{file_id}.db")),
                content: Content::SqliteDb,
            })?;
        }
        let (at, until) = (Timestamp(1_000_500_000), Some(Timestamp(1_002_000_000)));
        sink.mark(&Mark { at, until, name: "launch".to_owned(), tid: Some(103) })?;
        for second in 0..3 {
            let time = Timestamp((1 + second) * 1_000_000_000);
            let (metric, subject) = (Metric::DiskBusyMs, Some("mmcblk0".to_owned()));
            sink.sample(&Sample { time, metric, subject, value: 100 * second as i64 })?;
            sink.sample(&Sample {
                time,
                metric: Metric::MemoryDirtyBytes,
                subject: None,
                value: 4096 * second as i64,
            })?;
        }
        Ok(())
    }

    fn make(&self, id: u64, now: u64, end: &mut u64, random: &mut Random) -> Request {
        let dice = random.below(100);
        let op = match dice {
            0..35 => Op::Read,
            35..92 => Op::Write,
            92..98 => Op::Flush,
            _ => Op::Discard,
        };
        let sectors = [8, 8, 8, 16, 64, 256, 1024][random.below(7) as usize];
        let mut row =
            Request::new(DeviceId::new(179, (dice % 5 == 0).into()), op, ByteCount::from_sectors(sectors));
        row.request_id = id;
        row.flags_known = Flags::KNOWN_FROM_RWBS;
        if op == Op::Flush {
            row.bytes = ByteCount(0);
            row.flags = Flags::PREFLUSH | Flags::SYNC;
        } else {
            let sector = if dice % 3 == 0 { *end } else { random.below(1 << 26) * 8 };
            row.sector = Some(Sector(sector));
            *end = sector + sectors;
            row.flags = if op == Op::Read || dice % 2 == 0 { Flags::SYNC } else { Flags::NONE };
        }
        let queued = now - random.below(50_000);
        row.queued = Some(Timestamp(queued));
        row.inserted = (dice % 4 != 0).then(|| Timestamp(queued + (now - queued) / 2));
        row.issued = Some(Timestamp(now));
        let service = random.below(2 * self.depth * 11_000) + 1000;
        row.completed = (dice != 99).then_some(Timestamp(now + service));
        row.requeues = Some((dice == 50).into());
        row.reissued = (dice == 50).then(|| Timestamp(now + service / 2));
        row.cpu = Some(random.below(4) as u32);
        row.tid = Some(100 + random.below(THREADS) as u32);
        row.cause_tid = (dice % 2 == 0).then(|| 100 + random.below(THREADS) as u32);
        row.file_id = (dice % 3 == 0).then(|| random.below(FILES) as u32);
        row.content = [Content::Unknown, Content::Data, Content::FsJournal][random.below(3) as usize];
        row.ioprio = Some(4 << 13);
        row.error = row.completed.map(|_| 0);
        row
    }

    fn give_bios(
        &self,
        row: &Request,
        bio_id: &mut u64,
        random: &mut Random,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let merged = row.bytes.0 >= 8192 && random.below(4) == 0;
        for part in 0..=u64::from(merged) {
            let bytes = ByteCount(row.bytes.0 / (1 + u64::from(merged)));
            let queued = row.queued.unwrap_or_default();
            sink.bio(&Bio {
                bio_id: *bio_id,
                device: row.device,
                op: row.op,
                flags: row.flags,
                flags_known: row.flags_known,
                sector: row.sector.map(|sector| Sector(sector.0 + part * bytes.0 / 512)),
                bytes,
                queued: Timestamp(queued.0 + part * 100),
                completed: None,
                tid: row.tid,
                cause_tid: row.cause_tid,
                file_id: row.file_id,
                request_id: Some(row.request_id),
            })?;
            if part == 1 {
                sink.link(&Link {
                    kind: LinkKind::Merge,
                    parent_table: LinkEnd::Bio,
                    parent: *bio_id,
                    child_table: LinkEnd::Request,
                    child: row.request_id,
                })?;
            }
            *bio_id += 1;
        }
        Ok(())
    }
}

/// A sink that counts rows and checks their order.
#[derive(Default)]
pub struct Checked {
    pub requests: u64,
    pub bios: u64,
    last_request: Option<(u64, u64)>,
    last_bio: Option<(u64, u64)>,
    settled: u64,
    /// A digest of the request ids in the order of the rows.
    pub digest: u64,
}

impl RowSink for Checked {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        let key = (row.order_time().0, row.request_id);
        assert!(self.last_request < Some(key), "request {} after {:?}", row.request_id, self.last_request);
        assert!(key.0 >= self.settled, "request {} was settled", row.request_id);
        self.last_request = Some(key);
        self.requests += 1;
        self.digest = (self.digest.rotate_left(5) ^ row.request_id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        let key = (row.queued.0, row.bio_id);
        assert!(self.last_bio < Some(key), "bio {} after {:?}", row.bio_id, self.last_bio);
        assert!(key.0 >= self.settled, "bio {} was settled", row.bio_id);
        self.last_bio = Some(key);
        self.bios += 1;
        Ok(())
    }
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        assert!(before.0 >= self.settled);
        self.settled = before.0;
        Ok(())
    }
    ignore_rows!(began, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
}
