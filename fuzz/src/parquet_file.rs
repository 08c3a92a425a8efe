//! Parquet files that are spliced from parts of others, or composed of described pages.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use fonio_core::Random;
use parquet::basic::{Compression, Encoding, GzipLevel};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use crate::seeds::one;

/// Length of the footer's length and the magic number at the end of a file.
const TAIL_BYTES: usize = 8;

/// Returns the maximum number of rows of a table file that fonio reads (`docs/recording-reference.md`, "Limits").
pub fn rows_max(bytes: usize) -> u64 {
    (256 << 10) + 64 * bytes as u64
}

/// Returns the range of the footer; empty if the file has no complete footer.
pub fn footer(file: &[u8]) -> Range<usize> {
    let Some(end) = file.len().checked_sub(TAIL_BYTES) else { return 0..0 };
    let length = u32::from_le_bytes(std::array::from_fn(|at| file[end + at])) as usize;
    end.checked_sub(length).map_or(0..0, |begin| begin..end)
}

/// Composes a file from pages and a footer.
pub fn with_footer(pages: &[u8], footer: &[u8]) -> Vec<u8> {
    [pages, footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// Returns the places of the column chunks of a valid file.
fn chunks(file: &[u8]) -> Vec<Range<usize>> {
    let metadata = ParquetMetaDataReader::decode_metadata(&file[footer(file)]).expect("the file is valid");
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let range = |column: &ColumnChunkMetaData| {
        let (begin, length) = column.byte_range();
        begin as usize..(begin + length) as usize
    };
    columns.map(range).filter(|chunk| !chunk.is_empty()).collect()
}

/// Crosses two valid files: pages of one file under the footer of the other, column chunks and parts of pages in
/// the places of others, or a footer from two footers.
pub fn splice(a: &[u8], b: &[u8], random: &mut Random) -> Vec<u8> {
    let (footer_a, footer_b) = (footer(a), footer(b));
    let (pages_a, pages_b) = (&a[..footer_a.start], &b[..footer_b.start]);
    let (chunks_a, chunks_b) = (chunks(a), chunks(b));
    let mut file = a.to_vec();
    match random.below(4) {
        0 => with_footer(pages_a, &b[footer_b]),
        1 if !chunks_a.is_empty() && !chunks_b.is_empty() => {
            for _ in 0..=random.below(4) {
                let (to, from) = (one(&chunks_a, random), one(&chunks_b, random));
                let length = to.len().min(from.len());
                file[to.start..to.start + length].copy_from_slice(&b[from.start..from.start + length]);
            }
            file
        }
        2 if !chunks_a.is_empty() => {
            // The first bytes of a chunk are the header of its first page.
            let chunk = one(&chunks_a, random);
            let at = chunk.start + random.below(chunk.len().min(40) as u64) as usize;
            let length = (1 + random.below(64) as usize).min(chunk.end - at).min(pages_b.len());
            let from = random.below((pages_b.len() - length + 1) as u64) as usize;
            file[at..at + length].copy_from_slice(&pages_b[from..from + length]);
            file
        }
        _ => {
            let (one, other) = (&a[footer_a.clone()], &b[footer_b]);
            let cut = random.below(one.len().min(other.len()) as u64) as usize;
            with_footer(pages_a, &[&one[..cut], &other[cut..]].concat())
        }
    }
}

/// The columns of the table `marks`.
const MARKS: &str = "message marks {
    required int64 at_ns; optional int64 until_ns; required binary name (UTF8); optional int32 tid (UINT_32);
}";

/// Reads bytes of a description; after the last byte, all bytes are zero.
struct Description<'a>(&'a [u8]);

