//! Tests mounts under difficult conditions, and the cleanup of mounts.

use crate::support;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fonio_testing::{Need, skip};
use rustix::mount::{MountFlags, UnmountFlags};
use support::{Mounted, Numbers, can_mount, mount, mounts};

const MODES: [&str; 7] = [
    "mode=auto,io_uring=no",
    "mode=stock",
    "mode=extended",
    "mode=buffered",
    "mode=buffered,thread=no",
    "mode=writeback",
    "mode=auto",
];

fn is_mounted(dir: &Path) -> bool {
    let text = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    text.contains(&format!(" {} ", dir.display()))
}

/// Returns the expected byte at an offset of a sequentially written file.
fn byte_at(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)) as u8
}

pub(crate) fn piece(offset: u64, bytes: u64) -> Vec<u8> {
    (offset..offset + bytes).map(byte_at).collect()
}

fn rings(mounted: &Mounted) -> usize {
    let folder = format!("/proc/{}/fd", mounted.daemon.id());
    let links = std::fs::read_dir(folder).expect("the daemon is running").flatten();
    links
        .filter(|link| std::fs::read_link(link.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]")))
        .count()
}

/// Runs a shell script in the mount as root, or as the user nobody.
pub(crate) fn shell(mounted: &Mounted, user: u32, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(&mounted.dir);
    if user != 0 {
        command.uid(user).gid(user);
    }
    let status = command.status().expect("a shell is installed");
    assert!(status.success(), "{}: {script}", mounted.mode);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("root may do this");
}

fn mode_of(path: &Path) -> u32 {
    path.symlink_metadata().expect("it exists").mode() & 0o7777
}

/// Checks up to `looks` times, every 10 ms, whether a condition has become true.
fn comes_true(looks: u32, mut is_true: impl FnMut() -> bool) -> bool {
    (0..looks).any(|look| {
        std::thread::sleep(Duration::from_millis(if look == 0 { 0 } else { 10 }));
        is_true()
    })
}

/// Creates a folder for a mount on a disk, and an empty source in this folder. The temporary directory is not
/// used, because it may be on a tmpfs, which has no write-back and no inode flags.
pub(crate) fn folder_on_disk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("the folder is empty");
    (folder, source)
}

/// Each mount temporarily enables a kernel parameter, one mount at a time.
#[test]
fn mounts_made_at_the_same_time_wait_for_each_other_and_are_served_over_io_uring() {
    if !can_mount() {
        return;
    }
    const SETTING: &str = "/sys/module/fuse/parameters/enable_uring";
    let Ok(setting) = File::options().read(true).write(true).open(SETTING) else {
        return skip(Need::IoUring, format!("{SETTING} cannot be opened for writing"));
    };
    rustix::fs::flock(&setting, rustix::fs::FlockOperation::LockExclusive)
        .expect("other tests hold the lock only for a moment");
    let before = std::fs::read_to_string(SETTING).expect("it is readable");
    let folders: Vec<_> = (0..6).map(|_| tempfile::tempdir().expect("a temporary folder")).collect();
    let dirs: Vec<_> = folders.iter().map(|folder| folder.path().join("mounted")).collect();
    let start = |folder: tempfile::TempDir| {
        std::thread::spawn(move || {
            let source = folder.path().join("source");
            std::fs::create_dir(&source).expect("the folder is empty");
            Mounted::over(folder, source, "mode=auto")
        })
    };
    let threads: Vec<_> = folders.into_iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!dirs.iter().any(|dir| is_mounted(dir)), "this test holds the lock that every mount needs");
    drop(setting);
    let mounts: Vec<Mounted> = threads.into_iter().map(|thread| thread.join().expect("it mounts")).collect();
    for mounted in &mounts {
        std::fs::write(mounted.path("file"), b"x").expect("the mount is served");
    }
    // Threads whose ring the kernel refused end within this time.
    std::thread::sleep(Duration::from_millis(300));
    for mounted in &mounts {
        assert_ne!(rings(mounted), 0, "requests come over io_uring");
    }
    drop(mounts);
    // Other tests mount at the same time, so wait until the parameter is restored.
    let comes_back = || std::fs::read_to_string(SETTING).is_ok_and(|now| now == before);
    assert!(comes_true(500, comes_back), "the setting is restored");
}

