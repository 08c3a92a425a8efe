//! Stores raw ring-buffer pages until the recording is written.
//!
//! The used parts of each processor's pages are packed into chunks. Full chunks stay in memory, or go to the
//! spill file. At the end, each processor's pages are read back in order.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fonio_core::{ByteCount, Timestamp};
use fonio_tracefs::ring_buffer::{PageLayout, PageSource};

use crate::tracefs::chunk::{ALIGNMENT, Chunk};
use crate::tracefs::spill::Spill;

/// Maximum size of a chunk in bytes. Small ring buffers have smaller chunks.
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Where a full chunk is stored.
enum Segment {
    Held(Chunk),
    /// The chunk is in the spill file, at this offset.
    Spilled {
        offset: u64,
        ends: Vec<u32>,
    },
    /// The chunk is being written to the spill file.
    Leaving,
}

struct CpuPages {
    cpu: u32,
    file: File,
    segments: VecDeque<Segment>,
    /// Index of the first segment in memory. Earlier segments are in the spill file or being written to it.
    first_held: usize,
    /// The chunk to which pages are appended.
    chunk: Chunk,
    /// Time of the last event before `chunk`.
    until: Option<Timestamp>,
}

impl CpuPages {
    /// Returns the time of the last event that was kept.
    fn kept_until(&self, layout: &PageLayout) -> Option<Timestamp> {
        let Some(&end) = self.chunk.ends.last() else { return self.until };
        let begin = self.chunk.ends.iter().rev().nth(1).map_or(0, |&end| end as usize);
        let page = &self.chunk.bytes()[begin..end as usize];
        let (header, mut cursor) = layout.open(page).ok()?;
        let mut last = header.time;
        while let Some(Ok(record)) = cursor.next(page) {
            last = record.time;
        }
        Some(last)
    }
}

pub(crate) struct PageStore {
    layout: PageLayout,
    cpus: Vec<CpuPages>,
    chunk_bytes: usize,
    limit: usize,
    /// Number of chunks in memory, including chunks that are being written to the spill file.
    chunks: usize,
    spill: Option<Spill>,
    /// The error because of which the spill file is no longer used.
    spill_failed: Option<io::Error>,
    full: bool,
    trace_bytes: ByteCount,
}

/// The events that did not fit into the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The time up to which all processors' events are kept; `None` if no events of one of the processors are
    /// kept. Events after this time are useless, because the matching issue or completion may be missing.
    pub complete_until: Option<Timestamp>,
    /// For each processor, the events that were in its buffer after the store had become full.
    pub cpus: Vec<LeftOnCpu>,
}

/// The events of one processor that the store did not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOnCpu {
    pub cpu: u32,
    pub events: u64,
    /// Number of these events that the kernel had overwritten, if the kernel counted them.
    pub overwritten: u64,
    /// Whether a page could not be read, which makes the number of events a lower bound.
    pub uncounted: bool,
}

/// The result of one round of reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drained {
    /// The largest amount read from one processor, in the kernel's pages.
    pub most: ByteCount,
    /// Whether the store is full and keeps no more pages.
    pub full: bool,
}

impl PageStore {
    /// Creates a store of at most `limit` bytes for the buffers of `cpus`.
    pub(crate) fn new(
        layout: PageLayout,
        cpus: impl IntoIterator<Item = (u32, File)>,
        limit: ByteCount,
        spill: Option<Spill>,
    ) -> PageStore {
        let cpus: Vec<(u32, File)> = cpus.into_iter().collect();
        let limit = usize::try_from(limit.0).unwrap_or(usize::MAX);
        let page_bytes = layout.page_bytes().next_multiple_of(ALIGNMENT);
        let share = limit / cpus.len().max(1) / 4;
        let chunk_bytes =
            (share / page_bytes * page_bytes).clamp(page_bytes, CHUNK_BYTES_MAX.max(page_bytes));
        let cpus: Vec<CpuPages> = cpus
            .into_iter()
            .map(|(cpu, file)| CpuPages {
                cpu,
                file,
                segments: VecDeque::new(),
                first_held: 0,
                chunk: Chunk::new(chunk_bytes),
                until: None,
            })
            .collect();
        let chunks = cpus.len();
        PageStore {
            layout,
            cpus,
            chunk_bytes,
            limit,
            chunks,
            spill,
            spill_failed: None,
            full: false,
            trace_bytes: ByteCount(0),
        }
    }

