//! Compares the buffer on real files with a model, which has a vector per file.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::{Buffer, Manager, Pending, Seen};
use crate::options::BufferOptions;
use crate::statistics::BufferStatistics;

const FILES: usize = 3;
/// The buffer is small, so that entries become full, no free entry is left, and inodes take entries from each
/// other.
const ENTRY_BYTES: usize = 4096;

#[derive(Clone, Debug)]
enum Step {
    // A write that begins where the file's previous write ended.
    Continue { file: usize, bytes: usize },
    Write { file: usize, offset: u64, bytes: usize },
    Settle { file: usize, offset: u64, bytes: u64 },
    Drain { file: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..FILES;
    let step = prop_oneof![
        6 => (file.clone(), 1..3 * ENTRY_BYTES).prop_map(|(file, bytes)| Step::Continue { file, bytes }),
        2 => (file.clone(), 0..40_000u64, 1..6000usize)
            .prop_map(|(file, offset, bytes)| Step::Write { file, offset, bytes }),
        2 => (file.clone(), 0..40_000u64, 1..9000u64)
            .prop_map(|(file, offset, bytes)| Step::Settle { file, offset, bytes }),
        1 => file.prop_map(|file| Step::Drain { file }),
    ];
    prop::collection::vec(step, 1..60)
}

struct Oracle {
    path: std::path::PathBuf,
    file: Arc<OwnedFd>,
    pending: Arc<Pending>,
    content: Vec<u8>,
    end: u64,
}

impl Oracle {
    fn new(dir: &Path, number: usize) -> Self {
        let path = dir.join(number.to_string());
        let file = File::create_new(&path).expect("the folder is new");
        Self { path, file: Arc::new(file.into()), pending: Arc::default(), content: Vec::new(), end: 0 }
    }

    fn write(&mut self, buffer: &Buffer, offset: u64, bytes: usize, seed: u8) {
        let data: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        buffer.write(&self.pending, &self.file, offset, &data).expect("the disk has space");
        let start = usize::try_from(offset).expect("offsets are small");
        self.content.resize(self.content.len().max(start + bytes), 0);
        self.content[start..start + bytes].copy_from_slice(&data);
        self.end = offset + bytes as u64;
    }

    fn check_below(&self, from: usize, to: usize) {
        let below = std::fs::read(&self.path).expect("it exists");
        let to = to.min(self.content.len());
        if from < to {
            assert_eq!(below.get(from..to), Some(&self.content[from..to]), "drained data are below");
        }
    }

    fn check_size(&self) {
        let below = std::fs::metadata(&self.path).expect("it exists").len();
        let pending = self.pending.end_and_time().map_or(0, |(end, _)| end);
        // These reads are in the opposite order to the reads in `FileSystem::attributes`, so a flush between
        // them could make `below` outdated.
        let below = below.max(std::fs::metadata(&self.path).expect("it exists").len());
        assert_eq!(below.max(pending), self.content.len() as u64, "wrong file size shown to users");
    }
}

fn run(steps: &[Step], options: BufferOptions) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let statistics = Arc::new(BufferStatistics::default());
    let buffer = Arc::new(Buffer::new(options, Arc::clone(&statistics), false).expect("memory"));
    let manager = Manager::start(&buffer).expect("a thread");
    let mut files: Vec<_> = (0..FILES).map(|number| Oracle::new(dir.path(), number)).collect();
    for (seed, step) in steps.iter().enumerate() {
        match *step {
            Step::Continue { file, bytes } => {
                let end = files[file].end;
                files[file].write(&buffer, end, bytes, seed as u8);
            }
            Step::Write { file, offset, bytes } => files[file].write(&buffer, offset, bytes, seed as u8),
            Step::Settle { file, offset, bytes } => {
                buffer.drain_range(&files[file].pending, offset, bytes);
                let from = usize::try_from(offset).expect("offsets are small");
                files[file].check_below(from, from + usize::try_from(bytes).expect("small"));
            }
            Step::Drain { file } => {
                buffer.drain(&files[file].pending);
                files[file].check_below(0, usize::MAX);
            }
        }
        for file in &files {
            if !options.thread {
                file.check_size();
            }
        }
    }
    drop(manager);
    for file in &files {
        assert_eq!(std::fs::read(&file.path).expect("it exists"), file.content);
        let mut seen = Seen::default();
        assert_eq!(file.pending.error_for(&mut seen), None);
    }
    assert_eq!(statistics.fill_bytes.get(), 0, "data are left in the buffer");
    assert_eq!(statistics.bytes_in.get(), statistics.flush_bytes.sum(), "all buffered bytes were flushed");
}

