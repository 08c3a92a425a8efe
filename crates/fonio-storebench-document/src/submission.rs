//! Defines the part of a document that leaves the machine, and parses it on servers.

use std::ops::Deref;

use serde::Serialize;

use crate::check::Problem;
use crate::document::Document;
use crate::privacy;

/// A document without the private data of its owner. It has no notes, and its time is rounded down to the
/// day.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Submission(Document);

pub(crate) const DAY_S: u64 = 86_400;

impl Submission {
    /// Removes the private data from a document. Returns the problems of the document without its private
    /// data.
    pub fn of(document: &Document) -> Result<Submission, Vec<Problem>> {
        let mut stripped = document.clone();
        stripped.notes.clear();
        stripped.began_unix_s -= stripped.began_unix_s % DAY_S;
        Submission::accept(stripped)
    }

    /// Accepts a document that the server has received. Returns the problems of the document. Notes are a
    /// problem too, because a submission must not have any.
    pub fn accept(document: Document) -> Result<Submission, Vec<Problem>> {
        let mut problems = document.check();
        if !document.notes.is_empty() {
            problems.push(Problem::new(
                "notes",
                "a submission must not have notes; send it with `fonio storebench submit`",
            ));
        }
        if problems.is_empty() { Ok(Submission(document)) } else { Err(problems) }
    }

    /// Reads a submission from the bytes that a client sent. Also returns the document's JSON for storage and
    /// for the search for private texts. Fails if the bytes are not a document, or the document is refused.
    pub fn read(bytes: &[u8]) -> Result<(Submission, String), Refusal> {
        let not_a_document = |sentence: String| Refusal::NotADocument(sentence);
        let text = std::str::from_utf8(bytes).map_err(|error| {
            not_a_document(format!("the document is not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        let document: Document = serde_json::from_str(text).map_err(|error| {
            use serde_json::error::Category;
            not_a_document(match error.classify() {
                Category::Syntax | Category::Eof => format!("the document is not JSON: {error}"),
                _ => format!(
                    "the document is not a StoreBench result: {error}; send it with `fonio storebench submit`"
                ),
            })
        })?;
        let json = serde_json::to_string(&document).expect("a document is JSON");
        let private = privacy::problems(&json);
        match Submission::accept(document) {
            Ok(submission) if private.is_empty() => Ok((submission, json)),
            Ok(_) => Err(Refusal::Problems(private)),
            Err(problems) => Err(Refusal::Problems(problems.into_iter().chain(private).collect())),
        }
    }
}

impl Deref for Submission {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.0
    }
}

/// The reason why bytes are refused as a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a StoreBench document; the sentence gives the reason.
    NotADocument(String),
    /// The document has these problems.
    Problems(Vec<Problem>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{models, sample};

    #[test]
    fn a_submission_has_no_notes_and_no_hour() {
        let mut document = models::shipped().swap_remove(0);
        document.notes = vec!["/home/ann/card is nearly full".to_owned()];
        document.began_unix_s += 4711;
        let sent = Submission::of(&document).expect("it is in order");
        assert!(sent.notes.is_empty());
        assert_eq!(sent.began_unix_s % DAY_S, 0);
        let refused = Submission::accept(document).expect_err("it has notes");
        assert_eq!(refused[0].path, "notes");
    }

    #[test]
    fn problems_of_the_document_and_private_texts_are_listed_together() {
        let mut document = sample::document();
        document.machine.board = Some("ann.local".to_owned());
        document.took_s = -1.0;
        let refused = Submission::read(&serde_json::to_vec(&document).expect("JSON"));
        let Err(Refusal::Problems(problems)) = refused else { panic!("{refused:?}") };
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["took_s", "machine.board"]);
        for (bytes, said) in [
            (&b"\xff"[..], "the document is not UTF-8 at byte 0"),
            (b"{", "the document is not JSON: "),
            (b"{}", "the document is not a StoreBench result: missing field"),
        ] {
            let refused = Submission::read(bytes);
            assert!(
                matches!(&refused, Err(Refusal::NotADocument(sentence)) if sentence.starts_with(said)),
                "{refused:?}"
            );
        }
    }
}
