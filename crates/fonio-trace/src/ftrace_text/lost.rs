//! Reads the lines in which ftrace reports missing events.
//!
//! - `# entries-in-buffer/entries-written: 8708/9012`: the difference is the number of events that were
//!   overwritten before the first event of the trace.
//! - `##### CPU 2 buffer started ####`: because of an overrun, this processor's earlier events are missing.
//! - `CPU:1 [LOST 3 EVENTS]` or `CPU:1 [LOST EVENTS]`: the reader of `trace_pipe` was too slow at this point.

use std::collections::BTreeMap;

use fonio_core::{LostEvents, Timestamp};

use super::line::number;

/// Maximum number of processors; no kernel supports more.
const CPUS_MAX: u64 = 8192;

/// A gap whose end is not yet known.
#[derive(Clone, Copy)]
struct Open {
    count: Option<u64>,
    after: Timestamp,
}

/// Converts the lines about missing events into [`LostEvents`].
#[derive(Default)]
pub(super) struct Gaps {
    /// The time of the trace's first event.
    first: Option<Timestamp>,
    /// The time of each processor's last event.
    last: Vec<Option<Timestamp>>,
    open: BTreeMap<u32, Open>,
    overwritten: u64,
}

impl Gaps {
    /// Handles a line that begins with `#`.
    pub fn comment(&mut self, line: &[u8]) {
        if let Some(at) = memchr::memmem::find(line, b"entries-in-buffer/entries-written:") {
            let text = line[at..].split(|byte| *byte == b':').nth(1).unwrap_or_default().trim_ascii_start();
            if let Some((kept, rest)) = number(text)
                && let Some((written, _)) = rest.strip_prefix(b"/").and_then(number)
            {
                self.overwritten = written.saturating_sub(kept);
            }
        } else if let Some(rest) = line.trim_ascii_start().strip_prefix(b"##### CPU ")
            && let Some((cpu, rest)) = number(rest)
            && rest.starts_with(b" buffer started")
            && let Some(after) = self.first
        {
            self.begin(cpu, None, after);
        }
    }

    /// Handles a line that may report lost events; returns whether the line does.
    pub fn lost_line(&mut self, line: &[u8]) -> bool {
        let Some((cpu, rest)) = line.trim_ascii_start().strip_prefix(b"CPU:").and_then(number) else {
            return false;
        };
        let Some(rest) = rest.strip_prefix(b" [LOST ") else { return false };
        let count = number(rest).map(|(count, _)| count);
        if count.is_none() && !rest.starts_with(b"EVENTS]") {
            return false;
        }
        let last = usize::try_from(cpu).ok().and_then(|cpu| self.last.get(cpu).copied().flatten());
        self.begin(cpu, count, last.or(self.first).unwrap_or_default());
        true
    }

    fn begin(&mut self, cpu: u64, count: Option<u64>, after: Timestamp) {
        if cpu >= CPUS_MAX {
            return;
        }
        let open = self.open.entry(cpu as u32).or_insert(Open { count: Some(0), after });
        open.count = open.count.zip(count).map(|(a, b)| a.saturating_add(b));
    }

    /// Handles an event. It ends the open gap of its processor, if there is one.
    pub fn event(&mut self, cpu: u32, at: Timestamp, lost: &mut Vec<LostEvents>) {
        if self.first.is_none() {
            self.first = Some(at);
            if self.overwritten > 0 {
                let count = Some(self.overwritten);
                lost.push(LostEvents { cpu: None, count, after: Timestamp(0), before: at });
            }
        }
        if u64::from(cpu) >= CPUS_MAX {
            return;
        }
        if !self.open.is_empty()
            && let Some(open) = self.open.remove(&cpu)
        {
            lost.push(LostEvents { cpu: Some(cpu), count: open.count, after: open.after, before: at });
        }
        let place = cpu as usize;
        if place >= self.last.len() {
            self.last.resize(place + 1, None);
        }
        self.last[place] = Some(at);
    }

    /// Closes the open gaps at the trace's last event.
    pub fn finish(&mut self, latest: Timestamp, lost: &mut Vec<LostEvents>) {
        for (cpu, open) in std::mem::take(&mut self.open) {
            let before = latest.max(open.after);
            lost.push(LostEvents { cpu: Some(cpu), count: open.count, after: open.after, before });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_their_ends() {
        let mut gaps = Gaps::default();
        let mut lost = Vec::new();
        gaps.comment(b"# entries-in-buffer/entries-written: 10/15   #P:2");
        gaps.event(0, Timestamp(100), &mut lost);
        assert!(gaps.lost_line(b"CPU:0 [LOST 3 EVENTS]"));
        gaps.comment(b"##### CPU 1 buffer started ####");
        gaps.event(1, Timestamp(200), &mut lost);
        gaps.event(0, Timestamp(300), &mut lost);
        assert!(gaps.lost_line(b"CPU:1 [LOST EVENTS]"));
        assert!(!gaps.lost_line(b"CPU:1 [LOST"));
        assert!(!gaps.lost_line(b"CPU:x [LOST 3 EVENTS]"));
        assert!(gaps.lost_line(b"CPU:99999999999 [LOST 3 EVENTS]"));
        gaps.finish(Timestamp(400), &mut lost);
        let gap = |cpu, count, after, before| LostEvents {
            cpu,
            count,
            after: Timestamp(after),
            before: Timestamp(before),
        };
        assert_eq!(
            lost,
            [
                gap(None, Some(5), 0, 100),
                gap(Some(1), None, 100, 200),
                gap(Some(0), Some(3), 100, 300),
                gap(Some(1), None, 200, 400),
            ]
        );
    }
}
