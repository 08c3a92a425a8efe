//! The device as a ublk device: the kernel hands the requests of `/dev/ublkbN` to this process through io_uring.
//!
//! The owner of the device adds, starts and deletes it (`fonio_host::UblkDevice`); this module serves its only queue.
//! One thread does everything: it takes requests, passes them to the model, sleeps until the first is due, and answers.
//! The driver requires that the thread that has taken a request also answers it, so a second thread for the timing would
//! only add a switch between threads to each request.
//!
//! Unlike a loop device, ublk supports FUA and any queue depth from 1.

mod protocol;
mod queue;

pub(crate) use queue::serve;
