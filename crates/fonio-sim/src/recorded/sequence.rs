//! Computes the sequence of a replay: the I/O of each recorded thread, and the event that each access waits
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fonio_core::{
    Bio, ByteCount, DeviceId, Flags, Nanos, Op, Request, RowSink, SECTOR_BYTES, Sector, Thread, Timestamp,
    Wait, ignore_rows,
};
use rustc_hash::FxHashMap;

use super::budget::{self, Budget, LANES_MAX, TooLarge, check_buffers};
use super::causes::{Causes, MayWait, Waits, link, since};
use super::chunks::{CHUNK, Chunks};
use super::lanes::{Threaded, lanes};
use crate::engine::Begins;

/// The alignment of direct I/O: the block size of file systems.
const BLOCK: u64 = 4096;
/// The size of the largest single access. The kernel splits larger accesses anyway.
const BYTES_MAX: u64 = 4 << 20;
/// Maximum number of characters of a thread's name. The kernel's names have at most 64.
const NAME_CHARS_MAX: usize = 64;

/// Maximum number of accesses in flight for which no thread waits.
pub const POOL: usize = 32;

/// The note on a replay that never empties the volatile cache of its device.
pub const NO_FLUSHES: &str = "The recording has writes, but no flushes: its device had no volatile cache, or nothing was \
synced. This device has a volatile cache, which the replay never empties, so the replay does not show how long syncs take here.";

/// The operation of a replayed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads data.
    Read,
    /// A write that may stay in the device's cache.
    Write,
    /// A write that is durable when it completes.
    DurableWrite,
    /// A flush, which makes earlier writes durable.
    Flush,
}

/// One access of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation of the access.
    pub kind: Kind,
    /// The offset of the access in the replay's file.
    pub offset: u64,
    /// The length of the access in bytes; 0 for a flush.
    pub bytes: u64,
    /// The condition for starting the access.
    pub begins: Begins,
    /// The signal that the access sets when it completes.
    pub signal: Option<u32>,
    /// The id of the recorded thread.
    pub tid: u32,
    /// Whether the recorded program waited for the access.
    pub is_sync: bool,
    /// The access's recorded duration, from queueing to completion; known only for the last part of a
    /// request.
    pub took: Option<Nanos>,
}

impl Waits for Access {
    fn begins(&mut self) -> &mut Begins {
        &mut self.begins
    }

    fn signal(&mut self) -> &mut Option<u32> {
        &mut self.signal
    }
}

/// The accesses of a recording that are replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Lists of accesses, each ordered by time. A list contains the accesses of one thread, or of several
    /// threads that did not overlap.
    pub threads: Vec<Vec<Access>>,
    /// The number of signals that accesses set.
    pub signals: u32,
    /// The size of the replay's file, which contains all accessed chunks.
    pub file_bytes: ByteCount,
    /// Number of discards and other operations that are not replayed.
    pub left_out: u64,
    /// Number of recorded accesses to other devices.
    pub of_other_devices: u64,
    /// The names of the recorded threads, by thread id.
    pub names: BTreeMap<u32, String>,
}

impl Sequence {
    /// Returns whether the sequence has writes, but nothing makes them durable. The kernel sends no flushes to a
    /// device without a volatile cache, so the recording does not show the syncs of the programs.
    pub fn has_only_volatile_writes(&self) -> bool {
        let has = |kinds: &[Kind]| self.threads.iter().flatten().any(|access| kinds.contains(&access.kind));
        has(&[Kind::Write]) && !has(&[Kind::Flush, Kind::DurableWrite])
    }

    /// Returns the number of accesses in the sequence.
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }

    /// Returns whether the sequence has no accesses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Collects the rows of a recording for the sequence. Requests, bios and threads may come in any order.
#[derive(Debug, Default)]
pub struct Collected {
    began: Option<Timestamp>,
    bios: Vec<Row>,
    requests: Vec<Row>,
    completed: FxHashMap<u64, Timestamp>,
    /// Threads that write back other threads' data and do not wait.
    background: BTreeSet<u32>,
    names: BTreeMap<u32, String>,
    causes: Causes,
    budget: Budget,
    ignores_bios: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    device: DeviceId,
    op: Op,
    flags: Flags,
    sector: Option<Sector>,
    bytes: u64,
    queued: Timestamp,
    completed: Option<Timestamp>,
    request_id: Option<u64>,
    tid: u32,
}

