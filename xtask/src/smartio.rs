//! Builds the SmartIO module for one of Debian's kernels.
//!
//! The compiler, the kernel's headers and its source come from Debian's archive, and are unpacked in the
//! target directory. The build runs in this directory (chroot), because the programs in the header packages
//! need the C library of the same Debian release, and the headers require the compiler that built the kernel.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Architecture, Archive, Kernel, KernelFiles, Wanted};

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

    let module = make(&root, "build", &files.release, &[])?;
    Ok(Built { kernel, files, module })
}

/// Builds the module for a kernel of Debian for arm64, with a cross compiler. The version of the kernel must be that of this machine's architecture, because the
/// programs of the build come from there.
pub fn module_for_arm64(name: &str) -> Result<Built> {
    let native = module(name)?;
    let archive = Archive::open()?;
    let announce = |text: &str| eprintln!("{text}");
    let foreign = archive.for_architecture(Architecture::Arm64)?;
    let (kernel, files) = foreign.kernel(&name.parse()?, &announce)?;
    ensure!(
        kernel.version == native.kernel.version,
        "Debian has Linux {} for arm64, and {} for this machine's architecture; both must be the same for a \
         build with a cross compiler",
        kernel.version,
        native.kernel.version
    );
    let root = process::scratch(&format!("kernel/{}", kernel.version))?;
    let headers = format!("linux-headers-{}={}", files.release, kernel.version);
    foreign.unpack_alone(&[headers.as_str()], &root, &announce)?;
    let config = root.join(format!("usr/src/linux-headers-{}/.config", files.release));
    let text = std::fs::read_to_string(&config)
        .or_else(|_| std::fs::read_to_string(config.with_file_name("include/config/auto.conf")))
        .with_context(|| format!("cannot read {}", config.display()))?;
    // The compiler that built the kernel, such as `aarch64-linux-gnu-gcc-14`.
    let compiler = text
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT=\""))
        .and_then(|text| text.split_whitespace().next())
        .with_context(|| format!("{} does not name a compiler", config.display()))?;
    let version = compiler.rsplit('-').next().unwrap_or_default();
    archive.unpack(&[&format!("gcc-{version}-aarch64-linux-gnu")], &root, &announce)?;
    let words = [
        "ARCH=arm64".to_owned(),
        "CROSS_COMPILE=aarch64-linux-gnu-".to_owned(),
        format!("CC=aarch64-linux-gnu-gcc-{version}"),
    ];
    let module = make(&root, "build-arm64", &files.release, &words)?;
    Ok(Built { kernel, files, module })
}

/// Copies the module's sources to a folder in `root`, and builds them there. Returns the path of the module.
fn make(root: &Path, folder: &str, release: &str, words: &[String]) -> Result<PathBuf> {
    let build = root.join(folder);
    process::remove_folder(&build)?;
    let mut copy = Command::new("cp");
    process::run(copy.arg("-r").arg(sources()).arg(&build))?;
    // A program in the build reads /proc. The mount of /proc disappears with the mount namespace.
    let script = "root=$1 folder=$2 release=$3; shift 3; mount -t proc proc \"$root/proc\" && \
         exec chroot \"$root\" /usr/bin/env -i PATH=/usr/bin:/usr/sbin make -s -C \"/$folder\" \
         KERNEL=\"$release\" HEADERS=\"/usr/src/linux-headers-$release\" \"$@\" >&2";
    let mut make = process::bound_to_this(Path::new("unshare"));
    make.args(["--mount", "sh", "-c", script, "sh"]).arg(root).args([folder, release]).args(words);
    process::run(&mut make)?;
    Ok(build.join("smartio-iosched.ko"))
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
