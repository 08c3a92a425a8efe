//! Turns a recording into the sequence of its accesses, by thread, each with the event that it waits for.
//!
//! If an access began after its thread's previous access had completed, it begins again when the previous access has
//! completed and the recorded pause has passed. So a thread continues earlier on a faster device. An access also waits
//! for another thread's access if the recording shows that the other thread woke or started the thread of the access.
//!
//! [`Collected`] takes the rows of a recording and returns the [`Sequence`] of its reads, writes and flushes. The other
//! items serve sequences of any accesses, such as file-system calls.

mod budget;
mod causes;
mod chunks;
mod lanes;
mod sequence;

pub use budget::{ACCESS, Budget, FILE, LANES_MAX, ROW, TooLarge, WAIT, check_buffers};
pub use causes::{Causes, MayWait, Waits, link, since};
pub use chunks::{CHUNK, Chunks};
pub use lanes::{Threaded, lanes};
pub use sequence::{Access, Collected, Kind, NO_FLUSHES, POOL, Sequence};
