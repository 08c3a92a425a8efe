//! Defines the result document of StoreBench, its checks, and its verdicts.
//!
//! [`document`] is the schema, and [`figures`] is the catalogue of figures. [`check`] finds errors,
//! [`privacy`] finds texts that must not be published, and [`plausibility`] finds results that cannot be
//! true. [`compare`], [`classes`], [`standing`] and [`verdict`] evaluate documents. [`values`] computes
//! values with intervals from repeated runs. Clients send a [`Submission`].
//!
//! The crate depends neither on the measurement nor on the user interface, so a server that uses it needs no
//! other part of fonio.

pub mod check;
pub mod classes;
pub mod compare;
pub mod document;
pub mod figures;
pub mod models;
pub mod plausibility;
pub mod privacy;
pub mod sample;
pub mod standing;
pub mod submission;
pub mod values;
pub mod verdict;

pub use check::Problem;
pub use document::{Document, Measure, Value};
pub use submission::{Refusal, Submission};
