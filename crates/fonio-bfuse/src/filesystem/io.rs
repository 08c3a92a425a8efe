//! Serves reads, writes and syncs of open files.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, XattrFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Answer, FileSystem, Handle, Worker};
use crate::buffer::write_all;
use crate::modes::Serving;
use crate::node::Node;
use crate::protocol::{FSYNC_DATA_ONLY, Record, Request, WRITE_CACHE, WRITE_KILL_SUIDGID};

impl FileSystem {
    pub(super) fn read(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let mut fields = request.fields();
        let handle = self.handle(fields.u64()?)?;
        let (offset, bytes) = (fields.u64()?, fields.u32()? as usize);
        self.buffer.drain_range(&handle.node.pending, offset, bytes as u64);
        self.statistics.read_bytes.add(bytes as u64);
        let out = out.get_mut(..bytes).ok_or(Errno::INVAL)?;
        let mut done = 0;
        // The kernel interprets a short reply as the end of the file.
        while done < out.len() {
            let at = offset + done as u64;
            match rustix::io::pread(&handle.file, &mut out[done..], at) {
                // The pending data start after a hole, which the source file does not contain yet.
                Ok(0) if handle.node.pending.end_and_time().is_some_and(|(end, _)| end > at) => {
                    self.buffer.drain(&handle.node.pending);
                }
                // The data that were pending during the read have now been written to the source.
                Ok(0) if self.end_of(&handle)? > at => {}
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub(super) fn write(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let mut fields = request.fields();
        let handle = self.handle(fields.u64()?)?;
        let (offset, bytes, flags) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let data = request.payload.get(..bytes as usize).ok_or(Errno::INVAL)?;
        self.statistics.write_bytes.add(u64::from(bytes));
        if let Some(error) = self.take_error(&handle) {
            return Err(error);
        }
        if flags & WRITE_KILL_SUIDGID != 0 && handle.node.take_privileged() {
            self.kill_privileges(&handle.node, &handle.file)?;
        }
        let is_page = flags & WRITE_CACHE != 0;
        let written = if is_page || handle.serving != Serving::Buffered || handle.is_sync {
            self.buffer.drain(&handle.node.pending);
            self.write_through(&handle, offset, data, is_page)?
        } else {
            let offset = if handle.appends { self.end_of(&handle)? } else { offset };
            self.buffer.write(&handle.node.pending, &handle.file, offset, data)?;
            data.len()
        };
        let written = u32::try_from(written).expect("a request is shorter than 4 GiB");
        Ok(Record::new(out).u32(written).u32(0).length())
    }

    fn write_through(
        &self,
        handle: &Handle,
        offset: u64,
        data: &[u8],
        is_page: bool,
    ) -> Result<usize, Errno> {
        self.statistics.direct_writes.add(1);
        if handle.appends && !is_page && handle.serving != Serving::Writeback {
            let piece = [std::io::IoSlice::new(data)];
            return rustix::io::pwritev2(&handle.file, &piece, offset, ReadWriteFlags::APPEND);
        }
        if is_page {
            write_all(&handle.file, offset, data)?;
            return Ok(data.len());
        }
        // Bytes before an error are reported as written. The application gets the error when it writes the
        // remaining bytes.
        rustix::io::pwrite(&handle.file, data, offset)
    }

    /// Returns the end of the source file, including pending data.
    fn end_of(&self, handle: &Handle) -> Result<u64, Errno> {
        let pending = handle.node.pending.end_and_time();
        let below = rustix::fs::fstat(&handle.file)?.st_size.cast_unsigned();
        Ok(pending.map_or(below, |(end, _)| end.max(below)))
    }

    /// Returns an error of an earlier, acknowledged write to the inode.
    fn take_error(&self, handle: &Handle) -> Option<Errno> {
        let mut seen =
            handle.seen.lock().expect("no thread panics while it holds the lock of a handle's error state");
        handle.node.pending.error_for(&mut seen)
    }

    pub(super) fn flush(&self, request: &Request<'_>) -> Answer {
        if self.chosen.writeback() {
            // The kernel has already written all pages of the file, and does not need to send this request
            // again.
            return Err(Errno::NOSYS);
        }
        let handle = self.handle(request.fields().u64()?)?;
        self.buffer.drain(&handle.node.pending);
        self.tell_change(&handle);
        self.take_error(&handle).map_or(Ok(0), Err)
    }

    pub(super) fn sync(&self, request: &Request<'_>) -> Answer {
        let mut fields = request.fields();
        let handle = self.handle(fields.u64()?)?;
        let data_only = fields.u32()? & FSYNC_DATA_ONLY != 0;
        self.buffer.drain(&handle.node.pending);
        let below =
            if data_only { rustix::fs::fdatasync(&handle.file) } else { rustix::fs::fsync(&handle.file) };
        self.tell_change(&handle);
        match self.take_error(&handle) {
            Some(error) => Err(error),
            None => below.map(|()| 0),
        }
    }

    /// Runs `work`, which changes a file's content, with the caller's identity. If a user's change clears
    /// set-user-ID bits, invalidates the attributes that the kernel has cached.
    fn change(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        handle: &Handle,
        work: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if request.header.uid == 0 {
            worker.identity.take_back()?;
            return work();
        }
        let before = rustix::fs::fstat(&handle.file)?.st_mode;
        let outcome = worker.identity.act_as(Self::caller(request), 0o022, work);
        if rustix::fs::fstat(&handle.file)?.st_mode != before {
            self.tell_attributes(&handle.node);
        }
        outcome
    }

    pub(super) fn allocate(&self, worker: &mut Worker, request: &Request<'_>) -> Answer {
        let mut fields = request.fields();
        let handle = self.handle(fields.u64()?)?;
        let (offset, length, mode) = (fields.u64()?, fields.u64()?, fields.u32()?);
        self.buffer.drain(&handle.node.pending);
        self.change(worker, request, &handle, || {
            rustix::fs::fallocate(&handle.file, FallocateFlags::from_bits_retain(mode), offset, length)?;
            Ok(0)
        })
    }

    pub(super) fn seek(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        if self.chosen.writeback() {
            // Pages that the kernel has not written back yet can be holes in the source file, and the kernel
            // does not write back these pages before this request. After `ENOSYS`, the kernel treats the
            // complete file as data, which is always correct.
            return Err(Errno::NOSYS);
        }
        let mut fields = request.fields();
        let handle = self.handle(fields.u64()?)?;
        let (offset, whence) = (fields.u64()?, fields.u32()?);
        self.buffer.drain(&handle.node.pending);
        let to = match i32::try_from(whence) {
            Ok(libc::SEEK_DATA) => SeekFrom::Data(offset),
            Ok(libc::SEEK_HOLE) => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let found = rustix::fs::seek(&handle.file, to)?;
        Ok(Record::new(out).u64(found).length())
    }

    pub(super) fn copy_range(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let mut fields = request.fields();
        let from = self.handle(fields.u64()?)?;
        let mut offset = fields.u64()?;
        fields.skip(8)?;
        let to = self.handle(fields.u64()?)?;
        let (mut target, length) = (fields.u64()?, fields.u64()?);
        self.buffer.drain(&from.node.pending);
        self.buffer.drain(&to.node.pending);
        // The reply has only 32 bits for the copied length.
        let length = usize::try_from(length.min(u64::from(u32::MAX) & !0xfff)).unwrap_or(usize::MAX);
        let copied = self.change(worker, request, &to, || {
            rustix::fs::copy_file_range(&from.file, Some(&mut offset), &to.file, Some(&mut target), length)
        })?;
        let copied = u32::try_from(copied).expect("the kernel copies at most the requested length");
        Ok(Record::new(out).u32(copied).u32(0).length())
    }

    /// Clears set-user-ID, set-group-ID and capabilities of a file, as a write by an unprivileged user does.
    /// The kernel requests this change and ignores its result.
    pub(super) fn kill_privileges(&self, node: &Node, file: &OwnedFd) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
        let mut kept = mode - Mode::SUID;
        // Without execute permission for the group, the set-group-ID bit means mandatory locking, so this bit
        // stays.
        if mode.contains(Mode::XGRP) {
            kept -= Mode::SGID;
        }
        if kept != mode {
            rustix::fs::fchmod(file, kept)?;
            self.tell_attributes(node);
        }
        match rustix::fs::fremovexattr(file, CAPABILITIES) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            // On an append-only file, `fremovexattr` fails even if the file has no capabilities.
            Err(Errno::PERM) if !has_attribute(file, CAPABILITIES) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn truncate(&self, node: &Node, handle: Option<&Handle>, length: u64) -> Result<(), Errno> {
        match handle.filter(|handle| handle.writable) {
            Some(handle) => rustix::fs::ftruncate(&handle.file, length),
            None => {
                let file = self.open_below(node, OFlags::WRONLY | OFlags::NONBLOCK)?;
                rustix::fs::ftruncate(file, length)
            }
        }
    }
}

const CAPABILITIES: &CStr = c"security.capability";

fn has_attribute(file: &OwnedFd, name: &CStr) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(file, name, &mut nothing[..]) != Err(Errno::NODATA)
}

pub(super) fn xattr_flags(bits: u32) -> XattrFlags {
    XattrFlags::from_bits_retain(bits)
}
