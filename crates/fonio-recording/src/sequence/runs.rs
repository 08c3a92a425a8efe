//! Stores sorted runs on disk, and merges them.
//!
//! Each run is an unlinked file of rows with a fixed size. It is read from the beginning while rows are
//! appended at the end. Spilled rows are appended to the run that ends closest before them, so nearly sorted
//! input of any length forms one run. When a run has been read completely, its file is reused from the start.
//! Input in reverse order creates a new run at each spill. When a level has [`FAN_IN`] runs, they are merged
//! into one run of the next level. This limits the number of open files and read buffers. Each row is moved
//! at most `log(runs) / log(FAN_IN)` times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::{Key, Sequenced};

/// Number of runs that are merged at a time. Three levels have space for 64^3 runs, with 192 open files and
/// 12 MiB of read buffers.
const FAN_IN: usize = 64;

/// Number of bytes read from a run at a time.
const READ_BYTES: usize = 64 * 1024;

/// Number of bytes written to a run at a time.
const WRITE_BYTES: usize = 1024 * 1024;

pub(super) struct Runs<T> {
    dir: PathBuf,
    runs: Vec<Run<T>>,
    /// The key of each run's first remaining row, and the run's index. A fully read run has no entry.
    heads: BinaryHeap<Reverse<(Key, usize)>>,
    /// The last popped row. It is stored here because `pop` returns a reference to it.
    popped: Option<T>,
}

impl<T: Sequenced> Runs<T> {
    pub(super) fn new(dir: PathBuf) -> Runs<T> {
        Runs { dir, runs: Vec::new(), heads: BinaryHeap::new(), popped: None }
    }

    #[inline]
    pub(super) fn head(&self) -> Option<Key> {
        self.heads.peek().map(|Reverse((key, _))| *key)
    }

    /// Removes and returns the row that comes first among all runs. At least one row must be left.
    pub(super) fn pop(&mut self) -> io::Result<&T> {
        let mut top = self.heads.peek_mut().expect("pop follows head");
        let run = &mut self.runs[top.0.1];
        let row = run.head.take();
        run.advance()?;
        match &run.head {
            Some(head) => top.0.0 = head.key(),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        self.popped = row;
        Ok(self.popped.as_ref().expect("a run in the heap has a head"))
    }

    /// Appends `rows` to a run; there must be at least one row, and the rows must be sorted.
    pub(super) fn spill<'r>(&mut self, rows: impl Iterator<Item = &'r T>) -> io::Result<()>
    where
        T: 'r,
    {
        let mut rows = rows.peekable();
        let first = rows.peek().expect("an empty run is not spilled").key();
        let place = match self.place_for(first) {
            Some(place) => place,
            None => {
                self.make_room()?;
                self.runs.push(Run::create(&self.dir, 0)?);
                self.runs.len() - 1
            }
        };
        let run = &mut self.runs[place];
        if run.head.is_none() {
            run.restart()?;
        }
        let mut out = Vec::with_capacity(WRITE_BYTES + T::ENCODED_BYTES);
        let mut last = first;
        for row in rows {
            row.encode(&mut out);
            last = row.key();
            if out.len() >= WRITE_BYTES {
                run.append(&mut out)?;
            }
        }
        run.append(&mut out)?;
        run.last = last;
        if run.head.is_none() {
            run.advance()?;
            self.heads.push(Reverse((first, place)));
        }
        Ok(())
    }

    /// Returns the run to which rows from `first` on are appended: among the runs that end before `first`,
    /// the run that ends last; if no run ends before `first`, a fully read run.
    fn place_for(&self, first: Key) -> Option<usize> {
        let live = |run: &Run<T>| run.head.is_some();
        let (extended, _) = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, run)| live(run) && run.last <= first)
            .max_by_key(|(_, run)| run.last)
            .unzip();
        extended.or_else(|| self.runs.iter().position(|run| !live(run)))
    }

    /// Merges the runs of full levels, starting at the lowest level.
    fn make_room(&mut self) -> io::Result<()> {
        let mut level = 0;
        while self.runs.iter().filter(|run| run.level == level).count() >= FAN_IN {
            let (mut merged, kept) = self.runs.drain(..).partition::<Vec<_>, _>(|run| run.level == level);
            let mut heads: BinaryHeap<_> = heads_of(&merged);
            let mut target = Run::create(&self.dir, level + 1)?;
            let mut out = Vec::with_capacity(WRITE_BYTES + T::ENCODED_BYTES);
            while let Some(mut top) = heads.peek_mut() {
                let run = &mut merged[top.0.1];
                run.head.as_ref().expect("a run in the heap has a head").encode(&mut out);
                target.last = top.0.0;
                run.advance()?;
                match &run.head {
                    Some(head) => top.0.0 = head.key(),
                    None => {
                        std::collections::binary_heap::PeekMut::pop(top);
                    }
                }
                if out.len() >= WRITE_BYTES {
                    target.append(&mut out)?;
                }
            }
            target.append(&mut out)?;
            target.advance()?;
            self.runs = kept;
            self.runs.push(target);
            self.heads = heads_of(&self.runs);
            level += 1;
        }
        Ok(())
    }
}

fn heads_of<T: Sequenced>(runs: &[Run<T>]) -> BinaryHeap<Reverse<(Key, usize)>> {
    let heads = runs.iter().enumerate();
    heads.filter_map(|(place, run)| Some(Reverse((run.head.as_ref()?.key(), place)))).collect()
}

struct Run<T> {
    file: File,
    level: u32,
    /// Number of bytes written to the file.
    written: u64,
    /// Number of bytes read from the file into `buffer`.
    read: u64,
    buffer: Vec<u8>,
    /// The position in `buffer` at which the row after `head` begins.
    next: usize,
    /// The first row of the run that has not been emitted.
    head: Option<T>,
    /// The key of the run's last row.
    last: Key,
}

impl<T: Sequenced> Run<T> {
    fn create(dir: &std::path::Path, level: u32) -> io::Result<Run<T>> {
        let file = tempfile::tempfile_in(dir).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create a spill file in {}: {error}", dir.display()))
        })?;
        let (buffer, last) = (Vec::new(), (0, 0));
        Ok(Run { file, level, written: 0, read: 0, buffer, next: 0, head: None, last })
    }

    /// Frees the disk space of a fully read run.
    fn restart(&mut self) -> io::Result<()> {
        assert_eq!(self.read, self.written, "a run without a next row is fully read");
        self.file.set_len(0)?;
        (self.written, self.read, self.next) = (0, 0, 0);
        self.buffer.clear();
        Ok(())
    }

    fn append(&mut self, rows: &mut Vec<u8>) -> io::Result<()> {
        self.file.write_all_at(rows, self.written)?;
        self.written += rows.len() as u64;
        rows.clear();
        Ok(())
    }

    fn advance(&mut self) -> io::Result<()> {
        if self.next == self.buffer.len() {
            let rows = READ_BYTES / T::ENCODED_BYTES;
            let bytes = ((rows * T::ENCODED_BYTES) as u64).min(self.written - self.read) as usize;
            self.buffer.resize(bytes, 0);
            self.file.read_exact_at(&mut self.buffer, self.read)?;
            self.read += bytes as u64;
            self.next = 0;
        }
        self.head = self.buffer.get(self.next..self.next + T::ENCODED_BYTES).map(T::decode);
        if self.head.is_some() {
            self.next += T::ENCODED_BYTES;
        }
        Ok(())
    }
}
