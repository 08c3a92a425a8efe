//! Recognises the type of a write to an SQLite journal or WAL (`https://sqlite.org/fileformat.html`, sections
//! 3 and 4).
//!
//! The first bytes of each write suffice, because SQLite writes the WAL header, each frame header and the
//! journal's end mark with separate calls.

use fonio_core::SqliteWrite;

use super::layout::{IS_JOURNAL, IS_WAL, RawCall};

/// The first bytes of a rollback journal of SQLite.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes of the journal header that SQLite overwrites with zeros at the end of a transaction.
const JOURNAL_END_BYTES: u64 = 28;
/// The first bytes of a WAL file. The lowest bit shows the byte order of the checksums.
const WAL_MAGIC: u32 = 0x377f_0682;
const WAL_HEADER_BYTES: u64 = 32;
const WAL_FRAME_HEADER_BYTES: u64 = 24;

/// Returns the type of a write; `None` for pages and for other files.
pub(super) fn sqlite_write(call: &RawCall) -> Option<SqliteWrite> {
    // The BPF program passes the requested size, but a vectored write has no single requested size.
    let bytes = u64::try_from(call.result).ok()?;
    if call.has(IS_JOURNAL) {
        of_journal(call.offset, bytes, call.head())
    } else if call.has(IS_WAL) {
        of_wal(call.offset, bytes, call.head())
    } else {
        None
    }
}

/// Returns the type of a write of these bytes to the file at `path`; `head` has the first bytes of the write.
pub(crate) fn sqlite_write_to(path: &[u8], offset: u64, bytes: u64, head: &[u8]) -> Option<SqliteWrite> {
    if path.ends_with(b"-journal") {
        of_journal(offset, bytes, head)
    } else if path.ends_with(b"-wal") {
        of_wal(offset, bytes, head)
    } else {
        None
    }
}

/// Maximum number of bytes at the beginning of a write that show its type.
pub(crate) const HEAD_BYTES: usize = 32;

fn of_journal(offset: u64, bytes: u64, head: &[u8]) -> Option<SqliteWrite> {
    if head.starts_with(&JOURNAL_MAGIC) {
        return Some(SqliteWrite::JournalHeader);
    }
    if offset != 0 {
        return None;
    }
    // In a new header, the magic number and the number of records are zero, but the fields that follow are
    // not.
    let is_end =
        bytes == JOURNAL_END_BYTES && head.len() as u64 >= bytes && head.iter().all(|byte| *byte == 0);
    Some(if is_end { SqliteWrite::JournalEnd } else { SqliteWrite::JournalHeader })
}

fn of_wal(offset: u64, bytes: u64, head: &[u8]) -> Option<SqliteWrite> {
    let word = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if offset == 0 {
        let is_header = bytes >= WAL_HEADER_BYTES && word(0)? | 1 == WAL_MAGIC | 1;
        return is_header.then_some(SqliteWrite::WalHeader);
    }
    // The write contains a frame with its page, or only a frame header. The length of a page without its
    // frame header is a power of two.
    let page = bytes.checked_sub(WAL_FRAME_HEADER_BYTES)?;
    if page != 0 && !(page.is_power_of_two() && (512..=65_536).contains(&page)) {
        return None;
    }
    // A frame header has a page number. In the last frame of a transaction, the header also has the database
    // size.
    if word(0)? == 0 {
        return None;
    }
    Some(if word(4)? == 0 { SqliteWrite::WalFrame } else { SqliteWrite::WalCommit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::calls::layout::tests::write_of;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn the_first_bytes_tell_what_a_write_is() {
        use SqliteWrite::{JournalEnd, JournalHeader, WalCommit, WalFrame, WalHeader};
        let magic = JOURNAL_MAGIC.to_vec();
        let first_header = words(&[0, 0, 0, 0x1234, 7, 512, 4096, 0]);
        let wal_header = words(&[WAL_MAGIC | 1, 3_007_000, 4096, 0, 1, 2, 3, 4]);
        let frame = |size| words(&[2, size, 1, 2, 3, 4]);
        for (flags, offset, bytes, head, expected) in [
            (IS_JOURNAL, 0, 512, first_header, Some(JournalHeader)),
            (IS_JOURNAL, 0, 12, magic.clone(), Some(JournalHeader)),
            (IS_JOURNAL, 8704, 12, magic, Some(JournalHeader)),
            (IS_JOURNAL, 0, 28, vec![0; 28], Some(JournalEnd)),
            (IS_JOURNAL, 512, 4, vec![], None),
            (IS_JOURNAL, 516, 4096, vec![0; 32], None),
            (IS_WAL, 0, 32, wal_header, Some(WalHeader)),
            (IS_WAL, 0, 32, vec![1; 32], None),
            (IS_WAL, 32, 24, frame(0), Some(WalFrame)),
            (IS_WAL, 4152, 24, frame(3), Some(WalCommit)),
            (IS_WAL, 4152, 4120, [frame(3), vec![0; 8]].concat(), Some(WalCommit)),
            (IS_WAL, 56, 4096, vec![1; 32], None),
            (IS_WAL, 32, 24, vec![0; 24], None),
            // A write whose bytes could not be read.
            (IS_WAL, 32, 24, vec![], None),
            (0, 0, 28, vec![0; 28], None),
        ] {
            let call = write_of(flags, offset, bytes, &head);
            assert_eq!(sqlite_write(&call), expected, "{flags} {offset} {bytes}");
        }
    }

    #[test]
    fn every_head_is_understood_or_refused() {
        // Lengths and bytes come from a small congruential generator. The BPF program's structures allow all
        // of them.
        let mut draw = 7_u64;
        let mut next = || {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            draw >> 33
        };
        for _ in 0..100_000 {
            let head: Vec<u8> = (0..next() % 33).map(|_| (next() % 3) as u8).collect();
            let flags = [0, IS_WAL, IS_JOURNAL][(next() % 3) as usize];
            let (offset, bytes) = (next() % 3 * 16, next() % 40 + [0, 4096][(next() % 2) as usize]);
            let mut call = write_of(flags, offset, bytes, &head);
            if next() % 8 == 0 {
                call.result = -(next() as i64);
            }
            if let Some(SqliteWrite::WalCommit | SqliteWrite::WalFrame) = sqlite_write(&call) {
                assert!(head.len() >= 8 && head[..4] != [0; 4] && flags == IS_WAL);
            }
        }
    }
}
