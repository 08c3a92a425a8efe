//! Reads the files of a trace that another program recorded.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fonio_core::{Meta, Nanos, RowSink};
use fonio_system::progress::{Done, Progress};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::csv::Mapping;
use fonio_trace::input::Input;
use fonio_trace::recognise::{Format, ReadOptions, open};

use crate::error::InputError;

/// How traces are read. Recordings and kept stalls need no such settings.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format of the trace; `None` if fonio recognises it.
    pub format: Option<Format>,
    /// The columns of a CSV trace; `None` if fonio recognises them.
    pub csv: Option<Mapping>,
    /// The time after which a request without a completion counts as never completed.
    pub horizon: Nanos,
    /// Whether progress is shown on standard error.
    pub shows_progress: bool,
}

impl Default for Reading {
    fn default() -> Reading {
        let horizon = AssemblerOptions::default().horizon;
        Reading { format: None, csv: None, horizon, shows_progress: false }
    }
}

/// The files of a trace recorded by another program.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(crate) paths: Vec<PathBuf>,
}

impl Trace {
    /// Passes the rows of the trace to `sink`, in the order in which the assembler emits them.
    pub(crate) fn read(&self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta, InputError> {
        let done = Arc::new(AtomicU64::new(0));
        let mut total = Some(0);
        let mut inputs = Vec::new();
        for path in &self.paths {
            if path == Path::new("-") {
                total = None;
                let bytes = Counted { inner: io::stdin(), done: Arc::clone(&done) };
                inputs.push(Input::new("standard input", Box::new(bytes)));
                continue;
            }
            let open = || File::open(path).map_err(|source| InputError::Open { path: path.clone(), source });
            let file = open()?;
            let metadata = file.metadata()?;
            total = total.filter(|_| metadata.is_file()).map(|sum| sum + metadata.len());
            let bytes = Counted { inner: file, done: Arc::clone(&done) };
            let mut input = Input::new(path.display().to_string(), Box::new(bytes));
            if metadata.is_file() {
                // A second description of the same file, because each has its own position.
                input.file = Some(Box::new(Counted { inner: open()?, done: Arc::clone(&done) }));
            }
            inputs.push(input);
        }
        let _progress =
            reading.shows_progress.then(|| Progress::of("Reading the trace", Done::Bytes(done, total)));
        let mut reader = open(inputs, &ReadOptions { csv: reading.csv.clone(), format: reading.format })?;
        let options = AssemblerOptions { horizon: reading.horizon, ..AssemblerOptions::default() };
        Ok(assemble(reader.as_mut(), options, sink)?)
    }
}

struct Counted<R> {
    inner: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
