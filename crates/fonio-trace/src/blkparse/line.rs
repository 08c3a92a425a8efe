//! Parses one line of blkparse's default format.
//!
//! ```text
//! "%3d,%-3d %2d %8d %5d.%09lu %5u %2s %3s "  device, cpu, sequence, time, pid, action, rwbs; then by the action
//! ```
//!
//! Widths are minimum widths, so blanks separate the columns. After the columns come the fields in this
//! table. `[…]` stands for the thread's name, and `(…)`, in `-t` listings, stands for the duration of the
//! step:
//!
//! | action | file system request | command (such as `SG_IO`) |
//! |---|---|---|
//! | C R | `sector + sectors (…) [error]`, `sector (…) [error]` | `(hex) [error]` |
//! | D I Q B | `sector + sectors (…) […]`, `(…) […]` | `bytes (hex) […]` |
//! | M F G S | `sector + sectors […]`, `[…]` | the same |
//! | A | `sector + sectors <- (major,minor) sector` | |
//! | X | `sector / new […]` | |
//! | P | `[…]` | |
//! | U UT | `[…] count` | |
//! | m | the message | |

use fonio_core::{BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Sector, Timestamp, parse_rwbs};

/// The contents of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A line with an event.
    Event {
        /// The decoded event.
        event: BlockEvent,
        /// The event's sequence number on its processor.
        sequence: u32,
        /// The name of the event's thread.
        comm: Option<&'a [u8]>,
    },
    /// Text from a scheduler, or from a program that wrote to the trace's `msg` file.
    Message {
        /// The time of the message.
        time: Timestamp,
        /// The thread that wrote the message; `None` if blkparse does not know it.
        tid: Option<u32>,
        /// The text of the message.
        text: &'a [u8],
    },
    /// An action for which fonio has no event: the write plug of a zone.
    NotShown,
}

/// Returns whether the line starts with a device number, as lines of events do.
pub(super) fn begins_with_device(line: &[u8]) -> bool {
    let mut rest = Rest(line);
    rest.device().is_some() && rest.0.first() == Some(&b' ')
}

/// Parses a line; returns `None` if it is not a complete event line.
pub(super) fn parse(line: &[u8]) -> Option<Parsed<'_>> {
    let mut rest = Rest(line);
    let device = rest.device()?;
    let cpu = u32::try_from(rest.column()?).ok()?;
    // blkparse prints the sequence number as a signed number.
    let sequence = rest.signed_column()? as u32;
    let time = rest.time()?;
    let tid = u32::try_from(rest.column()?).ok()?;
    let action = rest.word()?;
    if action == b"m" {
        let text = message(rest.0);
        return Some(Parsed::Message { time, tid: (tid != 0).then_some(tid), text });
    }
    let rwbs = rest.word()?;
    if !rwbs.iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    let (mut op, flags) = parse_rwbs(rwbs);

    let mut tail = Tail::default();
    let kind = match action {
        b"C" | b"R" => {
            tail = rest.completion()?;
            if action == b"C" { EventKind::Complete } else { EventKind::Requeue }
        }
        b"D" | b"I" | b"Q" | b"B" => {
            tail = rest.request()?;
            match action {
                b"D" => EventKind::Issue,
                b"I" => EventKind::Insert,
                b"Q" => EventKind::BioQueue,
                _ => EventKind::Bounce,
            }
        }
        b"M" | b"F" | b"G" | b"S" => {
            tail = rest.request()?;
            match action {
                b"M" => EventKind::BackMerge,
                b"F" => EventKind::FrontMerge,
                b"G" => EventKind::GetRequest,
                _ => EventKind::SleepRequest,
            }
        }
        b"A" => {
            (tail.sector, tail.bytes) = rest.extent()?;
            rest.literal(b"<-")?;
            rest.literal(b"(")?;
            let from_device = rest.device()?;
            rest.literal(b")")?;
            EventKind::Remap { from_device, from_sector: Sector(rest.column()?) }
        }
        b"X" => {
            let sector = rest.column()?;
            rest.literal(b"/")?;
            let new = rest.column()?;
            tail.comm = rest.comm()?;
            // blkparse prints only the lower 32 bits of the new sector.
            let mut new_sector = sector & !0xffff_ffff | new & 0xffff_ffff;
            if new_sector < sector {
                new_sector = new_sector.saturating_add(1 << 32);
            }
            tail.sector = Sector(sector);
            tail.bytes = ByteCount::from_sectors(new_sector.saturating_sub(sector));
            EventKind::Split { new_sector: Sector(new_sector) }
        }
        b"P" => {
            tail.comm = rest.comm()?;
            EventKind::Plug
        }
        b"U" | b"UT" | b"T" => {
            let end = rest.0.iter().rposition(|byte| *byte == b']')?;
            tail.comm = Rest(&rest.0[..=end]).comm()?;
            let count = Rest(&rest.0[end + 1..]).column()?;
            EventKind::Unplug { count: u32::try_from(count).unwrap_or(u32::MAX) }
        }
        b"ZP" | b"ZU" | b"ZM" => return Some(Parsed::NotShown),
        _ => return None,
    };
    if tail.is_command {
        op = Op::Other;
    }
    let event = BlockEvent {
        time,
        kind,
        device,
        sector: tail.sector,
        bytes: tail.bytes,
        op,
        flags,
        flags_known: Flags::KNOWN_FROM_RWBS,
        cpu: Some(cpu),
        tid: Some(tid),
        ioprio: None,
        error: tail.error,
    };
    Some(Parsed::Event { event, sequence, comm: tail.comm.filter(|comm| *comm != b"(null)") })
}

