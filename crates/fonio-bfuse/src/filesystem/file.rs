//! Opens, creates and closes files, and chooses how each file is served (`crate::modes`).

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::names::keep_group_bit;
use super::{Answer, FileSystem, Handle, Worker, change_time};
use crate::kernel::Backing;
use crate::modes::Serving;
use crate::node::{Node, version_of};
use crate::protocol::{OPEN_KILL_SUIDGID, Record, Request, open as opened};

/// Open flags that are not passed on when the source file is opened. `O_APPEND`: each write request states
/// whether it appends, because the kernel also writes back mapped pages through such a handle. `O_DIRECT`:
/// the daemon's buffers would have to be aligned to sectors.
const WITHHELD: OFlags = OFlags::APPEND
    .union(OFlags::DIRECT)
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

impl FileSystem {
    /// Returns the flags with which to open the source file when an application opens a file with `flags`.
    fn flags_below(&self, flags: OFlags) -> OFlags {
        let mut below = flags - WITHHELD;
        // In write-back mode, the kernel reads the rest of a partly written page.
        if self.chosen.writeback() && below & OFlags::RWMODE == OFlags::WRONLY {
            below = (below - OFlags::RWMODE) | OFlags::RDWR;
        }
        below
    }

    fn open_known(&self, node: &Arc<Node>, flags: OFlags, kills: bool) -> Result<OwnedFd, Errno> {
        if flags.contains(OFlags::TRUNC) {
            self.buffer.drain(&node.pending);
        }
        let below = self.flags_below(flags);
        self.open_to_keep(None, || Ok(()))?;
        let file = match self.open_below(node, below) {
            // A daemon run by a user may have only write permission for the file.
            Err(Errno::ACCESS) if below & OFlags::RWMODE != flags & OFlags::RWMODE => {
                self.open_below(node, flags - WITHHELD)?
            }
            // An append-only file can only be opened for appending.
            Err(Errno::PERM) if flags.contains(OFlags::APPEND) => {
                self.open_below(node, below | OFlags::APPEND)?
            }
            outcome => outcome?,
        };
        if kills && flags.contains(OFlags::TRUNC) {
            self.kill_privileges(node, &file)?;
        }
        Ok(file)
    }

    pub(super) fn open(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let mut fields = request.fields();
        let (flags, asks) = (OFlags::from_bits_retain(fields.u32()?), fields.u32()?);
        let file = self.open_known(&node, flags, asks & OPEN_KILL_SUIDGID != 0)?;
        let mut record = Record::new(out);
        self.hand_out(worker, &mut record, node, file, flags, None);
        Ok(record.length())
    }

