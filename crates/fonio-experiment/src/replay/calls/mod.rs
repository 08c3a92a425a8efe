//! Replays a recording's file-system calls on another file system, through the page cache.

mod play;
mod prepare;
mod sequence;

pub use play::Felt;
pub(super) use play::play;
pub(crate) use play::{Part, play_together};
pub(super) use prepare::prepare;
pub(crate) use prepare::renew;
pub use sequence::{Act, Before, Call, LeftOut, Sequence};
pub(crate) use sequence::{Collected, Recorded};

/// Returns the name of a recorded file in the replay's folder.
fn file_name(file: usize) -> String {
    format!("file-{file}")
}
