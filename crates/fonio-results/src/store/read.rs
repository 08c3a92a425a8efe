//! Queries of the results database. The number of rows that a query reads is independent of the number of
//! results. The only exception is the query of a value's rank, because it counts the better results in the
//! value's bin.

use std::ops::Deref;

use fonio_core::Better;

use super::bins::Scored;
use super::cache::{Scope, Summaries};
use super::summary::Summary;
use crate::database::{Connection, DatabaseError, Row, Value};
use crate::entry::{DeviceRevision, Key, UNKNOWN_MAKER};
use crate::figures;

/// A comparison key in the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredKey {
    /// The key's id in the database.
    pub key_id: i64,
    /// The comparison key itself.
    pub of: Key,
    /// The number of received results with this key.
    pub results: i64,
}

impl Deref for StoredKey {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.of
    }
}

/// A device in the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDevice {
    /// The device's id in the database.
    pub device_id: i64,
    /// The device's model and revision.
    pub of: DeviceRevision,
    /// The number of received results of this device.
    pub results: i64,
}

impl Deref for StoredDevice {
    type Target = DeviceRevision;

    fn deref(&self) -> &DeviceRevision {
        &self.of
    }
}

impl StoredDevice {
    /// Returns the device's display name, without the revision.
    pub fn name(&self) -> String {
        match self.maker.as_str() {
            UNKNOWN_MAKER => format!("{} ({})", self.model, self.kind),
            maker => format!("{maker} {} ({})", self.model, self.kind),
        }
    }
}

/// A result in the database.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Sequence number in the order of arrival.
    pub seq: i64,
    /// The result's public id.
    pub id: String,
    /// The time of receipt, in seconds since 1970.
    pub received_at: i64,
    /// Why the result is hidden; `None` if it is not hidden.
    pub hidden_reason: Option<String>,
    /// The id of the result's comparison key.
    pub key_id: i64,
    /// The id of the measured device.
    pub device_id: i64,
    /// The result's document, compressed.
    pub document: Vec<u8>,
}

/// A row of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The rank, counted from 1. Equal values have equal ranks.
    pub rank: i64,
    /// The value of the ranked figure.
    pub value: f64,
    /// Sequence number in the order of arrival. Equal values are sorted by this number.
    pub seq: i64,
    /// The result's id.
    pub id: String,
    /// The measured device.
    pub device: StoredDevice,
}

/// A page of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The rows of the page.
    pub places: Vec<Place>,
    /// The start of the next page of the ranking, if there is one.
    pub next: Option<Position>,
}

/// A position in a ranking: the position after the row with this score and this sequence number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// The score of the row before the position.
    pub score: f64,
    /// The sequence number of the row before the position.
    pub seq: i64,
}

/// Selects the results that a ranking contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The ranking contains every result.
    Results,
    /// The ranking contains only the best result of each device.
    Devices,
}

/// Reads the ids of the ranked figures, in the order of the figures.
pub(crate) fn figure_ids(connection: &mut dyn Connection) -> Result<Vec<i64>, DatabaseError> {
    let rows = connection.query("SELECT name, figure_id FROM figures", &[])?;
    let id = |figure: &figures::Ranked| {
        let row = rows.iter().find(|row| row.text(0) == figure.name);
        row.map(|row| row.int(1)).unwrap_or_else(|| panic!("the writer has stored {}", figure.name))
    };
    Ok(figures::ranked().iter().map(id).collect())
}

fn key(row: &Row) -> StoredKey {
    let text = |column: usize| row.text(column).to_owned();
    let of = Key {
        name: text(1),
        test_version: text(2),
        file_system: text(3),
        mode: text(4),
        size_class: text(5),
    };
    StoredKey { key_id: row.int(0), of, results: row.int(6) }
}

