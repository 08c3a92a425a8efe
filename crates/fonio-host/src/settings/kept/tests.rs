use fonio_testing::skip_without;
use proptest::prelude::*;

use super::*;

const FSTAB: &str = "# mounts\nUUID=1-2 /\text4\tdefaults   0\t1\n/dev/sdb1 /data ext4 rw,relatime 0 2\n";

fn machine(dir: &Path) -> KeptFiles {
    for folder in ["rules.d", "sysctl.d"] {
        fs::create_dir_all(dir.join(folder)).expect("mkdir");
    }
    fs::write(dir.join("fstab"), FSTAB).expect("write");
    fs::write(dir.join("udev"), "").expect("write");
    files_in(dir)
}

fn files_in(dir: &Path) -> KeptFiles {
    KeptFiles {
        fstab: dir.join("fstab"),
        udev_rules: dir.join("rules.d/90-fonio.rules"),
        udev_control: dir.join("udev"),
        udev_data: dir.join("data"),
        sys_block: dir.join("block"),
        sysctl: dir.join("sysctl.d/90-fonio.conf"),
        sysctl_folders: vec![dir.join("lib")],
        sysctl_last: Some(dir.join("sysctl.conf")),
        systemd_runs: dir.join("udev"),
        systemd: dir.join("systemd"),
        program: "/bin/sh".into(),
        state: dir.join("state"),
    }
}

/// Creates, in a temporary folder, the files of a machine that keeps no settings.
fn bed() -> (tempfile::TempDir, KeptFiles, Keeper) {
    let dir = tempfile::tempdir().expect("dir");
    let files = machine(dir.path());
    let keeper = Keeper::open(files.clone()).expect("keeper");
    (dir, files, keeper)
}

fn applied(target: &str, old: &str, new: &str) -> Applied {
    let target = serde_json::from_str(target).expect("a target");
    Applied { target, old: old.to_owned(), new: new.to_owned() }
}

/// Returns one change for each kind of setting, as an earlier build recorded it.
fn all_changes() -> Vec<Applied> {
    serde_json::from_str(include_str!("../testdata/settings.json")).expect("a record")
}

fn settings() -> Vec<Applied> {
    let mut all = all_changes();
    all.retain(|change| !change.target.path().starts_with("/sys/fs/cgroup"));
    all
}

#[test]
fn records_of_earlier_builds_are_read() {
    let text = serde_json::to_string_pretty(&all_changes()).expect("JSON");
    expect_test::expect_file!["../testdata/settings.json"].assert_eq(&text);
    for (line, setting) in include_str!("../testdata/borrowed.jsonl").lines().zip(all_changes()) {
        let step: crate::ledger::Step = serde_json::from_str(line).expect("a step");
        assert_eq!(step, crate::ledger::Step::Borrowed { setting });
        assert_eq!(serde_json::to_string(&step).expect("JSON"), line);
    }
}

/// Removes the mount options of /proc, because they differ between machines. An image that covers a folder in
/// /proc inherits these options.
fn without_options_of_proc(text: &str) -> String {
    text.replace(",nosuid", "").replace(",nodev", "").replace(",noexec", "")
}

#[test]
fn what_earlier_builds_kept_is_undone() {
    let (dir, files, mut keeper) = bed();
    for setting in settings() {
        keeper.keep(&setting).expect("kept");
    }
    drop(keeper);
    let place = dir.path().display().to_string();
    // Earlier builds wrote a different first line, and a different option in the mount command.
    let as_then = |text: String| {
        let text = without_marks(&text, |_| true);
        text.replace(HEADER, own::FORMER_HEADER).replace("mount --mount-options mode=", "mount -o mode=")
    };
    for (path, text) in contents(dir.path()) {
        fs::write(path, as_then(text)).expect("written");
    }
    let record = fs::read_to_string(files.state.join(KeptFiles::RECORD)).expect("record");
    expect_test::expect_file!["../testdata/kept.json"]
        .assert_eq(&without_options_of_proc(&record.replace(&place, "/machine")));
    let mut keeper = Keeper::open(files.clone()).expect("keeper");
    assert_eq!(keeper.kept().len(), settings().len());
    for setting in settings() {
        assert_eq!(
            keeper.forget(&setting.target).expect("forgotten"),
            Undone::Restored,
            "{}",
            setting.target
        );
    }
    drop(keeper);
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
    let left: Vec<PathBuf> = contents(dir.path()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["fstab", "udev"].map(|name| dir.path().join(name)));
}

