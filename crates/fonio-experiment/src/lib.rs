//! Runs workloads on devices under the recorder, applies fixes, and measures the gain.
//!
//! Only this crate uses the test bed ([`fonio_host`]), the emulator and the workloads together. Every
//! experiment is a [`Design`]: measurements in interleaved rounds, compared with confidence intervals.
//!
//! - [`run_series`] runs a workload in several [`Setup`]s, unchanged and with each [`Candidate`] fix;
//!   [`document()`] turns the series into a report;
//! - [`run_command_series`] compares setups in the same way with a user's command, or with a recording's I/O
//!   ([`replay`]);
//! - [`ProofPlan`] does so with fresh copies of the databases that the command changes;
//! - [`run_live`] switches a setting of the machine in use, in slices of time, and compares pairs of slices;
//! - [`recreate()`] repeats the calls of a recorded stall with and without a setting;
//! - [`launch_series`] launches a command on several setups and divides its time into parts;
//! - [`measure_layers`] measures the throughput at each layer between a file and the device.
//!
//! [`run_series`] and [`run_command_series`] record and analyse each run once ([`Analysed`]).

mod analysed;
mod background;
mod command;
mod error;
mod filling;
pub mod fix;
mod held;
mod launch;
mod layers;
mod live;
mod matrix;
mod proof;
mod recorded;
mod recreate;
pub mod replay;
mod report;
mod rounds;
mod run;
mod series;
mod setup;
mod task;
mod test_bed;
mod thread_times;
mod work;
mod worker;

pub use analysed::Analysed;
pub use background::{BackgroundFigures, OwnFigures};
pub use command::{CommandOptions, Replay, run_command_series};
pub use error::ExperimentError;
pub use fix::{Candidate, FIXES, Fix, Measured, MeasuredWith, Real};
pub use held::{Held, calibrate, measure_speed, processor_limit};
pub use launch::{
    CacheState, Dropped, Kept, LaunchFigures, LaunchOptions, LaunchPart, LaunchResult, LaunchSeries,
    PartKind, launch_document, launch_series,
};
pub use layers::{Layer, LayerResult, Layers, LayersOptions, measure_layers};
pub use live::{
    BlockedProgramTime, Ended, LiveOptions, LiveOutcome, LivePair, LivePlan, LiveProgress, LiveResult,
    MeasuredSlice, OfArm, PressureShares, run_live,
};
pub use matrix::{Combination, Matrix};
pub use proof::{
    FirstRun, Found, Joinable, Proof, ProofOptions, ProofPlan, changes_databases, find_databases,
};
pub use recreate::{
    Program, RecreateChange, RecreateOptions, RecreateProgress, Recreated, RecreatedRun, Scene, SceneLimits,
    play_apart, recreate,
};
pub use report::document;
pub use rounds::{Arm, Design, KNOWN_WITHIN, Measurement, PILOT_ROUNDS, Rounds, RunTimes, Timed};
pub use run::{Run, RunOptions, run_once};
pub use series::{
    ResponseFigures, RunFigures, Series, StepFigures, TimesFigures, Variation, VariationResult, fastest,
    run_series, variations,
};
pub use setup::{Background, Conditions, MdRaid0, Medium, Member, Setup, Storage};
pub use task::{do_task, start_task};
pub use test_bed::Roles;
pub use work::{AppWork, Work};

/// Serves the workloads' objects on `address` (port 0 lets the kernel choose), prints `listening ADDRESS` on standard
/// output, and ends when standard input closes.
pub fn serve_http(address: std::net::SocketAddr) -> std::io::Result<()> {
    use std::io::Write;
    let server = fonio_workload::http::Server::start(address)?;
    let mut out = std::io::stdout();
    writeln!(out, "listening {}", server.address())?;
    out.flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
