//! Tests emulated devices as the kernel and other programs use them. All tests are in one program to save
//! link time.

mod bed;
mod block_device;
mod memory;
mod nbd;
#[allow(dead_code, reason = "the benchmark uses the rest of this module")]
#[path = "bed/sync_policy.rs"]
mod power_cut_trials;
mod power_cuts;
mod sync_policy;
mod ublk;
