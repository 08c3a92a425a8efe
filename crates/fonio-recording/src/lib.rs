//! Reads and writes fonio's recordings: directories of Parquet tables that any tool can read.
//!
//! [`Writer`] writes rows to a recording; [`Recording`] opens a recording and passes its rows to a
//! [`RowSink`](fonio_core::RowSink). [`Sequencer`] sorts requests and bios between a producer and any sink; a
//! [`Writer`] sorts them itself. [`hand_over`] runs a producer on its own thread. All these types use bounded
//! memory for any number of rows.
//!
//! [`Recording::batches`] and [`BatchSink`] give tables as Arrow record batches.
//!
//! [`Redactor`] replaces names with tokens to make a recording safe to share.
//!
//! `docs/recording-reference.md` describes the file layout for other programs.

mod batches;
mod error;
mod handover;
mod recording;
mod redact;
mod schema;
mod sequence;
mod sequencer;
mod table;
mod writer;

pub use batches::BatchSink;
pub use error::RecordingError;
pub use handover::hand_over;
pub use recording::{Batches, Recording, is_recording};
pub use redact::{Key, KeyError, Redactor, redacted_meta};
pub use sequencer::{Sequencer, SequencerOptions};
pub use table::{Table, Tables};
pub use writer::{FinishedRecording, Incomplete, Room, Writer, WriterOptions};
