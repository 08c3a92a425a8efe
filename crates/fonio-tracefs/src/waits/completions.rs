//! Finds which request completed when, and on which processor.

use fonio_core::{BlockEvent, EventKind, Request};
use rustc_hash::FxHashMap;

/// The longest time from a completion to the wake-up that it causes. In between, the kernel ends the bio page by page.
const WAKES_WITHIN_NS: u64 = 2_000_000;
/// Largest number of completions remembered. Later waits do not name a request.
const COMPLETIONS_MAX: usize = 4_000_000;

/// The completions of a trace: the time and the processor of each, and the request that it completed.
#[derive(Debug, Default)]
pub struct Completions {
    by_cpu: FxHashMap<u32, Vec<u64>>,
    count: usize,
    requests: FxHashMap<u64, u64>,
}

impl Completions {
    /// Notes a completion event; ignores other events.
    pub fn event(&mut self, event: &BlockEvent) {
        if let (EventKind::Complete, Some(cpu)) = (event.kind, event.cpu)
            && self.count < COMPLETIONS_MAX
        {
            self.count += 1;
            self.by_cpu.entry(cpu).or_default().push(event.time.0);
        }
    }

    /// Notes the request that completed at its time of completion.
    pub fn request(&mut self, row: &Request) {
        if let Some(completed) = row.completed
            && self.requests.len() < COMPLETIONS_MAX
        {
            self.requests.insert(completed.0, row.request_id);
        }
    }

    /// The request of the last completion before `time` on processor `cpu`, if it is recent enough to have caused a
    /// wake-up.
    pub fn before(&self, cpu: u32, time: u64) -> Option<u64> {
        let times = self.by_cpu.get(&cpu)?;
        let last = times[..times.partition_point(|at| *at <= time)].last()?;
        (time - last <= WAKES_WITHIN_NS).then(|| self.requests.get(last).copied()).flatten()
    }
}
