//! Tests of the results service. One program, because each program is linked with everything.

#![allow(clippy::unwrap_used)] // Tests may.

#[path = "support/chromium.rs"]
mod chromium;
mod pages;
mod program;
mod refusals;
mod service;
mod support;
