//! Skips tests on machines that lack a required feature, and counts the skips. Also parses commands and
//! tables from documents ([`markdown`]), and test cases from files ([`cases`]).
//!
//! A test that cannot run calls [`skip_without`], [`has`], [`skip`] or [`skip_part`]. libtest reports a skipped test as "ok"
//! and hides its output. Therefore, each skip also adds a line to the file named by [`SKIPS`], and `cargo
//! xtask test` counts the lines. If a need is listed in [`REQUIRE`], the test fails instead. Continuous
//! integration sets [`REQUIRE`], because a test that is skipped on every machine proves nothing.

use std::fs::File;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};

pub mod cases;
pub mod markdown;
mod program;

pub use program::{copy_program, write_program};

/// The environment variable with the needs that this machine must have, separated by commas.
pub const REQUIRE: &str = "FONIO_REQUIRE";

/// The environment variable with the path of the file to which each skip adds a line.
pub const SKIPS: &str = "FONIO_SKIPS";

macro_rules! needs {
    ($($need:ident $name:literal $sentence:literal $presence:ident $(($argument:expr))?)*) => {
        /// A feature of the machine that tests need.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Need {
            $(#[doc = $sentence] $need,)*
        }

        impl Need {
            /// All needs that a test can have.
            pub const ALL: &[Need] = &[$(Need::$need),*];

            /// Returns the need's name in [`REQUIRE`].
            pub fn name(self) -> &'static str {
                match self { $(Need::$need => $name),* }
            }

            /// Returns a sentence that is true on a machine that meets the need.
            pub fn sentence(self) -> &'static str {
                match self { $(Need::$need => $sentence),* }
            }

            fn presence(self) -> Presence {
                match self { $(Need::$need => Presence::$presence $(($argument))?),* }
            }
        }
    };
}

needs! {
    Root "root" "The tests run as root, with permission to mount, record and create devices." Root
    Fuse "fuse" "The kernel has FUSE (`/dev/fuse`)." File("/dev/fuse")
    FileHandles "file_handles" "The file system of the repository has file handles and reuses inode numbers, as ext4 does." Attempt
    Loop "loop" "The kernel supports loop devices (`/dev/loop-control`)." File("/dev/loop-control")
    Ublk "ublk" "The kernel supports ublk devices (`/dev/ublk-control`; Linux 6.5 or later)." File("/dev/ublk-control")
    Tracefs "tracefs" "The kernel traces block I/O through tracefs instances." Attempt
    Cgroup "cgroup" "The tests can create control groups that limit CPU and memory." Attempt
    Namespace "namespace" "The tests can create network namespaces with rate-limited links, and overlay mounts in a mount namespace." Attempt
    Scheduler "scheduler" "The kernel has the I/O scheduler mq-deadline." Attempt
    IoUring "io_uring" "The kernel supports FUSE over io_uring (Linux 6.14 or later), and root can enable it." Attempt
    Passthrough "passthrough" "The kernel supports FUSE passthrough (Linux 6.9 or later)." Attempt
    Fanotify "fanotify" "The kernel reports opened files through fanotify." Attempt
    Schedstat "schedstat" "The kernel records the run time of threads (CONFIG_SCHED_INFO)." File("/proc/self/schedstat")
    WakeUp "wake_up" "The kernel accepts limits on CPU wake-up latency (`/dev/cpu_dma_latency`)." File("/dev/cpu_dma_latency")
    Cachestat "cachestat" "The kernel reports the cached pages of a file (`cachestat`, Linux 6.5 or later)." Attempt
    Disk "disk" "The build directory is on a block device with recordable I/O." Attempt
    DirectIo "direct_io" "The temporary folder's file system supports direct I/O." Attempt
    InodeFlags "inode_flags" "The build directory's file system supports inode flags, such as append-only." Attempt
    Mkfs "mkfs" "The programs of e2fsprogs are installed." Programs(&["mkfs.ext3", "mkfs.ext4"])
    Filesystems "filesystems" "The kernel supports XFS, btrfs, F2FS, NILFS2 and VFAT, and their mkfs programs are installed." Attempt
    Sqlite3 "sqlite3" "The program sqlite3 is installed." Programs(&["sqlite3"])
    StaticSqlite "static_sqlite" "A C compiler and SQLite's static library are installed." Attempt
    Python "python" "The program python3 is installed, with its module sqlite3." Programs(&["python3"])
    Fio "fio" "The program fio is installed." Programs(&["fio"])
    Blktrace "blktrace" "The programs blkparse and btt are installed." Programs(&["blkparse", "btt"])
    Strace "strace" "The program strace is installed, and may trace other programs." Programs(&["strace"])
    Fusermount "fusermount" "The program fusermount3 is installed, and users may open `/dev/fuse`." Programs(&["fusermount3"])
    Qemu "qemu" "The programs qemu-io and qemu-img are installed." Programs(&["qemu-io", "qemu-img"])
    Guests "guests" "QEMU for x86-64 is installed, and Debian's archive can be reached." Programs(&["qemu-system-x86_64"])
    Adb "adb" "The program adb is installed, and Debian's archive can be reached." Programs(&["adb"])
    Debian "debian" "The program apt-get is installed, and Debian's archive can be reached." Programs(&["apt-get"])
    Node "node" "The program node is installed." Programs(&["node"])
    Npm "npm" "The program npm is installed, and its registry can be reached." Programs(&["npm"])
    Clang "clang" "The programs clang-14 and llvm-strip-14 are installed." Programs(&["clang-14", "llvm-strip-14"])
    Mosquitto "mosquitto" "The programs mosquitto and mosquitto_sub are installed." Programs(&["mosquitto", "mosquitto_sub"])
    Msmtp "msmtp" "The program msmtp is installed." Programs(&["msmtp"])
    HomeAssistant "home_assistant" "The program hass of Home Assistant is installed." Programs(&["hass"])
    Openssl "openssl" "The program openssl is installed." Programs(&["openssl"])
    Cc "cc" "A C compiler with the address sanitizer is installed." Programs(&["cc"])
    Bpf "bpf" "The kernel supports BPF with type information (Linux 5.15 or later)." File("/sys/kernel/btf/vmlinux")
    Uprobes "uprobes" "The kernel has uprobes (CONFIG_UPROBE_EVENTS)." File("/sys/bus/event_source/devices/uprobe/type")
    Postgres "postgres" "The programs of PostgreSQL 13 or later are installed." Postgres
    Chromium "chromium" "The program chromium is installed." Programs(&["chromium"])
    Duckdb "duckdb" "A Python interpreter has DuckDB's package." Attempt
    PythonPackages "python_packages" "Python can make a virtual environment, and pip can install the packages of the Python tests." Attempt
    Fleet "fleet" "A Python interpreter has DuckDB's package, the other packages that fonio.fleet needs, and pytest." Attempt
    PerfettoPython "perfetto_python" "Python can make a virtual environment, and pip can install the package perfetto." Attempt
    TraceProcessor "trace_processor" "FONIO_TRACE_PROCESSOR names Perfetto's trace_processor, or it is installed." Attempt
    Shared "shared" "The real traces lie next to the repository." Attempt
    PhoneTrace "phone_trace" "FONIO_MOBIGEN_TRACE names a trace of a real phone." Variable("FONIO_MOBIGEN_TRACE")
    Long "long" "FONIO_LONG_TESTS enables tests that take minutes." Variable("FONIO_LONG_TESTS")
}

