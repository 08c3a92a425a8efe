//! Tests of emulated devices as the kernel and other programs see them. One program, because each program is linked with everything.

mod bed;
mod block_device;
mod nbd;
#[allow(dead_code, reason = "the benchmark uses the rest")]
#[path = "bed/sync_policy.rs"]
mod power_cut_trials;
mod power_cuts;
mod sync_policy;
mod ublk;
