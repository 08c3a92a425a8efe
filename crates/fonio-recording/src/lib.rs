//! fonio's recording: a directory of Parquet tables that any tool can read.
//!
//! [`Writer`] takes rows and leaves a recording; [`Recording`] opens one and gives the rows to a
//! [`RowSink`](fonio_core::RowSink). [`Sequencer`] puts requests and bios in order on the way from a producer to any
//! sink; the writer does the same inside. [`hand_over`] runs a producer on a thread of its own. All of them keep bounded
//! memory whatever the number of rows.
//!
//! The layout for readers that are not fonio is in `docs/recording.md`.

mod error;
mod handover;
mod recording;
mod schema;
mod sequence;
mod sequencer;
mod table;
mod writer;

pub use error::RecordingError;
pub use handover::hand_over;
pub use recording::{Recording, is_recording};
pub use sequencer::{Sequencer, SequencerOptions};
pub use table::{Table, Tables};
pub use writer::{Finished, Incomplete, Writer, WriterOptions};
