//! Executes steps on databases. Opens databases with the settings of the workload and the fix, and reads
//! every setting back to verify it.

use std::time::Duration;

use fonio_core::Random;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::worker::Worker;
use super::{Runner, lock};
use crate::confined::confine;
use crate::content::{Content, words};
use crate::definition::{Param, spelled};
use crate::error::WorkloadError;
use crate::scale::scaled;

/// Maximum time that a thread waits for a lock held by another thread.
const BUSY: Duration = Duration::from_secs(30);

/// Size of the prepared-statement cache; more than any workload needs per database.
const STATEMENTS_KEPT: usize = 64;

fn failed<'a>(
    runner: &'a Runner,
    name: &'a str,
    operation: &'a str,
) -> impl FnOnce(rusqlite::Error) -> WorkloadError + 'a {
    move |source| WorkloadError::Sqlite {
        database: name.to_owned(),
        path: runner.database_path(name).unwrap_or_default(),
        operation: operation.split_whitespace().collect::<Vec<_>>().join(" "),
        source,
    }
}

pub(super) fn create(runner: &Runner, name: &str) -> Result<(), WorkloadError> {
    let connection = open(runner, name)?;
    let made = connection.execute_batch(&runner.workload.databases[name].schema);
    made.map_err(failed(runner, name, "create its tables"))?;
    close(runner, name, connection)
}

fn open(runner: &Runner, name: &str) -> Result<Connection, WorkloadError> {
    let database = &runner.workload.databases[name];
    let overrides = &runner.options.overrides;
    let path = runner.database_path(name).expect("the workload has this database");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(&path, flags).map_err(failed(runner, name, "open it"))?;
    confine(&mut connection).map_err(failed(runner, name, "limit its statements"))?;
    connection.busy_timeout(BUSY).map_err(failed(runner, name, "set a timeout"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);

    let setting = |pragma: &'static str, wanted: String, expected: &str| {
        let set = connection.pragma_update_and_check(None, pragma, &wanted, |row| row.get(0));
        let got = match set {
            // Some pragmas return their value only when they are queried.
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                connection.pragma_query_value(None, pragma, |row| row.get(0))
            }
            set => set,
        };
        let got = got.map_err(failed(runner, name, pragma))?;
        let got = match got {
            Value::Text(text) => text,
            Value::Integer(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        if got != expected {
            return Err(WorkloadError::Pragma { database: name.to_owned(), pragma, wanted, got });
        }
        Ok(())
    };
    setting("page_size", database.page_size.to_string(), &database.page_size.to_string())?;
    let journal = overrides.database(name, |database| database.journal).unwrap_or(database.journal);
    setting("journal_mode", journal.pragma().to_owned(), journal.pragma())?;
    let synchronous = overrides.synchronous(name, database.synchronous);
    setting("synchronous", synchronous.pragma().to_owned(), &synchronous.number().to_string())?;
    if let Some(pages) =
        overrides.database(name, |database| database.autocheckpoint).or(database.autocheckpoint)
    {
        setting("wal_autocheckpoint", pages.to_string(), &pages.to_string())?;
    }
    if let Some(limit) = database.journal_size_limit {
        setting("journal_size_limit", limit.0.to_string(), &limit.0.to_string())?;
    }
    Ok(connection)
}

/// Closes a database. On closing, SQLite checkpoints the write-ahead log; the time of this checkpoint is part
/// of the run time.
pub(super) fn close(runner: &Runner, name: &str, connection: Connection) -> Result<(), WorkloadError> {
    connection.close().map_err(|(_, source)| failed(runner, name, "close it")(source))
}

pub(super) fn verify(runner: &Runner, name: &str) -> Result<(), WorkloadError> {
    let connection = open(runner, name)?;
    let found: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(failed(runner, name, "check it"))?;
    if found != "ok" {
        let path = runner.database_path(name).unwrap_or_default();
        return Err(WorkloadError::Damaged { database: name.to_owned(), path, found });
    }
    close(runner, name, connection)
}

fn connect(worker: &mut Worker<'_, '_>, name: &str) -> Result<(), WorkloadError> {
    if !worker.connections.contains_key(name) {
        let connection = open(worker.shared.runner, name)?;
        worker.connections.insert(name.to_owned(), connection);
    }
    Ok(())
}

pub(super) fn begin(worker: &mut Worker<'_, '_>, name: &str) -> Result<(), WorkloadError> {
    connect(worker, name)?;
    let runner = worker.shared.runner;
    let begun = worker.connections[name].execute_batch("BEGIN IMMEDIATE");
    begun.map_err(failed(runner, name, "begin a transaction"))
}

pub(super) fn commit(worker: &mut Worker<'_, '_>, name: &str) -> Result<(), WorkloadError> {
    let runner = worker.shared.runner;
    worker.connections[name].execute_batch("COMMIT").map_err(failed(runner, name, "commit"))?;
    worker.amounts.transactions += 1;
    Ok(())
}

pub(super) fn statements(
    worker: &mut Worker<'_, '_>,
    name: &str,
    statement: &str,
    params: &[Param],
    count: u64,
    batch: Option<u64>,
) -> Result<(), WorkloadError> {
    connect(worker, name)?;
    let Some(batch) = batch else {
        return worker.each(count, |worker| one(worker, name, statement, params));
    };
    let mut left = count;
    while left > 0 {
        let now = left.min(batch);
        begin(worker, name)?;
        // The time of the commit is part of the time of the batch's last statement.
        worker.each(now - 1, |worker| one(worker, name, statement, params))?;
        worker.each(1, |worker| {
            one(worker, name, statement, params)?;
            commit(worker, name)
        })?;
        left -= now;
    }
    Ok(())
}

fn one(worker: &mut Worker<'_, '_>, name: &str, text: &str, params: &[Param]) -> Result<(), WorkloadError> {
    let runner = worker.shared.runner;
    let values: Vec<Value> = params.iter().map(|param| value(runner, &mut worker.random, param)).collect();
    for value in &values {
        worker.amounts.sql_bytes_bound += match value {
            Value::Text(text) => text.len() as u64,
            Value::Blob(bytes) => bytes.len() as u64,
            _ => 0,
        };
    }
    let connection = &worker.connections[name];
    let run = || {
        let mut statement = connection.prepare_cached(text)?;
        let writes = !statement.readonly() && connection.is_autocommit();
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(values.iter()))?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            // Request every value, as apps do: SQLite reads a long value only when it is requested.
            for column in 0..columns {
                std::hint::black_box(row.get_ref(column)?);
            }
            seen += 1;
        }
        Ok((writes, seen))
    };
    let (writes, seen) = run().map_err(failed(runner, name, text))?;
    worker.amounts.statements += 1;
    worker.amounts.rows_read += seen;
    worker.amounts.transactions += u64::from(writes);
    Ok(())
}

