//! Defines the state and the transactions of the writer thread, and the statements that insert rows into the
//! tables.

use std::collections::{BTreeMap, HashMap};

use super::bins::Scored;
use super::cache::{Scope, Summaries};
use super::held::{self, NewResult};
use super::read;
use crate::database::{Bulk, Column, Connection, DatabaseError};
use crate::entry::{DeviceRevision, Entry, Key};
use crate::texts::{Accepted, UnknownText};
use crate::{figures, token};

/// Maximum number of cached keys and devices; a full cache is emptied, and entries are read from the database
/// again.
const KNOWN_MAX: usize = 10_000;

/// A result that the writer thread has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The result's public id.
    pub id: String,
    /// The secret token that deletes the result.
    pub delete_token: String,
}

/// The outcome of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The result was stored.
    Stored(Stored),
    /// The same result was stored before.
    Known {
        /// The id of the stored result.
        id: String,
    },
    /// The result needs a review, but too many results wait for one.
    QueueFull,
}

/// A submission for the writer thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Submitted {
    /// The result.
    pub entry: Entry,
    /// The texts that must be reviewed before the result is published.
    pub unknown: Vec<UnknownText>,
}

/// Changes to the counts of bins within a transaction.
pub(super) type Changes = BTreeMap<(Scope, i64), i64>;

/// The writer thread's state and transactions.
pub struct Book {
    pub(super) summaries: Summaries,
    figure_ids: Vec<i64>,
    next_seq: i64,
    pub(super) keys: HashMap<String, i64>,
    pub(super) devices: HashMap<DeviceRevision, i64>,
    /// The number of results that wait for review.
    pub(super) held: i64,
    pub(super) accepted: Accepted,
}

pub(super) const ADD_RESULTS: Bulk = Bulk {
    sqlite: "INSERT INTO results (seq, id, received_at, key_id, device_id, token_hash, hidden_reason, content_hash) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    postgres: "INSERT INTO results (seq, id, received_at, key_id, device_id, token_hash, hidden_reason, content_hash) \
               SELECT * FROM UNNEST($1::BIGINT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BYTEA[], \
               $7::TEXT[], $8::BYTEA[])",
};

pub(super) const ADD_DOCUMENTS: Bulk = Bulk {
    sqlite: "INSERT INTO documents (seq, document) VALUES ($1, $2)",
    postgres: "INSERT INTO documents (seq, document) SELECT * FROM UNNEST($1::BIGINT[], $2::BYTEA[])",
};

pub(super) const ADD_RANKS: Bulk = Bulk {
    sqlite: "INSERT INTO ranks (key_id, figure_id, score, seq, device_id) VALUES ($1, $2, $3, $4, $5)",
    postgres: "INSERT INTO ranks (key_id, figure_id, score, seq, device_id) \
               SELECT * FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::FLOAT8[], $4::BIGINT[], $5::BIGINT[])",
};

pub(super) const ADD_TO_BINS: Bulk = Bulk {
    sqlite: "INSERT INTO bins (scope, key_id, figure_id, bin, results) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (scope, key_id, figure_id, bin) DO UPDATE SET results = results + excluded.results",
    postgres: "INSERT INTO bins (scope, key_id, figure_id, bin, results) \
               SELECT * FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[]) \
               ON CONFLICT (scope, key_id, figure_id, bin) DO UPDATE SET results = bins.results + excluded.results",
};

/// Keeps the best result of each device. Of several equally good results, keeps the first.
pub(super) const ADD_BEST: Bulk = Bulk {
    sqlite: "INSERT INTO best (key_id, figure_id, device_id, score, seq) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (key_id, figure_id, device_id) DO UPDATE SET score = excluded.score, seq = excluded.seq \
             WHERE excluded.score < best.score",
    postgres: "INSERT INTO best (key_id, figure_id, device_id, score, seq) \
               SELECT * FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::FLOAT8[], $5::BIGINT[]) \
               ON CONFLICT (key_id, figure_id, device_id) DO UPDATE SET score = excluded.score, seq = excluded.seq \
               WHERE excluded.score < best.score",
};

const COUNT_KEYS: Bulk = Bulk {
    sqlite: "UPDATE keys SET results = results + $2 WHERE key_id = $1",
    postgres: "UPDATE keys SET results = results + added.n \
               FROM UNNEST($1::BIGINT[], $2::BIGINT[]) AS added (id, n) WHERE key_id = added.id",
};

