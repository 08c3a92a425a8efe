//! Tests `fonio ci` with real programs: a baseline, a regression, users without privileges, and ends by signals.

mod block;

use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use fonio_testing::{Need, skip, skip_without};

use super::*;

/// A folder for one test, which every user can enter and write.
fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
    dir
}

/// The options of setpriv for a user without any privileges.
const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

fn suite() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ci/orders.py").display().to_string()
}

/// Runs `fonio ci` in a folder.
fn ci<A: AsRef<OsStr>>(dir: &Path, words: &[A]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    command.arg("ci").args(words).current_dir(dir).stdin(Stdio::null());
    command.env("NO_COLOR", "1").env("COLUMNS", "200").output().expect("fonio starts")
}

/// Whether the machine allows ptrace; skips the test if it does not.
fn is_possible(dir: &Path) -> bool {
    let out = ci(dir, &["--budget", "all.writes>=0", "--", "true"]);
    let is_possible = !text(&out.stderr).contains("does not allow");
    if !is_possible {
        skip(Need::Strace, text(&out.stderr));
    }
    is_possible
}

#[track_caller]
fn ended(out: &Output, code: i32) -> (String, String) {
    let (told, errors) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{told}\n{errors}");
    (told, errors)
}

#[test]
fn a_regression_is_found_and_its_payer_is_named() {
    skip_without!(Python);
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let suite = suite();
    let run = |options: &[&str], mode: &str| {
        let words =
            [&["--per", "order=lines:order placed"], options, &["--", "python3", &suite, mode]].concat();
        ci(dir, &words)
    };
    let (_, errors) = ended(&run(&[], "WAL"), 3);
    assert!(errors.contains("There is no baseline fonio-baseline.json"), "{errors}");
    let (told, _) = ended(&run(&["--update"], "WAL"), 0);
    assert_eq!(told.matches("order placed").count(), 20, "the output of two runs: {told}");
    let baseline = fs::read_to_string(dir.join("fonio-baseline.json")).expect("a baseline");
    let read: Value = serde_json::from_str(&baseline).expect("JSON");
    assert_eq!(read["work"], serde_json::json!({"name": "order", "count": 10}));
    assert_eq!(read["counts"]["database[./shop.db].transactions"], 12);
    assert_eq!(read["counts"]["file[./bill-*.txt].written_bytes"], 11);
    assert!(read.get("varying").is_none(), "every count repeats exactly: {baseline}");

    for _ in 0..3 {
        let (told, _) = ended(&run(&[], "WAL"), 0);
        assert!(told.contains("as in the baseline"), "{told}");
    }
    let out = run(&["--comment", "comment.md", "-o", "kept"], "DELETE");
    let (told, _) = ended(&out, 1);
    assert!(told.contains("Each order costs") && told.contains("; was "), "{told}");
    let comment = fs::read_to_string(dir.join("comment.md")).expect("a comment");
    assert!(comment.starts_with("# Storage cost of") && comment.contains("**Each order costs"), "{comment}");
    assert!(comment.contains("the file `./shop.db-journal`"), "{comment}");
    if cfg!(target_arch = "x86_64") {
        assert!(comment.contains("the statement `INSERT INTO orders VALUES (?, ...)`"), "{comment}");
        assert_eq!(read["counts"]["statement[INSERT INTO orders VALUES (?, ...)].transactions"], 10);
    }
    // The recording is one like any other.
    let report = fonio(&["report", dir.join("kept").to_str().expect("text"), "--all"]);
    let report = text(&report.stdout);
    assert!(report.contains("What does an SQLite transaction cost?"), "{report}");

    let (_, errors) = ended(&ci(dir, &["--", "python3", &suite]), 125);
    assert!(errors.contains("the baseline counts `order`, but this run counts no unit"), "{errors}");
    let (told, _) = ended(&run(&["--json"], "DELETE"), 1);
    let json: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert!(json["grown"].as_array().is_some_and(|grown| grown.iter().any(|row| row["name"] == "all.syncs")));
}

