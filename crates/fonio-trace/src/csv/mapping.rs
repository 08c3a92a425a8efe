//! The mapping of a request table's columns to values.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A mapping is invalid or does not fit the table.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum MappingError {
    #[error("`{part}` is not KEY=VALUE; the keys are {}", KEYS.join(", "))]
    NoValue { part: String },
    #[error("there is no key `{key}`; the keys are {}", KEYS.join(", "))]
    UnknownKey { key: String },
    #[error("the key `{key}` is given twice")]
    Twice { key: String },
    #[error("`{key}={value}`: {allowed}")]
    Value { key: String, value: String, allowed: String },
    #[error(
        "{missing}; a whole mapping looks like `time=ts:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us`"
    )]
    Missing { missing: &'static str },
    #[error("`{key}`: the table has no column `{column}`; its columns are {}", fonio_core::printable(&.columns.join(", ")))]
    NoSuchColumn { key: String, column: String, columns: Vec<String> },
    #[error("`{key}={column}`: with `header=no`, columns have no names; give the column's number, from 1")]
    NameWithoutHeader { key: String, column: String },
}

const KEYS: [&str; 16] = [
    "event",
    "time",
    "queued",
    "inserted",
    "issued",
    "completed",
    "latency",
    "op",
    "offset",
    "size",
    "device",
    "process",
    "tid",
    "cpu",
    "delimiter",
    "header",
];

/// A column by its name in the header or by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The column's name in the header; ASCII case does not matter.
    Name(String),
    /// The number of the column, counted from 1.
    Number(usize),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Name(name) => f.write_str(name),
            Column::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The unit of a time or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `s`: seconds. In every unit, a value may have a fraction.
    Seconds,
    /// `ms`: milliseconds.
    Milliseconds,
    /// `us`: microseconds.
    Microseconds,
    /// `ns`: nanoseconds.
    Nanoseconds,
    /// `100ns`: units of 100 ns.
    HundredNanoseconds,
    /// `filetime`: units of 100 ns since 1601, as in Windows' `FILETIME`.
    FileTime,
}

impl TimeUnit {
    const NAMES: [(&'static str, TimeUnit); 6] = [
        ("s", TimeUnit::Seconds),
        ("ms", TimeUnit::Milliseconds),
        ("us", TimeUnit::Microseconds),
        ("ns", TimeUnit::Nanoseconds),
        ("100ns", TimeUnit::HundredNanoseconds),
        ("filetime", TimeUnit::FileTime),
    ];

    /// Returns the number of nanoseconds in one unit.
    pub(super) fn nanos(self) -> u64 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Nanoseconds => 1,
            TimeUnit::HundredNanoseconds | TimeUnit::FileTime => 100,
        }
    }
}

/// The unit of an offset or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeUnit {
    /// `bytes`: units of one byte.
    Bytes,
    /// `sectors`: units of 512 bytes.
    Sectors,
    /// `kb`: units of 1000 bytes.
    Kilobytes,
    /// `kib`: units of 1024 bytes.
    Kibibytes,
    /// `4kib`: pages of 4096 bytes.
    Pages,
}

impl SizeUnit {
    const NAMES: [(&'static str, SizeUnit); 5] = [
        ("bytes", SizeUnit::Bytes),
        ("sectors", SizeUnit::Sectors),
        ("kb", SizeUnit::Kilobytes),
        ("kib", SizeUnit::Kibibytes),
        ("4kib", SizeUnit::Pages),
    ];

    /// Returns the number of bytes in one unit.
    pub(super) fn bytes(self) -> u64 {
        match self {
            SizeUnit::Bytes => 1,
            SizeUnit::Sectors => 512,
            SizeUnit::Kilobytes => 1000,
            SizeUnit::Kibibytes => 1024,
            SizeUnit::Pages => 4096,
        }
    }
}

/// The meaning of the words in the op column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpWords {
    /// `words`, the default: `r`, `read`, `w`, `write`, `d`, `trim`, `f`, `flush`, and fonio's own op names.
    Words,
    /// `rwbs`: the letters of the kernel's block tracepoints, for example `WSM`.
    Rwbs,
    /// `0-is-read`: 0 is a read, 1 a write.
    ZeroIsRead,
    /// `1-is-read`: 1 is a read, 0 a write.
    OneIsRead,
    /// `scsi`: the operation code of a SCSI command in hexadecimal, for example `2a` or `0x2a` for a write.
    Scsi,
}

