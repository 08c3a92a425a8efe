//! Converts the ring-buffer pages of a capture into rows.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Bio, ByteCount, Request, RowSink, Thread, Timestamp, TraceReader, forward_rows};
use fonio_system::signals::{Listener, Signal};
use fonio_tracefs::ring_buffer::{BlockDecoder, PageLayout, RingBufferReader};
use fonio_tracefs::waits::Completions;
use rustc_hash::FxHashSet;

use crate::attribution::threads::Threads;
use crate::attribution::whose::Follower;
use crate::capture::Captured;
use crate::options::Progress;
use crate::tracefs::pages::{CpuSource, Pages};
use crate::write::losses::Losses;

/// Number of events read between two progress messages.
const PROGRESS_EVENTS: u64 = 200_000;

/// Reads the ring-buffer events of a capture, and facts about its threads from procfs.
pub(crate) struct CaptureReader<'a> {
    inner: RingBufferReader<CpuSource>,
    threads: &'a Threads,
    signals: &'a Listener,
    progress: &'a mut dyn FnMut(Progress<'_>),
    read: Arc<AtomicU64>,
    trace_bytes: ByteCount,
    told: u64,
    /// Collects the completions of requests, if waits are recorded.
    completions: Option<&'a RefCell<Completions>>,
    /// Follows file events, if the files of requests are recorded.
    follower: Option<Follower<'a>>,
    losses: Losses,
    /// Number of events read so far.
    pub events: u64,
}

impl<'a> CaptureReader<'a> {
    pub(crate) fn new(
        layout: PageLayout,
        decoder: BlockDecoder,
        pages: Pages,
        captured: &'a Captured,
        signals: &'a Listener,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> CaptureReader<'a> {
        let read = Arc::clone(&pages.read);
        let streams =
            pages.sources.into_iter().map(|(cpu, source)| (cpu, format!("per_cpu/cpu{cpu}"), source));
        let source = Source { format: "tracefs".to_owned(), ..Source::default() };
        let clock = Clock { name: "mono".to_owned(), unix_ns_at_zero: Some(captured.unix_ns_at_zero) };
        let inner = RingBufferReader::new(layout, decoder, streams, source, clock, captured.began);
        CaptureReader {
            inner,
            threads: &captured.threads,
            signals,
            progress,
            read,
            trace_bytes: captured.trace_bytes,
            told: 0,
            completions: None,
            follower: None,
            losses: Losses::new(captured),
            events: 0,
        }
    }

    /// Makes the reader note each completion of a request in `completions`.
    pub(crate) fn noting(self, completions: Option<&'a RefCell<Completions>>) -> CaptureReader<'a> {
        CaptureReader { completions, ..self }
    }

    /// Makes the reader pass each trace record to `follower`.
    pub(crate) fn followed_by(self, follower: Option<Follower<'a>>) -> CaptureReader<'a> {
        CaptureReader { follower, ..self }
    }

    /// Returns the lost events after all pages have been read.
    pub(crate) fn into_losses(self) -> Losses {
        self.losses
    }
}

impl TraceReader for CaptureReader<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        if self.signals.count(Signal::INT) > 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let more = match &mut self.follower {
            Some(follower) => {
                let more =
                    self.inner.next_batch_with(batch, &mut |record, block| follower.record(record, block))?;
                follower.finish_batch(batch, self.threads);
                more
            }
            None => self.inner.next_batch(batch)?,
        };
        self.losses.batch(batch, !more);
        for thread in &mut batch.threads {
            self.threads.complete(thread);
        }
        if let Some(completions) = self.completions {
            let mut completions = completions.borrow_mut();
            batch.events.iter().for_each(|event| completions.event(event));
        }
        self.events += batch.events.len() as u64;
        if self.events - self.told >= PROGRESS_EVENTS {
            self.told = self.events;
            (self.progress)(Progress::Writing {
                events: self.events,
                trace_bytes: ByteCount(self.read.load(Ordering::Relaxed)),
                trace_bytes_total: self.trace_bytes,
            });
        }
        Ok(more)
    }

    fn source(&self) -> Source {
        self.inner.source()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }
}

/// Passes on all rows except requests and bios queued by the recorder's own thread.
pub(crate) struct WithoutOwn<'a> {
    pub inner: &'a mut dyn RowSink,
    pub own_tid: Option<u32>,
    pub completions: Option<&'a RefCell<Completions>>,
    /// The threads that have a row in the recording.
    pub named: FxHashSet<u32>,
    /// Number of rows that were left out because the recorder caused them.
    pub left_out: u64,
}

impl WithoutOwn<'_> {
    fn is_own(&mut self, tid: Option<u32>) -> bool {
        let own = tid.is_some() && tid == self.own_tid;
        self.left_out += u64::from(own);
        own
    }
}

impl RowSink for WithoutOwn<'_> {
    fn began(&mut self, _at: Timestamp) -> io::Result<()> {
        // The writer already has `began`, which is before the first event.
        Ok(())
    }
    fn request(&mut self, row: &Request) -> io::Result<()> {
        if let Some(completions) = self.completions {
            completions.borrow_mut().request(row);
        }
        if self.is_own(row.tid) { Ok(()) } else { self.inner.request(row) }
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        if self.is_own(row.tid) { Ok(()) } else { self.inner.bio(row) }
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.named.insert(row.tid);
        self.inner.thread(row)
    }
    forward_rows!(inner: link, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled);
    fn wants_bios(&self) -> bool {
        self.inner.wants_bios()
    }
}