#[test]
fn budgets_need_no_baseline() {
    skip_without!(Python);
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let suite = suite();
    let run = |budget: &str| {
        ci(dir, &["--per", "order=transactions:*/shop.db", "--budget", budget, "--", "python3", &suite])
    };
    let (told, _) = ended(&run("order.syncs<=3"), 0);
    assert!(told.contains("Budget kept: order.syncs is"), "{told}");
    let (told, _) = ended(&run("order.written_bytes<=1KiB"), 1);
    assert!(told.contains("Budget exceeded: order.written_bytes is"), "{told}");
    ended(&run("file[./absent].writes<=0"), 0);
    let (_, errors) = ended(&run("order.flights<=1"), 125);
    assert!(errors.contains("order.flights"), "{errors}");
}

#[test]
fn the_output_of_the_command_is_not_counted_wherever_it_goes() {
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    fs::write(dir.join("data"), "").expect("it is written");
    let words = ["--update", "--", "sh", "-c", "echo line; echo error >&2; echo data >> data"];
    ended(&ci(dir, &words), 0);
    let baseline = dir.join("fonio-baseline.json");
    let counts = || {
        let text = fs::read_to_string(&baseline).expect("a baseline");
        serde_json::from_str::<Value>(&text).expect("JSON")["counts"].clone()
    };
    let to_pipes = counts();
    fs::remove_file(&baseline).expect("it is there");
    let log = || fs::File::options().create(true).append(true).open(dir.join("log")).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    command.arg("ci").args(words).current_dir(dir).stdin(Stdio::null()).stdout(log()).stderr(log());
    assert!(command.status().expect("fonio starts").success());
    assert!(fs::read_to_string(dir.join("log")).expect("a log").contains("line\n"));
    assert_eq!(counts(), to_pipes);
    assert_eq!(to_pipes["file[./data].writes"], 1);
}

#[test]
fn the_exit_code_of_a_failing_command_wins() {
    let dir = folder();
    if !is_possible(dir.path()) {
        return;
    }
    let (_, errors) = ended(&ci(dir.path(), &["--", "sh", "-c", "exit 7"]), 7);
    assert!(errors.contains("The command failed (exit code 7)"), "{errors}");
    ended(&ci(dir.path(), &["--", "sh", "-c", "kill -9 $$"]), 137);
    ended(&ci(dir.path(), &["--", "/no/such/program"]), 127);
    ended(&ci(dir.path(), &["--per", "order=lines:nothing", "--", "true"]), 125);
    fs::write(dir.path().join("fonio-baseline.json"), "{").expect("a file");
    let (_, errors) = ended(&ci(dir.path(), &["--", "true"]), 125);
    assert!(errors.contains("fonio-baseline.json is not a baseline"), "{errors}");
}