const COUNT_DEVICES: Bulk = Bulk {
    sqlite: "UPDATE devices SET results = results + $2 WHERE device_id = $1",
    postgres: "UPDATE devices SET results = results + added.n \
               FROM UNNEST($1::BIGINT[], $2::BIGINT[]) AS added (id, n) WHERE device_id = added.id",
};

impl Book {
    /// Reads the state of the writer thread from the database.
    pub fn open(
        connection: &mut dyn Connection,
        summaries: Summaries,
        accepted: Accepted,
    ) -> Result<Book, DatabaseError> {
        for figure in figures::ranked() {
            connection.query(
                "INSERT INTO figures (figure_id, name) SELECT COALESCE(MAX(figure_id), 0) + 1, $1 FROM figures \
                 HAVING NOT EXISTS (SELECT 1 FROM figures WHERE name = $2)",
                &[figure.name.as_str().into(), figure.name.as_str().into()],
            )?;
        }
        let last = connection.query("SELECT COALESCE(MAX(seq), 0) FROM results", &[])?;
        held::load_accepted(connection, &accepted)?;
        let held = connection.query("SELECT COUNT(*) FROM held", &[])?[0].int(0);
        Ok(Book {
            summaries,
            figure_ids: read::figure_ids(connection)?,
            next_seq: last[0].int(0) + 1,
            keys: HashMap::new(),
            devices: HashMap::new(),
            held,
            accepted,
        })
    }

    pub(super) fn figure_id(&self, figure: usize) -> i64 {
        self.figure_ids[figure]
    }

    /// Stores submissions in one transaction.
    pub fn store(
        &mut self,
        connection: &mut dyn Connection,
        submitted: Vec<Submitted>,
        now_unix_s: i64,
    ) -> Result<Vec<Outcome>, DatabaseError> {
        let held = self.held;
        let outcome =
            self.transact(connection, |book, connection| book.receive(connection, submitted, now_unix_s));
        if outcome.is_err() {
            self.held = held;
        }
        outcome
    }

    /// Stores each submission: publishes it, holds it back for review, or finds that it is known.
    fn receive(
        &mut self,
        connection: &mut dyn Connection,
        submitted: Vec<Submitted>,
        now_unix_s: i64,
    ) -> Result<(Vec<Outcome>, Changes), DatabaseError> {
        let (mut outcomes, mut new) = (Vec::new(), Vec::new());
        let mut ids: HashMap<Vec<u8>, String> = HashMap::new();
        for Submitted { entry, unknown } in submitted {
            let known = match ids.get(&entry.content_hash) {
                Some(id) => Some(id.clone()),
                None => find_content(connection, &entry.content_hash)?,
            };
            if let Some(id) = known {
                outcomes.push(Outcome::Known { id });
                continue;
            }
            let stored = Stored { id: token::new_id(), delete_token: token::new_token() };
            let row = NewResult {
                id: stored.id.clone(),
                token_hash: token::hash(&stored.delete_token),
                received_at: now_unix_s,
                entry,
            };
            if !unknown.is_empty() && self.held >= held::HELD_MAX {
                outcomes.push(Outcome::QueueFull);
                continue;
            }
            ids.insert(row.entry.content_hash.clone(), row.id.clone());
            if unknown.is_empty() {
                new.push(row);
            } else {
                self.held += 1;
                held::hold(connection, &row, &unknown)?;
            }
            outcomes.push(Outcome::Stored(stored));
        }
        let changes = self.publish(connection, &new)?;
        Ok((outcomes, changes))
    }

    /// Runs a transaction. After its commit, updates the summaries in memory.
    pub(super) fn transact<T>(
        &mut self,
        connection: &mut dyn Connection,
        run: impl FnOnce(&mut Book, &mut dyn Connection) -> Result<(T, Changes), DatabaseError>,
    ) -> Result<T, DatabaseError> {
        connection.begin()?;
        let (value, changes) = match run(self, connection) {
            Ok(done) => done,
            Err(error) => {
                connection.rollback();
                self.forget_ids();
                return Err(error);
            }
        };
        self.summaries.begin();
        let committed = connection.commit();
        if committed.is_err() {
            connection.rollback();
            self.forget_ids();
        }
        let applied = if committed.is_ok() { changes } else { Changes::new() };
        self.summaries.end(applied.iter().map(|((scope, bin), results)| (scope, *bin, *results)));
        committed.map(|()| value)
    }

