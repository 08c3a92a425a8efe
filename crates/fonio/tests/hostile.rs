//! Tests fonio against a hostile local user, who was there first.
//!
//! The victim is a user without rights, or root where the command line names the folders. The victim has a
//! temporary folder that everybody can write to, as `/tmp`. Each
//! case puts something in the place of a file or folder that fonio opens by itself: another user's object, a
//! link, a named pipe, a device, a huge file, or an object that others can write to. Then fonio must end
//! within seconds with an error that names the object, and must not change anything.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fonio_testing::skip_without;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::{text, trace};

const VICTIM: u32 = 65534;
const HOSTILE: u32 = 54321;
/// The longest time for which a start may wait for a lock, and the time of a start on a slow machine.
const WITHIN: Duration = Duration::from_secs(20);

/// Ways in which a hostile user replaces a folder or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// A symbolic link of the hostile user to a file or folder of the victim.
    Link,
    /// A named pipe. A program that opens it without care waits forever.
    Pipe,
    /// A device that never ends: `/dev/zero`.
    Device,
    /// A file or folder of the hostile user, with the content that fonio expects.
    Foreign,
    /// A file or folder of the victim that everybody can write to.
    Open,
    /// A file of 1 TiB.
    Huge,
}

const OF_FOLDER: &[Plant] = &[Plant::Link, Plant::Pipe, Plant::Device, Plant::Foreign, Plant::Open];
const OF_FILE: &[Plant] =
    &[Plant::Link, Plant::Pipe, Plant::Device, Plant::Foreign, Plant::Open, Plant::Huge];

/// The files and folders that fonio opens by itself, in the victim's folder, with the command that opens them.
/// A folder ends in a slash.
const OPENED: &[(&str, &[Plant], &str)] = &[
    ("tmp/fonio-65534/", OF_FOLDER, EMULATE),
    ("tmp/fonio-65534/", OF_FOLDER, "fix"),
    (LEDGER, OF_FILE, EMULATE),
    ("tmp/fonio-65534/settings.json", OF_FILE, "fix"),
    ("state/", OF_FOLDER, "storebench delete --server http://127.0.0.1:1 id"),
    ("state/fonio/", OF_FOLDER, "storebench delete --server http://127.0.0.1:1 id"),
    ("state/fonio/storebench/", OF_FOLDER, "storebench delete --server http://127.0.0.1:1 id"),
    ("state/fonio/storebench/tokens/", OF_FOLDER, "storebench delete --server http://127.0.0.1:1 id"),
    ("run/", OF_FOLDER, "watch run --state watch --run run"),
    ("run/kept/", OF_FOLDER, "watch run --state watch --run run"),
    // The watch empties this file without reading it, so its size does not matter.
    ("run/running", OF_FILE.split_at(5).0, "watch run --state watch --run run"),
    ("watch/", OF_FOLDER, "watch report --state watch --run run"),
    ("watch/rings", OF_FILE, "watch report --state watch --run run"),
    ("etc/watch.toml", OF_FILE, CONFIGURED),
];

const CONFIGURED: &str = "watch run --state watch --run run --config etc/watch.toml";

const EMULATE: &str = "device emulate kingston --size 16MiB --nbd tmp/disk -- true";

/// The ledger of a process that has ended.
const LEDGER: &str = "tmp/fonio-65534/4194303-0.ledger";

/// The program fonio, at a path where the victim can run it.
struct Program {
    path: PathBuf,
    _copy: Option<tempfile::TempDir>,
}

impl Program {
    fn new() -> Program {
        let built = PathBuf::from(env!("CARGO_BIN_EXE_fonio"));
        let tried = Command::new(&built).arg("--version").uid(VICTIM).gid(VICTIM).output();
        if tried.is_ok_and(|out| out.status.success()) {
            return Program { path: built, _copy: None };
        }
        let copy = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(copy.path(), Permissions::from_mode(0o755)).expect("own folder");
        let path = copy.path().join("fonio");
        fs::copy(&built, &path).expect("room for a copy");
        Program { path, _copy: Some(copy) }
    }
}

/// A home of the victim, in a folder in which everybody can make files.
struct Home<'p> {
    program: &'p Program,
    victim: u32,
    dir: tempfile::TempDir,
}

