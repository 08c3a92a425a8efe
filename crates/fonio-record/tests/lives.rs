//! Records many files that have the same few inode numbers in turn, and checks that no byte and no call gets the
//! name of another file.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use fonio_core::{Content, Op, Timestamp};
use fonio_record::{RecordOptions, Selector};
use fonio_testing::{Need, skip};
use rustix::time::{ClockId, clock_gettime};

use crate::loop_ext4::{FileSystem, Recorded};

const FILES: usize = 100_000;
/// A guest is some thirty times slower than this machine.
const FILES_IN_GUEST: usize = 10_000;
/// The file system is synced after this number of files in a guest, because f2fs uses the number of a deleted
/// file again only after a checkpoint.
const SYNCED_AFTER: usize = 500;
const FOLDER: &str = "FONIO_TEST_LIVES";
const PAGE: usize = 4096;

/// A file that the writer wrote.
struct Written {
    began: Timestamp,
    ended: Timestamp,
    inode: u64,
    names: Vec<String>,
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The function `writer` is not a test, but the process that the tests below record.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (folder, is_direct) = (Path::new(&folder), std::env::var_os("FONIO_TEST_DIRECT").is_some());
    let files: usize = std::env::var("FONIO_TEST_FILES").unwrap().parse().unwrap();
    let clip = folder.join("clip.mp4");
    let mut lines = String::new();
    for number in 0..files {
        let began = now();
        let (name, is_moved) = match number % 3 {
            0 => ("app.db-journal".to_owned(), false),
            1 => (format!("clip{number}.part"), true),
            _ => (format!("cc{number}.o"), false),
        };
        let path = folder.join(&name);
        let flags = if is_direct { libc::O_DIRECT } else { 0 };
        let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(&path);
        let file = file.unwrap();
        let inode = file.metadata().unwrap().ino();
        write(&file, is_direct);
        drop(file);
        match is_moved {
            true => fs::rename(&path, &clip).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        if files == FILES_IN_GUEST && number % SYNCED_AFTER == 0 {
            rustix::fs::syncfs(File::open(folder).unwrap()).unwrap();
        }
        let moved = if is_moved { "clip.mp4" } else { "" };
        writeln!(lines, "{began} {} {inode} {name} {moved}", now()).unwrap();
    }
    let notes = Path::new(&std::env::var_os("FONIO_TEST_NOTES").unwrap()).to_owned();
    File::create(notes).unwrap().write_all(lines.as_bytes()).unwrap();
}

/// Writes a page, and makes the kernel pass it to the device.
fn write(mut file: &File, is_direct: bool) {
    let bytes = [7_u8; 2 * PAGE];
    let aligned = bytes.as_ptr().align_offset(PAGE);
    file.write_all(&bytes[aligned..aligned + PAGE]).unwrap();
    if !is_direct {
        let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the call gets no memory.
        assert_eq!(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) }, 0);
    }
}

fn parse(line: &str) -> Written {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let names = words[3..].iter().map(|name| (*name).to_owned()).collect();
    Written { began: Timestamp(number(0)), ended: Timestamp(number(1)), inode: number(2), names }
}

/// How many bytes, or calls, have the name of their file, of another file, or no name.
#[derive(Debug, Default)]
struct Named {
    right: u64,
    wrong: u64,
    unknown: u64,
}

impl Named {
    fn add(&mut self, path: &str, names: &[String], count: u64) {
        let name = path.rsplit('/').next().unwrap_or_default();
        match name {
            "" => self.unknown += count,
            _ if names.iter().any(|known| known == name) => self.right += count,
            _ => self.wrong += count,
        }
    }
}

struct Checked {
    written: Vec<Written>,
    bytes: Named,
    calls: Named,
    /// Whether the recording says that calls are missing, as on a busy machine.
    lost_calls: bool,
}

/// Records the writer in a folder of a file system on this machine.
fn checked(system: &FileSystem, folder: &Path, is_direct: bool, calls: bool) -> Option<Checked> {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    checked_on(&system.device.0, folder, scratch.path(), (FILES, is_direct, calls))
}

