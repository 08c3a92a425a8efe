//! Tests `fonio run` and `fonio fix` on real and emulated devices.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fonio_core::{Mark, RowSink, ignore_rows};
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
use fonio_recording::{Recording, Tables};
use fonio_testing::{Need, has, skip, skip_part};
use fonio_workload::definition::Workload;
use serde_json::Value;

use super::{answer, fonio, json, lines, split, text};

#[track_caller]
fn can_emulate() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs])
}

/// Lists the folders that runs left behind in `dir`.
fn left_behind(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("fonio-run-"))
        .collect()
}

/// Between two recordings, the series must handle signals, because the recorder does not.
#[test]
fn ctrl_c_between_two_runs_leaves_nothing() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fonio"))
        .args(["run", "maps", "--on", "sd_a2", "--scale", "0.02", "--pace", "0", "--runs", "50", "-o"])
        .arg(dir.path().join("runs"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.starts_with("[3/50]")), "the third run begins");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let last = said.last().unwrap_or_default();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{last}");
    assert_eq!(last, "fonio: interrupted");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&format!("/run/fonio/{pid}-")), "{mounts}");
    let left = fs::read_dir("/run/fonio").unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(&format!("{pid}-"))));
}

#[derive(Default)]
struct Marks(Vec<Mark>);

impl RowSink for Marks {
    fn mark(&mut self, row: &Mark) -> std::io::Result<()> {
        self.0.push(row.clone());
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, diagnostic,
        settled
    }
}

#[test]
fn lists_name_what_there_is() {
    assert!(text(&fonio(&["run"]).stdout).contains("webbench"));
    let workloads = json(&fonio(&["run", "--json"]));
    assert!(workloads.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "webbench")));
    let screen = text(&fonio(&["fix"]).stdout);
    // Other tests have loop devices at the same time.
    let of_loops = 2 * screen.matches("/dev/loop").count();
    assert!(screen.contains("Fixes that suit this machine:"), "{screen}");
    assert!(screen.lines().count() <= 24 + of_loops, "{screen}");
    assert!(screen.contains("a unit that you name") && screen.contains("io-class"), "{screen}");
    let fixes = text(&fonio(&["fix", "--all"]).stdout);
    assert!(fixes.contains("wal-normal") && fixes.contains("never the database"), "{fixes}");
    assert!(
        fixes.contains("\nUnits and containers\n")
            && text(&fonio(&["fix", "--help"]).stdout).contains("io-class")
    );
    let needs = text(&fonio(&["fix", "show", "io-class"]).stdout);
    assert!(
        needs.contains("bfq, mq-deadline or smartio") && needs.contains("fonio fix apply io-class UNIT"),
        "{needs}"
    );
    let shown = json(&fonio(&["fix", "show", "io-class", "--json"]));
    assert_eq!(shown["of"], "unit");
    let json = json(&fonio(&["fix", "--json"]));
    assert!(json["fixes"].as_array().is_some_and(|fixes| fixes.iter().any(|fix| fix["of"] == "unit")));
    let safe = text(&fonio(&["fix", "--all", "--safe"]).stdout);
    assert!(!safe.contains("db-in-ram"), "{safe}");
}

#[test]
fn what_does_not_exist_is_named() {
    let table = include_str!("refused_calls.txt");
    for (line, says) in lines(table).map(|line| line.split_once(" | ").expect("two columns")) {
        let arguments = split(line);
        let out = fonio(&arguments);
        // With `run`, unlike with the other commands, the words after `--` are not a command.
        let code = if arguments.contains(&"--") && arguments[0] != "run" { 125 } else { 2 };
        assert_eq!(out.status.code(), Some(code), "{line}");
        assert!(text(&out.stderr).contains(says), "{line}: {}", text(&out.stderr));
    }
}

