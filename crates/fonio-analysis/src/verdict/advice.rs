//! Advice for programs whose own settings decide when they sync.

use crate::figures::facts::Facts;

/// Programs that write all changed data of a file system before they end.
const WRITE_EVERYTHING: [&str; 3] = ["umount", "sync", "syncfs"];

/// Returns advice for the blocked program, if it waited mostly in fsync for a file that its settings concern.
/// The recording does not show settings, so the advice names the setting that has to be checked.
pub(super) fn for_program(facts: &Facts) -> Option<&'static str> {
    let name = facts.words.get("blocked.program")?;
    let name = name.split(" (").next().unwrap_or(name);
    if WRITE_EVERYTHING.contains(&name) {
        return Some(
            "See which programs changed data before: this program writes everything that is dirty before it ends.",
        );
    }
    if facts.value("blocked.fsync_share").is_none_or(|share| share < 0.5) {
        return None;
    }
    let file = facts.words.get("blocked.file").map_or("", String::as_str);
    match name {
        "postgres" | "postmaster" if file.contains("/pg_wal/") => Some(
            "PostgreSQL: set `synchronous_commit = off` for transactions that may be lost in a power cut, or \
             commit several changes in one transaction.",
        ),
        "redis-server" | "valkey-server" if file.contains(".aof") => Some(
            "Redis: set `appendfsync everysec`, if it is `always` now. A power cut may lose the last second.",
        ),
        "dpkg" | "dpkg-deb" => Some(
            "dpkg: `--force-unsafe-io` skips these syncs; suitable for an image that can be built again after a \
             power cut.",
        ),
        "rsyslogd" if !file.is_empty() => Some("rsyslog: set `sync=\"off\"` for this file, if it is on now."),
        _ if is_leveldb_log(file) => Some(
            "LevelDB or RocksDB: write several changes in one WriteBatch, or without `sync` where the last changes may \
             be lost.",
        ),
        _ => None,
    }
}

/// Returns whether a file has the name of LevelDB's log: six digits and `.log`.
fn is_leveldb_log(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".log")
        .is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_program_and_the_file() {
        let begin = |program: &str, file: &str| {
            let mut facts = Facts::default();
            facts.word("blocked.program", program);
            facts.word("blocked.file", file);
            facts.share("blocked.fsync_share", "share", 0.9);
            for_program(&facts).and_then(|text| text.split([' ', ':']).next())
        };
        for (program, file, expected) in [
            (
                "postgres (postgresql.service)",
                "/var/lib/postgresql/15/main/pg_wal/000001",
                Some("PostgreSQL"),
            ),
            ("postgres", "/x", None),
            ("postgres-backup", "/var/lib/postgresql/pg_wal/1", None),
            ("redis-server", "/data/appendonlydir/appendonly.aof.1.incr.aof", Some("Redis")),
            ("redis-server", "/data/dump.rdb", None),
            ("dpkg", "/usr/bin/x.dpkg-new", Some("dpkg")),
            ("rsyslogd", "/var/log/syslog", Some("rsyslog")),
            ("chain", "/chain/db/000012.log", Some("LevelDB")),
            ("chain", "/chain/db/12.log", None),
            ("umount", "", Some("See")),
            ("python3", "/notes.db-journal", None),
        ] {
            assert_eq!(begin(program, file), expected, "{program} {file}");
        }
    }
}
