//! Tests `fonio fix prove` with the SQLite databases of a command.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
use fonio_testing::{Need, has, skip};
use serde_json::Value;

use super::{answer, text};

/// A program that commits each note, as small apps do.
const NOTES: &str = "\
import os, sqlite3, sys
d = sqlite3.connect(os.environ.get('NOTES', 'notes.db'))
d.execute('CREATE TABLE IF NOT EXISTS t (x)')
for number in range(20):
    d.execute('INSERT INTO t VALUES (?)', (number,))
    d.commit()
open('log', 'a').write('run\\n')
print(d.execute('PRAGMA journal_mode').fetchone()[0], d.execute('PRAGMA synchronous').fetchone()[0],
      d.execute('PRAGMA wal_autocheckpoint').fetchone()[0], d.execute('SELECT count(*) FROM t').fetchone()[0],
      file=sys.stderr)
";

/// Returns whether the tests can run here.
fn can_prove() -> bool {
    if !has(&[Need::Root, Need::Namespace, Need::Python]) {
        return false;
    }
    let has_sqlite =
        Command::new("python3").args(["-c", "import sqlite3"]).output().unwrap().status.success();
    if !has_sqlite {
        skip(Need::Python, "python3 has no module sqlite3");
    }
    has_sqlite
}

/// A folder with a program and its database.
struct App {
    dir: tempfile::TempDir,
    folder: PathBuf,
}

impl App {
    fn new() -> App {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let folder = dir.path().join("app");
        App::at(dir, folder)
    }

    fn at(dir: tempfile::TempDir, folder: PathBuf) -> App {
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("notes.py"), NOTES).unwrap();
        fs::write(folder.join("sub/other"), "other\n").unwrap();
        let app = App { dir, folder };
        let made = Command::new("python3").arg("notes.py").current_dir(&app.folder).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        app
    }

    /// Calls `fonio fix prove` in the folder; the results go elsewhere.
    fn prove(&self, words: &[&str], command: &[&str]) -> Command {
        let mut fonio = Command::new(env!("CARGO_BIN_EXE_fonio"));
        fonio.args(["fix", "prove"]).args(words);
        let number = fs::read_dir(self.dir.path()).unwrap().count();
        fonio.args(["--runs", "2", "-o"]).arg(self.dir.path().join(format!("runs{number}")));
        fonio.arg("--").args(command).current_dir(&self.folder).stdin(Stdio::null()).env("NO_COLOR", "1");
        fonio
    }

    /// Returns the names, contents and times of all files in the app's folder.
    fn state(&self) -> Vec<(PathBuf, Vec<u8>, i64, u32)> {
        let mut found = Vec::new();
        collect(&self.folder, &mut found);
        found.sort();
        found
    }

    /// Returns the names of fonio's folders next to the app's folder and in it.
    fn left_behind(&self) -> Vec<PathBuf> {
        let folders = [self.folder.parent().unwrap(), &self.folder];
        let entries = folders.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
        let names = entries.map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().contains(".fonio-proof-")).collect()
    }
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, Vec<u8>, i64, u32)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        if path.file_name().unwrap() == "lost+found" {
            continue;
        }
        if stat.is_dir() {
            collect(&path, found);
        } else {
            found.push((path.clone(), fs::read(&path).unwrap(), stat.mtime_nsec(), stat.mode()));
        }
    }
}

fn names(series: &Value) -> Vec<&str> {
    series["variations"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect()
}

/// Runs a command, and returns its process id and its output.
fn with_pid(command: &mut Command) -> (u32, Output) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (child.id(), child.wait_with_output().unwrap())
}

