//! The thread that writes. It takes everything that waits, up to `BATCH_MAX`, writes it in one transaction, and answers after
//! the commit: an acknowledged result is on disk. One sync serves a complete batch, so thousands of
//! submissions a second are possible.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::bins::Scored;
use super::cache::{Scope, Summaries};
use super::{read, remove};
use crate::database::{Bulk, Column, Connection, DatabaseError, Location};
use crate::entry::{DeviceRevision, Entry, Key};
use crate::{figures, token};

/// The maximum number of submissions in a transaction. At a few KiB each, a transaction has a few MiB.
const BATCH_MAX: usize = 512;

/// The maximum number of waiting submissions. They hold a few MiB, and are written within a second.
const QUEUE: usize = 1024;

/// Known keys and devices beyond this number are forgotten, and read from the database again.
const KNOWN_MAX: usize = 10_000;

/// A stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The public id.
    pub id: String,
    /// The secret with which the result can be deleted.
    pub delete_token: String,
}

/// The end of an attempt to delete a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted.
    Deleted,
    /// The token is not that of the result.
    WrongToken,
    /// No result has this name.
    Unknown,
}

/// The reason why something was not written, for each waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many submissions wait.
    Busy,
    /// The disk is full.
    Full,
    /// The service is stopping.
    Stopping,
    /// The database failed; the service's log has the details.
    Failed,
}

enum Command {
    Store(Box<Entry>, oneshot::Sender<Result<Stored, Refusal>>),
    Delete { id: String, token: String, reply: oneshot::Sender<Result<Deletion, Refusal>> },
}

/// The queue of the thread that writes.
#[derive(Clone)]
pub struct Writer {
    commands: SyncSender<Command>,
}

impl Writer {
    /// Starts the thread. It ends when all its queues are dropped, after it has written what waited.
    ///
    /// # Errors
    ///
    /// As [`Location::open_writer`].
    pub fn start(
        location: &Location,
        summaries: Summaries,
    ) -> Result<(Writer, JoinHandle<()>), DatabaseError> {
        let mut connection = location.open_writer()?;
        let book = Book::open(connection.as_mut(), summaries)?;
        let (commands, queue) = sync_channel(QUEUE);
        let location = location.clone();
        let thread = thread::Builder::new()
            .name("writer".into())
            .spawn(move || Thread { location, connection, book }.work(&queue))
            .map_err(|source| DatabaseError::File { path: "a thread".into(), source })?;
        Ok((Writer { commands }, thread))
    }

    /// Stores a submission.
    ///
    /// # Errors
    ///
    /// The reason why nothing was stored.
    pub async fn store(&self, entry: Entry) -> Result<Stored, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Store(Box::new(entry), reply))?;
        answer.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Deletes a result.
    ///
    /// # Errors
    ///
    /// The reason why nothing was deleted.
    pub async fn delete(&self, id: String, token: String) -> Result<Deletion, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Delete { id, token, reply })?;
        answer.await.unwrap_or(Err(Refusal::Stopping))
    }

    fn send(&self, command: Command) -> Result<(), Refusal> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Busy,
            TrySendError::Disconnected(_) => Refusal::Stopping,
        })
    }
}

struct Thread {
    location: Location,
    connection: Box<dyn Connection>,
    book: Book,
}

impl Thread {
    fn work(mut self, queue: &Receiver<Command>) {
        while let Ok(first) = queue.recv() {
            let mut batch = vec![first];
            batch.extend(queue.try_iter().take(BATCH_MAX - 1));
            self.serve(batch);
        }
    }

    fn serve(&mut self, batch: Vec<Command>) {
        let (mut entries, mut replies) = (Vec::new(), Vec::new());
        let mut deletions = Vec::new();
        for command in batch {
            match command {
                Command::Store(entry, reply) => {
                    entries.push(*entry);
                    replies.push(reply);
                }
                Command::Delete { id, token, reply } => deletions.push((id, token, reply)),
            }
        }
        if !entries.is_empty() {
            let now = now_unix_s();
            match self.attempt(|book, connection| book.store(connection, &entries, now)) {
                Ok(stored) => replies.into_iter().zip(stored).for_each(|(reply, stored)| {
                    // The client may have gone.
                    let _ = reply.send(Ok(stored));
                }),
                Err(refusal) => replies.into_iter().for_each(|reply| {
                    let _ = reply.send(Err(refusal));
                }),
            }
        }
        for (id, token, reply) in deletions {
            let _ = reply.send(self.attempt(|book, connection| book.delete(connection, &id, &token)));
        }
    }

    fn attempt<T>(
        &mut self,
        run: impl FnOnce(&mut Book, &mut dyn Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, Refusal> {
        if self.connection.is_closed() {
            let reopened = self.location.open_writer().and_then(|mut connection| {
                self.book = Book::open(connection.as_mut(), self.book.summaries.clone())?;
                Ok(connection)
            });
            match reopened {
                Ok(connection) => self.connection = connection,
                Err(error) => return Err(refuse(&error)),
            }
        }
        run(&mut self.book, self.connection.as_mut()).map_err(|error| refuse(&error))
    }
}

fn refuse(error: &DatabaseError) -> Refusal {
    eprintln!("fonio-results: nothing was written: {error}");
    match error {
        DatabaseError::Full => Refusal::Full,
        _ => Refusal::Failed,
    }
}

fn now_unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).expect("a year")
}

