//! Compares the processor of this machine with the processor of a phone or a board.
//!
//! [`Speeds::measure`] runs four small tests: integer work, compression, reads from memory, and SQLite. A
//! [`Processor`] has the results that others published for the same work on another machine.
//! [`Calibration::of`] turns the two into a share of this machine's processor, with the range that the tests
//! leave open. [`Tests`] measure in a fraction of a second whether a process really gets this share.
//!
//! This crate only computes: its caller limits the processes.

mod calibration;
mod lzma;
mod memory;
mod processor;
mod sample;
mod speeds;
mod sqlite;

pub use calibration::{Calibration, TestShare};
pub use processor::{LeftOut, Processor, ProcessorError, Published, SHIPPED, Test};
pub use speeds::{Clock, Rates, Speeds, Tests};
