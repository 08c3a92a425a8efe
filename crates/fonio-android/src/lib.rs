//! Records traces on Android phones, through the user's own adb client.
//!
//! `adb.rs` runs the client and finds the phone, `phone.rs` asks the phone for facts, `config.rs` writes the
//! configuration of Perfetto, `capture.rs` records, and `launch.rs` launches apps. A phone needs neither root nor an app of fonio: from
//! Android 9 on, the phone's own `perfetto` records block requests, blocked threads and syncs.
//!
//! fonio changes nothing on the phone. The trace is a file on the phone until it has been read; it is removed
//! then, or by the phone itself if the connection is lost, or by fonio's next recording.

mod adb;
mod capture;
mod config;
mod error;
mod launch;
mod phone;

pub use adb::Adb;
pub use capture::{Captured, capture};
pub use error::AndroidError;
pub use launch::{Component, StartFrom, Started, launch, prepare};
pub use phone::Phone;
