//! Runs the thread that serves the queue of a ublk device.
//!
//! Each tag of the queue is in one of four states: fetching, in the model, completed (the completion waits
//! for the next system call), or cancelled. The driver cancels the fetch commands when the device is stopped,
//! and the thread ends after the last cancelled command. It then closes the character node and unmaps the
//! requests. Only after that can the device be deleted.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::protocol::{Answer, COMMIT_AND_FETCH, Descriptor, Descriptors, FETCH, Kind, data_offset};
use crate::buffers::Data;
use crate::disk::{Disk, Failure, Outcome, Request};
use crate::pacer;

/// Number of attempts to open the character node, which udev or devtmpfs creates shortly after the device.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Result of a fetch command that the driver cancelled (`UBLK_IO_RES_ABORT`).
const CANCELLED: i32 = -libc::ENODEV;

const FAILED: i32 = -libc::EIO;

/// Starts the thread that serves the device `number`. After this function returns, the device can be started.
pub(crate) fn serve(disk: &Arc<Disk>, number: u32) -> io::Result<()> {
    let (ready, is_ready) = mpsc::channel();
    let disk = Arc::clone(disk);
    thread::Builder::new().name("ublk".to_owned()).spawn(move || {
        // The kernel binds the ring's requests to the thread that submits them, so this thread creates the
        // queue.
        match Queue::open(disk, number) {
            Ok(mut queue) => {
                let _ = ready.send(Ok(()));
                // Without this thread, no request would complete. If the process ends, the requests fail.
                queue.run().expect("the io_uring of an open ublk device works");
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    })?;
    is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")))
}

struct Finished {
    tag: u16,
    /// Number of bytes that a successful read or write transferred; 0 for other requests.
    moved: u32,
    outcome: Outcome,
}

struct Queue {
    // The ring is dropped before the node, because the ring refers to the node.
    ring: IoUring,
    descriptors: Descriptors,
    node: File,
    disk: Arc<Disk>,
    finished: Arc<Mutex<Vec<Finished>>>,
    depth: u16,
    cancelled: u16,
    /// Time before a deadline during which the thread polls the clock instead of sleeping.
    poll: Duration,
}

impl Queue {
    /// Opens the character node and submits a fetch command for each tag of the queue.
    fn open(disk: Arc<Disk>, number: u32) -> io::Result<Queue> {
        let node = open_node(&format!("/dev/ublkc{number}"))?;
        let depth = u16::try_from(disk.limits().depth.clamp(1, fonio_host::UBLK_DEPTH_MAX))
            .expect("the maximum depth of ublk fits in 16 bits");
        let mut queue = Queue {
            ring: IoUring::new(u32::from(depth))?,
            descriptors: Descriptors::map(&node, depth)?,
            node,
            disk,
            finished: Arc::default(),
            depth,
            cancelled: 0,
            poll: pacer::poll_time(),
        };
        for tag in 0..depth {
            queue.push(FETCH, tag, 0);
        }
        queue.ring.submit()?;
        // The device has not started, so if a fetch command completes, it has failed.
        match queue.completed() {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(queue),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        while self.cancelled < self.depth {
            self.take()?;
            let next = self.disk.complete_due();
            self.answer();
            self.wait(next)?;
        }
        Ok(())
    }

    /// Passes the requests that have arrived to the model. Returns the driver's error if the driver rejects a
    /// completion.
    fn take(&mut self) -> io::Result<()> {
        while let Some((tag, result)) = self.completed() {
            if result == CANCELLED {
                self.cancelled += 1;
                assert!(self.cancelled <= self.depth, "the driver cancels each tag only once");
                continue;
            }
            if result < 0 {
                return Err(io::Error::from_raw_os_error(-result));
            }
            let descriptor = self.descriptors.get(tag);
            if self.submit(tag, &descriptor).is_err() {
                lock(&self.finished).push(Finished { tag, moved: 0, outcome: Err(Failure) });
            }
        }
        Ok(())
    }

    fn completed(&mut self) -> Option<(u16, i32)> {
        let completed = self.ring.completion().next()?;
        Some((u16::try_from(completed.user_data()).expect("a tag"), completed.result()))
    }

    fn submit(&self, tag: u16, descriptor: &Descriptor) -> io::Result<()> {
        let (offset, bytes, fua) = (descriptor.offset(), descriptor.bytes(), descriptor.fua());
        let mut data: Data;
        let request = match descriptor.kind().ok_or(Errno::OPNOTSUPP)? {
            Kind::Read => Request::Read { offset, bytes },
            Kind::Write => {
                data = self.disk.buffer(usize::try_from(bytes).map_err(io::Error::other)?);
                self.node.read_exact_at(&mut data, data_offset(tag))?;
                Request::Write { offset, data: &data, fua }
            }
            Kind::Flush => Request::Flush,
            Kind::Discard => Request::Discard { offset, bytes },
            Kind::WriteZeroes => Request::WriteZeroes { offset, bytes, fua },
        };
        let moved = match request {
            Request::Read { .. } | Request::Write { .. } => bytes as u32,
            _ => 0,
        };
        let finished = Arc::clone(&self.finished);
        self.disk.submit(request, move |outcome| lock(&finished).push(Finished { tag, moved, outcome }));
        Ok(())
    }

    /// Queues the completions of requests that the model has completed.
    fn answer(&mut self) {
        let finished = std::mem::take(&mut *lock(&self.finished));
        for Finished { tag, moved, outcome } in finished {
            let result = match outcome {
                Ok(data) if data.is_empty() => moved.cast_signed(),
                Ok(data) => {
                    self.node.write_all_at(&data, data_offset(tag)).map_or(FAILED, |()| moved.cast_signed())
                }
                Err(Failure) => FAILED,
            };
            self.push(COMMIT_AND_FETCH, tag, result);
        }
    }

    fn push(&mut self, code: u32, tag: u16, result: i32) {
        let command =
            opcode::UringCmd16::new(Fd(self.node.as_raw_fd()), code).cmd(Answer::bytes(tag, result));
        let entry = command.build().user_data(tag.into());
        // SAFETY: the command has no buffer, and the node is open until after the ring is closed.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has room for one command per tag");
    }

    /// Submits the queued completions, and waits for a request, but at most until shortly before `next`.
    fn wait(&mut self, next: Option<Instant>) -> io::Result<()> {
        if self.cancelled == self.depth {
            return Ok(());
        }
        let sleep = next.map(|next| next.saturating_duration_since(Instant::now()).saturating_sub(self.poll));
        let waited = match sleep {
            None => self.ring.submit_and_wait(1),
            Some(Duration::ZERO) if self.ring.submission().is_empty() => {
                std::hint::spin_loop();
                return Ok(());
            }
            Some(Duration::ZERO) => self.ring.submit(),
            Some(sleep) => {
                let sleep = Timespec::from(sleep);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&sleep))
            }
        };
        match waited {
            Err(error) if !matches!(Errno::from_io_error(&error), Some(Errno::TIME | Errno::INTR)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

fn open_node(path: &str) -> io::Result<File> {
    for _ in 1..TRIES {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => thread::sleep(PAUSE),
            opened => return opened,
        }
    }
    OpenOptions::new().read(true).write(true).open(path)
}

/// Locks the list of completed requests, ignoring poison: the list is consistent between calls.
fn lock(finished: &Mutex<Vec<Finished>>) -> MutexGuard<'_, Vec<Finished>> {
    finished.lock().unwrap_or_else(PoisonError::into_inner)
}