impl Home<'_> {
    fn new(program: &Program, victim: u32) -> Home<'_> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("own folder");
        let home = Home { program, victim, dir };
        home.folder("tmp", 0o1777);
        fs::write(home.at("precious"), "precious").expect("a new file");
        home.folder("elsewhere", 0o700);
        for name in ["precious", "elsewhere"] {
            chown(home.at(name), Some(victim), Some(victim)).expect("root");
        }
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self, name: &str, mode: u32) {
        fs::create_dir(self.at(name)).expect("a new folder");
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).expect("own folder");
    }

    /// Makes the missing folders above an object, private to the victim.
    fn make_above(&self, name: &str) {
        for above in Path::new(name).ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let path = self.dir.path().join(above);
            if !path.exists() {
                fs::create_dir(&path).expect("a new folder");
                fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("own folder");
                chown(&path, Some(self.victim), Some(self.victim)).expect("root");
            }
        }
    }

    /// Returns a ledger whose only step removes the victim's file.
    fn forged(&self) -> String {
        let owner = r#"{"owner":{"pid":4194303,"started_ticks":1}}"#;
        let path = self.at("precious");
        format!("{owner}\n{{\"begin\":{{\"at\":0,\"step\":{{\"kind\":\"file\",\"path\":{path:?}}}}}}}\n")
    }

    fn plant(&self, name: &str, plant: Plant) {
        let is_folder = name.ends_with('/');
        let path = self.at(name.trim_end_matches('/'));
        self.make_above(name.trim_end_matches('/'));
        let (owner, mode) = match plant {
            Plant::Open => (self.victim, 0o777),
            Plant::Huge => (self.victim, 0o600),
            Plant::Link | Plant::Pipe | Plant::Device | Plant::Foreign => (HOSTILE, 0o755),
        };
        let node =
            |kind, device| mknodat(CWD, &path, kind, Mode::from_raw_mode(0o666), device).expect("root");
        match plant {
            Plant::Link => {
                let to = self.at(if is_folder { "elsewhere" } else { "precious" });
                symlink(to, &path).expect("a new link");
                std::os::unix::fs::lchown(&path, Some(owner), Some(owner)).expect("root");
                return;
            }
            Plant::Pipe => node(FileType::Fifo, 0),
            Plant::Device => node(FileType::CharacterDevice, makedev(1, 5)),
            Plant::Foreign | Plant::Open if is_folder => {
                fs::create_dir(&path).expect("a new folder");
                fs::write(path.join("4194303-0.ledger"), self.forged()).expect("a new file");
            }
            Plant::Foreign | Plant::Open => fs::write(&path, self.forged()).expect("a new file"),
            Plant::Huge => File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file"),
        }
        chown(&path, Some(owner), Some(owner)).expect("root");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("root");
    }

    fn fonio(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program.path);
        command.args(words.split(' ')).current_dir(self.dir.path()).env_clear();
        command.uid(self.victim).gid(self.victim);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", self.at("tmp"));
        command.env("HOME", self.dir.path()).env("XDG_STATE_HOME", self.at("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns a line for each file and folder: its type, owner, mode, size, change time and content.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.dir.path().to_owned()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).expect("root may read it") {
                let path = entry.expect("an entry").path();
                let stat = path.symlink_metadata().expect("it is there");
                let is_small = stat.is_file() && stat.len() < 1 << 20;
                let content =
                    if is_small { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
                let times = (stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec());
                found.insert(
                    path.clone(),
                    format!("{:o} {} {} {times:?} {content}", stat.mode(), stat.uid(), stat.len()),
                );
                if stat.is_dir() {
                    left.push(path);
                }
            }
        }
        found
    }
}

