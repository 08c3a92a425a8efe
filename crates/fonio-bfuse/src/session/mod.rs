//! Runs the threads that read requests from `/dev/fuse` and reply to them.
//!
//! At most two threads wait for requests. When a thread receives a potentially slow request (an fsync, a
//! write) and no other thread is waiting, it starts another thread, up to the limit. A thread ends if two
//! others are waiting when it becomes idle. With more waiting threads, requests would be slower. The kernel
//! wakes waiting threads in turn, even for asynchronous requests (forgets, releases). So each request would
//! run on a thread with colder caches, and the serving threads would take the caller's CPU.
//! `docs/bfuse-design.md` contains the measurements.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fonio_system::say;
use rustix::io::Errno;

use crate::filesystem::{Answer, FileSystem, Worker};
use crate::kernel::{self, Identity};
use crate::options::Options;
use crate::protocol::{HEADER_OUT, Opcode, Record, Request};

mod placement;
mod ring;

use placement::Placement;
pub(crate) use ring::queues;

/// Maximum number of threads that wait for requests at the same time.
const IDLE_MAX: usize = 2;
/// Default maximum number of threads that serve requests.
const THREADS_MAX: usize = 8;

/// Maximum number of additional threads that wait for a free descriptor.
const READERS_MORE_WHEN_SHORT: usize = 24;

/// Pause after a forget request over `/dev/fuse`. No process waits for a reply to a forget, and forgets that
/// arrive during the pause need no wake-up.
const FORGET_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Session {
    file_system: Arc<FileSystem>,
    device: Arc<OwnedFd>,
    /// Whether requests come through io_uring; if so, `/dev/fuse` only delivers forget requests.
    over_ring: AtomicBool,
    placement: Arc<Placement>,
    idle: AtomicUsize,
    running: Mutex<Running>,
    /// Signalled when the last serving thread has ended.
    ended: Condvar,
    threads_max: usize,
}

#[derive(Debug, Default)]
struct Running {
    all: usize,
    readers: usize,
}

/// Called when the FUSE connection has ended.
type OnEnd = Arc<dyn Fn() + Send + Sync>;

impl Session {
    /// Starts the threads that serve the mount. Fails if the first thread cannot be started or cannot get its
    /// own identity.
    pub(crate) fn start(
        file_system: Arc<FileSystem>,
        device: Arc<OwnedFd>,
        over_ring: bool,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let threads_max = file_system.options.threads.unwrap_or(THREADS_MAX);
        let session = Arc::new(Self {
            file_system,
            device,
            over_ring: AtomicBool::new(over_ring),
            placement: Arc::default(),
            idle: AtomicUsize::new(0),
            running: Mutex::default(),
            ended: Condvar::new(),
            threads_max,
        });
        let on_end: OnEnd = Arc::new(on_end);
        session.start_reader(&on_end)?;
        if over_ring {
            session.start_ring_threads(&on_end)?;
        }
        Ok(session)
    }

    /// Returns the maximum number of threads that serve a mount.
    pub(crate) fn threads_max(options: &Options, over_ring: bool) -> u64 {
        let readers = options.threads.unwrap_or(THREADS_MAX) as u64;
        let ring = if over_ring { ring::threads(options.threads.unwrap_or(THREADS_MAX)) as u64 } else { 0 };
        readers + ring
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().expect("no thread panics while it holds the lock of the number of threads")
    }

    fn start_reader(self: &Arc<Self>, on_end: &OnEnd) -> io::Result<()> {
        let mut running = self.lock_running();
        // A lookup may wait for a descriptor, which becomes free only when another reader receives a FORGET
        // request.
        let more = if self.file_system.is_short_of_descriptors() { READERS_MORE_WHEN_SHORT } else { 0 };
        if running.readers >= self.threads_max + more {
            return Ok(());
        }
        let (session, handed_on) = (Arc::clone(self), Arc::clone(on_end));
        self.start_thread(&mut running, on_end, move || {
            let outcome = session.serve(&handed_on);
            session.lock_running().readers -= 1;
            outcome
        })?;
        running.readers += 1;
        Ok(())
    }

