//! The rules that assign a class to each database.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use wildmatch::WildMatch;

use crate::error::PolicyError;

/// The default window of `ordered`. We chose about the interval at which an idle app writes its state.
const WINDOW_DEFAULT_MS: u64 = 1000;
/// The longest allowed window. After this time, the kernel writes the data back anyway
/// (`dirty_expire_centisecs` is 30 s by default).
const WINDOW_MAX_MS: u64 = 30_000;

/// The sync class of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The database is synced as its program requests.
    Durable,
    /// In write-ahead mode, commits are synced in groups, at the latest after `window`. A power cut loses at
    /// most the transactions of one window, and never corrupts the database. With a rollback journal, the
    /// database is synced as its program requests.
    Ordered {
        /// Maximum time span of the transactions that a power cut loses.
        window: Duration,
        /// Whether to change the database to write-ahead mode when it is opened.
        to_wal: bool,
    },
    /// The database is never synced. After a boot that did not end cleanly, the database is removed.
    Cache {
        /// Whether to drop the fsync calls of the program itself; meant for programs that contain a copy of
        /// SQLite.
        drop_fsync: bool,
    },
    /// The database is synced as its program requests; when the database is closed, a class for the database
    /// is suggested.
    Learn,
}

/// A rule of the policy.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The path as written in the policy file; it can be a pattern with `*` and `?`.
    pub path: String,
    /// The class of matching databases.
    pub class: Class,
    pattern: WildMatch,
    /// The folder, if the rule's path is a folder. The rule then applies to all databases below this folder.
    folder: Option<PathBuf>,
}

impl Rule {
    fn matches(&self, database: &Path) -> bool {
        match &self.folder {
            Some(folder) => database.starts_with(folder),
            None => self.pattern.matches(&database.to_string_lossy()),
        }
    }

    /// Returns a folder that contains all databases matched by this rule.
    pub fn root(&self) -> PathBuf {
        if let Some(folder) = &self.folder {
            return folder.clone();
        }
        let plain = self.path.split(['*', '?']).next().unwrap_or_default();
        let folder = plain.rsplit_once('/').map_or("", |(folder, _)| folder);
        resolved(Path::new(if folder.is_empty() { "/" } else { folder })).into_owned()
    }
}

/// The rules of a policy. The first rule that matches a database determines its class.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    database: Vec<toml::Spanned<Written>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    path: String,
    class: Name,
    window_ms: Option<u64>,
    to_wal: Option<bool>,
    drop_fsync: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum Name {
    Durable,
    Ordered,
    Cache,
    Learn,
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(word: String) -> Result<Name, String> {
        match word.as_str() {
            "durable" => Ok(Name::Durable),
            "ordered" => Ok(Name::Ordered),
            "cache" => Ok(Name::Cache),
            "learn" => Ok(Name::Learn),
            _ => Err(format!("unknown class `{word}`; use durable, ordered, cache or learn")),
        }
    }
}

impl Policy {
    /// Parses the text of the file `from`. One wrong rule invalidates the complete policy, so that a user
    /// cannot assume that the wrong rule is active. Fails with [`PolicyError::Syntax`] with the line.
    pub fn parse(text: &str, from: &Path) -> Result<Policy, PolicyError> {
        let wrong = |at: Option<usize>, reason: String| PolicyError::Syntax {
            path: from.to_owned(),
            line: at.map(|at| text[..at.min(text.len())].matches('\n').count() + 1),
            reason,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            wrong(error.span().map(|span| span.start), error.message().replace('\n', ", "))
        })?;
        let mut rules = Vec::new();
        for rule in file.database {
            let at = rule.span().start;
            rules.push(rule_of(rule.into_inner()).map_err(|reason| wrong(Some(at), reason))?);
        }
        Ok(Policy { rules })
    }

    /// Returns the class of the database with this absolute path.
    pub fn class(&self, database: &Path) -> Class {
        self.rules.iter().find(|rule| rule.matches(database)).map_or(Class::Durable, |rule| rule.class)
    }

    /// Returns all rules, in the order of the policy file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns whether any rule drops fsync calls of programs.
    pub fn drops_fsync(&self) -> bool {
        self.rules.iter().any(|rule| rule.class == Class::Cache { drop_fsync: true })
    }
}

