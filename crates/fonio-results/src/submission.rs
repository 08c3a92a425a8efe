//! Reads what a client sent: JSON becomes a checked [`Entry`], or a problem with the places that are wrong.

use axum::http::StatusCode;
use fonio_bench::storebench::document::{Document, Submission};

use crate::entry::Entry;
use crate::privacy;
use crate::problem::{Place, Problem};

/// Places beyond this number are not listed.
const PLACES_MAX: usize = 20;

/// Reads a document that was received at `now_unix_s`.
///
/// # Errors
///
/// The problem for the answer: the bytes are not a document, or the document is refused.
pub fn read(bytes: &[u8], now_unix_s: u64) -> Result<Entry, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::bad(format!("the document is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    let document: Document = serde_json::from_str(text).map_err(|error| {
        use serde_json::error::Category;
        let sentence = match error.classify() {
            Category::Syntax | Category::Eof => format!("the document is not JSON: {error}"),
            _ => format!(
                "the document is not a StoreBench result: {error}; send it with `fonio storebench submit`"
            ),
        };
        Problem::bad(sentence)
    })?;
    // The text that is stored is also the text that is searched.
    let json = serde_json::to_string(&document).expect("a document is JSON");
    let private = privacy::problems(&json);
    let places = match Submission::accept(document) {
        Ok(submission) if private.is_empty() => return Ok(Entry::of_json(&submission, &json, now_unix_s)),
        Ok(_) => private,
        Err(problems) => problems.into_iter().chain(private).collect(),
    };
    let places: Vec<Place> = places
        .into_iter()
        .take(PLACES_MAX)
        .map(|problem| Place { path: problem.path, sentence: problem.sentence })
        .collect();
    let first =
        places.first().map_or_else(String::new, |place| format!("{}: {}", place.path, place.sentence));
    let sentence = format!("the document is refused, and nothing was stored: {first}");
    Err(Problem { places, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compression, sample};

    #[test]
    fn a_document_becomes_the_entry_of_the_same_document() {
        let document = sample::document();
        let json = serde_json::to_vec_pretty(&document).unwrap();
        let entry = read(&json, sample::BEGAN_UNIX_S).expect("it is in order");
        assert_eq!(entry, Entry::new(&document, sample::BEGAN_UNIX_S));
        let stored = compression::decompress(&entry.document, json.len()).unwrap();
        assert_eq!(serde_json::from_slice::<Document>(&stored).unwrap(), document);
    }

    #[test]
    fn problems_of_the_document_and_private_texts_are_listed_together() {
        let mut document = sample::document();
        document.machine.board = Some("ann.local".to_owned());
        document.took_s = -1.0;
        let problem = read(&serde_json::to_vec(&document).unwrap(), sample::BEGAN_UNIX_S).unwrap_err();
        let paths: Vec<&str> = problem.places.iter().map(|place| place.path.as_str()).collect();
        assert_eq!(
            (problem.status, paths),
            (StatusCode::UNPROCESSABLE_ENTITY, vec!["took_s", "machine.board"])
        );
    }
}