/// Changes of bins by a transaction.
pub(super) type Changes = BTreeMap<(Scope, i64), i64>;

/// The state of the thread that writes, and its transactions.
pub struct Book {
    pub(super) summaries: Summaries,
    figure_ids: Vec<i64>,
    next_seq: i64,
    keys: HashMap<String, i64>,
    devices: HashMap<DeviceRevision, i64>,
}

pub(super) const ADD_RESULTS: Bulk = Bulk {
    sqlite: "INSERT INTO results (seq, id, received_at, key_id, device_id, token_hash, hidden_reason) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
    postgres: "INSERT INTO results (seq, id, received_at, key_id, device_id, token_hash, hidden_reason) \
               SELECT * FROM UNNEST($1::BIGINT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BYTEA[], \
               $7::TEXT[])",
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

/// A device keeps its best result, and of equal ones the first.
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
    /// Reads what the thread must know.
    ///
    /// # Errors
    ///
    /// As the database.
    pub fn open(connection: &mut dyn Connection, summaries: Summaries) -> Result<Book, DatabaseError> {
        for figure in figures::ranked() {
            connection.query(
                "INSERT INTO figures (figure_id, name) SELECT COALESCE(MAX(figure_id), 0) + 1, $1 FROM figures \
                 HAVING NOT EXISTS (SELECT 1 FROM figures WHERE name = $2)",
                &[figure.name.as_str().into(), figure.name.as_str().into()],
            )?;
        }
        let last = connection.query("SELECT COALESCE(MAX(seq), 0) FROM results", &[])?;
        Ok(Book {
            summaries,
            figure_ids: read::figure_ids(connection)?,
            next_seq: last[0].int(0) + 1,
            keys: HashMap::new(),
            devices: HashMap::new(),
        })
    }

    /// The database's number of a ranked figure.
    pub(super) fn figure_id(&self, figure: usize) -> i64 {
        self.figure_ids[figure]
    }

    /// Stores entries in one transaction.
    ///
    /// # Errors
    ///
    /// As the database; then nothing is stored.
    pub fn store(
        &mut self,
        connection: &mut dyn Connection,
        entries: &[Entry],
        now_unix_s: i64,
    ) -> Result<Vec<Stored>, DatabaseError> {
        let outcome =
            self.transact(connection, |book, connection| book.write(connection, entries, now_unix_s));
        match &outcome {
            Ok(_) => self.next_seq += i64::try_from(entries.len()).expect("a batch is small"),
            Err(_) => {
                // They may have been created in the transaction that is gone.
                self.keys.clear();
                self.devices.clear();
            }
        }
        outcome
    }

    /// Runs a transaction, and brings the summaries in memory up to date when it is committed.
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
                return Err(error);
            }
        };
        self.summaries.begin();
        let committed = connection.commit();
        if committed.is_err() {
            connection.rollback();
        }
        let applied = if committed.is_ok() { changes } else { Changes::new() };
        self.summaries.end(applied.iter().map(|((scope, bin), results)| (scope, *bin, *results)));
        committed.map(|()| value)
    }

    fn write(
        &mut self,
        connection: &mut dyn Connection,
        entries: &[Entry],
        now_unix_s: i64,
    ) -> Result<(Vec<Stored>, Changes), DatabaseError> {
        let stored: Vec<Stored> = entries
            .iter()
            .map(|_| Stored { id: token::new_id(), delete_token: token::new_token() })
            .collect();
        let (mut keys, mut devices) = (Vec::new(), Vec::new());
        for entry in entries {
            let (key_id, device_id) = self.ids(connection, entry)?;
            keys.push(key_id);
            devices.push(device_id);
        }
        let seqs: Vec<i64> = (self.next_seq..).take(entries.len()).collect();
        connection.bulk(
            ADD_RESULTS,
            &[
                Column::Ints(seqs.clone()),
                Column::Texts(stored.iter().map(|stored| Some(stored.id.clone())).collect()),
                Column::Ints(vec![now_unix_s; entries.len()]),
                Column::Ints(keys.clone()),
                Column::Ints(devices.clone()),
                Column::Bytes(stored.iter().map(|stored| token::hash(&stored.delete_token)).collect()),
                Column::Texts(entries.iter().map(|entry| entry.hidden_reason.clone()).collect()),
            ],
        )?;
        connection.bulk(
            ADD_DOCUMENTS,
            &[
                Column::Ints(seqs.clone()),
                Column::Bytes(entries.iter().map(|entry| entry.document.clone()).collect()),
            ],
        )?;
        let changes = self.rank(connection, entries, &keys, &devices, &seqs)?;
        Ok((stored, changes))
    }

    /// Adds the received entries to ranks, bins, best results and counts.
    fn rank(
        &mut self,
        connection: &mut dyn Connection,
        entries: &[Entry],
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
        // Neighbours in the table are written one after the other.
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

    /// The numbers of an entry's key and device, which are created if they are new.
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

    /// Deletes a result if the token is its own.
    ///
    /// # Errors
    ///
    /// As the database; then nothing is deleted.
    pub fn delete(
        &mut self,
        connection: &mut dyn Connection,
        id: &str,
        token: &str,
    ) -> Result<Deletion, DatabaseError> {
        self.transact(connection, |book, connection| remove::delete(book, connection, id, token))
    }
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

/// Changes the counts of keys and devices.
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
