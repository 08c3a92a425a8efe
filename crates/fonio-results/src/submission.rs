//! Reads a client's submission. Converts the JSON to a checked [`Entry`], or to a problem that lists the
//! mistakes.

use axum::http::StatusCode;
use fonio_storebench_document::{Refusal, Submission};

use crate::entry::Entry;
use crate::problem::Problem;
use crate::texts::{self, Accepted, UnknownText};

/// Maximum number of mistakes that a reply lists.
const PLACES_MAX: usize = 20;

/// A checked submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The submission in the form in which it is stored.
    pub entry: Entry,
    /// The texts that must be reviewed before the result may be published.
    pub unknown: Vec<UnknownText>,
}

/// Reads a document that was received at `now_unix_s`. Returns the problem for the reply if the bytes are not
/// a document, or if the document is refused.
pub fn read(bytes: &[u8], now_unix_s: u64, accepted: &Accepted) -> Result<Read, Problem> {
    let problems = match Submission::read(bytes) {
        Ok((submission, json)) => {
            let unknown = texts::unknown(&submission, accepted);
            return Ok(Read { entry: Entry::of_json(&submission, &json, now_unix_s), unknown });
        }
        Err(Refusal::NotADocument(sentence)) => return Err(Problem::bad(sentence)),
        Err(Refusal::Problems(problems)) => problems,
    };
    let places: Vec<_> = problems.into_iter().take(PLACES_MAX).collect();
    let first =
        places.first().map_or_else(String::new, |place| format!("{}: {}", place.path, place.sentence));
    let sentence = format!("the document is refused, and nothing was stored: {first}");
    Err(Problem { places, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fonio_storebench_document::{Document, sample};

    use crate::compression;

    #[test]
    fn a_document_becomes_the_entry_of_the_same_document() {
        let document = sample::document();
        let json = serde_json::to_vec_pretty(&document).unwrap();
        let Read { entry, unknown } =
            read(&json, sample::BEGAN_UNIX_S, &Accepted::default()).expect("it is in order");
        assert_eq!((&entry, unknown), (&Entry::new(&document, sample::BEGAN_UNIX_S), Vec::new()));
        let stored = compression::decompress(&entry.document, json.len()).unwrap();
        assert_eq!(serde_json::from_slice::<Document>(&stored).unwrap(), document);
    }
}
