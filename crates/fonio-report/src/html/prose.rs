//! Attaches definitions to the terms in a text.

use std::fmt;

use super::escape::Escaped;
use crate::document::Term;

/// Finds terms in texts. A longer term has priority over a shorter term that it contains.
pub struct Prose<'a> {
    terms: Vec<&'a Term>,
}

impl<'a> Prose<'a> {
    pub fn new(terms: &'a [Term]) -> Prose<'a> {
        let mut terms: Vec<&Term> = terms.iter().filter(|term| !term.name.is_empty()).collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.name.len()));
        Prose { terms }
    }

    /// Marks the first occurrence of each term in `text`, and formats text between backticks as code.
    pub fn marked(&'a self, text: &'a str) -> Marked<'a> {
        Marked { terms: &self.terms, text }
    }

    /// Formats a heading: like [`marked`](Self::marked), but without definitions.
    pub fn plain(&self, text: &'a str) -> Marked<'a> {
        Marked { terms: &[], text }
    }
}

/// Returns the position of `word` as a separate word in `text`, ignoring case.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let starts = text.char_indices().map(|(at, _)| at);
    starts.into_iter().find(|&at| {
        text.get(at..at + word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word))
            && !text[..at].chars().next_back().is_some_and(is_part)
            && !text[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

pub struct Marked<'a> {
    terms: &'a [&'a Term],
    text: &'a str,
}

impl Marked<'_> {
    /// Writes text outside code and marks terms at their first occurrence.
    fn words<'a>(&'a self, f: &mut fmt::Formatter<'_>, text: &str, used: &mut Vec<&'a str>) -> fmt::Result {
        let mut rest = text;
        loop {
            let fresh = self.terms.iter().filter(|term| !used.contains(&term.name.as_str()));
            let found = fresh.filter_map(|term| Some((find_word(rest, &term.name)?, *term)));
            let Some((at, term)) = found.min_by_key(|(at, _)| *at) else { break };
            let end = at + term.name.len();
            write!(
                f,
                "{}<span class=\"term\" title=\"{}\">{}</span>",
                Escaped(&rest[..at]),
                Escaped(&term.definition),
                Escaped(&rest[at..end])
            )?;
            used.push(&term.name);
            rest = &rest[end..];
        }
        write!(f, "{}", Escaped(rest))
    }
}

impl fmt::Display for Marked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut used = Vec::new();
        let mut rest = self.text;
        while let Some((before, (code, after))) =
            rest.split_once('`').and_then(|(before, tail)| Some((before, tail.split_once('`')?)))
        {
            self.words(f, before, &mut used)?;
            write!(f, "<code>{}</code>", Escaped(code))?;
            rest = after;
        }
        self.words(f, rest, &mut used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_their_definition_once() {
        let terms = [
            Term { name: "queue".into(), definition: "the <queue>".into() },
            Term { name: "queue time".into(), definition: "queued to issued".into() },
        ];
        let prose = Prose::new(&terms);
        assert_eq!(
            prose.marked("Queue time & queue, queue, enqueue").to_string(),
            "<span class=\"term\" title=\"queued to issued\">Queue time</span> &amp; \
             <span class=\"term\" title=\"the &lt;queue&gt;\">queue</span>, queue, enqueue"
        );
        assert_eq!(prose.marked("enqueue-queued").to_string(), "enqueue-queued");
        assert_eq!(prose.marked("run `a<b queue` ` now").to_string(), "run <code>a&lt;b queue</code> ` now");
        assert_eq!(prose.plain("a queue").to_string(), "a queue");
    }
}