/// Records the writer in a folder of a file system on this device.
fn checked_on(
    device: &str,
    folder: &Path,
    scratch: &Path,
    (files, is_direct, calls): (usize, bool, bool),
) -> Option<Checked> {
    let notes = scratch.join("notes");
    let program = std::env::current_exe().unwrap();
    let mut variables = vec![
        format!("{FOLDER}={}", folder.display()),
        format!("FONIO_TEST_NOTES={}", notes.display()),
        format!("FONIO_TEST_FILES={files}"),
    ];
    variables.extend(is_direct.then(|| "FONIO_TEST_DIRECT=1".to_owned()));
    // The results of the inner test must not be counted with those of this program.
    let script = format!(
        "{} exec {} --exact lives::writer --test-threads=1 > {}",
        variables.join(" "),
        program.display(),
        scratch.join("output").display()
    );
    let options = RecordOptions {
        select: vec![Selector::Device(device.into())],
        command: Some(["sh", "-c", script.as_str()].iter().map(Into::into).collect()),
        calls,
        ..RecordOptions::new(scratch.join("recording"))
    };
    let rows = Recorded::record(&options, "no-calls")?;
    let written: Vec<Written> = fs::read_to_string(&notes).unwrap().lines().map(parse).collect();
    assert_eq!(written.len(), files);
    let last_path: HashMap<u32, &str> =
        rows.files.iter().map(|row| (row.file_id, row.path.as_deref().unwrap_or(""))).collect();
    let path = |file_id: Option<u32>| file_id.and_then(|id| last_path.get(&id).copied()).unwrap_or("");
    let at = |time: Timestamp| {
        let next = written.partition_point(|file| file.ended < time);
        written.get(next).filter(|file| file.began <= time)
    };
    let (mut bytes, mut of_calls) = (Named::default(), Named::default());
    // On f2fs, the kernel does not show the file of a request.
    let may_be_data = |content| matches!(content, Content::Data | Content::Unknown);
    for row in rows.requests.iter().filter(|row| row.op == Op::Write && may_be_data(row.content)) {
        if let Some(file) = row.queued.and_then(at) {
            bytes.add(path(row.file_id), &file.names, row.bytes.0);
        }
    }
    for call in rows.calls.iter().filter(|call| call.name == "write") {
        if let Some(file) = at(call.entered) {
            of_calls.add(path(call.file_id), &file.names, 1);
        }
    }
    eprintln!("bytes: {bytes:?}, calls: {of_calls:?}, {:?}", rows.codes());
    let lost_calls = rows.codes().contains(&"lost-calls");
    Some(Checked { written, bytes, calls: of_calls, lost_calls })
}

/// Checks that each inode number had at least this number of files on average, and that no file got the name of
/// another one.
#[track_caller]
fn assert_reused(checked: &Checked, per_number: usize) {
    let numbers: HashSet<u64> = checked.written.iter().map(|file| file.inode).collect();
    assert!(
        numbers.len() <= checked.written.len() / per_number,
        "{} numbers: this test proves nothing",
        numbers.len()
    );
    assert_right(checked);
}

#[track_caller]
fn assert_right(checked: &Checked) {
    let Checked { written, bytes, calls, .. } = checked;
    assert_eq!((bytes.wrong, calls.wrong), (0, 0), "{bytes:?} {calls:?}");
    assert!(bytes.right + bytes.unknown >= (written.len() * PAGE) as u64 * 9 / 10, "{bytes:?}");
    assert!(bytes.right > 0 || calls.right > 0, "{bytes:?} {calls:?}");
}

#[test]
fn files_of_ext4_keep_their_names() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let Some(checked) = checked(&system, system.dir.path(), false, true) else { return };
    assert_reused(&checked, 100);
    let calls = checked.calls.right + checked.calls.unknown;
    assert!(calls >= FILES as u64 || checked.lost_calls && calls >= FILES as u64 / 2, "{calls}");
}

#[test]
fn files_of_xfs_keep_their_names() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = scratch.path().join("image");
    let Some(system) = FileSystem::of("xfs", &image, 320 << 20, &["-q", "-f"]) else { return };
    // Under load, xfs frees numbers later, so each number has fewer files.
    checked(&system, system.dir.path(), false, false).iter().for_each(|checked| assert_reused(checked, 5));
}

#[test]
fn files_of_an_overlay_keep_their_names() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let made = "mkdir lower upper work merged && mount -t overlay overlay merged \
                -o lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work";
    let made = Command::new("sh").args(["-c", made]).current_dir(system.dir.path()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip(Need::Namespace, "the overlay was not mounted");
    }
    let merged = system.dir.path().join("merged");
    let checked = checked(&system, &merged, true, false);
    assert!(Command::new("umount").arg(merged).status().unwrap().success());
    checked.iter().for_each(|checked| assert_reused(checked, 100));
}

/// `cargo xtask lab test lives` runs this test in a guest, on an emulated device with f2fs.
#[test]
fn files_of_the_emulated_device_keep_their_names() {
    let Some(mount) = std::env::var_os("FONIO_MOUNT") else { return };
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let device = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        words.next().filter(|_| words.next() == mount.to_str())
    });
    let scratch = tempfile::tempdir().unwrap();
    let how = (FILES_IN_GUEST, false, true);
    let checked = checked_on(device.unwrap(), Path::new(&mount), scratch.path(), how);
    assert_reused(&checked.unwrap(), 2);
}

#[test]
fn files_of_btrfs_keep_their_names() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = scratch.path().join("image");
    let Some(system) = FileSystem::of("btrfs", &image, 512 << 20, &["-q", "-f"]) else { return };
    let Some(checked) = checked(&system, system.dir.path(), false, false) else { return };
    let numbers: HashSet<u64> = checked.written.iter().map(|file| file.inode).collect();
    assert_eq!(numbers.len(), FILES, "btrfs reuses inode numbers");
    assert_right(&checked);
}
