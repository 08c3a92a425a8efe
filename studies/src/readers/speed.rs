//! The speed and the memory of each reader, for large files.
//!
//! A file is a real sample of the repository, repeated until it has the wanted size; each repetition is later than the one
//! before it. For formats without a real sample, the requests of the sample of blktrace are written in this format.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Op, Request, RowSink, TraceReader, ignore_rows};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::recognise::{Format, ReadOptions, open};
use fonio_trace::trace_dat::encode::Contents;
use xtask::results::{Cell, StudyResult};
use xtask::text_trace::later;

use super::perfetto::Trace;
use super::rows::{input, of_trace};
use crate::process;

pub const ID: &str = "readers-speed";
const TITLE: &str = "speed and memory of the readers of foreign traces";
const COLUMNS: [&str; 6] = [
    "format",
    "file",
    "requests",
    "per second of processor time",
    "block events per second of processor time",
    "peak memory",
];

/// The names under which this program runs as the process that writes a file, and as the measured process. A process that
/// starts another hands on its peak memory, so the writer, which needs gigabytes, must be another process.
pub const WRITE: &str = "write-trace";
pub const READ: &str = "read-trace";

/// Time between the repetitions of a sample: longer than each sample.
const PERIOD_NS: u64 = 100_000_000_000;

type Writer<'a> = &'a mut dyn Write;
/// Writes repetition `number` of a sample, and returns the number of bytes.
type Repeat = fn(&Samples, number: u64, to: Writer<'_>) -> io::Result<u64>;

const FORMATS: [(Format, Repeat); 11] = [
    (Format::Blktrace, |samples, number, to| samples.blktrace(number, to)),
    (Format::Blkparse, |samples, number, to| samples.text("takeoverjp-sample.blkparse.txt", number, to)),
    (Format::Ftrace, |samples, number, to| samples.text("ftrace-6.18.txt", number, to)),
    (Format::PerfScript, |samples, number, to| samples.text("perf-6.1.script.txt", number, to)),
    (Format::PerfData, |samples, number, to| samples.perf_data(number, to)),
    (Format::Systrace, |samples, number, to| {
        if number == 0 {
            to.write_all(b"TRACE:\n")?;
        }
        samples.text("ftrace-6.18.txt", number, to)
    }),
    (Format::Perfetto, |samples, number, to| samples.perfetto(number, to)),
    (Format::TraceDat, |samples, number, to| samples.trace_dat(number, to)),
    (Format::Biosnoop, |samples, number, to| samples.text("biosnoop.txt", number, to)),
    (Format::MsrCambridge, |samples, number, to| samples.msr(number, to)),
    (Format::Vscsi, |samples, number, to| samples.vscsi(number, to)),
];

/// Counts requests.
#[derive(Default)]
struct Count(u64);

impl RowSink for Count {
    fn request(&mut self, _: &Request) -> io::Result<()> {
        self.0 += 1;
        Ok(())
    }

    ignore_rows!(
        began,
        thread,
        bio,
        link,
        wait,
        blocked_count,
        call,
        statement,
        file,
        sample,
        mark,
        diagnostic,
        settled
    );
}

/// Writes a large trace of a format into a file.
pub fn run_write(words: &[String]) -> Result<()> {
    let [format, path, bytes, others] = words else {
        anyhow::bail!("only `cargo studies readers` runs this command")
    };
    let known = FORMATS.into_iter().find(|(known, _)| known.name() == format);
    let (format, repeat) = known.with_context(|| format!("no sample of the format {format}"))?;
    write(Path::new(path), bytes.parse()?, format, repeat, Path::new(others))
}

/// A reader, and the number of block events and complete requests that it gave.
struct Counted {
    reader: Box<dyn TraceReader>,
    events: u64,
}

impl TraceReader for Counted {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let more = self.reader.next_batch(batch)?;
        self.events += (batch.events.len() + batch.requests.len()) as u64;
        Ok(more)
    }

    fn source(&self) -> Source {
        self.reader.source()
    }

    fn clock(&self) -> Clock {
        self.reader.clock()
    }

    fn may_show_waits(&self) -> bool {
        self.reader.may_show_waits()
    }
}