#[test]
fn a_signal_leaves_nothing_behind_and_loses_nothing() {
    for (mode, mut mounted) in mounts(&MODES) {
        let mut open = File::create(mounted.path("open")).expect("it is writable");
        open.write_all(&piece(0, 300_000)).expect("there is space");
        assert!(mounted.terminate(), "{mode}: the daemon failed at its end");
        assert!(!is_mounted(&mounted.dir), "{mode}");
        assert_eq!(std::fs::read(mounted.below("open")).expect("it exists"), piece(0, 300_000), "{mode}");
    }
}

#[test]
fn a_killed_daemon_loses_at_most_what_the_options_bound() {
    if !can_mount() {
        return;
    }
    const BUFFER: u64 = 256 << 10;
    let modes = [
        ("mode=buffered,buffer=256K,entry=64K,flush=10ms", BUFFER),
        ("mode=buffered,buffer=256K,entry=64K,thread=no", BUFFER),
        ("mode=extended", 0),
        ("mode=extended,io_uring=no", 0),
        ("mode=auto", 0),
        ("mode=writeback", 0),
    ];
    let mut written = [0, 0];
    for round in 0..24u64 {
        let (mode, bound) = modes[round as usize % modes.len()];
        let mut mounted = Mounted::new(mode);
        // When the connection ends, the data in the kernel's cache are lost, so only synced data must
        // survive.
        let bound = if mounted.mode == "writeback" { u64::MAX } else { bound };
        let (acknowledged, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        let path = mounted.path("stream");
        let below = mounted.below("stream");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The daemon may be killed before it creates the file.
                let Ok(mut file) = File::create(&path) else { return };
                let mut numbers = Numbers::new(round);
                let mut end = 0;
                loop {
                    let bytes = 1 + numbers.below(20_000);
                    if file.write_all(&piece(end, bytes)).is_err() {
                        return;
                    }
                    end += bytes;
                    acknowledged.store(end, Ordering::SeqCst);
                    if numbers.below(50) == 0 {
                        if file.sync_all().is_err() {
                            return;
                        }
                        durable.store(end, Ordering::SeqCst);
                    }
                }
            });
            std::thread::sleep(Duration::from_micros(1000 + Numbers::new(round).below(60_000)));
            mounted.kill();
        });
        let found = std::fs::read(&below).unwrap_or_default();
        let (acknowledged, durable) = (acknowledged.into_inner(), durable.into_inner());
        let length = found.len() as u64;
        written = [written[0] + acknowledged, written[1] + durable];
        // The kernel writes back several pages at a time, so a later part of the unsynced data may be in the
        // file although an earlier part is missing.
        let whole = if mounted.mode == "writeback" { durable.min(length) } else { length };
        assert!(
            found[..whole as usize] == piece(0, whole),
            "round {round}, {mode}: the file is not a prefix of the written data"
        );
        assert!(length >= durable, "round {round}, {mode}: only {length} of {durable} synced bytes exist");
        assert!(
            length.saturating_add(bound) >= acknowledged,
            "round {round}, {mode}: only {length} of {acknowledged} acknowledged bytes exist"
        );
        // After the daemon is killed, the mount is dead only when the kernel has released the daemon's rings.
        let gone = || {
            drop(Mounted::new("mode=stock"));
            !is_mounted(&mounted.dir)
        };
        assert!(comes_true(1000, gone), "round {round}, {mode}: the next mount left a dead mount");
    }
    assert!(
        written.iter().all(|bytes| *bytes > 0),
        "in some rounds, nothing was acknowledged or synced before the kill: {written:?}"
    );
}

struct Small {
    folder: Option<tempfile::TempDir>,
    source: PathBuf,
}

