//! Reads foreign traces, one module per format, and assembles their events.
//!
//! This crate reads bytes through [`std::io::Read`]; it opens nothing and reads no clock. A reader turns bytes into
//! [`Batch`](fonio_core::Batch)es of block events; the [`assembler`] turns block events into rows.

pub mod answers;
pub mod assemble;
pub mod assembler;
pub mod biosnoop;
pub mod blkparse;
pub mod blktrace;
mod comm;
mod complaints;
mod completions;
pub mod csv;
pub mod ctf;
mod event_formats;
mod expansion;
pub mod fio_iolog;
pub mod fio_log;
mod foreign;
mod format;
pub mod fs_slower;
pub mod ftrace_text;
pub mod input;
mod launches;
pub mod lines;
pub mod perf_data;
pub mod perfetto;
mod random_access;
pub mod recognise;
mod refusal;
mod scheduling;
mod span;
mod syncs;
pub mod systrace;
pub mod totals;
pub mod trace_dat;
mod unpack;
pub mod vscsi;
mod waiting;
mod waits;