/// Reads at most `limit` comparison keys, in descending order of their numbers of results.
pub fn keys(connection: &mut dyn Connection, limit: i64) -> Result<Vec<StoredKey>, DatabaseError> {
    let rows = connection.query(
        "SELECT key_id, name, test_version, file_system, mode, size_class, results FROM keys \
         WHERE results > 0 ORDER BY results DESC, name LIMIT $1",
        &[limit.into()],
    )?;
    Ok(rows.iter().map(key).collect())
}

/// Reads the comparison key with this name.
pub fn key_by_name(connection: &mut dyn Connection, name: &str) -> Result<Option<StoredKey>, DatabaseError> {
    let rows = connection.query(
        "SELECT key_id, name, test_version, file_system, mode, size_class, results FROM keys WHERE name = $1",
        &[name.into()],
    )?;
    Ok(rows.first().map(key))
}

/// Reads the comparison key with this id; `None` if its last result has just been deleted.
pub fn key_by_id(connection: &mut dyn Connection, key_id: i64) -> Result<Option<StoredKey>, DatabaseError> {
    let rows = connection.query(
        "SELECT key_id, name, test_version, file_system, mode, size_class, results FROM keys WHERE key_id = $1",
        &[key_id.into()],
    )?;
    Ok(rows.first().map(key))
}

/// Reads a device from a row's columns, starting with column `at`.
fn device(row: &Row, at: usize) -> StoredDevice {
    let text = |column: usize| row.text(at + column).to_owned();
    let of = DeviceRevision {
        slug: text(1),
        revision_slug: text(2),
        kind: text(3),
        maker: text(4),
        model: text(5),
        revision: text(6),
    };
    StoredDevice { device_id: row.int(at), of, results: row.int(at + 7) }
}

/// Reads the device with this id; `None` if its last result has just been deleted.
pub fn device_by_id(
    connection: &mut dyn Connection,
    device_id: i64,
) -> Result<Option<StoredDevice>, DatabaseError> {
    let rows = connection.query(
        "SELECT device_id, slug, revision_slug, kind, maker, model, revision, results FROM devices \
         WHERE device_id = $1",
        &[device_id.into()],
    )?;
    Ok(rows.first().map(|row| device(row, 0)))
}

/// Reads all revisions of a device model.
pub fn revisions(connection: &mut dyn Connection, slug: &str) -> Result<Vec<StoredDevice>, DatabaseError> {
    let rows = connection.query(
        "SELECT device_id, slug, revision_slug, kind, maker, model, revision, results FROM devices \
         WHERE slug = $1 AND results > 0 ORDER BY results DESC, revision_slug LIMIT 200",
        &[slug.into()],
    )?;
    Ok(rows.iter().map(|row| device(row, 0)).collect())
}

/// Reads at most `limit` devices in the order of their names, starting after the position `behind`.
pub fn devices(
    connection: &mut dyn Connection,
    behind: (&str, &str),
    limit: i64,
) -> Result<Vec<StoredDevice>, DatabaseError> {
    let rows = connection.query(
        "SELECT device_id, slug, revision_slug, kind, maker, model, revision, results FROM devices \
         WHERE (slug, revision_slug) > ($1, $2) AND results > 0 ORDER BY slug, revision_slug LIMIT $3",
        &[behind.0.into(), behind.1.into(), limit.into()],
    )?;
    Ok(rows.iter().map(|row| device(row, 0)).collect())
}

/// Reads at most `limit` comparison keys for which results of the device were received.
pub fn keys_of_device(
    connection: &mut dyn Connection,
    device_id: i64,
    limit: i64,
) -> Result<Vec<StoredKey>, DatabaseError> {
    // The table is small: it has one row per device, key and figure, and there are few keys.
    let rows = connection.query(
        "SELECT k.key_id, k.name, k.test_version, k.file_system, k.mode, k.size_class, k.results FROM keys k \
         WHERE EXISTS (SELECT 1 FROM bins b WHERE b.scope = $1 AND b.key_id = k.key_id) \
         ORDER BY k.results DESC, k.name LIMIT $2",
        &[device_id.into(), limit.into()],
    )?;
    Ok(rows.iter().map(key).collect())
}