impl RowSink for Collected {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        if !self.budget.take_thread(row.tid.unwrap_or(0)) || !self.budget.take(budget::ROW) {
            return Ok(());
        }
        if let Some(completed) = row.completed {
            self.completed.insert(row.request_id, completed);
        }
        self.requests.push(Row {
            device: row.device,
            op: row.op,
            flags: row.flags,
            sector: row.sector,
            bytes: row.bytes.0,
            queued: row.queued.unwrap_or_else(|| row.order_time()),
            completed: row.completed,
            request_id: None,
            tid: row.tid.unwrap_or(0),
        });
        Ok(())
    }

    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        // Skip bios of partitions and stacked devices, because each of these bios continues as a bio of the
        // device below.
        if !self.ignores_bios
            && row.request_id.is_some()
            && self.budget.take_thread(row.tid.unwrap_or(0))
            && self.budget.take(budget::ROW)
        {
            self.bios.push(Row {
                device: row.device,
                op: row.op,
                flags: row.flags,
                sector: row.sector,
                bytes: row.bytes.0,
                queued: row.queued,
                completed: row.completed,
                request_id: row.request_id,
                tid: row.tid.unwrap_or(0),
            });
        }
        Ok(())
    }

    fn wants_bios(&self) -> bool {
        !self.ignores_bios
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if !self.budget.take_thread(row.tid) {
            return Ok(());
        }
        if row.comm.as_ref().is_some_and(|comm| comm.starts_with("kworker/")) {
            self.background.insert(row.tid);
        }
        if let Some(comm) = &row.comm {
            self.names.insert(row.tid, comm.chars().take(NAME_CHARS_MAX).collect());
        }
        self.causes.add_thread(row);
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        if self.budget.take_thread(row.tid) && self.budget.take(budget::WAIT) {
            self.causes.add_wait(row);
        }
        Ok(())
    }

    ignore_rows! {
        link, call, statement, blocked_count, file, sample, mark, diagnostic, settled
    }
}

impl Collected {
    /// Creates a collection that ignores bios, so the sequence has the merged requests.
    pub fn of_requests() -> Collected {
        Collected { ignores_bios: true, ..Collected::default() }
    }

    /// Computes the sequence for the device with the most accesses. Fails if the sequence needs too much memory.
    pub fn sequence(self) -> Result<Sequence, TooLarge> {
        self.sequence_of(None)
    }

    /// Computes the sequence for this device, or for the device with the most accesses. Fails if the sequence needs too
    /// much memory.
    pub fn sequence_of(mut self, device: Option<DeviceId>) -> Result<Sequence, TooLarge> {
        self.budget.check()?;
        // Replay bios rather than requests, because another device merges and flushes differently. Not
        // every source records bios.
        let requests = std::mem::take(&mut self.requests);
        let mut rows = if self.bios.is_empty() {
            requests
        } else {
            self.budget.give_back(requests.len() as u64 * budget::ROW);
            drop(requests);
            std::mem::take(&mut self.bios)
        };
        for row in &mut rows {
            let of_request = row.request_id.and_then(|id| self.completed.get(&id).copied());
            row.completed = row.completed.or(of_request);
        }
        self.completed = FxHashMap::default();
        let mut by_device: BTreeMap<DeviceId, u64> = BTreeMap::new();
        rows.iter().for_each(|row| *by_device.entry(row.device).or_default() += 1);
        if let Some(device) = device {
            by_device.retain(|known, _| *known == device);
        }
        let Some((device, count)) = by_device.into_iter().max_by_key(|(_, count)| *count) else {
            return Ok(Sequence::default());
        };
        let of_other_devices = rows.len() as u64 - count;
        rows.retain(|row| row.device == device);
        rows.sort_by_key(|row| row.queued);
        let began = self.began.unwrap_or_else(|| rows[0].queued);
        let places = Places::of(&rows);
        let names = std::mem::take(&mut self.names);
        let mut sequence =
            Sequence { file_bytes: places.bytes(), of_other_devices, names, ..Sequence::default() };
        let mut threads: BTreeMap<u32, Threaded<Access>> = BTreeMap::new();
        let mut last: FxHashMap<u32, Row> = FxHashMap::default();
        let mut may_wait: Vec<MayWait> = Vec::new();
        for row in rows {
            let accesses = accesses(&row, &places);
            if accesses.is_empty() {
                sequence.left_out += 1;
                continue;
            }
            if !self.budget.take(accesses.len() as u64 * budget::ACCESS) {
                return Err(TooLarge::Memory);
            }
            let is_background = self.background.contains(&row.tid);
            let mut begins = match last.insert(row.tid, row) {
                Some(previous) if !is_background => after(&previous, &row),
                _ => Begins::At(since(row.queued, began)),
            };
            let own = threads.entry(row.tid).or_insert_with(|| Threaded {
                began: row.queued,
                ended: row.queued,
                accesses: Vec::new(),
            });
            own.ended = own.ended.max(row.completed.unwrap_or(row.queued));
            if !is_background && !matches!(begins, Begins::AfterBegin(_)) {
                may_wait.push(MayWait { tid: row.tid, at: own.accesses.len(), began: row.queued });
            }
            for (kind, offset, bytes) in accesses {
                let (tid, is_sync) = (row.tid, row.op == Op::Read || row.flags.contains(Flags::SYNC));
                own.accesses.push(Access {
                    kind,
                    offset,
                    bytes,
                    begins,
                    signal: None,
                    tid,
                    is_sync,
                    took: None,
                });
                // The data of a write follow its flush, and parts of a large access follow each other.
                begins = Begins::AfterEnd(Nanos(0));
            }
            if let (Some(last), Some(completed)) = (own.accesses.last_mut(), row.completed) {
                last.took = Some(since(completed, row.queued));
                self.causes.add_access(row.tid, own.accesses.len() - 1, completed);
            }
        }
        sequence.signals = link(&mut threads, self.causes, &may_wait);
        // Do not combine write-back threads with other threads, so that the write-back threads keep their
        // times even if the other threads are late.
        let (workers, others): (Vec<_>, Vec<_>) =
            threads.into_iter().partition(|(tid, _)| self.background.contains(tid));
        sequence.threads = lanes(others.into_iter().map(|(_, own)| own).collect())?;
        sequence.threads.extend(workers.into_iter().map(|(_, own)| own.accesses));
        if sequence.threads.len() > LANES_MAX {
            return Err(TooLarge::Threads);
        }
        let largest = |accesses: &Vec<Access>| accesses.iter().map(|access| access.bytes).max().unwrap_or(0);
        check_buffers(sequence.threads.iter().map(largest).chain([POOL as u64 * BYTES_MAX]))?;
        Ok(sequence)
    }
}

