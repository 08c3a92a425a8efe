//! Serves the device to virtual machines, with an NBD server on a Unix socket.
//!
//! The protocol is described in <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed
//! newstyle negotiation with `NBD_OPT_GO`, `NBD_OPT_INFO`, `NBD_OPT_EXPORT_NAME`, `NBD_OPT_LIST` and
//! `NBD_OPT_ABORT`, then read, write, flush, trim, write zeroes and disconnect with simple replies. The
//! server has a single export, which any name selects. Each reply is sent at the model's completion time, so
//! replies may be in another order than requests.

mod negotiate;

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::disk::{Disk, Request};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const REQUEST_BYTES: usize = 28;

const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_TRIM: u16 = 4;
const CMD_WRITE_ZEROES: u16 = 6;
const CMD_FLAG_FUA: u16 = 1;

const ERROR_IO: u32 = 5;
const ERROR_INVALID: u32 = 22;

/// Maximum payload that every client may use (protocol, "Block size constraints").
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Serves each client on its own thread until the process ends.
pub(crate) fn serve(disk: &Arc<Disk>, listener: UnixListener) -> io::Result<()> {
    let disk = Arc::clone(disk);
    thread::Builder::new().name("nbd".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let disk = Arc::clone(&disk);
            // If a client breaks the protocol or disconnects, only its own connection ends.
            let spawned = thread::Builder::new().name("nbd-client".to_owned()).spawn(move || {
                let _ = converse(&disk, stream);
            });
            if spawned.is_err() {
                break;
            }
        }
    })?;
    Ok(())
}

/// The client's connection for replies, shared by the threads that complete commands.
type Replies = Arc<Mutex<UnixStream>>;

fn converse(disk: &Arc<Disk>, stream: UnixStream) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut input = BufReader::with_capacity(1 << 16, stream);
    if !negotiate::negotiate(&mut input, &mut writer, disk.limits())? {
        return Ok(());
    }
    let replies: Replies = Arc::new(Mutex::new(writer));
    let mut payload = Vec::new();
    loop {
        let mut bytes = [0; REQUEST_BYTES];
        input.read_exact(&mut bytes)?;
        let Some(header) = Header::parse(&bytes) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an NBD request"));
        };
        if header.command == CMD_DISC {
            return Ok(());
        }
        if matches!(header.command, CMD_READ | CMD_WRITE) && header.length > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the NBD request is too long"));
        }
        payload.clear();
        if header.command == CMD_WRITE {
            payload.resize(header.length as usize, 0);
            input.read_exact(&mut payload)?;
        }
        let Some(request) = header.request(&payload).filter(|_| header.fits(disk.limits().capacity.0)) else {
            reply(&replies, header.cookie, ERROR_INVALID, &[]);
            continue;
        };
        let (replies, cookie) = (Arc::clone(&replies), header.cookie);
        disk.submit(request, move |outcome| match outcome {
            Ok(data) => reply(&replies, cookie, 0, &data),
            Err(_) => reply(&replies, cookie, ERROR_IO, &[]),
        });
    }
}

struct Header {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

impl Header {
    fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Header> {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        (u32_at(0) == REQUEST_MAGIC).then(|| Header {
            flags: u16_at(4),
            command: u16_at(6),
            cookie: u64_at(8),
            offset: u64_at(16),
            length: u32_at(24),
        })
    }

    fn fits(&self, capacity: u64) -> bool {
        self.command == CMD_FLUSH
            || self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= capacity)
    }

    fn request<'a>(&self, payload: &'a [u8]) -> Option<Request<'a>> {
        let (offset, bytes) = (self.offset, u64::from(self.length));
        let fua = self.flags & CMD_FLAG_FUA != 0;
        Some(match self.command {
            CMD_READ => Request::Read { offset, bytes },
            CMD_WRITE => Request::Write { offset, data: payload, fua },
            CMD_FLUSH => Request::Flush,
            CMD_TRIM => Request::Discard { offset, bytes },
            CMD_WRITE_ZEROES => Request::WriteZeroes { offset, bytes, fua },
            _ => return None,
        })
    }
}

/// Sends a reply. Errors are ignored, because a disconnected client needs no reply.
fn reply(replies: &Replies, cookie: u64, error: u32, data: &[u8]) {
    let mut bytes = Vec::with_capacity(16 + data.len());
    bytes.extend(REPLY_MAGIC.to_be_bytes());
    bytes.extend(error.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend_from_slice(data);
    let _ = replies.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_its_bytes() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[5] = 1;
        bytes[7] = 1;
        bytes[15] = 9;
        bytes[22] = 2;
        bytes[27] = 4;
        let header = Header::parse(&bytes).expect("a request");
        assert_eq!((header.cookie, header.offset, header.length), (9, 512, 4));
        let request = header.request(b"data");
        assert!(matches!(request, Some(Request::Write { offset: 512, data: b"data", fua: true })));
        assert!(header.fits(516) && !header.fits(515));
        bytes[0] = 0;
        assert!(Header::parse(&bytes).is_none());
    }
}
