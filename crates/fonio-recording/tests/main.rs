//! Tests of the recording directory: written rows are read back, and damage is reported. One program, because
//! each program is linked with everything.

mod damage;
mod documentation;
mod full_disk;
mod generated;
mod long;
mod order;
mod rewritten;
mod round_trip;
mod staging;
