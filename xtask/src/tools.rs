//! Lists the programs that the commands need, and their Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// The name of a program, the Debian packages that contain it, and the purpose for which it is needed.
pub type Tool = (&'static str, &'static str, &'static str);

/// Programs needed to compile fonio: SQLite and zstd are written in C.
pub const BUILD: &[Tool] = &[("cc", "gcc libc6-dev", "compiling C libraries, and linking")];

/// Programs needed to bundle the script of the HTML report.
pub const ASSETS: &[Tool] =
    &[("node", "nodejs", "the script of the HTML report"), ("npm", "npm", "the script of the HTML report")];

/// Programs needed to compile the BPF programs. The objects depend on clang's version.
pub const BPF: &[Tool] = &[
    ("clang-14", "clang-14", "the BPF programs of the recorder"),
    ("llvm-strip-14", "llvm-14", "the BPF programs of the recorder"),
];

/// Programs needed to build static programs and Debian packages.
pub const DIST: &[Tool] = &[
    ("clang-14", "clang-14", "compiling C libraries for another architecture"),
    ("llvm-ar-14", "llvm-14", "compiling C libraries for another architecture"),
    ("dpkg-deb", "dpkg", "Debian packages"),
    ("tar", "tar", "images for containers"),
    ("make", "make", "the C library for 32-bit ARM"),
    ("dpkg-source", "dpkg-dev", "the C library for 32-bit ARM"),
];

/// Programs needed to make and to test a repository for apt.
pub const APT: &[Tool] = &[
    ("gpg", "gpg gpg-agent", "signing the repository for apt"),
    ("gpgconf", "gpgconf", "signing the repository for apt"),
    ("dpkg-deb", "dpkg", "Debian packages"),
    ("mmdebstrap", "mmdebstrap", "a clean Debian to install the packages in"),
    ("python3", "python3", "a local web server"),
];

/// Programs needed to build and run the container of the Home Assistant add-on.
pub const PODMAN: &[Tool] = &[
    ("podman", "podman", "the container of the add-on"),
    ("runc", "runc", "the container of the add-on"),
    ("busybox", "busybox-static", "the shell in the container of the add-on"),
];

/// Programs that execute programs for other processors.
pub const EMULATED: &[Tool] = &[
    ("qemu-arm-static", "qemu-user-static", "executing programs for 32-bit ARM"),
    ("qemu-aarch64-static", "qemu-user-static", "executing programs for 64-bit ARM"),
];

/// Programs needed for the tests: a C++ compiler for libFuzzer, and programs that the tests run.
pub const TEST: &[Tool] = &[
    ("c++", "g++", "the fuzz targets"),
    ("mkfs.ext4", "e2fsprogs", "recording on a real file system"),
    ("mkfs.xfs", "xfsprogs", "recording on XFS"),
    ("mkfs.btrfs", "btrfs-progs", "recording on Btrfs"),
    ("strace", "strace", "counting the system calls of SQLite"),
    ("sqlite3", "sqlite3", "recording a real workload"),
    ("fio", "fio", "benchmarks, and replaying exports"),
    ("blkparse", "blktrace", "reading generated traces"),
    ("fusermount3", "fuse3", "mounting as a user"),
    ("mosquitto", "mosquitto mosquitto-clients", "publishing figures to a broker"),
    ("openssl", "openssl", "servers with TLS"),
    ("qemu-io", "qemu-utils", "clients of emulated network block devices"),
    ("qemu-system-x86_64", "qemu-system-x86", "guests with other kernels"),
    ("adb", "adb", "recording a stand-in for a phone"),
    ("python3", "python3 python3-venv", "the documented queries in DuckDB, and the tests of fonio.fleet"),
    ("kill", "procps", "ending programs that tests started"),
    ("dash", "dash", "running install.sh"),
    ("busybox", "busybox-static", "running install.sh"),
    ("shellcheck", "shellcheck", "checking install.sh"),
];

/// Python packages of the tests: DuckDB, the other packages that fonio.fleet needs, pytest, and moto's server that speaks
/// S3. The tests expect certain results of these versions.
const PYTHON_PACKAGES: [&str; 8] = [
    "duckdb==2.0.0",
    "pyarrow==26.0.1",
    "numpy==2.4.6",
    "fsspec==2026.9.0",
    "pytest==9.2.0",
    "moto[s3]==5.2.5",
    "flask==3.1.3",
    "flask-cors==6.0.5",
];
/// The modules of these packages.
const PYTHON_MODULES: &str = "import duckdb, flask, flask_cors, fsspec, moto, numpy, pyarrow, pytest";

/// Programs needed to run the demo as root.
pub const DEMO: &[Tool] = &[
    ("mkfs.ext4", "e2fsprogs", "the file system under the workload"),
    ("mount", "mount", "the file system under the workload"),
    ("ip", "iproute2", "the link to the web server"),
    ("tc", "iproute2", "the link to the web server"),
];

/// Programs needed for benchmarks that compare fonio with other programs.
pub const BENCH: &[Tool] =
    &[("blkparse", "blktrace", "the comparison"), ("fio", "fio", "the recorder's overhead")];

/// Tools that record requests, for the comparison with fonio.
pub const RECORDERS: &[Tool] = &[
    ("perf", "linux-perf", "the comparison"),
    ("trace-cmd", "trace-cmd", "the comparison"),
    ("bpftrace", "bpftrace", "the comparison"),
];

/// Programs needed to count instructions.
pub const COUNT: &[Tool] = &[("valgrind", "valgrind", "counting instructions")];

/// Programs needed for `cargo studies fuse`.
pub const FUSE: &[Tool] = &[
    ("bindfs", "bindfs", "the comparison"),
    ("fusermount3", "fuse3", "mounting as a user"),
    ("git", "git", "the status of a repository"),
    ("pkg-config", "pkg-config libfuse3-dev", "compiling libfuse's examples"),
    ("c++", "g++", "compiling libfuse's examples"),
];

/// Programs needed to measure the tables and figures of published studies.
pub const PAPER: &[Tool] = &[
    ("mkfs.xfs", "xfsprogs", "the write buffer on XFS"),
    ("mkfs.btrfs", "btrfs-progs", "the write buffer on Btrfs"),
    ("fio", "fio", "raw rates"),
    ("sqlite3", "sqlite3", "the cost of recording"),
];

/// Programs needed for `cargo studies readers`. Other recorders are fetched and not installed.
pub const READERS: &[Tool] = &[
    ("fio", "fio", "the recorded load"),
    ("perf", "linux-perf", "recording with perf"),
    ("losetup", "mount", "the recorded device"),
    ("unshare", "util-linux", "mounts that only the recorders see"),
];

/// Programs needed to run guests with other kernels.
pub const GUEST: &[Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86", "guests with other kernels"),
    ("strip", "binutils", "the programs of guests"),
];

/// Programs needed to build the kernel module. The build uses the compiler from the kernel's Debian release.
pub const KERNEL: &[Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86", "guests that test the kernel module"),
    ("unshare", "util-linux", "building the kernel module"),
    ("chroot", "coreutils", "building the kernel module"),
];

/// Programs needed to run guests with a complete Debian.
pub const SYSTEM_GUEST: &[Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86", "amd64 guests"),
    ("qemu-system-aarch64", "qemu-system-arm", "arm64 and armhf guests"),
    ("qemu-img", "qemu-utils", "the disks of guests"),
];

/// Programs needed to record a stand-in for a phone.
pub const PHONE: &[Tool] = &[("adb", "adb", "recording a stand-in for a phone")];

/// All groups of programs.
pub const ALL: &[&[Tool]] = &[
    BUILD,
    ASSETS,
    BPF,
    DIST,
    APT,
    PODMAN,
    EMULATED,
    TEST,
    DEMO,
    BENCH,
    COUNT,
    FUSE,
    PAPER,
    READERS,
    GUEST,
    KERNEL,
    SYSTEM_GUEST,
    PHONE,
];

/// Installs missing programs with apt if this process is root. Otherwise, fails with a command line that
/// installs them.
pub fn ensure(groups: &[&[Tool]]) -> Result<()> {
    let mut packages: Vec<&str> = Vec::new();
    for (program, package, needed_for) in groups.iter().copied().flatten() {
        if fonio_testing::find_program(program).is_none() {
            println!("`{program}` is missing; it is needed for: {needed_for}.");
            packages.extend(package.split(' '));
        }
    }
    install(packages)
}

fn install(mut packages: Vec<&str>) -> Result<()> {
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !process::is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("install the missing programs, then run this command again:\n\n    sudo {line}\n");
    }
    println!("Installing: {}", packages.join(" "));
    // Update the package lists first, because new images have no lists, and old lists name obsolete packages.
    process::run(Command::new("apt-get").args(["update", "-qq"]))?;
    process::run(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&packages),
    )
}

