//! A request before it is queued.

use fonio_core::{ByteCount, Op, Sector, Timestamp};

use crate::scheduler::{Priority, ProcessId, Request, RequestId};

/// A request and the time at which it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time at which the request is queued.
    pub at: Timestamp,
    /// The operation of the request.
    pub op: Op,
    /// Whether a program waits for the request.
    pub is_sync: bool,
    /// Whether it must be durable when it completes (forced unit access).
    pub fua: bool,
    /// The first sector of the request; zero for a flush.
    pub sector: Sector,
    /// The length of the request; zero for a flush.
    pub bytes: ByteCount,
    /// The process that queued the request.
    pub process: ProcessId,
    /// The priority of the request.
    pub priority: Priority,
}

impl Arrival {
    pub(super) fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            op: self.op,
            is_sync: self.is_sync,
            sector: self.sector,
            bytes: self.bytes,
            process: self.process,
            priority: self.priority,
        }
    }
}
