//! Decodes block events from the merged records.

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Batch, BlockEvent, Timestamp, TraceReader};

use super::block::BlockDecoder;
use super::merge::{MergedRecords, PageSource};
use super::page::{PageLayout, Record};

/// Number of events in one batch.
const BATCH_EVENTS: usize = 4096;
/// Maximum number of records examined for one batch. It matters only if most records are not block events.
const BATCH_RECORDS: usize = 64 * 1024;

/// Reads a complete trace from the pages of all processors. Keeps one page per processor in memory.
pub struct RingBufferReader<S> {
    records: MergedRecords<S>,
    decoder: BlockDecoder,
    threads: SeenThreads,
    source: Source,
    clock: Clock,
}

impl<S: PageSource> RingBufferReader<S> {
    /// Creates a reader of `streams`. Each stream consists of the processor's number, a name
    /// for diagnostics, and the pages. `began` is the time from which the trace is complete. If a processor's
    /// first events were lost, the gap begins at `began`.
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
        let records = MergedRecords::new(layout, streams, began);
        RingBufferReader { records, decoder, threads: SeenThreads::default(), source, clock }
    }

    /// Does the same as [`next_batch`](TraceReader::next_batch), but also passes each record to `look` in
    /// order of time, with the decoded block event if the record contains one. Fails if reading a page source
    /// fails.
    pub fn next_batch_with(
        &mut self,
        batch: &mut Batch,
        look: &mut dyn FnMut(Record<'_>, Option<&BlockEvent>),
    ) -> io::Result<bool> {
        batch.clear();
        let mut more = true;
        for _ in 0..BATCH_RECORDS {
            if batch.events.len() >= BATCH_EVENTS {
                break;
            }
            let (decoder, threads) = (&self.decoder, &mut self.threads);
            more = self.records.next(|cpu, record| {
                let Some((event, comm)) = decoder.decode_named(record, Some(cpu)) else {
                    batch.instants.see(record.time);
                    look(record, None);
                    return;
                };
                look(record, Some(&event));
                batch.events.push(event);
                if let (Some(tid), Some(comm)) = (event.tid, comm) {
                    let seen = threads.seen(tid, None, Some(comm), NameOrigin::Event, event.time);
                    batch.threads.extend(seen);
                }
            })?;
            if !more {
                break;
            }
        }
        let trouble = self.records.take_trouble();
        batch.lost.extend(trouble.lost);
        batch.diagnostics.extend(trouble.diagnostics);
        Ok(more)
    }
}

impl<S: PageSource> TraceReader for RingBufferReader<S> {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        self.next_batch_with(batch, &mut |_, _| {})
    }

    fn source(&self) -> Source {
        self.source.clone()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}
