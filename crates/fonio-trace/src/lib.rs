//! Readers of foreign traces, one file per format, and the one assembler behind them all.
//!
//! Bytes come in through [`std::io::Read`]; this crate opens nothing and reads no clock. A reader turns bytes into
//! [`Batch`](fonio_core::Batch)es of block events; the [`assembler`] turns block events into rows.

pub mod assemble;
pub mod assembler;
pub mod blkparse;
pub mod blktrace;
mod complaints;
pub mod csv;
mod expansion;
pub mod ftrace_text;
pub mod input;
pub mod lines;
pub mod recognise;
mod span;
pub mod systrace;
