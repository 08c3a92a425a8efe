//! Reports on a recording, for people and for machines.
//!
//! An analysis is turned into a [`Document`] once ([`Document::from_analysis`]); the terminal, HTML and Markdown
//! renderers draw that document and know nothing of the analysis. JSON carries the analysis itself ([`json`]), and
//! [`budget`] holds a figure of that JSON against a threshold the user stated.
//!
//! Nothing here computes a metric: a number in a report is a number of the analysis, in a unit chosen for reading.

pub mod budget;
mod comparison;
pub mod document;
pub mod html;
pub mod json;
pub mod markdown;
mod questions;
pub mod terminal;
mod text;

pub use document::Document;
pub use html::render_html;

pub use json::{render_comparison_json, render_json};
pub use markdown::render_markdown;
pub use terminal::{TerminalStyle, render_terminal};
