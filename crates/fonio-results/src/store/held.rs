//! Holds results back for review. A result with an unknown text waits in a table of its own until the operator
//! has decided.
//!
//! The operator runs `fonio-results review`. The command writes decisions into the database, and the writer
//! thread of the running service carries them out ([`super::decisions`]), because only this thread may change
//! rankings.

use crate::database::{Bulk, Column, Connection, DatabaseError};
use crate::entry::Entry;
use crate::texts::{Accepted, UnknownText};

/// Maximum number of results that wait for review. They need about 30 MB. Without a limit, anyone could fill the
/// disk with results that nobody will review.
pub(super) const HELD_MAX: i64 = 10_000;

/// What the operator decides about a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Publish the result, and accept its texts from now on.
    Publish,
    /// Publish the result, but review its texts again in other results.
    PublishOnce,
    /// Delete the result.
    Reject,
    /// Hold a published result back.
    Withhold,
}

impl Verdict {
    const ALL: [(Verdict, &'static str); 4] = [
        (Verdict::Publish, "publish"),
        (Verdict::PublishOnce, "publish_once"),
        (Verdict::Reject, "reject"),
        (Verdict::Withhold, "withhold"),
    ];

    pub(super) fn word(self) -> &'static str {
        Verdict::ALL.iter().find(|(verdict, _)| *verdict == self).expect("all verdicts are listed").1
    }

    pub(super) fn of(word: &str) -> Option<Verdict> {
        Verdict::ALL.iter().find(|(_, known)| *known == word).map(|(verdict, _)| *verdict)
    }
}

/// A result that waits for review.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The id of the result.
    pub id: String,
    /// The time of receipt, in seconds since 1970.
    pub received_at: i64,
    /// The texts that nobody has reviewed.
    pub texts: Vec<UnknownText>,
    /// The compressed document.
    pub document: Vec<u8>,
    pub(super) token_hash: Vec<u8>,
}

/// A result that is about to be published or held.
pub(super) struct NewResult {
    pub(super) id: String,
    pub(super) token_hash: Vec<u8>,
    pub(super) received_at: i64,
    pub(super) entry: Entry,
}

const ADD: Bulk = Bulk {
    sqlite: "INSERT INTO held (id, received_at, token_hash, content_hash, texts, document) \
             VALUES ($1, $2, $3, $4, $5, $6)",
    postgres: "INSERT INTO held (id, received_at, token_hash, content_hash, texts, document) \
               SELECT * FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::BYTEA[], $4::BYTEA[], $5::TEXT[], $6::BYTEA[])",
};

/// Stores a result for review.
pub(super) fn hold(
    connection: &mut dyn Connection,
    result: &NewResult,
    unknown: &[UnknownText],
) -> Result<(), DatabaseError> {
    connection.bulk(
        ADD,
        &[
            Column::Texts(vec![Some(result.id.clone())]),
            Column::Ints(vec![result.received_at]),
            Column::Bytes(vec![result.token_hash.clone()]),
            Column::Bytes(vec![result.entry.content_hash.clone()]),
            Column::Texts(vec![Some(serde_json::to_string(unknown).expect("texts are JSON"))]),
            Column::Bytes(vec![result.entry.document.clone()]),
        ],
    )
}

/// Reads the accepted texts of the database.
pub(super) fn load_accepted(
    connection: &mut dyn Connection,
    accepted: &Accepted,
) -> Result<(), DatabaseError> {
    let rows = connection.query("SELECT field, text FROM accepted_texts", &[])?;
    accepted.add(
        rows.iter().map(|row| UnknownText { field: row.text(0).to_owned(), text: row.text(1).to_owned() }),
    );
    Ok(())
}

/// Reads at most `limit` results that wait for review, the oldest first.
pub fn waiting(connection: &mut dyn Connection, limit: i64) -> Result<Vec<Held>, DatabaseError> {
    let rows = connection.query(
        "SELECT id, received_at, texts, document, token_hash FROM held ORDER BY received_at, id LIMIT $1",
        &[limit.into()],
    )?;
    Ok(rows.iter().map(held).collect())
}

/// Reads the result with this id if it waits for review.
pub fn find(connection: &mut dyn Connection, id: &str) -> Result<Option<Held>, DatabaseError> {
    let rows = connection
        .query("SELECT id, received_at, texts, document, token_hash FROM held WHERE id = $1", &[id.into()])?;
    Ok(rows.first().map(held))
}

fn held(row: &crate::database::Row) -> Held {
    Held {
        id: row.text(0).to_owned(),
        received_at: row.int(1),
        texts: serde_json::from_str(row.text(2)).expect("the service stored the texts"),
        document: row.bytes(3).to_vec(),
        token_hash: row.bytes(4).to_vec(),
    }
}

/// Writes a decision, which the service carries out.
pub fn decide(connection: &mut dyn Connection, id: &str, verdict: Verdict) -> Result<(), DatabaseError> {
    connection.query(
        "INSERT INTO decisions (decision_id, id, verdict) \
         SELECT COALESCE(MAX(decision_id), 0) + 1, $1, $2 FROM decisions",
        &[id.into(), verdict.word().into()],
    )?;
    Ok(())
}

/// Returns the number of decisions that the service has not carried out yet.
pub fn undone(connection: &mut dyn Connection) -> Result<i64, DatabaseError> {
    Ok(connection.query("SELECT COUNT(*) FROM decisions", &[])?[0].int(0))
}

/// Deletes a held result. Returns whether there was one.
pub(super) fn forget(connection: &mut dyn Connection, id: &str) -> Result<bool, DatabaseError> {
    let gone = connection.query("DELETE FROM held WHERE id = $1 RETURNING id", &[id.into()])?;
    Ok(!gone.is_empty())
}

/// Returns whether the token belongs to a held result; `None` if no held result has this id.
pub(super) fn owns(
    connection: &mut dyn Connection,
    id: &str,
    token: &str,
) -> Result<Option<bool>, DatabaseError> {
    Ok(find(connection, id)?.map(|held| crate::token::matches(token, &held.token_hash)))
}
