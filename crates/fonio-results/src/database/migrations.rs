//! Migrates the database schema to newer versions in numbered steps. Each step is committed together with its
//! number, in one transaction.

use super::{Connection, DatabaseError};

/// The database for which SQL statements are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// A migration step: the SQL statements for each database. A published step never changes; every schema
/// change is a new step.
pub(super) struct Step {
    sqlite: &'static str,
    postgres: &'static str,
}

/// All migration steps; the first step creates version 1 of the schema.
pub(super) const ALL: &[Step] = &[Step {
    sqlite: include_str!("migrations/0001.sqlite.sql"),
    postgres: include_str!("migrations/0001.postgres.sql"),
}];

/// Applies the missing steps. Afterwards, the tables have the newest version.
pub(super) fn apply(
    connection: &mut dyn Connection,
    dialect: Dialect,
    steps: &[Step],
) -> Result<(), DatabaseError> {
    connection.script("CREATE TABLE IF NOT EXISTS tables_version (version BIGINT NOT NULL)")?;
    let found = connection.query("SELECT MAX(version) FROM tables_version HAVING COUNT(*) > 0", &[])?;
    let found = found.first().map_or(0, |row| row.int(0));
    let known = i64::try_from(steps.len()).expect("few steps");
    if found > known {
        return Err(DatabaseError::Newer { found, known });
    }
    for (step, version) in steps.iter().zip(1..).skip_while(|(_, version)| *version <= found) {
        connection.begin()?;
        let run = |connection: &mut dyn Connection| {
            connection.script(match dialect {
                Dialect::Sqlite => step.sqlite,
                Dialect::Postgres => step.postgres,
            })?;
            connection.query("INSERT INTO tables_version (version) VALUES ($1)", &[version.into()])?;
            connection.commit()
        };
        if let Err(error) = run(connection) {
            connection.rollback();
            return Err(error);
        }
    }
    Ok(())
}