/// Returns the start condition of a thread's access, relative to the thread's previous access.
fn after(previous: &Row, row: &Row) -> Begins {
    match previous.completed {
        Some(completed) if completed <= row.queued => Begins::AfterEnd(since(row.queued, completed)),
        _ => Begins::AfterBegin(since(row.queued, previous.queued)),
    }
}

/// Returns the kind, offset and size of each access that replays a recorded request.
fn accesses(row: &Row, places: &Places) -> Vec<(Kind, u64, u64)> {
    let has = |flag: Flags| row.flags.0 & flag.0 != 0;
    let kind = match row.op {
        Op::Read => Kind::Read,
        Op::Write if has(Flags::FUA) => Kind::DurableWrite,
        Op::Write => Kind::Write,
        Op::Flush => Kind::Flush,
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    if kind == Kind::Flush || has(Flags::PREFLUSH) {
        found.push((Kind::Flush, 0, 0));
    }
    if kind == Kind::Flush {
        return found;
    }
    let Some((mut from, end)) = blocks(row) else { return found };
    while from < end {
        // Chunks that are adjacent on the device are adjacent in the file.
        let bytes = (end - from).min(BYTES_MAX);
        found.push((kind, places.offset(from), bytes));
        from += bytes;
    }
    found
}

/// Returns the start and end of an access in bytes, rounded to blocks. Returns `None` if the row has no data, or
/// is damaged: the kernel's sizes have 32 bits, and no device ends after 2^63 bytes.
fn blocks(row: &Row) -> Option<(u64, u64)> {
    let (sector, bytes) = (row.sector?, u64::from(u32::try_from(row.bytes).ok()?));
    let from = sector.0.checked_mul(SECTOR_BYTES).filter(|from| *from < 1 << 63)?;
    (bytes > 0).then_some((from / BLOCK * BLOCK, (from + bytes).div_ceil(BLOCK) * BLOCK))
}

/// The accessed chunks of the device, placed next to each other in the file in address order. Offsets
/// within a chunk stay the same.
#[derive(Debug)]
struct Places {
    /// The first chunk of each range of chunks, and its place in the file.
    ranges: BTreeMap<u64, u64>,
    /// Number of chunks.
    count: u64,
}

impl Places {
    fn of(rows: &[Row]) -> Places {
        let mut chunks = Chunks::default();
        for row in rows.iter().filter(|row| matches!(row.op, Op::Read | Op::Write)) {
            if let Some((from, end)) = blocks(row) {
                chunks.add_bytes(from, end);
            }
        }
        let mut places = Places { ranges: BTreeMap::new(), count: 0 };
        for range in chunks.ranges() {
            places.ranges.insert(range.start, places.count);
            places.count += range.end - range.start;
        }
        places
    }

    fn bytes(&self) -> ByteCount {
        ByteCount(self.count * CHUNK)
    }

    /// Returns the offset in the file of the accessed byte `at` of the device.
    fn offset(&self, at: u64) -> u64 {
        let range = self.ranges.range(..=at / CHUNK).next_back();
        let (first, place) = range.expect("each accessed byte is in a range");
        (place + at / CHUNK - first) * CHUNK + at % CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, op: Op, sector: u64, at_us: u64, done_us: u64) -> Request {
        Request {
            sector: Some(Sector(sector)),
            queued: Some(Timestamp(at_us * 1000)),
            completed: Some(Timestamp(done_us * 1000)),
            tid: Some(tid),
            ..Request::new(DeviceId::new(8, 0), op, ByteCount(4096))
        }
    }

    fn sequence_of(rows: &[Request]) -> Sequence {
        let mut collected = Collected::default();
        collected.began(Timestamp(0)).expect("it only collects");
        let worker = Thread { tid: 9, comm: Some("kworker/u8:1".into()), ..Thread::default() };
        collected.thread(&worker).expect("it only collects");
        rows.iter().for_each(|row| collected.request(row).expect("it only collects"));
        collected.sequence().expect("it is small")
    }

    #[test]
    fn a_thread_goes_on_when_what_it_waited_for_has_ended() {
        let us = |us: u64| Nanos(us * 1000);
        let sequence = sequence_of(&[
            row(1, Op::Read, 0, 10, 20),
            row(1, Op::Read, 8, 25, 60),
            // This write began before the second read completed, so it did not wait for this read.
            row(1, Op::Write, 16, 30, 90),
            // A write-back thread does not wait for its own writes.
            row(9, Op::Write, 24, 100, 110),
            row(9, Op::Write, 32, 150, 160),
        ]);
        let begins: Vec<Vec<Begins>> =
            sequence.threads.iter().map(|of| of.iter().map(|access| access.begins).collect()).collect();
        assert_eq!(
            begins,
            [
                vec![Begins::At(us(10)), Begins::AfterEnd(us(5)), Begins::AfterBegin(us(5))],
                vec![Begins::At(us(100)), Begins::At(us(150))],
            ]
        );
        assert_eq!((sequence.len(), sequence.file_bytes, sequence.left_out), (5, ByteCount(CHUNK), 0));
    }

    #[test]
    fn accessed_places_move_together_and_keep_their_order() {
        let sectors = CHUNK / SECTOR_BYTES;
        let far = 1_000_000 * sectors;
        let sequence = sequence_of(&[
            row(1, Op::Write, far + 16, 1, 2),
            row(1, Op::Write, 8, 3, 4),
            // This read of two sectors crosses the boundary between two chunks.
            Request { bytes: ByteCount(1024), ..row(1, Op::Read, far + sectors - 1, 5, 6) },
        ]);
        let places: Vec<(u64, u64)> =
            sequence.threads[0].iter().map(|access| (access.offset, access.bytes)).collect();
        assert_eq!(places, [(CHUNK + 8192, 4096), (4096, 4096), (2 * CHUNK - 4096, 8192)]);
        assert_eq!(sequence.file_bytes, ByteCount(3 * CHUNK));
    }

    #[test]
    fn flushes_stay_and_discards_are_left_out() {
        let flags = Flags(Flags::PREFLUSH.0 | Flags::FUA.0);
        let sequence = sequence_of(&[
            Request { flags, ..row(1, Op::Write, 0, 1, 2) },
            Request { sector: None, bytes: ByteCount(0), ..row(1, Op::Flush, 0, 3, 4) },
            row(1, Op::Discard, 0, 5, 6),
            Request { device: DeviceId::new(8, 16), ..row(1, Op::Read, 0, 7, 8) },
        ]);
        let kinds: Vec<Kind> = sequence.threads[0].iter().map(|access| access.kind).collect();
        assert_eq!(kinds, [Kind::Flush, Kind::DurableWrite, Kind::Flush]);
        assert_eq!((sequence.left_out, sequence.of_other_devices), (1, 1));
        assert!(sequence_of(&[]).is_empty());
    }

    #[test]
    fn writes_that_nothing_makes_durable_are_known() {
        let (read, write) = (row(1, Op::Read, 0, 1, 2), row(1, Op::Write, 8, 3, 4));
        let durable = Request { flags: Flags::FUA, ..row(1, Op::Write, 16, 5, 6) };
        let flush = Request { sector: None, bytes: ByteCount(0), ..row(1, Op::Flush, 0, 7, 8) };
        for (rows, expected) in [
            (vec![read.clone(), write.clone()], true),
            (vec![write.clone(), flush], false),
            (vec![write, durable], false),
            (vec![read], false),
        ] {
            assert_eq!(sequence_of(&rows).has_only_volatile_writes(), expected, "{rows:?}");
        }
    }
}
