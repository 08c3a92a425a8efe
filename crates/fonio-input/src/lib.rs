//! Opens the inputs of an analysis: recordings, kept stalls of a watch, and traces of other programs.
//!
//! [`Subject::resolve`] determines what a path is. [`Subject::pour`] passes the rows to any sink, in table order
//! and in bounded memory. [`explain()`] analyses the rows. The command line and the Python package use this crate,
//! so both give the same figures.

mod error;
mod explain;
mod files;
mod stop;
mod subject;
mod trace;

pub use error::InputError;
pub use explain::{Explained, REDACTED, explain, is_of_this_machine};
pub use stop::UntilStopped;
pub use subject::Subject;
pub use trace::{Reading, Trace};