/// Reads the latest results of a device, including hidden results.
pub fn latest_of_device(
    connection: &mut dyn Connection,
    device_id: i64,
    limit: i64,
) -> Result<Vec<(String, i64, String)>, DatabaseError> {
    let rows = connection.query(
        "SELECT r.id, r.received_at, k.name FROM results r JOIN keys k ON k.key_id = r.key_id \
         WHERE r.device_id = $1 AND r.hidden_reason IS NULL ORDER BY r.seq DESC LIMIT $2",
        &[device_id.into(), limit.into()],
    )?;
    Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.int(1), row.text(2).to_owned())).collect())
}

/// Reads the result with this id.
pub fn result(connection: &mut dyn Connection, id: &str) -> Result<Option<Stored>, DatabaseError> {
    let rows = connection.query(
        "SELECT r.seq, r.id, r.received_at, r.hidden_reason, r.key_id, r.device_id, d.document \
         FROM results r JOIN documents d ON d.seq = r.seq WHERE r.id = $1",
        &[id.into()],
    )?;
    Ok(rows.first().map(stored))
}

fn stored(row: &Row) -> Stored {
    Stored {
        seq: row.int(0),
        id: row.text(1).to_owned(),
        received_at: row.int(2),
        hidden_reason: row.optional_text(3).map(str::to_owned),
        key_id: row.int(4),
        device_id: row.int(5),
        document: row.bytes(6).to_vec(),
    }
}

/// Reads a batch for a dump. It contains the received results after `seq`, in the order of arrival.
pub fn received(connection: &mut dyn Connection, seq: i64, limit: i64) -> Result<Vec<Stored>, DatabaseError> {
    let rows = connection.query(
        "SELECT r.seq, r.id, r.received_at, r.hidden_reason, r.key_id, r.device_id, d.document \
         FROM results r JOIN documents d ON d.seq = r.seq \
         WHERE r.seq > $1 AND r.hidden_reason IS NULL ORDER BY r.seq LIMIT $2",
        &[seq.into(), limit.into()],
    )?;
    Ok(rows.iter().map(stored).collect())
}

/// Reads the distribution of a figure's values.
pub fn summary(
    connection: &mut dyn Connection,
    summaries: &Summaries,
    scope: Scope,
    better: Better,
) -> Result<std::sync::Arc<Summary>, DatabaseError> {
    if let Some(known) = summaries.get(scope) {
        return Ok(known);
    }
    let generation = summaries.generation();
    let rows = connection.query(
        "SELECT bin, results FROM bins WHERE scope = $1 AND key_id = $2 AND figure_id = $3 ORDER BY bin",
        &[scope.device_id.into(), scope.key_id.into(), scope.figure_id.into()],
    )?;
    let bins = rows.iter().map(|row| (row.int(0), row.int(1))).collect();
    let summary = std::sync::Arc::new(Summary::new(better, bins));
    summaries.keep(scope, summary.clone(), generation);
    Ok(summary)
}

/// Returns the number of results that are better than a value. These are all results in better bins, and the
/// better results in the value's bin.
pub fn better_than(
    connection: &mut dyn Connection,
    summary: &Summary,
    scope: Scope,
    value: f64,
) -> Result<i64, DatabaseError> {
    let better = summary.better();
    let bin = better.bin(value);
    let (best, _) = better.scores(bin);
    let rows = connection.query(
        "SELECT COUNT(*) FROM ranks WHERE key_id = $1 AND figure_id = $2 AND score >= $3 AND score < $4",
        &[scope.key_id.into(), scope.figure_id.into(), best.into(), better.score(value).into()],
    )?;
    Ok(summary.better_than(bin) + rows[0].int(0))
}

