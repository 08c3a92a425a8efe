//! `cargo studies fuse-safety`: tests the promises of `fonio mount` on failing devices.
//!
//! - `errors`: an emulated card fails random writes under ext4. Through the mount, `fsync` or `close` reports
//!   each error to each writer, once per handle. Data for which these calls succeeded is on the card.
//! - `sequences`: random operations on the mount are compared with a model file system, by default a million
//!   operations for each mode.
//! - `suites`: the test suites pjdfstest and fsx of other authors (`suites.rs`).
//! - `kernels`: the tests of the mount on Debian's kernels in virtual machines, with 100,000 open files.
//!
//! Power cuts are a study of their own (`cargo studies cuts-bfuse`).

mod suites;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fonio_lab::{Archive, Guest, Initramfs, Shape, Task};

use crate::{emulated, process, tools};

const MODES: [&str; 5] =
    ["mode=extended", "mode=buffered", "mode=buffered,direct=no", "mode=writeback", "mode=auto"];
const PARTS: [&str; 4] = ["errors", "sequences", "suites", "kernels"];
/// Size in bytes of a record in the test of the failing card. The content of a record is its number,
/// repeated.
const RECORD_BYTES: usize = 64 << 10;
const RECORDS: usize = 400;
const BATCH: usize = 8;
const OPERATIONS: &str = "1000000";
/// Number of random operations in a guest. A guest is about twenty times slower than this machine.
const GUEST_OPERATIONS: &str = "20000";
const GUEST_FILES: &str = "100000";
const GUEST_MEMORY_MIB: u64 = 3072;
/// A kernel without FUSE passthrough of complete files, and a kernel with it.
const KERNELS: [&str; 2] = ["6.1", "6.12"];

/// The name under which the emulator starts this program as one side of a test.
pub const SIDE: &str = "fuse-safety-side";

#[derive(Args)]
pub struct Arguments {
    /// Run these parts (default: all).
    #[arg(value_name = "PART", value_parser = PARTS)]
    parts: Vec<String>,
}

/// Runs this program as one side of a test.
pub fn run_side(words: &[String]) -> Result<()> {
    match words {
        [side, mode, fonio] if side == "write-on-failing" => write_on_failing(mode, Path::new(fonio)),
        _ => bail!("there is no side `{}`", words.join(" ")),
    }
}

pub fn run(Arguments { parts }: &Arguments) -> Result<()> {
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|word| word == part);
    tools::ensure(&[tools::BUILD])?;
    let fonio = emulated::fonio()?;
    let own = std::env::current_exe().context("cannot find this program")?;
    for mode in MODES {
        if wanted("errors") {
            // The first 192 MiB contain the inode tables, so no fault is injected there. The journal follows
            // the inode tables; after an error in the journal, ext4 stops and reports it.
            let mut command = emulate(&fonio);
            command.args(["--fault", "error:op=write,range=192M-2G,probability=0.02", "--"]);
            command.arg(&own).args([SIDE, "write-on-failing", mode]).arg(&fonio);
            process::run(&mut command).with_context(|| format!("{mode} on a card that fails writes"))?;
        }
    }
    if wanted("sequences") {
        let mut tests = process::cargo();
        tests.args(["test", "--package", "fonio-bfuse", "--test", "integration", "sequences::"]);
        if std::env::var_os("FONIO_BFUSE_OPERATIONS").is_none() {
            tests.env("FONIO_BFUSE_OPERATIONS", OPERATIONS);
        }
        process::run(&mut tests)?;
    }
    if wanted("suites") {
        suites::run(&fonio)?;
    }
    if wanted("kernels") {
        on_other_kernels()?;
    }
    Ok(())
}

fn on_other_kernels() -> Result<()> {
    let stop = fonio_system::signals::watch(&fonio_system::signals::ENDING)?;
    tools::ensure(&[tools::GUEST])?;
    let folder = tempfile::tempdir_in(process::scratch("guest")?)?;
    // The programs to copy to a guest, with their paths in the guest.
    let mut programs: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut built = process::cargo();
    built.args(["test", "--release", "--package", "fonio-bfuse", "--test", "integration"]);
    let output = built.args(["--no-run", "--message-format", "json"]).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{} failed: {}", process::shown(&built), output.status);
    // Require FUSE in the guest: without FUSE, tests would be skipped and would count as passed.
    let mut script = format!(
        "export {}=root,fuse && mkdir -p '{}'",
        fonio_testing::REQUIRE,
        process::target().join("tmp").display()
    );
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("cannot parse cargo's JSON")?;
        let Some(program) = message["executable"].as_str() else { continue };
        let name = message["target"]["name"].as_str().context("cargo's message names no target")?;
        let copy = fonio_lab::stripped(Path::new(program), &folder.path().join(name))?;
        programs.push((copy, Path::new("tests/deps").join(name)));
        let _ = write!(
            script,
            " && FONIO_BFUSE_FILES={GUEST_FILES} FONIO_BFUSE_OPERATIONS={GUEST_OPERATIONS} /tests/deps/{name}"
        );
    }
    process::run(process::cargo().args([
        "build",
        "--release",
        "--package",
        "fonio-bfuse",
        "--example",
        "mount",
    ]))?;
    let mount = process::target().join("release/examples/mount");
    programs
        .push((fonio_lab::stripped(&mount, &folder.path().join("mount"))?, "tests/examples/mount".into()));
    let archive = Archive::open()?;
    let announce = |text: &str| println!("{text}");
    let userland = archive.userland(&["busybox-static", "libc6", "libgcc-s1"], &announce)?;
    for kernel in KERNELS {
        let (_, kernel) = archive.kernel(&kernel.parse()?, &announce)?;
        let mut files = Initramfs::new(&userland)?;
        for (program, place) in &programs {
            files.add_program(program, place)?;
        }
        let guest = Guest {
            kernel,
            shape: Shape::Test,
            memory_mib: GUEST_MEMORY_MIB,
            modules: vec!["fuse"],
            wishes: vec![],
            files,
            disks: vec![],
            programs: None,
            card: None,
        };
        let words = ["sh", "-c", &script].map(str::to_owned);
        let task = Task { words: &words, folder: Path::new("/root"), bring: &[], to: folder.path() };
        let ended = guest.run(&archive, &task, &stop, &announce)?;
        ensure!(ended.code == 0, "the tests failed with exit code {}", ended.code);
    }
    Ok(())
}

