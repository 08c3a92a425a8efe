//! Reads one input: buffering, framing of records, and recovery from broken framing.
//!
//! A record is valid if it starts with a magic, and its payload is followed by another magic or the end of
//! the input. If a record is not valid, the payload's length or the next header is damaged. The reader then
//! looks for the next magic with plausible fields, first within the payload.

use std::io::{self, Read};

use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Mark, Severity, Thread, Timestamp};

use super::ahead::Ahead;
use super::record::{
    HEADER_MAX, Header, Layout, NoEvent, PDU_MAX, TC_NOTIFY, TN_MESSAGE, TN_PROCESS, TN_TIMESTAMP, u32_at,
    u64_at,
};
use super::sequence::{Sequences, Verdict};
use super::window::Window;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;

/// The buffer size of each input; a trace has one input per processor. Larger buffers would leave less of the
/// second-level cache for other data.
const BUFFER: usize = 128 * 1024;
/// Number of bytes that is always sufficient for a complete record and the next header.
const WHOLE: usize = HEADER_MAX + PDU_MAX + HEADER_MAX;
/// Maximum number of rows other than events in a batch.
const ROWS_MAX: usize = 4096;

/// The output of streams other than events.
#[derive(Default)]
pub(super) struct OtherOutput {
    pub threads: Vec<Thread>,
    pub marks: Vec<Mark>,
    pub lost: Vec<fonio_core::LostEvents>,
    pub complaints: Complaints,
    names: SeenThreads,
}

impl OtherOutput {
    pub fn is_full(&self) -> bool {
        self.threads.len() + self.marks.len() + self.lost.len() >= ROWS_MAX
    }
}

/// The next record: the start of its payload and its end, relative to the record.
#[derive(Clone, Copy)]
struct Head {
    pdu: usize,
    len: usize,
}

/// A note whose time can be checked only when the next event is known.
struct HeldNote {
    tid: u32,
    time: Timestamp,
    comm: [u8; 16],
}

/// An input and the state of reading it.
pub(super) struct Stream {
    pub name: String,
    /// The processor in the name of the file, and the number of records in the file that are from other
    /// processors.
    file_cpu: Option<u32>,
    other_cpu: u64,
    input: Box<dyn Read + Send>,
    buf: Vec<u8>,
    pos: usize,
    end: usize,
    /// The file offset of the buffer's first byte.
    base: u64,
    ended: bool,
    word: u32,
    layout: Layout,
    head: Option<Head>,
    /// Records before `pos` that were checked and not used yet. While there are any, the buffer is not moved.
    ahead: Ahead,
    records: u64,
    /// The bitwise OR of all actions seen.
    pub actions: u64,
    sequences: Sequences,
    held_notes: Vec<HeldNote>,
    /// Wall-clock time and trace time of the first clock note.
    clock_note: Option<(i64, u64)>,
    /// Wall-clock time at trace time 0, from the first clock note consistent with the events.
    pub unix_ns_at_zero: Option<i64>,
    /// Whether times are relative to the first event, as in the output of `blkparse -d`.
    pub rebased: bool,
    any_event: bool,
}

impl Stream {
    pub fn new(input: Input) -> Stream {
        let file_cpu = input.name.rsplit_once(".blktrace.").and_then(|(_, cpu)| cpu.parse().ok());
        Stream {
            name: input.name,
            file_cpu,
            other_cpu: 0,
            input: input.bytes,
            buf: Vec::new(),
            pos: 0,
            end: 0,
            base: 0,
            ended: false,
            word: 0,
            layout: Layout { big_endian: false, wide: false },
            head: None,
            ahead: Ahead::default(),
            records: 0,
            actions: 0,
            sequences: Sequences::default(),
            held_notes: Vec::new(),
            clock_note: None,
            unix_ns_at_zero: None,
            rebased: false,
            any_event: false,
        }
    }

    /// Returns the number of records read, including notes.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of bytes read.
    pub fn bytes(&self) -> u64 {
        self.base + self.end as u64
    }

