//! Tests complete reports. A single test program avoids linking all crates several times.

mod golden;
mod html;
mod sample;
mod script;
