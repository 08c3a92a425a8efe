//! Reads an iolog of fio (`--write_iolog`): the reads, writes, trims and syncs that fio called, without their completions.
//!
//! ```text
//! fio version 3 iolog
//! 30 /dev/sda add
//! 201 /dev/sda write 8192 4096
//! ```
//!
//! A line has milliseconds, the file, the action, and for reads, writes and trims the offset and the length in bytes. A name can
//! have blanks, so the words are counted from the end. Version 2, of fio before 3.31, has no milliseconds. There, an action
//! `wait` has the microseconds since the call before, so the times of the calls are the sums of the waits, which are 0 in the
//! logs that fio writes itself.

use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::{
    Batch, ByteCount, DeviceId, Op, Request, SECTOR_BYTES, Sector, Severity, Timestamp, TraceReader,
};

use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::Lines;

/// Number of lines in a batch.
const BATCH_LINES: usize = 4096;
/// Maximum number of files with a name. Further files share the last number.
const FILES_MAX: usize = 4096;

/// The version of an iolog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Without times.
    Two,
    Three,
}

impl Version {
    /// Returns the version that the first line says.
    fn of(line: &[u8]) -> Option<Version> {
        let line = line.trim_ascii_start();
        if line.starts_with(b"fio version 2 iolog") {
            return Some(Version::Two);
        }
        line.starts_with(b"fio version 3 iolog").then_some(Version::Three)
    }
}

/// Returns whether `head` is the start of an iolog of version 2 or 3.
pub fn recognise(head: &[u8]) -> bool {
    Version::of(head).is_some()
}

/// What a line says, after the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said<'l> {
    /// The file, the operation, and the offset and length of an operation on data.
    Call(&'l str, Op, Option<(u64, u64)>),
    /// fio waits for this many microseconds.
    Wait(u64),
    /// An action without I/O.
    Nothing,
}

/// Reads an iolog.
pub struct FioIologReader {
    lines: Lines<Box<dyn Read + Send>>,
    file: String,
    version: Version,
    /// The sum of the waits in ns.
    waited: u64,
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
            version: Version::Three,
            waited: 0,
            names: Vec::new(),
            complaints: Complaints::default(),
            ended: false,
        }
    }
}

/// Returns the ns and what the line says.
fn parse(line: &str, version: Version) -> Option<(u64, Said<'_>)> {
    let line = line.trim();
    match version {
        Version::Two => Some((0, action(line)?)),
        Version::Three => {
            let (millis, rest) = line.split_once(' ')?;
            let millis: u64 = millis.parse().ok()?;
            Some((millis.checked_mul(1_000_000)?, action(rest.trim())?))
        }
    }
}

fn action(line: &str) -> Option<Said<'_>> {
    let mut words = line.rsplitn(4, ' ');
    let last = words.next()?;
    let name = |action: &str| line.strip_suffix(action).map(str::trim_end).filter(|name| !name.is_empty());
    match last {
        "add" | "open" | "close" | "wait" => return Some(Said::Nothing),
        "sync" | "datasync" => return Some(Said::Call(name(last)?, Op::Flush, None)),
        _ => {}
    }
    let length: u64 = last.parse().ok()?;
    let (offset, action, name) = (words.next()?, words.next()?, words.next()?);
    let offset: u64 = offset.parse().ok()?;
    let op = match action {
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Discard,
        "sync" | "datasync" => return Some(Said::Call(name, Op::Flush, None)),
        "wait" => return Some(Said::Wait(offset)),
        _ => return None,
    };
    Some(Said::Call(name, op, Some((offset, length))))
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
            let place = InputPlace { file: &self.file, record: Some(line.number), offset: Some(line.offset) };
            if let Some(version) = Version::of(line.bytes) {
                self.version = version;
                if version == Version::Two {
                    self.complaints.add(Severity::Warning, "no-times", place, || {
                        "The iolog is of version 2, which has no times: the sizes, the places and the order of the calls are known, rates \
                         are not. fio 3.31 and later write times."
                            .into()
                    });
                }
                continue;
            }
            let text = String::from_utf8_lossy(line.bytes);
            let said = parse(&text, self.version).and_then(|(time, said)| match said {
                // Version 3 has the time of each line, so a wait says nothing new.
                Said::Wait(micros) if self.version == Version::Two => {
                    self.waited = self.waited.checked_add(micros.checked_mul(1000)?)?;
                    Some((time, Said::Nothing))
                }
                _ => Some((time.checked_add(self.waited)?, said)),
            });
            let (time, name, op, at) = match said {
                Some((time, Said::Call(name, op, at))) => (time, name, op, at),
                Some((_, Said::Nothing | Said::Wait(_))) => continue,
                None => {
                    self.complaints.add(Severity::Warning, "unreadable-line", place, || {
                        "The line is not of an iolog of fio; it was skipped.".into()
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
            request.queued = Some(Timestamp(time));
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

    #[test]
    fn version_2_has_no_times_but_waits() {
        let text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 8192 4096\n/dev/sda wait 1500 0\n\
            /dev/sda read 0 512\n/dev/sda wait 18446744073709551615 0\n datasync\n/dev/sda datasync 0 0\n/dev/sda close\n";
        let mut reader = FioIologReader::new(Input::of("t", text));
        let all = reader.read_all().expect("memory reads");
        let rows: Vec<_> =
            all.requests.iter().map(|row| (row.queued.expect("a time").0, row.op, row.bytes.0)).collect();
        assert_eq!(rows, [(0, Op::Write, 4096), (1_500_000, Op::Read, 512), (1_500_000, Op::Flush, 0)]);
        let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
        assert_eq!(codes, ["no-times", "unreadable-line", "unreadable-line"]);
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
