//! Limits the SQL of a workload to the workload's own database.
//!
//! A workload can come from a stranger, and often runs as root. Without a limit, `ATTACH` and `VACUUM INTO`
//! would write any file of the machine, already when the workload is checked.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Refuses statements that open another file. SQLite reports such a statement as "not authorized".
pub(crate) fn confine(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        // A plain VACUUM attaches a temporary database without a name.
        AuthAction::Attach { filename: "" } => Authorization::Allow,
        // SQLite does not know the name if it is an expression.
        AuthAction::Attach { .. } | AuthAction::Unknown { code: ATTACH, .. } => Authorization::Deny,
        // This setting moves temporary files to another folder.
        AuthAction::Pragma { pragma_name, .. }
            if pragma_name.eq_ignore_ascii_case("temp_store_directory") =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }))
}

/// The code of `ATTACH` in SQLite's authorizer.
const ATTACH: i32 = rusqlite::ffi::SQLITE_ATTACH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_cannot_write_other_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = folder.path().join("own.db");
        let mut connection = Connection::open(&own).expect("a new database");
        confine(&mut connection).expect("SQLite accepts an authorizer");
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1); VACUUM").expect("allowed");
        let other = folder.path().join("other").display().to_string();
        let (first, last) = other.split_at(3);
        for statement in [
            format!("ATTACH '{other}' AS x"),
            format!("/* a comment */ ATTACH DATABASE '{other}' AS x"),
            format!("ATTACH '{first}' || '{last}' AS x"),
            format!("ATTACH 'file:{other}' AS x"),
            format!("VACUUM INTO '{other}'"),
            format!("VACUUM INTO '{first}' || '{last}'"),
            format!("PRAGMA temp_store_directory = '{}'", folder.path().display()),
            format!("SELECT load_extension('{other}')"),
        ] {
            let refused = connection.execute_batch(&statement);
            assert!(refused.is_err(), "{statement}");
        }
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["own.db"]);
    }
}
