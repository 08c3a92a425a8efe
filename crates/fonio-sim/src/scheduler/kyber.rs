//! The kyber scheduler: limits the reads, writes and other requests in flight, depending on their latencies.
//!
//! Requests of a kind are dispatched in the order of insertion; the kinds take turns, in batches. Each kind
//! has a number of tokens. If a kind missed its latency target in a period, the kinds that met their
//! targets give up half of their tokens after this period. If all kinds met their targets, tokens are
//! restored.
//!
//! Sources: the kernel's `Documentation/block/kyber-iosched`; the message of the commit that introduced kyber
//! (Linux 4.12); "Two new block I/O schedulers for 4.12" (LWN 2017). The speed of token changes is our
//! choice. Decisions while no limit is reached are checked against a running kernel
//! (`tests/vectors/observed`).

use std::collections::VecDeque;

use fonio_core::{Nanos, Op, Timestamp};

use super::{Request, Scheduler};

/// The tunables, and numbers that are fixed in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The latency target for reads (`read_lat_nsec`).
    pub read_latency: Nanos,
    /// The latency target for writes (`write_lat_nsec`).
    pub write_latency: Nanos,
    /// The maximum number of tokens of each [`Kind`].
    pub tokens_max: [u32; 4],
    /// The maximum number of requests per batch of each [`Kind`].
    pub batch: [u32; 4],
    /// The time between token adjustments.
    pub period: Nanos,
    /// The share of requests that must meet the target, in percent.
    pub met_percent: u64,
}

impl Tunables {
    /// The kernel's default tunables; `period` and `met_percent` are assumed.
    pub const DEFAULT: Tunables = Tunables {
        read_latency: Nanos(2_000_000),
        write_latency: Nanos(10_000_000),
        tokens_max: [256, 128, 64, 16],
        batch: [16, 8, 1, 1],
        period: Nanos(100_000_000),
        met_percent: 90,
    };
}

/// A kind of requests with its own tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All reads.
    Read,
    /// Writes, both synchronous and asynchronous.
    Write,
    /// All discards.
    Discard,
    /// All other requests.
    Other,
}

impl Kind {
    fn of(op: Op) -> Kind {
        match op {
            Op::Read => Kind::Read,
            Op::Write | Op::ZoneAppend => Kind::Write,
            Op::Discard | Op::SecureErase => Kind::Discard,
            _ => Kind::Other,
        }
    }
}

const KINDS: usize = 4;

/// The kyber scheduler.
#[derive(Debug)]
pub struct Kyber {
    settings: Tunables,
    kinds: [Queue; KINDS],
    /// The kind of the batch in progress, and the number of its dispatched requests.
    current: usize,
    gone: u32,
    period_ends: Timestamp,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Request>,
    in_flight: u32,
    tokens: u32,
    /// Number of completions in this period, and number of completions that met the target.
    completed: u64,
    met: u64,
}

impl Queue {
    fn may_go(&self) -> bool {
        !self.requests.is_empty() && self.in_flight < self.tokens
    }
}

impl Kyber {
    /// Makes an empty scheduler.
    pub fn new(settings: Tunables) -> Kyber {
        let kinds = settings.tokens_max.map(|tokens| Queue { tokens, ..Queue::default() });
        Kyber { settings, kinds, current: 0, gone: 0, period_ends: Timestamp(0) }
    }

    /// Returns the current number of tokens of a kind.
    pub fn tokens(&self, kind: Kind) -> u32 {
        self.kinds[kind as usize].tokens
    }

    fn adjust(&mut self) {
        let percent = self.settings.met_percent;
        let missed = |queue: &Queue| queue.met * 100 < queue.completed * percent;
        let any_missed = self.kinds.iter().any(missed);
        for (queue, tokens_max) in self.kinds.iter_mut().zip(self.settings.tokens_max) {
            if !any_missed {
                queue.tokens = (queue.tokens * 2).min(tokens_max);
            } else if !missed(queue) {
                queue.tokens = (queue.tokens / 2).max(1);
            }
            (queue.completed, queue.met) = (0, 0);
        }
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, request: Request, _: Timestamp) {
        self.kinds[Kind::of(request.op) as usize].requests.push_back(request);
    }

    fn dispatch(&mut self, _: Timestamp, _: u32) -> Option<Request> {
        let continues = self.gone < self.settings.batch[self.current] && self.kinds[self.current].may_go();
        if !continues {
            let order = (1..=KINDS).map(|step| (self.current + step) % KINDS);
            self.current = order.into_iter().find(|kind| self.kinds[*kind].may_go())?;
            self.gone = 0;
        }
        self.gone += 1;
        let queue = &mut self.kinds[self.current];
        queue.in_flight += 1;
        queue.requests.pop_front()
    }

    fn complete(&mut self, request: &Request, issued: Timestamp, now: Timestamp) {
        let kind = Kind::of(request.op);
        let target = match kind {
            Kind::Read => Some(self.settings.read_latency),
            Kind::Write => Some(self.settings.write_latency),
            _ => None,
        };
        let queue = &mut self.kinds[kind as usize];
        queue.in_flight -= 1;
        if let Some(target) = target {
            queue.completed += 1;
            queue.met += u64::from(issued + target >= now);
        }
        if self.period_ends <= now {
            self.adjust();
            self.period_ends = now + self.settings.period;
        }
    }

    fn waiting(&self) -> usize {
        self.kinds.iter().map(|queue| queue.requests.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;

    #[test]
    fn writes_give_up_tokens_while_reads_miss_their_target() {
        let mut kyber = Kyber::new(Tunables::DEFAULT);
        let mut tokens = Vec::new();
        for (step, read_ms) in [5, 5, 5, 1, 1, 1, 1].into_iter().enumerate() {
            let now = 1_000_000_000 * (step as u64 + 1);
            for (op, ms) in [(Op::Write, 5), (Op::Read, read_ms)] {
                kyber.insert(request(step as u64, op, 0), Timestamp(now));
                let gone = kyber.dispatch(Timestamp(now), 0).expect("the request may be dispatched");
                // The period ends with the read, so both requests count.
                let end = now + ms * 1_000_000 + if op == Op::Read { 200_000_000 } else { 0 };
                let issued = end - ms * 1_000_000;
                kyber.period_ends = Timestamp(now + 100_000_000);
                kyber.complete(&gone, Timestamp(issued), Timestamp(end));
            }
            tokens.push((kyber.tokens(Kind::Read), kyber.tokens(Kind::Write)));
        }
        assert_eq!(tokens, [(256, 64), (256, 32), (256, 16), (256, 32), (256, 64), (256, 128), (256, 128)]);
    }

    #[test]
    fn batches_take_turns() {
        let mut kyber = Kyber::new(Tunables::DEFAULT);
        for id in 0..60 {
            let op = if id % 2 == 0 { Op::Read } else { Op::Write };
            kyber.insert(request(id, op, 0), Timestamp(0));
        }
        let order: String = std::iter::from_fn(|| kyber.dispatch(Timestamp(0), 0))
            .map(|gone| if gone.op == Op::Read { 'r' } else { 'w' })
            .collect();
        let batches = ["r".repeat(16), "w".repeat(8), "r".repeat(14), "w".repeat(8), "w".repeat(14)];
        assert_eq!(order, batches.concat());
    }
}
