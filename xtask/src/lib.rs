//! The parts of the developer commands that `fonio-studies` also uses. They run, install and build programs,
//! start emulated devices, build the kernel module, store results, and make long traces.

pub mod emulated;
pub mod process;
pub mod results;
pub mod smartio;
pub mod text_trace;
pub mod tools;