    /// Finds the next event and returns its time or the time of the event after it, whichever is earlier.
    /// Therefore, a single damaged time far in the future does not delay all other events of the input.
    /// Returns `u64::MAX` at the end of the input.
    pub fn advance(&mut self, others: &mut OtherOutput) -> io::Result<u64> {
        if let Some((key, _)) = self.ahead.next() {
            return Ok(key);
        }
        match (self.layout.wide, self.layout.big_endian) {
            (false, false) => self.advance_as::<false, false>(others),
            (false, true) => self.advance_as::<false, true>(others),
            (true, false) => self.advance_as::<true, false>(others),
            (true, true) => self.advance_as::<true, true>(others),
        }
    }

    /// Does the work of [`advance`](Stream::advance) if the previous record has this layout, and all records
    /// that were checked ahead have been used.
    fn advance_as<const WIDE: bool, const BIG: bool>(&mut self, others: &mut OtherOutput) -> io::Result<u64> {
        self.head = None;
        let buffer = &self.buf[..self.end];
        let checked = self.ahead.check::<WIDE, BIG>(buffer, self.pos, self.word, &mut self.sequences);
        if let Some((key, place)) = self.ahead.next() {
            let cpu = Header::read_as::<WIDE, BIG>(&self.buf[place..]).map(|header| header.cpu);
            if self.file_cpu.is_some() && cpu != self.file_cpu {
                self.other_cpu += checked.records;
            }
            self.actions |= checked.actions;
            self.records += checked.records;
            self.pos += checked.bytes;
            return Ok(key);
        }
        let bytes = &self.buf[self.pos..self.end];
        if let Some(header) = Header::read_as::<WIDE, BIG>(bytes)
            && u32_at::<false>(bytes, 0) == self.word
            && !header.is_note()
        {
            let pdu = if WIDE { 64 } else { 48 };
            let len = pdu + usize::from(header.pdu_len);
            if let Some(next) = bytes.get(len..).and_then(|next| next.first_chunk::<16>())
                && u32_at::<false>(next, 0) == self.word
            {
                self.head = Some(Head { pdu, len });
                return Ok(header.time.0.min(u64_at::<BIG>(next, 8)).min(u64::MAX - 1));
            }
        }
        self.advance_carefully(others)
    }

    /// Takes events, starting with the event that [`advance`](Stream::advance) found, until an event is later
    /// than `until` or the window is full. Returns the last result of `advance`.
    pub fn take(
        &mut self,
        until: u64,
        mut key: u64,
        window: &mut Window,
        others: &mut OtherOutput,
    ) -> io::Result<u64> {
        while key <= until && !window.is_full() && (self.head.is_some() || self.ahead.next().is_some()) {
            key = match (self.layout.wide, self.layout.big_endian) {
                (false, false) => self.take_as::<false, false>(until, window, others)?,
                (false, true) => self.take_as::<false, true>(until, window, others)?,
                (true, false) => self.take_as::<true, false>(until, window, others)?,
                (true, true) => self.take_as::<true, true>(until, window, others)?,
            };
            if others.is_full() {
                break;
            }
        }
        Ok(key)
    }

    /// Takes the next record, and the records that were checked ahead, as [`take`](Stream::take) does. All of
    /// them have the same layout.
    #[inline(always)]
    fn take_as<const WIDE: bool, const BIG: bool>(
        &mut self,
        until: u64,
        window: &mut Window,
        others: &mut OtherOutput,
    ) -> io::Result<u64> {
        while let Some((key, place)) = self.ahead.next() {
            if key > until || window.is_full() {
                return Ok(key);
            }
            let Some(header) = Header::read_as::<WIDE, BIG>(&self.buf[place..]) else { break };
            window.push_with(header.time.0, || header.plain_event());
            self.ahead.advance();
        }
        if let Some(head) = self.head.take() {
            self.take_one::<WIDE, BIG>(head, window, others);
        }
        self.advance_as::<WIDE, BIG>(others)
    }

