//! Advice for programs whose own settings decide when they sync.
//!
//! A recording does not show settings, so each text names the setting that has to be checked.

use super::remedy::RemedyKind::{self, BiggerCache, LargerTransactions, Look, LowerDurability, SyncLess};
use crate::figures::facts::Facts;

/// The texts for one kind of program or file.
struct Advice {
    /// The names of the programs; empty if the file decides.
    programs: &'static [&'static str],
    /// Returns whether the texts concern the file with the given path, which is empty if the path is unknown.
    concerns: fn(&str) -> bool,
    /// Whether the texts apply only to waits that are mostly in fsync.
    is_about_fsync: bool,
    texts: &'static [(RemedyKind, &'static str)],
}

const ANY: Advice = Advice { programs: &[], concerns: |_| true, is_about_fsync: true, texts: &[] };

/// The first matching line applies.
const ADVICE: &[Advice] = &[
    Advice {
        programs: &["umount", "sync", "syncfs"],
        is_about_fsync: false,
        texts: &[(
            Look,
            "See which programs changed data before: this program writes everything that is dirty before it ends.",
        )],
        ..ANY
    },
    Advice {
        programs: &["postgres", "postmaster"],
        concerns: |path| path.contains("/pg_wal/") || path.contains("/pg_xlog/"),
        texts: &[
            (
                LowerDurability,
                "PostgreSQL: set `synchronous_commit = off` for transactions that may be lost in a power cut.",
            ),
            (LargerTransactions, "PostgreSQL: commit several changes in one transaction."),
        ],
        ..ANY
    },
    Advice {
        programs: &["postgres", "postmaster"],
        concerns: |path| path.contains("/base/") || path.contains("/global/"),
        texts: &[(
            SyncLess,
            "PostgreSQL: a checkpoint syncs these files; make checkpoints rarer and slower (`checkpoint_timeout`, \
             `max_wal_size`, `checkpoint_completion_target`).",
        )],
        ..ANY
    },
    Advice {
        programs: &["mariadbd", "mysqld"],
        concerns: |path| {
            ["ib_logfile", "#innodb_redo", "binlog", "-bin."].iter().any(|part| path.contains(part))
        },
        // InnoDB writes its log with O_DSYNC, if the file system allows it.
        is_about_fsync: false,
        texts: &[
            (
                LowerDurability,
                "MariaDB or MySQL: set `innodb_flush_log_at_trx_commit = 2` and `sync_binlog = 0`, if they are 1 now. \
                 A power cut may lose the last second.",
            ),
            (LargerTransactions, "MariaDB or MySQL: commit several changes in one transaction."),
        ],
    },
    Advice {
        programs: &["redis-server", "valkey-server"],
        concerns: |path| path.contains(".aof"),
        texts: &[(
            LowerDurability,
            "Redis: set `appendfsync everysec`, if it is `always` now. A power cut may lose the last second.",
        )],
        ..ANY
    },
    Advice {
        programs: &["dpkg", "dpkg-deb"],
        texts: &[(
            LowerDurability,
            "dpkg: `--force-unsafe-io` skips these syncs; this is suitable for an image that can be built again after a \
             power cut.",
        )],
        ..ANY
    },
    Advice {
        programs: &["rsyslogd"],
        concerns: |path| !path.is_empty(),
        texts: &[(LowerDurability, "rsyslog: set `sync=\"off\"` for this file, if it is on now.")],
        ..ANY
    },
    Advice {
        programs: &["syslog-ng"],
        concerns: |path| !path.is_empty(),
        texts: &[(LowerDurability, "syslog-ng: set `fsync(no)` for this destination, if it is on now.")],
        ..ANY
    },
    Advice {
        programs: &["systemd-journald", "systemd-journal"],
        // journald.conf(5): SyncIntervalSec= does not concern messages of these priorities.
        texts: &[(
            SyncLess,
            "journald: sync the log less often: `fonio fix apply journald-sync=30m`. Messages of the priorities crit, alert \
             and emerg are still synced at once; `journalctl -p crit` shows who sends them.",
        )],
        ..ANY
    },
    Advice {
        programs: &["syncthing"],
        // The setting concerns received files, not Syncthing's own database.
        concerns: |path| !path.is_empty() && !path.contains("/index-v"),
        texts: &[(
            LowerDurability,
            "Syncthing: set `disableFsync` in the folder's advanced settings; a power cut may then damage files that \
             were just received.",
        )],
        ..ANY
    },
    Advice {
        // The kernel keeps 15 bytes of a name.
        programs: &["victoria-metric", "victoria-metrics"],
        texts: &[(
            SyncLess,
            "VictoriaMetrics: raise `-inmemoryDataFlushInterval`, which is 5 s if it is not set; a power cut may lose the \
             measurements of this time.",
        )],
        ..ANY
    },
    Advice {
        programs: &["mosquitto"],
        texts: &[(
            SyncLess,
            "Mosquitto: raise `autosave_interval`, and set `autosave_on_changes false`, if it is true now. A power cut \
             may lose the messages since the last save.",
        )],
        ..ANY
    },
    Advice {
        programs: &["git"],
        texts: &[(
            LowerDurability,
            "git: set `core.fsyncMethod = batch`, or fewer parts in `core.fsync`, if git syncs each object now.",
        )],
        ..ANY
    },
    Advice {
        programs: &["influxd"],
        texts: &[(SyncLess, "InfluxDB: raise `wal-fsync-delay`, to 100 ms for example.")],
        ..ANY
    },
    Advice {
        programs: &["vim", "vim.basic", "vim.tiny"],
        texts: &[(
            LowerDurability,
            "vim: `:set nofsync swapsync=` leaves the moment of writing to the kernel, for texts and for swap files.",
        )],
        ..ANY
    },
    Advice {
        programs: &["nvim"],
        texts: &[(LowerDurability, "nvim: `:set nofsync` leaves the moment of writing to the kernel.")],
        ..ANY
    },
    Advice {
        concerns: |path| path.ends_with(".rrd"),
        is_about_fsync: false,
        texts: &[(BiggerCache, "RRDtool: let rrdcached collect the updates, and write them in groups.")],
        ..ANY
    },
    Advice {
        // Other programs, such as Microsoft Access, also use the ending.
        concerns: |path| name_of(path) == "data.mdb",
        texts: &[
            (LargerTransactions, "LMDB: put several changes into one write transaction."),
            (
                LowerDurability,
                "LMDB: open it with `MDB_NOMETASYNC`; a power cut can then lose the last transaction. `MDB_NOSYNC` can \
                 damage the database.",
            ),
        ],
        ..ANY
    },
    Advice {
        programs: &["etcd", "k3s", "k3s-server"],
        concerns: |path| path.ends_with("/member/snap/db"),
        texts: &[(
            SyncLess,
            "bbolt in etcd: raise `--backend-batch-interval` and `--backend-batch-limit`; nothing is lost, because etcd's \
             own log is synced first.",
        )],
        ..ANY
    },
    Advice {
        concerns: |path| has_digits(path, "", 6, ".log"),
        texts: &[
            (LargerTransactions, "LevelDB or RocksDB: write several changes in one WriteBatch."),
            (LowerDurability, "LevelDB or RocksDB: write without `sync` if the last changes may be lost."),
        ],
        ..ANY
    },
    Advice {
        concerns: |path| has_digits(path, "log.", 10, ""),
        texts: &[
            (LargerTransactions, "Berkeley DB: commit several changes in one transaction."),
            (LowerDurability, "Berkeley DB: set `DB_TXN_WRITE_NOSYNC` if the last changes may be lost."),
        ],
        ..ANY
    },
];

