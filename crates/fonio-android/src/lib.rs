//! Records Android phones through the user's own adb client.
//!
//! `adb.rs` runs the client and finds the phone, `phone.rs` asks the phone for facts, and `ways.rs` tries the ways of
//! recording: fonio's own recorder as root (`root.rs`, `program.rs`,
//! `recorder.rs`), the phone's Perfetto (`config.rs` writes its
//! configuration, `capture` records), its atrace (`atrace.rs`), and counters (`counters.rs`). `heart.rs` tells the phone
//! that fonio is still there. `storage.rs` copies the
//! kernel's description of the phone's storage, `launch.rs` launches apps, and `script`
//! runs scripted apps.
//! A phone needs neither root nor an app of fonio: from Android 9 on, its own `perfetto` records block requests, blocked
//! threads and syncs.
//!
//! fonio changes nothing on the phone. What is on the phone during a recording is removed at its end, or by the phone
//! itself if the connection is lost; the aim is 15 s.

mod adb;
#[doc(hidden)]
pub mod answers;
mod atrace;
mod capture;
mod config;
mod counters;
mod error;
mod heart;
mod launch;
mod phone;
mod program;
mod recorder;
mod root;
mod script;
#[cfg(test)]
mod stand_in;
mod storage;
mod ways;

pub use adb::Adb;
pub use counters::{AppIo, CounterReader, CountersNow};
pub use error::AndroidError;
pub use launch::{Component, StartFrom, Started, launch, prepare};
pub use phone::Phone;
pub use program::find_recorder;
pub use root::Root;
pub use script::{
    Done, Idle, Node, Script, ScriptError, ScriptOptions, Step as ScriptStep, clickable, run as run_script,
};
pub use storage::{Storage, describe_storage};
pub use ways::{Recorded, Step, Wanted, Way, record};