/// The version of cargo-deny that is compiled if it is not installed.
const CARGO_DENY: &str = "0.20.2";

/// Returns the path of cargo-deny. If it is missing, compiles it and keeps it in the target directory. Returns
/// `None` and prints the reason if that fails, for example without a network.
pub fn ensure_cargo_deny() -> Result<Option<PathBuf>> {
    let folder = process::scratch("tools")?;
    let installed = folder.join("bin/cargo-deny");
    let found = fonio_testing::find_program("cargo-deny").or_else(|| Some(installed.clone()));
    if let Some(found) = found.filter(|path| path.is_file()) {
        return Ok(Some(found));
    }
    println!("Compiling cargo-deny in {}", folder.display());
    let build = process::scratch("cargo-deny")?;
    let mut command = process::cargo();
    // Without optimisation, compiling takes less time.
    command.args([
        "install",
        "--quiet",
        "--locked",
        "--debug",
        "--version",
        CARGO_DENY,
        "cargo-deny",
        "--root",
    ]);
    let made = process::run(command.arg(&folder).arg("--target-dir").arg(&build));
    process::remove_folder(&build)?;
    if let Err(error) = made {
        println!("cargo-deny cannot be compiled, so licences and advisories are not checked: {error:#}");
        return Ok(None);
    }
    Ok(Some(installed))
}

/// Installs the tests' Python packages in a virtual environment in the target directory. Tests look for the
/// packages there. If the installation fails, for example without a network, prints the reason; the tests that
/// need the packages are then skipped.
pub fn ensure_python_packages() -> Result<()> {
    let folder = process::scratch("python")?;
    let python = folder.join("bin/python3");
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if runs(Command::new(&python).args(["-c", PYTHON_MODULES])) {
        return Ok(());
    }
    println!("Installing DuckDB and other Python packages in {}", folder.display());
    let make = || {
        let mut command = Command::new("python3");
        process::run(command.args(["-m", "venv", "--clear"]).arg(&folder))
    };
    // In Debian, the module that creates virtual environments is in a separate package.
    let made = make().or_else(|_| install(vec!["python3-venv"]).and_then(|()| make()));
    let installed = made.and_then(|()| {
        let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:"];
        process::run(Command::new(&python).args(pip).args(PYTHON_PACKAGES))
    });
    if let Err(error) = installed {
        println!(
            "DuckDB's Python package cannot be installed, so the documented queries and the tests of fonio.fleet are not run: {error:#}"
        );
    }
    Ok(())
}
