//! Replays a trace of system calls. For each thread of the trace, the replay starts a thread that issues the
//! same calls at the recorded times.
//!
//! A replay has three phases: [`FilesBefore`] finds the files that must exist before the replay starts,
//! [`Trace::prepare`] creates these files, and one [`Replayer`] per thread issues the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fonio_system::regular;

use super::{Runner, file_error};
use crate::clock::monotonic_ns;
use crate::content::Content;
use crate::error::WorkloadError;
use crate::mobigen::{self, Call, Line, Target};
use crate::outcome::Amounts;

/// A system-call trace, ready to be replayed.
#[derive(Debug)]
pub(super) struct Trace {
    /// The system calls of each thread, in time order.
    threads: BTreeMap<u64, Vec<Line>>,
    /// Files that must exist before the replay starts, with their sizes in bytes.
    initial: BTreeMap<String, u64>,
    folders: BTreeSet<String>,
}

/// Maximum number of bytes of a trace. The longest traces of Mobibench have some 20 MB.
const TRACE_BYTES_MAX: u64 = 128 << 20;

/// Folders where virtual file systems are mounted; files in these folders are not on a flash device.
const NOT_FILES: &[&str] = &["proc/", "dev/", "sys/", "acct/"];

impl Trace {
    /// Reads a trace and keeps only its earliest calls: the share `scale` of all calls.
    pub(super) fn load(path: &Path, scale: f64) -> Result<Self, WorkloadError> {
        let text = regular::read_text(path, TRACE_BYTES_MAX)
            .map_err(|source| WorkloadError::Unreadable { path: path.to_owned(), source })?;
        let mut lines = mobigen::parse(&text, &path.display().to_string())?;
        lines.sort_by_key(|line| line.at_us);
        let kept = crate::scale::scaled(lines.len() as u64, scale.min(1.0)).min(lines.len() as u64);
        lines.truncate(kept as usize);
        Ok(Trace::new(lines))
    }

    fn new(lines: Vec<Line>) -> Self {
        let mut before = FilesBefore::default();
        let mut threads: BTreeMap<u64, Vec<Line>> = BTreeMap::new();
        for line in lines {
            before.add(&line);
            threads.entry(line.thread).or_default().push(line);
        }
        let names = before.initial.keys().chain(&before.created);
        let folders: BTreeSet<String> = names.flat_map(|name| ancestors(name)).map(str::to_owned).collect();
        // A trace does not show whether the path of a status call is a file or a folder.
        before.initial.retain(|name, _| !folders.contains(name));
        Trace { threads, initial: before.initial, folders }
    }

    /// Creates the folders and files that must exist before the replay starts.
    pub(super) fn prepare(&self, place: &Path, seed: u64) -> Result<(), WorkloadError> {
        for folder in &self.folders {
            super::make(&place.join(folder))?;
        }
        for (index, (name, &bytes)) in self.initial.iter().enumerate() {
            make_file(&place.join(name), bytes, seed.wrapping_add(index as u64))?;
        }
        Ok(())
    }

