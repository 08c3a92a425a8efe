//! A test folder with databases and a policy; runs Debian's programs with the library.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fonio_testing::Need;

/// The content of a marker of another boot.
pub const ANOTHER_BOOT: &str = "00000000-0000-0000-0000-000000000000\n";

/// How a program loads the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    ByPreload,
    AsExtension,
}

pub struct Bed {
    dir: tempfile::TempDir,
    made: Cell<u32>,
}

impl Bed {
    /// Returns `None` if this machine lacks a program, so the test is skipped.
    pub fn new() -> Option<Bed> {
        if !fonio_testing::has(&[Need::Sqlite3]) {
            return None;
        }
        if fonio_testing::find_program("strace").is_none() {
            fonio_testing::skip(Need::Sqlite3, "strace, which counts the system calls, is not installed");
            return None;
        }
        // Uses the target folder, because /tmp can be in memory, where fsync does nothing.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("dir");
        // Other users can look into the folder.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        Some(Bed { dir, made: Cell::new(0) })
    }

    pub fn new_path(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.dir.path().join(format!("{}.db", self.made.get()))
    }

    /// Creates a database with an empty table `t`, in the given journal mode.
    pub fn database(&self, mode: &str) -> PathBuf {
        let path = self.new_path();
        let made = Command::new("sqlite3")
            .arg(&path)
            .arg(format!("PRAGMA journal_mode={mode}; CREATE TABLE t (x)"))
            .output()
            .expect("sqlite3");
        assert!(made.status.success(), "{made:?}");
        path
    }

    pub fn beside(&self, database: &Path, end: &str) -> PathBuf {
        format!("{}{end}", database.display()).into()
    }

    pub fn policy_file(&self) -> PathBuf {
        self.dir.path().join("policy.toml")
    }

    /// Writes a policy with at most one rule.
    pub fn policy(&self, class: Option<&str>, database: &Path) {
        let rule = class.map(|class| format!("[[database]]\npath = '{}'\n{class}\n", database.display()));
        fs::write(self.policy_file(), rule.unwrap_or_default()).expect("write");
    }

    /// Returns the folder of the databases.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a new folder with these permissions.
    pub fn new_folder(&self, name: &str, mode: u32) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir(&folder).expect("mkdir");
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("chmod");
        folder
    }

    /// Makes the marker of a database name a boot that did not end cleanly.
    pub fn mark_as_stale(&self, database: &Path) {
        fs::write(self.beside(database, "-fonio-boot"), ANOTHER_BOOT).expect("write");
    }

    /// Compiles a C program of this folder; `None` if this machine cannot compile it.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
        let (file, program) = (self.dir.path().join(format!("{name}.c")), self.dir.path().join(name));
        fs::write(&file, source).expect("write");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-o"]).arg(&program).arg(&file).args(options);
        match cc.output() {
            Ok(out) if out.status.success() => Some(program),
            out => {
                fonio_testing::skip(Need::StaticSqlite, format!("cc cannot build {name}.c here: {out:?}"));
                None
            }
        }
    }

    /// Runs a program with the library; returns a line for each sync, with the path of the synced file.
    pub fn preloaded(&self, words: &[&str]) -> (Vec<String>, Output) {
        let words = words.iter().map(|word| (*word).to_owned());
        self.trace(&[preload()].into_iter().chain(words).collect::<Vec<_>>())
    }

    /// Runs SQL in sqlite3; returns the number of syncs, and the library's messages.
    pub fn complete(&self, loaded: Loaded, database: &Path, sql: &str) -> (u64, String) {
        let (syncs, out) = self.traced(&sqlite3(loaded, database, sql));
        (syncs, String::from_utf8_lossy(&out.stderr).into_owned())
    }

    pub fn syncs(&self, loaded: Loaded, database: &Path, sql: &str) -> u64 {
        self.complete(loaded, database, sql).0
    }

    pub fn said(&self, loaded: Loaded, database: &Path, sql: &str) -> Vec<String> {
        let (_, out) = self.traced(&sqlite3(loaded, database, sql));
        lines(&out)
    }

    /// Runs a script in Debian's Python with a database path; `None` if Debian's Python is not installed.
    pub fn python(&self, script: &str, database: &Path) -> Option<(u64, Vec<String>)> {
        if !Path::new("/usr/bin/python3").exists() {
            fonio_testing::skip(Need::Sqlite3, "Debian's python3 is not installed");
            return None;
        }
        let words = ["/usr/bin/python3", "-c", script, &database.display().to_string()].map(str::to_owned);
        let (syncs, out) = self.traced(&[vec![preload()], words.to_vec()].concat());
        Some((syncs, lines(&out)))
    }

    fn traced(&self, words: &[String]) -> (u64, Output) {
        let (syncs, out) = self.trace(words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        (syncs.len() as u64, out)
    }

    fn trace(&self, words: &[String]) -> (Vec<String>, Output) {
        let trace = self.dir.path().join("trace");
        let out = Command::new("strace")
            .args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o"])
            .arg(&trace)
            // A program that hangs ends with 124.
            .args(["timeout", "60", "env"])
            .args(words)
            .env("FONIO_SYNC_POLICY", self.policy_file())
            .output()
            .expect("strace");
        let trace = fs::read_to_string(&trace).expect("a trace");
        (trace.lines().filter(|line| line.contains("sync(")).map(str::to_owned).collect(), out)
    }
}

fn lines(out: &Output) -> Vec<String> {
    String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect()
}

fn sqlite3(loaded: Loaded, database: &Path, sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    if loaded == Loaded::ByPreload {
        words.push(preload());
    }
    words.extend(["sqlite3".to_owned(), database.display().to_string()]);
    if loaded == Loaded::AsExtension {
        words.push(format!(".load {}", library().display()));
    }
    words.push(sql.to_owned());
    words
}

pub fn preload() -> String {
    format!("LD_PRELOAD={}", library().display())
}

pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("path");
    let deps = test.parent().expect("it is in target/PROFILE/deps");
    let path = deps.join("libfonio_sqlite_sync.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}
