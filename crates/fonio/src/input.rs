//! Determines the input that the user named: a recording, or a foreign trace in one or more files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use fonio_core::{Meta, Nanos, RowSink};
use fonio_recording::{Recording, Sequencer, SequencerOptions, Table, Tables, hand_over, is_recording};
use fonio_system::say;
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};
use fonio_watch::Kept;
use fonio_watch::stall_file::is_kept;

use crate::cli::Reading;
use crate::last;
use crate::progress::{Done, Progress};

/// An input from which fonio reads rows.
pub enum Subject {
    /// A recording made by fonio.
    Recording(Box<Recording>),
    /// A kept stall of a watch, with its path.
    Kept(Box<Kept>, PathBuf),
    /// A trace recorded by another program.
    Trace(Trace),
}

/// The files of a trace recorded by another program.
pub struct Trace {
    paths: Vec<PathBuf>,
}

impl Subject {
    /// Determines whether `paths` are one recording or the files of one trace.
    pub fn resolve(paths: &[PathBuf]) -> Result<Subject> {
        if let [path] = paths {
            let path = &last::resolve(path)?;
            if path.is_dir() {
                return Subject::resolve_dir(path);
            }
            if path != Path::new("-") && !path.exists() {
                let set = per_cpu_files(path)?;
                if set.is_empty() {
                    bail!("{}: no such file, and no {}.blktrace.0", path.display(), path.display());
                }
                return Ok(Subject::Trace(Trace { paths: set }));
            }
            if path != Path::new("-") && is_kept(path) {
                return Ok(Subject::Kept(Box::new(Kept::read(path)?), path.clone()));
            }
            if let Some(set) = whole_set(path)? {
                say!(
                    "{} is one of {} files, one for each processor; fonio reads all of them.",
                    path.display(),
                    set.len()
                );
                return Ok(Subject::Trace(Trace { paths: set }));
            }
            return Ok(Subject::Trace(Trace { paths: vec![path.clone()] }));
        }
        for path in paths {
            if path != Path::new("-") && (path.is_dir() || is_kept(path)) {
                let what = if path.is_dir() { "a directory" } else { "a stall that the watch kept" };
                let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                bail!(
                    "{} is {what}; several inputs must be the files of one trace. Read one recording or stall at a \
                     time, or compare them: `fonio compare {}`",
                    path.display(),
                    all.join(" ")
                );
            }
            if path != Path::new("-") && !path.exists() {
                bail!("{}: there is no such file", path.display());
            }
        }
        Ok(Subject::Trace(Trace { paths: paths.to_vec() }))
    }

