//! Implements FUSE over io_uring, which exists since Linux 6.14 (`include/uapi/linux/fuse.h`,
//! `Documentation/filesystems/fuse-io-uring.rst`): one system call sends a reply and waits for the next
//! request, on the caller's CPU.
//!
//! The kernel has one request queue for each CPU. A queue entry is memory of the daemon: the kernel copies a
//! request into it and reads the reply from it. Each [`Entry`] has its own ring, so the threads of a CPU can
//! serve requests concurrently. The kernel gives the next request to the thread that became idle last.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};

use crate::protocol::HEADER_OUT;

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;
/// Offset of `len` in `struct io_uring_sqe`. The io_uring crate does not set `len` for commands.
const LENGTH_AT: usize = 24;

/// `struct fuse_uring_req_header`.
#[repr(C, align(8))]
struct Headers {
    /// The request's `struct fuse_in_header`, later replaced by the reply's `struct fuse_out_header`.
    header: [u8; 128],
    record: [u8; 128],
    /// `struct fuse_uring_ent_in_out`.
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// Memory for one request at a time, registered with the kernel.
pub(crate) struct Entry {
    ring: IoUring<Entry128, cqueue::Entry>,
    device: i32,
    queue: u16,
    /// The headers are boxed, because memory registered with the kernel must not move.
    headers: Box<Headers>,
    payload: Box<[u8]>,
    command: u32,
}

/// A request in the kernel's memory layout: header, record, payload.
pub(crate) struct Parts<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) record: &'a [u8],
    /// The memory for payloads; the current payload is its first [`Parts::payload_bytes`] bytes.
    pub(crate) payload: &'a mut [u8],
    pub(crate) payload_bytes: usize,
}

impl Entry {
    /// Allocates an entry for the queue of the CPU with the number `queue`, on the connection of `device`.
    /// The entry has room for a payload of `payload_bytes`. Only the calling thread may use the entry. Fails
    /// if the kernel cannot create an io_uring instance.
    pub(crate) fn new(device: BorrowedFd<'_>, queue: u16, payload_bytes: usize) -> io::Result<Self> {
        // With these flags, the kernel copies requests only while this thread waits for requests.
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1)?;
        let headers = Box::new(Headers {
            header: [0; 128],
            record: [0; 128],
            flags: 0,
            commit_id: 0,
            payload_bytes: 0,
            padding: 0,
            reserved: 0,
        });
        let payload = vec![0; payload_bytes].into_boxed_slice();
        Ok(Self { ring, device: device.as_raw_fd(), queue, headers, payload, command: REGISTER })
    }

    /// Sends the reply to the previous request, if any, and waits for the next request. Fails with `ENOTCONN`
    /// if the connection has ended, or with the kernel's error if the kernel rejects the entry's memory.
    pub(crate) fn next(&mut self) -> io::Result<Parts<'_>> {
        let places = [
            libc::iovec {
                iov_base: (&raw mut *self.headers).cast(),
                iov_len: std::mem::size_of::<Headers>(),
            },
            libc::iovec { iov_base: self.payload.as_mut_ptr().cast(), iov_len: self.payload.len() },
        ];
        // Fields of `struct fuse_uring_cmd_req`: flags, commit ID of the answered request, queue.
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&self.headers.commit_id.to_ne_bytes());
        command[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let mut entry = opcode::UringCmd80::new(types::Fd(self.device), self.command)
            .cmd(command)
            .addr(Some(places.as_ptr().expose_provenance() as u64))
            .build();
        let pieces: u32 = if self.command == REGISTER { 2 } else { 0 };
        // SAFETY: an entry has 128 bytes in the kernel's layout; these four bytes are the length.
        unsafe { (&raw mut entry).cast::<u8>().add(LENGTH_AT).cast::<u32>().write_unaligned(pieces) };
        // SAFETY: the kernel reads `places` before `submit` returns. The memory that `places` refers to lives
        // as long as `self`, whose ring is closed first. This memory is not accessed until the kernel
        // completes the command.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::QuotaExceeded)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    outcome?;
                }
            }
            if let Some(done) = self.ring.completion().next() {
                if done.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-done.result()));
                }
                break;
            }
        }
        self.command = COMMIT_AND_FETCH;
        Ok(Parts {
            header: &self.headers.header,
            record: &self.headers.record,
            payload_bytes: self.headers.payload_bytes as usize,
            payload: &mut self.payload,
        })
    }

    /// Returns the payload memory, into which the reply is written.
    pub(crate) fn payload(&mut self) -> &mut [u8] {
        &mut self.payload
    }

    /// Sets the reply for [`Entry::next`]: `header` and the first `bytes` bytes of the payload.
    pub(crate) fn answer(&mut self, header: &[u8; HEADER_OUT], bytes: usize) {
        self.headers.header[..HEADER_OUT].copy_from_slice(header);
        self.headers.payload_bytes = u32::try_from(bytes).expect("a reply is shorter than 4 GiB");
    }
}

/// Returns whether this process may create io_uring rings; containers may forbid rings.
pub(crate) fn has_rings() -> bool {
    IoUring::<Entry128, cqueue::Entry>::builder().setup_single_issuer().setup_defer_taskrun().build(1).is_ok()
}
