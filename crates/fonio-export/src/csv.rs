//! Exports `requests.parquet` as CSV with a header. Times are in nanoseconds, flags are joined with `|`,
//! cells of unknown values are empty, and each thread has the name that it had at the time of the request.
//! `Mapping::fonio` of `fonio-trace` reads this format.

use std::fmt::Display;
use std::io::{self, Write};

use fonio_core::{Flags, Request, RowSink, Thread, Timestamp, ignore_rows};

use crate::names::Names;

const HEADER: &str = "request_id,device,op,flags,flags_known,sector,bytes,queued_ns,inserted_ns,issued_ns,reissued_ns,\
    completed_ns,requeues,cpu,tid,process,cause_tid,file_id,content,ioprio,error";

/// Writes requests as CSV.
pub struct CsvExport<W> {
    to: W,
    names: Names,
}

impl<W: Write> CsvExport<W> {
    /// Creates an export to `to` and writes the CSV header. Returns errors of writing to `to`.
    pub fn new(mut to: W) -> io::Result<CsvExport<W>> {
        writeln!(to, "{HEADER}")?;
        Ok(CsvExport { to, names: Names::default() })
    }

    /// Returns the number of names of threads that were left out, because there are too many.
    pub fn left_out(&self) -> u64 {
        self.names.left_out
    }

    /// Writes all buffered data and returns the output. Returns errors of writing to the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

impl<W: Write> RowSink for CsvExport<W> {
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.names.add(row);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let to = &mut self.to;
        write!(to, "{},{},{},", row.request_id, row.device, row.op.name())?;
        flags(to, row.flags)?;
        to.write_all(b",")?;
        flags(to, row.flags_known)?;
        let nanos = |time: Option<Timestamp>| time.map(|time| time.0);
        cell(to, row.sector.map(|sector| sector.0))?;
        cell(to, Some(row.bytes.0))?;
        for time in [row.queued, row.inserted, row.issued, row.reissued, row.completed] {
            cell(to, nanos(time))?;
        }
        cell(to, row.requeues)?;
        cell(to, row.cpu)?;
        cell(to, row.tid)?;
        to.write_all(b",")?;
        if let Some(comm) = row.tid.and_then(|tid| self.names.comm(tid, row.order_time())) {
            text(to, comm)?;
        }
        cell(to, row.cause_tid)?;
        cell(to, row.file_id)?;
        cell(to, Some(row.content.name()))?;
        cell(to, row.ioprio)?;
        cell(to, row.error)?;
        to.write_all(b"\n")
    }

    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled
    }

    fn wants_bios(&self) -> bool {
        false
    }
}

fn cell<T: Display>(to: &mut impl Write, value: Option<T>) -> io::Result<()> {
    match value {
        Some(value) => write!(to, ",{value}"),
        None => to.write_all(b","),
    }
}

fn flags(to: &mut impl Write, flags: Flags) -> io::Result<()> {
    let set = Flags::NAMES.iter().filter(|(flag, _)| flags.contains(*flag));
    for (at, (_, name)) in set.enumerate() {
        write!(to, "{}{name}", if at > 0 { "|" } else { "" })?;
    }
    Ok(())
}

/// Writes a text, quoted if CSV requires this. Newlines become blanks, because fonio's CSV reader treats each
/// line as a row.
fn text(to: &mut impl Write, text: &str) -> io::Result<()> {
    if !text.contains(['"', ',', '\n', '\r']) && text.trim() == text && !text.starts_with('#') {
        return to.write_all(text.as_bytes());
    }
    write!(to, "\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
}
