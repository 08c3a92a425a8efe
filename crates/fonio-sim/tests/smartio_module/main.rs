//! Tests the policy of the SmartIO kernel module (`kernel/smartio/policy.c`) in user space: with test vectors, with
//! rules for random events, with simulated loads, and against this crate's model of the study.

mod equal;
mod loads;
mod pauses;
mod policy;
