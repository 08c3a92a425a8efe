//! Reads the binary traces of VMware's virtual SCSI layer, as CloudPhysics published them (`.vscsi`), in version 1.
//!
//! ```text
//! u32 number | u32 bytes | u32 scatter-gather entries | u16 SCSI operation code | u16 version (0x100) |
//! u64 first block of 512 bytes | u64 microseconds
//! ```
//!
//! The file has no header, and its numbers are little-endian. The time is when the virtual machine issued the
//! request; there are no completions. Version 2 has other columns and a response time; no public file shows
//! their units, so it is not read.

use std::io::{self, BufReader, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::{
    Batch, ByteCount, DeviceId, Op, Request, SECTOR_BYTES, Sector, Severity, Timestamp, TraceReader,
};

use crate::complaints::{Complaints, InputPlace};
use crate::csv::scsi;
use crate::input::Input;

const RECORD_BYTES: usize = 32;
const VERSION: u16 = 0x100;
/// Number of records at the start of a file that are examined, and how many of them there must be.
const EXAMINED: usize = 64;
const EXAMINED_MIN: usize = 4;
/// Number of records in a batch.
const BATCH_RECORDS: usize = 4096;
/// Maximum size of a request. SCSI controllers of virtual machines split at 32 MiB or less.
const BYTES_MAX: u32 = 64 << 20;

/// One record.
struct Record {
    bytes: u32,
    code: u16,
    version: u16,
    sector: u64,
    micros: u64,
}

impl Record {
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Record {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Record {
            bytes: u32_at(4),
            code: u16::from_le_bytes([bytes[12], bytes[13]]),
            version: u16::from_le_bytes([bytes[14], bytes[15]]),
            sector: u64_at(16),
            micros: u64_at(24),
        }
    }

    /// Returns the operation, if the record is plausible.
    fn op(&self) -> Option<Op> {
        let op = scsi(u8::try_from(self.code).ok()?);
        let is_possible = self.version == VERSION
            && self.bytes <= BYTES_MAX
            && self.sector.checked_mul(SECTOR_BYTES).is_some()
            && self.micros.checked_mul(1000).is_some();
        is_possible.then_some(op)
    }
}

/// Returns whether a file starts with such records: reads and writes of whole blocks, in order of time.
pub fn recognise(head: &[u8]) -> bool {
    let mut latest = 0;
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let records = &records[..records.len().min(EXAMINED)];
    records.len() >= EXAMINED_MIN
        && records.iter().all(|bytes| {
            let record = Record::parse(bytes);
            let in_order = record.micros >= std::mem::replace(&mut latest, record.micros);
            in_order
                && u64::from(record.bytes).is_multiple_of(SECTOR_BYTES)
                && record.op().is_some_and(|op| op != Op::Other)
        })
}

/// Reads such a trace.
pub struct VscsiReader {
    bytes: BufReader<Box<dyn Read + Send>>,
    file: String,
    records: u64,
    complaints: Complaints,
    ended: bool,
}

impl VscsiReader {
    /// Creates a reader of `input`.
    pub fn new(input: Input) -> VscsiReader {
        VscsiReader {
            bytes: BufReader::with_capacity(64 * 1024, input.bytes),
            file: input.name,
            records: 0,
            complaints: Complaints::default(),
            ended: false,
        }
    }
}

impl TraceReader for VscsiReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        for _ in 0..BATCH_RECORDS {
            if self.ended {
                break;
            }
            bytes.clear();
            (&mut self.bytes).take(RECORD_BYTES as u64).read_to_end(&mut bytes)?;
            let place = InputPlace {
                file: &self.file,
                record: Some(self.records + 1),
                offset: Some(self.records * RECORD_BYTES as u64),
            };
            let Ok(whole) = bytes.as_slice().try_into() else {
                self.ended = true;
                if !bytes.is_empty() {
                    self.complaints.add(Severity::Warning, "cut-record", place, || {
                        "The file ends within a record.".into()
                    });
                }
                self.complaints.finish();
                break;
            };
            self.records += 1;
            let record = Record::parse(whole);
            let Some(op) = record.op() else {
                self.complaints.add(Severity::Warning, "damaged-record", place, || {
                    "The record is not of version 1, or its numbers are impossible; it was skipped.".into()
                });
                continue;
            };
            let mut request = Request::new(DeviceId::default(), op, ByteCount(u64::from(record.bytes)));
            request.sector = Some(Sector(record.sector)).filter(|_| op != Op::Flush || record.bytes > 0);
            request.queued = Some(Timestamp(record.micros * 1000));
            batch.requests.push(request);
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        Source { format: "vscsi".into(), files: vec![self.file.clone()], shows: vec!["queue".into()] }
    }

    fn clock(&self) -> Clock {
        Clock { name: "unknown".into(), unix_ns_at_zero: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(bytes: u32, code: u16, version: u16, sector: u64, micros: u64) -> Vec<u8> {
        let mut record = 2_147_483_892_u32.to_le_bytes().to_vec();
        record.extend(bytes.to_le_bytes());
        record.extend(1_u32.to_le_bytes());
        record.extend(code.to_le_bytes());
        record.extend(version.to_le_bytes());
        record.extend(sector.to_le_bytes());
        record.extend(micros.to_le_bytes());
        record
    }

    /// Operation, bytes, sector and time of a request.
    type Row = (Op, u64, Option<Sector>, u64);

    fn read(bytes: &[u8]) -> (Vec<Row>, Vec<String>) {
        let all = VscsiReader::new(Input::of("x", bytes)).read_all().expect("memory reads");
        let requests = all
            .requests
            .iter()
            .map(|row| (row.op, row.bytes.0, row.sector, row.queued.expect("each has a time").0));
        (requests.collect(), all.diagnostics.into_iter().map(|one| one.code).collect())
    }

    #[test]
    fn records() {
        let good = [
            record(512, 0x2a, 0x100, 42_932_745, 5_633_898_368_802),
            record(8192, 0x28, 0x100, 26_185_655, 5_633_900_967_758),
            record(0, 0x35, 0x100, 0, 5_633_900_967_758),
            record(4096, 0x42, 0x100, 8, 5_633_900_967_760),
        ]
        .concat();
        assert!(recognise(&good));
        let expected = vec![
            (Op::Write, 512, Some(Sector(42_932_745)), 5_633_898_368_802_000),
            (Op::Read, 8192, Some(Sector(26_185_655)), 5_633_900_967_758_000),
            (Op::Flush, 0, None, 5_633_900_967_758_000),
            (Op::Discard, 4096, Some(Sector(8)), 5_633_900_967_760_000),
        ];
        assert_eq!(read(&good), (expected.clone(), vec![]));
        // A damaged record and a cut one do not hide the others.
        let bad = [&record(512, 0x2a, 0x200, 8, 7), good.as_slice(), &good[..20]].concat();
        assert_eq!(read(&bad), (expected, vec!["damaged-record".to_owned(), "cut-record".to_owned()]));
        for other in [&bad, &good[..64].to_vec(), &vec![0; 4096], &good[32..].repeat(2)] {
            assert!(!recognise(other));
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            recognise(&bytes);
            prop_assert!(read(&bytes).0.len() <= bytes.len() / RECORD_BYTES);
        }
    }
}
