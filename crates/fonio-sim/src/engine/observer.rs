//! Observes a run: the times of every request, and the device while it works.

use std::ops::ControlFlow;

use fonio_core::Timestamp;

use crate::device::Device;
use crate::scheduler::Request;

/// A completed request and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request. Its id is the number of requests that were queued before it.
    pub request: Request,
    /// The time at which the request was queued.
    pub queued: Timestamp,
    /// The time at which the request was issued to the device.
    pub issued: Timestamp,
    /// The time at which the request completed.
    pub completed: Timestamp,
}

/// Receives every completed request of a run.
pub trait Observer {
    /// Receives a request that has just completed, and the device. `Break` ends the run with
    /// [`EngineError::Stopped`](super::EngineError::Stopped).
    fn completed(&mut self, done: &Done, device: &dyn Device) -> ControlFlow<()>;
}

/// An observer that ignores all requests.
pub(super) struct Unobserved;

impl Observer for Unobserved {
    fn completed(&mut self, _: &Done, _: &dyn Device) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