#[test]
fn what_the_kernel_lacks_is_refused_before_anything_is_measured() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("runs");
    let out = out.to_str().unwrap();
    let refused = |what: &[&str], lacks: &str, guest: Option<String>| {
        let run = fonio(&[what, &["-o", out]].concat());
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with("fonio: this kernel (") && said.contains(&format!(" has no {lacks}")),
            "{said}"
        );
        assert_eq!(said.trim().split_once("; in a guest: ").map(|(_, line)| line.to_owned()), guest);
        assert!(!Path::new(out).exists(), "nothing was begun");
    };
    for filesystem in Filesystem::ALL.iter().filter(|filesystem| filesystem.check_kernel().is_err()) {
        let name = filesystem.to_string();
        let both = format!("ext4,{name}");
        let guest = |words: &str| Some(format!("fonio {words} -o {out} --in lab:6.12"));
        refused(
            &["run", "webbench", "--on", "ridata", "--fs", &both],
            &name,
            guest(&format!("run webbench --on ridata --fs {both}")),
        );
        if ["f2fs", "nilfs2"].contains(&name.as_str()) {
            let words = ["fix", "prove", &name, "webbench", "--on", "ridata"];
            refused(&words, &name, guest(&words.join(" ")));
        }
    }
    if fonio_host::check_scheduler("no-such").is_ok() {
        return skip_part(Need::Scheduler, "no device shows which schedulers this kernel has");
    }
    let words = ["run", "webbench", "--on", "ridata", "--scheduler", "none,no-such"];
    refused(&words, "scheduler no-such", None);
}

/// Returns the names of the setups, with the file system and the scheduler from each setup's first recording.
fn recorded(series: &Value) -> Vec<[String; 3]> {
    let variations = series["variations"].as_array().unwrap().iter();
    variations
        .map(|variation| {
            let name = variation["name"].as_str().unwrap().to_owned();
            let recording = variation["runs"][0]["recording"].as_str().unwrap();
            let recording = Recording::open(Path::new(recording)).unwrap();
            let meta = recording.meta();
            let disk = meta.devices.iter().find(|device| !device.mounts.is_empty()).unwrap();
            [name, disk.mounts[0].fs.clone(), disk.scheduler.clone().unwrap()]
        })
        .collect()
}

#[test]
fn file_systems_and_schedulers_form_a_matrix() {
    if !can_emulate() {
        return;
    }
    if let Err(error) = fonio_host::check_scheduler("mq-deadline") {
        return skip(Need::Scheduler, error);
    }
    let dir = tempfile::tempdir().unwrap();
    let common = ["run", "maps", "--scale", "0.02", "--pace", "0", "--fs", "ext4,ext3", "--json", "-o"];
    let out = dir.path().join("emulated");
    let setup = ["--on", "sd_a2", "--size", "64MiB", "--scheduler", "none,mq-deadline", "--runs", "1"];
    let run = fonio(&[&common[..], &[out.to_str().unwrap()], &setup].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let expected = [
        ["sd_a2 with ext4 and none", "ext4", "none"],
        ["sd_a2 with ext4 and mq-deadline", "ext4", "mq-deadline"],
        ["sd_a2 with ext3 and none", "ext3", "none"],
        ["sd_a2 with ext3 and mq-deadline", "ext3", "mq-deadline"],
    ];
    assert_eq!(recorded(&json(&run)), expected);

    // Every run formats the blank block device again. After the series, the former scheduler of the device is
    // restored.
    let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
    let backing = dir.path().join("image");
    fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).unwrap();
    device.queue().set_scheduler("none").unwrap();
    let node = device.path().to_str().unwrap().to_owned();
    let out = dir.path().join("device");
    let setup = ["--on", &node, "--scheduler", "mq-deadline", "--runs", "2"];
    let run = fonio(&[&common[..], &[out.to_str().unwrap()], &setup].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let named = |filesystem: &str| {
        [format!("{node} with {filesystem}"), filesystem.to_owned(), "mq-deadline".to_owned()]
    };
    assert_eq!(recorded(&json(&run)), [named("ext4"), named("ext3")]);
    assert_eq!(device.queue().schedulers().unwrap().0, "none");
    // After the first series, the device contains data.
    let again = dir.path().join("again");
    let run = fonio(&[&common[..], &[again.to_str().unwrap()], &setup].concat());
    assert_eq!(run.status.code(), Some(2), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("add --erase"), "{}", text(&run.stderr));
    device.detach(&mut ledger).unwrap();
}

#[test]
fn a_workload_on_an_emulated_card_with_and_without_a_fix() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("runs");
    let line =
        "run webbench --on sd_a2 --size 256MiB --scale 0.02 --runs 2 --fix wal-normal,db-in-ram --json -o";
    let run = fonio(&[&split(line)[..], &[out.to_str().unwrap()]].concat());
    let series = answer(&run);
    let variations = series["variations"].as_array().unwrap();
    let names: Vec<&str> = variations.iter().map(|variation| variation["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sd_a2", "sd_a2, wal-normal", "sd_a2, db-in-ram"]);
    let requests = |at: usize| variations[at]["runs"][0]["requests"].as_u64().unwrap();
    assert!(requests(0) > requests(1), "a write-ahead log must need fewer requests");
    assert!(requests(1) > requests(2), "databases in memory must need even fewer requests");
    for variation in variations {
        for run in variation["runs"].as_array().unwrap() {
            let recording = run["recording"].as_str().unwrap();
            let report = fonio(&["report", recording, "--json"]);
            assert!(report.status.success(), "{}", text(&report.stderr));
            // The recording has a mark for the workload's phase and a mark for a page: at this scale, one
            // page of fifty remains.
            let recording = Recording::open(Path::new(recording)).unwrap();
            let mut marks = Marks::default();
            recording.replay(&mut marks, Tables::ALL).unwrap();
            let mut names: Vec<&str> = marks.0.iter().map(|mark| mark.name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["browse", "command", "page"]);
            for mark in &marks.0 {
                let (began, ended) = (recording.meta().began, recording.meta().ended);
                assert!(
                    began <= Some(mark.at) && mark.until <= ended && mark.until > Some(mark.at),
                    "{mark:?}"
                );
            }
        }
    }
}

