//! Tests `fonio watch` as a user runs it: with its own folders, on the disks of this machine.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fonio_system::ProcessId;
use fonio_testing::{Need, has, skip, skip_without};
use serde_json::Value;

/// A watch with its own folders. The watch is stopped when this value is dropped.
struct Watch {
    dir: tempfile::TempDir,
}

impl Watch {
    fn new(settings: &str) -> Watch {
        // Use a folder on a disk, not in memory.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(dir.path().join("watch.toml"), settings).unwrap();
        Watch { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
        command.arg("watch").args(words);
        command.arg("--state").arg(self.path("state")).arg("--run").arg(self.path("run"));
        command.arg("--config").arg(self.path("watch.toml")).output().unwrap()
    }

    #[track_caller]
    fn done(&self, words: &[&str]) -> String {
        let out = self.run(words);
        let [said, error] =
            [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(out.status.success(), "{words:?}: {said}{error}");
        said
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        let out = self.run(words);
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    fn pid(&self) -> u32 {
        let running: Value =
            serde_json::from_str(&fs::read_to_string(self.path("run/running")).unwrap()).unwrap();
        u32::try_from(running["pid"].as_u64().unwrap()).unwrap()
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.done(&["report", "--json"])).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.run(&["stop"]);
    }
}

fn write_and_sync(file: &Path, mib: u64) {
    let out = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "conv=fsync"])
        .args([format!("of={}", file.display()), format!("count={mib}")])
        .output()
        .unwrap();
    assert!(out.status.success());
}

/// Returns whether the temporary folder is on a disk that fonio watches by default.
fn is_on_disk(dir: &Path) -> bool {
    if !has(&[Need::Root, Need::Bpf]) {
        return false;
    }
    let major = std::os::unix::fs::MetadataExt::dev(&dir.metadata().unwrap()) >> 8 & 0xfff;
    // The device number of a btrfs or overlay file system belongs to no device; loop devices are not watched
    // by default.
    if matches!(major, 0 | 7) {
        skip(Need::Disk, format!("{} is not on a disk", dir.display()));
        return false;
    }
    true
}

