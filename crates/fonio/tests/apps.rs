//! Tests `fonio run app:…` with programs of this machine, and with programs from Debian.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fonio_testing::{Need, has, skip};

use super::{answer, fonio, text};

#[track_caller]
fn can_run() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs, Need::Namespace])
}

/// Writes the folder of an app with this definition after its name, title and text.
fn folder(dir: &Path, rest: &str) -> PathBuf {
    let folder = dir.join("own");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("name = \"own\"\ntitle = \"A test\"\nabout = \"A test.\"\n{rest}");
    fs::write(folder.join("app.toml"), text).unwrap();
    folder
}

fn run(folder: &Path, script: &str, more: &[&str]) -> Output {
    let out = folder.join("out");
    let _ = fs::remove_dir_all(&out);
    let app = format!("app:{}{script}", folder.display());
    let mut words = vec!["run", &app, "--on", "sd_a1", "--size", "256MiB", "--runs", "1", "-o"];
    words.push(out.to_str().unwrap());
    words.extend(more);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
    command
        .args(words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    let out = child.wait_with_output().unwrap();
    assert!(!leaves_mounts(pid), "{}", text(&out.stderr));
    out
}

fn leaves_mounts(pid: u32) -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains(&format!("/run/fonio/{pid}-"))
}

/// A database of this machine's SQLite, and a service that answers over a socket.
const OWN: &str = r#"
unit = "row"
# It fails if it runs twice.
prepare = [{ run = ["mkdir", "made"] }]
[services.listener]
run = ["python3", "$FILES/listen.py", "$RUN/socket"]
ready = { socket = "$RUN/socket" }
[scripts.session]
title = "Rows, each in a transaction of its own"
before = [{ start = "listener" }, { run = ["sh", "-c", "sleep 0 & true"] }]
steps = [
  { name = "rows", units = 20, run = ["sh", "$FILES/rows.sh", "$DATA/own.db", "$UNITS"] },
  { stop = "listener" },
]
[scripts.warm]
title = "Start"
steps = [{ start = "listener" }]
"#;
const LISTEN: &str = "import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
while True:
    server.accept()
";
const ROWS: &str = "sqlite3 $1 'CREATE TABLE t(a)'
for i in $(seq $2); do echo \"INSERT INTO t VALUES($i);\"; done | sqlite3 -bail $1
";

#[test]
fn an_own_app_is_measured_step_by_step() {
    if !can_run() || !has(&[Need::Sqlite3]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), OWN);
    fs::write(folder.join("listen.py"), LISTEN).unwrap();
    fs::write(folder.join("rows.sh"), ROWS).unwrap();
    let series = answer(&run(&folder, "", &["--scale", "0.5", "--json"]));
    assert_eq!(series["workload"], "app:own:session");
    let found = &series["variations"][0]["runs"][0];
    let steps: Vec<(&str, Option<u64>)> = found["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["name"].as_str().unwrap(), step["units"].as_u64()))
        .collect();
    assert_eq!(steps, [("rows", Some(10)), ("stop listener", None)]);
    // Each row needs at least a write of the journal, and one of the database.
    assert!(found["requests"].as_u64().unwrap() >= 20, "{found}");
    let recording = found["recording"].as_str().unwrap();
    let report = fonio(&["report", recording, "--json"]);
    let named = text(&report.stdout);
    assert!(named.contains("/run/fonio/data/own.db"), "{named}");
    // A program that has ended, and whose parent has too, needs no limit.
    let limited = run(&folder, "", &["--scale", "2", "--memory", "256MiB", "--cpu", "0.5"]);
    assert!(limited.status.success(), "{}", text(&limited.stderr));
    let warm = run(&folder, ":warm", &[]);
    let said = text(&warm.stdout);
    assert!(warm.status.success(), "{}", text(&warm.stderr));
    assert!(said.contains("start listener"), "{said}");
}

/// A background that waits for storage all the time.
const SAVES: &str = "name = 'saves'
title = 'A file saved every 10 ms'
[places]
data = 'the file'
[files.state]
place = 'data'
name = 'state-{n}'
[[prepare]]
do = 'write'
files = 'state'
size = '16KiB'
[[phase]]
name = 'save'
[[phase.thread]]
name = 'saver'
steps = [{ do = 'repeat', times = 100000, every = 0.01, steps = [{ do = 'overwrite', files = 'state', size = '16KiB', sync = 'end' }] }]
";