    /// Issues the trace's calls in one thread per traced thread. Returns the I/O amounts, summed over the
    /// threads.
    pub(super) fn run(
        &self,
        runner: &Runner,
        place: &str,
        must_stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Amounts, WorkloadError> {
        let directory = runner.place(place);
        let syncs = runner.options.overrides.syncs_place(place);
        let start_ns = monotonic_ns();
        let results: Vec<Result<Amounts, WorkloadError>> = thread::scope(|scope| {
            let spawn = |thread: u64, lines| {
                let mut replayer = Replayer::new(directory, syncs, thread, runner.options.pace, start_ns);
                thread::Builder::new()
                    .name(format!("replay-{thread}"))
                    .spawn_scoped(scope, move || replayer.run(lines, must_stop).map(|()| replayer.amounts))
                    .map_err(file_error("start a thread for", directory))
            };
            let handles: Vec<_> = self.threads.iter().map(|(&thread, lines)| spawn(thread, lines)).collect();
            let join = |handle: thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().map(|handle| handle.and_then(join)).collect()
        });
        let mut amounts = Amounts::default();
        for result in results {
            amounts += result?;
        }
        Ok(amounts)
    }
}

fn make_file(path: &Path, bytes: u64, seed: u64) -> Result<(), WorkloadError> {
    let file = File::create(path).map_err(file_error("make", path))?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < bytes {
        let length = (bytes - offset).min(buffer.len() as u64) as usize;
        Content::Random.fill(seed, offset, &mut buffer[..length]);
        file.write_all_at(&buffer[..length], offset).map_err(file_error("write", path))?;
        offset += length as u64;
    }
    Ok(())
}

/// Returns the name of an opened file, relative to the place of the replay; `None` if the file is not on the
/// device. The name of an unnamed file consists of its thread, its descriptor, and how many times the
/// descriptor was opened.
fn file_name(target: &Target, thread: u64, descriptor: i64, openings: u64) -> Option<String> {
    match target {
        Target::Named(path) if path == "." || NOT_FILES.iter().any(|prefix| path.starts_with(prefix)) => None,
        Target::Named(path) => Some(path.clone()),
        Target::Unnamed => Some(format!("unnamed/{thread}-{descriptor}-{openings}")),
    }
}

/// Returns the parent folders of a path: `a` and `a/b` for `a/b/c`.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// Finds the files that must exist before a replay, by following the trace's calls.
#[derive(Default)]
struct FilesBefore {
    initial: BTreeMap<String, u64>,
    /// Names of files that the trace creates before it uses them.
    created: BTreeSet<String>,
    /// Name and file position of each open file, by thread and descriptor; `None` if the file is not on the
    /// device.
    open: BTreeMap<(u64, i64), Option<(String, u64)>>,
    openings: BTreeMap<(u64, i64), u64>,
    /// The end of the written data of each file, in bytes.
    written: BTreeMap<String, u64>,
}

impl FilesBefore {
    fn add(&mut self, line: &Line) {
        match &line.call {
            Call::Open { target, flags, descriptor } if *descriptor >= 0 => {
                self.open(line.thread, *descriptor, target, flags.makes && *target != Target::Unnamed);
            }
            Call::Stat { path, found } | Call::Access { path, found }
                if *found && file_name(&Target::Named(path.clone()), 0, 0, 0).is_some() =>
            {
                self.exists(path, 0);
            }
            Call::Unlink { path, done: true } => {
                self.exists(path, 0);
                self.created.insert(path.clone());
                self.written.remove(path);
            }
            Call::Rename { from, to, done: true } => {
                self.exists(from, 0);
                self.created.insert(to.clone());
                let bytes =
                    self.written.remove(from).or_else(|| self.initial.get(from).copied()).unwrap_or(0);
                self.written.insert(to.clone(), bytes);
            }
            Call::Transfer { descriptor, offset, bytes, is_write } => {
                self.transfer(line.thread, *descriptor, *offset, *bytes, *is_write)
            }
            Call::Close { descriptor } => {
                self.open.remove(&(line.thread, *descriptor));
            }
            _ => {}
        }
    }

    fn open(&mut self, thread: u64, descriptor: i64, target: &Target, creates: bool) {
        let openings = self.openings.entry((thread, descriptor)).or_insert(0);
        *openings += 1;
        let name = file_name(target, thread, descriptor, *openings);
        if let Some(name) = &name {
            if creates && !self.initial.contains_key(name) {
                self.created.insert(name.clone());
            } else {
                self.exists(name, 0);
            }
        }
        self.open.insert((thread, descriptor), name.map(|name| (name, 0)));
    }

    /// Records that a file of at least `bytes` bytes existed, unless the trace itself created the file.
    fn exists(&mut self, name: &str, bytes: u64) {
        if self.created.contains(name) {
            return;
        }
        let initial = self.initial.entry(name.to_owned()).or_insert(0);
        *initial = (*initial).max(bytes);
    }