fn mount_options(dir: &Path) -> String {
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let dir = dir.to_str().unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(1) == Some(dir));
    line.unwrap_or_else(|| panic!("{dir} is not mounted:\n{table}")).to_owned()
}

/// A fix is tested with the user's command on the user's mount. The mount's former options are restored after
/// the last round, after a command that fails and, after `kill -9`, at the next start.
#[test]
fn a_fix_is_tried_with_a_command_and_taken_back() {
    if !can_emulate() || !has(&[Need::Mkfs]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
    let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default()).unwrap();
    Filesystem::Ext4.make(device.path()).unwrap();
    let (mounted, _) = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "").unwrap();
    let before = mount_options(&mounted);
    let out = dir.path().join("runs");
    let prove = |script: &str, out: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        command.args(["fix", "prove", "commit-30s", "--json", "--runs", "2", "--on"]).arg(&mounted);
        command.args(["--prepare", "echo again >> marks", "-o"]).arg(out).args(["--", "sh", "-c", script]);
        command.current_dir(&mounted);
        command
    };
    // The command finds the mount option of the fix only in the runs with the fix.
    let script =
        "grep -q commit=30 /proc/mounts && echo with >> marks; dd if=/dev/zero of=f bs=4k count=9 conv=fsync";
    let proved = prove(script, &out).output().unwrap();
    assert!(proved.status.success(), "{}", text(&proved.stderr));
    assert_eq!(
        fs::read_to_string(mounted.join("marks")).unwrap(),
        "again\nagain\nagain\nwith\nagain\nwith\nagain\n",
        "{}",
        text(&proved.stderr)
    );
    let series = json(&proved);
    for variation in series["variations"].as_array().unwrap() {
        for run in variation["runs"].as_array().unwrap() {
            assert!(
                run["wall_s"].as_f64().unwrap() > 0.0 && run["write_bytes"].as_u64().unwrap() >= 36864,
                "{run}"
            );
        }
    }
    assert_eq!(mount_options(&mounted), before);

    let failed =
        prove("grep -q commit=30 /proc/mounts && exit 3; true", &dir.path().join("failed")).output().unwrap();
    assert_eq!(failed.status.code(), Some(3));
    assert!(text(&failed.stderr).contains("settings are restored: exit code 3"), "{}", text(&failed.stderr));
    assert_eq!(mount_options(&mounted), before);

    let script = "grep -q commit=30 /proc/mounts && exec sleep 100; true";
    let mut killed = prove(script, &dir.path().join("killed"))
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut tries = 0;
    while !mount_options(&mounted).contains("commit=30") {
        std::thread::sleep(std::time::Duration::from_millis(20));
        tries += 1;
        assert!(tries < 3000, "the fix was not applied within a minute");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(mount_options(&mounted).contains("commit=30"));
    prove("exit 3", &dir.path().join("next")).output().unwrap();
    assert_eq!(mount_options(&mounted), before);
    ledger.close().unwrap();
}

