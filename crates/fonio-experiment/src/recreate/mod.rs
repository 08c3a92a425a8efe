//! Recreates a recorded stall: the calls of the program that was delayed, and of the program in its way, are
//! repeated on the same file system, with and without a fix.
//!
//! A [`Scene`] is the part of a recording in which the delayed program spent most time in its calls. The calls
//! of both programs are repeated in files of fonio's own, so the programs and their data are not touched, and
//! a fix is tried in about a minute. A thread begins each call at its recorded time, or when its previous call has
//! ended, so that the programs meet each other as in the recording. What the kernel wrote back
//! for the program in the way is written back again. Not recreated are calls on other file systems, other programs, and
//! the state of the page cache.
//!
//! Whether the stall comes back is measured first ([`Recreated::is_like_recorded`]): a fix can only be judged
//! with a stall that is there.

mod apart;
mod scene;
mod trial;
mod written_back;

pub use apart::play_apart;
pub use scene::{Program, Scene, SceneLimits};
pub use trial::{RecreateChange, RecreateOptions, RecreateProgress, Recreated, RecreatedRun, recreate};
