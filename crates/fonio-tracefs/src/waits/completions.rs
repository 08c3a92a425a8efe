//! Finds the time and processor of each request's completion.

use fonio_core::{BlockEvent, Content, EventKind, Op, Request, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum time from a completion to the wake-up that it causes. In this time, the kernel ends the bio page
/// by page.
const WAKES_WITHIN_NS: u64 = 2_000_000;
/// Maximum number of stored completions. Waits that end after later completions have no request.
const COMPLETIONS_MAX: usize = 4_000_000;

/// The completions in a trace, each with its time, processor and request.
#[derive(Debug, Default)]
pub struct Completions {
    by_cpu: FxHashMap<u32, Vec<u64>>,
    count: usize,
    requests: FxHashMap<u64, Completed>,
    wanted: Option<Wanted>,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The request's number in the recording.
    pub request_id: u64,
    /// The time when the request's first bio was queued or, if unknown, the earliest known time of the
    /// request.
    pub queued: Timestamp,
    /// The number of the request's file in the table `files`.
    pub file_id: Option<u32>,
    /// The kind of data that the request carried.
    pub content: Content,
    /// Whether the request read or wrote, for example.
    pub op: Op,
}

/// The completions that may have caused known wake-ups.
#[derive(Debug, Default)]
struct Wanted {
    /// The times of wake-ups on each processor, in order.
    wake_ups: FxHashMap<u32, Vec<u64>>,
    /// The times of completions shortly before wake-ups.
    completed: FxHashSet<u64>,
}

impl Completions {
    /// Keeps only completions that may have caused one of the given wake-ups. A wake-up is given as its
    /// processor and time.
    pub fn before_wake_ups(wake_ups: impl IntoIterator<Item = (u32, u64)>) -> Completions {
        let mut wanted = Wanted::default();
        for (cpu, time) in wake_ups {
            wanted.wake_ups.entry(cpu).or_default().push(time);
        }
        wanted.wake_ups.values_mut().for_each(|times| times.sort_unstable());
        Completions { wanted: Some(wanted), ..Completions::default() }
    }

    /// Records a completion event; ignores other events.
    pub fn event(&mut self, event: &BlockEvent) {
        if let (EventKind::Complete, Some(cpu)) = (event.kind, event.cpu)
            && self.count < COMPLETIONS_MAX
        {
            if let Some(wanted) = &mut self.wanted {
                let times = wanted.wake_ups.get(&cpu).map_or(&[][..], Vec::as_slice);
                let next = times.get(times.partition_point(|at| *at < event.time.0));
                if next.is_none_or(|next| next - event.time.0 > WAKES_WITHIN_NS) {
                    return;
                }
                wanted.completed.insert(event.time.0);
            }
            self.count += 1;
            self.by_cpu.entry(cpu).or_default().push(event.time.0);
        }
    }

    /// Assigns a request to the completion event that ended it.
    pub fn request(&mut self, row: &Request) {
        if let Some(completed) = row.completed
            && self.requests.len() < COMPLETIONS_MAX
            && self.wanted.as_ref().is_none_or(|wanted| wanted.completed.contains(&completed.0))
        {
            let queued = row.queued.unwrap_or_else(|| row.order_time());
            let Request { request_id, file_id, content, op, .. } = *row;
            self.requests.insert(completed.0, Completed { request_id, queued, file_id, content, op });
        }
    }

    /// Returns the request of the last completion before `time` on processor `cpu`, if it is recent enough to
    /// have caused a wake-up.
    pub fn before(&self, cpu: u32, time: u64) -> Option<Completed> {
        let times = self.by_cpu.get(&cpu)?;
        let last = times[..times.partition_point(|at| *at <= time)].last()?;
        (time - last <= WAKES_WITHIN_NS).then(|| self.requests.get(last).copied()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, DeviceId};

    use super::*;

    #[test]
    fn only_completions_before_a_wake_up_are_remembered() {
        let complete = |cpu, time| BlockEvent {
            cpu: Some(cpu),
            ..BlockEvent::new(Timestamp(time), EventKind::Complete, DeviceId::new(8, 0))
        };
        let request = |request_id, time| Request {
            request_id,
            completed: Some(Timestamp(time)),
            ..Request::new(DeviceId::new(8, 0), Op::Read, ByteCount(4096))
        };
        let mut all = Completions::default();
        let mut some = Completions::before_wake_ups([(1, 9_000_000), (0, 5_000_100)]);
        for (id, cpu, time) in [(1, 0, 1_000_000), (2, 0, 5_000_000), (3, 1, 5_000_000), (4, 1, 8_999_000)] {
            for completions in [&mut all, &mut some] {
                completions.event(&complete(cpu, time));
                completions.request(&request(id, time));
            }
        }
        assert_eq!((some.count, some.requests.len()), (2, 2));
        for (cpu, time, expected) in [(1, 9_000_000, Some(4)), (1, 20_000_000, None), (2, 5_000_000, None)] {
            let id = |completions: &Completions| completions.before(cpu, time).map(|found| found.request_id);
            assert_eq!((id(&all), id(&some)), (expected, expected));
        }
    }
}
