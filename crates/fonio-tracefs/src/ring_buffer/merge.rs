//! Merges the records of all processors of a trace by time, without decoding the records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;

use fonio_core::{Diagnostic, LostEvents, Severity, Timestamp};

use super::page::{Cursor, Damage, PageLayout, Record};

/// Number of damaged pages that are reported individually; further damaged pages are only counted.
const DAMAGE_REPORTED: u64 = 5;

/// The pages of one processor, oldest first.
pub trait PageSource {
    /// Replaces the contents of `page` with the next page, and returns the page's byte offset in the stream;
    /// `None` at the end. The source may cut off a page after its used bytes. Fails if reading the underlying
    /// file fails.
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>>;
}

/// Gaps and diagnostics found while merging: lost events and damaged pages.
#[derive(Debug, Default)]
pub struct Trouble {
    /// The gaps in which events were lost.
    pub lost: Vec<LostEvents>,
    /// One diagnostic for each of the first damaged pages, and a single diagnostic for all further damaged
    /// pages.
    pub diagnostics: Vec<Diagnostic>,
}

/// Merges the records of all processors in order of time. Keeps one page per processor in memory.
pub struct MergedRecords<S> {
    layout: PageLayout,
    streams: Vec<Stream<S>>,
    /// The streams that have another record, ordered by the time of this record.
    waiting: BinaryHeap<Reverse<(Timestamp, u32)>>,
    started: bool,
    /// Number of damaged pages so far, and the diagnostic for damaged pages that are not reported
    /// individually.
    damaged: u64,
    unreported: Option<Diagnostic>,
    trouble: Trouble,
}

struct Stream<S> {
    cpu: u32,
    pages: S,
    page: Vec<u8>,
    /// The byte offset of `page` in the stream.
    offset: u64,
    page_number: u64,
    cursor: Option<Cursor>,
    /// The next record of this stream, as a range of `page`. The heap contains the record's time.
    record: (usize, usize),
    last_time: Timestamp,
    /// Whether a damaged page or a part of a damaged page was skipped since the last record.
    skipped: bool,
    name: String,
}

impl<S: PageSource> MergedRecords<S> {
    /// Merges `streams`. Each stream consists of the processor's number, a name for diagnostics, and the
    /// pages. `began` is the time from which the trace is complete. If a processor's first events were lost,
    /// the gap begins at `began`.
    pub fn new(
        layout: PageLayout,
        streams: impl IntoIterator<Item = (u32, String, S)>,
        began: Timestamp,
    ) -> MergedRecords<S> {
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
                last_time: began,
                skipped: false,
                name,
            })
            .collect();
        MergedRecords {
            layout,
            streams,
            waiting: BinaryHeap::new(),
            started: false,
            damaged: 0,
            unreported: None,
            trouble: Trouble::default(),
        }
    }

    /// Passes the next record and its processor's number to `look`; returns `false` at the end. Fails if
    /// reading a page source fails.
    pub fn next(&mut self, look: impl FnOnce(u32, Record<'_>)) -> io::Result<bool> {
        if !self.started {
            self.started = true;
            for index in 0..self.streams.len() {
                if let Some(time) = self.advance(index)? {
                    self.waiting.push(Reverse((time, index as u32)));
                }
            }
        }
        let Some(&Reverse((time, index))) = self.waiting.peek() else {
            self.trouble.diagnostics.extend(self.unreported.take());
            return Ok(false);
        };
        let stream = &self.streams[index as usize];
        let data = &stream.page[stream.record.0..stream.record.1];
        look(stream.cpu, Record { time, data });
        let next = self.advance(index as usize)?;
        if let Some(mut top) = self.waiting.peek_mut() {
            assert!(top.0.1 == index, "the earliest record must stay on top until it is replaced");
            match next {
                Some(next) => *top = Reverse((next, index)),
                None => {
                    PeekMut::pop(top);
                }
            }
        }
        Ok(true)
    }

    /// Returns whether lost events or damaged pages were found since the last call of [`MergedRecords::take_trouble`].
    pub fn has_trouble(&self) -> bool {
        !self.trouble.lost.is_empty() || !self.trouble.diagnostics.is_empty()
    }

    /// Returns and clears the lost events and damaged pages found since the last call.
    pub fn take_trouble(&mut self) -> Trouble {
        std::mem::take(&mut self.trouble)
    }

    /// Advances a stream to its next record, and returns the time of this record; `None` at the end of the
    /// stream.
    fn advance(&mut self, index: usize) -> io::Result<Option<Timestamp>> {
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
                self.report(index, damage);
            }
            let stream = &mut self.streams[index];
            stream.cursor = None;
            let Some(offset) = stream.pages.next_page(&mut stream.page)? else {
                let latest = self.streams.iter().map(|stream| stream.last_time).max().unwrap_or_default();
                self.gap(index, latest, None);
                return Ok(None);
            };
            stream.offset = offset;
            stream.page_number += 1;
            match self.layout.open(&stream.page) {
                Ok((header, cursor)) => {
                    stream.cursor = Some(cursor);
                    self.gap(index, header.time, header.lost);
                }
                Err(damage) => self.report(index, damage),
            }
        }
    }

    /// Records that events were lost before the page that begins at `until`. The number of events on a
    /// skipped page is unknown.
    fn gap(&mut self, index: usize, until: Timestamp, lost: Option<Option<u64>>) {
        let stream = &mut self.streams[index];
        let skipped = std::mem::take(&mut stream.skipped);
        if !skipped && lost.is_none() {
            return;
        }
        self.trouble.lost.push(LostEvents {
            cpu: Some(stream.cpu),
            count: lost.flatten().filter(|_| !skipped),
            after: stream.last_time.min(until),
            before: until,
        });
    }

    fn report(&mut self, index: usize, damage: Damage) {
        self.streams[index].skipped = true;
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
        if self.damaged <= DAMAGE_REPORTED {
            self.trouble.diagnostics.push(diagnostic);
        } else {
            self.unreported.get_or_insert(diagnostic).count = self.damaged - DAMAGE_REPORTED;
        }
    }
}