impl Small {
    fn new(bytes: u64) -> Self {
        let (folder, source) = folder_on_disk();
        let data = std::ffi::CString::new(format!("size={bytes}")).expect("the options contain no zero byte");
        rustix::mount::mount("tmpfs", &source, "tmpfs", MountFlags::empty(), Some(data.as_c_str()))
            .expect("root may");
        Self { folder: Some(folder), source }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.source, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_is_dropped_in_silence() {
    if !can_mount() {
        return;
    }
    const SPACE: u64 = 24 << 20;
    for mode in MODES {
        let mut small = Small::new(SPACE);
        let folder = small.folder.take().expect("a new file system has its folder");
        let mounted = Mounted::over(folder, small.source.clone(), mode);
        let mut file = File::create(mounted.path("large")).expect("it is writable");
        let mut accepted = 0;
        let mut errors = 0;
        for at in 0..2 * SPACE / 65_536 {
            match file.write_all(&piece(at * 65_536, 65_536)) {
                Ok(()) => accepted += 65_536,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{mode}");
                    errors += 1;
                    break;
                }
            }
        }
        if let Err(error) = file.sync_all() {
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{mode}");
            errors += 1;
        }
        assert!(
            errors > 0,
            "{mode}: no call failed, although {accepted} bytes were written to a device of {SPACE} bytes"
        );
        // Before Linux 6.16, pages of the kernel's cache may still be in flight when an fsync fails.
        let more = (0..10).take_while(|_| file.sync_all().is_err()).count();
        assert!(more == 0 || (mounted.mode == "writeback" && more < 10), "{mode}: {more} more errors");
        drop(file);
        let below = std::fs::read(mounted.below("large")).expect("it exists");
        if mounted.mode != "writeback" {
            let length = below.len() as u64;
            assert!(length >= accepted, "{mode}: only {length} of {accepted} accepted bytes exist");
            assert!(below == piece(0, length), "{mode}: the file differs from the written data");
        }
        // Freed space can be used again after the kernel has sent the FORGET request for the file.
        std::fs::remove_file(mounted.path("large")).expect("root may do this");
        let again = || {
            let file = File::create(mounted.path("small"));
            // The kernel reports the error when it writes back its cached pages.
            file.and_then(|mut file| file.write_all(b"again").and_then(|()| file.sync_all())).is_ok()
        };
        assert!(comes_true(100, again), "{mode}: writes still fail after space was freed");
        assert_eq!(std::fs::read(mounted.below("small")).expect("it exists"), b"again", "{mode}");
        drop(mounted);
    }
}

#[test]
fn a_busy_mount_says_so_and_can_be_detached() {
    for (mode, mut mounted) in mounts(&MODES) {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(mounted.path("kept"))
            .expect("it is writable");
        let refused = rustix::mount::unmount(&mounted.dir, UnmountFlags::empty());
        assert_eq!(refused, Err(rustix::io::Errno::BUSY), "{mode}");
        mounted.unmount_lazily();
        file.write_all(b"still here").expect("open files stay usable");
        file.seek(SeekFrom::Start(0)).expect("files support seek");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("open files stay usable");
        assert_eq!(text, "still here", "{mode}");
        drop(file);
        assert!(mounted.daemon.wait().expect("our child").success(), "{mode}: the daemon failed at its end");
        assert_eq!(std::fs::read(mounted.below("kept")).expect("it exists"), b"still here");
    }
}

#[test]
fn new_files_belong_to_the_caller() {
    for (mode, mounted) in mounts(&["mode=buffered", "mode=auto"]) {
        // Only root may access the temporary directory.
        for dir in [mounted.folder.path(), &mounted.source] {
            set_mode(dir, 0o777);
        }
        std::thread::sleep(Duration::from_millis(1100));
        let script = "umask 027 && echo x > file && mkdir dir && ln -s file link && mkfifo pipe && \
            mkdir -m 2770 setgid && touch setgid/inner && ! touch /nowhere 2>/dev/null";
        shell(&mounted, 65534, script);
        for (name, mode_bits) in [("file", 0o640), ("dir", 0o750), ("pipe", 0o640), ("setgid", 0o2770)] {
            let found = mounted.below(name).symlink_metadata().expect("the file was created");
            assert_eq!((found.uid(), found.gid()), (65534, 65534), "{mode} {name}");
            assert_eq!(mode_of(&mounted.below(name)), mode_bits, "{mode} {name}");
        }
    }
}

#[test]
fn a_write_by_a_user_clears_set_user_id() {
    for (mode, mounted) in mounts(&MODES) {
        set_mode(mounted.folder.path(), 0o777);
        let path = mounted.path("program");
        std::fs::write(&path, b"old").expect("it is writable");
        set_mode(&path, 0o6777);
        shell(&mounted, 65534, "echo new >> program");
        assert_eq!(mode_of(&mounted.below("program")), 0o777, "{mode}");
        assert_eq!(std::fs::read(mounted.below("program")).expect("it exists"), b"oldnew\n", "{mode}");
    }
}

#[test]
fn what_changes_below_without_a_request_shows_at_once() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    for (mode, mounted) in mounts(&MODES) {
        set_mode(mounted.folder.path(), 0o777);
        let path = mounted.path("file");
        std::fs::write(&path, [0; 4096]).expect("it is writable");
        let before = path.metadata().expect("it exists").modified().expect("it has times");
        std::thread::sleep(Duration::from_millis(20));
        let file = File::options().read(true).write(true).open(&path).expect("root may do this");
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this is a new mapping of a file of the same length, which no process truncates. Only the
        // first byte is written, and no reference to the mapping remains at the unmap.
        unsafe {
            let map = mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &file, 0).expect("a map");
            map.cast::<u8>().write_volatile(1);
            munmap(map, 4096).expect("it was mapped");
        }
        drop(file);
        let written_later = || path.metadata().expect("it exists").modified().expect("it has times") > before;
        // Writes through a mapping of a passed-through file reach the source file without a request. In other
        // modes, the kernel writes the pages at the close; some older kernels then read the attributes again
        // only after the cached attributes have expired.
        let looks = if mounted.mode == "passthrough" { 1 } else { 1000 };
        assert!(comes_true(looks, written_later), "{mode}: a write through a mapping left the time");
        let below = std::fs::read(mounted.below("file")).expect("it exists");
        assert!(below[0] == 1 && below[1..] == [0; 4095], "{mode}: a write through a mapping was lost");