    /// Takes a record that was not checked ahead.
    #[inline(never)]
    fn take_one<const WIDE: bool, const BIG: bool>(
        &mut self,
        Head { pdu, len }: Head,
        window: &mut Window,
        others: &mut OtherOutput,
    ) {
        let header = Header::read_as::<WIDE, BIG>(&self.buf[self.pos..self.end]);
        let header = header.expect("the header of the next record is in the buffer");
        if header.is_plain() {
            window.push_with(header.time.0, || header.plain_event());
        } else {
            self.take_with_payload(&header, pdu, len, window, others);
        }
        self.actions |= header.action;
        match self.sequences.see(header.device, header.cpu, header.sequence, header.time) {
            Verdict::Fine => {}
            verdict => self.missing(verdict, header.cpu, others),
        }
        if self.file_cpu.is_some_and(|cpu| cpu != header.cpu) {
            self.other_cpu += 1;
        }
        self.records += 1;
        self.pos += len;
    }

    #[inline(never)]
    fn take_with_payload(
        &mut self,
        header: &Header,
        pdu: usize,
        len: usize,
        window: &mut Window,
        others: &mut OtherOutput,
    ) {
        match header.event(&self.buf[self.pos + pdu..self.pos + len]) {
            Ok(event) => window.push(event),
            Err(why) => self.no_event(why, header, others),
        }
    }

