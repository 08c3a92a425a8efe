//! Reads the packets and events of one stream file.
//!
//! A packet has a header (a magic number, the number of the stream), a context (its size, the time of its beginning, the processor,
//! the number of lost events so far), and events, each with a header (its number and its time). The packet ends at its
//! `packet_size`, and its events at its `content_size`, both in bits. Only a window of a packet is in memory.

use std::io::{self, Read};
use std::sync::Arc;

use super::decode::{Bits, Failed, Known, Values};
use super::types::{Description, StreamType};

/// The first number of a packet.
const MAGIC: u64 = 0xc1fc_1fc1;
/// Number of bytes that are read at once, and the maximum size of an event.
const WINDOW_BYTES: usize = 64 * 1024;
const EVENT_BYTES_MAX: usize = 1 << 20;
/// The number of an event if the stream has only one kind of event.
const ONLY_EVENT: u64 = 0;

/// What the next step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An event: its number, its time in cycles of the clock. Its fields are in the values.
    Event {
        id: u64,
        time: u64,
    },
    /// Events were lost between these times, in cycles; their number, if it is known.
    Lost {
        count: Option<u64>,
        after: u64,
        before: u64,
    },
    /// The packet is damaged at this byte of the file; its rest was skipped.
    Damaged {
        at: u64,
        why: &'static str,
    },
    End,
}

pub(super) struct Stream {
    source: Box<dyn Read + Send>,
    window: Vec<u8>,
    /// Offset of the window's first byte in the packet, and of the packet in the file; in bytes.
    from: u64,
    packet_at: u64,
    /// The next bit of the packet, the end of its content, and of the packet; in bits. No packet is open if the last is 0.
    at: u64,
    content_bits: u64,
    packet_bits: u64,
    is_at_end: bool,
    is_broken: bool,
    kind: usize,
    pub cpu: Option<u32>,
    /// The clock, in cycles.
    clock: u64,
    discarded: Option<u64>,
    sequence: Option<u64>,
    /// The end of the packet before.
    ended: Option<u64>,
    /// A loss to report before the events of the packet.
    lost: Option<Step>,
    pub values: Values,
}

impl Stream {
    pub fn new(source: Box<dyn Read + Send>) -> Stream {
        Stream {
            source,
            window: Vec::new(),
            from: 0,
            packet_at: 0,
            at: 0,
            content_bits: 0,
            packet_bits: 0,
            is_at_end: false,
            is_broken: false,
            kind: 0,
            cpu: None,
            clock: 0,
            discarded: None,
            sequence: None,
            ended: None,
            lost: None,
            values: Values::default(),
        }
    }

    /// Returns the number of the packet's stream in the description.
    pub fn number(&self, of: &Description) -> u64 {
        of.streams.get(self.kind).map_or(0, |(number, _)| *number)
    }

    /// Reads more bytes, after dropping those before the next bit. Returns whether there are more.
    fn fill(&mut self) -> io::Result<bool> {
        let done = (self.at / 8).saturating_sub(self.from).min(self.window.len() as u64) as usize;
        self.window.drain(..done);
        self.from += done as u64;
        let before = self.window.len();
        (&mut self.source).take(WINDOW_BYTES as u64).read_to_end(&mut self.window)?;
        self.is_at_end = self.window.len() == before;
        Ok(!self.is_at_end)
    }

    /// Returns the next event or loss. `names` are the known fields by the numbers of their names.
    pub fn step(&mut self, of: &Description, names: &[Option<Known>]) -> io::Result<Step> {
        loop {
            if let Some(lost) = self.lost.take() {
                return Ok(lost);
            }
            if self.is_broken {
                return Ok(Step::End);
            }
            if self.packet_bits == 0 {
                if let Some(step) = self.packet(of, names)? {
                    return Ok(step);
                }
                continue;
            }
            if self.at >= self.content_bits {
                self.skip_packet()?;
                continue;
            }
            // Without sizes, the packet ends with the file.
            let have = self.from + self.window.len() as u64;
            if self.content_bits == u64::MAX && self.at / 8 >= have && !self.fill()? {
                self.is_broken = true;
                continue;
            }
            return self.event(of, names);
        }
    }

    /// Skips the rest of the packet.
    fn skip_packet(&mut self) -> io::Result<()> {
        let end = self.packet_bits / 8;
        let have = self.from + self.window.len() as u64;
        if end <= have {
            self.window.drain(..(end - self.from.min(end)) as usize);
        } else {
            self.window.clear();
            // A file can be shorter than its last packet says.
            io::copy(&mut (&mut self.source).take(end - have), &mut io::sink())?;
        }
        self.packet_at += end;
        (self.from, self.at, self.packet_bits, self.content_bits) = (0, 0, 0, 0);
        Ok(())
    }

