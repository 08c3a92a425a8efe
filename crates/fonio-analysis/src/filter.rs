//! Filters: device, process, op, time range.

use fonio_core::RowSink;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to let through. An empty list or an absent bound lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterOptions {
    /// Devices, as `major:minor`.
    pub devices: Vec<String>,
    /// Process names (`comm`), exact.
    pub comms: Vec<String>,
    /// Threads.
    pub tids: Vec<u32>,
    /// Ops by name: `read`, `write`, `flush`, …
    pub ops: Vec<String>,
    /// From this instant on, in nanoseconds after the recording's begin (`RowSink::began`; else the first row's time).
    pub from_ns: Option<u64>,
    /// Up to but without this instant, likewise.
    pub until_ns: Option<u64>,
}

/// Passes on what matches.
#[derive(Debug)]
pub struct Filter<S> {
    options: FilterOptions,
    next: S,
}

impl<S: RowSink> Filter<S> {
    /// Filters what goes to `next`.
    pub fn new(options: FilterOptions, next: S) -> Filter<S> {
        Filter { options, next }
    }
    /// The sink behind.
    pub fn into_inner(self) -> S {
        self.next
    }
}
impl<S: RowSink> RowSink for Filter<S> {}

impl<S> Filter<S> {
    /// What is let through.
    pub fn options(&self) -> &FilterOptions {
        &self.options
    }
}