#[test]
fn the_waits_of_a_background_are_not_those_of_the_app() {
    if !can_run() || !has(&[Need::Sqlite3]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let saves = dir.path().join("saves.toml");
    fs::write(&saves, SAVES).unwrap();
    let saves = saves.to_str().unwrap();
    // It writes a little, and then waits for no storage at all.
    let idle = "prepare = [{ run = [\"mkdir\", \"made\"] }]\n[scripts.session]\ntitle = \"Little\"\nsteps = [{ name = \"idle\", \
                run = [\"sh\", \"-c\", \"echo a > made/a; sync made/a; sleep 3\"] }]\n";
    let of_app = folder(dir.path(), idle);
    let run = run(&of_app, "", &["--background", saves]);
    let said = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(said.contains("saves ran in the background for "), "{said}");
    assert!(said.contains("saves (background)"), "{said}");
    let verdict = said.split("What was found").next().unwrap();
    assert!(!verdict.contains("Storage is your problem"), "only the background waited: {said}");
    let out = of_app.join("out");
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    let found = &summary["variations"][0]["runs"][0];
    let bytes = |of: &str| found[of]["write_bytes"].as_u64().unwrap();
    assert!(bytes("own") >= 4096 && bytes("beside") > bytes("own"), "{found}");
    let report = fonio(&["report", found["recording"].as_str().unwrap(), "--json"]);
    let report = answer(&report);
    assert!(report.to_string().contains("/run/fonio/background/data/state-0"), "{report}");
    let programs = report["analysis"]["blocked"]["programs"].as_array().unwrap();
    let background = programs.iter().find(|program| program["name"] == "the background workload");
    assert_eq!(background.unwrap()["role"], "background");
}

/// A server behind a link, which answers over the link with the address of its client.
const BEHIND: &str = r#"
[services.server]
run = ["python3", "$FILES/server.py", "$SERVER"]
ready = { port = 8000 }
behind_link = true
[scripts.session]
title = "A connection over the link"
before = [{ start = "server" }]
steps = [{ run = ["python3", "$FILES/client.py", "$SERVER", "$DATA/said"] }, { run = ["sh", "$FILES/check.sh"] }]
"#;
const ADDRESS_SERVER: &str = "import socket, sys
server = socket.create_server((sys.argv[1], 8000))
while True:
    client, (address, _) = server.accept()
    client.sendall(address.encode())
    client.close()
";
const ADDRESS_CLIENT: &str = "import socket, sys
with socket.create_connection((sys.argv[1], 8000)) as client:
    said = client.recv(100).decode()
sys.exit(0 if said == ('198.18.0.1' if sys.argv[1] == '198.18.0.2' else '127.0.0.1') else said)
";

#[test]
fn a_server_of_an_app_is_behind_the_link() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(dir.path(), BEHIND);
    fs::write(folder.join("server.py"), ADDRESS_SERVER).unwrap();
    fs::write(folder.join("client.py"), ADDRESS_CLIENT).unwrap();
    // The rates of a phone's WiFi, as tc prints them.
    fs::write(
        folder.join("check.sh"),
        "set -e\ntc qdisc show dev near | grep 'tbf.*rate 4240Kbit'\n\
         nsenter --net=/proc/self/fd/9 -- tc qdisc show dev far | grep 'tbf.*rate 8800Kbit'\n",
    )
    .unwrap();
    let linked = run(&folder, "", &["--link", "wifi"]);
    assert!(linked.status.success(), "{}", text(&linked.stderr));
    fs::write(folder.join("check.sh"), "! ip link show dev near\n").unwrap();
    let plain = run(&folder, "", &[]);
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let without =
        self::folder(dir.path(), "[scripts.session]\ntitle = \"A test\"\nsteps = [{ run = [\"true\"] }]\n");
    let refused = run(&without, "", &["--link", "wifi"]);
    assert!(text(&refused.stderr).contains("the app own has no server behind a link; leave out --link"));
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn what_an_app_lacks_is_said() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let steps = |steps: &str| format!("[scripts.session]\ntitle = \"A test\"\nsteps = [{steps}]\n");
    let service = |run: &str, ready: &str| {
        let service = format!("[services.own]\nrun = {run}\nready = {ready}\nwithin_s = 1\n");
        format!("{service}{}", steps("{ start = \"own\" }"))
    };
    for (definition, script, said) in [
        (steps("{ run = [\"false\"] }"), "", "the app own: false: it failed (exit code 1)"),
        (
            steps("{ run = [\"sh\", \"-c\", \"echo lost; exit 7\"] }"),
            "",
            "exit code 7). Its last output:\nlost",
        ),
        (
            steps("{ run = [\"/no/such/program\"] }"),
            "",
            "this machine does not have the program /no/such/program",
        ),
        (steps("{ run = [\"true\"] }"), ":other", "the app own has no script `other`; it has session"),
        (steps("{ start = \"none\" }"), "", "steps[0] = none: the app has no such service"),
        (steps("{ run = [\"true\"], stop = \"own\" }"), "", "exactly one of start, stop and run"),
        (steps("{ run = [\"true\"], colour = 1 }"), "", "not an app"),
        (steps("{ run = [\"true\"], units = 3 }"), "", "a command with units needs $UNITS"),
        (
            format!("user = \"nobody-here\"\n{}", steps("{ run = [\"true\"] }")),
            "",
            "runs as the user nobody-here",
        ),
        (service("[\"sleep\", \"100\"]", "{ port = 4 }"), "", "own: it was not ready within 1 s"),
        (
            service("[\"sh\", \"-c\", \"echo gone\"]", "{ port = 4 }"),
            "",
            "own: it ended too early (exit code 0)",
        ),
        (
            steps("{ run = [\"sh\", \"-c\", \"head -c 1G /dev/zero >full\"] }"),
            "",
            "the device is full: use a larger one",
        ),
    ] {
        let out = run(&folder(dir.path(), &definition), script, &[]);
        let error = text(&out.stderr);
        assert!(error.contains(said), "{said}:\n{error}");
        assert_eq!(out.status.code(), Some(2), "{error}");
    }
    for (name, said) in [
        ("app:redsi", "the nearest name is `redis`"),
        ("app:./no/such/folder", "cannot read ./no/such/folder/app.toml"),
    ] {
        let error = text(&fonio(&["run", name, "--on", "sd_a1"]).stderr);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_killed_run_leaves_no_program() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // A service that leaves its process group, as daemons do.
    let marker = format!("31536{:04}", std::process::id() % 10_000);
    let definition = format!(
        "[services.own]\nrun = [\"setsid\", \"--wait\", \"sh\", \"-c\", \"touch $RUN/ready; sleep {marker}; true\"]\n\
         ready = {{ file = \"$RUN/ready\" }}\n\
         [scripts.session]\ntitle = \"A test\"\nbefore = [{{ start = \"own\" }}]\nsteps = [{{ run = [\"sleep\", \"{marker}\"] }}]\n"
    );
    let folder = folder(dir.path(), &definition);
    let mut killed = Vec::new();
    for signal in ["-KILL", "-INT"] {
        let out = folder.join("out");
        let _ = fs::remove_dir_all(&out);
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fonio"))
            .args(["run", &format!("app:{}", folder.display()), "--on", "sd_a1", "--size", "256MiB", "-o"])
            .arg(&out)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        assert!(
            said.lines().map_while(Result::ok).any(|line| line.starts_with("Running app:own:session once"))
        );
        wait_for(|| sleepers(&marker) == 2, "both programs run");
        killed.push(child.id());
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        wait_for(|| sleepers(&marker) == 0, "no program is left");
    }
    // The next start removes what the killed run left.
    let definition = "[scripts.session]\ntitle = \"A test\"\nsteps = [{ run = [\"true\"] }]\n";
    assert!(run(&self::folder(dir.path(), definition), "", &[]).status.success());
    assert!(!killed.into_iter().any(leaves_mounts));
}

/// Counts the programs that sleep for this many seconds.
fn sleepers(seconds: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| text(line) == format!("sleep\0{seconds}\0")).count()
}