    /// Reads the kernel's pages, and passes each one to `look`. Stops when the store is full; from then on,
    /// the store keeps no more pages of any processor.
    ///
    /// The pages are read from each processor in turn. So when memory is full, the kept events of all
    /// processors end at about the same time. Later events from only one processor are useless.
    pub(crate) fn drain(&mut self, look: &mut dyn FnMut(&[u8])) -> io::Result<Drained> {
        self.collect_spilled()?;
        let mut bytes = vec![ByteCount(0); self.cpus.len()];
        let mut waiting: Vec<usize> = (0..self.cpus.len()).collect();
        while !waiting.is_empty() && !self.full {
            let mut still = Vec::with_capacity(waiting.len());
            for index in waiting {
                if self.full || !self.make_room(index)? {
                    self.full = true;
                    break;
                }
                if self.read_page(index, look)? {
                    bytes[index] += ByteCount(self.layout.page_bytes() as u64);
                    still.push(index);
                }
            }
            waiting = still;
        }
        Ok(Drained { most: bytes.into_iter().max().unwrap_or_default(), full: self.full })
    }

    /// Reads one page of a processor into the processor's chunk; returns `false` if there is no page.
    fn read_page(&mut self, index: usize, look: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let cpu = &mut self.cpus[index];
        let used = cpu.chunk.used();
        let place = &mut cpu.chunk.bytes_mut()[used..used + self.layout.page_bytes()];
        let Some(read) = read_raw(&cpu.file, place)? else { return Ok(false) };
        let page = &cpu.chunk.bytes()[used..used + read];
        // An unreadable page is kept in full, so that the reader can report it.
        let kept = self.layout.open(page).map_or(read, |(header, _)| header.used_bytes);
        assert!(used + kept <= self.chunk_bytes, "a page lies within its chunk");
        look(&page[..kept]);
        cpu.chunk.ends.push((used + kept) as u32);
        self.trace_bytes += ByteCount(kept as u64);
        Ok(true)
    }

    /// Reads and counts the events that do not fit into a full store. The events must be disabled before this
    /// call.
    pub(crate) fn leave_out_rest(&self) -> io::Result<LeftOut> {
        let mut cpus = Vec::new();
        let mut complete_until = Some(Timestamp(u64::MAX));
        let mut page = vec![0; self.layout.page_bytes()];
        for cpu in &self.cpus {
            let mut left = LeftOnCpu { cpu: cpu.cpu, ..LeftOnCpu::default() };
            while let Some(read) = read_raw(&cpu.file, &mut page)? {
                let Ok((header, mut cursor)) = self.layout.open(&page[..read]) else {
                    left.uncounted = true;
                    continue;
                };
                if let Some(overwritten) = header.lost {
                    left.overwritten += overwritten.unwrap_or(0);
                    left.uncounted |= overwritten.is_none();
                }
                while let Some(record) = cursor.next(&page[..read]) {
                    left.events += u64::from(record.is_ok());
                    left.uncounted |= record.is_err();
                }
            }
            if left != (LeftOnCpu { cpu: cpu.cpu, ..LeftOnCpu::default() }) {
                complete_until = complete_until.min(cpu.kept_until(&self.layout));
            }
            cpus.push(left);
        }
        Ok(LeftOut { complete_until, cpus })
    }

    /// Makes room for another page in a processor's chunk; returns `false` if memory is full.
    fn make_room(&mut self, index: usize) -> io::Result<bool> {
        let page_bytes = self.layout.page_bytes();
        if self.cpus[index].chunk.used() + page_bytes <= self.chunk_bytes {
            return Ok(true);
        }
        if self.spill_failed.is_none() && (self.chunks + 1) * self.chunk_bytes > self.limit / 2 {
            self.spill_oldest()?;
        }
        if (self.chunks + 1) * self.chunk_bytes > self.limit {
            return Ok(false);
        }
        self.chunks += 1;
        let cpu = &mut self.cpus[index];
        cpu.until = cpu.kept_until(&self.layout);
        let full = std::mem::replace(&mut cpu.chunk, Chunk::new(self.chunk_bytes));
        cpu.segments.push_back(Segment::Held(full));
        Ok(true)
    }

