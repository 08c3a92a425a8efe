//! Decodes the kernel's trace buffer. From the decoded events, this crate finds why threads waited and whose
//! data each bio carries.
//!
//! The caller supplies the pages and texts of tracefs, so this crate opens no file and reads no clock. The
//! recorder reads pages and texts from a running kernel, and tests read them from files. [`ring_buffer`]
//! decodes pages into block, file and scheduler events. [`waits`] turns scheduler events into rows of the
//! `waits` table. [`whose`] finds the file, the kind of data and the causing thread of each bio.

pub mod ring_buffer;
pub mod waits;
pub mod whose;