#[test]
fn who_wrote_what_and_what_stalled() {
    let watch = Watch::new("stall = \"10ms\"\n");
    if !is_on_disk(watch.dir.path()) {
        return;
    }
    watch.done(&["start"]);
    assert!(watch.done(&["start"]).starts_with("The watch is already running"));
    assert!(watch.refused(&["run"]).contains("a watch is already running (process"));
    let file = watch.path("written by dd");
    // `sync` makes the kernel write back this file; the writes must still be attributed to dd.
    let left = watch.path("left to the kernel");
    let of = format!("of={}", left.display());
    assert!(
        Command::new("dd")
            .args(["if=/dev/zero", &of, "bs=1M", "count=48"])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert!(Command::new("sync").arg("-f").arg(&left).status().unwrap().success());
    write_and_sync(&file, 64);
    // The fsync wait of dd has ended. The watch reads its data about once a second, and a stall is final when
    // the wait ends.
    std::thread::sleep(std::time::Duration::from_secs(2));
    watch.done(&["stop"]);
    assert!(watch.done(&["stop"]).starts_with("No watch runs"));
    let report = watch.report();
    let devices = report["wear"]["devices"].as_array().unwrap();
    for (file, mib) in [(&file, 64), (&left, 48)] {
        let rows = devices.iter().flat_map(|device| device["files"].as_array().unwrap());
        let mut rows = rows.filter(|row| row["file"] == file.to_str().unwrap());
        let row = rows.next().unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(row["party"].as_str().unwrap().split('.').next(), Some("dd"), "{row}");
        let written = row["written"].as_u64().unwrap();
        assert!(((mib - mib / 16) << 20..=(mib + mib / 16) << 20).contains(&written), "{written}");
    }
    let of_dd = |report: &Value| {
        let stalls = report["stalls"]["stalls"].as_array().unwrap();
        stalls.iter().find(|stall| stall["file"] == file.to_str().unwrap()).cloned()
    };
    // If several programs stalled at the same time, the stall names the program that waited longest. Other
    // programs may also use this disk.
    let mut stall = of_dd(&report);
    for _ in 0..20 {
        if stall.is_none() {
            watch.done(&["start"]);
            write_and_sync(&file, 64);
            std::thread::sleep(std::time::Duration::from_secs(2));
            watch.done(&["stop"]);
            stall = of_dd(&watch.report());
        }
    }
    let stall = stall.unwrap_or_else(|| panic!("{:#}", watch.report()["stalls"]));
    assert_eq!((&stall["blocked_in"], &stall["thread"]), (&"fsync".into(), &"dd".into()));
    let kept = stall["kept"].as_str().unwrap();
    let kept = [watch.path("run/kept"), watch.path("state/kept")].map(|folder| folder.join(kept));
    let kept = kept.iter().find(|path| path.exists()).unwrap();
    let explained =
        Command::new(assert_cmd::cargo::cargo_bin!("fonio")).arg("report").arg(kept).arg("--json").output();
    let explained: Value = serde_json::from_slice(&explained.unwrap().stdout).unwrap();
    assert!(explained.to_string().contains("written by dd"), "{explained:#}");
    let text = watch.done(&["report"]);
    assert!(text.starts_with('✗') && text.contains("Next: sudo fonio report "), "{text}");
    let page = watch.path("page.html");
    let said = watch.done(&["report", "--html", page.to_str().unwrap()]);
    assert!(said.contains("stall") && said.contains("The report is in "), "{said}");
    let page = std::fs::read_to_string(page).unwrap();
    for expected in ["Who waits for storage?", "Threads blocked on storage", "written by dd", "\"clock\":"] {
        assert!(page.contains(expected), "{expected} is not on the page");
    }
}

#[test]
fn a_killed_watch_loses_nothing_that_was_noted() {
    let watch = Watch::new("");
    if !is_on_disk(watch.dir.path()) {
        return;
    }
    watch.done(&["start"]);
    let pid = watch.pid();
    watch.done(&["stop"]);
    assert_eq!(ProcessId::of(pid), None);
    let before = watch.report()["load"]["events"].as_array().unwrap().len();
    assert_eq!(before, 2, "it started and stopped");
    watch.done(&["start"]);
    let pid = watch.pid();
    Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    while ProcessId::of(pid).is_some() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // After `kill -9`, a new watch can start.
    watch.done(&["start"]);
    watch.done(&["stop"]);
    let report = watch.report();
    assert!(report["load"]["events"].as_array().unwrap().len() >= 4, "{report:#}");
}

/// Runs a script in its own mount namespace, in the folder of a watch. Returns the script's output.
#[track_caller]
fn script(watch: &Watch, script: &str) -> String {
    let options =
        format!("--state {0}/small/state --run {0}/run --config {0}/watch.toml", watch.dir.path().display());
    let out = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "bash", "-c"])
        .arg(format!("set -e; exec 2>&1; {script}"))
        .env("FONIO", assert_cmd::cargo::cargo_bin!("fonio"))
        .env("OPTIONS", options)
        .current_dir(watch.dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}");
    said
}

#[test]
fn a_full_disk_loses_nothing() {
    let watch = Watch::new("");
    if !is_on_disk(watch.dir.path()) || !has(&[Need::Namespace]) {
        return;
    }
    let said = script(
        &watch,
        "mkdir small && mount -t tmpfs -o size=16k none small && dd if=/dev/zero of=small/fill bs=1k count=16 2>/dev/null || true
        $FONIO watch start $OPTIONS
        dd if=/dev/zero of=data bs=1M count=8 conv=fsync 2>/dev/null
        sleep 1
        kill $(grep -o '\"pid\":[0-9]*' run/running | cut -d: -f2)
        for i in $(seq 600); do grep -q pid run/running || break; sleep 0.1; done
        for i in $(seq 100); do grep -q 'stay in memory' run/log && break; sleep 0.1; done
        cat run/log
        rm small/fill && mount -o remount,size=1m small
        $FONIO watch start $OPTIONS && $FONIO watch stop $OPTIONS
        $FONIO watch report wear --json $OPTIONS",
    );
    assert!(
        said.contains(
            "the last minutes stay in memory, and the next watch stores them if it starts before a reboot"
        ),
        "{said}"
    );
    assert!(said.contains("No space left on device"), "{said}");
    // The history now contains the minutes that were in memory.
    let json = &said[said.find("{\n").unwrap()..];
    let report: Value = serde_json::from_str(json).unwrap();
    assert!(report["wear"]["devices"][0]["written"].as_u64().unwrap() >= 8 << 20, "{report:#}");
}

