//! Reads tables of requests: MSR Cambridge, MQSim, DiskSim, and any CSV with a column mapping.
//!
//! A mapping is a list of `KEY=COLUMN[:UNIT]`, where a column is given by its name in the header or its number from 1:
//!
//! | key | value | units |
//! |---|---|---|
//! | `event` | kind of an event, if each line is an event and not a request | blkparse's letters, or names of tracepoints |
//! | `time`, `issued` | time of issue (the two keys are the same) | `s`, `ms`, `us`, `ns`, `100ns`, `filetime` |
//! | `queued`, `inserted`, `completed` | the other times | the same |
//! | `latency` | from issue (else queue) to completion | `s`, `ms`, `us`, `ns`, `100ns` |
//! | `op` | read, write, … | `words`, `rwbs`, `0-is-read`, `1-is-read`, `scsi` |
//! | `offset`, `size` | start on the device, length | `bytes`, `sectors`, `kb`, `kib`, `4kib` |
//! | `device` | a number, `8,0`, `8:0`, or a name | |
//! | `process`, `tid`, `cpu` | process, thread, processor | |
//! | `delimiter` | separator of columns: a punctuation mark, `comma`, `semicolon`, `tab`, `space` | |
//! | `header` | `yes` (the default) or `no` | |
//!
//! An empty cell, `-`, `NA` or `null` is an unknown value. Devices and processes without numbers are numbered
//! in order of appearance, and a diagnostic reports this.

mod cell;
mod events;
mod fields;
mod mapping;
mod recognise;

use std::collections::BTreeMap;
use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{
    Batch, BlockEvent, ByteCount, DeviceId, Diagnostic, KindSet, Nanos, Op, Request, SECTOR_BYTES, Sector,
    Severity, Timestamp, TraceReader,
};
use thiserror::Error;

pub use self::recognise::recognise;
pub(crate) use self::recognise::{disksim_unit, header, own};
pub use mapping::{Column, Delimiter, Mapping, MappingError, OpWords, SizeUnit, TimeUnit};

use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::Lines;
use cell::absent;
pub(crate) use cell::{decimal, device, scsi};
use events::Kind;
use fields::{Fields, Splitter};

/// The number of rows after which a batch ends.
const BATCH_ROWS: usize = 4096;

/// Maximum number of device names that get a number; this limit also applies to process names.
const NAMES_MAX: usize = 1024;

/// A table cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum CsvError {
    #[error("cannot read the first line")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Mapping(#[from] MappingError),
}

/// For each value, the index of its column in a row, counted from 0.
struct Places {
    event: Option<usize>,
    queued: Option<(usize, TimeUnit)>,
    inserted: Option<(usize, TimeUnit)>,
    issued: Option<(usize, TimeUnit)>,
    completed: Option<(usize, TimeUnit)>,
    latency: Option<(usize, TimeUnit)>,
    op: (usize, OpWords),
    offset: (usize, SizeUnit),
    size: (usize, SizeUnit),
    device: Option<usize>,
    process: Option<usize>,
    tid: Option<usize>,
    cpu: Option<usize>,
}

/// A table cell with an unexpected value.
struct BadCell {
    key: &'static str,
    text: String,
    allowed: &'static str,
}

/// Reads a table of requests.
pub struct CsvReader {
    lines: Lines<Box<dyn Read + Send>>,
    splitter: Splitter,
    places: Places,
    rows: Rows,
    file: String,
    format: &'static str,
    complaints: Complaints,
}

/// The state common to all rows.
#[derive(Default)]
struct Rows {
    devices: BTreeMap<Vec<u8>, DeviceId>,
    processes: BTreeMap<Vec<u8>, u32>,
    threads: SeenThreads,
    /// The kinds of the events so far.
    kinds: KindSet,
}