    /// Adds results to all tables of published results.
    pub(super) fn publish(
        &mut self,
        connection: &mut dyn Connection,
        new: &[NewResult],
    ) -> Result<Changes, DatabaseError> {
        let (mut keys, mut devices) = (Vec::new(), Vec::new());
        for row in new {
            let (key_id, device_id) = self.ids(connection, &row.entry)?;
            keys.push(key_id);
            devices.push(device_id);
        }
        let seqs: Vec<i64> = (self.next_seq..).take(new.len()).collect();
        // Numbers of a failed transaction are not used again.
        self.next_seq += i64::try_from(new.len()).expect("a batch is small");
        connection.bulk(
            ADD_RESULTS,
            &[
                Column::Ints(seqs.clone()),
                Column::Texts(new.iter().map(|row| Some(row.id.clone())).collect()),
                Column::Ints(new.iter().map(|row| row.received_at).collect()),
                Column::Ints(keys.clone()),
                Column::Ints(devices.clone()),
                Column::Bytes(new.iter().map(|row| row.token_hash.clone()).collect()),
                Column::Texts(new.iter().map(|row| row.entry.hidden_reason.clone()).collect()),
                Column::Bytes(new.iter().map(|row| row.entry.content_hash.clone()).collect()),
            ],
        )?;
        connection.bulk(
            ADD_DOCUMENTS,
            &[
                Column::Ints(seqs.clone()),
                Column::Bytes(new.iter().map(|row| row.entry.document.clone()).collect()),
            ],
        )?;
        let entries: Vec<&Entry> = new.iter().map(|row| &row.entry).collect();
        self.rank(connection, &entries, &keys, &devices, &seqs)
    }

