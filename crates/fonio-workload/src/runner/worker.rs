//! A thread of a phase: its state, and the counts and times of its steps.

use std::collections::BTreeMap;
use std::time::Duration;

use fonio_core::Random;
use rusqlite::Connection;

use super::buffer::AlignedBuffer;
use super::groups::Group;
use super::times::{Reading, ThreadClock};
use super::{Shared, lock};
use crate::clock::monotonic_ns;
use crate::error::WorkloadError;
use crate::http::Client;
use crate::observer::Mark;
use crate::outcome::{Amounts, ThreadTimes};
use crate::scale::Planned;

#[derive(Clone, Debug, Default)]
pub(super) struct StepTime {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) longest_ns: u64,
}

impl StepTime {
    pub(super) fn add(&mut self, other: &StepTime) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The timer of a repeat, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    period_ns: u64,
    next_ns: u64,
}

pub(super) struct Done {
    pub(super) amounts: Amounts,
    pub(super) times: Vec<StepTime>,
    /// Where the time of the thread went; `None` if the kernel does not say.
    pub(super) whole: Option<ThreadTimes>,
    /// Where the time of the spans with a mark went, by the mark's name.
    pub(super) spans: BTreeMap<String, ThreadTimes>,
}

/// The sleep of a thread whose reason is known, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asleep {
    network_ns: u64,
    paused_ns: u64,
}

pub(super) struct Worker<'s, 'a> {
    pub(super) shared: &'s Shared<'a>,
    name: String,
    pub(super) label: String,
    pub(super) random: Random,
    pub(super) connections: BTreeMap<String, Connection>,
    pub(super) client: Option<Client>,
    /// Data of the current read or write.
    pub(super) buffer: AlignedBuffer,
    /// The data that the thread last fetched or read, for work steps.
    pub(super) last: Vec<u8>,
    pub(super) amounts: Amounts,
    pub(super) times: Vec<StepTime>,
    pub(super) clock: ThreadClock,
    pub(super) asleep: Asleep,
    pub(super) spans: BTreeMap<String, ThreadTimes>,
    /// Location of the current step in the workload, for error messages.
    pub(super) key: String,
    pub(super) index: usize,
}

/// Maximum length of a single sleep. Longer pauses are split, so that a run can be stopped in time.
const PAUSE_PIECE: Duration = Duration::from_millis(100);

impl<'s, 'a> Worker<'s, 'a> {
    pub(super) fn new(shared: &'s Shared<'a>, name: &str, label: &str, steps: usize) -> Self {
        Worker {
            shared,
            name: name.to_owned(),
            label: label.to_owned(),
            random: Random::labelled(shared.runner.options.seed, label),
            connections: BTreeMap::new(),
            client: shared.runner.options.http.map(Client::new),
            buffer: AlignedBuffer::default(),
            last: Vec::new(),
            amounts: Amounts::default(),
            times: vec![StepTime::default(); steps],
            clock: ThreadClock::of_this_thread(),
            asleep: Asleep::default(),
            spans: BTreeMap::new(),
            key: String::new(),
            index: 0,
        }
    }

    pub(super) fn ended(&mut self, planned: &Planned<'_>, start_ns: u64) {
        let ns = monotonic_ns() - start_ns;
        self.index = planned.index;
        self.took(1, ns, ns);
    }