    #[cold]
    fn missing(&mut self, verdict: Verdict, cpu: u32, others: &mut OtherOutput) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Lost(lost) => others.lost.push(lost),
            Verdict::Filtered => {
                others.complaints.add(Severity::Note, "filtered-trace", place(&self.name, None, None), || {
                    format!(
                        "The numbers of processor {cpu}'s records have gaps everywhere, as in a filtered trace; gaps no longer count as lost events."
                    )
                });
            }
        }
    }

    #[cold]
    fn no_event(&mut self, why: NoEvent, header: &Header, others: &mut OtherOutput) {
        let place = place(&self.name, Some(self.records + 1), Some(self.offset()));
        match why {
            NoEvent::NotShown => {}
            NoEvent::UnknownAction => {
                others.complaints.add(Severity::Warning, "unknown-action", place, || {
                    format!("The action {:#x} is unknown; the record was skipped.", header.action)
                });
            }
            NoEvent::ShortPayload => {
                others.complaints.add(Severity::Warning, "short-payload", place, || {
                    format!(
                        "The payload of {} bytes is too short for the action {:#x}; the record was skipped.",
                        header.pdu_len, header.action
                    )
                });
            }
        }
    }

    /// Does the work of [`advance`](Stream::advance) in the rare cases: notes, the end of the buffer, and
    /// damage.
    #[cold]
    fn advance_carefully(&mut self, others: &mut OtherOutput) -> io::Result<u64> {
        self.head = None;
        loop {
            if others.is_full() {
                // The next batch continues at this position.
                return Ok(0);
            }
            self.fill(WHOLE)?;
            let bytes = &self.buf[self.pos..self.end];
            if bytes.is_empty() {
                return Ok(u64::MAX);
            }
            let Some(layout) = word(bytes).and_then(Layout::of) else {
                let from = self.offset();
                self.resynchronise(others)?;
                assert!(self.offset() > from, "bytes that do not start a record must be skipped");
                continue;
            };
            let pdu = layout.header_len();
            let Some(header) = Header::read(layout, bytes) else {
                self.truncated(bytes.len(), pdu, others);
                continue;
            };
            let mut len = pdu + usize::from(header.pdu_len);
            if !begins_or_ends(bytes, len) {
                // The next header or this record's length is damaged, or the input ends within the payload.
                if let Some(found) = next_record(bytes, pdu, len.min(bytes.len()), self.ended) {
                    let place = place(&self.name, Some(self.records + 1), Some(self.offset()));
                    others.complaints.add(Severity::Warning, "damaged-length", place, || {
                        format!(
                            "The record states a payload of {} bytes, but the next record begins after {} bytes; the payload was left out.",
                            header.pdu_len,
                            found - pdu
                        )
                    });
                    len = found;
                } else if len > bytes.len() {
                    let here = bytes.len();
                    let whole = len;
                    len = here;
                    self.say_truncated(here, whole, others);
                }
            }
            self.word = word(&self.buf[self.pos..]).unwrap_or_default();
            self.layout = layout;
            if header.is_note() {
                self.note(layout, header, pdu, len, others);
                self.records += 1;
                self.pos += len;
                continue;
            }
            self.first_event_after_notes(header.time.0, others);
            self.head = Some(Head { pdu, len });
            return Ok(header.time.0.min(u64::MAX - 1));
        }
    }

    fn note(&mut self, layout: Layout, header: Header, pdu: usize, len: usize, others: &mut OtherOutput) {
        let payload = header.payload(&self.buf[self.pos + pdu..self.pos + len]);
        match header.action & 0xff {
            TN_PROCESS => {
                let mut comm = [0; 16];
                let len = payload.len().min(16);
                comm[..len].copy_from_slice(&payload[..len]);
                self.held_notes.push(HeldNote { tid: header.pid, time: header.time, comm });
                if self.held_notes.len() >= ROWS_MAX {
                    self.first_event_after_notes(header.time.0, others);
                }
            }
            TN_TIMESTAMP if payload.len() >= 8 => {
                let (seconds, nanos) = if layout.big_endian {
                    (u32_at::<true>(payload, 0), u32_at::<true>(payload, 4))
                } else {
                    (u32_at::<false>(payload, 0), u32_at::<false>(payload, 4))
                };
                let unix_ns = i64::from(seconds) * 1_000_000_000 + i64::from(nanos);
                if self.clock_note.is_none() {
                    self.clock_note = Some((unix_ns, header.time.0));
                }
            }
            TN_MESSAGE => {
                let text = payload.strip_suffix(b"\0").unwrap_or(payload);
                let name = String::from_utf8_lossy(text).trim_end().to_owned();
                others.marks.push(Mark {
                    at: header.time,
                    until: None,
                    name,
                    tid: (header.pid != 0).then_some(header.pid),
                });
            }
            _ => {}
        }
    }

    /// blkparse makes event times relative to the first event, but does not change the times of thread and
    /// clock notes. A note is written directly before the event that caused it. Therefore, if a note has a
    /// later time than the next event, blkparse made the event's time relative.
    fn first_event_after_notes(&mut self, time: u64, others: &mut OtherOutput) {
        for note in self.held_notes.drain(..) {
            let comm = note.comm.split(|byte| *byte == 0).next().filter(|comm| !comm.is_empty());
            if comm.is_some() {
                let from = note.time.min(Timestamp(time));
                others.threads.extend(others.names.seen(note.tid, None, comm, NameOrigin::Event, from));
            }
        }
        if !self.any_event {
            self.any_event = true;
            self.rebased = time == 0;
        }
        if let Some((unix_ns, at)) = self.clock_note
            && self.unix_ns_at_zero.is_none()
        {
            if at <= time {
                self.unix_ns_at_zero = i64::try_from(at).ok().and_then(|at| unix_ns.checked_sub(at));
            } else {
                self.rebased = true;
            }
        }
    }

    /// Skips to the next record.
    fn resynchronise(&mut self, others: &mut OtherOutput) -> io::Result<()> {
        let from = self.offset();
        let foreign = word(&self.buf[self.pos..self.end]).and_then(Layout::foreign_version);
        let found = loop {
            // The record after a candidate shows whether the candidate is valid, so the buffer must contain
            // both records and one more byte.
            self.fill(WHOLE + 1)?;
            let bytes = &self.buf[self.pos..self.end];
            let look = if self.ended { bytes.len() } else { bytes.len() - WHOLE };
            if let Some(found) = next_record(bytes, 0, look, self.ended) {
                self.pos += found;
                break true;
            }
            self.pos += look;
            if self.ended {
                break false;
            }
        };
        let skipped = self.offset() - from;
        let to = if found { "to the next one" } else { "to the end" };
        let place = place(&self.name, Some(self.records + 1), Some(from));
        match foreign {
            Some(version) => others.complaints.add(Severity::Warning, "unknown-version", place, || {
                format!("A record has version {version}, neither 7 nor 8: skipped {skipped} bytes {to}.")
            }),
            None => others.complaints.add(Severity::Warning, "damaged-bytes", place, || {
                format!("No record begins here: skipped {skipped} bytes {to}.")
            }),
        }
        Ok(())
    }

    fn truncated(&mut self, here: usize, whole: usize, others: &mut OtherOutput) {
        self.say_truncated(here, whole, others);
        self.pos = self.end;
    }

    fn say_truncated(&self, here: usize, whole: usize, others: &mut OtherOutput) {
        let place = place(&self.name, Some(self.records + 1), Some(self.offset()));
        others.complaints.add(Severity::Warning, "truncated-record", place, || {
            format!("The input ends after {here} of the last record's {whole} bytes.")
        });
    }

    /// Returns the file offset of the next byte.
    fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// Reads until `wanted` bytes (at most [`BUFFER`]) are buffered, or until the input ends.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.ended || self.end - self.pos >= wanted {
            return Ok(());
        }
        if self.buf.is_empty() {
            self.buf = vec![0; BUFFER];
        }
        self.buf.copy_within(self.pos..self.end, 0);
        self.base += self.pos as u64;
        self.end -= self.pos;
        self.pos = 0;
        while self.end < self.buf.len() {
            match self.input.read(&mut self.buf[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports the remaining diagnostics at the end of the input.
    pub fn finish(&mut self, others: &mut OtherOutput) {
        self.first_event_after_notes(u64::MAX, others);
        let OtherOutput { lost, complaints, .. } = others;
        self.sequences.finish(|gap| lost.push(gap));
        if self.other_cpu > 0 {
            let records = self.other_cpu;
            complaints.add(
                Severity::Note,
                "cpu-differs-from-file-name",
                place(&self.name, None, None),
                || {
                    format!(
                        "{records} records belong to another processor than the one in the file's name; all were read."
                    )
                },
            );
        }
        if self.records == 0 && self.bytes() > 0 {
            complaints.add(Severity::Error, "no-records", place(&self.name, None, Some(0)), || {
                "No blktrace record of version 7 or 8 was found.".to_owned()
            });
        }
        self.buf = Vec::new();
        (self.pos, self.base, self.end) = (0, self.bytes(), 0);
    }
}

fn place(file: &str, record: Option<u64>, offset: Option<u64>) -> InputPlace<'_> {
    InputPlace { file, record, offset }
}

#[inline]
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|raw| u32::from_le_bytes(*raw))
}

