//! Errors that occur after a write was acknowledged. Each handle that was open gets each error once, as with the kernel's
//! `errseq_t` for its own write-back (`lib/errseq.c`).

use rustix::io::Errno;

/// The errors of one inode.
#[derive(Debug, Default)]
pub(crate) struct ErrorSequence {
    count: u32,
    last: Option<Errno>,
}

/// The number of errors of the inode that a handle has received, or that occurred before it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl ErrorSequence {
    pub(crate) fn record(&mut self, error: Errno) {
        self.count = self.count.wrapping_add(1);
        self.last = Some(error);
    }

    /// Start of a new handle: it does not get earlier errors.
    pub(crate) fn now(&self) -> Seen {
        Seen(self.count)
    }

    /// Returns the last error that `seen` does not contain, and adds it.
    pub(crate) fn take(&self, seen: &mut Seen) -> Option<Errno> {
        if seen.0 == self.count {
            return None;
        }
        seen.0 = self.count;
        self.last
    }
}
