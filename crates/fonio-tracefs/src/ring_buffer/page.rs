//! Decodes one page of the ring buffer and its records.
//!
//! ```text
//! page:    u64 timestamp | long commit | records … | (long count of lost events, where bit 30 of commit is set)
//! record:  5 bits type_len, 27 bits time_delta (the lowest bits first on little-endian machines), then
//!   1…28   type_len × 4 bytes of data
//!   0      u32 length of itself and the data, then the data
//!   29     padding: u32 length of itself and the discarded data; with time_delta 0 the rest of the page is empty
//!   30     u32 high bits of the time delta
//!   31     u32 high bits of an absolute timestamp of 59 bits; the 5 bits above come from the page's timestamp
//! ```

use fonio_core::Timestamp;

use super::ByteOrder;
use super::format::{Field, FormatError, parse_fields};

/// Events were lost before this page (`RB_MISSED_EVENTS`).
const MISSED_EVENTS: u64 = 1 << 31;
/// The number of lost events is stored after the records (`RB_MISSED_STORED`).
const MISSED_STORED: u64 = 1 << 30;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Number of bits of `time_delta`.
const TIME_SHIFT: u32 = 27;
/// The highest bits of a timestamp (`TS_MSB`), which an absolute timestamp does not store.
const ABSOLUTE_LACKS: u64 = 0xf8 << 56;

/// The layout of a page according to `events/header_page`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    order: ByteOrder,
    timestamp_at: usize,
    commit_at: usize,
    /// Size of the machine's `long` in bytes.
    long_bytes: usize,
    data_at: usize,
    data_bytes: usize,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The timestamp to which the first record's time delta is added.
    pub time: Timestamp,
    /// `Some` if events were lost since the previous page. The value is the number of lost events, or
    /// `None` if the kernel did not store this number.
    pub lost: Option<Option<u64>>,
    /// Used bytes of the page: header, records, and lost-event count.
    pub used_bytes: usize,
}

/// One record of a page: the time and the bytes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'p> {
    /// Time of the event.
    pub time: Timestamp,
    /// The event's bytes, beginning with `common_type`.
    pub data: &'p [u8],
}

/// The reason why a page, or the rest of it, is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The page is shorter than its header or than its stated size.
    #[error("the page has {have} bytes but needs {need}")]
    Truncated {
        /// Size of the page in bytes.
        have: usize,
        /// Minimum size of the page in bytes.
        need: usize,
    },
    /// A record reaches beyond the end of the used bytes.
    #[error("the record at byte {offset} of the page reaches beyond the {end} used bytes")]
    Record {
        /// Offset of the record in the page, in bytes.
        offset: usize,
        /// End of the page's used bytes.
        end: usize,
    },
}

impl PageLayout {
    /// Parses the text of `events/header_page`. Fails if a field is missing, or has an impossible size or
    /// offset.
    pub fn parse(header_page: &str, order: ByteOrder) -> Result<PageLayout, FormatError> {
        let fields = parse_fields(header_page)?;
        let find = |what: &'static str| {
            fields.iter().find(|field| field.name == what).ok_or(FormatError::Missing { what })
        };
        let (timestamp, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let wrong = |f: &Field| FormatError::Field { field: f.name.clone(), offset: f.offset, size: f.size };
        if timestamp.size != 8 || timestamp.offset > 64 {
            return Err(wrong(timestamp));
        }
        if !matches!(commit.size, 4 | 8) || commit.offset > 64 {
            return Err(wrong(commit));
        }
        // Since Linux 6.8, sub-buffers can be larger than a page; the kernel refuses more than 64 pages of 64 KiB.
        let header_end = (timestamp.offset + 8).max(commit.offset + commit.size);
        if data.offset < header_end || data.offset > 128 || !(64..=4 << 20).contains(&data.size) {
            return Err(wrong(data));
        }
        Ok(PageLayout {
            order,
            timestamp_at: timestamp.offset,
            commit_at: commit.offset,
            long_bytes: commit.size,
            data_at: data.offset,
            data_bytes: data.size,
        })
    }

    /// Returns the size of a complete page.
    pub fn page_bytes(&self) -> usize {
        self.data_at + self.data_bytes
    }

    /// Returns the byte order of the traced machine.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Reads a page's header and returns a cursor before its first record. Bytes after `used_bytes` may be
    /// missing. Fails if the page is shorter than its header or than its stated size.
    pub fn open(&self, page: &[u8]) -> Result<(PageHeader, Cursor), Damage> {
        let truncated = |need| Damage::Truncated { have: page.len(), need };
        let time = self.order.unsigned(page, self.timestamp_at, 8).ok_or(truncated(self.data_at))?;
        let commit =
            self.order.unsigned(page, self.commit_at, self.long_bytes).ok_or(truncated(self.data_at))?;
        // The flags are in the low 32 bits, even if `commit` has 64 bits.
        let records = (commit & (MISSED_STORED - 1)) as usize;
        let end = self.data_at + records;
        if end > page.len() {
            return Err(truncated(end));
        }
        let missed = commit & MISSED_EVENTS != 0;
        let stored = missed && commit & MISSED_STORED != 0;
        let count = if stored { self.order.unsigned(page, end, self.long_bytes) } else { None };
        if stored && count.is_none() {
            return Err(truncated(end + self.long_bytes));
        }
        let used_bytes = end + if stored { self.long_bytes } else { 0 };
        let header = PageHeader { time: Timestamp(time), lost: missed.then_some(count), used_bytes };
        Ok((header, Cursor { offset: self.data_at, end, time, order: self.order }))
    }
}

