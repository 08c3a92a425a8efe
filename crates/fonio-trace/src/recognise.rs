//! Recognises a file's format by its content, and chooses the reader.

use std::io::{self, Read};
use std::str::FromStr;

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, DeviceId, Diagnostic, Severity, TraceReader};
use thiserror::Error;

use crate::biosnoop::{self, BiosnoopReader};
use crate::blkparse::{self, BlkparseReader};
use crate::blktrace::{self, BlktraceReader};
use crate::completions::Completions;
use crate::csv::{self, CsvError, CsvReader, Mapping, MappingError};
use crate::ctf::{self, CtfReader};
use crate::fio_iolog::{self, FioIologReader};
use crate::fio_log::{self, FioLogReader};
use crate::foreign;
pub use crate::format::Format;
use crate::fs_slower::{self, FsSlowerReader};
use crate::ftrace_text::{self, FtraceReader};
use crate::input::Input;
use crate::perf_data::{self, PerfDataReader};
use crate::perfetto::{self, PerfettoReader};
use crate::refusal::Refusal;
use crate::systrace::{self, SystraceReader};
use crate::totals::{self, TotalsReader};
use crate::trace_dat::{self, TraceDatReader};
use crate::unpack::{Damage, Packing};
use crate::vscsi::{self, VscsiReader};

/// Number of bytes examined at the start of a file.
pub const HEAD_BYTES: usize = 64 * 1024;

/// An unknown format name.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no format `{name}`; use one of: {}", names())]
pub struct UnknownFormat {
    /// The unknown name.
    pub name: String,
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// What the user has stated about the input.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The columns of a CSV file. If set, the format is [`Format::Csv`] unless another format is given.
    pub csv: Option<Mapping>,
    /// The format of the input; `None` to recognise it by the content.
    pub format: Option<Format>,
}

/// No reader was found.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum OpenError {
    #[error("no input was given")]
    NoInput,
    #[error("{file}: the file cannot be read")]
    Read { file: String, source: io::Error },
    #[error("{file}: {found}. {way_out}. fonio reads {}.", accepted())]
    Unknown { file: String, found: String, way_out: String },
    #[error("{file}: {found}. {way_out}.")]
    Foreign { file: String, found: String, way_out: String },
    #[error(
        "{file}: a table with the columns {}; describe them with a column mapping such as `{example}`",
        .columns.join(", ")
    )]
    NeedsMapping { file: String, columns: Vec<String>, example: String },
    #[error("{file}: the column mapping does not fit")]
    Mapping { file: String, source: MappingError },
    #[error(
        "{second}: a trace in the format {format} is a single file; read {first} and this file separately"
    )]
    OneFile { format: Format, first: String, second: String },
}

fn accepted() -> String {
    let all = Format::ALL.map(Format::describe);
    format!("{}, each also compressed with gzip, zstd, xz or bzip2", all.join(", "))
}

/// Returns the format of a file that starts with `head` (its first 64 KiB, or all of it); `None` if fonio
/// cannot read it.
pub fn recognise(head: &[u8]) -> Option<Format> {
    if trace_dat::recognise(head) {
        return Some(Format::TraceDat);
    }
    if perf_data::recognise(head) {
        return Some(Format::PerfData);
    }
    if vscsi::recognise(head) {
        return Some(Format::Vscsi);
    }
    if ctf::recognise(head) {
        return Some(Format::Ctf);
    }
    // The first fields of a packet are stricter than the words of text, which a packet can contain.
    if perfetto::recognise(head) {
        return Some(Format::Perfetto);
    }
    if blktrace::recognise(head) {
        return Some(Format::Blktrace);
    }
    if blkparse::recognise(head) {
        return Some(Format::Blkparse);
    }
    if systrace::recognise(head) {
        return Some(Format::Systrace);
    }
    if ftrace_text::recognise(head) {
        return Some(Format::Ftrace);
    }
    if ftrace_text::recognise_perf(head) {
        return Some(Format::PerfScript);
    }
    if biosnoop::recognise(head) {
        return Some(Format::Biosnoop);
    }
    if fs_slower::recognise(head) {
        return Some(Format::FsSlower);
    }
    if fio_iolog::recognise(head) {
        return Some(Format::FioIolog);
    }
    if fio_log::recognise(head) {
        return Some(Format::FioLog);
    }
    if totals::recognise(head) {
        return Some(Format::Totals);
    }
    // A mapping can describe any table with a header, but a text of a known program is not such a table.
    csv::recognise(head).filter(|format| *format != Format::Csv || foreign::known(head).is_none())
}