/// Waits for a command; kills it if it does not end in time.
fn output(command: &mut Command) -> Option<Output> {
    let mut child = command.spawn().expect("fonio starts");
    let began = Instant::now();
    let mut is_late = false;
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > WITHIN {
            is_late = true;
            child.kill().expect("a child");
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("a child");
    (!is_late).then_some(output)
}

#[test]
fn nothing_of_another_user_is_believed() {
    skip_without!(Root);
    let program = Program::new();
    let mut wrong = Vec::new();
    let mut cases = 0;
    // The folders of root are those of the machine, except for those that the command line names.
    let of_root = OPENED.iter().filter(|(_, _, words)| words.starts_with("watch"));
    let all = OPENED.iter().map(|case| (VICTIM, case)).chain(of_root.map(|case| (0, case)));
    for (victim, (name, plants, words)) in all {
        for plant in *plants {
            let home = Home::new(&program, victim);
            home.plant(name, *plant);
            let before = home.state();
            let case = format!("user {victim}: {name} {plant:?}, fonio {words}");
            let Some(out) = output(&mut home.fonio(words)) else {
                wrong.push(format!("{case}: does not end"));
                continue;
            };
            cases += 1;
            let said = text(&out.stderr);
            let path = home.at(name.trim_end_matches('/'));
            if out.status.success() || !said.contains(&path.display().to_string()) {
                wrong.push(format!("{case}: {} {said}", out.status));
            }
            let after = home.state();
            for (path, was) in &before {
                if after.get(path) != Some(was) {
                    wrong.push(format!("{case}: {} was {was}, is {:?}", path.display(), after.get(path)));
                }
            }
            let new = after.keys().filter(|path| !before.contains_key(*path));
            wrong.extend(new.map(|path| format!("{case}: {} is new", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("{cases} cases tried, 0 failed");
}

#[test]
fn a_forged_step_in_the_own_folder_is_reported_and_not_undone() {
    skip_without!(Root);
    let program = Program::new();
    let home = Home::new(&program, VICTIM);
    home.make_above(LEDGER);
    fs::write(home.at(LEDGER), home.forged()).expect("a new file");
    chown(home.at(LEDGER), Some(VICTIM), Some(VICTIM)).expect("root");
    let out = output(&mut home.fonio(EMULATE)).expect("it ends");
    let said = text(&out.stderr);
    let expected = format!("fonio does not make file {}", home.at("precious").display());
    assert!(said.contains(&expected) && said.contains(LEDGER), "{said}");
    assert_eq!(fs::read_to_string(home.at("precious")).expect("it is there"), "precious");
}

#[test]
fn a_held_ledger_is_named_and_a_signal_ends_the_wait() {
    skip_without!(Root);
    let program = Program::new();
    let home = Home::new(&program, VICTIM);
    home.make_above(LEDGER);
    fs::write(home.at(LEDGER), home.forged()).expect("a new file");
    chown(home.at(LEDGER), Some(VICTIM), Some(VICTIM)).expect("root");
    let holder = File::open(home.at(LEDGER)).expect("it is there");
    holder.lock().expect("nobody has it");
    let out = output(&mut home.fonio(EMULATE)).expect("it ends");
    let said = text(&out.stderr);
    let named = format!("process {} ", std::process::id());
    assert!(said.contains(LEDGER) && said.contains(&named), "{said}");

    let mut child = home.fonio(EMULATE).spawn().expect("fonio starts");
    // After a second, the message names the holder.
    let mut said = [0; 16];
    child.stderr.as_mut().expect("it is piped").read_exact(&mut said).expect("it waits");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("a process id");
    kill_process(pid, Signal::TERM).expect("it runs");
    let began = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(2), "it went on for {:?}", began.elapsed());
}

#[test]
fn results_are_private_and_belong_to_the_caller_of_sudo() {
    skip_without!(Root);
    for (caller, owner) in [(None, 0), (Some("54321"), HOSTILE)] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        command.args(["import".as_ref(), trace("takeoverjp-sample.blktrace.0").as_os_str()]);
        command.args(["-o", "recording"]).current_dir(dir.path());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        if let Some(caller) = caller {
            command.env("SUDO_UID", caller).env("SUDO_GID", caller);
        }
        let out = command.output().expect("fonio starts");
        assert!(out.status.success(), "{}", text(&out.stderr));
        let recording = dir.path().join("recording");
        let files =
            fs::read_dir(&recording).expect("it is there").map(|entry| entry.expect("an entry").path());
        let found: Vec<PathBuf> = files.collect();
        assert!(found.len() > 2, "{found:?}");
        for path in found.iter().chain([&recording]) {
            let stat = path.metadata().expect("it is there");
            let mode = if stat.is_dir() { 0o700 } else { 0o600 };
            assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (owner, owner, mode), "{path:?}");
        }
    }
}