/// How to check whether the machine meets a need.
enum Presence {
    /// Only an attempt shows whether the need is met; if it is not met, the tests call [`skip`].
    Attempt,
    Root,
    File(&'static str),
    Programs(&'static [&'static str]),
    Postgres,
    /// An environment variable must be set.
    Variable(&'static str),
}

impl Need {
    /// Returns a message if the machine does not meet the need; `None` if it does, or if only an attempt can
    /// show this.
    fn missing(self) -> Option<String> {
        match self.presence() {
            Presence::Attempt => None,
            Presence::Root => (!is_root()).then(|| "the tests do not run as root".to_owned()),
            Presence::File(path) => (!Path::new(path).exists()).then(|| format!("there is no {path}")),
            Presence::Programs(names) => {
                let missing = names.iter().find(|name| find_program(name).is_none());
                missing.map(|name| format!("{name} is not installed"))
            }
            Presence::Postgres => {
                postgres_programs().is_none().then(|| "PostgreSQL's server is not installed".to_owned())
            }
            Presence::Variable(name) => {
                std::env::var_os(name).is_none().then(|| format!("{name} is not set"))
            }
        }
    }
}

/// Returns whether the machine has all `needs` that can be checked without an attempt. If a need is missing,
/// skips the calling test. The test must then return. Panics under the same conditions as [`skip`].
#[track_caller]
#[must_use = "the test must return if this is false"]
pub fn has(needs: &[Need]) -> bool {
    check_names();
    match needs.iter().find_map(|need| Some((*need, need.missing()?))) {
        Some((need, why)) => {
            skip(need, why);
            false
        }
        None => true,
    }
}

/// Skips the calling test, and returns from it, if the machine lacks one of the needs, such as
/// `skip_without!(Root, Loop);`.
#[macro_export]
macro_rules! skip_without {
    ($($need:ident),+) => {
        if !$crate::has(&[$($crate::Need::$need),+]) {
            return;
        }
    };
}

/// Skips the calling test because the machine lacks `need`; the test must then return. `why` gives the
/// details. Panics if [`REQUIRE`] names `need`, or an unknown need.
#[track_caller]
pub fn skip(need: Need, why: impl std::fmt::Display) {
    record(Skip::new(need, true, &why.to_string(), Location::caller()));
}

/// Skips one of several cases of the calling test. The test continues with the other cases. Panics under the
/// same conditions as [`skip`].
#[track_caller]
pub fn skip_part(need: Need, why: impl std::fmt::Display) {
    record(Skip::new(need, false, &why.to_string(), Location::caller()));
}

fn record(skip: Skip) {
    if check_names().contains(&skip.need) {
        panic!("{REQUIRE} requires `{}` on this machine, but it is missing: {}", skip.need.name(), skip.why);
    }
    eprintln!("skipped: {}", skip.why);
    if let Some(path) = std::env::var_os(SKIPS) {
        // Many test processes can add lines at the same time, because a single write to a file that is open
        // for appending is atomic.
        let file = File::options().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(skip.to_line().as_bytes()))
            .unwrap_or_else(|error| panic!("cannot add a line to {}: {error}", path.display()));
    }
}

