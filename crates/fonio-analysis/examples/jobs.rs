//! The steps from a trace to an analysis, for `cargo xtask bench`. Arguments: the step, then the files of a trace.
//!
//! - `read`: recognise the format, read the trace, and assemble its events into requests. Prints the numbers of
//!   requests and of block events. For the folder of a recording: read the requests.
//! - `report`: the same; also sort the requests, analyse them, and print the analysis as JSON.
//!
//! Everything runs on one thread, so that the number of executed instructions is the same in each run.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::meta::{Clock, Source};
use fonio_core::{
    Batch, DeviceId, Meta, Request, RowSink, Timestamp, TraceReader, forward_rows, ignore_rows,
};
use fonio_recording::{Recording, Table, Tables};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let step = words.next().ok_or("name a step: read or report")?;
    let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let printed = match step.as_str() {
        "read" => {
            let mut count = Count::default();
            let events = match paths.as_slice() {
                [recording] if recording.is_dir() => {
                    Recording::open(recording)?.replay(&mut count, Tables::NONE.with(Table::Requests))?;
                    count.0
                }
                _ => pour(&paths, &mut count)?.1,
            };
            format!("{} {events}", count.0)
        }
        "report" => {
            let mut sorted =
                Sorted { analyser: Analyser::new(AnalysisOptions::default()), waiting: Vec::new() };
            let (meta, _) = pour(&paths, &mut sorted)?;
            sorted.give(None)?;
            serde_json::to_string(&sorted.analyser.finish(&meta))?
        }
        _ => return Err(format!("`{step}` is not a step: read or report").into()),
    };
    writeln!(io::stdout(), "{printed}")?;
    Ok(())
}

/// Passes the rows of a trace to `sink`. Returns the facts of the trace, and the number of its block events.
fn pour(paths: &[PathBuf], sink: &mut dyn RowSink) -> Outcome<(Meta, u64)> {
    let inputs = paths.iter().map(|path| input(path)).collect::<io::Result<Vec<Input>>>()?;
    let mut reader = Counted { reader: open(inputs, &ReadOptions::default())?, events: 0 };
    let meta = assemble(&mut reader, AssemblerOptions::default(), sink)?;
    Ok((meta, reader.events))
}

fn input(path: &Path) -> io::Result<Input> {
    let mut input = Input::new(path.display().to_string(), Box::new(File::open(path)?));
    input.file = Some(Box::new(File::open(path)?));
    Ok(input)
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

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        self.reader.device_names()
    }

    fn may_show_waits(&self) -> bool {
        self.reader.may_show_waits()
    }
}

/// Counts requests.
#[derive(Default)]
struct Count(u64);

impl RowSink for Count {
    fn request(&mut self, _: &Request) -> io::Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn wants_bios(&self) -> bool {
        false
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

/// Passes requests to the analyser in table order. fonio uses the sequencer of `fonio-recording` for this; that
/// crate's dependencies would take minutes to compile.
struct Sorted {
    analyser: Analyser,
    waiting: Vec<Request>,
}

/// Number of requests that are sorted together.
const SORTED: usize = 4096;

impl Sorted {
    fn give(&mut self, before: Option<Timestamp>) -> io::Result<()> {
        let is_due = |row: &Request| before.is_none_or(|before| row.order_time() < before);
        let mut due: Vec<(Timestamp, u64, usize)> = (self.waiting.iter().enumerate())
            .filter(|(_, row)| is_due(row))
            .map(|(at, row)| (row.order_time(), row.request_id, at))
            .collect();
        due.sort_unstable();
        due.iter().try_for_each(|&(_, _, at)| self.analyser.request(&self.waiting[at]))?;
        self.waiting.retain(|row| !is_due(row));
        Ok(())
    }
}

impl RowSink for Sorted {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.waiting.push(row.clone());
        Ok(())
    }

    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        if self.waiting.len() < SORTED { Ok(()) } else { self.give(Some(before)) }
    }

    fn wants_bios(&self) -> bool {
        false
    }

    forward_rows!(analyser: began, bio, link, wait, blocked_count, call, statement, file, thread, sample, mark, diagnostic);
}