#[test]
fn a_run_in_a_folder_leaves_nothing_there() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (place, out) = (dir.path().join("place"), dir.path().join("runs"));
    fs::create_dir(&place).unwrap();
    let [on, to] = [&place, &out].map(|path| path.to_str().unwrap());
    let run = fonio(&["run", "webbench", "--on", on, "--scale", "0.02", "--runs", "1", "-o", to]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(
        text(&run.stdout).lines().next().is_some_and(|line| line.contains("webbench on ")),
        "{}",
        text(&run.stdout)
    );
    assert!(left_behind(&place).is_empty());
    assert!(out.join("summary.json").exists());
}

/// Returns the mean time of one part of the launch, in seconds.
fn part(series: &Value, at: usize, name: &str) -> f64 {
    let parts = series["places"][at]["parts"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap()["mean_s"].as_f64().unwrap()
}

fn launch(arguments: &[&str], command: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("runs");
    let run =
        fonio(&[&["launch", "--json", "-o", out.to_str().unwrap()], arguments, &["--"], command].concat());
    let series = answer(&run);
    for place in series["places"].as_array().unwrap() {
        // Each moment of the launch is counted in exactly one part.
        let parts = place["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part["mean_s"].as_f64().unwrap()).sum();
        let wall = place["wall_s"].as_f64().unwrap();
        assert!((sum - wall).abs() < 1e-6, "{sum} of {wall}");
    }
    series
}

#[test]
fn launches_say_what_they_wait_for() {
    if !can_emulate() {
        return;
    }
    // A sleeping process waits for a timer, and a spinning process runs. The time in which a process waits
    // for a sleeping child counts as the child's wait for the timer.
    let warm = ["--warmup", "1", "--runs", "1"];
    let sleeps = launch(&warm, &["sleep", "0.3"]);
    assert!(part(&sleeps, 0, "timer") >= 0.29);
    let shell = launch(&warm, &["sh", "-c", "sleep 0.3; true"]);
    assert!(part(&shell, 0, "timer") >= 0.29, "{shell}");
    let spins = launch(&warm, &["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
    let running = part(&spins, 0, "user") + part(&spins, 0, "system");
    // The spinning process waits only for a processor, while other processes use it.
    assert!(running + part(&spins, 0, "cpu_wait") >= 0.9 * spins["places"][0]["wall_s"].as_f64().unwrap());
    // The listener at the other end of a real socket replies after 0.3 s.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::io::Write::write_all(&mut stream, b"x").unwrap();
        }
    });
    let (host, port) = address.split_once(':').unwrap();
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; read -n 1 answer <&3");
    let waits = launch(&warm, &["bash", "-c", &script]);
    assert!(part(&waits, 0, "network") >= 0.29, "{waits}");
    answer.join().unwrap();
}

#[test]
fn the_processors_parts_are_those_that_the_kernel_counts() {
    if !can_emulate() || !has(&[Need::Schedstat]) {
        return;
    }
    // One thread alternately sleeps and runs, so it often starts on an idle processor. At the end, the thread
    // reads the kernel's counts: the nanoseconds for which it ran, and for which it was ready but had no
    // processor. If the thread is limited to a share of a processor, it also pauses in between.
    let dir = tempfile::tempdir().unwrap();
    let (fifo, counted) = (dir.path().join("fifo"), dir.path().join("counted"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = format!(
        "exec 3<>{}; for turn in 1 2 3 4 5 6 7 8; do \
         i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; read -t 0.02 -u 3 nothing; done; \
         read counted < /proc/$$/schedstat; echo $counted > {}",
        fifo.display(),
        counted.display()
    );
    for share in [&[][..], &["--cpu", "0.2"]] {
        let arguments = [&["--warmup", "1", "--runs", "1"], share].concat();
        let series = launch(&arguments, &["bash", "-c", &script]);
        let counted = fs::read_to_string(&counted).unwrap();
        let seconds = |at| counted.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap() / 1e9;
        let (ran, ready) = (seconds(0), seconds(1));
        let running = part(&series, 0, "user") + part(&series, 0, "system");
        let waited = part(&series, 0, "cpu_wait");
        // Interrupts are included only in the kernel's counts or only in fonio's counts. The thread's work
        // after it has read the kernel's counts is included only in fonio's counts. After this work, the
        // thread may also pause for the rest of a scheduling period, which is at most 50 ms.
        let near = |a: f64, b: f64| (a - b).abs() <= 0.06 + 0.2 * b;
        assert!(near(running, ran) && near(waited, ready), "{running} {ran} {waited} {ready} {share:?}");
        assert!(part(&series, 0, "unknown") < 0.01, "{series}");
    }
}

#[test]
fn a_cold_launch_on_a_slow_card_waits_for_it() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data");
    fs::write(&file, vec![7; 2 << 20]).unwrap();
    let series = launch(
        &["--on", "ridata", "--size", "64MiB", "--runs", "1", "--copy", file.to_str().unwrap()],
        &["cat", "data"],
    );
    let place = &series["places"][0];
    assert!(part(&series, 0, "storage") > 0.5 * place["wall_s"].as_f64().unwrap(), "{place}");
    assert!(
        place["verdict"].as_str().unwrap().ends_with("of the launch is spent waiting for storage."),
        "{place}"
    );
    let run = &place["runs"][0];
    assert!(run["read_bytes"].as_u64().unwrap() >= 2 << 20);
    assert!(run["dropped"]["files"].as_u64().unwrap() >= 2, "{run}");
}

#[test]
fn a_trace_of_a_phone_and_mobibench_run_anywhere() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (trace, place, out) = (dir.path().join("trace"), dir.path().join("place"), dir.path().join("runs"));
    fs::create_dir(&place).unwrap();
    fs::write(
        &trace,
        "1 0 open \"/data/a.db\" 66 5\n1 1000 write 5 4096\n1 2000 fsync 5 0\n1 3000 close 5 0\n",
    )
    .unwrap();
    let (trace, place) = (trace.to_str().unwrap(), place.to_str().unwrap());
    for (what, name) in
        [(vec!["run", "--mobigen", trace, "--on", place], "mobigen"), (vec!["run", "mobibench"], "mobibench")]
    {
        let behind: &[&str] =
            if name == "mobibench" { &["--", "-p", place, "-f", "64", "-a", "1", "-y", "2"] } else { &[] };
        let out = out.join(name);
        let common = ["--runs", "1", "--json", "--cpu", "0.5", "-o", out.to_str().unwrap()];
        let run = fonio(&[&what[..], &common, behind].concat());
        assert!(run.status.success(), "{name}: {}", text(&run.stderr));
        let again = fonio(&[&what[..], &common, behind].concat());
        assert_eq!(again.status.code(), Some(2), "results are never mixed");
        assert!(text(&again.stderr).contains("is not empty"), "{name}: {}", text(&again.stderr));
        let series = json(&run);
        assert_eq!(series["cpu_share"], 0.5, "{name}");
        let figures = &series["variations"][0]["runs"][0];
        assert!(figures["write_bytes"].as_u64().unwrap() >= 4096, "{name}: {figures}");
        assert!(left_behind(Path::new(place)).is_empty());
    }
}

/// On a busy machine, a run with the processor of another machine is refused; the test accepts this answer too.
#[test]
fn a_run_has_the_processor_of_another_machine_or_is_refused() {
    if !can_emulate() {
        return;
    }
    let (_dir, place, out) = place_and_results();
    let run = fonio(&[
        "run",
        "messages",
        "--scale",
        "0.05",
        "--runs",
        "1",
        "--cpu",
        "nexus-one",
        "--on",
        &place,
        "--json",
        "-o",
        &out,
    ]);
    let said = text(&run.stderr);
    assert!(said.contains("Comparing this machine's processor with nexus-one"), "{said}");
    assert!(left_behind(Path::new(&place)).is_empty());
    if !run.status.success() {
        if said.contains("control groups") || said.contains("controller") {
            return skip(Need::Cgroup, said);
        }
        let refused = said.contains("the speed of nexus-one could not be held: ")
            || said.contains("this machine cannot imitate nexus-one: ");
        assert!(refused, "{said}");
        return;
    }
    let series = json(&run);
    let share = series["cpu_share"].as_f64().unwrap();
    let processor = &series["processor"];
    assert_eq!((processor["name"].as_str(), processor["cores"].as_u64()), (Some("nexus-one"), Some(1)));
    assert_eq!(processor["share"].as_f64().unwrap(), share);
    let tests = processor["tests"].as_array().unwrap();
    let names: Vec<_> = tests.iter().filter_map(|test| test["test"].as_str()).collect();
    assert_eq!(names, ["integer", "compression"]);
    for test in tests {
        let (published, here) = (test["published"].as_f64().unwrap(), test["here"].as_f64().unwrap());
        assert!((test["share"].as_f64().unwrap() * here / published - 1.0).abs() < 1e-9, "{test}");
        assert_eq!(test["sources"][0], "https://7-cpu.com", "{test}");
    }
    let held = &series["variations"][0]["runs"][0]["processor"];
    for at in ["start", "end"] {
        let achieved = held[at].as_f64().unwrap();
        assert!((achieved / share - 1.0).abs() <= 0.15, "{at}: {achieved} of {share}");
    }
}

#[test]
fn a_processor_that_does_not_exist_is_refused_with_the_names() {
    let refused = |cpu: &str| {
        let run = fonio(&["run", "messages", "--cpu", cpu]);
        assert_eq!(run.status.code(), Some(2), "{cpu}");
        text(&run.stderr).replace('\n', " ")
    };
    let unknown = refused("pi-44");
    assert!(unknown.contains("no processor is called `pi-44`; the nearest name is `pi-4`"), "{unknown}");
    let cores = refused("pi-4:9");
    assert!(
        cores.contains("pi-4 has 4 cores, so `9` after the colon must be a number from 1 to 4"),
        "{cores}"
    );
    let share = refused("1.5");
    assert!(share.contains("1.5 is not a share of a processor"), "{share}");
}

/// Creates a folder for workloads. Returns a guard that removes this folder, the folder's path, and a path
/// for the results.
fn place_and_results() -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (place, results) = (path("place"), path("runs"));
    fs::create_dir(&place).unwrap();
    (dir, place, results)
}