    /// Adds the entries that are not hidden to the ranks, bins, best results and counts.
    fn rank(
        &mut self,
        connection: &mut dyn Connection,
        entries: &[&Entry],
        keys: &[i64],
        devices: &[i64],
        seqs: &[i64],
    ) -> Result<Changes, DatabaseError> {
        let mut ranks = Vec::new();
        let mut changes = Changes::new();
        let mut best: BTreeMap<(i64, i64, i64), (f64, i64)> = BTreeMap::new();
        let (mut of_key, mut of_device) = (BTreeMap::new(), BTreeMap::new());
        for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.hidden_reason.is_none()) {
            let (key_id, device_id, seq) = (keys[at], devices[at], seqs[at]);
            *of_key.entry(key_id).or_insert(0) += 1;
            *of_device.entry(device_id).or_insert(0) += 1;
            for (figure, value) in &entry.figures {
                let better = figures::ranked()[*figure].better;
                let (figure_id, score) = (self.figure_ids[*figure], better.score(*value));
                ranks.push((key_id, figure_id, score, seq, device_id));
                for scope in [0, device_id] {
                    let scope = Scope { device_id: scope, key_id, figure_id };
                    *changes.entry((scope, better.bin(*value))).or_insert(0) += 1;
                }
                let first = best.entry((key_id, figure_id, device_id)).or_insert((score, seq));
                if score < first.0 {
                    *first = (score, seq);
                }
            }
        }
        // Write the rows in table order, so that neighbouring rows are written one after the other.
        ranks.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3)));
        connection.bulk(
            ADD_RANKS,
            &[
                Column::Ints(ranks.iter().map(|rank| rank.0).collect()),
                Column::Ints(ranks.iter().map(|rank| rank.1).collect()),
                Column::Reals(ranks.iter().map(|rank| rank.2).collect()),
                Column::Ints(ranks.iter().map(|rank| rank.3).collect()),
                Column::Ints(ranks.iter().map(|rank| rank.4).collect()),
            ],
        )?;
        add_to_bins(connection, &changes)?;
        connection.bulk(
            ADD_BEST,
            &[
                Column::Ints(best.keys().map(|key| key.0).collect()),
                Column::Ints(best.keys().map(|key| key.1).collect()),
                Column::Ints(best.keys().map(|key| key.2).collect()),
                Column::Reals(best.values().map(|value| value.0).collect()),
                Column::Ints(best.values().map(|value| value.1).collect()),
            ],
        )?;
        count(connection, &of_key, &of_device)?;
        Ok(changes)
    }

    /// Empties the caches of ids after a transaction has failed, because the transaction may have created ids.
    fn forget_ids(&mut self) {
        self.keys.clear();
        self.devices.clear();
    }

    /// Returns the ids of an entry's key and device. Creates the ids of a new key or device.
    pub(super) fn ids(
        &mut self,
        connection: &mut dyn Connection,
        entry: &Entry,
    ) -> Result<(i64, i64), DatabaseError> {
        Ok((self.key_id(connection, &entry.key)?, self.device_id(connection, &entry.device)?))
    }

    fn key_id(&mut self, connection: &mut dyn Connection, key: &Key) -> Result<i64, DatabaseError> {
        if let Some(id) = self.keys.get(&key.name) {
            return Ok(*id);
        }
        let name = key.name.as_str();
        let mut found = connection.query("SELECT key_id FROM keys WHERE name = $1", &[name.into()])?;
        if found.is_empty() {
            found = connection.query(
                "INSERT INTO keys (key_id, name, test_version, file_system, mode, size_class, results) \
                 SELECT COALESCE(MAX(key_id), 0) + 1, $1, $2, $3, $4, $5, 0 FROM keys RETURNING key_id",
                &[
                    name.into(),
                    key.test_version.as_str().into(),
                    key.file_system.as_str().into(),
                    key.mode.as_str().into(),
                    key.size_class.as_str().into(),
                ],
            )?;
        }
        if self.keys.len() >= KNOWN_MAX {
            self.keys.clear();
        }
        self.keys.insert(key.name.clone(), found[0].int(0));
        Ok(found[0].int(0))
    }

    fn device_id(
        &mut self,
        connection: &mut dyn Connection,
        device: &DeviceRevision,
    ) -> Result<i64, DatabaseError> {
        if let Some(id) = self.devices.get(device) {
            return Ok(*id);
        }
        let mut found = connection.query(
            "SELECT device_id FROM devices WHERE slug = $1 AND revision_slug = $2",
            &[device.slug.as_str().into(), device.revision_slug.as_str().into()],
        )?;
        if found.is_empty() {
            found = connection.query(
                "INSERT INTO devices (device_id, slug, revision_slug, kind, maker, model, revision, results) \
                 SELECT COALESCE(MAX(device_id), 0) + 1, $1, $2, $3, $4, $5, $6, 0 FROM devices RETURNING device_id",
                &[
                    device.slug.as_str().into(),
                    device.revision_slug.as_str().into(),
                    device.kind.as_str().into(),
                    device.maker.as_str().into(),
                    device.model.as_str().into(),
                    device.revision.as_str().into(),
                ],
            )?;
        }
        if self.devices.len() >= KNOWN_MAX {
            self.devices.clear();
        }
        self.devices.insert(device.clone(), found[0].int(0));
        Ok(found[0].int(0))
    }
}

/// Returns the id of the published or held result with this content.
fn find_content(connection: &mut dyn Connection, hash: &[u8]) -> Result<Option<String>, DatabaseError> {
    for sql in
        ["SELECT id FROM results WHERE content_hash = $1", "SELECT id FROM held WHERE content_hash = $1"]
    {
        if let Some(row) = connection.query(sql, &[hash.to_vec().into()])?.first() {
            return Ok(Some(row.text(0).to_owned()));
        }
    }
    Ok(None)
}

pub(super) fn add_to_bins(connection: &mut dyn Connection, changes: &Changes) -> Result<(), DatabaseError> {
    connection.bulk(
        ADD_TO_BINS,
        &[
            Column::Ints(changes.keys().map(|(scope, _)| scope.device_id).collect()),
            Column::Ints(changes.keys().map(|(scope, _)| scope.key_id).collect()),
            Column::Ints(changes.keys().map(|(scope, _)| scope.figure_id).collect()),
            Column::Ints(changes.keys().map(|(_, bin)| *bin).collect()),
            Column::Ints(changes.values().copied().collect()),
        ],
    )
}

pub(super) fn count(
    connection: &mut dyn Connection,
    of_key: &BTreeMap<i64, i64>,
    of_device: &BTreeMap<i64, i64>,
) -> Result<(), DatabaseError> {
    let columns = |counts: &BTreeMap<i64, i64>| {
        [Column::Ints(counts.keys().copied().collect()), Column::Ints(counts.values().copied().collect())]
    };
    connection.bulk(COUNT_KEYS, &columns(of_key))?;
    connection.bulk(COUNT_DEVICES, &columns(of_device))
}