/// Returns whether a record begins at `at`, or the input ends there or within the magic. `bytes` is longer
/// than `at`, except at the end of the input.
fn begins_or_ends(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at..) {
        Some(next) => word(next).is_none_or(|w| Layout::of(w).is_some()),
        None => false,
    }
}

/// Looks for a record that starts in `from..to`. A record must end within `bytes`, and another record must
/// follow it, except at the end of the input.
pub(super) fn next_record(bytes: &[u8], from: usize, to: usize, ended: bool) -> Option<usize> {
    // The middle bytes of the magic are "tae" in one byte order and "eat" in the other.
    let upper = (to + 4).min(bytes.len());
    memchr::memchr_iter(b'a', bytes.get(from..upper)?).map(|at| from + at).find_map(|a| {
        let begins = match (a.checked_sub(1).map(|b| bytes[b]), bytes.get(a + 1)) {
            (Some(b't'), Some(b'e')) => a.checked_sub(2)?,
            (Some(b'e'), Some(b't')) => a - 1,
            _ => return None,
        };
        if begins < from || begins >= to {
            return None;
        }
        let candidate = &bytes[begins..];
        let layout = Layout::of(word(candidate)?)?;
        let header = Header::read(layout, candidate)?;
        let len = layout.header_len() + usize::from(header.pdu_len);
        let follows = candidate.get(len..)?;
        let followed = match word(follows) {
            Some(w) => Layout::of(w).is_some(),
            None => ended,
        };
        (header.is_plausible() && followed).then_some(begins)
    })
}

const _: () = assert!(WHOLE < BUFFER);

// The fast path checks only the category bit of notes.
const _: () = assert!(TC_NOTIFY == 1 << 26);