    /// Sends every full chunk in memory to the spill file.
    fn spill_oldest(&mut self) -> io::Result<()> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            for at in cpu.first_held..cpu.segments.len() {
                if let Segment::Held(chunk) = std::mem::replace(&mut cpu.segments[at], Segment::Leaving) {
                    spill.send((index, at), chunk)?;
                }
            }
            cpu.first_held = cpu.segments.len();
        }
        Ok(())
    }

    /// Notes the offsets of chunks that have been written to the spill file.
    fn collect_spilled(&mut self) -> io::Result<()> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        while let Some(((index, at), written, chunk)) = spill.written()? {
            let segment = &mut self.cpus[index].segments[at];
            assert!(matches!(segment, Segment::Leaving), "each chunk is written only once");
            *segment = match written {
                Ok(offset) => {
                    self.chunks -= 1;
                    Segment::Spilled { offset, ends: chunk.ends }
                }
                Err(error) => {
                    self.spill_failed.get_or_insert(error);
                    Segment::Held(chunk)
                }
            };
        }
        Ok(())
    }

    /// Returns whether a page did not fit into the store.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the size of the raw trace kept so far.
    pub(crate) fn trace_bytes(&self) -> ByteCount {
        self.trace_bytes
    }

    /// Returns the size of the chunks that are in memory.
    pub(crate) fn held_bytes(&self) -> ByteCount {
        ByteCount((self.chunks * self.chunk_bytes) as u64)
    }

    /// Ends the capture. Returns each processor's pages, and the thread that wrote the spill file.
    pub(crate) fn finish(mut self) -> io::Result<Pages> {
        let mut own_tid = None;
        let mut file = None;
        if let Some(spill) = self.spill.take() {
            let (written, done) = spill.finish()?;
            for ((index, at), written, chunk) in written {
                self.cpus[index].segments[at] = match written {
                    Ok(offset) => Segment::Spilled { offset, ends: chunk.ends },
                    Err(error) => {
                        self.spill_failed.get_or_insert(error);
                        Segment::Held(chunk)
                    }
                };
            }
            own_tid = done.tid;
            file = Some(Arc::new(done.file));
        }
        let read = Arc::new(AtomicU64::new(0));
        let sources = self
            .cpus
            .into_iter()
            .map(|mut cpu| {
                cpu.segments.push_back(Segment::Held(cpu.chunk));
                let pages = CpuSource {
                    segments: cpu.segments,
                    spill: file.clone(),
                    current: None,
                    next: 0,
                    offset: 0,
                    read: Arc::clone(&read),
                };
                (cpu.cpu, pages)
            })
            .collect();
        Ok(Pages { sources, own_tid, spill_failed: self.spill_failed, read })
    }
}

/// Reads one page of `trace_pipe_raw`; `None` if no page is ready.
pub(crate) fn read_raw(file: &File, place: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        return match rustix::io::read(file, &mut *place) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Ok(read) => Ok(Some(read)),
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

/// The stored pages of a finished capture.
pub(crate) struct Pages {
    pub sources: Vec<(u32, CpuSource)>,
    /// The thread that wrote the spill file.
    pub own_tid: Option<u32>,
    /// The error because of which the spill file was no longer used; chunks that were not yet written stayed
    /// in memory.
    pub spill_failed: Option<io::Error>,
    /// Number of bytes that have been read back so far.
    pub read: Arc<AtomicU64>,
}

/// Reads the stored pages of one processor. Frees the memory of pages that have been read.
pub(crate) struct CpuSource {
    segments: VecDeque<Segment>,
    spill: Option<Arc<File>>,
    /// The bytes of the current chunk, and the offsets at which its pages end.
    current: Option<(Current, Vec<u32>)>,
    next: usize,
    offset: u64,
    read: Arc<AtomicU64>,
}

enum Current {
    Held(Chunk),
    ReadBack(Vec<u8>),
}

impl PageSource for CpuSource {
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        loop {
            if let Some((current, ends)) = &self.current
                && let Some(&end) = ends.get(self.next)
            {
                let begin = self.next.checked_sub(1).map_or(0, |before| ends[before]);
                let bytes = match current {
                    Current::Held(chunk) => chunk.bytes(),
                    Current::ReadBack(bytes) => bytes,
                };
                page.clear();
                page.extend_from_slice(&bytes[begin as usize..end as usize]);
                self.next += 1;
                let offset = self.offset;
                self.offset += page.len() as u64;
                self.read.fetch_add(page.len() as u64, Ordering::Relaxed);
                return Ok(Some(offset));
            }
            self.next = 0;
            self.current = match self.segments.pop_front() {
                None => return Ok(None),
                Some(Segment::Held(mut chunk)) => {
                    let ends = std::mem::take(&mut chunk.ends);
                    Some((Current::Held(chunk), ends))
                }
                Some(Segment::Spilled { offset, ends }) => {
                    let spill = self.spill.as_ref().expect("a spilled chunk has a spill file");
                    let mut bytes = vec![0; ends.last().map_or(0, |&end| end as usize)];
                    spill.read_exact_at(&mut bytes, offset)?;
                    Some((Current::ReadBack(bytes), ends))
                }
                Some(Segment::Leaving) => unreachable!("the spill thread has been joined"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_tracefs::ring_buffer::ByteOrder;

    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    /// A processor with an empty buffer counts as complete, and keeps its processor number.
    #[test]
    fn nothing_is_left_out_where_nothing_is_left() {
        let layout = PageLayout::parse(HEADER, ByteOrder::NATIVE).unwrap();
        let idle = || tempfile::tempfile().unwrap();
        let store = PageStore::new(layout, [(3, idle()), (5, idle())], ByteCount(1 << 20), None);
        let left = store.leave_out_rest().unwrap();
        assert_eq!(left.complete_until, Some(Timestamp(u64::MAX)));
        let nothing = |cpu| LeftOnCpu { cpu, ..LeftOnCpu::default() };
        assert_eq!(left.cpus, [nothing(3), nothing(5)]);
    }
}
