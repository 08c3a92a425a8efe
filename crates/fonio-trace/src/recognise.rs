//! Recognises a file's format by its content, and chooses the reader.

use std::io::{self, Read};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use flate2::read::MultiGzDecoder;
use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Diagnostic, Severity, TraceReader};
use thiserror::Error;

use crate::blkparse::{self, BlkparseReader};
use crate::blktrace::{self, BlktraceReader};
use crate::csv::{self, CsvError, CsvReader, Mapping, MappingError};
use crate::expansion;
pub use crate::format::Format;
use crate::ftrace_text::{self, FtraceReader};
use crate::input::Input;
use crate::perfetto::{self, PerfettoReader};
use crate::systrace::{self, SystraceReader};

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
    format!("{}, each also compressed with gzip", all.join(", "))
}

/// Returns the format of a file that starts with `head` (its first 64 KiB, or all of it); `None` if fonio
/// cannot read it.
pub fn recognise(head: &[u8]) -> Option<Format> {
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
    csv::recognise(head)
}

/// Chooses a reader for one trace in `inputs`: per-processor files of blktrace, or a single file of any other
/// format.
///
/// Gzip is unpacked first. Unless `options` give the format, the first nonempty input determines the format,
/// because the file of an idle processor is empty. Fails if the inputs cannot be read, or have an unsupported
/// format.
pub fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn TraceReader>, OpenError> {
    let mut damage = Vec::new();
    let mut opened = Vec::new();
    for input in inputs {
        let name = input.name.clone();
        let failed = |source| OpenError::Read { file: name.clone(), source };
        let (head, mut input) = peek(input).map_err(failed)?;
        let head = if head.starts_with(&[0x1f, 0x8b, 8]) {
            let noted = Arc::new(Mutex::new(None));
            damage.push((name.clone(), Arc::clone(&noted)));
            let packed = Counted { bytes: input.bytes, count: 0 };
            let inflated = Gunzip { decoder: MultiGzDecoder::new(packed), unpacked: 0, damage: noted };
            let (head, inner) =
                peek(Input { name: name.clone(), bytes: Box::new(inflated) }).map_err(failed)?;
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
    let format = match (options.format, &options.csv) {
        (Some(format), _) => format,
        (None, Some(_)) => Format::Csv,
        (None, None) => recognise(head).ok_or_else(|| unknown(&first.name, head))?,
    };
    if let Some((_, second)) = opened.get(1)
        && format != Format::Blktrace
    {
        return Err(OpenError::OneFile { format, first: first.name.clone(), second: second.name.clone() });
    }
    let (head, input) = opened.remove(0);
    let inner: Box<dyn TraceReader> = match format {
        Format::Blktrace => {
            let others = opened.into_iter().map(|(_, input)| input);
            Box::new(BlktraceReader::new(std::iter::once(input).chain(others).collect()))
        }
        Format::Blkparse => Box::new(BlkparseReader::new(input)),
        Format::Ftrace => Box::new(FtraceReader::new(input)),
        Format::Systrace => Box::new(SystraceReader::new(input)),
        Format::Perfetto => Box::new(PerfettoReader::new(input)),
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
    Ok(if damage.is_empty() { inner } else { Box::new(Compressed { inner, damage }) })
}

/// Returns the first bytes of an input, and the complete input, which contains these bytes too.
fn peek(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    (&mut input.bytes).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let bytes = Box::new(io::Cursor::new(head.clone()).chain(input.bytes));
    Ok((head, Input { name: input.name, bytes }))
}

/// The code and message of the diagnostic; set when decompression has failed.
type Damage = Arc<Mutex<Option<(&'static str, String)>>>;

/// A decompressed gzip stream that ends at the first damage. The data before the damage is returned.
struct Gunzip<R> {
    decoder: MultiGzDecoder<Counted<R>>,
    unpacked: u64,
    damage: Damage,
}

/// Counts the bytes read.
struct Counted<R> {
    bytes: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(to)?;
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let mut damage = self.damage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if damage.is_some() {
            return Ok(0);
        }
        match self.decoder.read(to) {
            Err(error) if matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
                *damage = Some((
                    "damaged-gzip",
                    format!("The gzip data is damaged or cut short ({error}); the rest is not read."),
                ));
                Ok(0)
            }
            Ok(count) => {
                self.unpacked += count as u64;
                if expansion::is_too_far(self.decoder.get_ref().count, self.unpacked) {
                    let found = expansion::describe("gzip data");
                    let message =
                        format!("{found}; the rest is not read. If it is a trace, unpack it first.");
                    *damage = Some(("expands-too-far", message));
                    return Ok(0);
                }
                Ok(count)
            }
            result => result,
        }
    }
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
    let (found, way_out) = foreign(head);
    OpenError::Unknown { file: file.to_owned(), found, way_out: way_out.to_owned() }
}

const CONVERT: &str = "Give fonio a trace in a format that it reads";

/// Returns the apparent kind of a file, and what the user can do with it.
fn foreign(head: &[u8]) -> (String, &'static str) {
    const DECOMPRESS: &str = "Decompress it first";
    let magics: [(&[u8], &str, &str); 15] = [
        (
            b"\x17\x08\x44tracing",
            "it is a trace.dat of trace-cmd",
            "Convert it: trace-cmd report trace.dat > trace.txt",
        ),
        (b"PERFILE2", "it is a perf.data", "Record with tracefs, blktrace or trace-cmd"),
        (b"PAR1", "it is a Parquet file", "Open a recording by its directory, not by a file in it"),
        (b"\x7fELF", "it is an ELF program", CONVERT),
        (b"SQLite format 3\0", "it is a SQLite database", CONVERT),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd", DECOMPRESS),
        (b"\xfd7zXZ", "it is compressed with xz", DECOMPRESS),
        (b"BZh", "it is compressed with bzip2", DECOMPRESS),
        (b"\x04\x22\x4d\x18", "it is compressed with lz4", DECOMPRESS),
        (b"PK\x03\x04", "it is a zip archive", DECOMPRESS),
        (b"7z\xbc\xaf\x27\x1c", "it is a 7-Zip archive", DECOMPRESS),
        (b"fio version ", "it is an iolog of fio, which has no completions", CONVERT),
        (b"\xff\xfe", "it is UTF-16 text, as PowerShell's `>` writes it", "Convert it to UTF-8"),
        (b"\xfe\xff", "it is UTF-16 text", "Convert it to UTF-8"),
        (b"\x1f\x8b", "it is compressed with gzip twice", DECOMPRESS),
    ];
    if head.is_empty() {
        return ("it is empty".into(), "Record again");
    }
    if let Some((_, found, way_out)) = magics.into_iter().find(|(magic, _, _)| head.starts_with(magic)) {
        return (found.into(), way_out);
    }
    if head.get(257..262) == Some(b"ustar") {
        return ("it is a tar archive".into(), "Unpack it first");
    }
    let text = head.iter().take(1024).all(|byte| *byte >= b' ' || b"\t\r\n\x1b".contains(byte));
    if text {
        let line =
            head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end().to_owned();
        (format!("it is text without known events that begins with `{}`", line.escape_debug()), CONVERT)
    } else {
        let bytes: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        (format!("it is binary and begins with the bytes {}", bytes.join(" ")), CONVERT)
    }
}