/// Waits until a file has a line, and returns the number in it.
fn number_in(path: &Path) -> u32 {
    let began = Instant::now();
    loop {
        let found = fs::read_to_string(path).unwrap_or_default();
        if let Some(number) = found.strip_suffix('\n').and_then(|text| text.trim().parse().ok()) {
            return number;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{} was not written", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has ended; its parent may not have waited for it.
fn has_ended(pid: u32) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.is_empty() || status.contains("State:\tZ") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn no_process_is_left_stopped_or_running_when_fonio_ends() {
    let dir = folder();
    if !is_possible(dir.path()) {
        return;
    }
    for (name, to_group) in [("KILL", false), ("INT", true), ("TERM", false)] {
        let dir = dir.path().join(name);
        fs::create_dir(&dir).expect("a folder");
        // The grandchild ignores polite signals, and one child is stopped.
        let script = "echo $$ > shell
            sh -c 'trap \"\" TERM INT; while :; do echo x > busy; done' & echo $! > child
            sleep 300 & echo $! > stopped; kill -STOP $!; sleep 300";
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        command.args(["ci", "--", "sh", "-c", script]).current_dir(&dir).process_group(0);
        let mut fonio = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("fonio starts");
        let pids = ["shell", "child", "stopped"].map(|file| number_in(&dir.join(file)));
        let target = if to_group { format!("-{}", fonio.id()) } else { fonio.id().to_string() };
        let sent = Command::new("kill").args(["-s", name, "--", &target]).status().expect("kill runs");
        assert!(sent.success());
        let status = fonio.wait().expect("fonio ends");
        let expected = match name {
            "INT" => Some(130),
            "TERM" => Some(143),
            _ => None,
        };
        assert_eq!(status.code(), expected, "after {name}");
        for pid in pids {
            assert!(has_ended(pid), "process {pid} still runs after {name}");
        }
    }
}

#[test]
fn a_user_without_privileges_gets_all_counts() {
    skip_without!(Root, Python);
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let program = dir.join("fonio");
    fonio_testing::copy_program(env!("CARGO_BIN_EXE_fonio"), &program);
    fs::copy(suite(), dir.join("orders.py")).expect("a copy");
    let of_root =
        ended(&ci(dir, &["--json", "--budget", "all.writes>=0", "--", "python3", "orders.py"]), 0).0;
    let words = ["ci", "--json", "--budget", "all.writes>=0", "--", "python3", "orders.py"];
    let without_privileges = |wrapper: &[&str]| {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(&program).args(words).current_dir(dir).env("HOME", "/nonexistent");
        command.stdin(Stdio::null()).output().expect("the program starts")
    };
    let setpriv = [&["setpriv"], &NOBODY[..]].concat();
    if Command::new("setpriv")
        .args(NOBODY)
        .arg("python3")
        .arg("-c")
        .arg("import sqlite3")
        .status()
        .is_ok_and(|s| s.success())
    {
        let of_user = ended(&without_privileges(&setpriv), 0).0;
        let counts = |told: &str| serde_json::from_str::<Value>(told).expect("JSON")["counts"].clone();
        assert_eq!(counts(&of_user), counts(&of_root));
    } else {
        fonio_testing::skip_part(Need::Python, "python3 cannot be run by another user");
    }
    // The first process of a container, with its own users, mounts and processes.
    let namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"];
    if Command::new("unshare")
        .args(&namespaces[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        let told = ended(&without_privileges(&namespaces), 0).0;
        assert!(told.contains("\"database[./shop.db].transactions\": 12"), "{told}");
    } else {
        fonio_testing::skip_part(Need::Namespace, "namespaces cannot be created");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_system_that_forbids_tracing_is_an_error_with_a_way_out() {
    skip_without!(Python);
    let dir = folder();
    if !is_possible(dir.path()) {
        return;
    }
    let refusing = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ci/refusing.py");
    for (number, expected) in [("101", "does not allow ptrace"), ("317", "does not allow seccomp filters")] {
        let mut command = Command::new("python3");
        command.arg(&refusing).args([number, env!("CARGO_BIN_EXE_fonio"), "ci", "--", "true"]);
        let out = command.current_dir(dir.path()).output().expect("python starts");
        let (_, errors) = ended(&out, 125);
        assert!(errors.contains(expected), "{number}: {errors}");
    }
}

/// The files that other systems use.
fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/ci").join(name)
}

/// Returns a command with this fonio as `fonio`.
fn with_fonio(program: &str, dir: &Path) -> Command {
    let bin = dir.join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).expect("a folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fonio"), bin.join("fonio")).expect("a link");
    }
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(dir).env("PATH", format!("{}:{path}", bin.display())).stdin(Stdio::null());
    command
}

#[test]
fn the_plugin_for_pytest_runs_the_tests_under_fonio() {
    skip_without!(Python);
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let has_pytest = with_fonio("python3", dir).args(["-m", "pytest", "--version"]).output();
    if !has_pytest.is_ok_and(|out| out.status.success()) {
        return skip(Need::Python, "python3 has no package pytest");
    }
    let test = "import sqlite3\ndef test_order(tmp_path):\n    db = sqlite3.connect(tmp_path / 'x.db')\n    \
                db.execute('CREATE TABLE t(x)')\n    db.execute('INSERT INTO t VALUES (1)')\n    db.commit()\n";
    fs::write(dir.join("test_order.py"), test).expect("a file");
    fs::copy(package("pytest_fonio.py"), dir.join("pytest_fonio.py")).expect("a copy");
    // The first run fills caches. Its temporary folder is not one of the three that pytest keeps.
    let temporary = ["first", "later"].map(|name| dir.join(name));
    temporary.iter().for_each(|folder| fs::create_dir(folder).expect("a folder"));
    let run = |arguments: Option<&str>| {
        let mut command = with_fonio("python3", dir);
        command.args(["-m", "pytest", "-q", "-p", "pytest_fonio"]);
        command.args(arguments.map(|arguments| format!("--fonio={arguments}")));
        command
            .env("PYTHONPATH", dir)
            .env("TMPDIR", &temporary[usize::from(arguments.is_some())])
            .output()
            .expect("python starts")
    };
    let (told, _) = ended(&run(None), 0);
    assert!(!told.contains("costs"), "without the option, pytest runs as usual: {told}");
    let (told, _) = ended(&run(Some("--update --per test=1")), 0);
    assert!(told.contains("1 passed") && told.contains("Each test costs"), "{told}");
    let (told, _) = ended(&run(Some("--per test=1")), 0);
    assert!(told.contains("as in the baseline"), "{told}");
    let baseline = fs::read_to_string(dir.join("fonio-baseline.json")).expect("a baseline");
    assert!(baseline.contains("pytest-of-*/pytest-*/test_order0/x.db].transactions"), "{baseline}");
}

/// Returns the shell lines of a YAML file: the value at a path of keys. `None` without PyYAML.
fn lines_of(file: &Path, keys: &str) -> Option<String> {
    let program = format!("import sys, yaml; print(yaml.safe_load(open(sys.argv[1])){keys})");
    let out = Command::new("python3").args(["-c", &program]).arg(file).output().expect("python starts");
    if text(&out.stderr).contains("No module named 'yaml'") {
        skip(Need::Python, "python3 has no package yaml");
        return None;
    }
    assert!(out.status.success(), "{}", text(&out.stderr));
    Some(text(&out.stdout))
}

#[test]
fn the_lines_of_the_action_and_of_the_template_run() {
    skip_without!(Python);
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let Some(action) = lines_of(&package("action.yml"), "['runs']['steps'][0]['run']") else { return };
    let Some(template) = lines_of(&package("gitlab.yml"), "['.fonio-ci']['script'][0]") else { return };
    let suite = suite();
    let update = ci(dir, &["--update", "--", "python3", &suite]);
    ended(&update, 0);
    for (shell, lines, comment) in [("bash", &action, "fonio.md"), ("sh", &template, "fonio.md")] {
        for (mode, budget, code) in [("WAL", "", 0), ("DELETE", "", 1), ("WAL", "--budget 'all.syncs<=1'", 1)]
        {
            let _ = fs::remove_file(dir.join(comment));
            let mut command = with_fonio(shell, dir);
            command.args(["-e", "-c", lines]).env("FONIO_COMMAND", format!("python3 {suite} {mode}"));
            command.env("FONIO_BASELINE", "fonio-baseline.json").env("FONIO_ARGUMENTS", budget);
            command.env("RUNNER_TEMP", dir).env("GITHUB_STEP_SUMMARY", dir.join("summary.md"));
            ended(&command.output().expect("the shell starts"), code);
            let told = fs::read_to_string(dir.join(comment)).expect("a comment");
            assert!(told.starts_with("# Storage cost of"), "{told}");
        }
    }
    let summary = fs::read_to_string(dir.join("summary.md")).expect("a summary");
    assert_eq!(summary.matches("# Storage cost of").count(), 3);
    // The second step of the action hands the comment to `gh`.
    let Some(step) = lines_of(&package("action.yml"), "['runs']['steps'][1]['run']") else { return };
    let mut command = with_fonio("bash", dir);
    let gh = dir.join("bin/gh");
    fonio_testing::write_program(&gh, "#!/bin/sh\necho \"$@\" > gh.txt\n");
    command
        .args(["-e", "-c", &step])
        .env("RUNNER_TEMP", dir)
        .env("FONIO_PULL_REQUEST", "https://example.com/1");
    ended(&command.output().expect("bash starts"), 0);
    let given = fs::read_to_string(dir.join("gh.txt")).expect("what gh was given");
    assert!(given.starts_with("pr comment https://example.com/1 --body-file "), "{given}");
}
