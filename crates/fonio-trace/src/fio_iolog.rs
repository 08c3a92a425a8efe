//! Reads an iolog of fio, version 3 (`--write_iolog` of fio 3.31 or later): the reads, writes, trims and syncs that fio
//! called, without their completions.
//!
//! ```text
//! fio version 3 iolog
//! 30 /dev/sda add
//! 201 /dev/sda write 8192 4096
//! ```
//!
//! A line has milliseconds, the file, the action, and for reads, writes and trims the offset and the length in bytes. A name can
//! have blanks, so the words are counted from the end.

use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::{
    Batch, ByteCount, DeviceId, Op, Request, SECTOR_BYTES, Sector, Severity, Timestamp, TraceReader,
};

use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::Lines;

/// The first line.
const BEGINNING: &[u8] = b"fio version 3 iolog";
/// Number of lines in a batch.
const BATCH_LINES: usize = 4096;
/// Maximum number of files with a name. Further files share the last number.
const FILES_MAX: usize = 4096;

/// Returns whether `head` is the start of an iolog of version 3.
pub fn recognise(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(BEGINNING)
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said<'l> {
    /// The millisecond, the file, the operation, and the offset and length of an operation on data.
    Call(u64, &'l str, Op, Option<(u64, u64)>),
    /// An action without I/O.
    Nothing,
}

/// Reads an iolog.
pub struct FioIologReader {
    lines: Lines<Box<dyn Read + Send>>,
    file: String,
    names: Vec<String>,
    complaints: Complaints,
    ended: bool,
}

impl FioIologReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> FioIologReader {
        FioIologReader {
            lines: Lines::new(input.bytes),
            file: input.name,
            names: Vec::new(),
            complaints: Complaints::default(),
            ended: false,
        }
    }
}

fn parse(line: &str) -> Option<Said<'_>> {
    let (millis, rest) = line.trim().split_once(' ')?;
    let millis: u64 = millis.parse().ok()?;
    let rest = rest.trim();
    let mut words = rest.rsplitn(4, ' ');
    let last = words.next()?;
    let name = |action: &str| rest.strip_suffix(action).map(str::trim_end);
    match last {
        "add" | "open" | "close" | "wait" => return Some(Said::Nothing),
        "sync" | "datasync" => return Some(Said::Call(millis, name(last)?, Op::Flush, None)),
        _ => {}
    }
    let length: u64 = last.parse().ok()?;
    let (offset, action, name) = (words.next()?, words.next()?, words.next()?);
    let op = match action {
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Discard,
        "sync" | "datasync" => return Some(Said::Call(millis, name, Op::Flush, None)),
        "wait" => return Some(Said::Nothing),
        _ => return None,
    };
    Some(Said::Call(millis, name, op, Some((offset.parse().ok()?, length))))
}

impl TraceReader for FioIologReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        for _ in 0..BATCH_LINES {
            let Some(line) = self.lines.next()? else {
                self.ended = true;
                self.complaints.finish();
                break;
            };
            if recognise(line.bytes) {
                continue;
            }
            let place = InputPlace { file: &self.file, record: Some(line.number), offset: Some(line.offset) };
            let text = String::from_utf8_lossy(line.bytes);
            let said = parse(&text).filter(|said| match said {
                Said::Call(millis, _, _, _) => millis.checked_mul(1_000_000).is_some(),
                Said::Nothing => true,
            });
            let (millis, name, op, at) = match said {
                Some(Said::Call(millis, name, op, at)) => (millis, name, op, at),
                Some(Said::Nothing) => continue,
                None => {
                    self.complaints.add(Severity::Warning, "unreadable-line", place, || {
                        "The line is not of an iolog of fio in version 3; it was skipped.".into()
                    });
                    continue;
                }
            };
            let known = self.names.iter().position(|known| known == name);
            let number = known.unwrap_or_else(|| {
                if self.names.len() < FILES_MAX {
                    self.names.push(name.to_owned());
                }
                self.names.len() - 1
            });
            let bytes = at.map_or(0, |(_, length)| length);
            let mut request = Request::new(DeviceId(number as u32), op, ByteCount(bytes));
            request.sector = at.map(|(offset, _)| Sector(offset / SECTOR_BYTES));
            request.queued = Some(Timestamp(millis * 1_000_000));
            batch.requests.push(request);
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        Source { format: "fio-iolog".into(), files: vec![self.file.clone()], shows: vec!["queue".into()] }
    }

    fn clock(&self) -> Clock {
        Clock { name: "unknown".into(), unix_ns_at_zero: None }
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        self.names.iter().enumerate().map(|(number, name)| (DeviceId(number as u32), name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_of_fio() {
        let text = "fio version 3 iolog\n20 /dev/sda add\n21 /dev/sda open\n201 /dev/sda write 8192 4096\n\
            202 /dev/sda sync 0 0\n203 /a b/c read 0 512\n204 /a b/c datasync\n205 /dev/sda trim 4096 1048576\n\
            206 /dev/sda wait 100 0\n207 /dev/sda dance 1 2\n18446744073709551615 /dev/sda read 0 512\n208 /dev/sda close\n";
        let mut reader = FioIologReader::new(Input::of("t", text));
        let all = reader.read_all().expect("memory reads");
        let rows: Vec<_> = (all.requests.iter())
            .map(|row| {
                (
                    row.queued.expect("each has a time").0 / 1_000_000,
                    row.device.0,
                    row.op,
                    row.sector,
                    row.bytes.0,
                )
            })
            .collect();
        let expected = [
            (201, 0, Op::Write, Some(Sector(16)), 4096),
            (202, 0, Op::Flush, None, 0),
            (203, 1, Op::Read, Some(Sector(0)), 512),
            (204, 1, Op::Flush, None, 0),
            (205, 0, Op::Discard, Some(Sector(8)), 1_048_576),
        ];
        assert_eq!(rows, expected);
        let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
        assert_eq!(codes, ["unreadable-line"; 2]);
        let names: Vec<String> = reader.device_names().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["/dev/sda", "/a b/c"]);
    }

    proptest! {
        #[test]
        fn any_lines(lines in prop::collection::vec("[0-9 a-z/]{0,30}", 0..10)) {
            let text = lines.join("\n");
            let all = FioIologReader::new(Input::of("t", text)).read_all().expect("memory reads");
            prop_assert!(all.requests.len() <= lines.len());
        }
    }
}
