//! Recognises tables by their content.

use super::cell;
use super::fields::Splitter;
use super::mapping::{Column, Delimiter, Mapping, OpWords, TimeUnit};
use crate::format::Format;

/// Maximum number of lines examined.
const LINES: usize = 20;

/// Returns the table format of a file that starts with `head`; `None` if it is not a table.
pub fn recognise(head: &[u8]) -> Option<Format> {
    if rows(head, Delimiter::Byte(b','), is_msr_cambridge) {
        Some(Format::MsrCambridge)
    } else if rows(head, Delimiter::Blanks, is_disksim) {
        Some(Format::DiskSim)
    } else if header(head).is_some() {
        Some(Format::Csv)
    } else {
        None
    }
}

/// Returns the columns in the first line if it looks like a table header.
pub(crate) fn header(head: &[u8]) -> Option<Vec<String>> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let (first, rest) = head.split_at(memchr::memchr(b'\n', head)?);
    let delimiter = [b',', b';', b'\t', b'|'].into_iter().find(|delimiter| {
        let count = |line: &[u8]| Splitter::new(Delimiter::Byte(*delimiter)).split(line).iter().count();
        let second = rest[1..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let columns = count(first);
        (4..1000).contains(&columns) && (second.is_empty() || count(second) == columns)
    })?;
    let mut splitter = Splitter::new(Delimiter::Byte(delimiter));
    let names: Option<Vec<String>> = splitter
        .split(first)
        .iter()
        .map(|name| Some(std::str::from_utf8(name).ok()?.to_owned()).filter(|name| name.len() < 64))
        .collect();
    names.filter(|names| names.iter().all(|name| !name.chars().any(char::is_control)))
}

/// Returns the mapping of a table that fonio itself wrote.
pub(crate) fn own(head: &[u8]) -> Option<Mapping> {
    let header = header(head)?;
    let mapping = Mapping::fonio();
    let has = |column: &Column| header.iter().any(|found| *found == column.to_string());
    mapping.columns().into_iter().all(|(_, column)| has(column)).then_some(mapping)
}

/// Returns the unit of the table's times. MQSim writes integer nanoseconds, and DiskSim writes milliseconds
/// with a fraction.
pub(crate) fn disksim_unit(head: &[u8]) -> TimeUnit {
    let line =
        head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let time = line.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
    if time.contains(&b'.') { TimeUnit::Milliseconds } else { TimeUnit::Nanoseconds }
}

/// Returns whether there is at least one complete line among the examined lines, and `row` accepts all of
/// them.
fn rows(head: &[u8], delimiter: Delimiter, row: fn(&[&[u8]]) -> bool) -> bool {
    let mut splitter = Splitter::new(delimiter);
    let mut seen = 0;
    // The last line of the examined bytes may be incomplete.
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    for line in whole.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LINES) {
        let fields: Vec<&[u8]> = splitter.split(line).iter().collect();
        if !row(&fields) {
            return false;
        }
        seen += 1;
    }
    seen > 0
}

fn is_msr_cambridge(fields: &[&[u8]]) -> bool {
    let number = |field: &[u8]| cell::decimal(field, 1).is_some();
    fields.len() == 7
        && fields[0].len() >= 17
        && cell::time(fields[0], TimeUnit::FileTime).is_some()
        && cell::op(fields[3], OpWords::Words).is_some()
        && [2, 4, 5, 6].into_iter().all(|at| number(fields[at]))
}

fn is_disksim(fields: &[&[u8]]) -> bool {
    fields.len() == 5
        && fields
            .iter()
            .all(|field| cell::decimal(field, 1).is_some() && field.first().is_some_and(u8::is_ascii_digit))
        && matches!(fields[4], b"0" | b"1")
        && fields[1..].iter().all(|field| field.iter().all(u8::is_ascii_digit))
}