impl<'a> Description<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// Reads a number; small numbers are the most frequent.
    fn number(&mut self) -> i32 {
        match self.byte() {
            byte @ 0..=199 => byte.into(),
            200..=229 => u16::from_le_bytes([self.byte(), self.byte()]).into(),
            _ => i32::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = match self.byte() {
            byte @ 0..=249 => usize::from(byte),
            _ => usize::from(u16::from_le_bytes([self.byte(), self.byte()])),
        };
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// Composes a table `marks` from a description of its pages. The footer is valid; the pages are arbitrary.
pub fn of_pages(description: &[u8]) -> Vec<u8> {
    let mut d = Description(description);
    let schema = parse_message_type(MARKS).expect("the schema is valid");
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
    let mut file = b"PAR1".to_vec();
    let rows = i64::from(d.number());
    let mut columns = Vec::new();
    for place in 0..schema.num_columns() {
        let (codec, is_valid) = match d.byte() % 8 {
            0..=3 => (Compression::UNCOMPRESSED, false),
            4 => (Compression::SNAPPY, true),
            5 => (Compression::GZIP(GzipLevel::default()), true),
            6 => (Compression::SNAPPY, false),
            _ => (Compression::ZSTD(Default::default()), false),
        };
        let begin = file.len() as i64;
        let mut has_dictionary = false;
        for page in 0..=d.byte() % 4 {
            let kind = [0, 2, 3, 0][usize::from(d.byte() % 4)];
            has_dictionary |= page == 0 && kind == 2;
            let (values, encoding, shift) = (d.number(), i32::from(d.byte() % 10), d.byte());
            let levels = [d.byte(), d.byte()].map(|length| i32::from(length % 16));
            let plain = d.bytes();
            let body = match codec {
                Compression::SNAPPY if is_valid => {
                    snap::raw::Encoder::new().compress_vec(plain).expect("it is short")
                }
                Compression::GZIP(_) => {
                    let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
                    encoder.write_all(plain).expect("memory writes");
                    encoder.finish().expect("memory writes")
                }
                _ => plain.to_vec(),
            };
            // Most headers tell the correct size.
            let size = plain.len() as i32 + if shift < 240 { 0 } else { 1 << (shift % 31) };
            page_header(&mut file, kind, [size, body.len() as i32], [values, encoding], levels);
            file.extend_from_slice(&body);
        }
        let length = file.len() as i64 - begin;
        let column = ColumnChunkMetaData::builder(schema.column(place))
            .set_compression(codec)
            .set_encodings(vec![Encoding::PLAIN])
            .set_num_values(rows)
            .set_total_compressed_size(length)
            .set_total_uncompressed_size(length)
            .set_data_page_offset(begin)
            .set_dictionary_page_offset(has_dictionary.then_some(begin));
        columns.push(column.build().expect("all fields are set"));
    }
    let group =
        RowGroupMetaData::builder(Arc::clone(&schema)).set_num_rows(rows).set_column_metadata(columns);
    let groups = vec![group.build().expect("each column is set")];
    let metadata = ParquetMetaData::new(FileMetaData::new(1, rows, None, None, schema, None), groups);
    ParquetMetaDataWriter::new(&mut file, &metadata).finish().expect("memory writes");
    file
}

/// Writes Parquet's `PageHeader` in Thrift's compact protocol: the kind, the sizes, and the struct of this kind.
fn page_header(
    out: &mut Vec<u8>,
    kind: i32,
    sizes: [i32; 2],
    [values, encoding]: [i32; 2],
    levels: [i32; 2],
) {
    numbers(out, &[kind, sizes[0], sizes[1]]);
    // A header byte is the distance of the field's number from the previous number, and the type: 12 is a struct.
    // The structs are the fields 5, 7 and 8.
    out.push([0x2c, 0, 0x4c, 0x5c][kind as usize]);
    match kind {
        0 => numbers(out, &[values, encoding, 3, 3]),
        2 => numbers(out, &[values, encoding]),
        _ => numbers(out, &[values, 0, values, encoding, levels[0], levels[1]]),
    }
    out.extend([0, 0]);
}

/// Writes successive fields of type 5 (i32).
fn numbers(out: &mut Vec<u8>, numbers: &[i32]) {
    for number in numbers {
        out.push(0x15);
        let mut left = (number << 1) as u32 ^ (number >> 31) as u32;
        while left > 0x7f {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
}
