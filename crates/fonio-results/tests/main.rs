//! Tests of the results service. All tests are one program, because each program is linked with all
//! dependencies.

#![allow(clippy::unwrap_used)] // A test may fail.

#[path = "support/chromium.rs"]
mod chromium;
mod fleet;
mod pages;
mod program;
mod refusals;
mod service;
mod support;
mod texts;
