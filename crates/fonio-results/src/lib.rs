//! Implements the results service. It receives results of `fonio storebench`, ranks comparable results, and
//! shows them as pages.
//!
//! A submission is checked ([`submission`]) and converted to an [`entry::Entry`]. One thread
//! ([`store::Writer`]) writes the entries, and commits many submissions at once. Each commit also updates the
//! tables of rankings and distributions ([`store`]), so pages need not count results. [`database`] is a small
//! common interface to SQLite and PostgreSQL.
//!
//! The service can also receive the days of devices of a fleet ([`fleet`]), which it stores as files.
//!
//! The service depends only on StoreBench's document format, and on no other part of fonio.

pub mod api;
pub mod compression;
pub mod database;
pub mod dump;
pub mod entry;
pub mod figures;
pub mod fleet;
pub mod forwarded;
pub mod limits;
pub mod pages;
pub mod problem;
pub mod query;
pub mod review;
pub mod serve;
pub mod service;
pub mod store;
pub mod submission;
pub mod texts;
pub mod token;
