//! Tests of real mounts. One program, because each program is linked with everything.

mod mounts;
mod sequences;
mod support;
