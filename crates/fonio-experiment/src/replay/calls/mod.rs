//! Replays the file-system calls of a recording: through the page cache and the file system of another place.

mod plan;
mod play;
mod prepare;

pub(super) use plan::Collected;
pub use plan::{Act, Before, Call, LeftOut, Plan};
pub(super) use play::play;
pub(super) use prepare::prepare;

/// The name of a file of the recording in the folder of a replay.
fn file_name(file: usize) -> String {
    format!("file-{file}")
}
