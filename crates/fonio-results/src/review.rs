//! Implements `fonio-results review`: lists the results that wait for review, shows their documents, and writes the
//! operator's decisions.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use fonio_storebench_document::document::JSON_BYTES_MAX;
use jiff::Timestamp;

use crate::compression;
use crate::database::{DatabaseError, Location};
use crate::store::book::Book;
use crate::store::{Summaries, Verdict, decisions, held, read};
use crate::texts::Accepted;

/// Maximum number of results that the list shows.
const LIST_MAX: i64 = 1000;

/// How long the command waits until the running service has carried out a decision.
const WAIT: Duration = Duration::from_secs(15);

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The decision was carried out.
    Done,
    /// The service is running, but has not carried out the decision yet.
    Pending,
    /// No result with this id can be decided on in this way.
    Unknown,
}

/// Prints the results that wait for review, the oldest first: for each result the id, the day of receipt, and the
/// unknown texts.
pub fn list(location: &Location, out: &mut dyn Write) -> Result<(), ReviewError> {
    let waiting = held::waiting(location.open_reader()?.as_mut(), LIST_MAX)?;
    for result in &waiting {
        let day = Timestamp::from_second(result.received_at).unwrap_or_default().strftime("%Y-%m-%d");
        writeln!(out, "{}  {day}", result.id)?;
        for text in &result.texts {
            writeln!(out, "    {}: `{}`", text.field, text.text.escape_debug())?;
        }
    }
    match waiting.len() {
        0 => writeln!(out, "No result waits for review.")?,
        count if count as i64 == LIST_MAX => writeln!(out, "The oldest {count} results are listed.")?,
        _ => {}
    }
    Ok(())
}

/// Prints the document of a result that waits for review. Returns false if there is none with this id.
pub fn show(location: &Location, id: &str, out: &mut dyn Write) -> Result<bool, ReviewError> {
    let Some(result) = held::find(location.open_reader()?.as_mut(), id)? else { return Ok(false) };
    let json =
        compression::decompress(&result.document, JSON_BYTES_MAX).expect("the service stored the document");
    let document: serde_json::Value = serde_json::from_slice(&json).expect("the service stored the document");
    writeln!(out, "{document:#}")?;
    Ok(true)
}

/// Carries out a decision, or lets the running service carry it out.
pub fn decide(location: &Location, id: &str, verdict: Verdict) -> Result<Decided, ReviewError> {
    match location.open_writer() {
        Ok(mut connection) => {
            let connection = connection.as_mut();
            let mut book = Book::open(connection, Summaries::default(), Accepted::default())?;
            if !is_known(connection, id, verdict)? {
                return Ok(Decided::Unknown);
            }
            held::decide(connection, id, verdict)?;
            decisions::carry_out(&mut book, connection)?;
            connection.wipe()?;
            Ok(Decided::Done)
        }
        Err(DatabaseError::Taken { .. }) => {
            let mut connection = location.open_beside()?;
            let connection = connection.as_mut();
            if !is_known(connection, id, verdict)? {
                return Ok(Decided::Unknown);
            }
            held::decide(connection, id, verdict)?;
            let until = Instant::now() + WAIT;
            while held::undone(connection)? > 0 {
                if Instant::now() > until {
                    return Ok(Decided::Pending);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(Decided::Done)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a result with this id is in the state in which the decision applies.
fn is_known(
    connection: &mut dyn crate::database::Connection,
    id: &str,
    verdict: Verdict,
) -> Result<bool, DatabaseError> {
    Ok(match verdict {
        Verdict::Withhold => read::result(connection, id)?.is_some(),
        Verdict::Publish | Verdict::PublishOnce | Verdict::Reject => held::find(connection, id)?.is_some(),
    })
}

/// An error of `fonio-results review`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}
