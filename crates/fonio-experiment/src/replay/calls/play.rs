//! Executes the calls of a sequence.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fonio_bench::aligned::Buffer;
use fonio_core::{ByteCount, FileFlags};
use fonio_host::set_own_io_class;
use rustc_hash::FxHashMap;
use rustix::fs::{FallocateFlags, OFlags, fallocate, syncfs};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::super::{Replayed, Shared};
use super::sequence::PIECE_MAX;
use super::{Act, Call, Sequence, file_name};

/// The flags of an open file that affect how long calls take.
const COSTLY: [(FileFlags, OFlags); 3] =
    [(FileFlags::DIRECT, OFlags::DIRECT), (FileFlags::DSYNC, OFlags::DSYNC), (FileFlags::SYNC, OFlags::SYNC)];
const OPEN_MAX: usize = 256;
const STACK_BYTES: usize = 256 << 10;

pub(in crate::replay) fn play(sequence: &Sequence, folder: &Path, fast: bool) -> io::Result<Replayed> {
    raise_open_files();
    let stage = Stage {
        folder,
        files: sequence.files.iter().map(|_| Shown::default()).collect(),
        shared: Shared::new(sequence.signals, fast),
    };
    let done = thread::scope(|scope| {
        let mut handles = Vec::new();
        for calls in &sequence.threads {
            let stage = &stage;
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            match thread.spawn_scoped(scope, move || stage.follow(calls)) {
                Ok(handle) => handles.push(handle),
                Err(error) => stage.shared.fail(error),
            }
        }
        let each = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        each.fold(Replayed::default(), |sum, (one, _)| Replayed {
            accesses: sum.accesses + one.accesses,
            bytes: ByteCount(sum.bytes.0 + one.bytes.0),
            short_reads: sum.short_reads + one.short_reads,
            ..sum
        })
    });
    stage.shared.into_failure().map_or(Ok(done), Err)
}

/// One of several sequences that are played at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) sequence: &'a Sequence,
    pub(crate) folder: &'a Path,
    /// The I/O class of the part's threads; `None` for the class of this process.
    pub(crate) io_class: Option<&'a str>,
}

/// What the threads of a part did, and how long their calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Felt {
    /// Number of calls.
    pub calls: u64,
    /// Number of bytes read and written.
    pub bytes: ByteCount,
    /// The time spent in calls, summed over all threads.
    pub in_calls: Duration,
    /// The longest call.
    pub longest: Duration,
    /// The time from the start to the end of the last call.
    pub took: Duration,
}

impl Felt {
    fn add(&mut self, (one, felt): (Replayed, Felt)) {
        self.calls += one.accesses;
        self.bytes.0 += one.bytes.0;
        self.in_calls += felt.in_calls;
        self.longest = self.longest.max(felt.longest);
        self.took = self.took.max(felt.took);
    }
}

/// The time until the threads of all parts have started.
const STARTING: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(10);