fn emulate(fonio: &Path) -> Command {
    let mut command = Command::new(fonio);
    command.args(["device", "emulate", "galaxy_s3_emmc", "--size", "2GiB", "--fs", "ext4", "--mount"]);
    command.stdout(Stdio::null());
    command
}

fn folder_of(variable: &str) -> Result<std::path::PathBuf> {
    let folder = std::env::var_os(variable).with_context(|| format!("the emulator gives {variable}"))?;
    Ok(folder.into())
}

/// A running `fonio mount` of a folder. The mount ends when this value is dropped.
pub(crate) struct Mounted {
    dir: tempfile::TempDir,
    child: std::process::Child,
}

impl Mounted {
    pub(crate) fn start(fonio: &Path, source: &Path, mode: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut child = process::bound_to_this(fonio)
            .args(["mount", "--foreground", "--mount-options", mode])
            .args([source, dir.path()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().context("the output is not piped")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line)?;
        ensure!(line.starts_with("Mounted"), "{mode} does not mount");
        Ok(Self { dir, child })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // When the daemon gets SIGTERM, it unmounts even if another process uses the mount.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

fn record(number: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(RECORD_BYTES / size_of::<usize>())
}

/// Writes records through a mount of the failing card, and compares the reported errors with the surviving
/// records.
fn write_on_failing(mode: &str, fonio: &Path) -> Result<()> {
    let card = folder_of("FONIO_MOUNT")?;
    let source = card.join("source");
    fs::create_dir_all(&source)?;
    let mounted = Mounted::start(fonio, &source, mode)?;
    let path = mounted.dir.path().join("file");
    let file = File::create(&path)?;
    // Another handle of the file, through which nothing is written. This handle must get the error too.
    let witness = File::options().write(true).open(&path)?;
    let (mut told, mut heard) = (0, 0);
    let mut suspect = BTreeSet::new();
    for first in (0..RECORDS).step_by(BATCH) {
        let batch = first..(first + BATCH).min(RECORDS);
        let mut failed = false;
        for number in batch.clone() {
            failed |= file.write_all_at(&record(number), (number * RECORD_BYTES) as u64).is_err();
        }
        failed |= file.sync_all().is_err();
        if failed {
            told += 1;
            suspect.extend(batch);
            // An error in the file system's own blocks is reported to only one handle. ext4 itself does the
            // same.
            heard += u32::from(witness.sync_all().is_err());
            // Sync twice, because a failed write and its failed fsync are two errors.
            let _ = file.sync_all();
            match file.sync_all() {
                // After an error in the file system's own blocks, ext4 is read-only.
                Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
                    suspect.extend(first..RECORDS);
                    break;
                }
                outcome => outcome.with_context(|| format!("{mode}: one error is reported repeatedly"))?,
            }
        }
        let _ = witness.sync_all();
    }
    drop((file, witness));
    drop(mounted);
    // The page cache may contain data that never reached the card.
    let below = File::open(source.join("file"))?;
    rustix::fs::fadvise(&below, 0, None, rustix::fs::Advice::DontNeed)?;
    drop_caches()?;
    let mut missing = 0;
    for number in 0..RECORDS {
        let mut found = vec![0; RECORD_BYTES];
        let outcome = below.read_exact_at(&mut found, (number * RECORD_BYTES) as u64);
        let is_there = match outcome {
            Ok(()) => found == record(number),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(error.into()),
        };
        if !is_there {
            missing += 1;
            ensure!(suspect.contains(&number), "{mode}: record {number} is lost without an error");
        }
    }
    eprintln!(
        "{mode}: {told} of {} syncs failed, then {heard} on another handle; {missing} records lost, each \
         with an error",
        RECORDS / BATCH
    );
    Ok(())
}

fn drop_caches() -> Result<()> {
    process::run(&mut Command::new("sync"))?;
    fs::write("/proc/sys/vm/drop_caches", "1").context("cannot drop the page cache")
}