impl OpWords {
    const NAMES: [(&'static str, OpWords); 5] = [
        ("words", OpWords::Words),
        ("rwbs", OpWords::Rwbs),
        ("0-is-read", OpWords::ZeroIsRead),
        ("1-is-read", OpWords::OneIsRead),
        ("scsi", OpWords::Scsi),
    ];
}

/// The separator between two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// A single byte with this value; fields may be quoted with `"`.
    Byte(u8),
    /// Any number of spaces and tabs; quotes have no meaning.
    Blanks,
}

/// The columns of a table of requests.
///
/// As text, a mapping looks like
/// `time=ts:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us,device=dev`; see the
/// [module](crate::csv).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The column with the kind of an event, such as blkparse's `D` or the kernel's `block_rq_issue`. Without this
    /// column, each row is a request.
    pub event: Option<Column>,
    /// The column with the time when the bio or request was queued.
    pub queued: Option<(Column, TimeUnit)>,
    /// The column with the time when the request entered the scheduler.
    pub inserted: Option<(Column, TimeUnit)>,
    /// The column with the time when the request was issued to the device.
    pub issued: Option<(Column, TimeUnit)>,
    /// The column with the time when the request completed.
    pub completed: Option<(Column, TimeUnit)>,
    /// The column with the time from issue to completion, or from queue to completion if there is no issue.
    /// If the completion time is the only time in the table, the issue time is computed from the completion
    /// time and the latency.
    pub latency: Option<(Column, TimeUnit)>,
    /// The column with the operation: read, write, …
    pub op: (Column, OpWords),
    /// The column with the start of the request on the device.
    pub offset: (Column, SizeUnit),
    /// The column with the size of the request.
    pub size: (Column, SizeUnit),
    /// The column with the device; a table without this column has one device.
    pub device: Option<Column>,
    /// The column with the name of the thread or process.
    pub process: Option<Column>,
    /// The column with the thread's id.
    pub tid: Option<Column>,
    /// The column with the processor's number.
    pub cpu: Option<Column>,
    /// The separator between two columns.
    pub delimiter: Delimiter,
    /// Whether the first line names the columns.
    pub header: bool,
}