/// Returns the advice for the delayed program; empty if no line applies.
pub(super) fn for_program(facts: &Facts) -> &'static [(RemedyKind, &'static str)] {
    let Some(name) = facts.words.get("victim.program") else { return &[] };
    let is_in_fsync = facts.value("victim.fsync_share").is_some_and(|share| share >= 0.5);
    let file = facts.words.get("victim.file").map_or("", String::as_str);
    let applies = |advice: &&Advice| {
        let is_program = advice.programs.contains(&name.as_str());
        (is_program || advice.programs.is_empty())
            && (advice.concerns)(file)
            && (is_in_fsync || !advice.is_about_fsync)
    };
    ADVICE.iter().find(applies).map_or(&[], |advice| advice.texts)
}

/// Returns the name of the word with which rules insert a text of this kind.
pub(super) fn word(kind: RemedyKind) -> &'static str {
    match kind {
        LargerTransactions => "fix.program.larger-transactions",
        LowerDurability => "fix.program.lower-durability",
        SyncLess => "fix.program.sync-less",
        BiggerCache => "fix.program.bigger-cache",
        _ => "fix.program.look",
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns whether the name of a file has a number of digits between a beginning and an end, as LevelDB's log
/// `000012.log` has.
fn has_digits(path: &str, begin: &str, count: usize, end: &str) -> bool {
    let digits = name_of(path).strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    digits.is_some_and(|digits| digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_program_and_the_file() {
        let begin = |program: &str, file: &str| {
            let mut facts = Facts::default();
            facts.word("victim.program", program);
            facts.word("victim.file", file);
            facts.share("victim.fsync_share", "share", 0.9);
            for_program(&facts).first().and_then(|(_, text)| text.split([' ', ':']).next())
        };
        for (program, file, expected) in [
            ("postgres", "/var/lib/postgresql/15/main/pg_wal/000001", Some("PostgreSQL")),
            ("postgres", "/var/lib/postgresql/15/main/base/5/1259", Some("PostgreSQL")),
            ("postgres", "/x", None),
            ("postgres-backup", "/var/lib/postgresql/pg_wal/1", None),
            ("mariadbd", "/var/lib/mysql/ib_logfile0", Some("MariaDB")),
            ("redis-server", "/data/appendonlydir/appendonly.aof.1.incr.aof", Some("Redis")),
            ("redis-server", "/data/dump.rdb", None),
            ("dpkg", "/usr/bin/x.dpkg-new", Some("dpkg")),
            ("rsyslogd", "/var/log/syslog", Some("rsyslog")),
            ("chain", "/chain/db/000012.log", Some("LevelDB")),
            ("chain", "/chain/db/12.log", None),
            ("ldap", "/db/log.0000000003", Some("Berkeley")),
            ("embedder", "/index/data.mdb", Some("LMDB")),
            ("access", "/access/people.mdb", None),
            ("etcd", "/var/lib/etcd/member/snap/db", Some("bbolt")),
            ("umount", "", Some("See")),
            ("systemd-journal", "/var/log/journal/0/system.journal", Some("journald")),
            ("victoria-metric", "/data/metrics/data/small/2026_11/", Some("VictoriaMetrics")),
            ("syncthing", "/home/u/Sync/", Some("Syncthing")),
            ("syncthing", "/home/u/.config/syncthing/index-v0.14.0.db/000012.log", Some("LevelDB")),
            ("syncthing", "/home/u/.config/syncthing/index-v0.14.0.db/000012.ldb", None),
            ("vim", "/home/u/.notes.txt.swp", Some("vim")),
            ("nvim", "/home/u/notes.txt", Some("nvim")),
            ("python3", "/notes.db-journal", None),
        ] {
            assert_eq!(begin(program, file), expected, "{program} {file}");
        }
        // InnoDB waits in writes to its log, where PostgreSQL waits in fsync.
        for (program, file, expected) in [
            ("mariadbd", "/var/lib/mysql/ib_logfile0", true),
            ("mariadbd", "/var/lib/mysql/shop/item.ibd", false),
            ("postgres", "/var/lib/postgresql/15/main/pg_wal/00000001000000000000000A", false),
        ] {
            let mut facts = Facts::default();
            facts.word("victim.program", program);
            facts.word("victim.file", file);
            facts.share("victim.fsync_share", "share", 0.1);
            assert_eq!(!for_program(&facts).is_empty(), expected, "{program} {file}");
        }
        // Whatever the program, a file never gets the advice of another engine.
        let files = [
            ("PostgreSQL", "/var/lib/postgresql/15/main/pg_wal/00000001000000000000000A"),
            ("MariaDB", "/var/lib/mysql/ib_logfile0"),
            ("MariaDB", "/var/lib/mysql/#innodb_redo/#ib_redo7"),
            ("Redis", "/data/appendonlydir/appendonly.aof.1.incr.aof"),
            ("LevelDB", "/chain/db/000012.log"),
            ("LMDB", "/index/data.mdb"),
            ("bbolt", "/var/lib/etcd/member/snap/db"),
            ("Berkeley", "/db/log.0000000003"),
            ("SQLite", "/home/u/notes.db-wal"),
        ];
        let programs = ["postgres", "mariadbd", "mysqld", "redis-server", "valkey-server", "etcd", "app"];
        let known = ["PostgreSQL", "MariaDB", "Redis", "LevelDB", "LMDB", "bbolt", "Berkeley"];
        for (engine, file) in files {
            for program in programs {
                let found = begin(program, file).filter(|word| known.contains(word));
                assert!(found.is_none_or(|found| found == engine), "{program} {file}: {found:?}");
            }
        }
    }
}
