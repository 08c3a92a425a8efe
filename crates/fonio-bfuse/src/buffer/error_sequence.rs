//! Errors that are found after the write was acknowledged: each is told once to every handle that was open, as the
//! kernel's `errseq_t` does for its own write-back (`lib/errseq.c` documents the idea).

use rustix::io::Errno;

/// The errors of one inode.
#[derive(Debug, Default)]
pub(crate) struct ErrorSequence {
    count: u32,
    last: Option<Errno>,
}

/// How many errors of its inode a handle has been told of, or came too late for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl ErrorSequence {
    pub(crate) fn record(&mut self, error: Errno) {
        self.count = self.count.wrapping_add(1);
        self.last = Some(error);
    }

    /// Where a new handle starts: it is not told what happened before.
    pub(crate) fn now(&self) -> Seen {
        Seen(self.count)
    }

    /// The last error that `seen` has not been told, which it is now.
    pub(crate) fn take(&self, seen: &mut Seen) -> Option<Errno> {
        if seen.0 == self.count {
            return None;
        }
        seen.0 = self.count;
        self.last
    }
}