impl Mapping {
    /// Returns the mapping of the traces of Microsoft Research Cambridge (SNIA IOTTA):
    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size, ResponseTime`, without a header, with times as
    /// Windows file times. `Timestamp` is the issue time.
    pub fn msr_cambridge() -> Mapping {
        Mapping::known(
            "issued=1:filetime,latency=7:100ns,op=4,offset=5:bytes,size=6:bytes,device=3,header=no",
        )
    }

    /// Returns the mapping of the ASCII traces of DiskSim and MQSim: `time device sector sectors type`. In
    /// MQSim, type 1 is a read (its README); in DiskSim, the type is a field of flags, and bit 0 means a
    /// read. The time is the request's arrival time, in nanoseconds for MQSim and in milliseconds for
    /// DiskSim.
    pub fn disksim(time: TimeUnit) -> Mapping {
        let mapping = Mapping::known(
            "queued=1:ns,op=5:1-is-read,offset=3:sectors,size=4:sectors,device=2,delimiter=space,header=no",
        );
        Mapping { queued: Some((Column::Number(1), time)), ..mapping }
    }

    /// Returns the mapping of fonio's own CSV export.
    pub fn fonio() -> Mapping {
        Mapping::known(
            "queued=queued_ns:ns,inserted=inserted_ns:ns,issued=issued_ns:ns,completed=completed_ns:ns,op=op,\
             offset=sector:sectors,size=bytes:bytes,device=device,process=process,tid=tid,cpu=cpu",
        )
    }

    /// Parses a mapping that is part of this program.
    fn known(text: &str) -> Mapping {
        text.parse().expect("fonio's built-in mappings are valid")
    }

    /// Returns every column of the mapping, with the column's key.
    pub(super) fn columns(&self) -> Vec<(&'static str, &Column)> {
        let times = [
            ("queued", &self.queued),
            ("inserted", &self.inserted),
            ("issued", &self.issued),
            ("completed", &self.completed),
            ("latency", &self.latency),
        ];
        let plain = [
            ("event", &self.event),
            ("device", &self.device),
            ("process", &self.process),
            ("tid", &self.tid),
            ("cpu", &self.cpu),
        ];
        let mut columns = vec![("op", &self.op.0), ("offset", &self.offset.0), ("size", &self.size.0)];
        columns.extend(times.into_iter().filter_map(|(key, time)| Some((key, &time.as_ref()?.0))));
        columns.extend(plain.into_iter().filter_map(|(key, column)| Some((key, column.as_ref()?))));
        columns
    }
}

impl FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Mapping, MappingError> {
        let mut parts: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| MappingError::NoValue { part: part.to_owned() })?;
            let (key, value) = (key.trim(), value.trim());
            if !KEYS.contains(&key) {
                return Err(MappingError::UnknownKey { key: key.to_owned() });
            }
            if parts.iter().any(|(seen, _)| *seen == key) {
                return Err(MappingError::Twice { key: key.to_owned() });
            }
            parts.push((key, value));
        }
        let value = |key: &str| parts.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        let time =
            |key: &str| value(key).map(|text| with_unit(key, text, &TimeUnit::NAMES, None)).transpose();
        let plain = |key: &str| value(key).map(|text| column(key, text)).transpose();
        let needed = |key: &str, missing| value(key).ok_or(MappingError::Missing { missing });

        let offset = needed("offset", "the mapping needs `offset=COLUMN:UNIT`, where a request starts")?;
        let size = needed("size", "the mapping needs `size=COLUMN:UNIT`, the size of a request")?;
        let op = needed("op", "the mapping needs `op=COLUMN`, which says whether a request reads or writes")?;
        let mut issued = time("issued")?;
        if let Some(time) = time("time")? {
            if issued.is_some() {
                return Err(MappingError::Twice { key: "issued (`time` is the same)".into() });
            }
            issued = Some(time);
        }
        let mapping = Mapping {
            event: plain("event")?,
            queued: time("queued")?,
            inserted: time("inserted")?,
            issued,
            completed: time("completed")?,
            latency: time("latency")?,
            op: with_unit("op", op, &OpWords::NAMES, Some(OpWords::Words))?,
            offset: with_unit("offset", offset, &SizeUnit::NAMES, None)?,
            size: with_unit("size", size, &SizeUnit::NAMES, None)?,
            device: plain("device")?,
            process: plain("process")?,
            tid: plain("tid")?,
            cpu: plain("cpu")?,
            delimiter: value("delimiter").map_or(Ok(Delimiter::Byte(b',')), delimiter)?,
            header: match value("header") {
                None | Some("yes") => true,
                Some("no") => false,
                Some(other) => return Err(not_allowed("header", other, "use `yes` or `no`")),
            },
        };
        if mapping.issued.is_none() && mapping.queued.is_none() && mapping.completed.is_none() {
            return Err(MappingError::Missing {
                missing: "the mapping needs a time: `time`, `queued`, `issued` or `completed`",
            });
        }
        let has_more = mapping.queued.is_some() || mapping.inserted.is_some() || mapping.completed.is_some();
        if mapping.event.is_some() && (mapping.issued.is_none() || has_more || mapping.latency.is_some()) {
            return Err(MappingError::Missing {
                missing: "with `event`, the mapping needs `time=COLUMN:UNIT` and no other time",
            });
        }
        let began = mapping.issued.is_some() || mapping.queued.is_some();
        if began && mapping.latency.is_some() && mapping.completed.is_some() {
            return Err(MappingError::Twice { key: "completed (also given by `latency`)".into() });
        }
        if mapping.latency.as_ref().is_some_and(|(_, unit)| *unit == TimeUnit::FileTime) {
            return Err(not_allowed("latency", "filetime", "a duration in file time has the unit `100ns`"));
        }
        if !mapping.header {
            for (key, column) in mapping.columns() {
                if let Column::Name(name) = column {
                    return Err(MappingError::NameWithoutHeader { key: key.into(), column: name.clone() });
                }
            }
        }
        Ok(mapping)
    }
}

fn not_allowed(key: &str, value: &str, allowed: impl Into<String>) -> MappingError {
    MappingError::Value { key: key.to_owned(), value: value.to_owned(), allowed: allowed.into() }
}

fn column(key: &str, text: &str) -> Result<Column, MappingError> {
    match text.parse() {
        Ok(0) => Err(not_allowed(key, text, "columns are counted from 1")),
        Ok(number) => Ok(Column::Number(number)),
        Err(_) if text.is_empty() => Err(not_allowed(key, text, "a column's name or number is missing")),
        Err(_) => Ok(Column::Name(text.to_owned())),
    }
}

/// Reads `COLUMN:UNIT`, or `COLUMN` alone if there is a `default`.
fn with_unit<U: Copy>(
    key: &str,
    text: &str,
    units: &[(&str, U)],
    default: Option<U>,
) -> Result<(Column, U), MappingError> {
    let names = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let (name, unit) = match (text.rsplit_once(':'), default) {
        (Some((name, unit)), _) => match units.iter().find(|(known, _)| *known == unit) {
            Some((_, unit)) => (name, *unit),
            None => {
                return Err(not_allowed(
                    key,
                    text,
                    format!("there is no unit `{unit}`; the units are {}", names()),
                ));
            }
        },
        (None, Some(default)) => (text, default),
        (None, None) => {
            let allowed = format!(
                "the unit is missing, as in `{key}={text}:{}`; the units are {}",
                units[0].0,
                names()
            );
            return Err(not_allowed(key, text, allowed));
        }
    };
    Ok((column(key, name)?, unit))
}

fn delimiter(text: &str) -> Result<Delimiter, MappingError> {
    match text {
        "comma" => Ok(Delimiter::Byte(b',')),
        "semicolon" => Ok(Delimiter::Byte(b';')),
        "tab" | "\\t" => Ok(Delimiter::Byte(b'\t')),
        "space" | "blanks" => Ok(Delimiter::Blanks),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii_punctuation() && *byte != b'"' => Ok(Delimiter::Byte(*byte)),
            _ => Err(not_allowed(
                "delimiter",
                text,
                "use a punctuation mark, `comma`, `semicolon`, `tab` or `space` (any number of blanks)",
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use fonio_testing::cases::lines;

    use super::*;

    #[test]
    fn a_whole_mapping() {
        let mapping: Mapping =
            "time=ts:ms, op=rw:0-is-read,offset=3:sectors,size=len:bytes,latency=lat:us,device=dev,delimiter=;"
                .parse()
                .expect("it is right");
        assert_eq!(mapping.issued, Some((Column::Name("ts".into()), TimeUnit::Milliseconds)));
        assert_eq!(mapping.op, (Column::Name("rw".into()), OpWords::ZeroIsRead));
        assert_eq!(mapping.offset, (Column::Number(3), SizeUnit::Sectors));
        assert_eq!(mapping.delimiter, Delimiter::Byte(b';'));
        assert!(mapping.header);
    }

    #[test]
    fn errors_name_key_value_and_what_is_allowed() {
        let error = |text: &str| text.parse::<Mapping>().expect_err("it is wrong").to_string();
        let file = expect_file!["mapping_errors.txt"];
        file.assert_eq(&lines(&file.data(), error));
    }
}
