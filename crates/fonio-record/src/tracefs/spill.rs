//! Stores raw pages that do not fit into memory in a spill file.
//!
//! A separate thread writes the spill file. So a slow disk does not delay reading the kernel's buffers, and
//! the thread id identifies the bios of these writes. The thread bypasses the page cache if the file system
//! allows it; otherwise kernel threads would write the pages back under their own ids. Additional writes by
//! the file system (journal, extents) cannot be identified as caused by the recorder. So a disk that is not
//! watched is better for the spill file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};

use crate::tracefs::chunk::Chunk;

/// Identifies a chunk: the index of its processor, and its index among the chunks of this processor.
type Key = (usize, usize);
/// The offset of a written chunk, or the error that prevented the write; the chunk then still contains its
/// pages.
type Written = (Key, io::Result<u64>, Chunk);

/// The spill file and the thread that writes it.
pub(crate) struct Spill {
    to_write: Sender<(Key, Chunk)>,
    written: Receiver<Written>,
    thread: JoinHandle<io::Result<Done>>,
}

/// What remains of a spill file after the last write.
pub(crate) struct Done {
    pub file: File,
    pub tid: Option<u32>,
}

impl Spill {
    /// Creates an unnamed file in `dir`. The file disappears when the recorder ends for any reason.
    pub(crate) fn create(dir: &Path) -> io::Result<Spill> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let direct = rustix::fs::open(dir, flags | OFlags::DIRECT, mode);
        let fd = direct.or_else(|_| rustix::fs::open(dir, flags, mode))?;
        let file = File::from(fd);
        let (to_write, chunks) = mpsc::channel();
        let (done, written) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("fonio-spill".to_owned())
            .spawn(move || write(file, &chunks, &done))?;
        Ok(Spill { to_write, written, thread })
    }

    /// Sends a chunk to the thread that writes the spill file.
    pub(crate) fn send(&mut self, key: Key, chunk: Chunk) -> io::Result<()> {
        self.to_write.send((key, chunk)).map_err(|_| io::Error::other("the spill file could not be written"))
    }

    /// Returns the next chunk whose write has finished or failed.
    pub(crate) fn written(&mut self) -> io::Result<Option<Written>> {
        match self.written.try_recv() {
            Ok(written) => Ok(Some(written)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => {
                Err(io::Error::other("the spill file could not be written"))
            }
        }
    }

    /// Waits for the last write, and returns the chunks that were written since the last call of `written`.
    pub(crate) fn finish(self) -> io::Result<(Vec<Written>, Done)> {
        drop(self.to_write);
        let written = self.written.into_iter().collect();
        let done = self.thread.join().map_err(|_| io::Error::other("the spill thread panicked"))??;
        Ok((written, done))
    }
}

fn write(file: File, chunks: &Receiver<(Key, Chunk)>, done: &Sender<Written>) -> io::Result<Done> {
    let tid = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok();
    let mut offset = 0;
    let mut failed = None;
    for (key, chunk) in chunks {
        // After a failure, the thread stops writing and sends each chunk back, so that no page is lost.
        let written = match failed {
            None => file.write_all_at(chunk.bytes(), offset).map(|()| offset),
            Some(kind) => Err(io::Error::from(kind)),
        };
        match &written {
            Ok(_) => offset += chunk.bytes().len() as u64,
            Err(error) => failed = Some(error.kind()),
        }
        // The receiver is dropped before the thread ends only if the capture was aborted.
        if done.send((key, written, chunk)).is_err() {
            break;
        }
    }
    // With direct I/O, data of arbitrary length could not be read back.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::DIRECT)?;
    Ok(Done { file, tid })
}
