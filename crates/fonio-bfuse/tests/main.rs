//! Tests of real mounts, in one program to save link time.

mod handles;
mod mounts;
mod sequences;
mod support;
