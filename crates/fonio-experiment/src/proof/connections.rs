//! Settings of SQLite that each connection makes for itself, such as `synchronous`.
//!
//! fonio's library for sync policies is loaded into the command (LD_PRELOAD). It makes the settings on each
//! connection to a named database, and writes a report of what it did. The report is checked after each run, so
//! a setting without effect is an error. The library reaches only SQLite as a shared library. The runs without
//! the settings load the library too, so its cost is in all runs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fonio_workload::DatabaseOverride;
use fonio_workload::definition::{Journal, Synchronous};

use crate::error::ExperimentError;

/// A connection's settings that fonio makes from outside of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pragmas(Vec<(&'static str, String)>);

impl Pragmas {
    /// Returns the settings that a database's file does not keep. It keeps the mode of a write-ahead log, except
    /// if the command creates the database (`is_created`).
    pub fn of(change: &DatabaseOverride, is_created: bool) -> Pragmas {
        let mut all = Vec::new();
        if let Some(journal) = change.journal.filter(|journal| is_created || *journal != Journal::Wal) {
            all.push(("journal_mode", journal_name(journal).to_owned()));
        }
        if let Some(level) = change.synchronous {
            all.push(("synchronous", level_name(level).to_owned()));
        }
        if let Some(pages) = change.autocheckpoint {
            all.push(("wal_autocheckpoint", pages.to_string()));
        }
        Pragmas(all)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the statements for the program.
    pub fn statements(&self) -> String {
        let statement = |(name, value): &(&str, String)| format!("PRAGMA {name}={value};");
        self.0.iter().map(statement).collect::<Vec<_>>().join(" ")
    }

    /// Returns the environment variables with which the library makes the settings of these databases, and
    /// writes its report.
    pub fn environment(
        &self,
        library: &Path,
        databases: &[PathBuf],
        report: &Path,
    ) -> Vec<(OsString, OsString)> {
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        // The library takes words without quotes; a level is a number, because SQLite accepts it in every place.
        let word = |(name, value): &(&str, String)| match *name {
            "synchronous" => format!("synchronous={}", level_number(value)),
            name => format!("{name}={}", value.to_ascii_lowercase()),
        };
        let pragmas = self.0.iter().map(word).collect::<Vec<_>>().join(";");
        let paths: Vec<&OsStr> = databases.iter().map(|path| path.as_os_str()).collect();
        vec![
            ("LD_PRELOAD".into(), preload),
            ("FONIO_SQLITE_PRAGMAS".into(), pragmas.into()),
            ("FONIO_SQLITE_DATABASES".into(), paths.join(OsStr::new("\n"))),
            ("FONIO_SQLITE_REPORT".into(), report.into()),
        ]
    }

    /// Fails if a report does not show that every setting was made.
    pub fn check(
        &self,
        change: &DatabaseOverride,
        report: &Report,
        command: &str,
    ) -> Result<(), ExperimentError> {
        let is_made = |(name, _): &&(&str, String)| !report.pinned.iter().any(|pinned| pinned == name);
        match self.0.iter().find(is_made) {
            None => Ok(()),
            Some(_) => Err(self.not_from_outside(change, command, report.reason())),
        }
    }

    /// Returns the error for a command whose connections cannot get the settings. The remedy also names the
    /// journal mode, because a program that sets its own connections can set this mode too.
    pub fn not_from_outside(
        &self,
        change: &DatabaseOverride,
        command: &str,
        reason: String,
    ) -> ExperimentError {
        let all = Pragmas::of(change, true);
        let line = |(name, value): &(&str, String)| {
            format!("\n  PRAGMA {name}={value};   -- {}", benefit(name, value))
        };
        ExperimentError::NotFromOutside {
            setting: self.statements(),
            command: command.to_owned(),
            reason,
            remedy: format!(
                "Add this to the program, after each opening of the database:{}\nThen compare the program before \
                 and after the change: `fonio fix prove --versus 'OLD PROGRAM' -- NEW PROGRAM`.",
                all.0.iter().map(line).collect::<String>()
            ),
        }
    }
}

/// Returns why a setting makes a program faster.
fn benefit(name: &str, value: &str) -> &'static str {
    match (name, value) {
        ("journal_mode", "WAL") => {
            "a commit appends to one log, instead of syncing a journal and the database"
        }
        ("journal_mode", "MEMORY" | "OFF") => "no journal is written to the disk",
        ("journal_mode", _) => "the journal's file stays or is removed in another way at each commit",
        ("synchronous", "NORMAL") => "fewer syncs; with a write-ahead log, none until the next checkpoint",
        ("synchronous", "OFF") => "SQLite never waits for the disk",
        ("synchronous", _) => "SQLite syncs each commit",
        _ => "checkpoints, which sync the database, become rarer",
    }
}

