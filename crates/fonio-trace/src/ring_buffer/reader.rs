//! The per-processor streams of one trace, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Diagnostic, LostEvents, Severity, Timestamp};

use super::block::BlockDecoder;
use super::page::{Cursor, Damage, PageLayout, Record};
use crate::reader::TraceReader;
use crate::threads::{Origin, Threads};

/// Events in one batch.
const BATCH_EVENTS: usize = 4096;
/// Records looked at for one batch, where most are of other tracepoints.
const BATCH_RECORDS: usize = 64 * 1024;
/// Damaged pages that are told of one by one; the rest are counted.
const DAMAGE_TOLD: u64 = 5;

/// The pages of one processor, oldest first.
pub trait PageSource {
    /// Replaces the contents of `page` by the next page and gives the byte offset in the stream at which that stood;
    /// `None` at the end. A page may be cut behind what it uses.
    ///
    /// # Errors
    /// What the underlying file reports.
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>>;
}

/// Reads a whole trace from the pages of each processor. Holds one page per processor.
pub struct RingBufferReader<S> {
    layout: PageLayout,
    decoder: BlockDecoder,
    streams: Vec<Stream<S>>,
    /// The streams that have a record, by its time.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    started: bool,
    threads: Threads,
    /// Damaged pages so far, and the first beyond those told.
    damaged: u64,
    untold: Option<Diagnostic>,
    source: Source,
    clock: Clock,
}

struct Stream<S> {
    cpu: u32,
    pages: S,
    page: Vec<u8>,
    /// Where `page` stood in the stream.
    offset: u64,
    page_number: u64,
    cursor: Option<Cursor>,
    /// The record that the heap knows of, as a range of `page`.
    record: (usize, usize),
    last_time: u64,
    name: String,
}

impl<S: PageSource> RingBufferReader<S> {
    /// A reader of `streams`: the processor's number, its name in diagnostics, and its pages. `began` is when the trace
    /// was known to be complete first, for a gap before the first event of a processor.
    pub fn new(
        layout: PageLayout,
        decoder: BlockDecoder,
        streams: impl IntoIterator<Item = (u32, String, S)>,
        source: Source,
        clock: Clock,
        began: Timestamp,
    ) -> RingBufferReader<S> {
        let mut source = source;
        if source.shows.is_empty() {
            source.shows = decoder.shows();
        }
        let streams = streams
            .into_iter()
            .map(|(cpu, name, pages)| Stream {
                cpu,
                pages,
                page: Vec::new(),
                offset: 0,
                page_number: 0,
                cursor: None,
                record: (0, 0),
                last_time: began.0,
                name,
            })
            .collect();
        RingBufferReader {
            layout,
            decoder,
            streams,
            waiting: BinaryHeap::new(),
            started: false,
            threads: Threads::default(),
            damaged: 0,
            untold: None,
            source,
            clock,
        }
    }

    /// Moves a stream to its next record and gives that record's time; `None` at its end.
    fn advance(&mut self, index: usize, batch: &mut Batch) -> io::Result<Option<u64>> {
        loop {
            let stream = &mut self.streams[index];
            let damage = if let Some(cursor) = &mut stream.cursor {
                match cursor.next(&stream.page) {
                    Some(Ok(Record { time, data })) => {
                        let from = data.as_ptr() as usize - stream.page.as_ptr() as usize;
                        stream.record = (from, from + data.len());
                        stream.last_time = time;
                        return Ok(Some(time));
                    }
                    Some(Err(damage)) => Some(damage),
                    None => None,
                }
            } else {
                None
            };
            if let Some(damage) = damage {
                self.tell(index, damage, batch);
            }
            let stream = &mut self.streams[index];
            stream.cursor = None;
            let Some(offset) = stream.pages.next_page(&mut stream.page)? else { return Ok(None) };
            stream.offset = offset;
            stream.page_number += 1;
            match self.layout.open(&stream.page) {
                Ok((header, cursor)) => {
                    if let Some(count) = header.lost {
                        batch.lost.push(LostEvents {
                            cpu: Some(stream.cpu),
                            count,
                            after: Timestamp(stream.last_time.min(header.time)),
                            before: Timestamp(header.time),
                        });
                    }
                    stream.cursor = Some(cursor);
                }
                Err(damage) => self.tell(index, damage, batch),
            }
        }
    }

    fn tell(&mut self, index: usize, damage: Damage, batch: &mut Batch) {
        let stream = &self.streams[index];
        self.damaged += 1;
        let diagnostic = Diagnostic {
            severity: Severity::Warning,
            code: "damaged-page".to_owned(),
            message: format!("{damage}; the rest of the page was skipped"),
            file: Some(stream.name.clone()),
            record: Some(stream.page_number),
            offset: Some(stream.offset),
            count: 1,
        };
        if self.damaged <= DAMAGE_TOLD {
            batch.diagnostics.push(diagnostic);
        } else {
            self.untold.get_or_insert(diagnostic).count = self.damaged - DAMAGE_TOLD;
        }
    }
}

impl<S: PageSource> TraceReader for RingBufferReader<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        if !self.started {
            self.started = true;
            for index in 0..self.streams.len() {
                if let Some(time) = self.advance(index, batch)? {
                    self.waiting.push(Reverse((time, index as u32)));
                }
            }
        }
        for _ in 0..BATCH_RECORDS {
            if batch.events.len() >= BATCH_EVENTS {
                return Ok(true);
            }
            let Some(&Reverse((time, index))) = self.waiting.peek() else {
                batch.diagnostics.extend(self.untold.take());
                return Ok(false);
            };
            let index = index as usize;
            let stream = &self.streams[index];
            let data = &stream.page[stream.record.0..stream.record.1];
            if let Some(event) = self.decoder.decode(Record { time, data }, Some(stream.cpu)) {
                batch.events.push(event);
                if let (Some(tid), Some(comm)) = (event.tid, self.decoder.comm(data)) {
                    let seen = self.threads.seen(tid, None, Some(comm), Origin::Event, Timestamp(time));
                    batch.threads.extend(seen);
                }
            }
            let next = self.advance(index, batch)?;
            let Some(mut top) = self.waiting.peek_mut() else { continue };
            match next {
                Some(next) => *top = Reverse((next, index as u32)),
                None => {
                    std::collections::binary_heap::PeekMut::pop(top);
                }
            }
        }
        Ok(true)
    }

    fn source(&self) -> Source {
        self.source.clone()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}