#[test]
fn a_workload_runs_beside_another_and_each_has_its_figures() {
    if !can_emulate() {
        return;
    }
    let (_dir, place, out) = place_and_results();
    let (place, out) = (place.as_str(), out.as_str());
    let common = ["--scale", "0.05", "--runs", "1", "--json", "--on", place, "-o", out];
    let run = fonio(&[&["run", "webbench", "--background", "messages"], &common[..]].concat());
    let series = answer(&run);
    let figures = &series["variations"][0]["runs"][0];
    let count = |of: &Value, what: &str| of[what].as_u64().unwrap();
    let (own, beside) = (&figures["own"], &figures["beside"]);
    assert_eq!(beside["workload"], "messages");
    for of in [own, beside] {
        assert!(count(of, "write_bytes") > 0 && count(of, "requests") > 0, "{figures}");
    }
    let both = count(own, "write_bytes") + count(beside, "write_bytes");
    assert!(both <= count(figures, "write_bytes"), "a write was counted twice: {figures}");
    let done = beside["done_share"].as_f64().unwrap();
    assert_eq!(beside["ended_early"].as_bool().unwrap(), done == 1.0, "{beside}");
    assert!(done > 0.0 && beside["ran_s"].as_f64().unwrap() > 0.0, "{beside}");
    assert!(left_behind(Path::new(place)).is_empty());
    let told = figures["verdict"].as_str().unwrap();
    assert!(!told.contains("background workload was blocked"), "{told}");
    let recording = figures["recording"].as_str().unwrap();
    let report = answer(&fonio(&["report", recording, "--json"]));
    let programs = report["analysis"]["blocked"]["programs"].as_array().unwrap();
    let of_background = |program: &&Value| program["name"] == "the background workload";
    let roles: Vec<&Value> = programs.iter().filter(of_background).map(|program| &program["role"]).collect();
    assert_eq!(roles, ["background"], "{programs:?}");
    assert!(programs.iter().all(|program| program["name"] != "messaging"), "{programs:?}");
    assert!(report.to_string().contains("/run/fonio/background/database/mmssms.db"), "{report}");
    let refused = fonio(&["run", "webbench", "--background", "no-such-app", "--on", place]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no-such-app"), "{}", text(&refused.stderr));
    let command = fonio(&["fix", "prove", "bfq", "--background", "messages", "--on", place, "--", "true"]);
    assert!(text(&command.stderr).contains("cannot be used with"), "{}", text(&command.stderr));
}

/// A program that does nothing, so that only the background writes.
const IDLE: &str = "name = 'idle'
title = 'Nothing for ten minutes'
[[phase]]
name = 'idle'
[[phase.thread]]
name = 'idle'
steps = [{ do = 'think', seconds = 600.0 }]
";

#[test]
fn the_shipped_backgrounds_write_what_their_definitions_say() {
    if !can_emulate() {
        return;
    }
    let (dir, place, _) = place_and_results();
    let place = place.as_str();
    let idle = dir.path().join("idle.toml");
    fs::write(&idle, IDLE).unwrap();
    for name in ["phone", "home"] {
        let out = dir.path().join(name).to_str().unwrap().to_owned();
        // Ten minutes in 24 s.
        let common = ["--pace", "0.04", "--runs", "1", "--json", "--on", place, "-o", out.as_str()];
        let run = fonio(&[&["run", idle.to_str().unwrap(), "--background", name], &common[..]].concat());
        let series = answer(&run);
        let figures = &series["variations"][0]["runs"][0];
        let beside = &figures["beside"];
        let number = |what: &str| beside[what].as_f64().unwrap();
        let minutes = number("ran_s") / 60.0;
        let workload = Workload::load(name).unwrap();
        let writers = workload.phases[0].threads.len() as f64;
        let defined = |at: usize| beside["defined_per_min"][at].as_f64().unwrap() * minutes;
        let transactions = number("transactions");
        // The first round of each writer begins after a random part of its period. A busy machine is late.
        let (low, high) = (0.5 * defined(0) - writers, 1.02 * defined(0) + writers);
        assert!(low <= transactions && transactions <= high, "{name}: {} and {beside}", defined(0));
        // A sync writes at least a page of the database and a page of its journal. Nothing else writes.
        let written = number("write_bytes");
        assert!(written >= transactions * 2.0 * 4096.0 || name == "home", "{name}: {beside}");
        let all = figures["write_bytes"].as_f64().unwrap();
        assert!(written <= all && number("requests") > 0.0, "{name}: {figures}");
        assert_eq!(beside["ended_early"], false, "{name}: {beside}");
        let bytes = number("file_bytes");
        assert!(bytes <= 1.02 * defined(1) + 1024.0 * 1024.0, "{name}: {} and {beside}", defined(1));
        assert!(bytes >= 0.5 * defined(1) - 1024.0 * 1024.0, "{name}: {} and {beside}", defined(1));
    }
}

#[test]
fn memory_is_limited_and_too_little_is_told() {
    if !can_emulate() {
        return;
    }
    let (_dir, place, out) = place_and_results();
    let (place, out) = (place.as_str(), out.as_str());
    let launch = |memory: &str, bytes: &str| {
        // `tail` keeps the complete line in memory, so the command needs this much memory.
        let line = format!("head -c {bytes} /dev/zero | tail >/dev/null");
        let common = ["--runs", "1", "--warmup", "1", "--json", "--on", place, "-o", out];
        let what = ["launch", "--memory", memory];
        fonio(&[&what[..], &common, &["--", "sh", "-c", &line]].concat())
    };
    let run = launch("32MiB", "100000000");
    if text(&run.stderr).contains("memory cannot be limited here") {
        return fonio_testing::skip(Need::Cgroup, text(&run.stderr));
    }
    assert_eq!(run.status.code(), Some(125), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("needs more than 32MiB of memory"), "{}", text(&run.stderr));
    fs::remove_dir_all(out).unwrap();
    let run = launch("32MiB", "1000000");
    let series = answer(&run);
    assert_eq!(series["memory_bytes"], 32 << 20);
    fs::remove_dir_all(out).unwrap();
    let refused = launch("1MiB", "1");
    assert!(text(&refused.stderr).contains("write at least 16MiB"), "{}", text(&refused.stderr));
}

#[test]
fn a_recording_is_replayed_in_a_directory_and_leaves_nothing() {
    if !can_emulate() {
        return;
    }
    let (_dir, place, out) = place_and_results();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/webbench-on-ridata");
    let run =
        fonio(&["replay", recording, "--fast", "--runs", "1", "--json", "--on", &place, "-o", out.as_str()]);
    assert!(matches!(run.status.code(), Some(0 | 3)), "{}", text(&run.stderr));
    let series = json(&run);
    assert_eq!(series["workload"], "the recording webbench-on-ridata");
    let figures = &series["variations"][0]["runs"][0];
    let recorded = fonio(&["report", "--json", recording]);
    let recorded = json(&recorded);
    let written = recorded["analysis"]["totals"]["write_bytes"].as_u64().unwrap();
    assert!(figures["write_bytes"].as_u64().unwrap() >= written, "{figures}");
    assert!(fs::read_dir(&place).unwrap().next().is_none(), "the file is gone");
    let nothing = fonio(&["replay", &place, "--on", &place]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing.stderr));
}

