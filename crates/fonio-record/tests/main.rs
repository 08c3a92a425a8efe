//! Tests live recordings. A single test program avoids linking all crates several times.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod blocked;
mod calls;
mod live;
mod lives;
mod loop_ext4;
mod ptraced;
mod statements;
mod whose;