        // Writes and allocations clear the set-user-ID bits of a user's file.
        let file = |name: &str| {
            std::fs::write(mounted.path(name), b"old").expect("it is writable");
            set_mode(&mounted.path(name), 0o6777);
        };
        file("written");
        shell(&mounted, 65534, "echo more >> written");
        file("allocated");
        let allocate = |user, name: &str| {
            shell(&mounted, user, &format!("! command -v fallocate >/dev/null || fallocate -l 65536 {name}"));
        };
        allocate(65534, "allocated");
        file("by root");
        allocate(0, "'by root'");
        assert_eq!(mode_of(&mounted.below("by root")), 0o6777, "{mode}");
        for name in ["written", "allocated"] {
            let found = [mounted.path(name), mounted.below(name)].map(|path| mode_of(&path));
            assert_eq!(found, [0o777, 0o777], "{mode}: {name}");
        }
    }
}

#[test]
fn devices_belong_to_the_group_of_a_set_group_id_directory() {
    let Some(mounted) = mount("mode=auto") else { return };
    set_mode(mounted.folder.path(), 0o777);
    shell(&mounted, 0, "mkdir shared && chown 0:7 shared && chmod 2777 shared && mknod shared/null c 1 3");
    let found = mounted.below("shared/null").symlink_metadata().expect("the file was created");
    assert_eq!((found.uid(), found.gid()), (0, 7));
}

#[test]
fn flags_of_inodes_reach_the_file_below_and_hold() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let (folder, source) = folder_on_disk();
        std::fs::write(source.join("file"), b"old, ").expect("root may do this");
        let below = File::open(source.join("file")).expect("it exists");
        let before = match rustix::fs::ioctl_getflags(&below) {
            Err(error) => return skip(Need::InodeFlags, error),
            Ok(before) => before,
        };
        let mounted = Mounted::over(folder, source, mode);
        let path = mounted.path("file");
        let through = File::open(&path).expect("it exists");
        let append_only = rustix::fs::IFlags::APPEND;
        rustix::fs::ioctl_setflags(&through, before | append_only).expect("root may");
        let set = rustix::fs::ioctl_getflags(&below);
        let outcomes = [
            File::options().append(true).open(&path).and_then(|mut file| file.write_all(b"new")),
            File::options().write(true).open(&path).map(drop),
            std::fs::remove_file(&path),
        ];
        rustix::fs::ioctl_setflags(&below, before).expect("root may");
        assert!(set.expect("it has flags").contains(append_only), "{mode}");
        let refused = outcomes.map(|outcome| outcome.err().and_then(|error| error.raw_os_error()));
        assert_eq!(refused, [None, Some(libc::EPERM), Some(libc::EPERM)], "{mode}");
        assert_eq!(std::fs::read(mounted.below("file")).expect("it exists"), b"old, new", "{mode}");
        assert_eq!(rustix::fs::ioctl_getflags(&through).expect("it has flags"), before, "{mode}");
    }
}