/// Reads a trace, and writes the numbers of its requests and of its block events into a file.
pub fn run_read(words: &[String]) -> Result<()> {
    let [path, counted] = words else { anyhow::bail!("only `cargo studies readers` runs this command") };
    let mut count = Count::default();
    let reader = open(vec![input(Path::new(path))?], &ReadOptions::default())?;
    let mut reader = Counted { reader, events: 0 };
    assemble(&mut reader, AssemblerOptions::default(), &mut count)?;
    fs::write(counted, format!("{} {}", count.0, reader.events))
        .with_context(|| format!("cannot write {counted}"))
}

pub fn run(megabytes: u64, others: &Path, command: &str) -> Result<()> {
    let mut result = StudyResult::begin(ID, TITLE, command, &COLUMNS)?;
    let folder = process::scratch("readers")?;
    let this = std::env::current_exe()?;
    let mut is_complete = megabytes >= 1000;
    for (format, _) in FORMATS {
        process::check_signals()?;
        if format == Format::Perfetto && Trace::read(others)?.is_none() {
            println!("Skipped {format}: no sample in {} (see --samples)", others.display());
            is_complete = false;
            continue;
        }
        let path = folder.join(format!("large.{format}"));
        let most = (megabytes * 1_000_000).to_string();
        process::run(Command::new(&this).args([WRITE, format.name()]).arg(&path).arg(&most).arg(others))?;
        let bytes = fs::metadata(&path)?.len();
        let counted = folder.join("counted");
        let mut reading = Command::new(&this);
        let used = process::measure(reading.arg(READ).arg(&path).arg(&counted))?;
        fs::remove_file(&path)?;
        let text = fs::read_to_string(&counted)?;
        let (count, events) = text.split_once(' ').context("the process counted nothing")?;
        let (count, events): (u32, u64) = (count.parse()?, events.parse()?);
        let seconds = used.cpu.as_secs_f64();
        ensure!(count > 0, "no request of {format} was read");
        let cells = vec![
            Cell::once(bytes as f64 / 1e6, "MB", 0),
            Cell::count(count),
            Cell::once(bytes as f64 / 1e6 / seconds, "MB", 0),
            Cell::once(events as f64 / 1e6 / seconds, "million", 1),
            Cell::once(used.peak_bytes as f64 / f64::from(1 << 20), "MiB", 0),
        ];
        result.row(format!("`{format}`"), cells);
    }
    result.remark =
        "Recognition, reading and assembly into requests; the rows are counted and not kept.".to_owned();
    result.keep(is_complete)?;
    Ok(())
}

/// Writes repetitions until the file has this size.
fn write(path: &Path, most: u64, format: Format, repeat: Repeat, others: &Path) -> Result<()> {
    let samples = Samples::read(others)?;
    let create = || File::create(path).with_context(|| format!("cannot make {}", path.display()));
    let mut bytes = 0;
    if matches!(format, Format::PerfData | Format::TraceDat) {
        // The sizes of their parts are at the beginning.
        let mut repeated = Vec::new();
        let mut number = 0;
        while bytes < most {
            bytes += repeat(&samples, number, &mut repeated)?;
            number += 1;
        }
        let whole = if format == Format::PerfData {
            samples.perf_file(&repeated)?
        } else {
            samples.trace_dat_file(repeated)?
        };
        create()?.write_all(&whole)?;
        return Ok(());
    }
    let mut to = BufWriter::with_capacity(1 << 20, create()?);
    let mut number = 0;
    while bytes < most {
        bytes += repeat(&samples, number, &mut to)?;
        number += 1;
    }
    to.flush()?;
    Ok(())
}

