//! Kills `fonio record`, or lets its disk be full, at its calls that change files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use fonio_testing::{Need, has, skip, skip_without};

use super::{Files, text};

/// The calls that change files. Not every architecture has all of them.
const CALLS: [&str; 16] = [
    "openat",
    "write",
    "pwrite64",
    "fallocate",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "ftruncate",
    "fchmod",
    "fchown",
    "mkdir",
    "mkdirat",
    "rmdir",
];
/// The calls that need space.
const NEED_SPACE: [&str; 5] = ["write", "pwrite64", "fallocate", "fsync", "mkdir"];
/// Number of faults of each kind, spread over the run, if `FONIO_LONG_TESTS` is not set.
const FEW: usize = 6;

/// The recorded command: it writes a file and syncs it.
const LOAD: [&str; 5] = ["dd", "if=/dev/zero", "of=load", "bs=64k", "count=4"];

struct Bed {
    files: Files,
}

impl Bed {
    /// Makes a folder for recordings; `None` if this machine cannot record.
    fn new() -> Option<Bed> {
        let bed = Bed { files: Files::new() };
        for folder in ["temporary", "runs"] {
            fs::create_dir(bed.files.path(folder)).expect("a new folder");
        }
        let output = bed.record(None).output().expect("fonio starts");
        if output.status.success() {
            return Some(bed);
        }
        skip(Need::Tracefs, text(&output.stderr));
        None
    }

    /// Returns the command that records, under strace with some options.
    fn record(&self, strace: Option<&[String]>) -> Command {
        let fonio = env!("CARGO_BIN_EXE_fonio");
        let mut command = Command::new(if strace.is_some() { "strace" } else { fonio });
        if let Some(options) = strace {
            // With --seccomp-bpf, strace delivers no signal.
            command.args(["-f", "-qq", "-o"]).arg(self.files.path("calls"));
            command.args(options).arg(fonio);
        }
        command.args(["record", "--overwrite", "-o"]).arg(self.files.path("runs").join("run")).arg("--");
        command.args(LOAD).arg("conv=fsync").current_dir(self.files.dir.path());
        command.env("TMPDIR", self.files.path("temporary")).env("NO_COLOR", "1");
        command.env("FONIO_LASTING_STATE", self.files.path("lasting"));
        command
    }

