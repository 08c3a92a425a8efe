//! The parts of the developers' commands that `fonio-studies` uses too: programs that are run, installed and built,
//! emulated devices, the kernel module, and results.

pub mod emulated;
pub mod process;
pub mod results;
pub mod smartio;
pub mod tools;
