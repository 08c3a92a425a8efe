//! Carries out the decisions of the operator: publishes held results, deletes them, and holds published results back.

use fonio_storebench_document::document::{Document, JSON_BYTES_MAX};

use super::book::{Book, Changes};
use super::held::{self, NewResult, Verdict};
use super::remove;
use crate::compression;
use crate::database::{Connection, DatabaseError};
use crate::entry::Entry;
use crate::texts::{self, UnknownText};

/// Carries out the decisions in the database. Returns whether there were any.
pub fn carry_out(book: &mut Book, connection: &mut dyn Connection) -> Result<bool, DatabaseError> {
    let rows = connection
        .query("SELECT decision_id, id, verdict FROM decisions ORDER BY decision_id LIMIT 100", &[])?;
    for row in &rows {
        let (number, id) = (row.int(0), row.text(1).to_owned());
        let verdict = Verdict::of(row.text(2));
        let (before, accepted) = (book.held, book.accepted.clone());
        let done = book.transact(connection, |book, connection| {
            connection.query("DELETE FROM decisions WHERE decision_id = $1", &[number.into()])?;
            match verdict {
                Some(Verdict::Publish) => publish(book, connection, &id, true),
                Some(Verdict::PublishOnce) => publish(book, connection, &id, false),
                Some(Verdict::Reject) => {
                    forget(book, connection, &id)?;
                    Ok((Vec::new(), Changes::new()))
                }
                Some(Verdict::Withhold) => Ok((Vec::new(), withhold(book, connection, &id)?)),
                // A newer version of the command wrote the decision.
                None => Ok((Vec::new(), Changes::new())),
            }
        });
        match done {
            Ok(texts) => accepted.add(texts),
            Err(error) => {
                book.held = before;
                return Err(error);
            }
        }
    }
    Ok(!rows.is_empty())
}

/// Publishes a held result. With `accept`, its texts are accepted, and all results without other unknown texts are
/// published as well. Returns the accepted texts.
fn publish(
    book: &mut Book,
    connection: &mut dyn Connection,
    id: &str,
    accept: bool,
) -> Result<(Vec<UnknownText>, Changes), DatabaseError> {
    let Some(found) = held::find(connection, id)? else { return Ok((Vec::new(), Changes::new())) };
    let is_text = |text: &&UnknownText| text.field != texts::WITHHELD;
    let texts: Vec<UnknownText> =
        if accept { found.texts.iter().filter(is_text).cloned().collect() } else { Vec::new() };
    for UnknownText { field, text } in &texts {
        connection.query(
            "INSERT INTO accepted_texts (field, text) VALUES ($1, $2) ON CONFLICT (field, text) DO NOTHING",
            &[field.as_str().into(), text.as_str().into()],
        )?;
    }
    let mut ready = vec![found];
    if accept {
        // A text that was accepted with this result may be the only unknown text of other results.
        let others = held::waiting(connection, held::HELD_MAX)?.into_iter().filter(|other| {
            other.id != id
                && other.texts.iter().all(|text| texts.contains(text) || book.accepted.contains(text))
        });
        ready.extend(others);
    }
    let mut new = Vec::new();
    for result in ready {
        let received = u64::try_from(result.received_at).unwrap_or(0);
        let entry = Entry::new(&document(&result.document), received);
        new.push(NewResult {
            id: result.id.clone(),
            token_hash: result.token_hash,
            received_at: result.received_at,
            entry,
        });
        forget(book, connection, &result.id)?;
    }
    let changes = book.publish(connection, &new)?;
    Ok((texts, changes))
}

fn document(compressed: &[u8]) -> Document {
    let json = compression::decompress(compressed, JSON_BYTES_MAX).expect("the service stored the document");
    serde_json::from_slice(&json).expect("the service stored the document")
}

/// Moves a published result back to the results that wait for review.
fn withhold(book: &mut Book, connection: &mut dyn Connection, id: &str) -> Result<Changes, DatabaseError> {
    let rows = connection.query(
        "SELECT r.received_at, r.token_hash, d.document FROM results r JOIN documents d ON d.seq = r.seq \
         WHERE r.id = $1",
        &[id.into()],
    )?;
    let Some(row) = rows.first() else { return Ok(Changes::new()) };
    let document = document(row.bytes(2));
    let received_at = row.int(0);
    let entry = Entry::new(&document, u64::try_from(received_at).unwrap_or(0));
    let new = NewResult { id: id.to_owned(), token_hash: row.bytes(1).to_vec(), received_at, entry };
    let mut unknown = texts::unknown(&document, &book.accepted);
    unknown.push(texts::withheld(&document));
    let changes = remove::remove(book, connection, id)?;
    book.held += 1;
    held::hold(connection, &new, &unknown)?;
    Ok(changes)
}

/// Deletes a held result, if there is one.
fn forget(book: &mut Book, connection: &mut dyn Connection, id: &str) -> Result<(), DatabaseError> {
    book.held -= i64::from(held::forget(connection, id)?);
    Ok(())
}