#[test]
fn access_times_below_follow_the_options() {
    if !can_mount() {
        return;
    }
    for mode in ["mode=auto", "mode=extended"] {
        for (options, keeps) in [("strictatime", false), ("relatime", true), ("noatime", true)] {
            let (folder, source) = folder_on_disk();
            std::fs::write(source.join("file"), b"text").expect("root may do this");
            // The access time is later than all changes of the file, so relatime does not update it.
            let old = std::time::SystemTime::now() + Duration::from_secs(60);
            let times = std::fs::FileTimes::new().set_accessed(old);
            File::options()
                .write(true)
                .open(source.join("file"))
                .expect("ours")
                .set_times(times)
                .expect("ours");
            let mounted = Mounted::over(folder, source, &format!("{mode},{options}"));
            assert_eq!(std::fs::read(mounted.path("file")).expect("it exists"), b"text");
            let accessed =
                |path: &Path| path.metadata().expect("it exists").accessed().expect("it has times");
            let below = accessed(&mounted.below("file"));
            assert_eq!(below == old, keeps, "{mode},{options}");
        }
    }
}

#[test]
fn a_source_may_change_underneath() {
    let Some(mounted) = mount("mode=buffered,timeout=0s") else { return };
    std::fs::create_dir(mounted.path("dir")).expect("it is writable");
    std::fs::write(mounted.path("dir/file"), b"one").expect("it is writable");
    std::fs::write(mounted.below("dir/file"), b"changed below").expect("root may do this");
    assert_eq!(std::fs::read(mounted.path("dir/file")).expect("it exists"), b"changed below");
    std::fs::rename(mounted.below("dir"), mounted.below("moved")).expect("root may do this");
    assert!(!mounted.path("dir/file").exists());
    let open = File::create(mounted.path("moved/open")).expect("it is writable");
    std::fs::remove_dir_all(&mounted.source).expect("root may do this");
    open.write_all_at(b"into a deleted file", 0).expect("open files stay usable");
    let missing = std::fs::read(mounted.path("moved/file")).expect_err("the file was deleted");
    assert!(matches!(missing.raw_os_error(), Some(libc::ENOENT | libc::ESTALE)), "{missing}");
    assert!(File::create(mounted.path("new")).is_err(), "a deleted directory rejects new files");
}

fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = most.and_then(|text| text.trim().parse().ok());
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    getrlimit(Resource::Nofile).current.unwrap_or(1024)
}

/// The number of files is `FONIO_BFUSE_FILES`, or fewer if the open-file limit of this process is lower.
#[test]
fn deep_trees_and_many_open_files() {
    let Some(mounted) = mount("mode=auto") else { return };
    let mut path = mounted.dir.clone();
    for _ in 0..200 {
        path.push("deeper");
        std::fs::create_dir(&path).expect("it is writable");
    }
    symlink("nowhere", path.join("link")).expect("it is writable");
    let limit = raise_open_files();
    let wanted = std::env::var("FONIO_BFUSE_FILES").ok().and_then(|text| text.parse().ok());
    // The daemon has the same limit, and needs two descriptors for each file: a descriptor for the inode and
    // a descriptor for the open file.
    let count = (limit / 2).saturating_sub(200).min(wanted.unwrap_or(4000));
    eprintln!("opening {count} files; {} were requested", wanted.unwrap_or(4000));
    let open: Vec<File> = (0..count)
        .map(|number| {
            let path = mounted.path(&number.to_string());
            let file = File::options().read(true).write(true).create_new(true).open(path);
            let file = file.expect("the daemon has enough descriptors");
            file.write_all_at(&number.to_le_bytes(), 0).expect("there is space");
            file
        })
        .collect();
    assert_eq!(std::fs::read_dir(&mounted.dir).expect("a folder").count() as u64, count + 1);
    for (number, file) in (0_u64..).zip(&open) {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, 0).expect("it was written");
        assert_eq!(u64::from_le_bytes(found), number);
    }
    let report = fonio_bfuse::report(&mounted.dir).expect("it answers");
    assert_eq!(report.open_files, count);
    assert_eq!(report.mode, mounted.mode);
    drop(open);
    std::fs::remove_dir_all(mounted.path("deeper")).expect("root may do this");
}

