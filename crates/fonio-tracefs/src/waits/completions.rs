//! Finds the time and processor of each request's completion.

use fonio_core::{BlockEvent, Content, EventKind, Nanos, Op, Request, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum time from a completion to the wake-up that it causes. In this time, the kernel ends the bio page
/// by page.
pub const COMPLETION_WAKES_WITHIN: Nanos = Nanos(WAKES_WITHIN_NS);
const WAKES_WITHIN_NS: u64 = 2_000_000;
/// Maximum number of stored completions. Waits that end after later completions have no request.
const COMPLETIONS_MAX: usize = 4_000_000;

/// Maximum number of further requests that are stored for one time.
const AT_SAME_TIME_MAX: usize = 64;

/// The completions in a trace, each with its time, processor and request.
#[derive(Debug, Default)]
pub struct Completions {
    by_cpu: FxHashMap<u32, Vec<u64>>,
    count: usize,
    requests: FxHashMap<u64, Completed>,
    /// Further requests that completed at the same time, such as in a trace with a resolution of a microsecond.
    at_same_time: FxHashMap<u64, Vec<Completed>>,
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
    /// The thread that queued the request, if it is known.
    pub tid: Option<u32>,
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
            let Request { request_id, tid, file_id, content, op, .. } = *row;
            let new = Completed { request_id, queued, tid, file_id, content, op };
            if let Some(other) = self.requests.insert(completed.0, new) {
                let others = self.at_same_time.entry(completed.0).or_default();
                if others.len() < AT_SAME_TIME_MAX {
                    others.push(other);
                }
            }
        }
    }

    /// Returns the request of the last completion before `time` on processor `cpu`, if it is recent enough to
    /// have caused a wake-up.
    pub fn before(&self, cpu: u32, time: u64) -> Option<Completed> {
        self.requests.get(&self.last_before(cpu, time)?).copied()
    }

    /// Returns the same as [`before`](Completions::before) for the wake-up of the thread `tid`. Of several requests
    /// that completed at the same time, returns the one that this thread queued, if any.
    pub fn before_wake_up_of(&self, tid: u32, cpu: u32, time: u64) -> Option<Completed> {
        let last = self.last_before(cpu, time)?;
        let others = self.at_same_time.get(&last).map_or(&[][..], Vec::as_slice);
        let mut all = self.requests.get(&last).into_iter().chain(others);
        all.clone().find(|completed| completed.tid == Some(tid)).or_else(|| all.next()).copied()
    }

    fn last_before(&self, cpu: u32, time: u64) -> Option<u64> {
        let times = self.by_cpu.get(&cpu)?;
        let last = *times[..times.partition_point(|at| *at <= time)].last()?;
        (time - last <= WAKES_WITHIN_NS).then_some(last)
    }

    /// Forgets the completions that cannot have caused wake-ups at `time` or later.
    pub fn forget_before(&mut self, time: Timestamp) {
        let from = time.0.saturating_sub(WAKES_WITHIN_NS);
        for times in self.by_cpu.values_mut() {
            times.drain(..times.partition_point(|at| *at < from));
        }
        self.count = self.by_cpu.values().map(Vec::len).sum();
        self.requests.retain(|at, _| *at >= from);
        self.at_same_time.retain(|at, _| *at >= from);
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
        all.forget_before(Timestamp(9_000_000));
        assert_eq!((all.count, all.requests.len()), (1, 1));
        assert_eq!(all.before(1, 9_000_000).map(|found| found.request_id), Some(4));
    }

    #[test]
    fn of_requests_that_completed_at_once_a_thread_waited_for_its_own() {
        let mut completions = Completions::default();
        let at = Timestamp(1_000_000);
        let complete = BlockEvent::new(at, EventKind::Complete, DeviceId::new(8, 0));
        completions.event(&BlockEvent { cpu: Some(0), ..complete });
        for tid in [7, 8, 9] {
            completions.request(&Request {
                request_id: u64::from(tid),
                tid: Some(tid),
                completed: Some(at),
                ..Request::new(DeviceId::new(8, 0), Op::Read, ByteCount(4096))
            });
        }
        let of = |tid| completions.before_wake_up_of(tid, 0, 1_000_100).map(|found| found.request_id);
        assert_eq!([of(7), of(8), of(9), of(1)], [Some(7), Some(8), Some(9), Some(9)]);
    }
}
