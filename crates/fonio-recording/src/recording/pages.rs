//! Checks the pages of a table before the Parquet library reads them, so that reading needs little memory.
//!
//! A page header says how large the page becomes when it is decompressed, and the library allocates this
//! size. Some codecs give more bytes than the header says. A dictionary page can hold one long text, which
//! the library copies for each row. So for each column that is read, this module checks:
//!
//! - the size of its largest pages, in the headers of the pages; of gzip, Brotli and LZ4 pages, also the size
//!   that decompression gives;
//! - the number of values and the length of the texts in its dictionaries;
//! - that no page of texts has an encoding in which a few bytes can mean many long texts.
//!
//! From the lengths of the texts follows the number of rows that can be decoded at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Compression, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::codecs::exceeds;
use super::thrift::{Found, Stop, walk};
use crate::schema::cell::TEXT_BYTES_MAX;

/// Maximum number of rows decoded at a time.
const BATCH_ROWS: usize = 4096;
/// Maximum number of bytes of texts decoded at a time.
const BATCH_TEXT_BYTES: u64 = 16 << 20;
/// Maximum number of bytes of pages that are in memory at a time for one table. Two tables are read at a time.
const PAGES_BYTES_MAX: u64 = 64 << 20;
/// Number of bytes read to find a page header. Most page headers have less than 100 bytes.
const HEADER_BYTES: u64 = 512;
/// Maximum length of a page header. It contains the smallest and the largest text of its page.
const HEADER_BYTES_MAX: u64 = 256 << 10;

/// The reason why a table is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// The table cannot be read.
    Damaged(ParquetError),
    /// Reading the table would need too much memory, for this reason.
    TooLarge(String),
}

impl From<ParquetError> for Refused {
    fn from(error: ParquetError) -> Refused {
        Refused::Damaged(error)
    }
}

/// Checks the pages of all columns that are read. Returns the number of rows to decode at a time.
pub(super) fn check(
    file: &Arc<File>,
    metadata: &ArrowReaderMetadata,
    mask: &ProjectionMask,
) -> Result<usize, Refused> {
    let columns = metadata.parquet_schema().num_columns();
    let mut largest = vec![Largest::default(); columns];
    for group in metadata.metadata().row_groups() {
        for (place, chunk) in group.columns().iter().enumerate().take(columns) {
            if mask.leaf_included(place) {
                check_chunk(file, chunk, group.num_rows(), &mut largest[place])?;
            }
        }
    }
    let sum = |of: fn(&Largest) -> u64| largest.iter().map(of).fold(0, u64::saturating_add);
    // The library keeps a dictionary as a page and as an array, and the compressed bytes of one page.
    let compressed = largest.iter().map(|column| column.compressed).max().unwrap_or(0);
    let bytes = sum(|column| column.dictionary.saturating_mul(2).saturating_add(column.data));
    let bytes = bytes.saturating_add(compressed);
    if bytes > PAGES_BYTES_MAX {
        let why =
            format!("its pages need {bytes} bytes of memory at a time, and the limit is {PAGES_BYTES_MAX}");
        return Err(Refused::TooLarge(why));
    }
    let rows = BATCH_TEXT_BYTES / sum(|column| column.text).max(1);
    Ok((rows as usize).clamp(1, BATCH_ROWS))
}

/// The largest sizes in bytes of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    dictionary: u64,
    data: u64,
    compressed: u64,
    /// The largest size of a row's text, or the average size in the page with the largest average.
    text: u64,
}

/// The fields of Parquet's `PageHeader` that the checks need (`parquet.thrift`).
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    /// The number of values and the encoding, for each kind of page.
    pages: [(i64, i64); 4],
    /// Lengths of the levels, which are not compressed in a page of version 2.
    levels: [i64; 2],
    is_plain: bool,
}

impl Header {
    fn values(&self) -> u64 {
        self.pages[self.kind as usize].0.max(0) as u64
    }

    fn encoding(&self) -> i64 {
        self.pages[self.kind as usize].1
    }

    fn set(&mut self, ids: &[i16], number: i64) {
        match ids {
            [1] => self.kind = number,
            [2] => self.uncompressed = number,
            [3] => self.compressed = number,
            // The headers of a data page, a dictionary page and a data page of version 2.
            [5, 1] => self.pages[0].0 = number,
            [5, 2] => self.pages[0].1 = number,
            [7, 1] => self.pages[2].0 = number,
            [7, 2] => self.pages[2].1 = number,
            [8, 1] => self.pages[3].0 = number,
            [8, 4] => self.pages[3].1 = number,
            [8, 5] => self.levels[0] = number,
            [8, 6] => self.levels[1] = number,
            [8, 7] => self.is_plain = number == 0,
            _ => {}
        }
    }
}

const DICTIONARY_PAGE: i64 = 2;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;