fn options(entries: usize, thread: bool, flush: Duration) -> BufferOptions {
    BufferOptions { bytes: entries * ENTRY_BYTES, entry_bytes: ENTRY_BYTES, flush, thread, direct: true }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn files_below_hold_what_was_written(steps in steps(), entries in 1usize..6, thread: bool) {
        run(&steps, options(entries, thread, Duration::from_micros(300)));
    }

    #[test]
    fn nothing_depends_on_the_interval(steps in steps(), entries in 1usize..4) {
        run(&steps, options(entries, true, Duration::from_secs(3600)));
    }
}

#[test]
fn several_writers_share_fewer_entries() {
    // With one entry and fast managers, writers wait for the entry while their inode is in the list without
    // pending data.
    for (entries, interval) in [(2, Duration::from_millis(1)), (1, Duration::ZERO)] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let buffer =
            Arc::new(Buffer::new(options(entries, true, interval), Arc::default(), false).expect("memory"));
        let manager = Manager::start(&buffer).expect("a thread");
        let mut files: Vec<_> = (0..8).map(|number| Oracle::new(dir.path(), number)).collect();
        std::thread::scope(|scope| {
            for (seed, file) in files.iter_mut().enumerate() {
                let buffer = &buffer;
                scope.spawn(move || {
                    for bytes in 1..400 {
                        let end = file.end;
                        file.write(buffer, end, bytes, seed as u8);
                    }
                });
            }
        });
        drop(manager);
        for file in &files {
            assert_eq!(std::fs::read(&file.path).expect("it exists"), file.content);
        }
    }
}

#[test]
fn each_handle_hears_of_an_error_once() {
    let full = File::options().write(true).open("/dev/full").expect("every Linux system has /dev/full");
    let statistics = Arc::new(BufferStatistics::default());
    let buffer = Buffer::new(options(4, false, Duration::from_secs(1)), Arc::clone(&statistics), false)
        .expect("memory");
    let (pending, full) = (Arc::new(Pending::default()), Arc::new(OwnedFd::from(full)));
    let mut first = pending.errors_now();
    let mut second = pending.errors_now();
    // `/dev/full` is full, but the file system that contains this device node is not, so the write is
    // buffered.
    assert_eq!(buffer.write(&pending, &full, 0, &[1; 100]), Ok(()));
    buffer.drain(&pending);
    assert_eq!(pending.error_for(&mut first), Some(Errno::NOSPC));
    assert_eq!(pending.error_for(&mut first), None);
    assert_eq!(pending.error_for(&mut second), Some(Errno::NOSPC));
    assert_eq!(pending.error_for(&mut pending.errors_now()), None);
    assert_eq!(statistics.lost_bytes.get(), 100);
}

/// Checks the length of the source file after each write of a stream, without management threads.
#[test]
fn full_entries_go_below_with_the_write_that_fills_them_and_others_stay() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let buffer =
        Buffer::new(options(4, false, Duration::from_secs(3600)), Arc::default(), false).expect("memory");
    let mut file = Oracle::new(dir.path(), 0);
    for (bytes, below) in [(3000, 0), (1000, 0), (96, 4096), (100, 4096), (4095, 8192), (5000, 12_288)] {
        file.write(&buffer, file.end, bytes, bytes as u8);
        assert_eq!(std::fs::metadata(&file.path).expect("it exists").len(), below, "after {}", file.end);
        file.check_below(0, usize::try_from(below).expect("small"));
    }
}

