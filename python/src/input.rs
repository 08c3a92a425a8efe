//! Opens recordings, traces and kept stalls.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use fonio_analysis::FilterOptions;
use fonio_core::{Nanos, RowSink};
use fonio_input::{InputError, Reading, Subject, explain};
use fonio_recording::{BatchSink, Table};
use pyo3::prelude::*;

use crate::error::{message, refused, wrong};
use crate::explained::Explained;
use crate::interrupt::interruptible;
use crate::stream::Stream;

/// An opened recording, trace or kept stall.
#[pyclass(frozen, module = "fonio._fonio")]
pub struct Input {
    subject: Arc<Subject>,
    reading: Arc<Reading>,
}

#[pymethods]
impl Input {
    /// Opens an input: one recording or kept stall, or the files of one trace.
    #[new]
    #[pyo3(signature = (paths, format = None, csv = None, horizon_ns = None))]
    fn new(
        paths: Vec<PathBuf>,
        format: Option<&str>,
        csv: Option<&str>,
        horizon_ns: Option<u64>,
    ) -> PyResult<Input> {
        let defaults = Reading::default();
        let reading = Reading {
            format: format.map(str::parse).transpose().map_err(refused)?,
            csv: csv.map(str::parse).transpose().map_err(refused)?,
            horizon: horizon_ns.map_or(defaults.horizon, Nanos),
            shows_progress: false,
        };
        Ok(Input {
            subject: Arc::new(Subject::resolve(&paths).map_err(refused)?),
            reading: Arc::new(reading),
        })
    }

    /// The name of the input in reports.
    #[getter]
    pub fn name(&self) -> String {
        self.subject.name()
    }

    /// `recording`, `stall` or `trace`.
    #[getter]
    fn kind(&self) -> &'static str {
        match *self.subject {
            Subject::Recording(_) => "recording",
            Subject::Kept(..) => "stall",
            Subject::Trace(_) => "trace",
        }
    }

    /// The metadata as JSON; `None` for a trace, whose metadata is known only after it has been read.
    fn meta(&self) -> Option<String> {
        let meta = match &*self.subject {
            Subject::Recording(recording) => recording.meta(),
            Subject::Kept(kept, _) => &kept.meta,
            Subject::Trace(_) => return None,
        };
        Some(serde_json::to_string(meta).expect("metadata is JSON"))
    }

    /// The names of all tables, each with its number of rows if this number is known without reading the table.
    fn tables(&self) -> Vec<(&'static str, Option<u64>)> {
        let rows = |table: Table| match &*self.subject {
            Subject::Recording(recording) => Some(recording.rows(table)),
            Subject::Kept(..) | Subject::Trace(_) => None,
        };
        Table::ALL.map(|table| (table.name(), rows(table))).to_vec()
    }

    /// Returns a table.
    fn table(&self, name: &str) -> PyResult<Stream> {
        let known = Table::ALL.into_iter().find(|table| table.name() == name);
        let table = known.ok_or_else(|| {
            let nearest = fonio_core::nearest(name, Table::ALL.map(Table::name));
            wrong(format!("there is no table `{name}`{nearest}"))
        })?;
        let (subject, reading) = (Arc::clone(&self.subject), Arc::clone(&self.reading));
        let schema = table.schema();
        Ok(Stream::new(Arc::clone(&schema), move || match &*subject {
            Subject::Recording(recording) => {
                let batches = recording.batches(table).map_err(refused)?;
                let batches = batches.map(|batch| batch.map_err(external));
                Ok(Box::new(RecordBatchIterator::new(batches, Arc::clone(&schema))))
            }
            Subject::Kept(..) | Subject::Trace(_) => Ok(Box::new(Poured {
                schema: Arc::clone(&schema),
                source: Source::Waiting(Arc::clone(&subject), Arc::clone(&reading), table),
            })),
        }))
    }

    /// Analyses the input. The lists and times are those of a filter.
    #[pyo3(signature = (devices, comms, tids, units, files, ops, from_ns = None, until_ns = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn explain(
        &self,
        py: Python<'_>,
        devices: Vec<String>,
        comms: Vec<String>,
        tids: Vec<u32>,
        units: Vec<String>,
        files: Vec<String>,
        ops: Vec<String>,
        from_ns: Option<u64>,
        until_ns: Option<u64>,
    ) -> PyResult<Explained> {
        let (from_ns, until_ns) = (from_ns.map(Nanos), until_ns.map(Nanos));
        let filter = FilterOptions { devices, comms, tids, units, files, ops, from_ns, until_ns };
        let filter = (!filter.is_empty()).then_some(filter);
        let work = |stop: &AtomicBool| explain(&self.subject, &self.reading, filter, stop, None);
        Ok(Explained::new(interruptible(py, work)?.map_err(refused)?))
    }
}

impl Input {
    /// Passes every row to `sink`.
    pub fn pour(&self, sink: &mut dyn RowSink) -> Result<(), InputError> {
        self.subject.pour(&self.reading, sink).map(drop)
    }
}

fn external(error: impl std::error::Error) -> ArrowError {
    ArrowError::ExternalError(message(&error).into())
}

/// The batches of a table of a trace or a kept stall. A thread reads the input, at most two batches ahead. It starts
/// with the first batch that is asked for, because some readers open a stream only for its columns.
struct Poured {
    schema: SchemaRef,
    source: Source,
}

enum Source {
    Waiting(Arc<Subject>, Arc<Reading>, Table),
    Running(Receiver<Result<RecordBatch, ArrowError>>),
}

/// Number of batches that can wait for their reader.
const BATCHES_AHEAD: usize = 2;

impl Iterator for Poured {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Source::Waiting(subject, reading, table) = &self.source {
            let (subject, reading, table) = (Arc::clone(subject), Arc::clone(reading), *table);
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            thread::spawn(move || {
                let gone = |_| io::Error::other("the table is no longer read");
                let mut sink = BatchSink::new(table, |batch| sender.send(Ok(batch)).map_err(gone));
                let poured = subject.pour(&reading, &mut sink).map(drop);
                let ended = poured.and_then(|()| Ok(sink.finish()?));
                if let Err(error) = ended {
                    // If nobody reads the table any longer, nobody needs the error.
                    let _ = sender.send(Err(external(error)));
                }
            });
            self.source = Source::Running(receiver);
        }
        match &self.source {
            Source::Running(receiver) => receiver.recv().ok(),
            Source::Waiting(..) => unreachable!("the thread was started above"),
        }
    }
}

impl RecordBatchReader for Poured {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
