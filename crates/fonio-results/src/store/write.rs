//! The writer thread takes up to `BATCH_MAX` waiting submissions, writes them in one transaction, and replies
//! after the commit. Therefore, an acknowledged result is on disk. Because each batch needs only one sync,
//! thousands of submissions per second are possible.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::book::{Book, Outcome, Submitted};
use super::cache::Summaries;
use super::decisions;
use super::remove::{self, Deletion};
use crate::database::{Connection, DatabaseError, Location};
use crate::texts::Accepted;

/// The maximum number of submissions in a transaction. A submission has a few KiB, so a transaction writes a
/// few MiB.
const BATCH_MAX: usize = 512;

/// The maximum number of waiting submissions and deletions. [`crate::service::Service`] admits fewer submissions, so
/// a deletion always has room.
const QUEUE: usize = 1024;

/// The time between two looks for decisions of the operator, and for other work that can wait.
const CHORES_EVERY: Duration = Duration::from_secs(1);

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
    Store(Box<Submitted>, oneshot::Sender<Result<Outcome, Refusal>>),
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
        accepted: Accepted,
    ) -> Result<(Writer, JoinHandle<()>), DatabaseError> {
        let mut connection = location.open_writer()?;
        let book = Book::open(connection.as_mut(), summaries, accepted)?;
        let (commands, queue) = sync_channel(QUEUE);
        let location = location.clone();
        let thread = thread::Builder::new()
            .name("writer".into())
            .spawn(move || Thread::new(location, connection, book).work(&queue))
            .map_err(|source| DatabaseError::File { path: "a thread".into(), source })?;
        Ok((Writer { commands }, thread))
    }

    /// Stores a submission, and returns after its commit.
    pub async fn store(&self, submitted: Submitted) -> Result<Outcome, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Store(Box::new(submitted), reply))?;
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
    /// Whether copies of deleted rows may still be in the files of the database.
    must_wipe: bool,
    /// Whether space is reserved for deletions.
    has_reserve: bool,
    /// The time of the next chores.
    chores_at: Instant,
}

impl Thread {
    fn new(location: Location, connection: Box<dyn Connection>, book: Book) -> Thread {
        // A service that was killed may have deleted results without wiping their copies.
        let chores_at = Instant::now();
        Thread { location, connection, book, must_wipe: true, has_reserve: false, chores_at }
    }

    fn work(mut self, queue: &Receiver<Command>) {
        loop {
            if self.chores_at <= Instant::now() {
                self.do_chores();
                self.chores_at = Instant::now() + CHORES_EVERY;
            }
            match queue.recv_timeout(self.chores_at.saturating_duration_since(Instant::now())) {
                Ok(first) => {
                    let mut batch = vec![first];
                    batch.extend(queue.try_iter().take(BATCH_MAX - 1));
                    self.serve(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Carries out decisions of the operator, wipes deleted rows, and keeps space in reserve.
    fn do_chores(&mut self) {
        match self.attempt(decisions::carry_out) {
            Ok(decided) => self.must_wipe |= decided,
            // `attempt` has logged the reason.
            Err(_) => return,
        }
        if self.must_wipe {
            self.wipe();
        }
        self.keep_reserve();
    }

    fn wipe(&mut self) {
        let mut wiped = self.connection.wipe();
        // The checkpoint of the log can need space in the database before it frees the log.
        if matches!(wiped, Err(DatabaseError::Full)) && self.connection.use_reserve() {
            self.has_reserve = false;
            wiped = self.connection.wipe();
        }
        match wiped {
            Ok(done) => self.must_wipe = !done,
            Err(error) => eprintln!("fonio-results: cannot wipe deleted results, and tries again: {error}"),
        }
    }

    fn keep_reserve(&mut self) {
        self.has_reserve = match self.connection.keep_reserve() {
            Ok(has_reserve) => has_reserve,
            Err(error) => {
                eprintln!("fonio-results: cannot reserve space for deletions: {error}");
                false
            }
        };
    }

    fn serve(&mut self, batch: Vec<Command>) {
        let (mut submitted, mut replies) = (Vec::new(), Vec::new());
        let mut deletions = Vec::new();
        for command in batch {
            match command {
                Command::Store(one, reply) => {
                    submitted.push(*one);
                    replies.push(reply);
                }
                Command::Delete { id, token, reply } => deletions.push((id, token, reply)),
            }
        }
        // Delete first, because a deletion frees space.
        for (id, token, reply) in deletions {
            let _ = reply.send(self.delete(&id, &token));
        }
        if self.must_wipe {
            self.wipe();
            self.keep_reserve();
        }
        if !submitted.is_empty() {
            match self.store(submitted) {
                Ok(outcomes) => replies.into_iter().zip(outcomes).for_each(|(reply, outcome)| {
                    // The client may have disconnected.
                    let _ = reply.send(Ok(outcome));
                }),
                Err(refusal) => replies.into_iter().for_each(|reply| {
                    let _ = reply.send(Err(refusal));
                }),
            }
        }
    }

    fn store(&mut self, submitted: Vec<Submitted>) -> Result<Vec<Outcome>, Refusal> {
        // The last space of the disk is for deletions.
        if !self.has_reserve {
            return Err(Refusal::Full);
        }
        let now = now_unix_s();
        self.attempt(|book, connection| book.store(connection, submitted, now))
    }

    fn delete(&mut self, id: &str, token: &str) -> Result<Deletion, Refusal> {
        let mut outcome = self.attempt(|book, connection| remove::delete(book, connection, id, token));
        if outcome == Err(Refusal::Full) && self.connection.use_reserve() {
            self.has_reserve = false;
            outcome = self.attempt(|book, connection| remove::delete(book, connection, id, token));
            // Also after a failure, copy the log into the database, so that the reserve can be made again.
            self.must_wipe = true;
        }
        self.must_wipe |= outcome == Ok(Deletion::Deleted);
        outcome
    }

    fn attempt<T>(
        &mut self,
        run: impl FnOnce(&mut Book, &mut dyn Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, Refusal> {
        if self.connection.is_closed() {
            let reopened = self.location.open_writer().and_then(|mut connection| {
                let (summaries, accepted) = (self.book.summaries.clone(), self.book.accepted.clone());
                self.book = Book::open(connection.as_mut(), summaries, accepted)?;
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
