//! Decodes what the kernel writes into its trace buffer, and explains from it why threads waited.
//!
//! Pages and texts of tracefs are handed in, so this crate opens nothing and reads no clock: the live recorder reads
//! them from a running kernel, a test from files. [`ring_buffer`] turns pages into block events and scheduler events;
//! [`waits`] turns scheduler events into rows of the `waits` table.

pub mod ring_buffer;
pub mod waits;
