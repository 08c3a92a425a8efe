//! Serves the device as a ublk device: the kernel passes requests of `/dev/ublkbN` to this process through
//! io_uring.
//!
//! The owner of the device adds, starts and deletes the device (`fonio_host::UblkDevice`); this module serves
//! the device's only queue. One thread does all work: this thread fetches requests, passes them to the model,
//! sleeps until the first request is due, and completes this request. The driver requires the same thread to
//! fetch and complete a request, so a second thread for the timing would only add a context switch to each
//! request.
//!
//! Unlike a loop device, a ublk device supports FUA and any queue depth from 1.

mod protocol;
mod queue;

pub(crate) use queue::serve;