/// A position in a page's records.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    offset: usize,
    end: usize,
    time: u64,
    order: ByteOrder,
}

impl Cursor {
    /// Returns the next record; `None` at the end of the page. `page` must be the cursor's page. If a
    /// record is damaged, moves the cursor to the end of the page, because later records cannot be found.
    pub fn next<'p>(&mut self, page: &'p [u8]) -> Option<Result<Record<'p>, Damage>> {
        // Guards against a caller that passes a shorter page by mistake.
        let end = self.end.min(page.len());
        while self.offset < end {
            let begin = self.offset;
            let step = self.step(&page[..end]);
            assert!(step.is_none() || self.offset > begin, "each step must advance in the page");
            match step {
                Some(Step::Record { from, to }) => {
                    return Some(Ok(Record { time: Timestamp(self.time), data: &page[from..to] }));
                }
                Some(Step::Skipped) => {}
                None => {
                    self.offset = self.end;
                    return Some(Err(Damage::Record { offset: begin, end }));
                }
            }
        }
        None
    }

    fn step(&mut self, page: &[u8]) -> Option<Step> {
        let header = self.order.u32(page, self.offset)?;
        // This word is a C bit field. Its first member is in the lowest bits on little-endian machines, and
        // in the highest bits on big-endian machines.
        let (type_len, delta) = match self.order {
            ByteOrder::Little => (header & 0x1f, header >> 5),
            ByteOrder::Big => (header >> TIME_SHIFT, header & ((1 << TIME_SHIFT) - 1)),
        };
        let data_at = self.offset + 4;
        if type_len == TYPE_PADDING && delta == 0 {
            self.offset = self.end;
            return Some(Step::Skipped);
        }
        if (1..TYPE_PADDING).contains(&type_len) {
            let to = data_at + 4 * type_len as usize;
            page.get(data_at..to)?;
            self.time = self.time.wrapping_add(u64::from(delta));
            self.offset = to;
            return Some(Step::Record { from: data_at, to });
        }
        let word = self.order.u32(page, data_at)?;
        match type_len {
            TYPE_TIME_EXTEND => {
                let delta = u64::from(word) << TIME_SHIFT | u64::from(delta);
                self.time = self.time.wrapping_add(delta);
                self.offset = data_at + 4;
                Some(Step::Skipped)
            }
            TYPE_TIME_STAMP => {
                let mut time = u64::from(word) << TIME_SHIFT | u64::from(delta);
                let above = self.time & ABSOLUTE_LACKS;
                if above != 0 {
                    time = (time & !ABSOLUTE_LACKS) | above;
                    if time < self.time {
                        time = time.wrapping_add(1 << 59);
                    }
                }
                self.time = time;
                self.offset = data_at + 4;
                Some(Step::Skipped)
            }
            _ => {
                // The record is padding, or data with a length that does not fit into `type_len`. The length
                // includes the 4 bytes of the length field. On machines with 8-byte alignment, the offset of
                // the next record is a multiple of 4 even if the length of the data is not.
                let length = word as usize;
                if length < 4 {
                    return None;
                }
                let to = data_at.checked_add(length)?;
                page.get(data_at..to)?;
                let next = data_at.checked_add(length.checked_next_multiple_of(4)?)?;
                self.time = self.time.wrapping_add(u64::from(delta));
                self.offset = next;
                Some(if type_len == TYPE_PADDING {
                    Step::Skipped
                } else {
                    Step::Record { from: data_at + 4, to }
                })
            }
        }
    }
}