/// Plays several parts at the same time until the first part has ended, `within` has passed, or `stop` is set. Returns
/// what each part did until then. A call that is running is always finished.
pub(crate) fn play_together(
    parts: &[Part<'_>],
    within: Duration,
    stop: &AtomicBool,
) -> io::Result<Vec<Felt>> {
    raise_open_files();
    let began = Instant::now() + STARTING;
    let stages: Vec<Stage<'_>> = parts
        .iter()
        .map(|part| Stage {
            folder: part.folder,
            files: part.sequence.files.iter().map(|_| Shown::default()).collect(),
            shared: Shared { began, ..Shared::new(part.sequence.signals, false) },
        })
        .collect();
    let felt = thread::scope(|scope| {
        let mut started = Vec::new();
        for (part, stage) in parts.iter().zip(&stages) {
            let mut handles = Vec::new();
            for calls in &part.sequence.threads {
                let class = part.io_class;
                let work = move || {
                    if let Some(Err(error)) = class.map(set_own_io_class) {
                        stage.shared.fail(error);
                    }
                    stage.follow(calls)
                };
                match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => stage.shared.fail(error),
                }
            }
            started.push(handles);
        }
        let is_going = || {
            started.first().is_some_and(|first| first.iter().any(|thread| !thread.is_finished()))
                && began.elapsed() < within
                && !stop.load(Ordering::Relaxed)
        };
        while is_going() {
            thread::sleep(LOOK);
        }
        stages.iter().for_each(|stage| stage.shared.halt());
        let mut felt = Vec::new();
        for handles in started {
            let mut sum = Felt::default();
            for handle in handles {
                sum.add(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            felt.push(sum);
        }
        felt
    });
    match stages.into_iter().find_map(|stage| stage.shared.into_failure()) {
        Some(error) => Err(error),
        None => Ok(felt),
    }
}

/// Raises the limit of open files, because many threads can have many files open. If this fails, the first
/// call that exceeds the limit fails.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The state of a replayed file. All threads share this state.
#[derive(Debug, Default)]
struct Shown {
    /// A counter that increases each time the file is created again, so that later calls reopen it.
    generation: AtomicU64,
    is_renamed: AtomicBool,
}

struct Stage<'a> {
    folder: &'a Path,
    files: Vec<Shown>,
    shared: Shared,
}

impl Stage<'_> {
    fn follow(&self, calls: &[Call]) -> (Replayed, Felt) {
        let mut felt = Felt::default();
        let mut player = Player {
            stage: self,
            open: FxHashMap::default(),
            buffer: Buffer::default(),
            done: Replayed::default(),
        };
        let (mut began, mut ended) = (self.shared.began, self.shared.began);
        for call in calls {
            if !self.shared.wait(call.begins, (began, ended)) {
                break;
            }
            began = Instant::now();
            if let Err(error) = player.make(call) {
                let told = format!("{:?} of {}: {error}", call.act, file_name(call.file));
                self.shared.fail(io::Error::new(error.kind(), told));
                break;
            }
            ended = Instant::now();
            self.shared.signals.set(call.signal);
            player.done.accesses += 1;
            let took = ended - began;
            felt.in_calls += took;
            felt.longest = felt.longest.max(took);
            felt.took = ended.saturating_duration_since(self.shared.began);
        }
        (player.done, felt)
    }

    fn path(&self, file: usize) -> PathBuf {
        let mut name = file_name(file);
        if self.files[file].is_renamed.load(Ordering::Relaxed) {
            name.push_str("-renamed");
        }
        self.folder.join(name)
    }
}

/// A thread of the replay, which executes the calls of one recorded thread.
struct Player<'a> {
    stage: &'a Stage<'a>,
    open: FxHashMap<(usize, FileFlags), (u64, File)>,
    buffer: Buffer,
    done: Replayed,
}