/// Walks over all files with several threads: looks up each name and reads each file.
fn walk(dir: &Path) -> std::io::Result<u64> {
    let mut found = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        found += 1;
        if path.symlink_metadata()?.is_dir() {
            found += walk(&path)?;
        } else if !std::fs::read(&path)?.is_empty() {
            return Err(std::io::Error::other("the file is not empty"));
        }
    }
    Ok(found)
}

#[test]
fn far_more_inodes_than_descriptors() {
    if !can_mount() {
        return;
    }
    const LIMIT: u64 = 512;
    const FOLDERS: u64 = 20;
    const FILES: u64 = 60;
    let all = MODES.iter().flat_map(|mode| ["no", "yes"].map(|handles| (mode, handles)));
    for (mode, handles) in all {
        let mode = &format!("{mode},file_handles={handles}");
        let mounted = Mounted::new(&format!("{mode},files={LIMIT}"));
        for folder in 0..FOLDERS {
            let folder = mounted.below(&format!("folder{folder}/inner"));
            std::fs::create_dir_all(&folder).expect("root may do this");
            for file in 0..FILES {
                File::create(folder.join(file.to_string())).expect("root may do this");
            }
        }
        // The kernel does not forget inodes of open files.
        let open: Vec<_> = (0..50)
            .map(|number| {
                let file = File::create_new(mounted.path(&number.to_string())).expect("it is writable");
                file.write_all_at(&piece(number, 5000), 0).expect("there is space");
                file
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let inner = (0..FOLDERS).map(|folder| {
                        walk(&mounted.path(&format!("folder{folder}")))
                            .unwrap_or_else(|error| panic!("{mode}, folder {folder}: {error}"))
                    });
                    assert_eq!(inner.sum::<u64>(), FOLDERS * (1 + FILES), "{mode}");
                });
            }
        });
        let report = fonio_bfuse::report(&mounted.dir).expect("it answers");
        assert_eq!(report.descriptors_max, LIMIT, "{mode}");
        assert!(report.descriptors < LIMIT, "{mode}: {} used", report.descriptors);
        // Not all file systems have them.
        let has_handles = handles == "yes" && report.inodes > report.descriptors;
        assert_eq!(report.prunes == 0, has_handles, "{mode}: {} prunes", report.prunes);
        assert_eq!(report.inodes > LIMIT, has_handles, "{mode}: {} inodes", report.inodes);
        for (number, file) in open.iter().enumerate() {
            file.write_all_at(b"x", 5000).expect("there is space");
            let mut wanted = piece(number as u64, 5000);
            wanted.push(b'x');
            let found = std::fs::read(mounted.path(&number.to_string())).expect("it exists");
            assert!(found == wanted, "{mode}: file {number} differs from the written data");
        }
    }
}

