//! Tests the recording directory: written rows are read back, and damage is reported. All tests are one
//! program, because each program is linked with all dependencies.

mod bounded;
mod damage;
mod documentation;
mod faults;
mod full_disk;
mod generated;
mod long;
mod order;
mod rewritten;
mod round_trip;
mod staging;