#[test]
fn data_younger_than_the_interval_stay_and_older_ones_go() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (number, (interval, below)) in
        [(Duration::from_secs(3600), 0), (Duration::ZERO, 100)].into_iter().enumerate()
    {
        let buffer =
            Arc::new(Buffer::new(options(4, true, interval), Arc::default(), false).expect("memory"));
        let manager = Manager::start(&buffer).expect("a thread");
        let mut file = Oracle::new(dir.path(), number);
        file.write(&buffer, 0, 100, 1);
        let length = || std::fs::metadata(&file.path).expect("it exists").len();
        // A manager that flushes at once does so within 50 ms. If a flush must happen, the test waits longer.
        std::thread::sleep(Duration::from_millis(50));
        let arrived = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(if length() < below { 10 } else { 0 }));
            length() >= below
        });
        assert!(arrived && length() == below, "{interval:?}: {} bytes are below", length());
        drop(manager);
        file.check_below(0, 100);
    }
}

/// A small tmpfs. Dropping this value unmounts it.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let options = Some(c"size=1M");
        rustix::mount::mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), options).expect("root may");
        Self(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn where_little_space_is_left_nothing_is_buffered() {
    fonio_testing::skip_without!(Root);
    let small = Small::new();
    let statistics = Arc::new(BufferStatistics::default());
    let buffer = Buffer::new(options(4, false, Duration::from_secs(3600)), Arc::clone(&statistics), false)
        .expect("memory");
    let mut file = Oracle::new(small.0.path(), 0);
    for written in 1..=3 {
        file.write(&buffer, file.end, 100, written as u8);
        file.check_below(0, usize::MAX);
        assert_eq!(statistics.through.get(), written);
    }
}

#[test]
fn only_what_touches_pending_data_is_drained() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let statistics = Arc::new(BufferStatistics::default());
    let buffer = Buffer::new(options(4, false, Duration::from_secs(3600)), Arc::clone(&statistics), false)
        .expect("memory");
    let mut file = Oracle::new(dir.path(), 0);
    file.write(&buffer, 0, 100, 1);
    buffer.drain(&file.pending);
    file.write(&buffer, 100, 100, 2);
    // The pending range is 100..200.
    for (offset, length, drains) in [(0, 100, 0), (200, 50, 0), (u64::MAX, 9, 0), (100, 0, 0), (199, 1, 1)] {
        buffer.drain_range(&file.pending, offset, length);
        assert_eq!(statistics.read_drains.get(), drains, "{length} bytes at {offset}");
    }
    file.write(&buffer, 200, 100, 3);
    buffer.drain_range(&file.pending, 0, u64::MAX);
    assert_eq!(statistics.read_drains.get(), 2);
    file.check_below(0, 300);
}

/// After its first entry, a stream uses direct I/O if the options allow direct I/O.
#[test]
fn a_long_stream_opens_its_file_once_more() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("direct");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::DIRECT;
    if let Err(error) = rustix::fs::open(&path, flags, Mode::RUSR) {
        return fonio_testing::skip(fonio_testing::Need::DirectIo, error);
    }
    for (number, direct) in [true, false].into_iter().enumerate() {
        let options = BufferOptions { direct, ..options(4, false, Duration::from_secs(3600)) };
        let buffer = Buffer::new(options, Arc::default(), false).expect("memory");
        let mut file = Oracle::new(dir.path(), number);
        let path = file.path.clone();
        let open = || {
            let all = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").flatten();
            all.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path)).count()
        };
        for (bytes, times) in [(ENTRY_BYTES - 1, 1), (1, 1), (1, 2)] {
            file.write(&buffer, file.end, bytes, 1);
            buffer.drain(&file.pending);
            assert_eq!(open(), if direct { times } else { 1 }, "{direct}: {} bytes", file.end);
        }
        file.check_below(0, ENTRY_BYTES + 1);
        file.pending.let_go();
        assert_eq!(open(), 1, "{direct}: closed");
    }
}
