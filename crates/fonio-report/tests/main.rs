//! Tests of complete reports. One program, because each program is linked with everything.

mod golden;
mod html;
mod sample;
mod script;
