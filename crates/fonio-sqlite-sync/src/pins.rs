//! Settings that `fonio fix prove` gives a program's connections, and the report on the connections.
//!
//! Three variables of the environment control this; set-user-ID programs ignore them:
//!
//! | variable | value |
//! |---|---|
//! | `FONIO_SQLITE_PRAGMAS` | settings such as `synchronous=NORMAL`, separated by semicolons |
//! | `FONIO_SQLITE_DATABASES` | the paths of the databases that get these settings, one per line |
//! | `FONIO_SQLITE_REPORT` | a file to which each connection appends its database and its SQLite library |
//!
//! The settings are made when a function that opens a connection returns (LD_PRELOAD only). If the program sets them later, the given values
//! replace the program's. The policy does not apply to these databases.

use std::ffi::{CString, OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PRAGMAS: &str = "FONIO_SQLITE_PRAGMAS";
const DATABASES: &str = "FONIO_SQLITE_DATABASES";
const REPORT: &str = "FONIO_SQLITE_REPORT";

/// The settings of this process's databases.
#[derive(Clone, Default)]
pub struct Pins {
    databases: Vec<PathBuf>,
    pragmas: Vec<(CString, CString)>,
    report: Option<PathBuf>,
}

/// The settings of one database.
pub struct Pinned {
    /// The path of the database.
    pub database: PathBuf,
    /// The names and values of the settings.
    pub pragmas: Vec<(CString, CString)>,
}

impl Pins {
    /// Reads the environment. Ignores settings whose names or values are not plain words.
    pub fn of_environment() -> Pins {
        // SAFETY: `getauxval` reads a number that the kernel passed to the program.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return Pins::default();
        }
        let value = |name| std::env::var_os(name).unwrap_or_default();
        Pins::of(&value(PRAGMAS), &value(DATABASES), &value(REPORT))
    }

    fn of(pragmas: &OsStr, databases: &OsStr, report: &OsStr) -> Pins {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let pragma = |text: &str| {
            let (name, value) =
                text.split_once('=').filter(|(name, value)| is_word(name) && is_word(value))?;
            Some((CString::new(name).ok()?, CString::new(value).ok()?))
        };
        let lines = databases.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Pins {
            databases: lines.map(|line| PathBuf::from(OsString::from_vec(line.to_vec()))).collect(),
            pragmas: pragmas.to_str().unwrap_or_default().split(';').filter_map(pragma).collect(),
            report: (!report.is_empty()).then(|| report.into()),
        }
    }

    /// Returns whether no database gets settings and no report is wanted.
    pub fn is_empty(&self) -> bool {
        self.pragmas.is_empty() && self.report.is_none()
    }

    /// Returns the settings of a database; `None` if the database gets none and no report is wanted.
    pub fn of_database(&self, database: &Path) -> Option<Arc<Pinned>> {
        let is_named = self.databases.iter().any(|named| named == database);
        let pragmas = if is_named { self.pragmas.clone() } else { Vec::new() };
        (!pragmas.is_empty() || self.report.is_some())
            .then(|| Arc::new(Pinned { database: database.to_owned(), pragmas }))
    }

    /// Appends a line to the report, in one call, because several processes can write it.
    pub fn tell(&self, words: &[&[u8]]) {
        let Some(report) = &self.report else { return };
        let mut line = words.join(&b'\t');
        line.push(b'\n');
        // A program that may not write the report is one that fonio cannot tell about.
        if let Ok(mut file) = OpenOptions::new().append(true).open(report) {
            let _ = file.write_all(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_words_and_concern_the_named_databases() {
        let pins =
            |pragmas: &str| Pins::of(OsStr::new(pragmas), OsStr::new("/a b.db\n/c.db"), OsStr::new(""));
        let of = |pins: &Pins, path: &str| {
            let pinned = pins.of_database(Path::new(path))?;
            let shown = |(name, value): &(CString, CString)| {
                format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
            };
            Some(pinned.pragmas.iter().map(shown).collect::<Vec<_>>().join(" "))
        };
        let both = pins("synchronous=NORMAL;wal_autocheckpoint=4000");
        assert_eq!(of(&both, "/a b.db").as_deref(), Some("synchronous=NORMAL wal_autocheckpoint=4000"));
        assert_eq!(of(&both, "/c.db"), of(&both, "/a b.db"));
        assert_eq!(of(&both, "/d.db"), None);
        for wrong in ["", "synchronous", "synchronous=", "a=1 DROP TABLE t", "x y=1"] {
            assert_eq!(of(&pins(wrong), "/c.db"), None, "{wrong}");
        }
        let reported = Pins::of(OsStr::new(""), OsStr::new(""), OsStr::new("/report"));
        assert_eq!(of(&reported, "/d.db").as_deref(), Some(""));
    }
}