fn journal_name(journal: Journal) -> &'static str {
    match journal {
        Journal::Wal => "WAL",
        Journal::Delete => "DELETE",
        Journal::Truncate => "TRUNCATE",
        Journal::Persist => "PERSIST",
        Journal::Memory => "MEMORY",
        Journal::Off => "OFF",
    }
}

const LEVELS: [(Synchronous, &str); 4] = [
    (Synchronous::Off, "OFF"),
    (Synchronous::Normal, "NORMAL"),
    (Synchronous::Full, "FULL"),
    (Synchronous::Extra, "EXTRA"),
];

fn level_name(level: Synchronous) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).map_or("FULL", |(_, name)| name)
}

/// Returns SQLite's number of a level.
fn level_number(name: &str) -> usize {
    LEVELS.iter().position(|(_, known)| *known == name).unwrap_or(2)
}

/// What the library reported about the connections of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The opened databases, each with the path of the SQLite library.
    pub opened: Vec<(PathBuf, PathBuf)>,
    /// The names of the settings that were made.
    pub pinned: Vec<String>,
    /// The names of the settings that SQLite refused.
    pub refused: Vec<String>,
}

impl Report {
    /// Reads a report. A missing report says that the library saw no connection.
    pub fn read(path: &Path) -> Report {
        Report::parse(&fs::read(path).unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Report {
        let mut report = Report::default();
        for line in text.split(|byte| *byte == b'\n') {
            let words: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
            let path = |word: &[u8]| PathBuf::from(OsStr::from_bytes(word));
            match words[..] {
                [b"opened", database, library] => {
                    let opened = (path(database), path(library));
                    if !report.opened.contains(&opened) {
                        report.opened.push(opened);
                    }
                }
                [b"pinned", _, name, result] => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    let into = if result == b"done" { &mut report.pinned } else { &mut report.refused };
                    if !into.contains(&name) {
                        into.push(name);
                    }
                }
                _ => {}
            }
        }
        report
    }

    /// Returns the SQLite libraries of the connections.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.opened.iter().map(|(_, library)| library.clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    fn reason(&self) -> String {
        match (&self.opened[..], &self.refused[..]) {
            ([], _) => INSIDE.to_owned(),
            (_, []) => "its connections did not open the database in this run".to_owned(),
            (_, refused) => format!("SQLite refused {}", refused.join(", ")),
        }
    }
}

/// The reason why the library sees no connection.
pub(crate) const INSIDE: &str = "it loads no SQLite library; its SQLite is inside the program or one of its \
     modules, as in Go and Node (set-user-ID programs load no library either)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_statements_and_variables() {
        let change = DatabaseOverride {
            journal: Some(Journal::Wal),
            synchronous: Some(Synchronous::Normal),
            autocheckpoint: Some(4000),
            directory: None,
        };
        let of_file = Pragmas::of(&change, false);
        assert_eq!(of_file.statements(), "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=4000;");
        let created = Pragmas::of(&change, true);
        let variables =
            created.environment(Path::new("/l.so"), &["/a.db".into(), "/b.db".into()], Path::new("/r"));
        let value =
            |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        assert_eq!(
            value("FONIO_SQLITE_PRAGMAS"),
            Some("journal_mode=wal;synchronous=1;wal_autocheckpoint=4000".into())
        );
        assert_eq!(value("FONIO_SQLITE_DATABASES"), Some("/a.db\n/b.db".into()));
        assert!(
            Pragmas::of(
                &DatabaseOverride { journal: Some(Journal::Wal), ..DatabaseOverride::default() },
                false
            )
            .is_empty()
        );
    }

    #[test]
    fn a_report_shows_which_settings_were_made() {
        let change = DatabaseOverride { synchronous: Some(Synchronous::Off), ..DatabaseOverride::default() };
        let pragmas = Pragmas::of(&change, false);
        let check = |text: &str| {
            let report = Report::parse(text.as_bytes());
            pragmas
                .check(&change, &report, "app")
                .map_err(|error| error.to_string().lines().next().unwrap_or("").to_owned())
        };
        let opened = "opened\t/a.db\t/lib/libsqlite3.so.0\n";
        assert_eq!(check(&format!("{opened}pinned\t/a.db\tsynchronous\tdone\n{opened}")), Ok(()));
        for (report, reason) in [
            (String::new(), INSIDE),
            (opened.to_owned(), "its connections did not open the database in this run"),
            (format!("{opened}pinned\t/a.db\tsynchronous\tfailed\n"), "SQLite refused synchronous"),
        ] {
            let expected = format!("PRAGMA synchronous=OFF; cannot be set from outside of `app`: {reason}");
            assert_eq!(check(&report), Err(expected));
        }
        assert_eq!(Report::parse(opened.as_bytes()).libraries(), [PathBuf::from("/lib/libsqlite3.so.0")]);
    }
}
