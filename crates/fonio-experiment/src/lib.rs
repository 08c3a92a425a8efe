//! Runs workloads on devices under the recorder, applies fixes, and proves by measurement what they are worth.
//!
//! This crate alone knows the test bed ([`fonio_host`]), the emulator and the workloads together. A [`Setup`] says what
//! stands between a workload and the flash; a [`Change`] is a fix, that is a change of a setup; [`run_once`] makes the
//! setup real, runs the workload on it and records; [`run_series`] does so for several setups in turn and says how they
//! differ; [`document()`] makes it a report. [`launch_series`] does the same for any command: how long it takes, and what
//! it waits for.

mod bed;
mod error;
pub mod fix;
mod launch;
mod report;
mod run;
mod series;
mod setup;
mod task;

pub use bed::{Bed, Roles};
pub use error::ExperimentError;
pub use fix::{Change, FIXES, Fix, Loss, Real};
pub use launch::{
    CacheState, Dropped, Kept, LaunchFigures, LaunchOptions, LaunchPart, LaunchResult, LaunchSeries,
    PlaceToLaunch, launch_document, launch_series,
};
pub use report::document;
pub use run::{Run, RunOptions, run_once};
pub use series::{Rounds, RunFigures, Series, Variation, VariationResult, fastest, run_series};
pub use setup::{Medium, Place, Setup};
pub use task::{do_task, start_task};

/// Serves the workloads' objects on `address` (port 0 lets the kernel choose), says `listening ADDRESS` on standard
/// output, and ends when standard input does.
///
/// # Errors
///
/// The address cannot be listened on.
pub fn serve_http(address: std::net::SocketAddr) -> std::io::Result<()> {
    use std::io::Write;
    let server = fonio_workload::http::Server::start(address)?;
    let mut out = std::io::stdout();
    writeln!(out, "listening {}", server.address())?;
    out.flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