/// If other users have access, the kernel checks permissions, and needs the attributes of a directory after each
/// change.
#[test]
fn a_mount_for_one_user_needs_a_request_less_for_each_change_of_a_name() {
    if !can_mount() {
        return;
    }
    const FILES: u64 = 200;
    for options in ["mode=auto", "mode=buffered"] {
        let all = ["allow_other", "noallow_other", "noallow_other,default_permissions"];
        let [asked, asked_alone, asked_as_wanted] = all.map(|who| {
            let (folder, source) = folder_on_disk();
            let mounted = Mounted::over(folder, source, &format!("{options},{who}"));
            // An ACL (version 2) of a directory for new files: the owner rwx, the group r-x, the user 7 rw-, a mask rwx.
            let entry = |tag: u16, bits: u16, id: u32| {
                [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
            };
            let all = [(1, 7, u32::MAX), (2, 6, 7), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
            let mut list = 2_u32.to_le_bytes().to_vec();
            list.extend(all.iter().flat_map(|(tag, bits, id)| entry(*tag, *bits, *id)));
            std::fs::create_dir(mounted.path("shared")).expect("it is writable");
            let (name, flags) = ("system.posix_acl_default", rustix::fs::XattrFlags::empty());
            rustix::fs::setxattr(mounted.path("shared"), name, &list, flags).expect("the disk has ACLs");
            File::create(mounted.path("shared/file")).expect("it is writable");
            let mut found = [0; 100];
            let length =
                rustix::fs::getxattr(mounted.path("shared/file"), "system.posix_acl_access", &mut found);
            assert_eq!(length, Ok(list.len()), "{options},{who}: the ACL is inherited");
            assert_eq!(
                mode_of(&mounted.path("shared/file")),
                0o660,
                "{options},{who}: with the rights of the mask"
            );
            // An ACL also changes the mode, as the kernel notices at once.
            rustix::fs::setxattr(mounted.path("shared/file"), "system.posix_acl_access", &list, flags)
                .expect("the disk has ACLs");
            assert_eq!(mode_of(&mounted.path("shared/file")), 0o770, "{options},{who}");
            for number in 0..FILES {
                File::create(mounted.path(&number.to_string())).expect("it is writable");
            }
            for number in 0..FILES {
                std::fs::remove_file(mounted.path(&number.to_string())).expect("it exists");
            }
            let report = fonio_bfuse::report(&mounted.dir).expect("it answers");
            let asked = report.requests.iter().find(|request| request.name == "getattr");
            asked.map_or(0, |asked| asked.time_ns.count)
        });
        assert!(asked.min(asked_as_wanted) >= 2 * FILES, "{options}: {asked}, {asked_as_wanted}");
        assert!(asked_alone < FILES / 2, "{options}: {asked_alone}");
    }
}

#[test]
fn too_many_open_files_are_told_and_can_be_closed() {
    let Some(mounted) = mount("mode=auto,files=256") else { return };
    let mut open = Vec::new();
    let error = loop {
        match File::create(mounted.path(&open.len().to_string())) {
            Ok(file) => open.push(file),
            Err(error) => break error,
        }
        assert!(open.len() < 256, "the daemon opened more files than its limit allows");
    };
    assert!(matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)), "{error}");
    // What needs a descriptor only for a moment still works.
    for (number, file) in open.iter().enumerate() {
        file.set_len(number as u64).expect("it is open");
        set_mode(&mounted.path(&number.to_string()), 0o600);
        let found = file.metadata().expect("it is open");
        assert_eq!((found.len(), found.mode() & 0o777), (number as u64, 0o600));
    }
    open.clear();
    // Descriptors of closed files become free after the kernel's release requests.
    assert!(comes_true(100, || File::create(mounted.path("again")).is_ok()), "a descriptor came back");
}

#[test]
fn streams_that_are_passed_through_are_handed_to_the_device_as_they_come() {
    if !can_mount() {
        return;
    }
    const MIB: u64 = 1 << 20;
    for (options, expected) in [("mode=auto", 40 * MIB), ("mode=auto,write_behind=no", 0)] {
        let (folder, source) = folder_on_disk();
        let mounted = Mounted::over(folder, source, options);
        if mounted.mode != "passthrough" {
            return skip(Need::Passthrough, format!("{options} gives {}", mounted.mode));
        }
        let handed_over = || fonio_bfuse::report(&mounted.dir).expect("it answers").written_behind_bytes;
        let holes = File::create(mounted.path("holes")).expect("it is writable");
        holes.set_len(1 << 40).expect("holes need no space");
        let short = File::create(mounted.path("short")).expect("it is writable");
        short.write_all_at(&piece(0, MIB), 0).expect("there is space");
        let stream = File::create(mounted.path("stream")).expect("it is writable");
        for offset in (0..42 * MIB).step_by(MIB as usize) {
            stream.write_all_at(&piece(offset, MIB), offset).expect("there is space");
        }
        // The limit is much longer than the interval between two checks.
        assert!(
            comes_true(1000, || handed_over() >= expected),
            "{options}: only {} bytes were written back early",
            handed_over()
        );
        assert_eq!(handed_over(), expected, "{options}");
        drop((holes, short, stream));
        assert_eq!(
            std::fs::read(mounted.path("stream")).expect("it exists"),
            piece(0, 42 * MIB),
            "{options}"
        );
    }
}

