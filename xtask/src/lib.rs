//! The parts of the developer commands that `fonio-studies` uses too: running, installing and building
//! programs, emulated devices, the kernel module, and results.

pub mod emulated;
pub mod process;
pub mod results;
pub mod smartio;
pub mod tools;