#[test]
fn recorded_calls_are_replayed_in_a_directory_and_leave_nothing() {
    if !can_emulate() {
        return;
    }
    let (dir, place, out) = place_and_results();
    let recording = dir.path().join("recording");
    let recording = recording.to_str().unwrap();
    let data = dir.path().join("data");
    // Write 64 KiB four times to two files. Each file is synced; then one file is renamed, and the other is
    // deleted.
    let script = "for n in 1 2; do dd if=/dev/zero of=$0.$n bs=64k count=2 oflag=append conv=notrunc,fsync status=none || exit; done; mv $0.1 $0.3; rm $0.2";
    let recorded =
        fonio(&["record", "--calls", "-o", recording, "--", "sh", "-c", script, data.to_str().unwrap()]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let diagnostics = fs::read_to_string(Path::new(recording).join("diagnostics.jsonl")).unwrap();
    if diagnostics.contains("no-calls") {
        return skip(Need::Bpf, diagnostics);
    }
    let replay = ["replay", recording, "--layer", "calls", "--fast", "--runs", "1", "--json", "--on", &place];
    let run = fonio(&[&replay[..], &["-o", &out]].concat());
    assert!(matches!(run.status.code(), Some(0 | 3)), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("at most 1 at a time"), "{}", text(&run.stderr));
    let series = json(&run);
    let figures = &series["variations"][0]["runs"][0];
    assert!(figures["write_bytes"].as_u64().unwrap() >= 4 * 65536, "{figures}");
    assert!(fs::read_dir(&place).unwrap().next().is_none(), "the folder is gone");
    // The sample recording contains no system calls.
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/webbench-on-ridata");
    let nothing = fonio(&["replay", sample, "--layer", "calls", "--on", &place]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(&nothing.stderr).contains("record again with --calls"), "{}", text(&nothing.stderr));
}

/// Every fix that loses no data is tested. Only the complete list names a fix that does not apply to a
/// target.
#[test]
fn the_safe_fixes_are_tried_one_after_another() {
    if !can_emulate() {
        return;
    }
    let (_dir, _place, out) = place_and_results();
    let line = "fix prove --safe --no-hardware webbench --on sd_a2 --scale 0.01 --pace 0 --runs 1 --json -o";
    let tried = fonio(&[&split(line)[..], &[&out]].concat());
    let series = answer(&tried);
    let variations = series["variations"].as_array().unwrap();
    assert!(variations.len() >= 4, "{}", text(&tried.stderr));
}
