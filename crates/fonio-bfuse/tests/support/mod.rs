//! Provides mounts with a separate daemon process, as for users. A test can hang or kill this process alone.

#![allow(dead_code, reason = "each test program uses only a part of this module")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use fonio_core::Random;
use tempfile::TempDir;

#[track_caller]
pub fn can_mount() -> bool {
    fonio_testing::has(&[fonio_testing::Need::Root, fonio_testing::Need::Fuse])
}

/// Mounts a new folder; returns `None` if this machine cannot mount.
#[track_caller]
pub fn mount(options: &str) -> Option<Mounted> {
    can_mount().then(|| Mounted::new(options))
}

/// Mounts a new folder with each of the options, one after the other; the iterator is empty if this machine
/// cannot mount.
#[track_caller]
pub fn mounts<'a>(options: &'a [&'a str]) -> impl Iterator<Item = (&'a str, Mounted)> {
    let possible = if can_mount() { options } else { &[] };
    possible.iter().map(|options| (*options, Mounted::new(options)))
}

/// Returns the program of `examples/mount.rs`, which cargo builds with the tests.
pub fn program() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of a test program is known");
    path.pop();
    path.pop();
    path.join("examples/mount")
}

/// A directory mounted for a test. Dropping this value unmounts the directory.
pub struct Mounted {
    pub folder: TempDir,
    pub source: PathBuf,
    pub dir: PathBuf,
    pub daemon: Child,
    pub mode: String,
}

impl Mounted {
    pub fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("source");
        std::fs::create_dir(&source).expect("the folder is writable");
        Self::over(folder, source, options)
    }

    pub fn over(folder: TempDir, source: PathBuf, options: &str) -> Self {
        let dir = folder.path().join("mounted");
        std::fs::create_dir_all(&dir).expect("the folder is writable");
        let mut daemon = Command::new(program())
            .args([&source, &dir])
            .arg(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo has built the example");
        let mut mode = String::new();
        BufReader::new(daemon.stdout.take().expect("it is piped")).read_line(&mut mode).expect("it is text");
        assert!(!mode.is_empty(), "the mount failed; the daemon's error is printed above");
        Self { folder, source, dir, daemon, mode: mode.trim().to_owned() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn below(&self, name: &str) -> PathBuf {
        self.source.join(name)
    }

    /// Looks up 256 files. A daemon with the option `files=256` then holds a file handle, not a descriptor, of each new
    /// file. Returns false if the source's file system has no handles that stay valid.
    pub fn use_up_descriptors(&self) -> bool {
        let folder = self.below("known");
        std::fs::create_dir(&folder).expect("the source is writable");
        for number in 0..256 {
            let name = format!("known/{number}");
            std::fs::write(self.below(&name), "").expect("the source is writable");
            self.path(&name).metadata().expect("it was just created");
        }
        let report = fonio_bfuse::report(&self.dir).expect("it answers");
        let has_handles = report.inodes > report.descriptors;
        // ext4 and tmpfs, on which the tests run nearly everywhere.
        let below = rustix::fs::statfs(&self.source).expect("the source exists").f_type as u32;
        assert!(has_handles || ![0xef53, 0x0102_1994].contains(&below), "{report:?}");
        has_handles
    }

    /// Terminates the daemon, and returns whether it ended successfully.
    pub fn terminate(&mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.daemon);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the daemon is our child");
        self.daemon.wait().expect("the daemon is our child").success()
    }

    pub fn kill(&mut self) {
        self.daemon.kill().expect("the daemon is our child");
        self.daemon.wait().expect("the daemon is our child");
    }

    pub fn unmount_lazily(&self) {
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.unmount_lazily();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Generates pseudorandom numbers; the same seed gives the same numbers.
pub struct Numbers(Random);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