/// Chooses a reader for one trace in `inputs`: per-processor files of blktrace, or a single file of any other
/// format.
///
/// Compressed inputs are unpacked first. Unless `options` give the format, the first nonempty input determines the format,
/// because the file of an idle processor is empty. Fails if the inputs cannot be read, or have an unsupported
/// format.
pub fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn TraceReader>, OpenError> {
    let mut packed = Vec::new();
    let mut opened = Vec::new();
    for input in inputs {
        let name = input.name.clone();
        let failed = |source| OpenError::Read { file: name.clone(), source };
        let (head, mut input) = peek(input).map_err(failed)?;
        let head = if let Some(packing) = Packing::of(&head) {
            let (unpacked, noted) = packing.unpack(input.bytes).map_err(failed)?;
            let (head, inner) = peek(Input::new(name.clone(), unpacked)).map_err(failed)?;
            let damage = noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            if let (true, Some((_, message))) = (head.is_empty(), damage) {
                let found = format!("nothing of it can be unpacked. {}", message.trim_end_matches('.'));
                let way_out = "Get the file again, or unpack it yourself".to_owned();
                return Err(OpenError::Foreign { file: name, found, way_out });
            }
            packed.push((name.clone(), noted));
            input = inner;
            head
        } else {
            head
        };
        opened.push((head, input));
    }
    let Some((head, first)) = opened.iter().find(|(head, _)| !head.is_empty()).or(opened.first()) else {
        return Err(OpenError::NoInput);
    };
    let first_name = first.name.clone();
    let format = match (options.format, &options.csv) {
        (Some(format), _) => format,
        (None, Some(_)) => Format::Csv,
        (None, None) => recognise(head).ok_or_else(|| unknown(&first.name, head))?,
    };
    if format == Format::Ctf {
        let reader = CtfReader::open(opened).map_err(|refusal| refused(first_name, refusal))?;
        let inner: Box<dyn TraceReader> = Box::new(reader);
        return Ok(if packed.is_empty() { inner } else { Box::new(Compressed { inner, damage: packed }) });
    }
    if let Some((_, second)) = opened.get(1)
        && format != Format::Blktrace
    {
        return Err(OpenError::OneFile { format, first: first_name, second: second.name.clone() });
    }
    let (head, input) = opened.remove(0);
    let inner: Box<dyn TraceReader> = match format {
        // Its files were taken together above.
        Format::Ctf => return Err(OpenError::NoInput),
        Format::Blktrace => {
            let others = opened.into_iter().map(|(_, input)| input);
            Box::new(BlktraceReader::new(std::iter::once(input).chain(others).collect()))
        }
        Format::Blkparse => Box::new(BlkparseReader::new(input)),
        Format::Ftrace => Box::new(FtraceReader::new(input)),
        Format::PerfScript => Box::new(FtraceReader::of_perf(input)),
        Format::Systrace => Box::new(SystraceReader::new(input)),
        Format::Perfetto => Box::new(PerfettoReader::new(input)),
        Format::PerfData => {
            let file = input.name.clone();
            Box::new(PerfDataReader::open(input).map_err(|refusal| refused(file, refusal))?)
        }
        Format::TraceDat => {
            let file = input.name.clone();
            Box::new(TraceDatReader::open(input).map_err(|refusal| refused(file, refusal))?)
        }
        Format::Vscsi => Box::new(VscsiReader::new(input)),
        Format::FioIolog => Box::new(FioIologReader::new(input)),
        Format::FioLog => {
            let file = input.name.clone();
            Box::new(FioLogReader::open(input, &head).map_err(|refusal| refused(file, refusal))?)
        }
        Format::Totals => Box::new(TotalsReader::new(input, &head)),
        Format::Biosnoop => Box::new(BiosnoopReader::new(input)),
        Format::FsSlower => Box::new(FsSlowerReader::new(input)),
        Format::MsrCambridge | Format::DiskSim | Format::Csv => {
            let mapping = match (&options.csv, format) {
                (Some(mapping), _) => mapping.clone(),
                (None, Format::MsrCambridge) => Mapping::msr_cambridge(),
                (None, Format::DiskSim) => Mapping::disksim(csv::disksim_unit(&head)),
                (None, _) => csv::own(&head).ok_or_else(|| needs_mapping(&input.name, &head))?,
            };
            let file = input.name.clone();
            Box::new(CsvReader::new(input, &mapping, format.name()).map_err(|error| match error {
                CsvError::Read(source) => OpenError::Read { file, source },
                CsvError::Mapping(source) => OpenError::Mapping { file, source },
            })?)
        }
    };
    let inner: Box<dyn TraceReader> = Box::new(Completions::new(inner));
    Ok(if packed.is_empty() { inner } else { Box::new(Compressed { inner, damage: packed }) })
}

