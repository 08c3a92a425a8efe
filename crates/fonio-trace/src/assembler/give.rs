//! Emits the rows of requests, bios and links.

use std::io;

use fonio_core::{Bio, Link, LinkEnd, LinkKind, Nanos, Op, Request, RowSink, Sector, Timestamp};

use super::Assembler;
use super::open::{CHAIN_MAX, Entry, FLUSH_SECTOR, NEVER, NIL, State, seen};
use super::tally::Counter;

/// Maximum length of a pause of a device, for example for garbage collection. If a completion is later, it
/// was probably not recorded.
pub(super) const PAUSE_MAX: Nanos = Nanos(1_000_000_000);

/// The reason why an entry is emitted early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    LostEvents,
    Horizon,
    OpenLimit,
    Superseded,
    End,
}

fn instant(time: Timestamp) -> Option<Timestamp> {
    (time != NEVER).then_some(time)
}

fn sector(entry: &Entry, sector: Sector) -> Option<Sector> {
    let no_data = entry.op == Op::Flush && entry.key.sector == FLUSH_SECTOR;
    (!no_data).then_some(sector)
}

/// Returns the thread that submitted the I/O to the topmost of the stacked devices, if this thread is not the
/// entry's thread.
fn cause(entry: &Entry) -> Option<u32> {
    entry.root_tid.filter(|_| entry.root_tid != entry.tid)
}

impl Assembler {
    /// Opens an entry, making room if necessary.
    #[inline]
    pub(super) fn open_entry(&mut self, entry: &Entry, sink: &mut dyn RowSink) -> io::Result<u32> {
        while self.open.len() >= self.options.open_max.max(1) {
            self.cut(self.open.oldest(), Cut::OpenLimit, sink)?;
        }
        Ok(self.insert_entry(entry))
    }

    /// Opens an entry without making room.
    #[inline]
    pub(super) fn insert_entry(&mut self, entry: &Entry) -> u32 {
        let (index, is_crowded) = self.open.insert(entry);
        if is_crowded {
            self.crowded.push(entry.key);
        }
        index
    }

    /// Emits the oldest entries of keys with too many entries. Call this only between events: while an event
    /// is handled, the entries found for it must stay open.
    #[cold]
    pub(super) fn thin_out(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        while let Some(key) = self.crowded.pop() {
            while self.open.chain(key).count() > CHAIN_MAX {
                self.cut(self.open.first(key), Cut::OpenLimit, sink)?;
            }
        }
        Ok(())
    }

    /// Returns the id of the request that this entry is or will become.
    pub(super) fn request_id_of(&mut self, index: u32) -> u64 {
        if self.open.at(index).request_id == 0 {
            self.open.at_mut(index).request_id = self.new_request_id();
        }
        self.open.at(index).request_id
    }

    /// Emits a request and closes it.
    #[inline]
    pub(super) fn give_request(
        &mut self,
        index: u32,
        completed: Option<Timestamp>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        if self.open.at(index).has(seen::REPEATED) {
            self.unite(index);
        }
        let given = self.give_request_row(index, completed, sink);
        self.open.remove(index);
        given
    }

    /// Emits the row of a request. The entry stays open.
    #[inline]
    pub(super) fn give_request_row(
        &mut self,
        index: u32,
        completed: Option<Timestamp>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let request_id = self.request_id_of(index);
        let entry = self.open.at(index);
        let was_issued = entry.issued != NEVER;
        assert!(
            !was_issued || completed.is_none_or(|completed| completed >= entry.issued),
            "a request completes after it was issued"
        );
        let row = Request {
            request_id,
            sector: sector(entry, entry.first_sector),
            flags: entry.flags,
            flags_known: entry.flags_known,
            queued: instant(entry.queued),
            inserted: instant(entry.inserted),
            issued: instant(entry.issued),
            reissued: instant(entry.reissued),
            completed,
            requeues: (entry.requeues > 0 || self.requeues_shown).then_some(entry.requeues),
            cpu: entry.cpu,
            tid: entry.tid,
            cause_tid: cause(entry),
            ioprio: entry.ioprio,
            error: completed.and(entry.error),
            ..Request::new(entry.device, entry.op, entry.issued_bytes)
        };
        sink.request(&row)
    }

