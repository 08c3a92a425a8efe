//! Deletes a result from every table, together with the device and the key that only this result had. After the
//! commit, pages, API and dumps no longer contain the result, and [`Connection::wipe`] removes its last copies from
//! the files of the database.

use std::collections::BTreeMap;

use fonio_storebench_document::document::{Document, JSON_BYTES_MAX};

use super::bins::Scored;
use super::book::{self, ADD_BEST, Book, Changes};
use super::cache::Scope;
use super::held;
use crate::database::{Column, Connection, DatabaseError};
use crate::{compression, entry, figures, token};

/// The outcome of an attempt to delete a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The result is deleted.
    Deleted,
    /// The token does not belong to the result.
    WrongToken,
    /// No result has this id.
    Unknown,
}

/// Deletes a result if the token belongs to it. Fails if the database fails. In this case, nothing is
/// deleted.
pub(super) fn delete(
    book: &mut Book,
    connection: &mut dyn Connection,
    id: &str,
    token: &str,
) -> Result<Deletion, DatabaseError> {
    let held = book.held;
    let outcome =
        book.transact(connection, |book, connection| delete_in_transaction(book, connection, id, token));
    if outcome.is_err() {
        book.held = held;
    }
    outcome
}

fn delete_in_transaction(
    book: &mut Book,
    connection: &mut dyn Connection,
    id: &str,
    token: &str,
) -> Result<(Deletion, Changes), DatabaseError> {
    let found = connection.query("SELECT token_hash FROM results WHERE id = $1", &[id.into()])?;
    let owns = match found.first() {
        Some(row) => Some(token::matches(token, row.bytes(0))),
        None => held::owns(connection, id, token)?,
    };
    match owns {
        None => Ok((Deletion::Unknown, Changes::new())),
        Some(false) => Ok((Deletion::WrongToken, Changes::new())),
        Some(true) if held::forget(connection, id)? => {
            book.held -= 1;
            Ok((Deletion::Deleted, Changes::new()))
        }
        Some(true) => Ok((Deletion::Deleted, remove(book, connection, id)?)),
    }
}

/// Removes a published result from every table, together with its device and its key if they have no other
/// result. Returns the changes to the bins.
pub(super) fn remove(
    book: &mut Book,
    connection: &mut dyn Connection,
    id: &str,
) -> Result<Changes, DatabaseError> {
    let found = connection.query(
        "SELECT r.seq, r.key_id, r.device_id, r.hidden_reason, d.document \
         FROM results r JOIN documents d ON d.seq = r.seq WHERE r.id = $1",
        &[id.into()],
    )?;
    let Some(row) = found.first() else { return Ok(Changes::new()) };
    let (seq, key_id, device_id) = (row.int(0), row.int(1), row.int(2));
    let mut changes = Changes::new();
    if row.optional_text(3).is_none() {
        let values = values(row.bytes(4));
        let mut result = Gone { book, connection: &mut *connection, seq, key_id, device_id };
        for (figure, value) in &values {
            changes.extend(result.unrank(*figure, *value)?);
        }
        book::add_to_bins(result.connection, &changes)?;
        for (figure, value) in &values {
            result.empty_bins(*figure, *value)?;
            result.elect(*figure)?;
        }
        let one_less = |id| BTreeMap::from([(id, -1)]);
        book::count(result.connection, &one_less(key_id), &one_less(device_id))?;
    }
    connection.query("DELETE FROM documents WHERE seq = $1", &[seq.into()])?;
    connection.query("DELETE FROM results WHERE seq = $1", &[seq.into()])?;
    remove_unused(book, connection, key_id, device_id)?;
    Ok(changes)
}

/// Removes the rows of a key and of a device that no longer have a result, because their texts came from the
/// deleted result.
fn remove_unused(
    book: &mut Book,
    connection: &mut dyn Connection,
    key_id: i64,
    device_id: i64,
) -> Result<(), DatabaseError> {
    let gone = connection.query(
        "DELETE FROM devices WHERE device_id = $1 \
         AND NOT EXISTS (SELECT 1 FROM results r WHERE r.device_id = $2) RETURNING device_id",
        &[device_id.into(), device_id.into()],
    )?;
    if !gone.is_empty() {
        book.devices.retain(|_, id| *id != device_id);
    }
    let gone = connection.query(
        "DELETE FROM keys WHERE key_id = $1 AND results <= 0 \
         AND NOT EXISTS (SELECT 1 FROM results r WHERE r.key_id = $2 AND r.hidden_reason IS NOT NULL) \
         RETURNING key_id",
        &[key_id.into(), key_id.into()],
    )?;
    if !gone.is_empty() {
        book.keys.retain(|_, id| *id != key_id);
    }
    Ok(())
}