enum Step {
    Record { from: usize, to: usize },
    Skipped,
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) const HEADER_64: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    const HEADER_32: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";

    /// Writes pages as the kernel does, to test the decoder with them.
    struct PageWriter {
        order: ByteOrder,
        long: usize,
        time: u64,
        start: u64,
        data: Vec<u8>,
    }

    impl PageWriter {
        fn new(order: ByteOrder, long: usize, start: u64) -> PageWriter {
            PageWriter { order, long, time: start, start, data: Vec::new() }
        }
        fn word(&mut self, value: u32) {
            let bytes = match self.order {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            };
            self.data.extend(bytes);
        }
        fn head(&mut self, type_len: u32, delta: u32) {
            self.word(match self.order {
                ByteOrder::Little => type_len | delta << 5,
                ByteOrder::Big => type_len << 27 | delta,
            });
        }
        fn record(&mut self, time: u64, data: &[u8], absolute: bool) {
            let mut delta = time - self.time;
            if absolute {
                self.head(31, (time & 0x7ff_ffff) as u32);
                self.word((time >> 27) as u32);
                delta = 0;
            } else if delta >= 1 << 27 {
                self.head(30, (delta & 0x7ff_ffff) as u32);
                self.word((delta >> 27) as u32);
                delta = 0;
            }
            self.time = time;
            let padded = data.len().next_multiple_of(4);
            if padded == 0 || padded > 112 {
                self.head(0, delta as u32);
                self.word(padded as u32 + 4);
            } else {
                self.head(padded as u32 / 4, delta as u32);
            }
            self.data.extend(data);
            self.data.resize(self.data.len().next_multiple_of(4), 0);
        }
        fn discarded(&mut self, delta: u32, words: u32) {
            self.head(29, delta);
            self.word(4 * words + 4);
            for _ in 0..words {
                self.word(0xdead_beef);
            }
            self.time += u64::from(delta);
        }
        fn number(&self, value: u64, size: usize) -> Vec<u8> {
            match self.order {
                ByteOrder::Little => value.to_le_bytes()[..size].to_vec(),
                ByteOrder::Big => value.to_be_bytes()[8 - size..].to_vec(),
            }
        }
        fn page(&self, lost: Option<Option<u64>>) -> Vec<u8> {
            let mut commit = self.data.len() as u64;
            if let Some(count) = lost {
                commit |= MISSED_EVENTS | if count.is_some() { MISSED_STORED } else { 0 };
            }
            let mut page = self.number(self.start, 8);
            page.extend(self.number(commit, self.long));
            page.extend(&self.data);
            if let Some(Some(count)) = lost {
                page.extend(self.number(count, self.long));
            }
            page.resize(page.len().max(4096), 0);
            page
        }
    }

    fn records(layout: &PageLayout, page: &[u8]) -> (PageHeader, Vec<(u64, Vec<u8>)>) {
        let (header, mut cursor) = layout.open(page).unwrap();
        let mut found = Vec::new();
        while let Some(record) = cursor.next(page) {
            let record = record.unwrap();
            found.push((record.time.0, record.data.to_vec()));
        }
        (header, found)
    }

    proptest! {
        /// The decoder returns exactly the written records, for any byte order and word size, and with any
        /// gaps and discarded records.
        #[test]
        fn round_trip(
            big in any::<bool>(),
            narrow in any::<bool>(),
            start in 0_u64..1 << 60,
            lost in proptest::option::of(proptest::option::of(0_u64..1 << 31)),
            steps in proptest::collection::vec(
                (prop_oneof![0_u64..1000, 0_u64..1 << 40], 0_usize..30, any::<bool>(), any::<bool>()), 0..20),
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let (text, long) = if narrow { (HEADER_32, 4) } else { (HEADER_64, 8) };
            let layout = PageLayout::parse(text, order).unwrap();
            let mut writer = PageWriter::new(order, long, start);
            let mut expected = Vec::new();
            for (step, words, absolute, discard) in steps {
                if discard {
                    writer.discarded(7, words as u32);
                }
                let time = writer.time + step;
                let data: Vec<u8> = (0..4 * words).map(|at| at as u8).collect();
                writer.record(time, &data, absolute);
                expected.push((time, data));
            }
            let page = writer.page(lost);
            let (header, found) = records(&layout, &page);
            prop_assert_eq!(header.time.0, start);
            prop_assert_eq!(header.lost, lost);
            prop_assert_eq!(found, expected.clone());
            // A page truncated to its used bytes gives the same records. A shorter page counts as damaged,
            // but causes no panic.
            let (_, found) = records(&layout, &page[..header.used_bytes]);
            prop_assert_eq!(found, expected);
            prop_assert!(layout.open(&page[..header.used_bytes - 1]).is_err());
        }

        /// No input makes the decoder panic or run forever.
        #[test]
        fn any_bytes(big in any::<bool>(), mut page in proptest::collection::vec(any::<u8>(), 0..300), commit in 0_u8..=255) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let layout = PageLayout::parse(HEADER_64, order).unwrap();
            if page.len() > 16 {
                page[8..16].fill(0);
                page[if big { 15 } else { 8 }] = commit;
            }
            if let Ok((_, mut cursor)) = layout.open(&page) {
                let mut count = 0;
                while cursor.next(&page).is_some() {
                    count += 1;
                    prop_assert!(count <= page.len());
                }
            }
        }
    }

    #[test]
    fn null_padding_ends_the_page() {
        let layout = PageLayout::parse(HEADER_64, ByteOrder::Little).unwrap();
        let mut writer = PageWriter::new(ByteOrder::Little, 8, 5);
        writer.record(6, b"abcd", false);
        writer.head(29, 0);
        writer.record(9, b"after the end", false);
        assert_eq!(records(&layout, &writer.page(None)).1, [(6, b"abcd".to_vec())]);
    }

    #[test]
    fn impossible_layouts_are_errors() {
        for (from, to) in
            [("size:8", "size:3"), ("offset:16", "offset:15"), ("size:4080", "size:0"), ("data", "dat")]
        {
            assert!(PageLayout::parse(&HEADER_64.replace(from, to), ByteOrder::Little).is_err(), "{from}");
        }
    }
}
