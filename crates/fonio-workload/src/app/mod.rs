//! Real programs as workloads: which packages they need, how they start, when they are ready, and what they do.
//!
//! An [`App`] is a TOML file (`docs/apps.md`); [`shipped`] lists the shipped apps. An [`AppRunner`] runs a [`Script`] of an
//! app in a root directory of its own, with its data in a given folder.

mod definition;
mod outside;
mod responses;
mod root;
mod run;

pub use definition::{App, Ready, Script, Service, Shipped, Signal, Step, shipped};
pub use outside::Outside;
pub use run::{AppPlaces, AppRunner, FarEnd};
