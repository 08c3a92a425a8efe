//! Tests of the results service, in one program to link all dependencies only once.

#![allow(clippy::unwrap_used)] // Tests may.

#[path = "support/chromium.rs"]
mod chromium;
mod pages;
mod program;
mod refusals;
mod service;
mod support;