/// Returns the beginning of the names of a proof's folders with copies. Other tests' proofs use the same disk.
fn copies_of(pid: u32) -> String {
    format!(".fonio-proof-{pid}-")
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Returns the lines of the program in a text.
fn modes(text: &str) -> Vec<String> {
    let is_mode = |line: &&str| ["delete ", "wal ", "persist "].iter().any(|mode| line.starts_with(mode));
    text.lines().filter(is_mode).map(str::to_owned).collect()
}

/// Returns the lines that the program printed on the screen, and in each measured run, by the names of the setups
/// and the rounds.
fn printed(out: &Output, series: &Value) -> (Vec<String>, Vec<String>) {
    let runs = |arm: &Value| arm["runs"].as_array().unwrap().clone();
    let measured = series["variations"].as_array().unwrap().iter().flat_map(runs).flat_map(|run| {
        let file = format!("{}.output", run["recording"].as_str().unwrap());
        modes(&fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}")))
    });
    (modes(&text(&out.stderr)), measured.collect())
}

#[test]
fn a_command_is_measured_with_copies_of_its_database() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    let before = app.state();
    // The database is found by a first run, and every run begins with the same 20 rows.
    let (pid, out) = with_pid(&mut app.prove(&["wal-full", "--json"], &["python3", "notes.py"]));
    let series = answer(&out);
    let folder = app.folder.display().to_string();
    assert_eq!(names(&series), [folder.as_str(), &format!("{folder}, wal-full")]);
    let database = app.folder.join("notes.db").display().to_string();
    assert_eq!(series["databases"][0], database.as_str());
    let keep = series["variations"][1]["keep"].as_str().unwrap();
    assert_eq!(keep, format!("`fonio fix apply wal-full {database}`"));
    // Only the first run prints to the screen; the others are two rounds of both setups.
    let (delete, wal) = ("delete 2 1000 40", "wal 2 1000 40");
    let (screen, runs) = printed(&out, &series);
    assert_eq!((screen, runs), (lines(&[delete]), lines(&[delete, delete, wal, wal])));
    assert!(app.state() == before, "the folder has changed");
    // The report names the user's file, not the copy, which is gone.
    let recording = series["variations"][0]["runs"][0]["recording"].as_str().unwrap();
    let report =
        Command::new(env!("CARGO_BIN_EXE_fonio")).args(["report", "--json", recording]).output().unwrap();
    let report = text(&report.stdout);
    assert!(report.contains(&database) && !report.contains(&copies_of(pid)), "{report}");
    assert_eq!(app.left_behind(), Vec::<PathBuf>::new());

    // A command that fails in the runs with the fix, and one that sets the mode itself.
    let script =
        "python3 notes.py; test $(dd if=notes.db bs=1 skip=18 count=1 2>/dev/null | od -An -tu1) = 1";
    let failed = app.prove(&["wal-full"], &["sh", "-c", script]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    assert_eq!(modes(&text(&failed.stderr)), [delete, wal], "a failed run shows its output");
    let script = "import sqlite3; d = sqlite3.connect('notes.db'); d.execute('PRAGMA journal_mode=DELETE'); \
                  d.execute('INSERT INTO t VALUES (1)'); d.commit()";
    let own = app.prove(&["wal-full"], &["python3", "-c", script]).output().unwrap();
    assert!(
        text(&own.stderr).contains("the command itself sets the journal mode of"),
        "{}",
        text(&own.stderr)
    );
    assert!(app.state() == before, "the folder has changed");
    assert_eq!(app.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn the_original_stays_after_ctrl_c_and_kill() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    let before = app.state();
    // The command writes the copy, and then waits in each run with the fix.
    let script = "python3 notes.py; case $(dd if=notes.db bs=1 skip=18 count=1 2>/dev/null | od -An -tu1) in \
                  *2) exec sleep 100;; esac";
    for signal in ["INT", "KILL"] {
        let words = ["wal-full", "--database", "notes.db"];
        let mut child = app
            .prove(&words, &["sh", "-c", script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sleeps = || {
            let list = Command::new("pgrep").args(["-f", "^sleep 100$"]).output().unwrap();
            text(&list.stdout)
                .lines()
                .any(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|dir| dir == app.folder))
        };
        let mut tries = 0;
        while !sleeps() {
            std::thread::sleep(Duration::from_millis(50));
            tries += 1;
            assert!(
                tries < 2400 && child.try_wait().unwrap().is_none(),
                "the run with the fix did not begin"
            );
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        child.wait().unwrap();
        if signal == "KILL" {
            assert!(!app.left_behind().is_empty(), "the copies of a killed process are still there");
            // The next start removes them, and ends the command.
            app.prove(&words, &["false"]).output().unwrap();
            assert!(!sleeps(), "the command still runs");
        }
        assert!(app.state() == before, "{signal}: the folder has changed");
        assert_eq!(app.left_behind(), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[test]
fn settings_of_connections_are_made_from_outside() {
    if !can_prove() {
        return;
    }
    let library = Path::new(env!("CARGO_BIN_EXE_fonio")).with_file_name("libfonio_sqlite_sync.so");
    // This test's own folder may have the library, too, but fonio looks next to itself.
    if !library.exists() && !Path::new("/usr/lib/fonio/libfonio_sqlite_sync.so").exists() {
        eprintln!("skipped: libfonio_sqlite_sync.so is not built (cargo build -p fonio-sqlite-sync)");
        return;
    }
    let app = App::new();
    let before = app.state();
    let words = ["wal-normal,autocheckpoint=50,journal-mode=persist", "--json"];
    let out = app.prove(&words, &["python3", "notes.py"]).output().unwrap();
    let series = answer(&out);
    let (delete, normal, few, persist) =
        ("delete 2 1000 40", "wal 1 1000 40", "delete 2 50 40", "persist 2 1000 40");
    let expected = [delete, delete, normal, normal, few, few, persist, persist];
    assert_eq!(printed(&out, &series), (lines(&[delete]), lines(&expected)));
    assert!(series["variations"][1]["keep"].as_str().unwrap().contains("PRAGMA synchronous=NORMAL"));
    // The dry run names the library that the program uses.
    let dry = app.prove(&["synchronous=off", "--dry-run"], &["python3", "notes.py"]).output().unwrap();
    let said = text(&dry.stdout);
    assert!(dry.status.success() && said.contains("sqlite3"), "{said}{}", text(&dry.stderr));
    assert!(said.contains("libfonio_sqlite_sync.so (LD_PRELOAD)"), "{said}");
    // A database that the command creates gets its mode from outside, too.
    fs::remove_file(app.folder.join("notes.db")).unwrap();
    let created = app.prove(&["wal-full", "--json"], &["python3", "notes.py"]).output().unwrap();
    let series = answer(&created);
    let (delete, wal) = ("delete 2 1000 20", "wal 2 1000 20");
    assert_eq!(printed(&created, &series), (lines(&[delete]), lines(&[delete, delete, wal, wal])));
    assert!(!app.folder.join("notes.db").exists() && before.len() > app.state().len());
}

#[test]
fn a_program_with_its_own_sqlite_gets_the_statement_to_add() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    // This Python ignores the library, as a program does that contains SQLite.
    let command = ["env", "-u", "LD_PRELOAD", "python3", "notes.py"];
    let out = app.prove(&["synchronous=normal"], &command).output().unwrap();
    let said = text(&out.stderr);
    assert!(!out.status.success(), "{said}");
    assert!(
        said.contains(
            "Add this to the program, after each opening of the database:\n  PRAGMA synchronous=NORMAL;"
        ),
        "{said}"
    );
}

#[test]
fn several_databases_and_none_are_named() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    let script = "for name in a b; do NOTES=$name.db python3 notes.py; done";
    let several = app.prove(&["wal-full"], &["sh", "-c", script]).output().unwrap();
    let said = text(&several.stderr);
    for name in ["a.db", "b.db"] {
        assert!(said.contains(&format!("--database {}", app.folder.join(name).display())), "{said}");
    }
    let none = app.prove(&["wal-full"], &["true"]).output().unwrap();
    assert!(text(&none.stderr).contains("changed no SQLite database"), "{}", text(&none.stderr));
    // One of several is chosen.
    let chosen = app.prove(
        &["wal-full", "--database", "notes.db", "--json"],
        &["sh", "-c", "python3 notes.py; NOTES=a.db python3 notes.py"],
    );
    let out = { chosen }.output().unwrap();
    let series = answer(&out);
    assert_eq!(series["databases"].as_array().unwrap().len(), 1, "{series}");
    assert!(!app.folder.join("a.db").exists());
}

#[test]
fn two_commands_are_compared_from_the_same_state() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    let before = app.state();
    let after = "import sqlite3, sys; d = sqlite3.connect('notes.db'); d.execute('PRAGMA synchronous=OFF')
for number in range(20): d.execute('INSERT INTO t VALUES (1)'); d.commit()
print('wal after', d.execute('SELECT count(*) FROM t').fetchone()[0], file=sys.stderr)";
    let words = ["--versus", "python3 notes.py", "--json"];
    let out = app.prove(&words, &["python3", "-c", after]).output().unwrap();
    let series = answer(&out);
    let folder = app.folder.display();
    assert_eq!(names(&series), [format!("{folder} (before)"), format!("{folder} (after)")]);
    let (old, new) = ("delete 2 1000 40", "wal after 40");
    // Each of the two commands prints once.
    assert_eq!(printed(&out, &series), (lines(&[old, new]), lines(&[old, old, new, new])));
    assert!(app.state() == before, "the folder has changed");
}

/// Without options, the number of runs is found, and nothing is left in the program's folder.
#[test]
fn a_proof_leaves_its_results_in_the_state_folder() {
    if !can_prove() {
        return;
    }
    let app = App::new();
    let before = app.state();
    let state = app.dir.path().join("state");
    let fonio = |words: &[&str]| {
        let mut fonio = Command::new(env!("CARGO_BIN_EXE_fonio"));
        fonio.args(["fix", "prove", "wal-full"]).args(words).args(["--", "python3", "notes.py"]);
        fonio.current_dir(&app.folder).env("FONIO_LASTING_STATE", &state).env("COLUMNS", "500");
        with_pid(&mut fonio)
    };
    let told = |text: &str, time: &str| {
        let until =
            format!("until each gain is known to within 25 %, but all runs together take at most {time}");
        text.contains("Each of 2 setups is measured 3 times, and then ") && text.contains(&until)
    };
    let (_, dry) = fonio(&["--dry-run"]);
    assert!(told(&text(&dry.stdout), "3 min"), "{}{}", text(&dry.stdout), text(&dry.stderr));
    let (pid, out) = fonio(&["--runs", "auto:10s"]);
    let (said, shown) = (text(&out.stderr), text(&out.stdout));
    assert!(out.status.success() && told(&said, "10 s"), "{said}");
    assert!(app.state() == before, "the folder has changed");
    let page = shown.lines().find_map(|line| line.strip_prefix("Full report with charts: ")).unwrap();
    let results = Path::new(page).parent().unwrap();
    assert_eq!(results.parent().unwrap(), state.join("proofs"), "{shown}");
    let read = |name: &str| fs::read_to_string(results.join(name)).unwrap();
    let series: Value = serde_json::from_str(&read("summary.json")).unwrap();
    let runs = |arm: usize| series["variations"][arm]["runs"].as_array().unwrap().len();
    assert!(runs(0) >= 3 && runs(0) == runs(1), "{series}");
    assert!(!read("report.html").contains(&copies_of(pid)));
    let answers =
        ["as fast as without a fix", "than without a fix", "--runs ", "no tested fix was shown to be"];
    assert!(
        !shown.contains(&copies_of(pid)) && answers.iter().any(|answer| shown.contains(answer)),
        "{shown}"
    );
}

/// The database's folder is a mount point, so there is nothing of its file system outside of it.
#[test]
fn a_database_at_the_top_of_a_mount_is_copied_there() {
    if !can_prove() || !has(&[Need::Loop, Need::Mkfs]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
    let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default()).unwrap();
    Filesystem::Ext4.make(device.path()).unwrap();
    let (mounted, _) = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "").unwrap();
    let app = App::at(dir, mounted.clone());
    let before = app.state();
    let script = "cat sub/other; echo new > sub/new; python3 notes.py";
    let out = app.prove(&["wal-full", "--json"], &["sh", "-c", script]).output().unwrap();
    let series = answer(&out);
    assert_eq!(series["databases"][0], mounted.join("notes.db").display().to_string().as_str());
    let (delete, wal) = ("delete 2 1000 40", "wal 2 1000 40");
    assert_eq!(printed(&out, &series), (lines(&[delete]), lines(&[delete, delete, wal, wal])));
    // The journal and the log were on the mounted device.
    for arm in series["variations"].as_array().unwrap() {
        for run in arm["runs"].as_array().unwrap() {
            assert!(run["flushes"].as_u64().unwrap() >= 20, "{run}");
        }
    }
    assert!(app.state() == before, "the folder has changed");
    assert_eq!(app.left_behind(), Vec::<PathBuf>::new());
    ledger.close().unwrap();
    drop(app);
}