fn value(runner: &Runner, random: &mut Random, param: &Param) -> Value {
    match param {
        Param::Next(name) => {
            let mut counters = lock(&runner.counters);
            let counter = counters.entry(name.clone()).or_insert(0);
            *counter += 1;
            Value::Integer(*counter as i64)
        }
        Param::Last(name) => Value::Integer(counter(runner, name) as i64),
        Param::Pick(name) => Value::Integer(random.between(1, counter(runner, name).max(1)) as i64),
        Param::Int(low, high) => Value::Integer(low + random.between(0, high.abs_diff(*low)) as i64),
        Param::Real(low, high) => {
            let thousandths = random.between(0, high.abs_diff(*low).saturating_mul(1000));
            Value::Real(*low as f64 + thousandths as f64 / 1000.0)
        }
        Param::Text(sizes) => {
            let bytes = sizes.draw(random);
            Value::Text(words(random, bytes as usize))
        }
        Param::Blob(sizes) => {
            let bytes = sizes.draw(random);
            Value::Blob(Content::Random.bytes(random.next_u64(), bytes as usize))
        }
        Param::Spelled(low, high) => Value::Text(spelled(random.between(*low as u64, *high as u64))),
        Param::Scaled(count) => Value::Integer(scaled(*count, runner.options.scale) as i64),
    }
}

fn counter(runner: &Runner, name: &str) -> u64 {
    lock(&runner.counters).get(name).copied().unwrap_or(0)
}
