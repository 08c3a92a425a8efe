//! Renders reports on recordings, for users and for programs.
//!
//! An analysis is converted into a [`Document`] once ([`Document::from_analysis`]). The renderers for
//! terminal, HTML and Markdown use only the document. JSON contains the analysis itself ([`json`]), and
//! [`budget`] compares a figure with the user's threshold.
//!
//! This crate computes no figures: each number in a report comes from the analysis, in a readable unit.

pub mod budget;
mod comparison;
pub mod costs;
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
pub use text::Fitted;