    fn transfer(&mut self, thread: u64, descriptor: i64, offset: Option<u64>, bytes: u64, writes: bool) {
        if !self.open.contains_key(&(thread, descriptor)) {
            self.open(thread, descriptor, &Target::Unnamed, false);
        }
        let Some(Some((name, position))) = self.open.get_mut(&(thread, descriptor)) else { return };
        let start = offset.unwrap_or(*position);
        if offset.is_none() {
            *position += bytes;
        }
        let end = start.saturating_add(bytes);
        let name = name.clone();
        let written = self.written.entry(name.clone()).or_insert(0);
        if writes {
            *written = (*written).max(end);
        } else if end > *written {
            self.exists(&name, end);
        }
    }
}

struct Replayer<'a> {
    directory: &'a Path,
    syncs: bool,
    thread: u64,
    pace: f64,
    start_ns: u64,
    /// The open files by descriptor; `None` if the file is not on the device.
    open: BTreeMap<i64, Option<OpenFile>>,
    openings: BTreeMap<i64, u64>,
    buffer: Vec<u8>,
    amounts: Amounts,
}

struct OpenFile {
    path: PathBuf,
    file: File,
    position: u64,
    /// Whether the descriptor refers to a folder. On folders, only sync and status calls are replayed.
    is_folder: bool,
}

impl<'a> Replayer<'a> {
    fn new(directory: &'a Path, syncs: bool, thread: u64, pace: f64, start_ns: u64) -> Self {
        Replayer {
            directory,
            syncs,
            thread,
            pace,
            start_ns,
            open: BTreeMap::new(),
            openings: BTreeMap::new(),
            buffer: Vec::new(),
            amounts: Amounts::default(),
        }
    }

    fn run(&mut self, lines: &[Line], must_stop: &dyn Fn() -> bool) -> Result<(), WorkloadError> {
        for line in lines {
            self.wait(line.at_us, must_stop)?;
            self.call(&line.call)?;
        }
        Ok(())
    }

    /// Waits until the recorded time of a call. Late calls are issued at once and do not delay later calls.
    fn wait(&mut self, at_us: u64, must_stop: &dyn Fn() -> bool) -> Result<(), WorkloadError> {
        let due_ns = self.start_ns + (at_us as f64 * 1000.0 * self.pace) as u64;
        loop {
            if must_stop() {
                return Err(WorkloadError::Stopped);
            }
            let now_ns = monotonic_ns();
            if now_ns >= due_ns {
                return Ok(());
            }
            let piece_ns = (due_ns - now_ns).min(100_000_000);
            self.amounts.think_ns += piece_ns;
            thread::sleep(Duration::from_nanos(piece_ns));
        }
    }

    /// Issues a call and counts it as replayed or left out.
    fn call(&mut self, call: &Call) -> Result<(), WorkloadError> {
        let is_replayed = match call {
            // The call failed in the trace, so it transferred no data.
            Call::Failed => false,
            Call::Open { descriptor, .. } if *descriptor < 0 => false,
            Call::Open { target, flags, descriptor } => {
                self.open(target, *descriptor, flags.truncate && *target != Target::Unnamed)?
            }
            Call::Close { descriptor } => self.open.remove(descriptor).flatten().is_some(),
            Call::Transfer { descriptor, offset, bytes, is_write } => {
                self.transfer(*descriptor, *offset, *bytes, *is_write)?
            }
            Call::Sync { descriptor, data_only } => self.sync(*descriptor, *data_only)?,
            Call::Truncate { descriptor, bytes } => self.truncate(*descriptor, *bytes)?,
            Call::StatDescriptor { descriptor } => self.stat_descriptor(*descriptor)?,
            Call::Stat { path, .. } | Call::Access { path, .. } => self.stat(path),
            Call::Unlink { path, done } => *done && self.unlink(path)?,
            Call::Rename { from, to, done } => *done && self.rename(from, to)?,
        };
        if is_replayed {
            self.amounts.calls_replayed += 1;
        } else {
            self.amounts.calls_left_out += 1;
        }
        Ok(())
    }

    /// Opens or creates a file. Like all call methods, returns false if the file is not on the device.
    fn open(&mut self, target: &Target, descriptor: i64, truncate: bool) -> Result<bool, WorkloadError> {
        let openings = self.openings.entry(descriptor).or_insert(0);
        *openings += 1;
        let Some(name) = file_name(target, self.thread, descriptor, *openings) else {
            self.open.insert(descriptor, None);
            return Ok(false);
        };
        let path = self.directory.join(name);
        if path.is_dir() {
            // SQLite opens folders to sync them.
            let file = File::open(&path).map_err(file_error("open", &path))?;
            self.open.insert(descriptor, Some(OpenFile { path, file, position: 0, is_folder: true }));
            return Ok(true);
        }
        let file = self.open_or_create(&path, truncate)?;
        self.open.insert(descriptor, Some(OpenFile { path, file, position: 0, is_folder: false }));
        Ok(true)
    }

