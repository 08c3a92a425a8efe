//! Determines what the user's paths are, and passes their rows on.

use std::path::{Path, PathBuf};

use fonio_core::{Meta, RowSink};
use fonio_recording::{Recording, Sequencer, SequencerOptions, Table, Tables, hand_over, is_recording};
use fonio_system::progress::Progress;
use fonio_watch::Kept;
use fonio_watch::stall_file::is_kept;

use crate::error::InputError;
use crate::files::{METADATA, ctf_files, per_cpu_files, per_cpu_prefix, unlistable, whole_set};
use crate::trace::{Reading, Trace};

/// An input from which fonio reads rows.
pub enum Subject {
    /// A recording made by fonio.
    Recording(Box<Recording>),
    /// A kept stall of a watch, with its path.
    Kept(Box<Kept>, PathBuf),
    /// A trace recorded by another program.
    Trace(Trace),
}

impl Subject {
    /// Determines whether `paths` are one recording, one kept stall, or the files of one trace. The path `-` is
    /// standard input. A trace is opened later, by [`pour`](Subject::pour).
    ///
    /// # Errors
    /// Fails if a path does not exist, if a folder contains neither a recording nor exactly one trace, or if a
    /// recording or kept stall is damaged.
    pub fn resolve(paths: &[PathBuf]) -> Result<Subject, InputError> {
        if let [path] = paths {
            if path.is_dir() {
                return Subject::resolve_dir(path);
            }
            if path != Path::new("-") && !path.exists() {
                let set = per_cpu_files(path)?;
                if set.is_empty() {
                    return Err(InputError::MissingSet { path: path.clone() });
                }
                return Ok(Subject::Trace(Trace { paths: set }));
            }
            if path != Path::new("-") && is_kept(path) {
                return Ok(Subject::Kept(Box::new(Kept::read(path)?), path.clone()));
            }
            let set = whole_set(path)?.unwrap_or_else(|| vec![path.clone()]);
            return Ok(Subject::Trace(Trace { paths: set }));
        }
        for path in paths {
            if path != Path::new("-") && (path.is_dir() || is_kept(path)) {
                let what = if path.is_dir() { "a directory" } else { "a stall that the watch kept" };
                let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                return Err(InputError::NotAlone { path: path.clone(), what, all: all.join(" ") });
            }
            if path != Path::new("-") && !path.exists() {
                return Err(InputError::Missing { path: path.clone() });
            }
        }
        Ok(Subject::Trace(Trace { paths: paths.to_vec() }))
    }

    fn resolve_dir(dir: &Path) -> Result<Subject, InputError> {
        if is_recording(dir) {
            return Ok(Subject::Recording(Box::new(Recording::open(dir)?)));
        }
        let mut prefixes: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(unlistable(dir))? {
            let path = entry.map_err(unlistable(dir))?.path();
            if let Some(prefix) = per_cpu_prefix(&path)
                && !prefixes.contains(&prefix)
            {
                prefixes.push(prefix);
            }
        }
        prefixes.sort();
        if prefixes.is_empty()
            && let Some(paths) = ctf_files(dir)?
        {
            return Ok(Subject::Trace(Trace { paths }));
        }
        match &prefixes[..] {
            [] => Err(InputError::NotAnInput { path: dir.to_owned() }),
            [prefix] => Ok(Subject::Trace(Trace { paths: per_cpu_files(prefix)? })),
            several => {
                let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                Err(InputError::Several { path: dir.to_owned(), kind: "", names: names.join(", ") })
            }
        }
    }

    /// Returns the name under which the input is displayed.
    pub fn name(&self) -> String {
        match self {
            Subject::Recording(recording) => recording.dir().display().to_string(),
            Subject::Kept(_, path) => path.display().to_string(),
            Subject::Trace(trace) => match &trace.paths[..] {
                [path] => path.display().to_string(),
                paths => {
                    let folder = paths.first().filter(|path| path.file_name() == Some(METADATA.as_ref()));
                    if let Some(folder) = folder.and_then(|path| path.parent()) {
                        return folder.display().to_string();
                    }
                    let first =
                        paths.first().map(|path| per_cpu_prefix(path).unwrap_or_else(|| path.clone()));
                    first.unwrap_or_default().display().to_string()
                }
            },
        }
    }

    /// Returns the number of files of a trace, if the user named only the file of one processor in `paths`.
    pub fn files_beyond(&self, paths: &[PathBuf]) -> Option<usize> {
        match (self, paths) {
            (Subject::Trace(trace), [path]) if trace.paths.len() > 1 && trace.paths.contains(path) => {
                Some(trace.paths.len())
            }
            _ => None,
        }
    }

    /// Passes every row to `sink`, with requests and bios in table order. If the machine has a second
    /// processor, a second thread reads a trace ahead of `sink`.
    ///
    /// # Errors
    /// Returns errors of the input and of `sink`.
    pub fn pour(&self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta, InputError> {
        match self {
            Subject::Recording(recording) => {
                let tables = if sink.wants_bios() {
                    Tables::ALL
                } else {
                    Tables::ALL.without(Table::Bios).without(Table::Links)
                };
                let _progress = reading.shows_progress.then(|| Progress::phase("Reading the recording"));
                recording.replay(sink, tables)?;
                Ok(recording.meta().clone())
            }
            Subject::Kept(kept, _) => Ok(kept.pour(sink)?),
            Subject::Trace(trace) => {
                // The reading thread also sorts the rows, which divides the work about equally.
                hand_over(sink, |sink| {
                    let mut sequencer = Sequencer::new(sink, SequencerOptions::default());
                    let meta = trace.read(reading, &mut sequencer)?;
                    sequencer.finish()?;
                    Ok(meta)
                })
            }
        }
    }

    /// Passes every row to `sink`, like [`pour`](Subject::pour), but unsorted: the sink sorts the rows.
    ///
    /// # Errors
    /// Returns errors of the input and of `sink`.
    pub fn pour_unordered(&self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta, InputError> {
        match self {
            Subject::Trace(trace) => hand_over(sink, |sink| trace.read(reading, sink)),
            in_order => in_order.pour(reading, sink),
        }
    }
}