impl Player<'_> {
    fn make(&mut self, call: &Call) -> io::Result<()> {
        match call.act {
            Act::Open { made, length } => self.open(call, made, length == Some(0)),
            Act::Read { offset, bytes } => self.read(call, offset, bytes),
            Act::Write { offset, bytes } => {
                self.done.bytes.0 += bytes;
                let mut buffer = std::mem::take(&mut self.buffer);
                let written = self.write(call, offset, bytes, &mut buffer);
                self.buffer = buffer;
                written
            }
            Act::Sync { data_only: false } => self.file(call)?.sync_all(),
            Act::Sync { data_only: true } => self.file(call)?.sync_data(),
            Act::SyncFilesystem => Ok(syncfs(File::open(self.stage.folder)?)?),
            Act::Allocate { offset, bytes } => {
                let file = self.file(call)?;
                // The mode of the recorded fallocate is unknown. If the range lies within the file, the call
                // makes a hole or changes nothing, so it is skipped.
                if bytes == 0 || offset.saturating_add(bytes) <= file.metadata()?.len() {
                    return Ok(());
                }
                match fallocate(file, FallocateFlags::empty(), offset, bytes) {
                    // The file system does not support this call; programs then continue without it.
                    Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
                    done => Ok(done?),
                }
            }
            Act::SetLength(length) => self.file(call)?.set_len(length),
            Act::Remove => gone_is_fine(fs::remove_file(self.stage.path(call.file))),
            Act::Rename => {
                let from = self.stage.path(call.file);
                self.stage.files[call.file].is_renamed.store(true, Ordering::Relaxed);
                let to = self.stage.path(call.file);
                if from == to { Ok(()) } else { gone_is_fine(fs::rename(from, to)) }
            }
        }
    }

    fn open(&mut self, call: &Call, made: bool, emptied: bool) -> io::Result<()> {
        let shown = &self.stage.files[call.file];
        if made {
            shown.is_renamed.store(false, Ordering::Relaxed);
            shown.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.open.remove(&self.key(call));
        let file = self.file(call)?;
        // `O_TRUNC` of an empty file changes nothing.
        if (made || emptied) && file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
            file.set_len(0)?;
        }
        Ok(())
    }

    fn read(&mut self, call: &Call, offset: u64, bytes: u64) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut got = 0;
        while got < bytes {
            let into = buffer.of((bytes - got).min(PIECE_MAX));
            match self.file(call)?.read_at(into, offset.saturating_add(got))? {
                0 => break,
                more => got += more as u64,
            }
        }
        self.done.short_reads += u64::from(got < bytes);
        self.done.bytes.0 += got;
        self.buffer = buffer;
        Ok(())
    }

    fn write(&mut self, call: &Call, offset: u64, bytes: u64, buffer: &mut Buffer) -> io::Result<()> {
        let file = self.file(call)?;
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(PIECE_MAX);
            file.write_all_at(buffer.of(piece), offset.saturating_add(done))?;
            done += piece;
        }
        Ok(())
    }

    fn key(&self, call: &Call) -> (usize, FileFlags) {
        let costly = COSTLY.iter().filter(|(flag, _)| call.flags.contains(*flag));
        (call.file, costly.fold(FileFlags::NONE, |all, (flag, _)| all | *flag))
    }

    /// Returns the open file that a call uses. Threads keep a removed file open until it is created again.
    fn file(&mut self, call: &Call) -> io::Result<&File> {
        let key = self.key(call);
        let generation = self.stage.files[call.file].generation.load(Ordering::Relaxed);
        if self.open.get(&key).is_none_or(|(opened, _)| *opened != generation) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let file = self.open_anew(call, key.1)?;
            self.open.insert(key, (generation, file));
        }
        Ok(&self.open[&key].1)
    }

    fn open_anew(&self, call: &Call, costly: FileFlags) -> io::Result<File> {
        if call.flags.contains(FileFlags::FOLDER) {
            return File::open(self.stage.folder);
        }
        let flags = COSTLY.iter().filter(|(flag, _)| costly.contains(*flag));
        let flags = flags.fold(OFlags::empty(), |all, (_, flag)| all | *flag);
        let flags = i32::try_from(flags.bits()).expect("flags are an int");
        let path = self.stage.path(call.file);
        OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
    }
}

