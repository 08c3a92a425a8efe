//! Marks fonio's changes in the text of `/etc/fstab`.
//!
//! Above each entry that fonio changed or added, a comment marks the change. The mark has all that undoing the
//! change needs, so the change can be undone even if the record of kept settings is lost.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::fstab::{line_at, with_option};
use crate::settings::applied::Applied;

/// The beginning of a mark, before its JSON.
const MARK: &str = "# Written by `fonio fix apply --keep`; `fonio fix undo` takes it out again: ";

/// A change of the mount table that fonio marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    #[serde(flatten)]
    pub applied: Applied,
    /// The added option; `None` if the complete line was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<MarkedOption>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarkedOption {
    pub added: String,
    /// The options of the entry before fonio's first addition.
    pub original: String,
}

impl Mark {
    /// Returns the comment, with its newline.
    fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("fonio's own paths are UTF-8");
        assert!(!json.contains('\n'), "a mark has several lines: {json}");
        format!("{MARK}{json}\n")
    }

    fn parse(line: &str) -> Option<Mark> {
        serde_json::from_str(line.trim_end().strip_prefix(MARK)?).ok()
    }

    /// Adds an option to the entry at `options`, and the mark above this entry.
    pub(super) fn add_option(&self, text: &mut String, options: Range<usize>) {
        let added = &self.option.as_ref().expect("the mark belongs to an option").added;
        let new = with_option(&text[options.clone()], added);
        text.replace_range(options.clone(), &new);
        text.insert_str(line_at(text, options.start).start, &self.line());
    }

    /// Adds a line at the end of the mount table, below the mark.
    pub(super) fn add_line(&self, text: &mut String, line: &str) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&self.line());
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns the marks in a mount table, in the order of the table.
pub(super) fn marks(text: &str) -> Vec<Mark> {
    text.lines().filter_map(Mark::parse).collect()
}

/// Returns the mount table without the marks for which `is_gone` holds.
pub(super) fn without_marks(text: &str, is_gone: impl Fn(&Mark) -> bool) -> String {
    let stays = |line: &&str| !Mark::parse(line).is_some_and(|mark| is_gone(&mark));
    text.split_inclusive('\n').filter(stays).collect()
}