    /// Decodes with `decode`, which is called again with more bytes as long as it needs them.
    fn decode<T>(
        &mut self,
        decode: impl Fn(&mut Bits<'_>, &mut Values) -> Result<T, Failed>,
        end: u64,
    ) -> io::Result<Result<T, Failed>> {
        loop {
            let mut bits = Bits::new(&self.window, self.from, self.at, end);
            self.values.clear(self.at);
            match decode(&mut bits, &mut self.values) {
                Err(Failed::Short) if self.window.len() < EVENT_BYTES_MAX => {
                    if !self.fill()? {
                        return Ok(Err(Failed::Short));
                    }
                }
                Ok(found) => {
                    self.at = bits.at;
                    return Ok(Ok(found));
                }
                Err(failed) => return Ok(Err(failed)),
            }
        }
    }

    fn damaged(&mut self, why: &'static str) -> io::Result<Step> {
        let at = self.packet_at + self.at / 8;
        if self.packet_bits == 0 {
            self.is_broken = true;
        } else {
            self.skip_packet()?;
        }
        Ok(Step::Damaged { at, why })
    }

    /// Reads the header and context of the next packet.
    fn packet(&mut self, of: &Description, names: &[Option<Known>]) -> io::Result<Option<Step>> {
        if self.window.is_empty() && !self.fill()? {
            self.is_broken = true;
            return Ok(Some(Step::End));
        }
        let header = of.packet_header.clone();
        let found = self.decode(
            |bits, values| match &header {
                Some(header) => bits.field(None, header, names, values),
                None => Ok(()),
            },
            u64::MAX,
        )?;
        if let Err(failed) = found {
            let why = match failed {
                Failed::Short => "the file ends within a packet",
                Failed::Damaged => "no packet begins here",
            };
            return self.damaged(why).map(Some);
        }
        if self.values.get(Known::Magic).is_some_and(|magic| magic & 0xffff_ffff != MAGIC) {
            return self.damaged("no packet begins here").map(Some);
        }
        let id = self.values.get(Known::StreamId);
        let kind = match id {
            Some(id) => of.streams.iter().position(|(known, _)| *known == id),
            None => (!of.streams.is_empty()).then_some(0),
        };
        let Some(kind) = kind else {
            return self.damaged("the description lacks the packet's stream").map(Some);
        };
        self.kind = kind;
        let context = of.streams[kind].1.packet_context.clone();
        let found = self.decode(
            |bits, values| match &context {
                Some(context) => bits.field(None, context, names, values),
                None => Ok(()),
            },
            u64::MAX,
        )?;
        if found.is_err() {
            return self.damaged("the packet's context cannot be read").map(Some);
        }
        // Without sizes, the rest of the file is one packet.
        let size = self.values.get(Known::PacketSize);
        let content = self.values.get(Known::ContentSize).or(size).unwrap_or(u64::MAX);
        let size = size.unwrap_or(content);
        if size < self.at
            || content < self.at
            || content > size
            || (size != u64::MAX && !size.is_multiple_of(8))
        {
            return self.damaged("the packet's size cannot be right").map(Some);
        }
        (self.packet_bits, self.content_bits) = (size, content);
        self.cpu = self.values.get(Known::Cpu).and_then(|cpu| u32::try_from(cpu).ok());
        self.times_of_packet();
        Ok(None)
    }

    /// Sets the clock, and finds what was lost before the packet.
    fn times_of_packet(&mut self) {
        let (begin, end) = (self.values.get(Known::Begin), self.values.get(Known::End));
        let before = self.ended.or(begin).unwrap_or(self.clock);
        if let Some(begin) = begin {
            self.clock = begin;
        }
        let until = end.or(begin).unwrap_or(self.clock).max(before);
        let discarded = self.values.get(Known::Discarded);
        // The counter has 32 or 64 bits, and grows.
        let more =
            discarded.map(|now| now.saturating_sub(self.discarded.unwrap_or(0))).filter(|more| *more > 0);
        if let Some(count) = more {
            self.lost = Some(Step::Lost { count: Some(count), after: before, before: until });
        }
        let sequence = self.values.get(Known::Sequence);
        let is_next = match (self.sequence, sequence) {
            (Some(before), Some(now)) => now == before.wrapping_add(1),
            _ => true,
        };
        if !is_next {
            let until = begin.unwrap_or(until).max(before);
            self.lost = Some(Step::Lost { count: None, after: before, before: until });
        }
        self.discarded = discarded.or(self.discarded);
        self.sequence = sequence;
        self.ended = end.or(self.ended);
    }

    fn event(&mut self, of: &Description, names: &[Option<Known>]) -> io::Result<Step> {
        let began = self.at;
        let (stream_id, kind) = &of.streams[self.kind];
        let (stream_id, kind): (u64, StreamType) = (*stream_id, kind.clone());
        let end = self.content_bits;
        let found = self.decode(
            |bits, values| {
                if let Some(header) = &kind.event_header {
                    bits.field(None, header, names, values)?;
                }
                let id = values.get(Known::Id).unwrap_or(ONLY_EVENT);
                let time = values.clock;
                if let Some(context) = &kind.event_context {
                    bits.field(None, context, names, values)?;
                }
                let Some(event) = of.events.get(&(stream_id, id)) else { return Ok((id, time, false)) };
                for part in [&event.context, &event.fields].into_iter().flatten() {
                    let part: &Arc<_> = part;
                    bits.field(None, part, names, values)?;
                }
                Ok((id, time, true))
            },
            end,
        )?;
        match found {
            Ok((_, _, false)) => {
                self.at = began;
                self.damaged("the description lacks the event")
            }
            Ok((id, time, true)) => {
                if self.at == began {
                    return self.damaged("an event has no bits");
                }
                if let Some((value, bits)) = time {
                    self.tick(value, bits);
                }
                Ok(Step::Event { id, time: self.clock })
            }
            Err(Failed::Short) if self.is_at_end => self.damaged("the file ends within a packet"),
            Err(_) => self.damaged("an event cannot be read"),
        }
    }

    /// Sets the clock by the lowest bits of its value.
    fn tick(&mut self, value: u64, bits: u32) {
        if bits >= 64 {
            self.clock = value;
            return;
        }
        let mask = (1 << bits) - 1;
        let before = self.clock & mask;
        let base = self.clock - before;
        let value = value & mask;
        // A lower value is after the next overflow.
        self.clock = if value < before { base.saturating_add(mask).saturating_add(1) } else { base }
            .saturating_add(value);
    }
}