    pub(super) fn create(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let parent = self.node(request.header.node)?;
        let name = request.payload_fields().name()?;
        let mut fields = request.fields();
        let flags = OFlags::from_bits_retain(fields.u32()?);
        let (mode, umask, asks) = (fields.u32()?, fields.u32()?, fields.u32()?);
        keep_group_bit(worker, mode)?;
        let fresh = self.flags_below(flags) | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = self.open_to_keep(Some(parent.id), || {
            worker.identity.act_as(Self::caller(request), umask, || {
                rustix::fs::openat(parent.directory()?, name, fresh, Mode::from_raw_mode(mode))
            })
        });
        match made {
            Ok(file) => self.answer_created(worker, file, &parent, Some(name), flags, out),
            // The file was created in the source after the kernel's lookup.
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {
                let (node, attributes) = self.find(&parent, name)?;
                let file = self.open_known(&node, flags, asks & OPEN_KILL_SUIDGID != 0);
                let file = file.inspect_err(|_| self.nodes.forget(node.id, 1))?;
                let mut record = Record::new(out);
                self.write_entry(&mut record, &node, &attributes);
                self.hand_out(worker, &mut record, node, file, flags, None);
                Ok(record.length())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn create_unnamed(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Answer {
        let parent = self.node(request.header.node)?;
        let mut fields = request.fields();
        let flags = OFlags::from_bits_retain(fields.u32()?);
        let (mode, umask) = (fields.u32()?, fields.u32()?);
        keep_group_bit(worker, mode)?;
        // If `O_EXCL` is not set, the application can link the file later.
        let mut below = (self.flags_below(flags) | OFlags::TMPFILE | OFlags::CLOEXEC) - OFlags::TRUNC;
        below |= flags & OFlags::EXCL;
        let file = self.open_to_keep(None, || {
            worker.identity.act_as(Self::caller(request), umask, || {
                rustix::fs::openat(parent.directory()?, c".", below, Mode::from_raw_mode(mode))
            })
        })?;
        self.answer_created(worker, file, &parent, None, flags, out)
    }

    fn answer_created(
        &self,
        worker: &mut Worker,
        file: OwnedFd,
        parent: &Node,
        name: Option<&CStr>,
        flags: OFlags,
        out: &mut [u8],
    ) -> Answer {
        let stat = rustix::fs::fstat(&file)?;
        let named = name.and_then(|name| Self::path_descriptor(parent, name, &stat));
        let path = named.map_or_else(|| self.reopen(&file, Some(parent.id), OFlags::PATH), Ok)?;
        let node = self.know(path, &stat, parent);
        let mut record = Record::new(out);
        self.write_entry(&mut record, &node, &self.overlay(&stat, None));
        self.hand_out(worker, &mut record, node, file, flags, Some(&stat));
        Ok(record.length())
    }

    /// Opens a newly created file as `O_PATH` by name, which is faster than through `/proc`. Returns `None`
    /// if another file in the source has replaced the new file.
    fn path_descriptor(parent: &Node, name: &CStr, made: &Stat) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = rustix::fs::openat(parent.directory().ok()?, name, flags, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&path).ok()?;
        ((found.st_dev, found.st_ino) == (made.st_dev, made.st_ino)).then_some(path)
    }

    /// Creates a handle for an open file and writes the reply, `struct fuse_open_out`.
    fn hand_out(
        &self,
        worker: &mut Worker,
        record: &mut Record<'_>,
        node: Arc<Node>,
        file: OwnedFd,
        flags: OFlags,
        fresh: Option<&Stat>,
    ) {
        let writable = flags & OFlags::RWMODE != OFlags::RDONLY;
        let mut state = node.lock_open();
        let serving = match state.serving {
            Some(serving) if state.opens > 0 => serving,
            _ => {
                let backing = if self.chosen.passthrough { self.back(worker, &file) } else { None };
                let serving = if backing.is_some() { Serving::Passthrough } else { self.chosen.otherwise };
                state.backing = backing;
                state.serving = Some(serving);
                serving
            }
        };
        state.opens += 1;
        let mut answer = 0;
        let mut backing_id = 0;
        if let Some(backing) = &state.backing {
            answer |= opened::PASSTHROUGH;
            backing_id = backing.id();
        } else if fresh.is_none()
            && state.version.is_some()
            && rustix::fs::fstat(&file).ok().map(|stat| version_of(&stat)) == state.version
        {
            answer |= opened::KEEP_CACHE;
        }
        let changed = if serving == Serving::Passthrough && writable {
            Self::changes_unseen(&file, flags, fresh)
        } else {
            None
        };
        if serving == Serving::Writeback && Self::only_appends(&file, flags) {
            // For an append-only file, the kernel cannot write individual pages.
            answer |= opened::DIRECT_IO;
        }
        if !(serving == Serving::Buffered && writable) && changed.is_none() {
            answer |= opened::NOFLUSH;
        }
        drop(state);
        self.statistics.opened[serving as usize].add(1);
        self.statistics.handles.add(1);
        let seen = Mutex::new(node.pending.errors_now());
        let file = Arc::new(file);
        node.lock_open().file = Arc::downgrade(&file);
        let is_sync = flags.intersects(OFlags::SYNC | OFlags::DSYNC | OFlags::DIRECT);
        if serving == Serving::Passthrough && writable && !is_sync {
            let is_empty = fresh.is_some() || flags.contains(OFlags::TRUNC);
            self.behind.watch(&file, is_empty.then_some(0));
        }
        let handle = self.handles.insert_with(|number| Handle {
            number,
            node,
            file,
            serving,
            appends: flags.contains(OFlags::APPEND),
            is_sync,
            writable,
            seen,
            changed,
        });
        record.u64(handle.number).u32(answer).u32(backing_id.cast_unsigned());
    }

    /// Returns whether the source file was opened for appending only.
    fn only_appends(file: &OwnedFd, flags: OFlags) -> bool {
        flags.contains(OFlags::APPEND)
            && rustix::fs::fcntl_getfl(file).is_ok_and(|below| below.contains(OFlags::APPEND))
    }

    /// Returns the change time of a passed-through file if the file can change while the kernel's inode stays
    /// the same: through a mapping, if the file is also open for reading, or by losing set-user-ID bits.
    fn changes_unseen(file: &OwnedFd, flags: OFlags, fresh: Option<&Stat>) -> Option<AtomicI64> {
        let found;
        let stat = match fresh {
            Some(stat) => stat,
            None => {
                found = rustix::fs::fstat(file).ok()?;
                &found
            }
        };
        let is_mappable = flags & OFlags::RWMODE == OFlags::RDWR;
        let is_privileged = Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID);
        (is_mappable || is_privileged).then(|| AtomicI64::new(change_time(stat)))
    }

    /// Registers a source file with the kernel for passthrough. If the kernel refuses, counts the refusal and
    /// returns `None`.
    fn back(&self, worker: &mut Worker, file: &OwnedFd) -> Option<Backing> {
        use std::os::fd::AsFd;
        let outcome =
            worker.identity.without_keeping_privileges(|| Backing::open(&self.device, file.as_fd()));
        match outcome {
            Ok(backing) => Some(backing),
            Err(error) => {
                self.statistics.passthrough_refused.add(1);
                let errno = error.raw_os_error().unwrap_or(0);
                self.statistics.passthrough_errno.set(u64::from(errno.unsigned_abs()));
                None
            }
        }
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Answer {
        let handle = self.handles.remove(request.fields().u64()?).ok_or(Errno::BADF)?;
        self.statistics.handles.subtract(1);
        // Flushes pages that the application wrote through a mapping after the close. All errors were
        // reported at the close.
        self.buffer.drain(&handle.node.pending);
        self.tell_change(&handle);
        let mut state = handle.node.lock_open();
        assert!(state.opens > 0, "a file is closed only after it was opened");
        state.opens -= 1;
        if state.opens == 0 {
            state.serving = None;
            handle.node.pending.let_go();
            state.version = match state.backing.take() {
                Some(_) => None,
                None => rustix::fs::fstat(&handle.file).ok().map(|stat| version_of(&stat)),
            };
        }
        Ok(0)
    }
}
