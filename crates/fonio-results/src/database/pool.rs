//! A pool of reader threads that take queries from a bounded queue. Each thread has its own connection.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use super::{Connection, DatabaseError, Location};

/// Maximum number of queries that wait for a thread. If each query takes a millisecond, the last query in the
/// queue waits for a quarter of a second.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(Result<&mut dyn Connection, DatabaseError>) + Send>;

/// A pool of reader threads, each with its own connection.
#[derive(Clone)]
pub struct Pool {
    jobs: SyncSender<Job>,
}

impl Pool {
    /// Starts `threads` reader threads.
    pub fn start(location: &Location, threads: usize) -> Result<Pool, DatabaseError> {
        let (jobs, receiver) = sync_channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut first = Some(location.open_reader()?);
        for _ in 0..threads {
            let (location, receiver, connection) = (location.clone(), Arc::clone(&receiver), first.take());
            thread::Builder::new()
                .name("reader".into())
                .spawn(move || work(&location, &receiver, connection))
                .map_err(|source| DatabaseError::File { path: "a thread".into(), source })?;
        }
        Ok(Pool { jobs })
    }

    /// Runs a query on a reader thread. Fails with [`DatabaseError::Busy`] if too many queries wait, or with
    /// the query's own error.
    pub async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut dyn Connection) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Ignore the error, because sending the reply fails only if the client has closed its connection.
            let _ = reply.send(connection.and_then(query));
        });
        match self.jobs.try_send(job) {
            Ok(()) => answer.await.unwrap_or(Err(DatabaseError::Stopping)),
            Err(TrySendError::Full(_)) => Err(DatabaseError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(DatabaseError::Stopping),
        }
    }
}

fn work(location: &Location, jobs: &Mutex<Receiver<Job>>, mut connection: Option<Box<dyn Connection>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if connection.as_ref().is_none_or(|connection| connection.is_closed()) {
            match location.open_reader() {
                Ok(opened) => connection = Some(opened),
                Err(error) => {
                    job(Err(error));
                    continue;
                }
            }
        }
        if let Some(connection) = &mut connection {
            job(Ok(connection.as_mut()));
        }
    }
}
