//! Tests of the results service, in one program so that all dependencies are linked only once.

#![allow(clippy::unwrap_used)] // Tests may.

#[path = "support/chromium.rs"]
mod chromium;
mod pages;
mod program;
mod refusals;
mod service;
mod support;
