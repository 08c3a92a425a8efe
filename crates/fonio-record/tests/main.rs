//! Tests of live recordings. One program, because each program is linked with everything.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod blocked;
mod calls;
mod live;
mod loop_ext4;
mod statements;
mod whose;
