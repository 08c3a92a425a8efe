//! Replays the file-system calls of a recording: through the page cache and the file system of another place.

mod play;
mod prepare;
mod sequence;

pub(super) use play::play;
pub(super) use prepare::prepare;
pub(super) use sequence::Collected;
pub use sequence::{Act, Before, Call, LeftOut, Sequence};

/// The name of a file of the recording in the folder of a replay.
fn file_name(file: usize) -> String {
    format!("file-{file}")
}