impl CsvReader {
    /// Creates a reader of `input` and reads the header. `mapping` defines the columns, and `format` is the
    /// name of the format in [`Source::format`](fonio_core::meta::Source::format). Fails if the header cannot
    /// be read, or lacks a column of the mapping.
    pub fn new(input: Input, mapping: &Mapping, format: &'static str) -> Result<CsvReader, CsvError> {
        let mut lines = Lines::new(input.bytes);
        let mut splitter = Splitter::new(mapping.delimiter);
        let mut header = Vec::new();
        if mapping.header
            && let Some(line) = lines.next()?
        {
            let line = line.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line.bytes);
            header =
                splitter.split(line).iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        }
        let places = Places::new(mapping, &header)?;
        Ok(CsvReader {
            lines,
            splitter,
            places,
            rows: Rows::default(),
            file: input.name,
            format,
            complaints: Complaints::default(),
        })
    }
}

impl TraceReader for CsvReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let mut more = true;
        for _ in 0..BATCH_ROWS {
            let Some(line) = self.lines.next()? else {
                self.complaints.finish();
                more = false;
                break;
            };
            let bytes = line.bytes.trim_ascii();
            if bytes.is_empty() || bytes.starts_with(b"#") {
                continue;
            }
            let place = InputPlace { file: &self.file, record: Some(line.number), offset: Some(line.offset) };
            if line.cut {
                self.complaints.add(Severity::Warning, "long-line", place, || {
                    "The line is longer than 65536 bytes; it was skipped.".into()
                });
                continue;
            }
            let fields = self.splitter.split(line.bytes);
            if let Err(bad) = self.rows.row(&self.places, &fields, batch, &mut self.complaints, place) {
                self.complaints.add(Severity::Warning, "unreadable-row", place, || {
                    format!("The {} `{}` is not {}; the row was skipped.", bad.key, bad.text, bad.allowed)
                });
            }
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(more)
    }

    fn source(&self) -> Source {
        let places = &self.places;
        if places.event.is_some() {
            return Source {
                format: self.format.into(),
                files: vec![self.file.clone()],
                shows: self.rows.kinds.names(),
            };
        }
        let completes = places.completed.is_some() || places.latency.is_some();
        // The issue time can be computed from the latency and the completion time.
        let issues = places.issued.is_some() || (places.latency.is_some() && places.queued.is_none());
        let kinds = [
            ("queue", places.queued.is_some()),
            ("insert", places.inserted.is_some()),
            ("issue", issues),
            ("complete", completes),
        ];
        Source {
            format: self.format.into(),
            files: vec![self.file.clone()],
            shows: kinds.into_iter().filter(|(_, shown)| *shown).map(|(kind, _)| kind.to_owned()).collect(),
        }
    }

    fn clock(&self) -> Clock {
        let file_time = [&self.places.queued, &self.places.issued, &self.places.completed]
            .into_iter()
            .any(|time| time.is_some_and(|(_, unit)| unit == TimeUnit::FileTime));
        if file_time {
            Clock { name: "realtime".into(), unix_ns_at_zero: Some(0) }
        } else {
            Clock { name: "unknown".into(), unix_ns_at_zero: None }
        }
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        let names = self.rows.devices.iter();
        names.map(|(name, device)| (*device, String::from_utf8_lossy(name).into_owned())).collect()
    }
}