fn check_chunk(
    file: &Arc<File>,
    chunk: &ColumnChunkMetaData,
    rows: i64,
    largest: &mut Largest,
) -> Result<(), Refused> {
    let (begin, length) = chunk.byte_range();
    let (mut at, end) = (begin, begin.saturating_add(length));
    let name = || chunk.column_path().string();
    let is_text = chunk.column_type() == Type::BYTE_ARRAY;
    while at < end {
        let (header, header_bytes) = read_header(file, at, end)?;
        let body = at + header_bytes;
        if header.kind == DICTIONARY_PAGE && at != begin {
            return Err(invalid(at));
        }
        // The library allocates memory for the values of a dictionary before it reads them.
        let width = value_bytes(chunk.column_type(), chunk.column_descr().type_length());
        if header.kind == DICTIONARY_PAGE
            && header.values().saturating_mul(width) > header.uncompressed.max(0) as u64
        {
            return Err(invalid(at));
        }
        let sizes = (u64::try_from(header.compressed), u64::try_from(header.uncompressed));
        let (Ok(compressed), Ok(uncompressed)) = sizes else { return Err(invalid(at)) };
        let next = body.saturating_add(compressed);
        if next > end {
            return Err(invalid(at));
        }
        let bytes = uncompressed.max(compressed);
        let limit = uncompressed.min(PAGES_BYTES_MAX);
        if compressed <= PAGES_BYTES_MAX
            && !header.is_plain
            && is_exceeded(file, chunk.compression(), body, &header, limit)?
        {
            let why = format!("a page of column {} has more bytes than its header says", name());
            return Err(Refused::TooLarge(why));
        }
        largest.compressed = largest.compressed.max(compressed);
        if header.kind == DICTIONARY_PAGE {
            largest.dictionary = largest.dictionary.max(bytes);
        } else {
            largest.data = largest.data.max(bytes);
        }
        if is_text && header.kind != DICTIONARY_PAGE {
            match header.encoding() {
                DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY => {
                    let why = format!("column {} has delta-encoded texts; write them as plain texts", name());
                    return Err(Refused::TooLarge(why));
                }
                PLAIN_DICTIONARY | RLE_DICTIONARY => {}
                _ => largest.text = largest.text.max(bytes / header.values().max(1)),
            }
        }
        at = next;
    }
    if is_text && largest.dictionary <= PAGES_BYTES_MAX {
        largest.text = largest.text.max(longest_in_dictionary(file, chunk, rows, &name())?);
    }
    Ok(())
}

/// Returns the smallest number of bytes of a plain value. A text begins with its length.
fn value_bytes(kind: Type, fixed_length: i32) -> u64 {
    match kind {
        // Several of them share a byte, but no dictionary contains them.
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(fixed_length).unwrap_or(0).max(1),
    }
}

fn invalid(at: u64) -> Refused {
    Refused::Damaged(ParquetError::General(format!("the page header at byte {at} is not valid")))
}

/// Reads the page header at `at`, and returns it with its length. The column chunk ends at `end`.
fn read_header(file: &File, at: u64, end: u64) -> Result<(Header, u64), Refused> {
    for bytes in [HEADER_BYTES, HEADER_BYTES_MAX] {
        let mut read = vec![0; bytes.min(end - at) as usize];
        file.read_exact_at(&mut read, at).map_err(ParquetError::from)?;
        let mut header = Header::default();
        let walked = walk(&read, &mut |ids, found| {
            let Found::Number(number) = found else { return Ok(()) };
            // The library would cut the higher bits off. Only statistics have longer numbers.
            if ids.len() <= 2 && i32::try_from(number).is_err() {
                return Err("a number is too large".to_owned());
            }
            header.set(ids, number);
            Ok(())
        });
        match walked {
            Ok(length) if (0..4).contains(&header.kind) => return Ok((header, length as u64)),
            Ok(_) => break,
            Err(Stop::Short) => {}
            Err(Stop::Invalid | Stop::Refused(_)) => break,
        }
    }
    Err(invalid(at))
}

/// Returns whether decompressing the page at `body` gives more than `limit` bytes. Reads the page only if its
/// codec ignores the size in the page header.
fn is_exceeded(
    file: &File,
    codec: Compression,
    body: u64,
    header: &Header,
    limit: u64,
) -> Result<bool, Refused> {
    if !matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4) {
        return Ok(false);
    }
    let levels = header.levels[0].saturating_add(header.levels[1]).clamp(0, header.compressed);
    let mut page = vec![0; (header.compressed - levels) as usize];
    file.read_exact_at(&mut page, body + levels as u64).map_err(ParquetError::from)?;
    Ok(exceeds(codec, &page, limit))
}

/// Returns the length of the longest text in the dictionary of a column chunk; 0 without a dictionary.
fn longest_in_dictionary(
    file: &Arc<File>,
    chunk: &ColumnChunkMetaData,
    rows: i64,
    name: &str,
) -> Result<u64, Refused> {
    let (at, length) = chunk.byte_range();
    if length == 0 {
        return Ok(0);
    }
    let (header, _) = read_header(file, at, at + length)?;
    if header.kind != DICTIONARY_PAGE {
        return Ok(0);
    }
    // A text of a short dictionary is not longer than the dictionary.
    if header.uncompressed.max(header.compressed) * BATCH_ROWS as i64 <= BATCH_TEXT_BYTES as i64 {
        return Ok(header.uncompressed.max(header.compressed) as u64);
    }
    let rows = usize::try_from(rows).unwrap_or(0);
    let mut pages = SerializedPageReader::new(Arc::clone(file), chunk, rows, None)?;
    let Some(Page::DictionaryPage { buf, .. }) = pages.get_next_page()? else { return Ok(0) };
    // Each text is its length and its bytes (Parquet's encoding PLAIN).
    let (mut rest, mut longest) = (&buf[..], 0);
    while let Some((length, texts)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(others) = texts.get(length..) else { break };
        rest = others;
        longest = longest.max(length);
    }
    if longest > TEXT_BYTES_MAX {
        let why = format!("column {name} has a text of {longest} bytes, and the limit is {TEXT_BYTES_MAX}");
        return Err(Refused::TooLarge(why));
    }
    Ok(longest as u64)
}