/// Returns the text of a message. blkparse prints it after an `N` in the rwbs column.
fn message(rest: &[u8]) -> &[u8] {
    let text = rest.trim_ascii();
    text.strip_prefix(b"N ").unwrap_or(text).trim_ascii()
}

/// The fields of a line after the fixed columns.
#[derive(Clone, Copy, Debug, Default)]
struct Tail<'a> {
    sector: Sector,
    bytes: ByteCount,
    error: Option<i32>,
    comm: Option<&'a [u8]>,
    is_command: bool,
}

/// The part of a line that is not yet parsed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip_blanks(&mut self) {
        let blanks = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.0 = &self.0[blanks..];
    }

    /// Reads a number at the current position.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut value: u64 = 0;
        let mut digits = 0;
        for byte in self.0 {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            digits += 1;
        }
        self.0 = &self.0[digits..];
        (digits > 0).then_some(value)
    }

    /// Reads a number that comes after blanks and before a blank or the end of the line.
    fn column(&mut self) -> Option<u64> {
        self.skip_blanks();
        let value = self.number()?;
        matches!(self.0.first(), None | Some(b' ' | b')' | b']')).then_some(value)
    }

    fn signed_column(&mut self) -> Option<i64> {
        self.skip_blanks();
        let negative = self.eat(b'-');
        let value = i64::try_from(self.column()?).ok()?;
        Some(if negative { -value } else { value })
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        self.skip_blanks();
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let len = self.0.iter().take_while(|byte| **byte != b' ').count();
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        (len > 0).then_some(word)
    }

    /// Reads a device number: `major,minor`.
    fn device(&mut self) -> Option<DeviceId> {
        self.skip_blanks();
        let major = self.number()?;
        self.literal(b",")?;
        let minor = self.number()?;
        (major < 1 << 12 && minor < 1 << 20).then(|| DeviceId::new(major as u32, minor as u32))
    }

    /// Reads `seconds.nanoseconds` with nine digits of nanoseconds.
    fn time(&mut self) -> Option<Timestamp> {
        self.skip_blanks();
        let seconds = self.number()?;
        self.eat(b'.').then_some(())?;
        let before = self.0.len();
        let nanos = self.number()?;
        if before - self.0.len() != 9 {
            return None;
        }
        Some(Timestamp(seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?))
    }

    /// Reads a range of sectors: `sector + sectors`.
    fn extent(&mut self) -> Option<(Sector, ByteCount)> {
        let sector = Sector(self.column()?);
        self.literal(b"+")?;
        let sectors = self.column()?;
        Some((sector, ByteCount::from_sectors(sectors)))
    }

    /// Reads `[name]` up to the end of the line; the name may contain brackets.
    fn comm(&mut self) -> Option<Option<&'a [u8]>> {
        self.skip_blanks();
        let name = self.0.trim_ascii_end().strip_prefix(b"[")?.strip_suffix(b"]")?;
        self.0 = &[];
        Some(Some(name))
    }

    /// Reads `(…)`, if it comes next.
    fn parenthesis(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let inner = self.0.strip_prefix(b"(")?;
        let end = inner.iter().position(|byte| *byte == b')')?;
        self.0 = &inner[end + 1..];
        Some(&inner[..end])
    }

    /// Reads `sector` or `sector + sectors`, if there is one, and the blanks after it.
    fn completion(&mut self) -> Option<Tail<'a>> {
        let mut tail = Tail::default();
        self.skip_blanks();
        if self.0.first().is_some_and(u8::is_ascii_digit) {
            tail.sector = Sector(self.column()?);
            if self.literal(b"+").is_some() {
                tail.bytes = ByteCount::from_sectors(self.column()?);
            }
        } else {
            tail.is_command = true;
        }
        // Skips the duration or the command.
        self.parenthesis();
        self.literal(b"[")?;
        let inner = self.0.trim_ascii_end().strip_suffix(b"]")?;
        // The kernel stores the negative errno in 16 bits, and blkparse prints it without a sign. Very old
        // versions print the name after a requeue.
        tail.error = Rest(inner).signed_column().and_then(|error| {
            let error = i32::try_from(error).ok()?;
            Some(if error > 0x7fff { error - 0x1_0000 } else { error })
        });
        Some(tail)
    }

    /// Reads `sector + sectors [name]`, a command's `bytes [name]`, or `[name]`.
    fn request(&mut self) -> Option<Tail<'a>> {
        let mut tail = Tail::default();
        self.skip_blanks();
        if self.0.first().is_some_and(u8::is_ascii_digit) {
            let first = self.column()?;
            if self.literal(b"+").is_some() {
                tail.sector = Sector(first);
                tail.bytes = ByteCount::from_sectors(self.column()?);
            } else {
                tail.bytes = ByteCount(first);
                tail.is_command = true;
            }
        }
        self.parenthesis();
        tail.comm = self.comm()?;
        Some(tail)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use fonio_testing::cases::lines;

    use super::*;

    fn show(line: &str) -> String {
        match parse(line.as_bytes()) {
            None => "no event".to_owned(),
            Some(Parsed::NotShown) => "not shown".to_owned(),
            Some(Parsed::Message { time, tid, text }) => {
                format!("{} message {tid:?} {:?}", time.0, String::from_utf8_lossy(text))
            }
            Some(Parsed::Event { event: e, sequence, comm }) => format!(
                "{} {} #{sequence} {:?} {} {:x} {}+{} cpu {:?} tid {:?} error {:?} {:?}",
                e.time.0,
                e.device,
                e.kind,
                e.op.name(),
                e.flags.0,
                e.sector.0,
                e.bytes.0,
                e.cpu.unwrap_or(99),
                e.tid.unwrap_or(99),
                e.error,
                comm.map(String::from_utf8_lossy),
            ),
        }
    }

    #[test]
    fn lines_of_every_action() {
        let file = expect_file!["lines.txt"];
        file.assert_eq(&lines(&file.data(), show));
        assert!(parse(b"").is_none());
    }
}