impl Places {
    fn new(mapping: &Mapping, header: &[String]) -> Result<Places, MappingError> {
        let place = |column: &Column| match column {
            Column::Number(number) => Some(number - 1),
            Column::Name(name) => header
                .iter()
                .position(|found| found == name)
                .or_else(|| header.iter().position(|found| found.eq_ignore_ascii_case(name))),
        };
        for (key, column) in mapping.columns() {
            let found = place(column);
            if found.is_none_or(|found| mapping.header && found >= header.len()) {
                return Err(MappingError::NoSuchColumn {
                    key: key.into(),
                    column: column.to_string(),
                    columns: header.to_vec(),
                });
            }
        }
        let known = |column: &Column| place(column).expect("the table has every column of the mapping");
        let time =
            |time: &Option<(Column, TimeUnit)>| time.as_ref().map(|(column, unit)| (known(column), *unit));
        Ok(Places {
            event: mapping.event.as_ref().map(known),
            queued: time(&mapping.queued),
            inserted: time(&mapping.inserted),
            issued: time(&mapping.issued),
            completed: time(&mapping.completed),
            latency: time(&mapping.latency),
            op: (known(&mapping.op.0), mapping.op.1),
            offset: (known(&mapping.offset.0), mapping.offset.1),
            size: (known(&mapping.size.0), mapping.size.1),
            device: mapping.device.as_ref().map(known),
            process: mapping.process.as_ref().map(known),
            tid: mapping.tid.as_ref().map(known),
            cpu: mapping.cpu.as_ref().map(known),
        })
    }
}

impl Rows {
    /// Adds the request of one row.
    fn row(
        &mut self,
        places: &Places,
        fields: &Fields<'_>,
        batch: &mut Batch,
        complaints: &mut Complaints,
        place: InputPlace<'_>,
    ) -> Result<(), BadCell> {
        let cell = |at: usize| fields.get(at).unwrap_or_default();
        let bad = |key, at: usize, allowed| BadCell {
            key,
            text: String::from_utf8_lossy(&cell(at)[..cell(at).len().min(80)]).into_owned(),
            allowed,
        };
        let time = |key, column: Option<(usize, TimeUnit)>| match column {
            Some((at, _)) if absent(cell(at)) => Ok(None),
            Some((at, unit)) => cell::time(cell(at), unit)
                .map(Some)
                .ok_or_else(|| bad(key, at, "a time in the column's unit")),
            None => Ok(None),
        };

        let kind = match places.event {
            None => None,
            Some(at) => match events::kind(cell(at)) {
                Some(Kind::Known(kind)) => Some(kind),
                Some(Kind::LeftOut) => return Ok(()),
                None => {
                    return Err(bad("event", at, "one of blkparse's letters or the name of a block event"));
                }
            },
        };
        let (op, flags, flags_known) = cell::op(cell(places.op.0), places.op.1).ok_or_else(|| {
            let digit = matches!(cell(places.op.0), b"0" | b"1") && places.op.1 == OpWords::Words;
            let allowed = if digit {
                "a word; say which number means a read, with `op=COLUMN:0-is-read` or `op=COLUMN:1-is-read`"
            } else {
                "one of the operations such as read, write, discard or flush"
            };
            bad("op", places.op.0, allowed)
        })?;
        let size = cell::bytes(cell(places.size.0), places.size.1)
            .ok_or_else(|| bad("size", places.size.0, "a number"))?;
        let mut request = Request::new(DeviceId::default(), op, size);
        (request.flags, request.flags_known) = (flags, flags_known);

        let offset = cell(places.offset.0);
        if !absent(offset) {
            let ByteCount(offset) = cell::bytes(offset, places.offset.1)
                .ok_or_else(|| bad("offset", places.offset.0, "a number below 2^64 bytes"))?;
            if !offset.is_multiple_of(SECTOR_BYTES) {
                complaints.add(Severity::Note, "unaligned-offset", place, || {
                    format!(
                        "The offset {offset} is inside a sector of 512 bytes; the sector's start is used."
                    )
                });
            }
            // A flush without data has no sector.
            request.sector = Some(Sector(offset / SECTOR_BYTES)).filter(|_| op != Op::Flush || size.0 > 0);
        }

        request.queued = time("queued", places.queued)?;
        request.inserted = time("inserted", places.inserted)?;
        request.issued = time("time", places.issued)?;
        request.completed = time("completed", places.completed)?;
        if let Some(latency) = time("latency", places.latency)? {
            match (request.issued.or(request.queued), request.completed) {
                (Some(began), _) => request.completed = Some(began + Nanos(latency.0)),
                (None, Some(Timestamp(ended))) => {
                    request.issued = Some(Timestamp(ended.saturating_sub(latency.0)));
                }
                (None, None) => {}
            }
        }
        if request.queued.or(request.issued).or(request.completed).is_none() {
            let at = places.issued.or(places.queued).or(places.completed).map_or(0, |(at, _)| at);
            return Err(bad("time", at, "a time in the column's unit"));
        }

        if let Some(at) = places.device {
            request.device = self
                .device(cell(at), complaints, place)
                .ok_or_else(|| bad("device", at, "a number, and the limit of 1024 names is reached"))?;
        }
        if let Some(at) = places.cpu.filter(|at| !absent(cell(*at))) {
            let cpu = cell::decimal(cell(at), 1).and_then(|cpu| u32::try_from(cpu).ok());
            request.cpu = Some(cpu.ok_or_else(|| bad("cpu", at, "a number"))?);
        }
        let name = places.process.map(cell).filter(|name| !absent(name));
        if let Some(at) = places.tid.filter(|at| !absent(cell(*at))) {
            let tid = cell::decimal(cell(at), 1).and_then(|tid| u32::try_from(tid).ok());
            request.tid = Some(tid.ok_or_else(|| bad("tid", at, "a number"))?);
        } else if let Some(name) = name
            && places.tid.is_none()
        {
            request.tid = self.process(name, complaints, place);
        }
        if let Some(tid) = request.tid {
            batch.threads.extend(self.threads.seen(tid, None, name, NameOrigin::Event, request.order_time()));
        }
        match kind {
            None => batch.requests.push(request),
            Some(kind) => {
                self.kinds.insert(kind);
                batch.events.push(BlockEvent {
                    time: request.order_time(),
                    kind,
                    device: request.device,
                    sector: request.sector.unwrap_or_default(),
                    bytes: request.bytes,
                    op: request.op,
                    flags: request.flags,
                    flags_known: request.flags_known,
                    cpu: request.cpu,
                    tid: request.tid,
                    ioprio: None,
                    error: None,
                });
            }
        }
        Ok(())
    }

