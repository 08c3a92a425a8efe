//! Implements the command line of the recorder: the arguments of `fonio record`, its output, and the exit
//! codes of all commands.
//!
//! `fonio` uses this crate for its command `record`. The program `fonio-recorder` of this crate contains only
//! `fonio record`, for devices with little storage: it has no analysis and cannot read recordings.

mod arguments;
mod attached;
mod capture;
pub mod exit;

pub use arguments::{Blocked, Extras, REDACTION, Record, Redact, parse_time};
pub use attached::{CLEAN_UP, clean_up, run as run_attached};
pub use capture::{Words, capture, run, sample, set_extras};
pub use exit::Exit;