/// Checks a rule; the error says why the rule is invalid.
fn rule_of(written: Written) -> Result<Rule, String> {
    let Written { path, class, window_ms, to_wal, drop_fsync } = written;
    if !path.starts_with('/') {
        return Err(format!("the path `{path}` does not begin with `/`; use an absolute path"));
    }
    // Nobody wants to lose all databases of the machine at an unclean boot. In a pattern, `*` also matches `/`.
    if class == Name::Cache && path.trim_end_matches(['/', '*', '?']).is_empty() {
        return Err(format!("the path `{path}` contains all databases; name the folder of the cache"));
    }
    if class != Name::Ordered && (window_ms.is_some() || to_wal.is_some()) {
        return Err("window-ms and to-wal belong to the class `ordered` only".to_owned());
    }
    if class != Name::Cache && drop_fsync.is_some() {
        return Err(
            "drop-fsync belongs to the class `cache` only: without SQLite's help, fonio cannot tell a commit's fsync from a checkpoint's".to_owned(),
        );
    }
    let class = match class {
        Name::Durable => Class::Durable,
        Name::Learn => Class::Learn,
        Name::Cache => Class::Cache { drop_fsync: drop_fsync.unwrap_or(false) },
        Name::Ordered => {
            let window_ms = window_ms.unwrap_or(WINDOW_DEFAULT_MS);
            if !(1..=WINDOW_MAX_MS).contains(&window_ms) {
                return Err(format!("window-ms is {window_ms}; write a number from 1 to {WINDOW_MAX_MS}"));
            }
            Class::Ordered { window: Duration::from_millis(window_ms), to_wal: to_wal.unwrap_or(false) }
        }
    };
    let is_pattern = path.contains(['*', '?']);
    let plain = match path.trim_end_matches('/') {
        "" => Path::new("/"),
        plain => Path::new(plain),
    };
    let is_folder = !is_pattern && (path.ends_with('/') || plain.is_dir());
    let folder = is_folder.then(|| resolved(plain).into_owned());
    // Resolve symbolic links in the folders of the rule too, because SQLite resolves symbolic links before it
    // opens a database.
    let pattern = match is_pattern {
        false => resolved(plain).to_string_lossy().into_owned(),
        true => {
            let cut = path.find(['*', '?']).unwrap_or(path.len());
            let (before, after) = path.split_at(path[..cut].rfind('/').unwrap_or(0));
            match fs::canonicalize(before) {
                Ok(before) => format!("{}{after}", before.display()),
                Err(_) => path.clone(),
            }
        }
    };
    Ok(Rule { pattern: WildMatch::new(&pattern), path, class, folder })
}

/// Resolves symbolic links in the existing part of a path: if a file does not exist yet, only its folder is
/// resolved.
fn resolved(path: &Path) -> Cow<'_, Path> {
    if let Ok(found) = fs::canonicalize(path) {
        return found.into();
    }
    match (path.parent().map(fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name).into(),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Policy, String> {
        Policy::parse(text, Path::new("policy.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let policy = parsed(
            "[[database]]\npath = '/srv/app/keep.db'\nclass = 'durable'\n\
             [[database]]\npath = '/srv/app/*.db'\nclass = 'ordered'\nwindow-ms = 200\nto-wal = true\n\
             [[database]]\npath = '/srv/cache/'\nclass = 'cache'\n",
        )
        .expect("a policy");
        let ordered = Class::Ordered { window: Duration::from_millis(200), to_wal: true };
        for (path, class) in [
            ("/srv/app/keep.db", Class::Durable),
            ("/srv/app/other.db", ordered),
            ("/srv/app/deep/other.db", ordered),
            ("/srv/app/other.sqlite", Class::Durable),
            ("/srv/cache/a/b", Class::Cache { drop_fsync: false }),
            ("/srv/cached", Class::Durable),
        ] {
            assert_eq!(policy.class(Path::new(path)), class, "{path}");
        }
        assert_eq!(policy.rules()[1].root(), Path::new("/srv/app"));
    }

    #[test]
    fn rules_follow_links_as_sqlite_does() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        fs::create_dir(dir.join("real")).expect("mkdir");
        std::os::unix::fs::symlink(dir.join("real"), dir.join("link")).expect("link");
        for path in ["link/a.db", "link", "link/*.db"] {
            let text = format!("[[database]]\npath = '{}/{path}'\nclass = 'learn'", dir.display());
            let policy = parsed(&text).expect("a policy");
            assert_eq!(policy.class(&dir.join("real/a.db")), Class::Learn, "{path}");
        }
    }

    #[test]
    fn a_wrong_policy_is_refused_with_its_line() {
        use expect_test::expect;
        let check = |text: &str, expected: expect_test::Expect| {
            expected.assert_eq(&parsed(text).expect_err("refused"));
        };
        check(
            "[[database]]\npath = '/a'\nclass = 'fast'\n",
            expect!["policy.toml, line 3: unknown class `fast`; use durable, ordered, cache or learn"],
        );
        check(
            "\n[[database]]\npath = 'a'\nclass = 'cache'\n",
            expect!["policy.toml, line 2: the path `a` does not begin with `/`; use an absolute path"],
        );
        for path in ["/", "//", "/*", "/*/?*"] {
            let error =
                parsed(&format!("[[database]]\npath = '{path}'\nclass = 'cache'\n")).expect_err("refused");
            assert!(error.ends_with("contains all databases; name the folder of the cache"), "{error}");
        }
        for path in ["/", "//"] {
            let all = format!("[[database]]\npath = '{path}'\nclass = 'learn'\n");
            let policy = Policy::parse(&all, Path::new("policy.toml")).expect("a policy");
            assert_eq!(policy.rules()[0].root(), Path::new("/"));
            assert_eq!(policy.class(Path::new("/a/b.db")), Class::Learn);
        }
        check(
            "[[database]]\npath = '/a'\nclass = 'ordered'\nwindow-ms = 0\n",
            expect!["policy.toml, line 1: window-ms is 0; write a number from 1 to 30000"],
        );
        check(
            "[[database]]\npath = '/a'\nclass = 'ordered'\ndrop-fsync = true\n",
            expect![
                "policy.toml, line 1: drop-fsync belongs to the class `cache` only: without SQLite's help, fonio cannot tell a commit's fsync from a checkpoint's"
            ],
        );
        check(
            "[[databases]]\npath = '/a'\n",
            expect!["policy.toml, line 1: unknown field `databases`, expected `database`"],
        );
    }
}