/// Reads a page of a ranking with at most `limit` rows. The page begins after a position.
pub fn ranking(
    connection: &mut dyn Connection,
    summary: &Summary,
    scope: Scope,
    of: Of,
    behind: Option<Position>,
    limit: i64,
) -> Result<Page, DatabaseError> {
    let after = behind.unwrap_or(Position { score: f64::MIN, seq: 0 });
    let values: [Value; 5] = [
        scope.key_id.into(),
        scope.figure_id.into(),
        after.score.into(),
        after.seq.into(),
        (limit + 1).into(),
    ];
    let rows = match of {
        Of::Results => connection.query(
            "SELECT p.score, p.seq, r.id, d.device_id, d.slug, d.revision_slug, d.kind, d.maker, d.model, d.revision, \
             d.results FROM (SELECT score, seq, device_id FROM ranks \
             WHERE key_id = $1 AND figure_id = $2 AND (score, seq) > ($3, $4) ORDER BY score, seq LIMIT $5) p \
             JOIN results r ON r.seq = p.seq JOIN devices d ON d.device_id = p.device_id ORDER BY p.score, p.seq",
            &values,
        )?,
        Of::Devices => connection.query(
            "SELECT p.score, p.seq, r.id, d.device_id, d.slug, d.revision_slug, d.kind, d.maker, d.model, d.revision, \
             d.results FROM (SELECT score, seq, device_id FROM best \
             WHERE key_id = $1 AND figure_id = $2 AND (score, device_id) > ($3, $4) ORDER BY score, device_id LIMIT $5) p \
             JOIN results r ON r.seq = p.seq JOIN devices d ON d.device_id = p.device_id \
             ORDER BY p.score, p.device_id",
            &values,
        )?,
    };
    let is_more = rows.len() as i64 > limit;
    let shown = &rows[..rows.len().min(limit as usize)];
    let better = summary.better();
    let before = match shown.first() {
        Some(row) if behind.is_some() => Some(before(connection, summary, scope, of, row)?),
        _ => None,
    };
    // The number of rows before the page, and how many of these rows are better than the page's first row.
    let (preceding, better_rows) = before.unwrap_or((0, 0));
    let mut places: Vec<Place> = Vec::new();
    for (row, at) in shown.iter().zip(0..) {
        let value = better.value(row.real(0));
        let rank = match places.last() {
            Some(last) if last.value == value => last.rank,
            Some(_) => preceding + at + 1,
            None => better_rows + 1,
        };
        places.push(Place {
            rank,
            value,
            seq: row.int(1),
            id: row.text(2).to_owned(),
            device: device(row, 3),
        });
    }
    let next = shown.last().filter(|_| is_more).map(|row| Position {
        score: row.real(0),
        seq: match of {
            Of::Results => row.int(1),
            Of::Devices => row.int(3),
        },
    });
    Ok(Page { places, next })
}

/// Returns the number of rows that are ranked before `row`, and how many of them are better than `row`.
fn before(
    connection: &mut dyn Connection,
    summary: &Summary,
    scope: Scope,
    of: Of,
    row: &Row,
) -> Result<(i64, i64), DatabaseError> {
    let better = summary.better();
    let score = row.real(0);
    match of {
        Of::Results => {
            let value = better.value(score);
            let better_rows = better_than(connection, summary, scope, value)?;
            let equal = connection.query(
                "SELECT COUNT(*) FROM ranks WHERE key_id = $1 AND figure_id = $2 AND score = $3 AND seq < $4",
                &[scope.key_id.into(), scope.figure_id.into(), score.into(), row.int(1).into()],
            )?;
            Ok((better_rows + equal[0].int(0), better_rows))
        }
        Of::Devices => {
            let counts = connection.query(
                "SELECT COUNT(*), COUNT(CASE WHEN score < $3 THEN 1 END) FROM best \
                 WHERE key_id = $1 AND figure_id = $2 AND (score < $3 OR (score = $3 AND device_id < $4))",
                &[scope.key_id.into(), scope.figure_id.into(), score.into(), row.int(3).into()],
            )?;
            Ok((counts[0].int(0), counts[0].int(1)))
        }
    }
}
