//! Tests the recording directory: written rows are read back, and damage is reported. A single test program
//! saves linking everything several times.

mod damage;
mod documentation;
mod full_disk;
mod generated;
mod long;
mod order;
mod rewritten;
mod round_trip;
mod staging;
