//! The spill file: raw pages that memory has no room for.
//!
//! A thread of its own writes them, so that a slow disk does not hold up the reading of the kernel's buffers, and so that
//! the bios of these writes can be told from others by that thread. It writes past the page cache where the file system
//! allows it: else kernel threads would write the pages back later, in their own name. What the file system writes for
//! itself on the way (its journal, the extents of the file) cannot be told apart; best spill to a disk that is not
//! watched.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};

use crate::pages::Chunk;

/// Which chunk: the processor's place and the chunk's.
type Key = (usize, usize);
/// Where it was written, or why it was not; then it still holds its pages.
type Written = (Key, io::Result<u64>, Chunk);

/// The spill file and the thread that writes it.
pub(crate) struct Spill {
    to_write: Sender<(Key, Chunk)>,
    written: Receiver<Written>,
    thread: JoinHandle<io::Result<Done>>,
}

/// What remains of it.
pub(crate) struct Done {
    pub file: File,
    pub tid: Option<u32>,
}

impl Spill {
    /// Makes a nameless file in `dir`; it is gone when the recorder is, however that ends.
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

    /// Hands a chunk over.
    pub(crate) fn send(&mut self, key: Key, chunk: Chunk) -> io::Result<()> {
        self.to_write.send((key, chunk)).map_err(|_| io::Error::other("the spill file could not be written"))
    }

    /// The next chunk that has been written, or could not be.
    pub(crate) fn written(&mut self) -> io::Result<Option<Written>> {
        match self.written.try_recv() {
            Ok(written) => Ok(Some(written)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => {
                Err(io::Error::other("the spill file could not be written"))
            }
        }
    }

    /// Waits for the last write.
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
        // After a failure the disk is left alone: each chunk goes back, so that no page is lost by it.
        let written = match failed {
            None => file.write_all_at(chunk.bytes(), offset).map(|()| offset),
            Some(kind) => Err(io::Error::from(kind)),
        };
        match &written {
            Ok(_) => offset += chunk.bytes().len() as u64,
            Err(error) => failed = Some(error.kind()),
        }
        // The receiver is gone only when the capture was given up.
        if done.send((key, written, chunk)).is_err() {
            break;
        }
    }
    // Reading back with arbitrary lengths does not go together with direct I/O.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::DIRECT)?;
    Ok(Done { file, tid })
}