fn check_names() -> Vec<Need> {
    required(&std::env::var(REQUIRE).unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Parses a list of needs such as `root,fuse`. Returns a message with the unknown need and the known needs.
pub fn required(list: &str) -> Result<Vec<Need>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            Need::ALL.iter().copied().find(|need| need.name() == word).ok_or_else(|| {
                let names: Vec<&str> = Need::ALL.iter().map(|need| need.name()).collect();
                format!("unknown need `{word}` in {REQUIRE}; use some of: {}", names.join(", "))
            })
        })
        .collect()
}

/// A skipped test, or a skipped part of a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// The need that the machine lacks.
    pub need: Need,
    /// The details: a sentence without a full stop.
    pub why: String,
    /// The source file, relative to the repository root.
    pub file: String,
    /// The test's path in its test program.
    pub test: String,
    /// Whether the complete test was skipped; otherwise, the test continued with its other cases.
    pub whole: bool,
}

impl Skip {
    fn new(need: Need, whole: bool, why: &str, at: &Location<'_>) -> Skip {
        // libtest gives the thread of a test the name of the test; threads that the test starts have no name.
        let thread = std::thread::current();
        let test = thread.name().map_or_else(|| format!("line {}", at.line()), str::to_owned);
        let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Skip { need, why: on_one_line(why), file: at.file().to_owned(), test, whole }
    }

    fn to_line(&self) -> String {
        let extent = if self.whole { "whole" } else { "part" };
        format!("{}\t{extent}\t{}\t{}\t{}\n", self.need.name(), self.file, self.test, self.why)
    }

    /// Parses a line of the file named by [`SKIPS`]; `None` if it is invalid.
    pub fn from_line(line: &str) -> Option<Skip> {
        let [need, extent, file, test, why] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Skip {
            need: Need::ALL.iter().copied().find(|known| known.name() == need)?,
            why: why.to_owned(),
            file: file.to_owned(),
            test: test.to_owned(),
            whole: extent == "whole",
        })
    }
}

/// Searches a program in `PATH` and in the directories for root's programs, and returns its path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Returns the folder with the newest version of PostgreSQL's programs. Debian does not add this folder to
/// `PATH`.
pub fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let folders = versions.filter_map(|entry| Some((version(&entry.path())?, entry.path().join("bin"))));
    folders.filter(|(_, folder)| folder.join("initdb").is_file()).max().map(|(_, folder)| folder)
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

/// Runs the ignored test `test` (with its module) of this test program in a process with 512 MiB of address space.
/// Panics with its output if it fails, or if there is no such test.
#[track_caller]
pub fn in_little_memory(test: &str) {
    let program = std::env::current_exe().expect("the test program runs");
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 524288; exec \"$0\" \"$@\""])
        .arg(program)
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_names_is_read_and_an_unknown_one_is_an_error() {
        assert_eq!(required(""), Ok(vec![]));
        assert_eq!(required(" root, io_uring,"), Ok(vec![Need::Root, Need::IoUring]));
        let error = required("root,fusee").expect_err("`fusee` is not a need");
        assert!(
            error.starts_with("unknown need `fusee` in FONIO_REQUIRE; use some of: root, fuse, "),
            "{error}"
        );
    }

    #[test]
    fn every_name_is_single_and_can_be_written_in_a_list() {
        for (at, need) in Need::ALL.iter().enumerate() {
            assert_eq!(required(need.name()), Ok(vec![*need]));
            assert!(Need::ALL[..at].iter().all(|earlier| earlier.name() != need.name()), "{}", need.name());
            assert!(need.sentence().ends_with('.'), "{}", need.name());
        }
    }

    #[test]
    fn a_line_gives_the_skip_again() {
        let at = Location::caller();
        for whole in [true, false] {
            let skip = Skip::new(Need::Fio, whole, "two\nlines\tand a tab", at);
            let line = skip.to_line();
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(Skip::from_line(line.trim_end_matches('\n')), Some(skip.clone()));
            assert_eq!(skip.test, "tests::a_line_gives_the_skip_again");
            assert_eq!(skip.why, "two lines and a tab");
        }
        for damaged in ["", "fio\twhole\tfile\ttest", "fiio\twhole\tfile\ttest\twhy"] {
            assert_eq!(Skip::from_line(damaged), None, "{damaged:?}");
        }
    }
}
