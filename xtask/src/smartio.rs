//! Builds the SmartIO module for one of Debian's kernels.
//!
//! The compiler, the kernel's headers and its source come from Debian's archive, and are unpacked in the
//! target directory. The build runs in this directory (chroot), because the programs in the header packages
//! need the C library of the same Debian release, and the headers require the compiler that built the kernel.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, Kernel, KernelFiles, Wanted};

use crate::process;

/// Programs needed to build the module. The compiler is a dependency of the kernel headers.
const PROGRAMS: &str = "base-files bash coreutils dash diffutils findutils gawk grep make sed tar xz-utils";

/// The module, and the kernel for which it was built.
pub struct Built {
    /// The kernel for which the module was built.
    pub kernel: Kernel,
    /// Files of the kernel for which the module was built.
    pub files: KernelFiles,
    /// Path of the module file.
    pub module: PathBuf,
}

/// Returns the folder of the module's sources.
pub fn sources() -> PathBuf {
    process::root().join("kernel/smartio")
}

/// Builds the module for a kernel. The kernel has the name that it has in `fonio lab`, such as `6.12` or
/// `newest`.
pub fn module(name: &str) -> Result<Built> {
    ensure!(process::is_root(), "building for another Debian needs root, for chroot");
    let wanted: Wanted = name.parse()?;
    let archive = Archive::open()?;
    let announce = |text: &str| eprintln!("{text}");
    let (kernel, files) = archive.kernel(&wanted, &announce)?;
    let listed = std::fs::read_to_string(sources().join("kernels.list"))?;
    let is_listed = listed.lines().any(|line| line == kernel.series);
    ensure!(
        is_listed,
        "Debian's newest kernel is Linux {}, for which the module was not built and tested; kernels.list has \
         the supported kernels",
        kernel.version
    );
    // Each kernel has a separate folder, because two versions of a series have source files with the same
    // names.
    let root = process::scratch(&format!("kernel/{}", kernel.version))?;
    let headers = format!("linux-headers-{}={}", files.release, kernel.version);
    let source = format!("linux-source-{}={}", kernel.series, kernel.version);
    let mut packages: Vec<&str> = PROGRAMS.split(' ').collect();
    packages.extend([headers.as_str(), source.as_str()]);
    archive.unpack(&packages, &root, &announce)?;
    prepare(&root)?;

    let build = root.join("build");
    process::remove_folder(&build)?;
    let mut copy = Command::new("cp");
    process::run(copy.arg("-r").arg(sources()).arg(&build))?;
    // A program in the build reads /proc. The mount of /proc disappears with the mount namespace.
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/env -i PATH=/usr/bin:/usr/sbin \
         make -s -C /build KERNEL=\"$1\" HEADERS=\"/usr/src/linux-headers-$1\" >&2";
    let mut make = process::bound_to_this(Path::new("unshare"));
    process::run(make.args(["--mount", "sh", "-c", script]).arg(&root).arg(&files.release))?;
    Ok(Built { kernel, files, module: build.join("smartio-iosched.ko") })
}

/// Adds the links, folders and devices that an installation of the packages would have created.
fn prepare(root: &Path) -> Result<()> {
    for (link, target) in [("usr/bin/awk", "gawk"), ("usr/bin/sh", "dash")] {
        if root.join(link).symlink_metadata().is_err() {
            symlink(target, root.join(link)).with_context(|| format!("cannot make {link}"))?;
        }
    }
    for folder in ["proc", "tmp", "dev"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let null = root.join("dev/null");
    if !null.exists() {
        process::run(Command::new("mknod").args(["-m", "666"]).arg(&null).args(["c", "1", "3"]))?;
    }
    Ok(())
}