    fn start_thread(
        self: &Arc<Self>,
        running: &mut Running,
        on_end: &OnEnd,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (session, on_end) = (Arc::clone(self), Arc::clone(on_end));
        std::thread::Builder::new().name("fonio-fuse".to_owned()).spawn(move || {
            let outcome = work();
            let mut running = session.lock_running();
            running.all -= 1;
            session.file_system.statistics.threads.set(running.all as u64);
            let is_last = running.all == 0;
            drop(running);
            if let Err(error) = outcome {
                say!("fonio: a thread that serves the mount failed: {error}");
            }
            if is_last {
                session.placement.close();
                session.ended.notify_all();
                on_end();
            }
        })?;
        running.all += 1;
        self.file_system.statistics.threads.set(running.all as u64);
        Ok(())
    }

    /// Waits until the connection has ended and every request has its reply.
    pub(crate) fn wait(&self) {
        let mut running = self.lock_running();
        while running.all > 0 {
            running = self
                .ended
                .wait(running)
                .expect("no thread panics while it holds the lock of the number of threads");
        }
    }

    fn serve(self: &Arc<Self>, on_end: &OnEnd) -> io::Result<()> {
        // Without this call, the kernel could reclaim memory for us by writing back through our own mount.
        // The call needs a capability.
        let _ = kernel::forbid_io_recursion();
        let mut worker = Worker { identity: Identity::of_this_thread()? };
        // If the descriptor cannot be cloned, the thread uses the original descriptor.
        let own = kernel::clone_device(self.device.as_fd()).ok();
        let device = own.as_ref().unwrap_or(&self.device);
        let bytes = self.file_system.chosen.request_bytes();
        let mut request = vec![0; bytes];
        let mut out = vec![0; HEADER_OUT + bytes];
        loop {
            if self.idle.fetch_add(1, Ordering::AcqRel) >= IDLE_MAX {
                self.idle.fetch_sub(1, Ordering::AcqRel);
                return Ok(());
            }
            let length = read_request(device, &mut request);
            let others_wait = self.idle.fetch_sub(1, Ordering::AcqRel) > 1;
            let Some(length) = length? else { return Ok(()) };
            let bytes = request.get(..length).unwrap_or(&[]);
            let Ok(request) = Request::split(bytes) else { return Err(Errno::PROTO.into()) };
            let are_few = self.file_system.statistics.threads.get() < IDLE_MAX as u64;
            let is_forgotten = matches!(request.opcode, Opcode::Forget | Opcode::BatchForget);
            let is_short_of_threads = !others_wait
                && (are_few || may_last(request.opcode) || self.file_system.is_short_of_descriptors());
            if is_short_of_threads
                && !(self.over_ring.load(Ordering::Relaxed) && is_forgotten)
                && let Err(error) = self.start_reader(on_end)
            {
                say!("fonio: cannot start another thread for the mount: {error}");
            }
            let answer = self.file_system.serve(&mut worker, &request, &mut out[HEADER_OUT..]);
            if let Some(answer) = answer {
                send(device, &request, answer, &mut out)?;
            }
            if self.over_ring.load(Ordering::Relaxed) && is_forgotten {
                std::thread::sleep(FORGET_PAUSE);
            }
        }
    }
}

/// Returns whether serving a request can include device I/O.
fn may_last(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Read
            | Opcode::Write
            | Opcode::Flush
            | Opcode::Fsync
            | Opcode::Fsyncdir
            | Opcode::Fallocate
            | Opcode::CopyFileRange
            | Opcode::Lseek
            | Opcode::Setattr
    )
}

/// Reads the next request and returns its length; returns `None` after the unmount.
fn read_request(device: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::read(device, &mut *into) {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::NODEV) => return Ok(None),
            // The request was interrupted before the daemon read it.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes the `struct fuse_out_header` of a reply, and returns the total length.
fn write_header(out: &mut [u8], answer: Answer, unique: u64) -> usize {
    let (length, error) = match answer {
        Ok(length) => (HEADER_OUT + length, 0),
        Err(error) => (HEADER_OUT, -error.raw_os_error()),
    };
    let size = u32::try_from(length).expect("a reply is shorter than 4 GiB");
    Record::new(out).u32(size).u32(error.cast_unsigned()).u64(unique);
    length
}

fn send(device: &OwnedFd, request: &Request<'_>, answer: Answer, out: &mut [u8]) -> io::Result<()> {
    // An interrupt gets no reply, except for `ENOSYS`, which means that interrupts are not supported.
    if request.opcode == Opcode::Interrupt && answer.is_ok() {
        return Ok(());
    }
    let length = write_header(out, answer, request.header.unique);
    match rustix::io::write(device, &out[..length]) {
        // The caller or the mount no longer exists. If the mount no longer exists, the next read fails.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