/// The real samples.
struct Samples {
    tracefs: PathBuf,
    blktrace: Vec<u8>,
    perf: Vec<u8>,
    pages: [Vec<u8>; 2],
    /// The requests in the sample of blktrace, by issue, with service times.
    requests: Vec<Request>,
    texts: Vec<(&'static str, String)>,
    perfetto: Option<Trace>,
}

/// Where the parts of the sample of perf.data are.
struct PerfParts {
    data_at: usize,
    data_size: usize,
}

impl Samples {
    fn read(others: &Path) -> Result<Samples> {
        let crates = process::root().join("crates");
        let data = crates.join("fonio-trace/tests/data");
        let tracefs = crates.join("fonio-tracefs/tests/data/linux-6.18-x86_64");
        let read = |path: PathBuf| fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
        let blktrace = data.join("takeoverjp-sample.blktrace.0");
        let (rows, _) = of_trace(&blktrace)?;
        let mut requests: Vec<Request> =
            rows.requests.into_iter().filter(|row| row.service().is_some() && row.bytes.0 > 0).collect();
        requests.sort_by_key(|row| row.issued);
        let names =
            ["takeoverjp-sample.blkparse.txt", "ftrace-6.18.txt", "perf-6.1.script.txt", "biosnoop.txt"];
        let texts = names.map(|name| {
            let text = String::from_utf8_lossy(&read(data.join(name))?).into_owned();
            anyhow::Ok((name, text))
        });
        Ok(Samples {
            blktrace: read(blktrace)?,
            perf: read(data.join("perf-6.1.data"))?,
            pages: [read(tracefs.join("cpu0.pages"))?, read(tracefs.join("cpu1.pages"))?],
            requests,
            texts: texts.into_iter().collect::<Result<_>>()?,
            tracefs,
            perfetto: Trace::read(others)?,
        })
    }

    /// Writes a text with later times. Comments, headers and totals are written once.
    fn text(&self, name: &str, number: u64, to: Writer<'_>) -> io::Result<u64> {
        let text = self.texts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        let mut bytes = 0;
        for line in text.lines() {
            let later = later(line, number * (PERIOD_NS / 1_000_000_000));
            let line = match &later {
                Some(later) => later,
                None if number == 0 => line,
                None => continue,
            };
            writeln!(to, "{line}")?;
            bytes += line.len() as u64 + 1;
        }
        Ok(bytes)
    }

    fn blktrace(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        let mut rest = self.blktrace.as_slice();
        while let Some(record) = rest.get(..48) {
            let size = 48 + usize::from(u16::from_le_bytes([record[46], record[47]]));
            let mut record = rest[..size.min(rest.len())].to_vec();
            add(&mut record, 8, number * PERIOD_NS);
            to.write_all(&record)?;
            rest = &rest[record.len()..];
        }
        Ok(self.blktrace.len() as u64)
    }

    fn perf_parts(&self) -> PerfParts {
        PerfParts {
            data_at: number_at(&self.perf, 40) as usize,
            data_size: number_at(&self.perf, 48) as usize,
        }
    }

    fn perf_data(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        const SAMPLE: u32 = 9;
        let parts = self.perf_parts();
        let mut rest = &self.perf[parts.data_at..parts.data_at + parts.data_size];
        while let Some(header) = rest.first_chunk::<8>() {
            let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
            let mut record = rest[..size].to_vec();
            if u32::from_le_bytes([header[0], header[1], header[2], header[3]]) == SAMPLE {
                // After the identifier, the address, the process and the thread.
                add(&mut record, 8 + 24, number * PERIOD_NS);
            }
            to.write_all(&record)?;
            rest = &rest[size..];
        }
        Ok(parts.data_size as u64)
    }

    /// Returns the sample of perf.data with other records.
    fn perf_file(&self, data: &[u8]) -> Result<Vec<u8>> {
        let parts = self.perf_parts();
        let end = parts.data_at + parts.data_size;
        let mut file = self.perf[..parts.data_at].to_vec();
        file[48..56].copy_from_slice(&(data.len() as u64).to_le_bytes());
        file.extend(data);
        let mut behind = self.perf[end..].to_vec();
        let more = (data.len() - parts.data_size) as u64;
        let count =
            (0..4).map(|word| number_at(&self.perf, 72 + 8 * word).count_ones() as usize).sum::<usize>();
        (0..count).for_each(|part| add(&mut behind, 16 * part, more));
        file.extend(behind);
        Ok(file)
    }

    fn trace_dat(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        let mut bytes = 0;
        for pages in &self.pages {
            for page in pages.chunks_exact(4096) {
                // A page begins with its time.
                let mut page = page.to_vec();
                add(&mut page, 0, number * PERIOD_NS);
                to.write_all(&page)?;
                bytes += 4096;
            }
        }
        Ok(bytes)
    }