#[test]
fn the_buffer_coalesces() {
    let Some(mounted) = mount("mode=buffered,flush=10s") else { return };
    let file = File::create(mounted.path("stream")).expect("it is writable");
    for at in 0..1024 {
        file.write_all_at(&piece(at * 4096, 4096), at * 4096).expect("there is space");
    }
    assert_eq!(file.metadata().expect("a file").len(), 4 << 20, "the size lacks buffered data");
    drop(file);
    let report = fonio_bfuse::report(&mounted.dir).expect("it answers");
    assert_eq!(report.write_bytes.count, 1024);
    // Two entries of 2 MiB. A daemon that waits for a CPU may flush an entry in parts.
    assert!((2..=8).contains(&report.write_calls_below), "{}", report.write_calls_below);
    assert_eq!(report.buffer.lost_bytes, 0);
}

/// A control group with little memory. Dropping this value removes the group.
struct LittleMemory(PathBuf);

impl LittleMemory {
    fn new(bytes: u64) -> std::io::Result<Self> {
        let name = format!("fonio-test-{}", std::process::id());
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let (above, limit) = if unified {
            ("/sys/fs/cgroup", "memory.max")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        };
        let folder = Path::new(above).join(name);
        std::fs::create_dir(&folder)?;
        let made = Self(folder);
        std::fs::write(made.0.join(limit), bytes.to_string())?;
        Ok(made)
    }

    fn take_in(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).expect("root may");
    }
}

impl Drop for LittleMemory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn little_memory_slows_and_does_not_stop() {
    if !can_mount() {
        return;
    }
    const MEMORY: u64 = 64 << 20;
    const BYTES: u64 = 192 << 20;
    for mode in ["mode=writeback", "mode=buffered", "mode=auto"] {
        // The data cannot be on a tmpfs, because memory is limited in this test.
        let (folder, source) = folder_on_disk();
        let group = match LittleMemory::new(MEMORY) {
            Ok(group) => group,
            Err(error) => {
                return skip(Need::Cgroup, format!("cannot limit the memory of a group: {error}"));
            }
        };
        let mut mounted = Mounted::over(folder, source, mode);
        group.take_in(mounted.daemon.id());
        let script = format!(
            "dd if=/dev/zero of=one bs=1M count={count} status=none && \
             dd if=/dev/zero of=two bs=4k count=8192 conv=fsync status=none && cat one >/dev/null && sync one",
            count = BYTES >> 20
        );
        let mut writer =
            Command::new("sh").args(["-c", &script]).current_dir(&mounted.dir).spawn().expect("sh");
        group.take_in(writer.id());
        let mut ended = None;
        // This time limit is much longer than the slowest disk needs; a deadlock would exceed any limit.
        for _ in 0..1200 {
            ended = writer.try_wait().expect("our child");
            if ended.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if ended.is_none() {
            let _ = writer.kill();
            mounted.kill();
            let _ = writer.wait();
            panic!("{mode}: the mount hung with little memory");
        }
        assert!(ended.is_some_and(|status| status.success()), "{mode}: {ended:?}");
        assert_eq!(mounted.below("one").metadata().expect("it exists").len(), BYTES, "{mode}");
        assert!(mounted.terminate(), "{mode}");
        drop(mounted);
    }
}

#[test]
fn roots_daemon_locks_its_memory_or_refuses_to_mount() {
    let Some(mut mounted) = mount("mode=buffered") else { return };
    std::fs::write(mounted.path("file"), vec![1; 1 << 20]).expect("write");
    let report = fonio_bfuse::report(&mounted.dir).expect("statistics");
    let buffer = &report.buffer;
    assert!(buffer.is_locked, "{buffer:?}");
    assert_eq!(buffer.locked_bytes, buffer.entries * buffer.entry_bytes);
    let status = std::fs::read_to_string(format!("/proc/{}/status", report.pid)).expect("status");
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    assert!(kib("VmLck:") << 10 > buffer.locked_bytes, "the program is locked too");
    assert!(mounted.terminate());

    let folder = tempfile::tempdir().expect("dir");
    let [source, dir] = ["source", "dir"].map(|name| folder.path().join(name));
    std::fs::create_dir(&source).and_then(|()| std::fs::create_dir(&dir)).expect("dirs");
    let mut refused = Command::new("setpriv");
    let limited =
        ["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536:65536", "--"];
    refused.args(limited).arg(support::program()).args([&source, &dir]).arg("mode=buffered");
    let out = refused.output().expect("setpriv");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("RLIMIT_MEMLOCK"), "{said}");
    assert!(!is_mounted(&dir));
}
