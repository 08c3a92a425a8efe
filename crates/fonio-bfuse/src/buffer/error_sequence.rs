//! Keeps errors of writes that were already acknowledged to the application. Each open handle gets each error
//! once, as with the kernel's `errseq_t` for write-back errors (`lib/errseq.c`).

use rustix::io::Errno;

/// The errors of an inode's buffered writes.
#[derive(Debug, Default)]
pub(crate) struct ErrorSequence {
    count: u32,
    last: Option<Errno>,
}

/// The number of the inode's errors that a handle has received, or that occurred before the handle was
/// opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl ErrorSequence {
    pub(crate) fn record(&mut self, error: Errno) {
        self.count = self.count.wrapping_add(1);
        self.last = Some(error);
    }

    /// Returns the state for a new handle, which does not get earlier errors.
    pub(crate) fn now(&self) -> Seen {
        Seen(self.count)
    }

    /// Returns the last error that `seen` does not include, and marks this error as seen.
    pub(crate) fn take(&self, seen: &mut Seen) -> Option<Errno> {
        if seen.0 == self.count {
            return None;
        }
        seen.0 = self.count;
        self.last
    }
}
