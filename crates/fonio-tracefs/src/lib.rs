//! Decodes the kernel's trace buffer, and finds from its events why threads waited, and whose data bios carry.
//!
//! The caller supplies the pages and texts of tracefs, so this crate opens nothing and reads no clock: the live
//! recorder reads them from a running kernel, tests read them from files. [`ring_buffer`] turns pages into block events,
//! file events and scheduler events; [`waits`] turns scheduler events into rows of the `waits` table; [`whose`] finds the
//! file, the kind of data and the causing thread of each bio.

pub mod ring_buffer;
pub mod waits;
pub mod whose;
