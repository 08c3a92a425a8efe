//! Runs a load on a model, and keeps what happened: the times of every request, the states of the device, and a summary.
//!
//! The command line and the Python package both use this module, so the same model and load give the same numbers.

mod error;
mod load;
mod run;
mod summary;

pub use error::SimulationError;
pub use load::{Load, LoopLoad, Replay};
pub use run::{Ran, State, row, run};
pub use summary::{Amounts, Blocks, Distribution, OpSummary, Settings, Summary, WearSummary};
