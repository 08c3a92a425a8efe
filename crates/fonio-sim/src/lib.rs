//! Models of flash devices and I/O schedulers in virtual time.
//!
//! A [`device::Device`] accepts commands with their submission times and returns their completion times. A
//! device model does no I/O, reads no clock, and takes random numbers only from its seed. The simulator
//! drives the model with virtual time, the emulator with the wall clock. A [`scheduler::Scheduler`] chooses
//! the next waiting request for the device. [`engine::run`] runs workloads through a scheduler and a device, and
//! [`simulation::run`] also keeps the times of every request. [`recorded::Collected`] makes a load from a recording.

pub mod device;
pub mod engine;
pub mod fit;
pub mod ftl;
pub mod measure;
pub mod profile;
pub mod published;
pub mod recorded;
pub mod scheduler;
pub mod simulation;
pub mod study;
pub mod verify;

pub use fonio_core::Random;