/// Ignores an error that occurs because another thread has removed the file.
fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Nanos;
    use fonio_sim::engine::Begins;

    use super::super::{Before, prepare};
    use super::*;

    fn call(act: Act, file: usize) -> Call {
        Call { begins: Begins::AfterEnd(Nanos(0)), act, file, flags: FileFlags::NONE, signal: None }
    }

    #[test]
    fn files_are_as_the_calls_leave_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("replay");
        let chunks = crate::replay::Chunks::of_bytes(0, 6000);
        let there = Before { is_there: true, bytes: 5000, chunks, end: 6000, ..Before::default() };
        let folder_flags = FileFlags::FOLDER;
        let sequence = Sequence {
            files: vec![
                there,
                Before::default(),
                Before::default(),
                Before { is_folder: true, ..Before::default() },
            ],
            threads: vec![vec![
                call(Act::Read { offset: 4000, bytes: 1000 }, 0),
                call(Act::Write { offset: 5000, bytes: 1000 }, 0),
                call(Act::Sync { data_only: true }, 0),
                call(Act::Read { offset: 5500, bytes: 1000 }, 0),
                call(Act::Open { made: true, length: Some(0) }, 1),
                call(Act::Write { offset: 0, bytes: 100 }, 1),
                call(Act::Remove, 1),
                call(Act::Write { offset: 100, bytes: 100 }, 1),
                call(Act::Open { made: true, length: Some(0) }, 1),
                call(Act::Write { offset: 0, bytes: 7 }, 1),
                call(Act::Open { made: true, length: Some(0) }, 2),
                call(Act::Allocate { offset: 0, bytes: 300 }, 2),
                call(Act::Rename, 2),
                call(Act::Open { made: false, length: Some(300) }, 2),
                call(Act::SetLength(200), 2),
                Call { flags: folder_flags, ..call(Act::Sync { data_only: false }, 3) },
                call(Act::SyncFilesystem, 3),
                call(Act::Remove, 0),
                call(Act::Remove, 0),
            ]],
            ..Sequence::default()
        };
        prepare(&sequence, &folder).expect("it is prepared");
        assert_eq!(fs::metadata(folder.join("file-0")).expect("it is there").len(), 5000);
        let done = play(&sequence, &folder, false).expect("it replays");
        assert_eq!(
            done,
            Replayed {
                accesses: 19,
                bytes: ByteCount(2000 + 500 + 207),
                short_reads: 1,
                ..Replayed::default()
            }
        );
        let mut left: Vec<(String, u64)> = fs::read_dir(&folder)
            .expect("it is there")
            .map(|entry| entry.expect("it can be read"))
            .map(|entry| (entry.file_name().display().to_string(), entry.metadata().expect("a length").len()))
            .collect();
        left.sort();
        assert_eq!(left, [("file-1".to_owned(), 7), ("file-2-renamed".to_owned(), 200)]);
    }

    #[test]
    fn a_thread_goes_on_after_another_one_also_without_pauses() {
        let dir = tempfile::tempdir().expect("a folder");
        let after = |signal| Begins::AfterOther { signal, pause: Nanos(3600 * 1_000_000_000) };
        let lengths = |calls: &[(u64, Begins, Option<u32>)]| {
            let each = calls.iter();
            each.map(|(length, begins, signal)| Call {
                begins: *begins,
                signal: *signal,
                ..call(Act::SetLength(*length), 0)
            })
            .collect()
        };
        let at_once = Begins::AfterEnd(Nanos(0));
        let sequence = Sequence {
            files: vec![Before::default()],
            threads: vec![
                lengths(&[(3, after(1), None), (4, at_once, Some(2))]),
                lengths(&[(1, at_once, Some(0)), (5, after(2), None)]),
                lengths(&[(2, after(0), Some(1))]),
            ],
            signals: 3,
            ..Sequence::default()
        };
        let done = play(&sequence, dir.path(), true).expect("it replays");
        assert_eq!(done.accesses, 5);
        assert_eq!(fs::metadata(dir.path().join("file-0")).expect("it is there").len(), 5);
        // If a thread fails, the threads that wait for it must end too.
        let failing = Sequence {
            files: vec![Before::default()],
            threads: vec![lengths(&[(1, after(0), None)]), lengths(&[(u64::MAX, at_once, Some(0))])],
            signals: 1,
            ..Sequence::default()
        };
        play(&failing, dir.path(), false).expect_err("the file is shorter");
    }

    #[test]
    fn the_first_failure_names_call_and_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let sequence = Sequence {
            files: vec![Before::default()],
            threads: vec![vec![call(Act::SetLength(u64::MAX), 0)]],
            ..Sequence::default()
        };
        let error = play(&sequence, dir.path(), true).expect_err("the file is shorter");
        assert!(error.to_string().contains("SetLength") && error.to_string().contains("file-0"), "{error}");
    }
}