#[test]
fn a_write_is_caused_by_the_program_that_changed_the_file() {
    skip_without!(Root, Bpf, Loop, Namespace);
    let watch = Watch::new("");
    // ext4 writes the data of a file that is renamed over another one during the rename.
    let said = script(
        &watch,
        "mkdir small mnt && truncate -s 128M image
        command -v mkfs.ext4 >/dev/null || { echo no mkfs.ext4; exit 0; }
        mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 image
        device=$(losetup --find --show image)
        trap 'umount mnt || true; losetup -d $device' EXIT
        mount $device mnt
        echo \"devices = ['$device']\" > watch.toml
        $FONIO watch start $OPTIONS
        for i in 1 2 3 4 5; do
            dd if=/dev/zero of=mnt/clip.part bs=1M count=12 2>/dev/null
            mv mnt/clip.part mnt/clip.mp4
        done
        sync -f mnt
        sleep 2
        $FONIO watch stop $OPTIONS
        $FONIO watch report --json $OPTIONS",
    );
    if said.starts_with("no mkfs.ext4") {
        skip(Need::Loop, "mkfs.ext4 is missing");
        return;
    }
    let report: Value = serde_json::from_str(&said[said.find("{\n").unwrap()..]).unwrap();
    let parties = report["wear"]["devices"][0]["parties"].as_array().unwrap();
    let written = |name: &str| {
        let of_party =
            parties.iter().filter(|row| row["party"].as_str().unwrap().split('.').next() == Some(name));
        of_party.map(|row| row["written"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(written("mv") <= 1 << 20, "{report:#}");
    // The first rename replaces no file, so the kernel writes nothing. The second rename removes this data,
    // whether it has been written or not.
    assert!((45 << 20..64 << 20).contains(&written("dd")), "{report:#}");
}

/// Makes an ext4 with few inodes on a loop device, mounts it at `mnt`, and watches only this device.
const SMALL_EXT4: &str = "mkdir small mnt && truncate -s 160M image
    command -v mkfs.ext4 >/dev/null && command -v sqlite3 >/dev/null || { echo no programs; exit 0; }
    mkfs.ext4 -q -F -N 64 -E lazy_itable_init=0,lazy_journal_init=0 image
    device=$(losetup --find --show image)
    trap 'umount mnt || true; losetup -d $device' EXIT
    mount $device mnt
    printf \"devices = ['$device']\nstall = '10ms'\n\" > watch.toml
    ";

/// Runs a script on a small ext4; `None` if a program is missing.
fn on_small_ext4(watch: &Watch, commands: &str) -> Option<String> {
    let said = script(watch, &format!("{SMALL_EXT4}{commands}"));
    if said.starts_with("no programs") {
        skip(Need::Loop, "mkfs.ext4 or sqlite3 is missing");
        return None;
    }
    Some(said)
}

#[test]
fn files_with_one_inode_number_keep_their_own_bytes() {
    if !has(&[Need::Root, Need::Bpf, Need::Loop, Need::Namespace]) {
        return;
    }
    let watch = Watch::new("");
    // Clips and journals get the same inode numbers in turn. At the end, a journal exists, whose number was that
    // of a clip.
    let Some(said) = on_small_ext4(
        &watch,
        "sqlite3 mnt/app.db 'PRAGMA journal_mode=DELETE; CREATE TABLE t(x);' >/dev/null
        $FONIO watch start $OPTIONS
        for i in 1 2 3 4 5; do
            dd if=/dev/zero of=mnt/clip.part bs=1M count=12 conv=fsync 2>/dev/null
            echo clip $(stat -c %i mnt/clip.part)
            mv mnt/clip.part mnt/clip.mp4
            for j in $(seq 20); do echo 'INSERT INTO t VALUES(1);'; done | sqlite3 mnt/app.db
        done
        rm mnt/clip.mp4
        mkfifo commands
        sqlite3 mnt/app.db < commands &
        exec 5> commands
        echo 'BEGIN IMMEDIATE; INSERT INTO t VALUES(2);' >&5
        for i in $(seq 100); do [ -e mnt/app.db-journal ] && break; sleep 0.1; done
        echo journal $(stat -c %i mnt/app.db-journal)
        sleep 2
        $FONIO watch stop $OPTIONS
        exec 5>&-
        wait
        $FONIO watch report --json $OPTIONS",
    ) else {
        return;
    };
    let numbers = |what: &str| -> Vec<u64> {
        let numbers = said.lines().filter_map(|line| line.strip_prefix(what));
        numbers.map(|number| number.trim().parse().unwrap()).collect()
    };
    let (clips, journals) = (numbers("clip"), numbers("journal"));
    assert!(clips.len() == 5 && journals.len() == 1, "{said}");
    assert!(clips.contains(&journals[0]), "no inode number was reused, so this test proves nothing: {said}");
    let report: Value = serde_json::from_str(&said[said.find("{\n").unwrap()..]).unwrap();
    let device = &report["wear"]["devices"][0];
    let files = device["files"].as_array().unwrap();
    let sum = |ends: &dyn Fn(&Value) -> bool| -> u64 {
        files.iter().filter(|row| ends(row)).map(|row| row["written"].as_u64().unwrap()).sum()
    };
    let ends = |row: &Value, end: &str| row["file"].as_str().is_some_and(|file| file.ends_with(end));
    assert!(sum(&|row| ends(row, "-journal")) < 4 << 20, "{device:#}");
    let of_dd = |row: &Value| row["party"].as_str().unwrap().split('.').next() == Some("dd");
    let is_clip =
        |row: &Value| ends(row, ".part") || ends(row, ".mp4") || row["file"] == "(files of unknown name)";
    let clips = sum(&|row| is_clip(row) && of_dd(row));
    assert!((58 << 20..=63 << 20).contains(&clips), "{clips}: {device:#}");
    assert_eq!(sum(&|row| of_dd(row) && ends(row, ".db")), 0, "{device:#}");
    // Clips exist for long enough to be found.
    assert!(sum(&|row| ends(row, "clip.part") || ends(row, "clip.mp4")) >= 12 << 20, "{device:#}");
}

#[test]
fn a_stall_is_not_on_a_later_file_with_the_inode_number() {
    if !has(&[Need::Root, Need::Bpf, Need::Loop, Need::Namespace]) {
        return;
    }
    let watch = Watch::new("");
    let Some(said) = on_small_ext4(
        &watch,
        "cp $(command -v dd) recorder
        $FONIO watch start $OPTIONS
        for i in $(seq 20); do
            ./recorder if=/dev/zero of=mnt/app.db-journal bs=1M count=64 conv=fsync 2>/dev/null
            number=$(stat -c %i mnt/app.db-journal)
            rm mnt/app.db-journal
            dd if=/dev/zero of=mnt/clip.mp4 bs=4k count=1 2>/dev/null
            [ $(stat -c %i mnt/clip.mp4) = $number ] || { echo not reused; exit 1; }
            sleep 8
            $FONIO watch stop $OPTIONS
            $FONIO watch report --json $OPTIONS > report
            if grep -q '\"thread\": \"recorder\"' report; then break; fi
            rm mnt/clip.mp4
            $FONIO watch start $OPTIONS
        done
        cat report",
    ) else {
        return;
    };
    let report: Value = serde_json::from_str(&said[said.find("{\n").unwrap()..]).unwrap();
    let stalls = report["stalls"]["stalls"].as_array().unwrap();
    let of_recorder: Vec<&Value> = stalls.iter().filter(|stall| stall["thread"] == "recorder").collect();
    assert!(!of_recorder.is_empty(), "{:#}", report["stalls"]);
    for stall in of_recorder {
        let is_right = stall["file"].as_str().is_none_or(|file| file.ends_with("app.db-journal"));
        assert!(is_right, "{stall:#}");
        let kept = watch.path("run/kept").join(stall["kept"].as_str().unwrap());
        let kept = Some(kept).filter(|path| path.exists());
        let kept =
            kept.unwrap_or_else(|| watch.path("small/state/kept").join(stall["kept"].as_str().unwrap()));
        let explained = Command::new(assert_cmd::cargo::cargo_bin!("fonio"))
            .args(["report", "--json"])
            .arg(kept)
            .output()
            .unwrap();
        let explained = String::from_utf8_lossy(&explained.stdout);
        assert!(!explained.contains("fsync of") || !explained.contains("clip.mp4"), "{explained}");
    }
}

#[test]
fn a_removed_device_is_told() {
    skip_without!(Root, Bpf, Loop);
    let watch = Watch::new("");
    let image = watch.path("card");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let out = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
    let device = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    fs::write(watch.path("watch.toml"), format!("devices = [{device:?}, \"nosuch\"]\n")).unwrap();
    watch.done(&["start"]);
    let log = fs::read_to_string(watch.path("run/log")).unwrap();
    let detached = Command::new("losetup").arg("-d").arg(&device).status().unwrap();
    watch.done(&["stop"]);
    assert!(detached.success());
    assert!(log.contains("there is no device nosuch; it will be watched when it appears"), "{log}");
    let report = watch.report();
    let name = device.trim_start_matches("/dev/");
    let notes = report["stalls"]["notes"].as_array().unwrap();
    let is_told = notes.iter().any(|note| note.as_str().unwrap().contains(&format!("{name} was removed")));
    assert!(is_told, "{notes:?}");
}

#[test]
fn another_file_in_a_loop_device_is_another_device() {
    if !has(&[Need::Root, Need::Bpf, Need::Loop]) {
        return;
    }
    let watch = Watch::new("");
    let image = |name: &str| {
        let image = watch.path(name);
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        image
    };
    let losetup = |words: &[&str], image: &Path| {
        let out = Command::new("losetup").args(words).arg(image).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    let device = losetup(&["--find", "--show"], &image("first"));
    fs::write(watch.path("watch.toml"), format!("devices = [{device:?}]\n")).unwrap();
    watch.done(&["start"]);
    losetup(&["--detach"], Path::new(&device));
    losetup(&[&device], &image("second"));
    watch.done(&["stop"]);
    losetup(&["--detach"], Path::new(&device));
    let notes = watch.report()["stalls"]["notes"].to_string();
    let name = device.trim_start_matches("/dev/");
    if !Path::new("/sys/block").join(name).join("diskseq").exists() {
        return skip(Need::Loop, "this kernel does not count disks");
    }
    for told in ["was removed", "appeared"] {
        assert!(notes.contains(&format!("{name} {told}")), "{notes}");
    }
}

#[test]
fn mistakes_are_told() {
    let watch = Watch::new("stall = \"1 fortnight\"\n");
    let error = watch.refused(&["start"]);
    assert!(error.contains("watch.toml: TOML parse error at line 1"), "{error}");
    fs::write(watch.path("watch.toml"), "").unwrap();
    let error = watch.refused(&["report"]);
    assert!(error.contains("no watch has run here; start one with `sudo fonio watch install`"), "{error}");
    fs::create_dir(watch.path("state")).unwrap();
    fs::write(watch.path("state/rings"), "my diary, which is long enough").unwrap();
    for words in [["start"], ["report"]] {
        let error = watch.refused(&words);
        assert!(error.contains("state/rings is not the history of a watch; move it away"), "{error}");
    }
    let damaged = watch.path("x.stall");
    fs::write(&damaged, b"fonio-stall\n\x01\0\0\0nonsense").unwrap();
    let out =
        Command::new(assert_cmd::cargo::cargo_bin!("fonio")).arg("report").arg(&damaged).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("x.stall is damaged: "));
    // Two stalls are two recordings, not the files of one trace.
    let out = Command::new(assert_cmd::cargo::cargo_bin!("fonio"))
        .arg("report")
        .args([&damaged, &damaged])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("x.stall is a stall that the watch kept"), "{said}");
    assert!(
        said.contains("Read one recording or stall at a time, or compare them: `fonio compare "),
        "{said}"
    );
}