    /// Ends a span with a mark. `before` was read at the start of the span.
    pub(super) fn marked(
        &mut self,
        name: &str,
        round: u64,
        start_ns: u64,
        (clock, asleep): (Option<Reading>, Asleep),
    ) {
        let end_ns = monotonic_ns();
        if let Some(times) = clock.and_then(|clock| self.times_since(&clock, &asleep)) {
            *self.spans.entry(name.to_owned()).or_default() += times;
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        self.shared.mark(&Mark {
            name: name.to_owned(),
            round,
            thread: Some(self.name.clone()),
            tid,
            start_ns,
            end_ns,
        });
    }

    /// Returns where the thread's time went since the clock was read and the sleep was `asleep`.
    pub(super) fn times_since(&self, clock: &Reading, asleep: &Asleep) -> Option<ThreadTimes> {
        let times = clock.until(&self.clock.read()?);
        let network_ns = self.asleep.network_ns - asleep.network_ns;
        let paused_ns = self.asleep.paused_ns - asleep.paused_ns;
        let blocked_ns = times.blocked_ns.saturating_sub(network_ns + paused_ns);
        Some(ThreadTimes { network_ns, paused_ns, blocked_ns, ..times })
    }

    fn took(&mut self, count: u64, total_ns: u64, longest_ns: u64) {
        self.times[self.index].add(&StepTime { count, total_ns, longest_ns });
    }

    /// Executes `count` operations and measures the time of each operation.
    pub(super) fn each(
        &mut self,
        count: u64,
        mut operation: impl FnMut(&mut Self) -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        for _ in 0..count {
            if self.shared.must_stop() {
                return Err(WorkloadError::Stopped);
            }
            let start_ns = monotonic_ns();
            operation(self)?;
            let ns = monotonic_ns() - start_ns;
            self.took(1, ns, ns);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, seconds: f64) -> Result<(), WorkloadError> {
        self.sleep(Duration::from_secs_f64(seconds * self.shared.runner.options.pace))
    }

    fn sleep(&mut self, mut left: Duration) -> Result<(), WorkloadError> {
        self.amounts.think_ns += left.as_nanos() as u64;
        let before = self.clock.read();
        let mut has_ended = Ok(());
        while !left.is_zero() {
            if self.shared.must_stop() {
                has_ended = Err(WorkloadError::Stopped);
                break;
            }
            let piece = left.min(PAUSE_PIECE);
            std::thread::sleep(piece);
            left -= piece;
        }
        self.asleep.paused_ns += self.slept_since(before);
        has_ended
    }

    /// Returns for how many nanoseconds the thread slept since its clock was read; 0 if the kernel does not say.
    fn slept_since(&self, before: Option<Reading>) -> u64 {
        let times = before.zip(self.clock.read()).map(|(before, now)| before.until(&now));
        times.map_or(0, |times| times.blocked_ns)
    }

    /// Starts the timer of a repeat.
    pub(super) fn timer(&mut self, seconds: f64) -> Timer {
        let period_ns = (seconds * self.shared.runner.options.pace * 1e9) as u64;
        Timer { period_ns, next_ns: monotonic_ns() + self.random.below(period_ns.max(1)) }
    }

    /// Waits until the timer expires, and sets it again. If the thread is late, it continues at once and does not
    /// make up for the rounds that it missed.
    pub(super) fn wait_for(&mut self, timer: &mut Timer) -> Result<(), WorkloadError> {
        let left_ns = timer.next_ns.saturating_sub(monotonic_ns());
        self.sleep(Duration::from_nanos(left_ns))?;
        timer.next_ns = timer.next_ns.max(monotonic_ns().saturating_sub(timer.period_ns)) + timer.period_ns;
        Ok(())
    }

    pub(super) fn get(
        &mut self,
        size: &crate::definition::Sizes,
        content: crate::definition::Content,
        send: Option<&crate::definition::Sizes>,
    ) -> Result<(), WorkloadError> {
        let bytes = size.draw(&mut self.random);
        let send = send.map_or(0, |sizes| sizes.draw(&mut self.random));
        let seed = self.random.next_u64();
        let client = self.client.as_mut().expect("checked by `Runner::new`");
        let before = self.clock.read();
        let fetched = client.fetch(content, seed, bytes, send, &mut self.last);
        self.asleep.network_ns += self.slept_since(before);
        fetched?;
        self.amounts.http_requests += 1;
        self.amounts.bytes_fetched += bytes;
        self.amounts.bytes_sent += send;
        Ok(())
    }

    pub(super) fn group<T>(&self, files: &str, with: impl FnOnce(&mut Group) -> T) -> T {
        with(&mut lock(&self.shared.runner.groups[files]))
    }
}
