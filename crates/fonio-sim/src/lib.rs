//! Models of flash devices and I/O schedulers in virtual time.
//!
//! A [`device::Device`] takes commands at instants that its driver chooses and says when each completes; it does no
//! I/O, reads no clock and uses no random number that its seed does not give. The simulator drives it with virtual
//! time, the emulator drives the same model with the wall clock. A [`scheduler::Scheduler`] decides which waiting
//! request a device gets next; [`engine::run`] runs workloads through both.

pub mod device;
pub mod engine;
pub mod fit;
pub mod ftl;
pub mod measure;
pub mod profile;
pub mod published;
pub mod scheduler;
pub mod study;
pub mod verify;

pub use fonio_core::Random;
