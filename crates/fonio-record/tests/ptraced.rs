//! Records the file-system calls of commands by ptrace, and compares them with what strace sees.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use fonio_core::meta::{LOST_CALLS, MAPPED_WRITES, SHOWS_CALLS, SHOWS_STATEMENTS};
use fonio_core::{Content, FileFlags, SqliteWrite};
use fonio_record::{CommandOutput, RecordError, RecordOptions, RecordSummary, record_by_ptrace};
use fonio_testing::{Need, skip, skip_without};

use crate::loop_ext4::Recorded;

/// Number and bytes of the successful calls with a name on a file.
type Counts = BTreeMap<(String, String), (u64, u64)>;

/// Records a shell script in a folder; `None` if this machine forbids ptrace.
fn record(folder: &Path, out: &Path, script: &str) -> Option<(RecordSummary, Recorded)> {
    let mut options = RecordOptions::new(out);
    options.command = Some(["sh", "-c", script].map(OsString::from).to_vec());
    options.setting.dir = Some(folder.to_owned());
    options.setting.output = CommandOutput::ToError;
    options.setting.environment = environment();
    options.overwrite = true;
    match record_by_ptrace(&options, &mut |_| ()) {
        Ok(summary) => {
            let rows = Recorded::read(&summary.out);
            Some((summary, rows))
        }
        Err(error @ (RecordError::NoPtrace { .. } | RecordError::NoSeccomp { .. })) => {
            skip(Need::Strace, error.to_string());
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Makes git's files independent of the time and of the user.
fn environment() -> Vec<(OsString, OsString)> {
    [
        ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}

/// The path below the folder of the test, without the random part of git's temporary names; `None` for a file
/// elsewhere.
fn normal(folder: &Path, path: &str) -> Option<String> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let path = path.strip_prefix(folder.to_str().unwrap())?.trim_start_matches('/');
    // mkstemp fills six places: `tmp_obj_aB3dE6`, `refs_X1y2Z3`, and `taB3dE6` for a test of symbolic links.
    if path.len() == ".git/taB3dE6".len() && path.starts_with(".git/t") {
        return Some(".git/t*".to_owned());
    }
    // The name of a pack that is being made contains the id of the process.
    if let Some((before, rest)) = path.split_once("/.tmp-") {
        return Some(format!("{before}/.tmp-*{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())));
    }
    Some(match path.rsplit_once('_') {
        Some((before, random)) if random.len() == 6 && path.contains(".git/") => format!("{before}_*"),
        _ => path.to_owned(),
    })
}

/// The calls that have a file, by name and file, and the others by name.
fn counts(folder: &Path, rows: &Recorded) -> Counts {
    let mut counts = Counts::new();
    for call in &rows.calls {
        let result = call.result.unwrap();
        let Some(path) = normal(folder, rows.path(call.file_id)) else { continue };
        if result < 0 {
            continue;
        }
        let count = counts.entry((call.name.clone(), path)).or_default();
        count.0 += 1;
        count.1 += if call.name.starts_with("open") { 0 } else { result as u64 };
    }
    counts
}

const TRACED: &str = "read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2,fsync,fdatasync,\
    syncfs,sync_file_range,fallocate,ftruncate,truncate,unlink,unlinkat,rename,renameat,renameat2,open,openat,creat,\
    sendfile,copy_file_range";

/// Runs the script under strace, and counts the calls in its output.
fn counts_of_strace(folder: &Path, out: &Path, script: &str) -> Counts {
    let prefix = out.join("strace");
    let status = Command::new("strace")
        .args(["-ff", "-y", "-qq", "-s", "0", "-e", "signal=none", "-e"])
        .arg(format!("trace={TRACED}"))
        .arg("-o")
        .arg(&prefix)
        .args(["sh", "-c", script])
        .current_dir(folder)
        .envs(environment())
        .stdout(std::io::stderr())
        .status()
        .unwrap();
    assert!(status.success());
    let mut counts = Counts::new();
    for entry in std::fs::read_dir(out).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        text.lines().for_each(|line| add_line(folder, line, &mut counts));
    }
    counts
}

fn add_line(folder: &Path, line: &str, counts: &mut Counts) {
    let Some((name, rest)) = line.split_once('(') else { return };
    let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
    let of_descriptor = |text: &str| Some(text.split_once('<')?.1.split_once('>')?.0.to_owned());
    let is_open = name.starts_with("open") || name == "creat";
    let path = if is_open {
        of_descriptor(result)
    } else if name.starts_with("unlink") || name.starts_with("rename") || name == "truncate" {
        if arguments.contains("AT_REMOVEDIR") {
            return;
        }
        let given = arguments.split('"').nth(1).unwrap_or_default();
        // The folder of unlinkat and renameat, such as `AT_FDCWD</tmp/x>`.
        let from = arguments.split('"').next().and_then(of_descriptor).map_or(folder.to_owned(), Into::into);
        Some(from.join(given).to_string_lossy().into_owned())
    } else if name == "copy_file_range" {
        arguments.split(", ").nth(2).and_then(of_descriptor)
    } else {
        of_descriptor(arguments)
    };
    let number = result.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let (Some(path), Ok(number)) = (path.and_then(|path| normal(folder, &path)), number.parse::<u64>())
    else {
        return;
    };
    let count = counts.entry((name.to_owned(), path)).or_default();
    count.0 += 1;
    count.1 += if is_open { 0 } else { number };
}

/// A program in Python with threads that write through SQLite and through files at the same time.
const THREADS: &str = "python3 -c '
import os, sqlite3, threading
def work(n):
    db = sqlite3.connect(f\"{n}.db\", isolation_level=None)
    db.execute(\"CREATE TABLE t(x)\")
    for x in range(10):
        db.execute(\"INSERT INTO t VALUES (?)\", (x,))
    with open(f\"{n}.log\", \"w\") as log:
        for x in range(10):
            log.write(\"line\\n\")
            log.flush()
            os.fsync(log.fileno())
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]'";

/// Programs that start each other by fork, vfork and exec, with redirections, appends, renames and deletions.
const SHELL: &str = "for i in 1 2 3; do
        head -c 70000 /dev/zero > a$i; cat a$i >> b; cp a$i c$i; mv c$i d$i; rm a$i
        (sh -c 'exec sh -c \"exec dd if=/dev/zero of=e bs=512 count=7 conv=fsync,notrunc 2>/dev/null\"')
    done
    truncate -s 100 b; sync d1; mkdir -p x/y; echo hello > ./x/../x/y/z; rm -r x
    echo gone > f; exec 3> f; rm f; echo late >&3; echo 'through a pipe' | cat > g";

const GIT: &str = "git init -q . && git config user.email a@b && git config user.name a && git config gc.auto 0 && \
    for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -q -m $i; done; git repack -a -d -q";

const SQLITE: &str = "for mode in DELETE TRUNCATE PERSIST WAL; do
    sqlite3 $mode.db \"PRAGMA journal_mode=$mode; CREATE TABLE t(x); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);
        BEGIN; UPDATE t SET x = 3; ROLLBACK; BEGIN; UPDATE t SET x = 4; COMMIT\"; done";

#[test]
fn the_calls_are_those_that_strace_sees() {
    skip_without!(Strace, Sqlite3, Python);
    let scratch = tempfile::tempdir().unwrap();
    let scratch = scratch.path().canonicalize().unwrap();
    for (name, script) in [("shell", SHELL), ("sqlite", SQLITE), ("threads", THREADS), ("git", GIT)] {
        let [ours, theirs, lines] = ["ours", "theirs", "lines"].map(|part| scratch.join(name).join(part));
        [&ours, &theirs, &lines].into_iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        let Some((summary, rows)) = record(&ours, &scratch.join("out"), script) else { return };
        assert_eq!(summary.command_exit, Some(0), "{name}");
        let mut expected = counts_of_strace(&theirs, &lines, script);
        let mut found = counts(&ours, &rows);
        if name == "git" {
            // git reads a file again if it changed in the same moment as the index.
            let is_fixed = |call: &str| !call.starts_with("open") && !call.contains("read");
            [&mut expected, &mut found]
                .into_iter()
                .for_each(|counts| counts.retain(|(call, _), _| is_fixed(call)));
        }
        assert!(expected.len() > 8, "{name}: strace saw {expected:?}");
        let differ: Vec<_> = (found.keys().chain(expected.keys()))
            .filter(|key| found.get(*key) != expected.get(*key))
            .map(|key| (key, found.get(key), expected.get(key)))
            .collect();
        assert!(differ.is_empty(), "{name}: (call and file, ours, strace): {differ:#?}");
    }
}

#[test]
fn a_recording_says_what_it_shows() {
    skip_without!(Sqlite3, Python);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    let script = format!(
        "{SQLITE}; python3 -c 'import mmap; f = open(\"mapped\", \"w+b\"); f.truncate(4096); mmap.mmap(f.fileno(), 4096); import os; os.mkdir(\"made\"); os.open(\"made\", os.O_RDONLY)'; exit 3"
    );
    let Some((summary, rows)) = record(&folder, &folder.join("out"), &script) else { return };
    assert_eq!((summary.command_exit, rows.meta.command_exit), (Some(3), Some(3)));
    let shows: &[&str] =
        if cfg!(target_arch = "x86_64") { &[SHOWS_CALLS, SHOWS_STATEMENTS] } else { &[SHOWS_CALLS] };
    assert_eq!(rows.meta.source.shows, shows);
    assert_eq!(rows.codes(), [MAPPED_WRITES]);
    assert!(rows.diagnostics[0].message.ends_with("/mapped"), "{:?}", rows.diagnostics);
    assert!(!rows.codes().contains(&LOST_CALLS));
    let marked = |mark| rows.calls.iter().filter(|call| call.sqlite_write == Some(mark)).count();
    // Each database has four committed transactions with writes: the table, two inserts, and the second update.
    assert_eq!(marked(SqliteWrite::WalCommit), 4);
    assert_eq!(marked(SqliteWrite::JournalEnd), 5);
    for (name, expected) in [("/DELETE.db", Content::SqliteDb), ("/WAL.db-wal", Content::SqliteWal)] {
        let named =
            rows.files.iter().filter(|row| row.path.as_ref().is_some_and(|path| path.ends_with(name)));
        let contents: Vec<Content> = named.map(|row| row.content).collect();
        assert_eq!(contents, [expected], "{name}");
    }
    let made =
        rows.calls.iter().filter(|call| call.file_flags.is_some_and(|flags| flags.contains(FileFlags::MADE)));
    // A folder that was opened in the moment in which it was made is not a file that `open` made.
    let made: Vec<&str> = made
        .map(|call| rows.path(call.file_id))
        .filter(|path| path.ends_with("/mapped") || path.ends_with("/made"))
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let python = rows.calls.iter().find(|call| rows.path(call.file_id).ends_with("/mapped")).unwrap();
    assert!(rows.comm(python.tid).starts_with("python"), "{}", rows.comm(python.tid));
    assert!(rows.calls.is_sorted_by_key(|call| (call.entered, call.tid)));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn statements_are_seen_in_threads_and_in_children() {
    skip_without!(Python);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    // A child of Python that never runs exec inherits the breakpoints.
    let forks = "python3 -c '
import os, sqlite3
def work(n):
    db = sqlite3.connect(f\"f{n}.db\", isolation_level=None)
    db.execute(\"CREATE TABLE f(x)\")
    for x in range(5):
        db.execute(\"INSERT INTO f VALUES (?)\", (x,))
    assert len(db.execute(\"SELECT * FROM f\").fetchall()) == 5
work(1)
if os.fork() == 0:
    work(2)
    os._exit(0)
assert os.wait()[1] == 0'";
    let Some((summary, rows)) = record(&folder, &folder.join("out"), &format!("{THREADS}; {forks}")) else {
        return;
    };
    assert_eq!(summary.command_exit, Some(0));
    if rows.codes().contains(&"no-statements") {
        return skip(Need::Python, rows.diagnostics[0].message.clone());
    }
    let of = |text: &str| {
        let rows = rows.statements.iter().filter(|row| row.text.as_deref() == Some(text));
        let mut connections: Vec<_> = rows.clone().map(|row| row.connection.unwrap()).collect();
        connections.sort_unstable();
        connections.dedup();
        (rows.map(|row| row.steps).sum::<u64>(), connections.len())
    };
    assert_eq!(of("INSERT INTO t VALUES (?)"), (40, 4));
    assert_eq!(of("INSERT INTO f VALUES (?)"), (10, 2));
    assert_eq!(of("SELECT * FROM f"), (12, 2));
    let commits = |file: &str| {
        let deleted =
            rows.calls.iter().filter(|call| call.name.starts_with("unlink") && call.result == Some(0));
        deleted.filter(|call| rows.path(call.file_id).ends_with(file)).collect::<Vec<_>>()
    };
    // Each commit deletes the journal while the thread steps the statement.
    assert_eq!(commits("/f2.db-journal").len(), 6);
    for call in commits("/f2.db-journal") {
        let made =
            rows.statements.iter().rfind(|row| row.tid == call.tid && row.entered <= call.entered).unwrap();
        assert!(made.exited >= call.exited, "{call:?} {made:?}");
        assert!(made.text.as_deref().is_some_and(|text| text.contains(" f")), "{made:?}");
    }
}

#[test]
fn twenty_runs_have_the_same_counts() {
    skip_without!(Sqlite3, Python);
    let scratch = tempfile::tempdir().unwrap();
    let mut first: Option<Counts> = None;
    for run in 0..20 {
        let folder = scratch.path().canonicalize().unwrap().join(run.to_string());
        std::fs::create_dir(&folder).unwrap();
        let script = format!("{SQLITE}; {THREADS}");
        let Some((_, rows)) = record(&folder, &scratch.path().join("out"), &script) else { return };
        let counts = counts(&folder, &rows);
        assert_eq!(*first.get_or_insert_with(|| counts.clone()), counts, "run {run}");
    }
}

#[test]
fn processes_that_the_command_leaves_behind_are_ended() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    let Some((summary, rows)) =
        record(&folder, &folder.join("out"), "sleep 300 & echo $! > pid; kill -STOP $!; exit 0")
    else {
        return;
    };
    assert_eq!(summary.command_exit, Some(0));
    assert_eq!(rows.codes(), ["killed-processes"]);
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    // Its parent, the first process of the system, may not have waited for it yet.
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    assert!(status.is_empty() || status.contains("State:\tZ"), "{status}");
}

#[test]
fn a_command_that_cannot_be_run_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let record = |program: &Path| {
        let mut options = RecordOptions::new(scratch.path().join("out"));
        options.command = Some(vec![program.into()]);
        record_by_ptrace(&options, &mut |_| ())
    };
    let missing = record(Path::new("/no/such/program")).expect_err("there is no such program");
    assert!(matches!(missing, RecordError::Command { .. }), "{missing:?}");
    // The shell runs a script without a first line.
    let script = scratch.path().join("script");
    fonio_testing::write_program(&script, "exit 5\n");
    match record(&script) {
        Ok(summary) => assert_eq!(summary.command_exit, Some(5)),
        Err(error) => skip(Need::Strace, error.to_string()),
    }
}
