//! The writer thread takes up to `BATCH_MAX` waiting submissions, writes them in one transaction, and replies
//! after the commit. Therefore, an acknowledged result is on disk. Because each batch needs only one sync,
//! thousands of submissions per second are possible.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::book::{Book, Stored};
use super::cache::Summaries;
use super::remove::{self, Deletion};
use crate::database::{Connection, DatabaseError, Location};
use crate::entry::Entry;

/// The maximum number of submissions in a transaction. A submission has a few KiB, so a transaction writes a
/// few MiB.
const BATCH_MAX: usize = 512;

/// The maximum number of waiting submissions. The submissions need a few MiB, and are written within a
/// second.
const QUEUE: usize = 1024;

/// The reason why a submission or deletion was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many submissions are waiting to be written.
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

/// The queue of requests to the writer thread.
#[derive(Clone)]
pub struct Writer {
    commands: SyncSender<Command>,
}

impl Writer {
    /// Starts the writer thread. When all senders of its queue have been dropped, the thread writes the
    /// waiting submissions and ends.
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

    /// Stores a submission, and returns after its commit.
    pub async fn store(&self, entry: Entry) -> Result<Stored, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Store(Box::new(entry), reply))?;
        answer.await.unwrap_or(Err(Refusal::Stopping))
    }

    /// Deletes a result.
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
                    // The client may have disconnected.
                    let _ = reply.send(Ok(stored));
                }),
                Err(refusal) => replies.into_iter().for_each(|reply| {
                    let _ = reply.send(Err(refusal));
                }),
            }
        }
        for (id, token, reply) in deletions {
            let _ =
                reply.send(self.attempt(|book, connection| remove::delete(book, connection, &id, &token)));
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