    fn device(
        &mut self,
        name: &[u8],
        complaints: &mut Complaints,
        place: InputPlace<'_>,
    ) -> Option<DeviceId> {
        if let Some(device) = cell::device(name) {
            return Some(device);
        }
        if let Some(device) = self.devices.get(name) {
            return Some(*device);
        }
        let number = self.devices.len();
        if number >= NAMES_MAX {
            return None;
        }
        let device = DeviceId::new(0, number as u32);
        self.devices.insert(name.to_vec(), device);
        // These diagnostics are not merged, because each name must be reported.
        complaints.ready.push(Diagnostic {
            severity: Severity::Note,
            code: "numbered-device".into(),
            message: format!(
                "The device `{}` has no number; it gets the number {device}.",
                String::from_utf8_lossy(&name[..name.len().min(80)])
            ),
            file: Some(place.file.to_owned()),
            record: place.record,
            offset: place.offset,
            count: 1,
        });
        Some(device)
    }

    /// Returns the number that fonio assigns to a process name; `None` if there are too many names.
    fn process(&mut self, name: &[u8], complaints: &mut Complaints, place: InputPlace<'_>) -> Option<u32> {
        if let Some(tid) = self.processes.get(name) {
            return Some(*tid);
        }
        if self.processes.len() >= NAMES_MAX {
            return None;
        }
        let tid = self.processes.len() as u32 + 1;
        self.processes.insert(name.to_vec(), tid);
        if tid == 1 {
            complaints.add(Severity::Note, "numbered-processes", place, || {
                "The processes have no numbers; they are numbered from 1 in order of appearance.".into()
            });
        }
        Some(tid)
    }
}

#[cfg(test)]
mod tests;
