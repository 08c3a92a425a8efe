//! Migrates the database schema to newer versions in numbered steps. Each step is committed together with its
//! number, in one transaction.

use fonio_storebench_document::document::JSON_BYTES_MAX;

use super::{Connection, DatabaseError};
use crate::compression;
use crate::store::content;

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
    /// Fills new columns with values that SQL cannot compute.
    fill: fn(&mut dyn Connection) -> Result<(), DatabaseError>,
}

/// All migration steps; the first step creates version 1 of the schema.
pub(super) const ALL: &[Step] = &[
    Step {
        sqlite: include_str!("migrations/0001.sqlite.sql"),
        postgres: include_str!("migrations/0001.postgres.sql"),
        fill: |_| Ok(()),
    },
    Step {
        sqlite: include_str!("migrations/0002.sqlite.sql"),
        postgres: include_str!("migrations/0002.postgres.sql"),
        fill: add_content_hashes,
    },
];

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
            (step.fill)(connection)?;
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

/// Number of results that are read at once.
const PIECE: i64 = 1000;

/// Adds the hashes of results that were stored by a version without hashes. Of equal results, only the first one
/// gets a hash; the others keep their places in the rankings.
fn add_content_hashes(connection: &mut dyn Connection) -> Result<(), DatabaseError> {
    let mut seq = 0;
    loop {
        let rows = connection.query(
            "SELECT seq, document FROM documents WHERE seq > $1 ORDER BY seq LIMIT $2",
            &[seq.into(), PIECE.into()],
        )?;
        let Some(last) = rows.last() else { return Ok(()) };
        seq = last.int(0);
        for row in &rows {
            let json = compression::decompress(row.bytes(1), JSON_BYTES_MAX)
                .expect("the service stored the document");
            let document = serde_json::from_slice(&json).expect("the service stored the document");
            let hash = content::hash(&document);
            connection.query(
                "UPDATE results SET content_hash = $1 WHERE seq = $2 \
                 AND NOT EXISTS (SELECT 1 FROM results other WHERE other.content_hash = $3)",
                &[hash.clone().into(), row.int(0).into(), hash.into()],
            )?;
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_storebench_document::sample;

    use super::*;
    use crate::database::sqlite;

    #[test]
    fn results_of_the_first_version_get_hashes_and_equal_ones_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = sqlite::open_writer(folder.path()).unwrap();
        let connection = connection.as_mut();
        apply(connection, Dialect::Sqlite, &ALL[..1]).unwrap();
        let documents = [sample::document(), sample::scaled(2.0), sample::document()];
        for (document, seq) in documents.iter().zip(1i64..) {
            let json = serde_json::to_vec(document).unwrap();
            connection
                .query(
                    "INSERT INTO results (seq, id, received_at, key_id, device_id, token_hash) VALUES ($1, $2, 0, 1, 1, $3)",
                    &[seq.into(), seq.to_string().as_str().into(), vec![0].into()],
                )
                .unwrap();
            connection
                .query(
                    "INSERT INTO documents (seq, document) VALUES ($1, $2)",
                    &[seq.into(), compression::compress(&json).into()],
                )
                .unwrap();
        }
        apply(connection, Dialect::Sqlite, ALL).unwrap();
        let rows =
            connection.query("SELECT COALESCE(content_hash, x'00') FROM results ORDER BY seq", &[]).unwrap();
        let expected = [content::hash(&documents[0]), content::hash(&documents[1]), vec![0]];
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row.bytes(0), &expected[..]);
        }
        assert_eq!(rows.len(), 3);
    }
}
