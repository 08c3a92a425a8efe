//! Checks the size of a Parquet footer before the Parquet library parses it.
//!
//! The library needs some 700 bytes of memory for each column chunk, which can be 20 bytes in the footer, and
//! keeps all of them. Therefore the number of column chunks of a complete recording is limited, and so is each
//! other list.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::thrift::{Found, Stop, walk};

/// Maximum length of a footer. A table of 10^9 requests has a footer of about 12 MB.
const BYTES_MAX: u64 = 32 << 20;
/// Maximum number of column chunks of all tables. They are enough for 1.5 × 10^9 requests with their bios, and
/// need about 130 MB.
const CHUNKS_MAX: u64 = 192 << 10;
/// Maximum length of a list other than those of row groups and column chunks, such as the list of columns.
const LIST_MAX: u64 = 1024;

/// The fields of Parquet's `FileMetaData` and `RowGroup` (`parquet.thrift`).
const ROW_GROUPS: &[i16] = &[4];
const COLUMNS: &[i16] = &[4, 1];

/// The footer's length and the magic number, at the end of each Parquet file.
const TAIL_BYTES: u64 = 8;

/// The reason why a footer is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// The footer could not be read.
    Io(io::Error),
    /// The footer is not a Thrift struct.
    Invalid,
    /// The footer would need too much memory, for this reason.
    TooLarge(String),
}

/// The number of column chunks that the tables of a recording may still have.
#[derive(Debug)]
pub(super) struct Budget {
    chunks: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { chunks: CHUNKS_MAX }
    }
}

impl Budget {
    /// Checks the footer of a file of `length` bytes. Accepts a file without a footer, because the Parquet
    /// library detects it.
    pub(super) fn check(&mut self, file: &File, length: u64) -> Result<(), Refused> {
        let mut tail = [0; TAIL_BYTES as usize];
        let Some(tail_at) = length.checked_sub(TAIL_BYTES) else { return Ok(()) };
        file.read_exact_at(&mut tail, tail_at).map_err(Refused::Io)?;
        let [a, b, c, d, magic @ ..] = tail;
        let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
        let Some(at) = tail_at.checked_sub(bytes).filter(|_| &magic == b"PAR1") else { return Ok(()) };
        if bytes > BYTES_MAX {
            return Err(Refused::TooLarge(format!(
                "its footer has {bytes} bytes, and the limit is {BYTES_MAX}"
            )));
        }
        let mut footer = vec![0; bytes as usize];
        file.read_exact_at(&mut footer, at).map_err(Refused::Io)?;
        let chunks = &mut self.chunks;
        let count = &mut |ids: &[i16], found: Found| {
            let Found::List(count) = found else { return Ok(()) };
            match ids {
                COLUMNS => match chunks.checked_sub(count) {
                    Some(left) => *chunks = left,
                    None => return Err(format!("its tables have more than {CHUNKS_MAX} column chunks")),
                },
                // Each row group has a column chunk, so the number of column chunks limits this list.
                ROW_GROUPS if count <= CHUNKS_MAX => {}
                _ if count > LIST_MAX => {
                    return Err(format!("its footer has a list of {count}, and the limit is {LIST_MAX}"));
                }
                _ => {}
            }
            Ok(())
        };
        match walk(&footer, count) {
            Ok(_) => Ok(()),
            Err(Stop::Refused(why)) => Err(Refused::TooLarge(why)),
            Err(Stop::Short | Stop::Invalid) => Err(Refused::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn checked(budget: &mut Budget, footer: &[u8], claimed: u32) -> String {
        let mut file = tempfile::tempfile().expect("a file");
        let bytes = [b"PAR1", footer, &claimed.to_le_bytes(), b"PAR1"].concat();
        file.write_all(&bytes).expect("written");
        match budget.check(&file, bytes.len() as u64) {
            Ok(()) => "fine".to_owned(),
            Err(Refused::TooLarge(why)) => why,
            Err(other) => format!("{other:?}"),
        }
    }

    fn check(budget: &mut Budget, footer: &[u8]) -> String {
        checked(budget, footer, footer.len() as u32)
    }

    /// A footer with one row group, which has `count` empty column chunks.
    fn with_chunks(count: u32) -> Vec<u8> {
        let varint = [0x80 | count as u8, 0x80 | (count >> 7) as u8, 0x80 | (count >> 14) as u8, 0];
        [&[0x49, 0x1c, 0x19, 0xfc][..], &varint, &vec![0; count as usize], &[0, 0]].concat()
    }

    #[test]
    fn a_footer_cannot_ask_for_much_memory() {
        let mut budget = Budget::default();
        assert_eq!(check(&mut budget, &[0]), "fine");
        assert_eq!(check(&mut budget, &[0x1e]), "Invalid");
        assert_eq!(check(&mut budget, &with_chunks(100_000)), "fine");
        // The limit applies to all tables together.
        assert_eq!(
            check(&mut budget, &with_chunks(100_000)),
            "its tables have more than 196608 column chunks"
        );
        // 2,000 schema elements (field 2) of one byte each.
        let schema = [&[0x29, 0xfc, 0xd0, 0x0f][..], &[0; 2000], &[0]].concat();
        assert_eq!(check(&mut budget, &schema), "its footer has a list of 2000, and the limit is 1024");
        // Without a complete footer, the library names the damage.
        assert_eq!(checked(&mut budget, &[0], 5000), "fine");
        let length = 1 << 30;
        let sparse = tempfile::tempfile().expect("a file");
        sparse.set_len(length).expect("a sparse file");
        sparse.write_all_at(&[0, 0, 0, 0x20, b'P', b'A', b'R', b'1'], length - 8).expect("written");
        let refused = budget.check(&sparse, length).expect_err("it is too large");
        assert!(matches!(refused, Refused::TooLarge(_)), "{refused:?}");
    }
}
