//! Tests of complete reports. One program, because each program is linked with everything.

#[path = "../examples/paper_page/document.rs"]
mod document;
mod golden;
mod html;
mod paper_page;
mod sample;
mod script;
