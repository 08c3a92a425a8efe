//! The noop scheduler: dispatches in the order of insertion.
//!
//! The kernel's noop also merges neighbours; this model does not merge requests.

use std::collections::VecDeque;

use fonio_core::Timestamp;

use super::{Request, Scheduler};

/// A FIFO queue.
#[derive(Debug, Default)]
pub struct Noop {
    queue: VecDeque<Request>,
}

impl Scheduler for Noop {
    fn insert(&mut self, request: Request, _: Timestamp) {
        self.queue.push_back(request);
    }

    fn dispatch(&mut self, _: Timestamp, _: u32) -> Option<Request> {
        self.queue.pop_front()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