fn contents(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("list").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read_to_string(path).expect("text")));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn kept_settings_are_in_these_files() {
    let (dir, _, mut keeper) = bed();
    for setting in settings() {
        keeper.keep(&setting).expect("kept");
    }
    assert_eq!(fs::read_to_string(keeper.backup()).expect("backup"), FSTAB);
    let shown = contents(dir.path()).into_iter().filter_map(|(path, text)| {
        let below = path.strip_prefix(dir.path()).expect("it is below").display().to_string();
        let is_kept = !["udev", "fstab.before-fonio", "state/kept.json"].contains(&below.as_str());
        is_kept.then(|| format!("{below}:\n{}", without_options_of_proc(&text)))
    });
    expect_test::expect_file!["../testdata/kept_files.txt"].assert_eq(&shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_drop_in_that_somebody_has_changed_stays() {
    let (_dir, files, mut keeper) = bed();
    let change = applied(r#"{"kind": "journal", "of": "sync_interval"}"#, "unset", "SyncIntervalSec=300s");
    let kept = keeper.keep(&change).expect("kept");
    let (path, _) = kept.places(&files).remove(0);
    fs::write(&path, "[Journal]\nSyncIntervalSec=60s\n").expect("write");
    assert_eq!(keeper.forget(&change.target).expect("forgotten"), Undone::NothingLeft);
    assert_eq!(fs::read_to_string(path).expect("it is there"), "[Journal]\nSyncIntervalSec=60s\n");
}

#[test]
fn a_control_group_without_a_unit_is_not_kept() {
    let (_dir, _, keeper) = bed();
    let group = r#"{"kind": "group_weight", "dir": "/sys/fs/cgroup/x"}"#;
    let error = keeper.plan(&applied(group, "IOWeight=100", "IOWeight=50")).expect_err("refused");
    assert!(error.to_string().contains("name its systemd unit"), "{error}");
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_way_out() {
    let (dir, files, mut keeper) = bed();
    fs::write(files.sysctl_last.as_ref().expect("it has one"), "# x\nvm.dirty_ratio = 5\n").expect("write");
    fs::write(files.sysctl.with_file_name("99-own.conf"), "vm/swappiness=1\n").expect("write");
    fs::remove_file(&files.udev_control).expect("remove");
    let mut refused = |target: &str, new: &str| {
        let error = keeper.keep(&applied(target, "", new)).expect_err("refused").to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    let limits = "vm.dirty_background_bytes=1 vm.dirty_bytes=2";
    for (target, new, expected) in [
        (r#"{"kind": "dirty_limits"}"#, limits, "line 2 of sysctl.conf overrides fonio: remove it"),
        (r#"{"kind": "swappiness"}"#, "10", "line 1 of sysctl.d/99-own.conf overrides fonio: remove it"),
        (
            r#"{"kind": "scheduler", "device": "sda"}"#,
            "bfq",
            "a udev rule is needed, but udev does not run here",
        ),
        (
            r#"{"kind": "access_times", "dir": "/mnt"}"#,
            "noatime",
            "fstab does not mount this folder: add the option noatime where it is mounted, for example in a mount unit",
        ),
    ] {
        let said = refused(target, new);
        assert!(said.ends_with(expected), "{said}");
    }
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
    assert!(!files.sysctl.exists() && !files.udev_rules.exists());
}

#[test]
fn a_disk_is_known_by_its_serial_number() {
    let (dir, files, mut keeper) = bed();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("mkdir");
        fs::write(path, text).expect("write");
    };
    write("block/sda/dev", "8:0\n");
    write("block/sdb/dev", "8:16\n");
    write("data/b8:0", "S:disk/by-id/x\nE:ID_SERIAL=Generic-_SD_MMC_058F\nE:ID_BUS=usb\n");
    write("data/b8:16", "E:ID_SERIAL=a card with \"blanks\"\n");
    let scheduler =
        |device: &str| applied(&format!(r#"{{"kind": "scheduler", "device": "{device}"}}"#), "none", "bfq");
    keeper.keep(&scheduler("sda")).expect("kept");
    keeper.keep(&scheduler("sdb")).expect("kept");
    let rules = fs::read_to_string(&files.udev_rules).expect("rules");
    assert!(
        rules.contains(
            "ENV{DEVTYPE}==\"disk\", ENV{ID_SERIAL}==\"Generic-_SD_MMC_058F\", ATTR{queue/scheduler}=\"bfq\""
        ),
        "{rules}"
    );
    assert!(rules.contains("KERNEL==\"sdb\""), "{rules}");
    assert!(keeper.kept().iter().all(|kept| keeper.is_same_disk(kept)));
    // Another disk now has the name of the kept setting's disk.
    write("data/b8:0", "E:ID_SERIAL=Another\n");
    let same: Vec<bool> = keeper.kept().iter().map(|kept| keeper.is_same_disk(kept)).collect();
    assert_eq!(same, [false, true]);
}

#[test]
fn another_value_replaces_the_first_and_the_old_one_comes_back() {
    let (_dir, files, mut keeper) = bed();
    let target = r#"{"kind": "commit_interval", "dir": "/data"}"#;
    keeper.keep(&applied(target, "5", "30")).expect("kept");
    keeper.keep(&applied(target, "30", "60")).expect("kept");
    drop(keeper);
    let mut keeper = Keeper::open(files.clone()).expect("keeper");
    assert_eq!(keeper.kept().len(), 1);
    assert_eq!((keeper.kept()[0].applied.old.as_str(), keeper.kept()[0].applied.new.as_str()), ("5", "60"));
    assert!(fs::read_to_string(&files.fstab).expect("fstab").contains("rw,relatime,commit=60 "));
    assert_eq!(keeper.forget(&applied(target, "", "").target).expect("forgotten"), Undone::Restored);
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
}

/// A lost or damaged record leaves the settings that are in the mount table.
#[test]
fn settings_in_the_mount_table_are_undone_without_the_record() {
    for damage in [None, Some(""), Some("[{"), Some("\0\0\0")] {
        let (dir, files, mut keeper) = bed();
        let options = [
            (r#"{"kind": "access_times", "dir": "/data"}"#, "relatime", "noatime"),
            (r#"{"kind": "commit_interval", "dir": "/data"}"#, "5", "30"),
            (r#"{"kind": "access_times", "dir": "/"}"#, "relatime", "noatime"),
            (r#"{"kind": "folder_on", "dir": "/usr/share", "to": "/usr/lib"}"#, "none", "bound"),
        ];
        let all = options.map(|(target, old, new)| applied(target, old, new));
        all.iter().for_each(|change| drop(keeper.keep(change).expect("kept")));
        drop(keeper);
        let record = files.state.join(KeptFiles::RECORD);
        match damage {
            None => fs::remove_dir_all(&files.state).expect("removed"),
            Some(text) => fs::write(&record, text).expect("write"),
        }
        let by_name = |kept: &[Kept]| {
            let mut found: Vec<Applied> = kept.iter().map(|kept| kept.applied.clone()).collect();
            found.sort_by_key(|change| all.iter().position(|known| known == change));
            assert_eq!(found, all, "{damage:?}");
        };
        by_name(&Keeper::on_record(&files).expect("shown"));
        let mut keeper = Keeper::open(files.clone()).expect("keeper");
        by_name(keeper.kept());
        drop(keeper);
        // The record is complete again.
        keeper = Keeper::open(files.clone()).expect("keeper");
        by_name(keeper.kept());
        for change in &all {
            assert_eq!(keeper.forget(&change.target).expect("forgotten"), Undone::Restored);
        }
        drop(keeper);
        assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
        let left: Vec<PathBuf> = contents(dir.path()).into_iter().map(|(path, _)| path).collect();
        let mut expected = vec![dir.path().join("fstab")];
        if damage.is_some() {
            expected.push(files.state.join("kept.json.damaged-1"));
        }
        expected.push(dir.path().join("udev"));
        assert_eq!(left, expected);
    }
}

#[test]
fn readable_settings_stay_on_record_and_files_with_others_are_named() {
    let (dir, files, mut keeper) = bed();
    keeper.keep(&applied(r#"{"kind": "swappiness"}"#, "60", "10")).expect("kept");
    let scheduler = applied(r#"{"kind": "scheduler", "device": "sda"}"#, "none", "bfq");
    keeper.keep(&scheduler).expect("kept");
    keeper
        .keep(&applied(r#"{"kind": "journal", "of": "sync_interval"}"#, "unset", "SyncIntervalSec=300s"))
        .expect("kept");
    drop(keeper);
    let record = files.state.join(KeptFiles::RECORD);
    let text = fs::read_to_string(&record).expect("record");
    // The first entry stays readable.
    fs::write(&record, &text[..text.find("sda").expect("it is there")]).expect("write");
    let mut keeper = Keeper::open(files.clone()).expect("keeper");
    assert_eq!(keeper.kept().len(), 1);
    let named: Vec<PathBuf> = keeper.files_off_record();
    let drop_in = dir.path().join("systemd/journald.conf.d/90-fonio-journald-sync.conf");
    assert_eq!(named, [files.udev_rules.clone(), drop_in]);
    assert_eq!(
        keeper.forget(&applied(r#"{"kind": "swappiness"}"#, "", "").target).expect("forgotten"),
        Undone::Restored
    );
    assert!(!files.sysctl.exists());
}

#[test]
fn a_mark_whose_option_somebody_removed_goes() {
    let (_dir, files, mut keeper) = bed();
    keeper
        .keep(&applied(r#"{"kind": "access_times", "dir": "/data"}"#, "relatime", "noatime"))
        .expect("kept");
    drop(keeper);
    let text = fs::read_to_string(&files.fstab).expect("fstab");
    fs::write(&files.fstab, text.replace("rw,noatime", "rw,relatime")).expect("write");
    let keeper = Keeper::open(files.clone()).expect("keeper");
    assert!(keeper.kept().is_empty());
    drop(keeper);
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
    assert!(!files.state.exists());
}

/// findmnt takes minutes for a table with thousands of lines, so it checks only the changed line.
#[test]
fn findmnt_reads_one_line() {
    let (dir, files, mut keeper) = bed();
    let filler: String =
        (0..3000).map(|at| format!("UUID={at:04}-2 /mnt/{at} ext4 defaults 0 1\n")).collect();
    fs::write(&files.fstab, format!("{FSTAB}{filler}")).expect("write");
    let tool = dir.path().join("bin");
    fs::create_dir(&tool).expect("mkdir");
    let lines = dir.path().join("lines");
    let script = format!("#!/bin/sh\nwc -l <\"$3\" >>{}\n", lines.display());
    fonio_testing::write_program(&tool.join("findmnt"), script);
    keeper.findmnt = tool.join("findmnt");
    let change = applied(r#"{"kind": "access_times", "dir": "/data"}"#, "relatime", "noatime");
    keeper.keep(&change).expect("kept");
    assert_eq!(keeper.forget(&change.target).expect("forgotten"), Undone::Restored);
    assert_eq!(fs::read_to_string(lines).expect("it ran").trim(), "1");
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), format!("{FSTAB}{filler}"));
}

#[test]
fn a_line_that_findmnt_refuses_is_not_written() {
    let (_dir, files, mut keeper) = bed();
    // The first call, for the new line, reports an error; the second, for the line before, none.
    let tool = files.state.with_file_name("findmnt");
    let script = "#!/bin/sh\ngrep -q noatime \"$3\" && echo '   [E] no such option'\ntrue\n";
    fonio_testing::write_program(&tool, script);
    keeper.findmnt = tool;
    let error = keeper
        .keep(&applied(r#"{"kind": "access_times", "dir": "/data"}"#, "relatime", "noatime"))
        .expect_err("refused");
    assert!(error.to_string().ends_with("reports in the new line: [E] no such option"), "{error}");
    drop(keeper);
    assert_eq!(fs::read_to_string(&files.fstab).expect("fstab"), FSTAB);
    assert!(!files.state.exists() && !files.fstab.with_file_name("fstab.before-fonio").exists());
}

/// The calls that change files. Not every architecture has all of them.
const CALLS: &str = "openat write pwrite64 fsync rename renameat renameat2 unlink unlinkat ftruncate fchmod \
    fchown chmod mkdir mkdirat rmdir";
/// The calls that need space.
const NEED_SPACE: [&str; 6] = ["openat", "write", "pwrite64", "fsync", "mkdir", "mkdirat"];
/// The folder in which `a_helper_keeps_and_forgets` works.
const BED: &str = "FONIO_TEST_BED";

/// Keeps and forgets settings, as a process that the tests below kill. Does nothing on its own.
#[test]
fn a_helper_keeps_and_forgets() {
    let Some(dir) = std::env::var_os(BED) else { return };
    let files = files_in(Path::new(&dir));
    let changes = [
        applied(r#"{"kind": "access_times", "dir": "/data"}"#, "relatime", "noatime"),
        applied(r#"{"kind": "swappiness"}"#, "60", "10"),
    ];
    let failed = |error: HostError| eprintln!("refused: {error}");
    let mut keeper = match Keeper::open(files) {
        Ok(keeper) => keeper,
        Err(error) => return failed(error),
    };
    keeper.findmnt = "true".into();
    for change in &changes {
        let _ = keeper.keep(change).map_err(failed);
    }
    let _ = keeper.forget(&changes[0].target).map_err(failed);
}

/// Lets a fault happen at each call of the helper that changes a file. Afterwards, all settings can be undone,
/// and nothing is left.
fn leaves_nothing(calls: &[&str], fault: &str, is_linked: bool) {
    let mut faults = 0;
    let mut done = None;
    for (call, at) in calls.iter().flat_map(|call| (1..500).map(move |at| (call, at))) {
        // The helper made fewer calls of this kind.
        if done == Some(call) {
            continue;
        }
        let dir = tempfile::tempdir().expect("dir");
        let (bed, trace) = (dir.path().join("bed"), dir.path().join("trace"));
        fs::create_dir(&bed).expect("mkdir");
        let (files, other) = (machine(&bed), bed.join("other-name"));
        if is_linked {
            fs::hard_link(&files.fstab, &other).expect("link");
        }
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "--seccomp-bpf", "-o"]).arg(&trace);
        strace.args(["-e", &format!("inject=?{call}:{fault}:when={at}")]);
        strace.arg(std::env::current_exe().expect("procfs")).args(["--test-threads=1", "--exact"]);
        strace.arg("settings::kept::tests::a_helper_keeps_and_forgets").env(BED, &bed);
        let out = strace.output().expect("strace runs");
        let is_killed = std::os::unix::process::ExitStatusExt::signal(&out.status) == Some(9);
        let was_faulty = is_killed || fs::read_to_string(&trace).expect("trace").contains("(INJECTED)");
        let case = format!("{call} {at} {fault}, linked: {is_linked}");
        if !was_faulty {
            assert!(out.status.success(), "{case}: {}", String::from_utf8_lossy(&out.stderr));
            done = Some(call);
            continue;
        }
        faults += 1;
        let mut keeper = Keeper::open(files.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
        let targets: Vec<Target> = keeper.kept().iter().map(|kept| kept.applied.target.clone()).collect();
        for target in targets {
            assert_eq!(keeper.forget(&target).expect("forgotten"), Undone::Restored, "{case}");
        }
        drop(keeper);
        let mut expected = vec![(files.fstab.clone(), FSTAB.to_owned())];
        if is_linked {
            expected.push((other, FSTAB.to_owned()));
        }
        expected.push((files.udev_control.clone(), String::new()));
        assert_eq!(contents(&bed), expected, "{case}");
        assert!(!files.state.exists(), "{case}");
    }
    assert!(faults > calls.len(), "only {faults} faults happened");
    eprintln!("{faults} faults ({fault}) tried");
}

#[test]
fn a_kill_at_any_write_leaves_nothing() {
    skip_without!(Strace);
    let calls: Vec<&str> = CALLS.split_whitespace().collect();
    leaves_nothing(&calls, "signal=KILL", false);
}

#[test]
fn a_kill_at_any_write_leaves_hard_links_as_they_were() {
    skip_without!(Strace);
    let calls: Vec<&str> = CALLS.split_whitespace().collect();
    leaves_nothing(&calls, "signal=KILL", true);
}

#[test]
fn a_full_disk_at_any_write_leaves_nothing() {
    skip_without!(Strace);
    leaves_nothing(&NEED_SPACE, "error=ENOSPC", false);
    leaves_nothing(&NEED_SPACE, "error=EDQUOT", true);
}

#[derive(Clone, Debug)]
enum Act {
    Keep(usize),
    Forget(usize),
    /// The process is killed between writing the record and writing the file.
    KilledWhileKeeping(usize),
    /// The process is killed between writing the file and writing the record.
    KilledWhileForgetting(usize),
    /// Another program adds a line to a file, or an option to a mount.
    ForeignLine(usize),
    ForeignOption,
    /// Another program puts a drop-in next to one of fonio's drop-ins.
    ForeignDropIn,
}

fn act() -> impl Strategy<Value = Act> {
    let one = 0..settings().len();
    prop_oneof![
        one.clone().prop_map(Act::Keep),
        one.clone().prop_map(Act::Forget),
        one.clone().prop_map(Act::KilledWhileKeeping),
        one.clone().prop_map(Act::KilledWhileForgetting),
        (0..3_usize).prop_map(Act::ForeignLine),
        Just(Act::ForeignOption),
        Just(Act::ForeignDropIn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// After any history, removing all settings leaves the files as if fonio had never run.
    #[test]
    fn nothing_is_left_after_any_history(acts in prop::collection::vec(act(), 0..25)) {
        let dir = tempfile::tempdir().expect("dir");
        let files = machine(dir.path());
        let all = settings();
        let texts = [&files.fstab, &files.udev_rules, &files.sysctl];
        let dropped = files.systemd.join("journald.conf.d/50-own.conf");
        // These texts were written by other programs, in the order of the files.
        let mut foreign = [FSTAB.to_owned(), String::new(), String::new()];
        let mut keeper = Keeper::open(files.clone()).expect("keeper");
        for act in acts {
            let now = || {
                let mut now = contents(dir.path());
                now.retain(|(path, _)| !path.starts_with(&files.state));
                now
            };
            let put = |before: Vec<(PathBuf, String)>| {
                for (path, _) in now() {
                    if !before.iter().any(|(known, _)| *known == path) {
                        remove(&path).expect("remove");
                    }
                }
                for (path, text) in before {
                    fs::write(path, text).expect("write");
                }
            };
            match act {
                Act::Keep(at) => drop(keeper.keep(&all[at]).expect("kept")),
                Act::Forget(at) => drop(keeper.forget(&all[at].target).expect("forgotten")),
                Act::KilledWhileKeeping(at) if !keeper.kept().iter().any(|kept| kept.applied.target == all[at].target) => {
                    let before = now();
                    keeper.keep(&all[at]).expect("kept");
                    put(before);
                }
                Act::KilledWhileForgetting(at) => {
                    let path = keeper.files.state.join(KeptFiles::RECORD);
                    let record = fs::read(&path).ok();
                    keeper.forget(&all[at].target).expect("forgotten");
                    if let Some(record) = record {
                        fs::write(&path, record).expect("write");
                    }
                }
                Act::KilledWhileKeeping(_) => {}
                Act::ForeignLine(of) => {
                    // A file that belongs only to fonio is removed with fonio's last line.
                    if of > 0 && !texts[of].exists() {
                        continue;
                    }
                    let line = "# somebody was here\n";
                    let text = fs::read_to_string(texts[of]).expect("text");
                    fs::write(texts[of], text + line).expect("write");
                    foreign[of].push_str(line);
                }
                Act::ForeignOption => {
                    let text = fs::read_to_string(&files.fstab).expect("fstab");
                    let with = |text: &str| {
                        let place = fstab::options_of(text, "/").expect("it is there");
                        let mut text = text.to_owned();
                        text.insert_str(place.start, "nosuid,");
                        text
                    };
                    fs::write(&files.fstab, with(&text)).expect("write");
                    foreign[0] = with(&foreign[0]);
                }
                Act::ForeignDropIn => {
                    if dropped.parent().expect("it has one").exists() {
                        fs::write(&dropped, "[Journal]\nStorage=auto\n").expect("write");
                    }
                }
            }
            drop(keeper);
            keeper = Keeper::open(files.clone()).expect("keeper");
        }
        for setting in &all {
            keeper.forget(&setting.target).expect("forgotten");
        }
        prop_assert!(keeper.kept().is_empty());
        drop(keeper);
        prop_assert!(!files.state.exists());
        let mut expected = Vec::new();
        if files.systemd.exists() {
            expected.push((dropped, "[Journal]\nStorage=auto\n".to_owned()));
            prop_assert_eq!(contents(&files.systemd), expected);
        }
        for (path, mut expected) in texts.iter().zip(foreign) {
            let mut text = fs::read_to_string(path).unwrap_or_default();
            if !path.ends_with("fstab") {
                // Lines of other programs stay below fonio's header, so remove the header.
                text = text.replace(HEADER, "");
                expected = expected.replace(HEADER, "");
            }
            prop_assert_eq!(text, expected, "{}", path.display());
        }
        let left: Vec<PathBuf> = contents(dir.path()).into_iter().map(|(path, _)| path).collect();
        prop_assert!(left.iter().all(|path| !path.to_string_lossy().contains("before-fonio")
            && !path.to_string_lossy().contains("fonio-new")), "{left:?}");
    }
}