fn wait_for(mut condition: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Real programs from Debian, for a few seconds each.
#[test]
fn three_apps_run() {
    if !can_run() || !has(&[Need::Debian]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for app in ["redis", "sqlite", "mosquitto"] {
        let out = dir.path().join(app);
        let mut words = vec!["run".to_owned(), format!("app:{app}"), "--on".to_owned(), "sd_a1".to_owned()];
        words.extend(["--scale", "0.1", "--runs", "1", "--write-back", "--json", "-o"].map(str::to_owned));
        words.push(out.display().to_string());
        let ran = fonio(&words);
        let error = text(&ran.stderr);
        if error.contains("archive cannot be") {
            skip(Need::Debian, error);
            return;
        }
        let series = answer(&ran);
        let found = &series["variations"][0]["runs"][0];
        assert!(found["requests"].as_u64().unwrap() > 10, "{app}: {found}");
        let report = super::json(&fonio(&["report", found["recording"].as_str().unwrap(), "--json"]));
        let unnamed = report["analysis"]["files"]["unknown_share"].as_f64().unwrap();
        assert!(unnamed < 0.02, "{app}: {unnamed}");
    }
}

/// A real program on a file system that most machines lack.
#[test]
fn an_app_runs_in_a_guest() {
    if !can_run() || !has(&[Need::Debian, Need::Guests]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut words = vec!["run", "app:sqlite", "--on", "sd_a1", "--fs", "f2fs", "--in", "lab:6.12"];
    words.extend(["--scale", "0.05", "--runs", "1", "--json", "-o", out.to_str().unwrap()]);
    let ran = fonio(&words);
    let error = text(&ran.stderr);
    if super::lab::CANNOT.iter().any(|why| error.contains(why)) && !ran.status.success() {
        skip(Need::Guests, error);
        return;
    }
    let series = answer(&ran);
    let found = &series["variations"][0]["runs"][0];
    assert!(found["requests"].as_u64().unwrap() > 10, "{found}");
    let report = super::json(&fonio(&["report", found["recording"].as_str().unwrap(), "--json"]));
    assert_eq!(report["analysis"]["diagnosis"]["program"], "sqlite3", "{}", report["analysis"]["diagnosis"]);

    let own = folder(dir.path(), "[scripts.session]\ntitle = \"A test\"\nsteps = [{ run = [\"true\"] }]\n");
    let refused = run(&own, "", &["--in", "lab:6.12"]);
    let error = text(&refused.stderr);
    assert!(error.contains("which a guest does not have: name packages in its app.toml"), "{error}");
}
