//! Recognises database engines by their files, and knows each engine's own setting for fewer syncs.
//!
//! A setting of one engine must never be advised for a file of another engine. So a file counts as an engine's
//! only if its first bytes say so, or if its name and the names next to it can belong to no other engine.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    PostgreSql,
    /// MariaDB or MySQL, with InnoDB.
    MariaDb,
    /// Redis or Valkey.
    Redis,
    /// LevelDB or RocksDB.
    LevelDb,
    /// LMDB.
    Lmdb,
    /// bbolt, a database for Go programs.
    Bbolt,
}

/// Number of bytes at the beginning of a file that [`Engine::of_file`] needs.
const HEAD_BYTES: usize = 32;

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 7] = [
        Engine::Sqlite,
        Engine::PostgreSql,
        Engine::MariaDb,
        Engine::Redis,
        Engine::LevelDb,
        Engine::Lmdb,
        Engine::Bbolt,
    ];

    /// Returns the engine that the file at `path` belongs to. `readable` is the path at which this process can
    /// read it. Returns `None` for other files and for files that cannot be read.
    pub fn at(path: &Path, readable: &Path) -> Option<Engine> {
        let mut head = Vec::new();
        File::open(readable).ok()?.take(HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
        let has_sibling =
            |name: &str| path.with_file_name(name).exists() || readable.with_file_name(name).exists();
        Engine::of_file(&path.to_string_lossy(), &head, &has_sibling)
    }

    /// Returns the engine that a file belongs to. `head` is the beginning of the file, with [`HEAD_BYTES`] bytes
    /// or the complete file; `has_sibling` tells whether the file's folder has a file of this name.
    fn of_file(path: &str, head: &[u8], has_sibling: &dyn Fn(&str) -> bool) -> Option<Engine> {
        let at = |from: usize, bytes: &[u8]| head.get(from..).is_some_and(|rest| rest.starts_with(bytes));
        let is_sqlite = at(0, b"SQLite format 3\0")
            // A rollback journal, and a write-ahead log in both byte orders.
            || at(0, &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
            || at(0, &[0x37, 0x7f, 0x06, 0x82])
            || at(0, &[0x37, 0x7f, 0x06, 0x83]);
        // The first page of both engines begins with a page header of 16 bytes; their magic numbers follow.
        let is_lmdb = at(16, &0xbeef_c0de_u32.to_le_bytes());
        let is_bbolt = at(16, &0xed0c_daed_u32.to_le_bytes());
        if is_sqlite {
            return Some(Engine::Sqlite);
        }
        if is_lmdb {
            return Some(Engine::Lmdb);
        }
        if is_bbolt {
            return Some(Engine::Bbolt);
        }
        if at(0, b"REDIS") {
            return Some(Engine::Redis);
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_number =
            |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_segment = name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let in_folder = |names: &[&str]| names.iter().any(|own| folder.rsplit('/').next() == Some(own));
        if (is_segment && in_folder(&["pg_wal", "pg_xlog"]))
            || (name == "pg_control" && in_folder(&["global"]))
        {
            return Some(Engine::PostgreSql);
        }
        let is_log = name
            .strip_prefix("ib_logfile")
            .is_some_and(|number| is_number(number, 1) || is_number(number, 3));
        if is_log || in_folder(&["#innodb_redo"]) || (name == "ibdata1" && has_sibling("ib_logfile0")) {
            return Some(Engine::MariaDb);
        }
        if name == "appendonly.aof" || (in_folder(&["appendonlydir"]) && name.contains(".aof")) {
            return Some(Engine::Redis);
        }
        let is_table = [".log", ".ldb", ".sst"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(|number| is_number(number, 6)));
        let is_manifest = name.strip_prefix("MANIFEST-").is_some_and(|number| is_number(number, 6));
        if (is_table || is_manifest) && has_sibling("CURRENT") {
            return Some(Engine::LevelDb);
        }
        None
    }

    /// Returns the engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "SQLite",
            Engine::PostgreSql => "PostgreSQL",
            Engine::MariaDb => "MariaDB or MySQL",
            Engine::Redis => "Redis",
            Engine::LevelDb => "LevelDB or RocksDB",
            Engine::Lmdb => "LMDB",
            Engine::Bbolt => "bbolt",
        }
    }

    /// Returns a sentence on the engine's own setting for fewer syncs, and on what a power cut can lose with it.
    pub fn setting(self) -> &'static str {
        match self {
            Engine::Sqlite => {
                "`fonio fix prove wal-full --database FILE -- CMD` measures a write-ahead log, with which a power cut \
                 loses no more than without it."
            }
            Engine::PostgreSql => {
                "Set `synchronous_commit = off` for transactions, roles or databases whose last commits may be lost: a \
                 power cut loses up to three times `wal_writer_delay` of them (0.6 s by default), and damages nothing. \
                 Never set `fsync = off`, which can damage everything."
            }
            Engine::MariaDb => {
                "Set `innodb_flush_log_at_trx_commit = 2`, and `sync_binlog = 0` if there is a binary log: a power cut \
                 can lose about the last second of commits, and damages nothing."
            }
            Engine::Redis => {
                "Set `appendfsync everysec`, if it is `always` now: a power cut can lose about the last second of writes."
            }
            Engine::LevelDb => {
                "Write several changes in one WriteBatch, which loses nothing; or write without `sync`, with which a \
                 power cut can lose the last writes."
            }
            Engine::Lmdb => {
                "Put several changes into one write transaction, which loses nothing; or open it with `MDB_NOMETASYNC`, \
                 with which a power cut can lose the last transaction. `MDB_NOSYNC` can damage the database."
            }
            Engine::Bbolt => {
                "Use `DB.Batch` instead of `DB.Update`, which combines the commits of several goroutines and loses \
                 nothing; `NoFreelistSync` writes less. `NoSync` can damage the database in a power cut."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file: the path, the beginning, the other files of the folder, and the engine.
    type Case = (&'static str, &'static [u8], &'static [&'static str], Option<Engine>);

    const FILES: &[Case] = &[
        ("/a/notes.db", b"SQLite format 3\0\x10\0", &[], Some(Engine::Sqlite)),
        ("/a/notes.db-wal", &[0x37, 0x7f, 0x06, 0x82], &["notes.db"], Some(Engine::Sqlite)),
        ("/a/notes.db-journal", &[0xd9, 0xd5, 5, 0xf9, 0x20, 0xa1, 0x63, 0xd7], &[], Some(Engine::Sqlite)),
        ("/var/lib/postgresql/15/main/pg_wal/00000001000000000000000A", b"", &[], Some(Engine::PostgreSql)),
        ("/var/lib/postgresql/15/main/global/pg_control", b"", &[], Some(Engine::PostgreSql)),
        ("/srv/pg_wal/notes", b"", &[], None),
        ("/var/lib/mysql/ib_logfile0", b"", &["ibdata1"], Some(Engine::MariaDb)),
        ("/var/lib/mysql/#innodb_redo/#ib_redo12", b"", &[], Some(Engine::MariaDb)),
        ("/var/lib/mysql/ibdata1", b"", &["ib_logfile0"], Some(Engine::MariaDb)),
        ("/srv/ibdata1", b"", &[], None),
        ("/data/appendonly.aof", b"*2\r\n", &[], Some(Engine::Redis)),
        ("/data/appendonlydir/appendonly.aof.1.incr.aof", b"*2\r\n", &[], Some(Engine::Redis)),
        ("/data/dump.rdb", b"REDIS0011", &[], Some(Engine::Redis)),
        ("/chain/000012.log", b"", &["CURRENT", "MANIFEST-000002"], Some(Engine::LevelDb)),
        ("/chain/MANIFEST-000002", b"", &["CURRENT"], Some(Engine::LevelDb)),
        ("/logs/000012.log", b"", &[], None),
        (
            "/index/data.mdb",
            b"\0\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\xde\xc0\xef\xbe",
            &["lock.mdb"],
            Some(Engine::Lmdb),
        ),
        ("/access/data.mdb", b"\0\x01\0\0Standard Jet DB\0", &[], None),
        (
            "/etcd/member/snap/db",
            b"\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\xed\xda\x0c\xed",
            &[],
            Some(Engine::Bbolt),
        ),
        ("/home/u/notes.db", b"hello", &[], None),
    ];

    #[test]
    fn files_belong_to_their_engine() {
        for (path, head, siblings, expected) in FILES {
            let found = Engine::of_file(path, head, &|name| siblings.contains(&name));
            assert_eq!(found, *expected, "{path}");
        }
        for engine in Engine::ALL {
            assert!(FILES.iter().any(|(.., of)| *of == Some(engine)), "{engine:?} has no file");
        }
    }

    /// Words that belong to one engine only.
    const OWN: [(Engine, &[&str]); 7] = [
        (Engine::Sqlite, &["wal-full", "PRAGMA"]),
        (Engine::PostgreSql, &["synchronous_commit", "wal_writer_delay"]),
        (Engine::MariaDb, &["innodb_flush_log_at_trx_commit", "sync_binlog"]),
        (Engine::Redis, &["appendfsync"]),
        (Engine::LevelDb, &["WriteBatch"]),
        (Engine::Lmdb, &["MDB_"]),
        (Engine::Bbolt, &["DB.Batch", "NoFreelistSync"]),
    ];

    #[test]
    fn no_file_gets_the_setting_of_another_engine() {
        for (path, head, siblings, _) in FILES {
            let Some(engine) = Engine::of_file(path, head, &|name| siblings.contains(&name)) else {
                continue;
            };
            for (other, words) in OWN {
                let has = words.iter().any(|word| engine.setting().contains(word));
                assert_eq!(has, other == engine, "{path}: {} in the setting of {engine:?}", words.join(", "));
            }
        }
    }
}