    /// Returns a trace.dat with these pages, in which the pages of both processors alternate.
    fn trace_dat_file(&self, pages: Vec<u8>) -> Result<Vec<u8>> {
        let text = |name: &str| fs::read_to_string(self.tracefs.join(name));
        let formats = text("formats")?;
        let formats = formats.split("name: ").skip(1).map(|rest| format!("name: {rest}")).collect();
        let (first, second) = (self.pages[0].len(), self.pages[1].len());
        let mut cpus = vec![Vec::new(), Vec::new()];
        for both in pages.chunks_exact(first + second) {
            cpus[0].extend_from_slice(&both[..first]);
            cpus[1].extend_from_slice(&both[first..]);
        }
        drop(pages);
        let contents = Contents {
            header_page: text("header_page")?,
            systems: vec![("block".into(), formats)],
            clock: "[mono]".into(),
            buffers: vec![(String::new(), "mono".into(), cpus)],
            page_bytes: 4096,
            chunk_pages: 1,
            packing: "none".into(),
            ..Contents::default()
        };
        Ok(contents.version_6())
    }

    fn perfetto(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        let mut bytes = Vec::new();
        if let Some(trace) = &self.perfetto {
            trace.write(number * PERIOD_NS, &mut bytes);
        }
        to.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    fn msr(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        /// The first time of the published traces, in units of 100 ns since 1601.
        const BEGAN: u64 = 128_166_372_003_061_629;
        let mut bytes = 0;
        for row in &self.requests {
            let (Some(issued), Some(service)) = (row.issued, row.service()) else { continue };
            let at = BEGAN + (issued.0 + number * PERIOD_NS) / 100;
            let op = if row.op == Op::Read { "Read" } else { "Write" };
            let offset = row.sector.unwrap_or_default().0 * 512;
            let line = format!("{at},hm,1,{op},{offset},{},{}\n", row.bytes.0, service.0 / 100);
            to.write_all(line.as_bytes())?;
            bytes += line.len() as u64;
        }
        Ok(bytes)
    }

    fn vscsi(&self, number: u64, to: Writer<'_>) -> io::Result<u64> {
        for row in &self.requests {
            let Some(issued) = row.issued else { continue };
            let code: u16 = if row.op == Op::Read { 0x28 } else { 0x2a };
            let mut record = 1_u32.to_le_bytes().to_vec();
            record.extend((row.bytes.0 as u32).to_le_bytes());
            record.extend(1_u32.to_le_bytes());
            record.extend(code.to_le_bytes());
            record.extend(0x100_u16.to_le_bytes());
            record.extend(row.sector.unwrap_or_default().0.to_le_bytes());
            record.extend(((issued.0 + number * PERIOD_NS) / 1000).to_le_bytes());
            to.write_all(&record)?;
        }
        Ok(32 * self.requests.len() as u64)
    }
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Adds to the number of eight bytes at this place, if the bytes are there.
fn add(bytes: &mut [u8], at: usize, more: u64) {
    let sum = number_at(bytes, at).wrapping_add(more);
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use fonio_testing::Need;

    use super::*;

    /// Each small file is recognised as its format, and its requests of each repetition are there.
    #[test]
    fn repeated_samples_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let others = process::root().join("../shared/traces/phones");
        let has_perfetto = Trace::read(&others).expect("it is read").is_some();
        if !has_perfetto {
            fonio_testing::skip_part(
                Need::Shared,
                format!("{} contains no Perfetto trace", others.display()),
            );
        }
        for (format, repeat) in FORMATS {
            if format == Format::Perfetto && !has_perfetto {
                continue;
            }
            let read = |bytes: u64| {
                let path = folder.path().join(format.name());
                write(&path, bytes, format, repeat, &others).expect("it is written");
                let mut count = Count::default();
                let mut reader = open(vec![input(&path).expect("it is there")], &ReadOptions::default())
                    .expect("it is read");
                let meta =
                    assemble(&mut *reader, AssemblerOptions::default(), &mut count).expect("it is read");
                assert_eq!(meta.source.format, format.name());
                count.0
            };
            let (small, large) = (read(1), read(4 << 20));
            assert!(small > 0 && large > 3 * small, "{format}: {small} {large}");
        }
    }
}