    /// Returns the calls of a recording that change its files or tracefs: the kind of the call, and its number
    /// among the thread's calls of this kind.
    fn changing_calls(&self) -> BTreeSet<(&'static str, u32)> {
        let all = CALLS.map(|call| format!("?{call}")).join(",");
        let options = ["-y".to_owned(), "-e".to_owned(), format!("trace={all}")];
        let output = self.record(Some(&options)).output().expect("strace starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = fs::read_to_string(self.files.path("calls")).expect("strace's output");
        changing(&shown, &self.files.path("runs"))
    }

    /// Records with a fault at the `at`th call of a kind. Returns the output, and whether the fault happened.
    fn with_fault(&self, call: &str, fault: &str, at: u32) -> (Output, bool) {
        let options = [format!("-etrace=?{call}"), format!("-einject=?{call}:{fault}:when={at}")];
        let output = self.record(Some(&options)).output().expect("strace starts");
        let is_killed = output.status.signal() == Some(9);
        let calls = fs::read_to_string(self.files.path("calls")).unwrap_or_default();
        (output, is_killed || calls.contains("(INJECTED)"))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.files.path(folder)).expect("it is there");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Finds, in strace's output, the calls that change files below `folder` or in a tracefs instance.
fn changing(shown: &str, folder: &Path) -> BTreeSet<(&'static str, u32)> {
    let folder = folder.to_string_lossy().into_owned();
    let (mut counts, mut found) = (BTreeMap::new(), BTreeSet::new());
    for line in shown.lines() {
        let Some((pid, rest)) = line.trim_start().split_once(' ') else { continue };
        let Some((name, _)) = rest.trim_start().split_once('(') else { continue };
        let Some(call) = CALLS.iter().find(|call| **call == name) else { continue };
        let count: &mut u32 = counts.entry((pid.to_owned(), *call)).or_default();
        *count += 1;
        let is_ours = rest.contains(&folder) || rest.contains("/instances/");
        let reads =
            *call == "openat" && !["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| rest.contains(flag));
        if is_ours && !reads {
            found.insert((*call, *count));
        }
    }
    found
}

#[test]
fn changing_calls_are_counted_for_each_thread() {
    let shown = "7 openat(AT_FDCWD</x>, \"/proc/stat\", O_RDONLY|O_CLOEXEC) = 3</proc/stat>\n\
        8 openat(AT_FDCWD</x>, \"/d/runs/a\", O_WRONLY|O_CREAT, 0600) = 4</d/runs/a>\n\
        7 openat(AT_FDCWD</x>, \"/d/runs/b\", O_WRONLY|O_CREAT, 0600 <unfinished ...>\n\
        7 <... openat resumed>) = 5</d/runs/b>\n7 write(6</instances/fonio-7-1-0/tracing_on>, \"1\", 1) = 1\n\
        7 write(1<pipe:[3]>, \"/d\", 2) = 2\n7 write(5</d/runs/b>, \"x\", 1) = 1\n";
    let found = changing(shown, Path::new("/d"));
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [("openat", 1), ("openat", 2), ("write", 1), ("write", 2), ("write", 3)]
    );
}

/// Returns the names of tracefs instances whose recorder no longer runs.
fn instances_of_the_dead() -> Vec<String> {
    let script = "mount -t tracefs none /mnt && ls /mnt/instances";
    let output =
        Command::new("unshare").args(["--mount", "sh", "-c", script]).output().expect("unshare starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let is_dead = |name: &&str| {
        let pid = name.strip_prefix("fonio-").and_then(|rest| rest.split('-').next());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    text(&output.stdout).lines().filter(is_dead).map(str::to_owned).collect()
}

/// Lets faults happen at the calls of `fonio record`. Afterwards, `fonio report` shows the recording or refuses it
/// in one sentence, and the next recording leaves nothing of the former.
fn leaves_nothing(bed: &Bed, kinds: &[&str], fault: &str) {
    let mut calls: Vec<(&str, u32)> = bed.changing_calls().into_iter().collect();
    calls.retain(|(call, _)| kinds.contains(call));
    assert!(calls.len() > FEW, "{calls:?}");
    let known = calls.len();
    if std::env::var_os("FONIO_LONG_TESTS").is_none() {
        calls = (0..FEW).map(|at| calls[at * known / FEW]).collect();
    }
    let mut faults = 0;
    for (call, at) in &calls {
        let (output, was_faulty) = bed.with_fault(call, fault, *at);
        faults += usize::from(was_faulty);
        let case = format!("{call} {at} {fault}: {}", text(&output.stderr));
        assert!(!case.contains("panicked"), "{case}");
        if !was_faulty {
            // The threads of two runs do not make exactly the same calls.
            assert!(output.status.success(), "{case}");
        }
        let report = bed.files.run(&["report", "runs/run"]);
        let said = text(&report.stderr);
        match report.status.code() {
            Some(0) => {}
            Some(1) => assert!(said.starts_with("error: ") || said.starts_with("fonio: "), "{case}: {said}"),
            code => panic!("{case}: {code:?} {said}"),
        }
        if output.status.code().is_some() {
            assert_eq!(bed.names("temporary"), [""; 0], "{case}");
            assert_eq!(bed.names("runs"), ["run"], "{case}");
        }
        let next = bed.record(None).output().expect("fonio starts");
        assert!(next.status.success(), "{case}: {}", text(&next.stderr));
        assert_eq!(bed.names("runs"), ["run"], "{case}");
        assert_eq!(bed.names("temporary"), [""; 0], "{case}");
        // Another test may have just killed a recorder of its own, whose next start removes the instance.
        let is_clean = || instances_of_the_dead().is_empty();
        let waits = std::iter::repeat_with(|| std::thread::sleep(Duration::from_secs(1))).take(20);
        assert!(
            is_clean() || waits.into_iter().any(|()| is_clean()),
            "{case}: {:?}",
            instances_of_the_dead()
        );
    }
    assert!(faults * 2 > calls.len(), "only {faults} of {} faults happened", calls.len());
    eprintln!("{faults} of {known} calls ({fault}) tried");
}

#[test]
fn a_kill_at_any_write_of_a_recording_leaves_nothing() {
    skip_without!(Root, Strace);
    if let Some(bed) = Bed::new() {
        leaves_nothing(&bed, &CALLS, "signal=KILL");
    }
}

#[test]
fn a_full_disk_at_any_write_of_a_recording_leaves_nothing() {
    if !has(&[Need::Root, Need::Strace]) {
        return;
    }
    if let Some(bed) = Bed::new() {
        leaves_nothing(&bed, &NEED_SPACE, "error=ENOSPC");
    }
}