    /// Emits the row of an entry that is a bio, whether or not it is part of a request. The entry stays open.
    #[inline]
    pub(super) fn give_bio(
        &self,
        index: u32,
        request_id: Option<u64>,
        completed: Option<Timestamp>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let entry = self.open.at(index);
        if !entry.has(seen::BIO) {
            return Ok(());
        }
        self.give_bio_row(entry, request_id, completed, sink)
    }

    /// Emits the row of a bio, whose entry need not be open.
    #[inline]
    pub(super) fn give_bio_row(
        &self,
        entry: &Entry,
        request_id: Option<u64>,
        completed: Option<Timestamp>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        if !self.wants_bios {
            return Ok(());
        }
        sink.bio(&Bio {
            bio_id: entry.bio_id,
            device: entry.device,
            op: entry.op,
            flags: entry.flags,
            flags_known: entry.flags_known,
            sector: sector(entry, entry.key.sector),
            bytes: entry.bytes,
            queued: entry.queued,
            completed,
            tid: entry.tid,
            cause_tid: cause(entry),
            file_id: None,
            request_id,
        })
    }

    pub(super) fn link(
        &self,
        kind: LinkKind,
        (parent_table, parent): (LinkEnd, u64),
        (child_table, child): (LinkEnd, u64),
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        if !self.wants_bios {
            return Ok(());
        }
        sink.link(&Link { kind, parent_table, parent, child_table, child })
    }

    /// Returns whether a request has been in flight longer than any completed request of its device was in
    /// flight, and longer than a device may pause.
    fn is_overdue(&self, entry: &Entry) -> bool {
        let longest = self.devices[entry.key.device as usize].service_max;
        self.latest - entry.began() > longest.max(PAUSE_MAX)
    }

    /// Emits an entry in its current state and closes it.
    pub(super) fn cut(&mut self, index: u32, why: Cut, sink: &mut dyn RowSink) -> io::Result<()> {
        assert!(index != NIL, "only open entries can be cut");
        let entry = *self.open.at(index);
        if entry.state == State::Held {
            return self.give_request(index, Some(entry.latest), sink);
        }
        if entry.state == State::Passed && !entry.has(seen::BIO) {
            self.open.remove(index);
            return Ok(());
        }
        let request = match entry.state {
            State::Flying | State::Returned => true,
            State::Waiting => entry.has(seen::REQUEST),
            State::Passed | State::Held => false,
        };
        let counter = match (why, request, entry.state) {
            (Cut::Superseded, true, State::Flying | State::Returned) => Counter::SupersededIssues,
            (Cut::Superseded, _, _) => Counter::SupersededBios,
            (_, false, State::Passed) => Counter::BiosWithoutCompletion,
            (_, false, _) => Counter::BiosWithoutRequest,
            (Cut::LostEvents, ..) => Counter::RequestsCutByLostEvents,
            (Cut::OpenLimit, ..) => Counter::RequestsBeyondOpenLimit,
            (Cut::Horizon | Cut::End, _, State::Waiting) => Counter::RequestsNeverIssued,
            (Cut::Horizon, ..) => Counter::RequestsBeyondHorizon,
            (Cut::End, ..) if self.is_overdue(&entry) => Counter::RequestsWithoutCompletion,
            (Cut::End, ..) => Counter::RequestsOpenAtEnd,
        };
        let place = || {
            format!(
                "device {}, {} at sector {}, {} bytes, begun at {} ns",
                entry.device,
                entry.op.name(),
                entry.first_sector.0,
                entry.issued_bytes.0,
                entry.order.0
            )
        };
        self.tally.note_place(counter, sink, place)?;
        if !request {
            self.give_bio(index, None, None, sink)?;
            self.open.remove(index);
            return Ok(());
        }
        if entry.state == State::Waiting {
            let request_id = self.request_id_of(index);
            self.give_bio(index, Some(request_id), None, sink)?;
            self.gather_unissued(index, sink)?;
        } else if entry.has(seen::REPEATED) && !self.devices[entry.key.device as usize].shows_end() {
            // Without completions, nothing shows whether an issue is a repeat, so each issue is emitted as a
            // request.
            self.give_first(index, None, sink)?;
            return self.cut(index, why, sink);
        }
        self.give_request(index, None, sink)
    }
}
