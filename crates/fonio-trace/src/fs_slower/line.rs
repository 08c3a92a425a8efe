//! The lines of ext4slower, its relatives, and fileslower.
//!
//! A header names the columns, which are always the same. The name of the program can have blanks or commas, and the name of
//! the file too, so the columns between them are found by their shape: a number, the letter of the operation, numbers.

use crate::csv::decimal;

/// The columns of the lines after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME`, with the time of day.
    Words,
    /// `TIME(s) COMM TID D BYTES LAT(ms) FILENAME` of fileslower, with the time since its start.
    OfFileslower,
    /// The table with commas (`-j` of bcc, `-c` of libbpf-tools). Its times are in this many nanoseconds.
    Commas { time_ns: u64 },
}

const WORDS: [&[u8]; 8] = [b"TIME", b"COMM", b"PID", b"T", b"BYTES", b"OFF_KB", b"LAT(ms)", b"FILENAME"];
const OF_FILESLOWER: [&[u8]; 7] = [b"TIME(s)", b"COMM", b"TID", b"D", b"BYTES", b"LAT(ms)", b"FILENAME"];
const COMMAS: &[u8] = b"TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE";

impl Layout {
    /// Returns the layout that a header announces; `None` if the line is another text.
    pub fn of(line: &[u8]) -> Option<Layout> {
        let line = line.trim_ascii();
        let commas = |begin: &[u8]| line.strip_prefix(begin) == Some(COMMAS);
        if commas(b"ENDTIME_us,") {
            return Some(Layout::Commas { time_ns: 1000 });
        }
        if commas(b"ENDTIME_ns,") {
            return Some(Layout::Commas { time_ns: 1 });
        }
        let words = || line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if words().eq(WORDS) {
            return Some(Layout::Words);
        }
        words().eq(OF_FILESLOWER).then_some(Layout::OfFileslower)
    }
}

/// The first line of the tools: which calls they print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traced {
    /// `ext4 operations`, `sync read/writes`.
    pub what: String,
    /// Only calls that took longer are in the text.
    pub slower_than_ms: Option<u64>,
}

impl Traced {
    /// Reads `Tracing ext4 operations slower than 10 ms` and similar lines.
    pub fn of(line: &[u8]) -> Option<Traced> {
        let rest = std::str::from_utf8(line).ok()?.trim().strip_prefix("Tracing ")?;
        let end =
            ["operations", "read/writes"].iter().find_map(|word| Some(rest.find(word)? + word.len()))?;
        let (what, rest) = rest.split_at(end);
        let limit = rest.strip_prefix(" slower than ").and_then(|rest| rest.split_once(" ms"));
        Some(Traced {
            what: what.to_owned(),
            slower_than_ms: limit.and_then(|(number, _)| number.parse().ok()).filter(|ms| *ms > 0),
        })
    }
}

/// The operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Open,
    Sync,
    Attributes,
}

impl Operation {
    fn of(letter: &[u8]) -> Option<Operation> {
        match letter {
            b"R" => Some(Operation::Read),
            b"W" => Some(Operation::Write),
            b"O" => Some(Operation::Open),
            b"S" | b"F" => Some(Operation::Sync),
            // nfsslower.
            b"G" => Some(Operation::Attributes),
            _ => None,
        }
    }

    /// Returns the name of the call. Which call of its kind it was, such as `pread64`, is unknown.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Open => "open",
            Operation::Sync => "fsync",
            Operation::Attributes => "getattr",
        }
    }
}

/// A call, as its line shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown<'l> {
    pub time: &'l [u8],
    pub comm: &'l [u8],
    pub pid: u32,
    pub operation: Operation,
    /// Number of bytes, or the result; `None` for the number that stands for a complete file.
    pub bytes: Option<i64>,
    /// Offset in the file in bytes, if the line has it exactly.
    pub offset: Option<u64>,
    pub latency_ns: u64,
    pub file: &'l [u8],
}

/// A cell of a line: its first byte, and the byte after it.
type Cell = (usize, usize);

/// Maximum number of cells of a line that are examined. A name of a program has at most 15 characters.
const CELLS_MAX: usize = 32;

/// Reads the line of a call; `None` if it is another text.
pub(super) fn parse(layout: Layout, line: &[u8]) -> Option<Shown<'_>> {
    let is_separator = |byte: u8| match layout {
        Layout::Commas { .. } => byte == b',',
        _ => byte == b' ' || byte == b'\t',
    };
    let is_empty_cell = matches!(layout, Layout::Commas { .. });
    let mut cells: Vec<Cell> = Vec::new();
    let mut begin = 0;
    for (at, byte) in line.iter().enumerate() {
        if is_separator(*byte) {
            if at > begin || is_empty_cell {
                cells.push((begin, at));
            }
            begin = at + 1;
            if cells.len() >= CELLS_MAX {
                break;
            }
        }
    }
    // The last cell has no separator after it, unless its name ends with one.
    if begin < line.len() && cells.len() < CELLS_MAX {
        cells.push((begin, line.len()));
    }
    let cell = |at: usize| cells.get(at).map(|(begin, end)| &line[*begin..*end]);
    // From the process id to the latency.
    let numbers = if layout == Layout::OfFileslower { 4 } else { 5 };
    (1..cells.len().checked_sub(numbers)? + 1).find_map(|at| {
        let pid: u32 = number(cell(at)?)?;
        let operation = Operation::of(cell(at + 1)?)?;
        let bytes = match cell(at + 2)? {
            b"LL_MAX" => None,
            text => Some(number(text)?),
        };
        let offset: Option<i64> = if numbers == 5 { Some(number(cell(at + 3)?)?) } else { None };
        let latency = cell(at + numbers - 1)?;
        let latency_ns = match layout {
            Layout::Commas { .. } => number::<u64>(latency)?.checked_mul(1000)?,
            // Numbers of other columns have no decimals.
            _ => decimal(Some(latency).filter(|text| text.contains(&b'.'))?, 1_000_000)?,
        };
        let comm = match at {
            1 => &[],
            _ => &line[cells[1].0..cells[at - 1].1],
        };
        let after = cells[at + numbers - 1].1 + 1;
        Some(Shown {
            time: cell(0)?,
            comm,
            pid,
            operation,
            bytes,
            offset: offset.filter(|_| is_empty_cell).and_then(|offset| u64::try_from(offset).ok()),
            latency_ns,
            file: line.get(after..).unwrap_or(&[]),
        })
    })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let is_number = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Returns the seconds since midnight of `06:35:01`.
pub(super) fn time_of_day(text: &[u8]) -> Option<u64> {
    let mut parts = text.split(|byte| *byte == b':').map(number::<u64>);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then(|| hours * 3600 + minutes * 60 + seconds)
}
