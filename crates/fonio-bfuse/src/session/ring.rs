//! Serves requests of the kernel over io_uring. Each thread stays on one CPU and serves the callers of this
//! CPU.
//!
//! A caller sleeps until it gets the reply, so its CPU is free for the serving thread. This CPU is awake and
//! its caches are warm. Over `/dev/fuse`, the kernel wakes the thread that has waited longest, usually on
//! another CPU that must first wake up. The reply also wakes the caller, usually on yet another CPU.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::{OnEnd, Session, write_header};
use crate::filesystem::Worker;
use crate::kernel::{self, Identity};
use crate::protocol::{HEADER_OUT, Header, Opcode, Request};

/// Minimum number of threads per CPU: while one thread waits for the device, the other thread serves requests
/// for names.
const THREADS_MIN: usize = 2;

/// Upper bound of the number of io_uring queues that the kernel supports.
const QUEUES_MAX: usize = 1 << 16;

/// The maximum size of a reply to a request with data.
const SHORT_ANSWER_BYTES: usize = 64;

/// Returns the number of queues: one for each possible CPU. The kernel uses the queues only after a thread
/// has registered with each of them.
pub(crate) fn queues() -> Option<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let last = text.trim().rsplit([',', '-']).next()?.parse::<usize>().ok()?;
    u16::try_from(last + 1).ok().filter(|queues| usize::from(*queues) < QUEUES_MAX)
}

/// Returns the total number of threads needed for `wanted` concurrent requests.
pub(super) fn threads(wanted: usize) -> usize {
    let queues = queues().map_or(1, usize::from);
    queues * per_queue(wanted, queues)
}

fn per_queue(wanted: usize, queues: usize) -> usize {
    (wanted / queues).max(THREADS_MIN)
}

impl Session {
    pub(super) fn start_ring_threads(self: &Arc<Self>, on_end: &OnEnd) -> io::Result<()> {
        let queues = queues().ok_or(io::ErrorKind::Unsupported)?;
        let per_queue = per_queue(self.threads_max, usize::from(queues));
        let placement = Arc::clone(&self.placement);
        std::thread::Builder::new().name("fonio-place".to_owned()).spawn(move || placement.watch())?;
        let mut running = self.lock_running();
        for queue in 0..queues {
            for _ in 0..per_queue {
                let session = Arc::clone(self);
                self.start_thread(&mut running, on_end, move || session.serve_queue(queue))?;
            }
        }
        Ok(())
    }

    fn serve_queue(&self, queue: u16) -> io::Result<()> {
        let mut cpus = CpuSet::new();
        if usize::from(queue) < CpuSet::MAX_CPU {
            cpus.set(usize::from(queue));
            // Setting the affinity fails for a CPU that may be added later; such a CPU runs no callers yet.
            let _ = sched_setaffinity(None, &cpus);
        }
        // Without this call, the kernel could reclaim memory for us by writing back through our own mount.
        // The call needs a capability.
        let _ = kernel::forbid_io_recursion();
        let mut worker = Worker { identity: Identity::of_this_thread()? };
        let mut entry =
            kernel::RingEntry::new(self.device.as_fd(), queue, self.file_system.chosen.request_bytes())?;
        // If this fails, callers move to other CPUs more often.
        let is_watched = self.placement.enter().is_ok();
        let mut received = Vec::new();
        loop {
            let parts = match entry.next() {
                Ok(parts) => parts,
                Err(error) if has_ended(&error) => return Ok(()),
                // The kernel parameter has changed during the connection: `/dev/fuse` delivers all requests.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    self.over_ring.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let malformed = || io::Error::from(rustix::io::Errno::PROTO);
            let header = Header::read(parts.header).map_err(|_| malformed())?;
            let opcode = Opcode::from_number(header.opcode);
            let record = parts.record.get(..opcode.record_bytes()).ok_or_else(malformed)?;
            let payload = parts.payload.get(..parts.payload_bytes).ok_or_else(malformed)?;
            if is_watched {
                self.placement.count();
            }
            let mut out = [0; HEADER_OUT];
            if opcode == Opcode::Write {
                // The reply overwrites the request's data, but only after the data have been written to the
                // source.
                let request = Request { header, opcode, record, payload };
                let mut short = [0; SHORT_ANSWER_BYTES];
                let answer = self.file_system.serve(&mut worker, &request, &mut short);
                let length = write_header(&mut out, answer.unwrap_or(Ok(0)), header.unique) - HEADER_OUT;
                entry.payload()[..length].copy_from_slice(&short[..length]);
                entry.answer(&out, length);
            } else {
                received.clear();
                received.extend_from_slice(payload);
                let request = Request { header, opcode, record, payload: &received };
                let answer = self.file_system.serve(&mut worker, &request, parts.payload);
                let length = write_header(&mut out, answer.unwrap_or(Ok(0)), header.unique) - HEADER_OUT;
                entry.answer(&out, length);
            }
        }
    }
}

/// Returns whether `error` means that the mount no longer exists.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECANCELED | libc::ECONNABORTED | libc::ENODEV))
}