fn values(document: &[u8]) -> Vec<(usize, f64)> {
    let json = compression::decompress(document, JSON_BYTES_MAX).expect("the service stored the document");
    let document: Document = serde_json::from_slice(&json).expect("the service stored the document");
    entry::ranked_figures(&document)
}

struct Gone<'a> {
    book: &'a Book,
    connection: &'a mut dyn Connection,
    seq: i64,
    key_id: i64,
    device_id: i64,
}

type Outcome<T> = Result<T, DatabaseError>;

impl Gone<'_> {
    /// Removes the result's row from the ranking of a figure, and returns the changes to the bins.
    fn unrank(&mut self, figure: usize, value: f64) -> Outcome<Changes> {
        let better = figures::ranked()[figure].better;
        let (key_id, figure_id) = (self.key_id, self.book.figure_id(figure));
        let gone = self.connection.query(
            "DELETE FROM ranks WHERE key_id = $1 AND figure_id = $2 AND score = $3 AND seq = $4 RETURNING seq",
            &[key_id.into(), figure_id.into(), better.score(value).into(), self.seq.into()],
        )?;
        assert_eq!(gone.len(), 1, "result {} is not ranked exactly once for figure {figure_id}", self.seq);
        let change = |device_id| ((Scope { device_id, key_id, figure_id }, better.bin(value)), -1);
        Ok([0, self.device_id].into_iter().map(change).collect())
    }

    /// Removes the bins that are empty after the value was deleted.
    fn empty_bins(&mut self, figure: usize, value: f64) -> Outcome<()> {
        let (bin, figure_id) = (figures::ranked()[figure].better.bin(value), self.book.figure_id(figure));
        for scope in [0, self.device_id] {
            self.connection.query(
                "DELETE FROM bins WHERE scope = $1 AND key_id = $2 AND figure_id = $3 AND bin = $4 AND results <= 0",
                &[scope.into(), self.key_id.into(), figure_id.into(), bin.into()],
            )?;
        }
        Ok(())
    }

    /// If the deleted result was the best result of its device, stores the next best result of this device.
    /// That result is in the device's first bin, so only the ranking rows of this bin are read.
    fn elect(&mut self, figure: usize) -> Outcome<()> {
        let figure_id = self.book.figure_id(figure);
        let gone = self.connection.query(
            "DELETE FROM best WHERE key_id = $1 AND figure_id = $2 AND device_id = $3 AND seq = $4 RETURNING seq",
            &[self.key_id.into(), figure_id.into(), self.device_id.into(), self.seq.into()],
        )?;
        if gone.is_empty() {
            return Ok(());
        }
        let bins = self.connection.query(
            "SELECT bin FROM bins WHERE scope = $1 AND key_id = $2 AND figure_id = $3 ORDER BY bin LIMIT 1",
            &[self.device_id.into(), self.key_id.into(), figure_id.into()],
        )?;
        let Some(first) = bins.first() else { return Ok(()) };
        let (best, worst) = figures::ranked()[figure].better.scores(first.int(0));
        let next = self.connection.query(
            "SELECT score, seq FROM ranks WHERE key_id = $1 AND figure_id = $2 AND score >= $3 AND score <= $4 \
             AND device_id = $5 ORDER BY score, seq LIMIT 1",
            &[self.key_id.into(), figure_id.into(), best.into(), worst.into(), self.device_id.into()],
        )?;
        let next = next.first().expect("a bin with results has a ranked result");
        self.connection.bulk(
            ADD_BEST,
            &[
                Column::Ints(vec![self.key_id]),
                Column::Ints(vec![figure_id]),
                Column::Ints(vec![self.device_id]),
                Column::Reals(vec![next.real(0)]),
                Column::Ints(vec![next.int(1)]),
            ],
        )
    }
}
