//! Fills an empty database with many entries, for benchmarks. The rows of the large tables are written in
//! table order. This is many times faster than submitting the results. `examples/load/seed.rs` checks that
//! submissions create the same tables.

use std::collections::BTreeMap;

use super::bins::Scored;
use super::book::{ADD_BEST, ADD_DOCUMENTS, ADD_RANKS, ADD_RESULTS, Book, Changes, add_to_bins, count};
use super::cache::{Scope, Summaries};
use crate::database::{Column, Connection, DatabaseError};
use crate::entry::Entry;
use crate::texts::Accepted;
use crate::{figures, token};

/// The time at which the seeded results were received, in seconds since 1970.
pub const RECEIVED_AT: i64 = 1_790_000_000;

/// One query per table. The queries do not read the random columns (ids and token hashes).
pub const TABLES: [&str; 8] = [
    "SELECT key_id, name, test_version, file_system, mode, size_class, results FROM keys ORDER BY key_id",
    "SELECT device_id, slug, revision_slug, kind, maker, model, revision, results FROM devices ORDER BY device_id",
    "SELECT figure_id, name FROM figures ORDER BY figure_id",
    "SELECT seq, received_at, key_id, device_id, hidden_reason FROM results ORDER BY seq",
    "SELECT seq, document FROM documents ORDER BY seq",
    "SELECT key_id, figure_id, score, seq, device_id FROM ranks ORDER BY key_id, figure_id, score, seq",
    "SELECT scope, key_id, figure_id, bin, results FROM bins ORDER BY scope, key_id, figure_id, bin",
    "SELECT key_id, figure_id, device_id, score, seq FROM best ORDER BY key_id, figure_id, device_id",
];

/// Maximum number of rows per statement, to keep arrays small.
const ROWS: usize = 100_000;

/// A row of the table `ranks` in memory: 16 bytes for each figure of each result.
#[derive(Clone, Copy)]
struct Rank {
    score: f64,
    seq: u32,
    device_id: u32,
}

/// Fills a database in one transaction.
pub struct Seed {
    book: Book,
    seq: i64,
    ranks: BTreeMap<(i64, i64), Vec<Rank>>,
}

impl Seed {
    /// Begins with an empty database. Panics if the database already contains results.
    pub fn begin(connection: &mut dyn Connection, summaries: Summaries) -> Result<Seed, DatabaseError> {
        let book = Book::open(connection, summaries, Accepted::default())?;
        let found = connection.query("SELECT COUNT(*) FROM results", &[])?;
        assert_eq!(found[0].int(0), 0, "only an empty database can be seeded");
        connection.begin()?;
        Ok(Seed { book, seq: 0, ranks: BTreeMap::new() })
    }

    /// Adds entries. No entry may be hidden.
    pub fn add(&mut self, connection: &mut dyn Connection, entries: Vec<Entry>) -> Result<(), DatabaseError> {
        let (mut keys, mut devices) = (Vec::new(), Vec::new());
        for entry in &entries {
            let (key_id, device_id) = self.book.ids(connection, entry)?;
            self.seq += 1;
            for (figure, value) in &entry.figures {
                let scope = (key_id, self.book.figure_id(*figure));
                self.ranks.entry(scope).or_default().push(Rank {
                    score: figures::ranked()[*figure].better.score(*value),
                    seq: u32::try_from(self.seq).expect("fewer results than 2^32"),
                    device_id: u32::try_from(device_id).expect("fewer devices than 2^32"),
                });
            }
            keys.push(key_id);
            devices.push(device_id);
        }
        let rows = entries.len();
        let seqs: Vec<i64> = (1 + self.seq - rows as i64..).take(rows).collect();
        connection.bulk(
            ADD_RESULTS,
            &[
                Column::Ints(seqs.clone()),
                Column::Texts(entries.iter().map(|_| Some(token::new_id())).collect()),
                Column::Ints(vec![RECEIVED_AT; rows]),
                Column::Ints(keys),
                Column::Ints(devices),
                Column::Bytes(entries.iter().map(|_| token::hash(&token::new_token())).collect()),
                Column::Texts(vec![None; rows]),
                Column::Bytes(entries.iter().map(|entry| entry.content_hash.clone()).collect()),
            ],
        )?;
        let documents = entries.into_iter().map(|entry| entry.document).collect();
        connection.bulk(ADD_DOCUMENTS, &[Column::Ints(seqs), Column::Bytes(documents)])
    }

    /// Writes rankings, bins, best results and counts, and commits.
    pub fn end(mut self, connection: &mut dyn Connection) -> Result<(), DatabaseError> {
        let better: BTreeMap<i64, _> = figures::ranked()
            .iter()
            .enumerate()
            .map(|(at, figure)| (self.book.figure_id(at), figure.better))
            .collect();
        for ((key_id, figure_id), ranks) in &mut self.ranks {
            let (key_id, figure_id) = (*key_id, *figure_id);
            ranks.sort_unstable_by(|a, b| a.score.total_cmp(&b.score).then(a.seq.cmp(&b.seq)));
            let mut changes = Changes::new();
            let mut best: BTreeMap<i64, (f64, i64)> = BTreeMap::new();
            for piece in ranks.chunks(ROWS) {
                connection.bulk(
                    ADD_RANKS,
                    &[
                        Column::Ints(vec![key_id; piece.len()]),
                        Column::Ints(vec![figure_id; piece.len()]),
                        Column::Reals(piece.iter().map(|rank| rank.score).collect()),
                        Column::Ints(piece.iter().map(|rank| i64::from(rank.seq)).collect()),
                        Column::Ints(piece.iter().map(|rank| i64::from(rank.device_id)).collect()),
                    ],
                )?;
                for rank in piece {
                    let device_id = i64::from(rank.device_id);
                    let bin = better[&figure_id].bin(better[&figure_id].value(rank.score));
                    for device_id in [0, device_id] {
                        *changes.entry((Scope { device_id, key_id, figure_id }, bin)).or_insert(0) += 1;
                    }
                    best.entry(device_id).or_insert((rank.score, i64::from(rank.seq)));
                }
            }
            add_to_bins(connection, &changes)?;
            connection.bulk(
                ADD_BEST,
                &[
                    Column::Ints(vec![key_id; best.len()]),
                    Column::Ints(vec![figure_id; best.len()]),
                    Column::Ints(best.keys().copied().collect()),
                    Column::Reals(best.values().map(|best| best.0).collect()),
                    Column::Ints(best.values().map(|best| best.1).collect()),
                ],
            )?;
        }
        let group =
            |rows: Vec<crate::database::Row>| rows.iter().map(|row| (row.int(0), row.int(1))).collect();
        let of_key = group(connection.query("SELECT key_id, COUNT(*) FROM results GROUP BY key_id", &[])?);
        let of_device =
            group(connection.query("SELECT device_id, COUNT(*) FROM results GROUP BY device_id", &[])?);
        count(connection, &of_key, &of_device)?;
        connection.commit()
    }
}
