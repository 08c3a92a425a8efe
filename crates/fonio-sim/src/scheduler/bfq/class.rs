//! B-WF2Q+ for the queues of a class: chooses the queue that gets the next turn.
//!
//! A queue's turn has a virtual start time and a virtual finish time. The virtual time of the class
//! advances by the service that the class receives, divided by the total weight of its queues. Among the
//! queues whose start time has been reached, the queue with the earliest finish time gets the next turn.

use super::queue::{Queue, State};

/// The virtual time of a sector at weight 1. In observed kernels, rounding errors of the divisions by weights
/// decide ties. With 1 << 20, the model's decisions differ from the kernel's for the load `equal-weights`.
const SECTOR_VIRTUAL: u64 = 1 << 22;

/// Converts `sectors` of service to virtual time at a `weight`.
fn virtual_of(sectors: u64, weight: u64) -> u64 {
    sectors * SECTOR_VIRTUAL / weight.max(1)
}

/// The queues of a class, by their index.
#[derive(Debug, Default)]
pub(super) struct ClassQueues {
    now: u64,
    /// The queues that wait for their turn.
    busy: Vec<usize>,
    /// Empty queues whose last turn has not yet finished in virtual time, so their weights still count in the
    /// total.
    retained: Vec<usize>,
    /// The next queue. It is chosen whenever a queue becomes busy, begins its turn or loses its turn. A queue
    /// whose virtual start time is reached later does not become the next queue.
    next: Option<usize>,
}

impl ClassQueues {
    pub(super) fn has_next(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Returns the queues that wait for their turn.
    pub(super) fn busy(&self) -> &[usize] {
        &self.busy
    }

    /// Makes an empty queue wait for its turn. The turn starts now, or when the queue's last turn has
    /// finished.
    pub(super) fn activate(&mut self, queues: &mut [Queue], at: usize) {
        self.retained.retain(|kept| *kept != at);
        let queue = &mut queues[at];
        queue.start = self.now.max(queue.finish);
        self.enqueue(queue, at);
        let is_next = match self.next {
            None => true,
            Some(next) => {
                let (new, next) = (&queues[at], &queues[next]);
                new.start <= self.now && (new.finish < next.finish || next.start > self.now)
            }
        };
        if is_next {
            self.next = Some(at);
        }
    }

    /// Ends the turn of a queue and computes its virtual finish from its service.
    pub(super) fn end_turn(&mut self, queues: &mut [Queue], at: usize) {
        let queue = &mut queues[at];
        queue.finish = queue.start + virtual_of(queue.used, queue.weight());
        if queue.is_empty() {
            queue.state = State::Empty;
            if queue.finish > self.now {
                self.retained.push(at);
            }
            return;
        }
        queue.start = queue.finish;
        self.enqueue(queue, at);
        self.next = self.choose(queues, true);
    }

    fn enqueue(&mut self, queue: &mut Queue, at: usize) {
        let request = queue.next().map_or(0, super::sectors_of);
        queue.state = State::Busy;
        queue.used = 0;
        queue.budget = queue.earned.max(request * super::charge_of(queue));
        queue.finish = queue.start + virtual_of(queue.budget, queue.weight());
        self.busy.push(at);
    }

    /// Begins the turn of the next queue.
    pub(super) fn begin_turn(&mut self, queues: &mut [Queue]) -> Option<usize> {
        let at = self.next.or_else(|| self.choose(queues, true))?;
        self.busy.retain(|busy| *busy != at);
        queues[at].state = State::InService;
        self.next = self.choose(queues, false);
        Some(at)
    }

    /// Charges `sectors` to the queue that has the device.
    pub(super) fn serve(&mut self, queues: &mut [Queue], at: usize, sectors: u64) {
        self.retained.retain(|kept| queues[*kept].finish > self.now);
        let others = self.busy.iter().chain(&self.retained).map(|other| queues[*other].weight());
        let weights = others.sum::<u64>() + queues[at].weight();
        self.now += virtual_of(sectors, weights);
        queues[at].used += sectors;
    }

    /// Returns the queue with the earliest virtual finish among those whose virtual start was reached. If
    /// virtual time has not reached the start time of any queue, virtual time jumps to the earliest start
    /// time: permanently if `is_for_good` is true, otherwise only for this choice.
    fn choose(&mut self, queues: &[Queue], is_for_good: bool) -> Option<usize> {
        let first = self.busy.iter().map(|busy| queues[*busy].start).min()?;
        let now = self.now.max(first);
        if is_for_good {
            self.now = now;
        }
        let started = self.busy.iter().copied().filter(|busy| queues[*busy].start <= now);
        started.min_by_key(|busy| (queues[*busy].finish, *busy))
    }
}