/// Returns the error for a file that a reader refused.
fn refused(file: String, refusal: Refusal) -> OpenError {
    match refusal {
        Refusal::Read(source) => OpenError::Read { file, source },
        Refusal::Is { found, way_out } => OpenError::Foreign { file, found, way_out },
    }
}

/// Returns the first bytes of an input, and the complete input, which contains these bytes too.
fn peek(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    (&mut input.bytes).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let bytes = Box::new(io::Cursor::new(head.clone()).chain(input.bytes));
    Ok((head, Input { bytes, ..input }))
}

/// A reader of compressed files. After the last event, the reader reports where the compressed data was
/// damaged.
struct Compressed {
    inner: Box<dyn TraceReader>,
    damage: Vec<(String, Damage)>,
}

impl TraceReader for Compressed {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let more = self.inner.next_batch(batch)?;
        if !more {
            for (file, damage) in self.damage.drain(..) {
                let found = damage.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
                batch.diagnostics.extend(found.map(|(code, message)| Diagnostic {
                    severity: Severity::Error,
                    code: code.into(),
                    message,
                    file: Some(file),
                    record: None,
                    offset: None,
                    count: 1,
                }));
            }
        }
        Ok(more)
    }

    fn source(&self) -> Source {
        self.inner.source()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn may_show_waits(&self) -> bool {
        self.inner.may_show_waits()
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        self.inner.device_names()
    }
}

/// Returns the error for a table without a column mapping.
fn needs_mapping(file: &str, head: &[u8]) -> OpenError {
    let columns = csv::header(head).unwrap_or_default();
    let like = |words: &[&str], other: &'static str| {
        let found = columns.iter().find(|column| {
            let column = column.to_ascii_lowercase();
            words.iter().any(|word| column.contains(word))
        });
        found.map_or(other, String::as_str).to_owned()
    };
    let example = format!(
        "time={}:ms,op={},offset={}:bytes,size={}:bytes",
        like(&["time", "ts", "stamp"], "TIME"),
        like(&["op", "rw", "type", "cmd"], "OP"),
        like(&["offset", "lba", "sector", "addr", "pos"], "OFFSET"),
        like(&["size", "len", "bytes", "count"], "SIZE"),
    );
    OpenError::NeedsMapping { file: file.to_owned(), columns, example }
}

/// Returns the error for a file that starts with `head`.
fn unknown(file: &str, head: &[u8]) -> OpenError {
    let file = file.to_owned();
    if let Some((found, way_out)) = foreign::known(head) {
        return OpenError::Foreign { file, found: found.into(), way_out: way_out.into() };
    }
    let (found, way_out) = foreign::describe(head);
    OpenError::Unknown { file, found, way_out: way_out.to_owned() }
}