    fn open_or_create(&mut self, path: &Path, truncate: bool) -> Result<File, WorkloadError> {
        let open = |create_only: bool| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .create_new(create_only)
                .truncate(truncate && !create_only)
                .open(path)
        };
        // Several threads can open a new file at the same time; only the thread that created the file counts
        // it.
        match open(true) {
            Ok(file) => {
                self.amounts.files_created += 1;
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open(false).map_err(file_error("open", path))
            }
            Err(source) => Err(file_error("open", path)(source)),
        }
    }

    /// Returns the open file of a descriptor; `None` if the file is not on the device. A descriptor that the
    /// trace did not open becomes an unnamed file.
    fn file(&mut self, descriptor: i64) -> Result<Option<&mut OpenFile>, WorkloadError> {
        if !self.open.contains_key(&descriptor) {
            self.open(&Target::Unnamed, descriptor, false)?;
        }
        Ok(self.open.get_mut(&descriptor).and_then(Option::as_mut))
    }

    /// Reads or writes a file; if `offset` is `None`, at the descriptor's position.
    fn transfer(
        &mut self,
        descriptor: i64,
        offset: Option<u64>,
        bytes: u64,
        is_write: bool,
    ) -> Result<bool, WorkloadError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(bytes as usize, 0);
        let Some(open) = self.file(descriptor)?.filter(|open| !open.is_folder) else { return Ok(false) };
        let at = offset.unwrap_or(open.position);
        let done = if is_write {
            Content::Random.fill(at, at & !7, &mut buffer);
            open.file.write_all_at(&buffer, at).map_err(file_error("write", &open.path))?;
            bytes
        } else {
            open.file.read_at(&mut buffer, at).map_err(file_error("read", &open.path))? as u64
        };
        if offset.is_none() {
            open.position += done;
        }
        self.buffer = buffer;
        let Amounts { file_writes, file_bytes_written, file_reads, file_bytes_read, .. } = &mut self.amounts;
        let (calls, moved) =
            if is_write { (file_writes, file_bytes_written) } else { (file_reads, file_bytes_read) };
        *calls += 1;
        *moved += done;
        Ok(true)
    }

    fn sync(&mut self, descriptor: i64, data_only: bool) -> Result<bool, WorkloadError> {
        let syncs = self.syncs;
        let Some(open) = self.file(descriptor)? else { return Ok(false) };
        if !syncs {
            self.amounts.syncs_skipped += 1;
            return Ok(true);
        }
        let done = if data_only { open.file.sync_data() } else { open.file.sync_all() };
        done.map_err(file_error("sync", &open.path))?;
        self.amounts.syncs += 1;
        Ok(true)
    }

    fn truncate(&mut self, descriptor: i64, bytes: u64) -> Result<bool, WorkloadError> {
        let Some(open) = self.file(descriptor)?.filter(|open| !open.is_folder) else { return Ok(false) };
        open.file.set_len(bytes).map_err(file_error("truncate", &open.path))?;
        Ok(true)
    }

    fn stat_descriptor(&mut self, descriptor: i64) -> Result<bool, WorkloadError> {
        let Some(open) = self.file(descriptor)? else { return Ok(false) };
        open.file.metadata().map_err(file_error("look at", &open.path))?;
        Ok(true)
    }

    /// Reads a file's status. A missing file is not an error, because the call may test for existence.
    fn stat(&self, path: &str) -> bool {
        let is_file = file_name(&Target::Named(path.to_owned()), 0, 0, 0).is_some();
        if is_file {
            let _ = fs::metadata(self.directory.join(path));
        }
        is_file
    }

    fn unlink(&mut self, path: &str) -> Result<bool, WorkloadError> {
        let path = self.directory.join(path);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.amounts.files_deleted += 1;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(file_error("delete", &path)(source)),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<bool, WorkloadError> {
        let (from, to) = (self.directory.join(from), self.directory.join(to));
        match fs::rename(&from, &to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(file_error("rename a file to", &to)(source)),
        }
    }
}
