//! Adds the figures and words for threads in uninterruptible sleep.

use fonio_core::Nanos;

use super::Uninterruptible;
use super::judged::{Judged, TRACE_FROM};
use crate::figures::facts::Facts;

impl Uninterruptible {
    pub(super) fn figures(&self, span: Nanos, facts: &mut Facts) {
        let judged = self.judged(span);
        let judged = judged.as_ref();
        let label = "the trace shows threads in state D and no block events";
        facts.count("uninterruptible.alone", label, u64::from(!self.has_block_events));
        let label = "a span is long enough to judge state D";
        facts.count("uninterruptible.judged", label, u64::from(judged.is_some() || span >= TRACE_FROM));
        let label = "waits in state D, all threads";
        facts.count("uninterruptible.waits", label, self.all.waits);
        for (name, label, time) in [
            ("io", "state D, all threads, counted as I/O by the kernel", self.all.io_ns),
            ("not_io", "state D, all threads, not counted as I/O", self.all.not_io_ns),
            ("unknown", "state D, all threads, not known whether I/O", self.all.unknown_ns),
            ("longest", "longest wait in state D", self.all.longest_ns),
        ] {
            facts.amount(format!("uninterruptible.{name}"), label, time);
        }
        let label = "state D counted as I/O, share of the judged span";
        facts.share("uninterruptible.io_share", label, judged.map(Judged::io_share));
        let label = "state D of any kind, share of the judged span";
        facts.share("uninterruptible.share", label, judged.map(Judged::share));
        if let Some(judged) = judged {
            facts.word("uninterruptible.place", &judged.place);
            facts.word("uninterruptible.who", &judged.who);
            facts.word("uninterruptible.times", &judged.time.in_words());
            if let Some(function) = &judged.function {
                facts.word("uninterruptible.function", function);
            }
        }
        if let Some(longest) = self.longest() {
            let times = longest.time.in_words();
            facts.word("uninterruptible.longest_thread", &format!("{}: {times}", longest.full_name()));
        }
    }
}
