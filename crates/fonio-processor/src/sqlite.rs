//! The SQLite test: statements on a table in memory, with an index, in small transactions.

use fonio_core::random::Random;
use rusqlite::Connection;

const ROWS: u64 = 20_000;
const STATEMENTS_PER_TRANSACTION: u64 = 20;

pub(crate) struct Sqlite {
    connection: Connection,
    random: Random,
}

impl Sqlite {
    pub(crate) fn new() -> Sqlite {
        let connection = Connection::open_in_memory().and_then(|connection| {
            connection.execute_batch(
                "CREATE TABLE notes (id INTEGER PRIMARY KEY, person INTEGER, text TEXT);
                 CREATE INDEX of_person ON notes (person);",
            )?;
            connection.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO notes SELECT i, i * 7919 % 1000, printf('%064d', i) FROM n",
                [ROWS as i64],
            )?;
            Ok(connection)
        });
        Sqlite { connection: connection.expect("SQLite works in memory"), random: Random::new(1) }
    }

    /// Executes one transaction and returns its number of statements.
    pub(crate) fn transaction(&mut self) -> u64 {
        self.run().expect("the statements are valid");
        STATEMENTS_PER_TRANSACTION
    }

    fn run(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut update =
                transaction.prepare_cached("UPDATE notes SET person = ?2, text = ?3 WHERE id = ?1")?;
            let mut select =
                transaction.prepare_cached("SELECT count(*), max(text) FROM notes WHERE person = ?1")?;
            for _ in 0..STATEMENTS_PER_TRANSACTION / 2 {
                let id = 1 + self.random.below(ROWS) as i64;
                let person = self.random.below(1000) as i64;
                update.execute((id, person, format!("{id:064}")))?;
                select.query_row([person], |row| row.get::<_, i64>(0))?;
            }
        }
        transaction.commit()
    }
}
