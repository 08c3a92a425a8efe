//! Writes the recording of a finished capture.

pub(crate) mod finish;
mod losses;
mod reader;
mod waits;
pub(crate) mod writer;
