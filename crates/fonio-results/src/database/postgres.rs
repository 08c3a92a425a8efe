//! Stores results in PostgreSQL, with one connection per thread. Connections are not encrypted, so the server
//! must run on this machine or behind a tunnel.

use std::collections::HashMap;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Statement};

use super::{Bulk, Column, Connection, DatabaseError, Location, Row, Value};

const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long the lock is awaited. A process that has ended keeps its lock until the server notices that its connection is gone.
const LOCK_WAIT: Duration = Duration::from_secs(3);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The number of the advisory lock that the owning process takes: the bytes of "fonio".
const LOCK: i64 = 0x66_6f_6e_69_6f;

struct Postgres {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

fn open(url: &str) -> Result<Postgres, DatabaseError> {
    let place = || Location::Server(url.to_owned()).shown();
    let unreachable =
        |error: postgres::Error| DatabaseError::Unreachable { place: place(), reason: with_cause(&error) };
    let mut config: postgres::Config = url.parse().map_err(unreachable)?;
    config.connect_timeout(CONNECT_WAIT).application_name("fonio-results");
    let client = config.connect(NoTls).map_err(unreachable)?;
    Ok(Postgres { client, statements: HashMap::new() })
}

/// Returns the driver's message for an error together with the cause of the error. The driver's message lacks
/// the cause.
pub(super) fn with_cause(error: &postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Opens a connection that only reads.
pub(super) fn open_reader(url: &str) -> Result<Box<dyn Connection>, DatabaseError> {
    let mut postgres = open(url)?;
    postgres.script("SET default_transaction_read_only = on; SET statement_timeout = '30s'")?;
    Ok(Box::new(postgres))
}

/// Opens a connection that can write, without the lock of the database.
pub(super) fn open_beside(url: &str) -> Result<Box<dyn Connection>, DatabaseError> {
    Ok(Box::new(open(url)?))
}

/// Locks the database for this process, and opens it for writing.
pub(super) fn open_writer(url: &str) -> Result<Box<dyn Connection>, DatabaseError> {
    let mut postgres = open(url)?;
    postgres.script("SET synchronous_commit = on")?;
    let until = Instant::now() + LOCK_WAIT;
    loop {
        let rows = postgres.query("SELECT CAST(pg_try_advisory_lock($1) AS INT)::BIGINT", &[LOCK.into()])?;
        if rows[0].int(0) == 1 {
            return Ok(Box::new(postgres));
        }
        if Instant::now() >= until {
            return Err(DatabaseError::Taken { place: Location::Server(url.to_owned()).shown() });
        }
        thread::sleep(LOCK_PAUSE);
    }
}

fn explain(error: postgres::Error) -> DatabaseError {
    if error.code() == Some(&SqlState::DISK_FULL) {
        DatabaseError::Full
    } else {
        DatabaseError::Postgres(error)
    }
}

impl Postgres {
    fn statement(&mut self, sql: &'static str) -> Result<Statement, DatabaseError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).map_err(explain)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl ToSql for Value {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => number.to_sql_checked(of, out),
            Value::Real(number) => number.to_sql_checked(of, out),
            Value::Text(text) => text.to_sql_checked(of, out),
            Value::Bytes(bytes) => bytes.to_sql_checked(of, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Accept any type here, because the type is checked when a value is converted.
        true
    }

    to_sql_checked!();
}

fn row(from: &postgres::Row) -> Result<Row, postgres::Error> {
    let value = |at: usize| {
        Ok(match *from.columns()[at].type_() {
            Type::INT8 => from.try_get::<_, Option<i64>>(at)?.map(Value::Int),
            Type::FLOAT8 => from.try_get::<_, Option<f64>>(at)?.map(Value::Real),
            Type::BYTEA => from.try_get::<_, Option<Vec<u8>>>(at)?.map(Value::Bytes),
            // If the column has another type, the driver returns an error.
            _ => from.try_get::<_, Option<String>>(at)?.map(Value::Text),
        }
        .unwrap_or(Value::Null))
    };
    (0..from.len()).map(value).collect::<Result<_, _>>().map(Row)
}

impl Connection for Postgres {
    fn query(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let statement = self.statement(sql)?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.client.query(&statement, &values).map_err(explain)?;
        rows.iter().map(|from| row(from).map_err(explain)).collect()
    }

    fn bulk(&mut self, sql: Bulk, columns: &[Column]) -> Result<(), DatabaseError> {
        if columns.first().is_none_or(|column| column.len() == 0) {
            return Ok(());
        }
        let statement = self.statement(sql.postgres)?;
        let arrays: Vec<&(dyn ToSql + Sync)> = columns
            .iter()
            .map(|column| match column {
                Column::Ints(values) => values as _,
                Column::Reals(values) => values as _,
                Column::Texts(values) => values as _,
                Column::Bytes(values) => values as _,
            })
            .collect();
        self.client.execute(&statement, &arrays).map_err(explain)?;
        Ok(())
    }

    fn script(&mut self, sql: &'static str) -> Result<(), DatabaseError> {
        self.client.batch_execute(sql).map_err(explain)
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.script("BEGIN")
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.script("COMMIT")
    }

    fn rollback(&mut self) {
        if !self.client.is_closed() {
            // Outside a transaction, the server only prints a warning. If the rollback fails, the connection
            // is closed.
            let _ = self.client.batch_execute("ROLLBACK");
        }
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}
