//! The parts of the developer commands that `fonio-studies` also uses. They run, install and build programs,
//! start emulated devices, build the kernel module, and store results.

pub mod emulated;
pub mod process;
pub mod results;
pub mod smartio;
pub mod tools;
