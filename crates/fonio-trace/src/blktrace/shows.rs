//! Finds the event kinds that a trace can contain.

use fonio_core::EventKind;

/// The categories by which blktrace and blkparse filter (`-a`). For each category, a trace contains either
/// all events or no events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Categories {
    pub queue: bool,
    pub issue: bool,
    pub complete: bool,
    pub requeue: bool,
}

impl Categories {
    /// Adds the category of an event kind.
    #[inline]
    pub fn see(&mut self, kind: EventKind) {
        match kind {
            EventKind::Issue => self.issue = true,
            EventKind::Complete => self.complete = true,
            EventKind::Requeue => self.requeue = true,
            // A split has no category, so it passes every filter.
            EventKind::Split { .. } => {}
            _ => self.queue = true,
        }
    }

    /// Returns the names for [`Source::shows`](fonio_core::meta::Source::shows).
    pub fn names(self) -> Vec<String> {
        const QUEUE: [&str; 11] = [
            "queue",
            "back_merge",
            "front_merge",
            "bounce",
            "get_request",
            "sleep_request",
            "insert",
            "split",
            "remap",
            "plug",
            "unplug",
        ];
        let mut names = Vec::new();
        if self.queue {
            names.extend(QUEUE);
        }
        if self.issue {
            names.push("issue");
        }
        if self.complete {
            names.push("complete");
        }
        // Requeues are rare, so their absence shows that they were filtered out only if another category is
        // absent too.
        if self.requeue || (self.queue && self.issue && self.complete) {
            names.push("requeue");
        }
        names.into_iter().map(str::to_owned).collect()
    }
}