    fn resolve_dir(dir: &Path) -> Result<Subject> {
        if is_recording(dir) {
            return Ok(Subject::Recording(Box::new(Recording::open(dir)?)));
        }
        let mut prefixes: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir).with_context(|| format!("{} cannot be listed", dir.display()))? {
            let path = entry?.path();
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
            [] => bail!(
                "{} is neither a recording (meta.json and requests.parquet), nor a directory of per-CPU blktrace files, nor a \
                 CTF trace of LTTng (metadata and streams); \
                 to record its I/O, run `fonio check {}`",
                dir.display(),
                dir.display()
            ),
            [prefix] => Ok(Subject::Trace(Trace { paths: per_cpu_files(prefix)? })),
            several => {
                let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                bail!("{} contains several traces; name one of {}", dir.display(), names.join(", "))
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

    /// Passes every row to `sink`, with requests and bios in table order. If the machine has a second
    /// processor, a second thread reads a trace ahead of `sink`.
    pub fn pour(self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta> {
        match self {
            Subject::Recording(recording) => {
                let tables = if sink.wants_bios() {
                    Tables::ALL
                } else {
                    Tables::ALL.without(Table::Bios).without(Table::Links)
                };
                let _progress = Progress::phase("Reading the recording");
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
    pub fn pour_unordered(self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta> {
        match self {
            Subject::Trace(trace) => hand_over(sink, |sink| trace.read(reading, sink)),
            in_order => in_order.pour(reading, sink),
        }
    }
}

impl Trace {
    fn read(self, reading: &Reading, sink: &mut dyn RowSink) -> Result<Meta> {
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
            let open = || File::open(path).with_context(|| format!("{} cannot be opened", path.display()));
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
        if let [path] = &self.paths[..]
            && let Some(prefix) = per_cpu_prefix(path)
            && per_cpu_files(&prefix)?.len() > 1
        {
            say!(
                "note: reading the file of one CPU only; `{}` names the files of all CPUs",
                prefix.display()
            );
        }
        let _progress = Progress::of("Reading the trace", Done::Bytes(done, total));
        let mut reader = open(inputs, &ReadOptions { csv: reading.csv.clone(), format: reading.format })?;
        let horizon = Nanos(u64::try_from(reading.horizon.as_nanos()).unwrap_or(u64::MAX));
        let options = AssemblerOptions { horizon, ..AssemblerOptions::default() };
        Ok(assemble(reader.as_mut(), options, sink)?)
    }
}

/// The file of a CTF trace that describes its streams.
const METADATA: &str = "metadata";
/// Maximum depth of the folder of a CTF trace: a session of LTTng has `ust/uid/1000/64-bit`.
const CTF_DEPTH_MAX: u32 = 5;

/// Returns the files of the CTF trace in `dir`, the description first; `None` if there is none. A session of LTTng can have
/// several traces; if one is of the kernel, this one is returned.
fn ctf_files(dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let mut found = Vec::new();
    ctf_folders(dir, 0, &mut found);
    found.sort();
    let of_kernel: Vec<&PathBuf> =
        found.iter().filter(|path| path.file_name() == Some("kernel".as_ref())).collect();
    let folder = match (&found[..], &of_kernel[..]) {
        ([], _) => return Ok(None),
        ([only], _) => only,
        (_, [kernel]) => *kernel,
        (several, _) => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            bail!("{} contains several CTF traces; name one of {}", dir.display(), names.join(", "))
        }
    };
    let mut streams = Vec::new();
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be listed", folder.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(".");
        if name != METADATA && !name.starts_with('.') && path.is_file() {
            streams.push(path);
        }
    }
    streams.sort();
    Ok(Some(std::iter::once(folder.join(METADATA)).chain(streams).collect()))
}

/// Adds the folders with a description of a CTF trace in `dir`.
fn ctf_folders(dir: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let metadata = dir.join(METADATA);
    let is_ctf = metadata.is_file()
        && File::open(&metadata).is_ok_and(|file| {
            let mut head = Vec::new();
            file.take(64).read_to_end(&mut head).is_ok() && fonio_trace::ctf::recognise(&head)
        });
    if is_ctf {
        return found.push(dir.to_owned());
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if depth < CTF_DEPTH_MAX && path.is_dir() && !path.is_symlink() {
            ctf_folders(&path, depth + 1, found);
        }
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

/// Returns the common prefix of per-CPU trace files: `X` for `X.blktrace.3`.
fn per_cpu_prefix(path: &Path) -> Option<PathBuf> {
    let (prefix, cpu) = path.to_str()?.rsplit_once(".blktrace.")?;
    (!cpu.is_empty() && cpu.bytes().all(|letter| letter.is_ascii_digit())).then(|| prefix.into())
}

/// Returns all files of the trace of which `path` is a per-CPU file; `None` if it is the only one.
fn whole_set(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let Some(prefix) = per_cpu_prefix(path) else { return Ok(None) };
    let set = per_cpu_files(&prefix)?;
    Ok(Some(set).filter(|set| set.len() > 1))
}

/// Returns the per-CPU trace files `X.blktrace.0`, `X.blktrace.1`, … for the prefix `X`, ordered by number.
fn per_cpu_files(prefix: &Path) -> Result<Vec<PathBuf>> {
    let dir = match prefix.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let candidate = dir.join(&name);
        let Some(candidate_prefix) = per_cpu_prefix(&candidate) else { continue };
        if candidate_prefix.file_name() != prefix.file_name() {
            continue;
        }
        let cpu: Option<u32> =
            candidate.extension().and_then(|number| number.to_str()).and_then(|number| number.parse().ok());
        found.extend(cpu.map(|cpu| (cpu, candidate)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_names() {
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.10")), Some("a/x".into()));
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.")), None);
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.gz")), None);
    }

    #[test]
    fn the_folder_of_a_session_of_lttng() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("ust/uid/0/64-bit/metadata", "/* CTF 1.8 */");
        write("ust/uid/0/64-bit/c_1", "");
        write("ust/uid/0/64-bit/index/c_1.idx", "");
        write("other/metadata", "x");
        let names = || {
            let files = ctf_files(dir.path()).expect("they are listed").expect("a trace");
            let relative =
                |path: &PathBuf| path.strip_prefix(dir.path()).expect("within it").display().to_string();
            files.iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["ust/uid/0/64-bit/metadata", "ust/uid/0/64-bit/c_1"]);
        write("kernel/metadata", "\x57\x1d");
        assert_eq!(names().len(), 2);
        std::fs::write(dir.path().join("kernel/metadata"), [0x57, 0x1d, 0xd1, 0x75]).expect("a file");
        assert_eq!(names(), ["kernel/metadata"]);
        assert_eq!(ctf_files(&dir.path().join("other")).expect("it is listed"), None);
    }

    #[test]
    fn a_prefix_names_the_set_in_order_of_number() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in ["x.blktrace.10", "x.blktrace.2", "x.blktrace.0", "xy.blktrace.1", "x.blktrace.zip"] {
            std::fs::write(dir.path().join(name), b"").expect("a file");
        }
        let names: Vec<String> = per_cpu_files(&dir.path().join("x"))
            .expect("a list")
            .iter()
            .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["x.blktrace.0", "x.blktrace.2", "x.blktrace.10"]);

        let whole = |name: &str| whole_set(&dir.path().join(name)).expect("a list").map(|set| set.len());
        assert_eq!(whole("x.blktrace.2"), Some(3));
        assert_eq!(whole("xy.blktrace.1"), None);
        assert_eq!(whole("x.blktrace.zip"), None);
    }
}
