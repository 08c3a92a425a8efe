//! Virtual machines with Debian's kernels: for tests that need another version of Linux, or the privileges of the
//! machine's owner, who may have any number of files open.
//!
//! The kernel's package is downloaded and unpacked, never installed. A guest has only the files of its initial file
//! system: no disk, no network. It needs no hardware virtualisation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, tools};

/// A package that depends on the newest kernel of its series.
pub const KERNELS: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-6.12-cloud-amd64"];
const SHELL: &str = "busybox-static";
const MEMORY_MIB: u32 = 3072;
/// A guest that hangs is ended after this time.
const SECONDS_MAX: u32 = 3600;
/// The lines that the guest prints first, with its version of Linux, and last, with the exit code of its script.
const BEGUN: &str = "The script begins on Linux ";
const ENDED: &str = "The script ended with ";

/// The initial file system of a guest.
pub struct Guest {
    folder: tempfile::TempDir,
    shell: PathBuf,
}

impl Guest {
    /// Makes a guest with a shell and the usual small programs.
    pub fn new() -> Result<Self> {
        ensure!(cfg!(target_arch = "x86_64"), "the virtual machines are of x86-64, and this machine is not");
        tools::ensure(&[tools::GUEST])?;
        let shell = unpacked(SHELL)?.join("bin/busybox");
        let guest = Self { folder: tempfile::tempdir_in(process::scratch("guest")?)?, shell };
        guest.add(&guest.shell, Path::new("bin/busybox"))?;
        Ok(guest)
    }

    /// Copies a program to `place`, with its linked libraries and without debug symbols.
    pub fn add(&self, program: &Path, place: &Path) -> Result<()> {
        let there = self.path(place)?;
        process::run(Command::new("strip").arg("-o").args([&there, program]))?;
        let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
        for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
            let copy = self.path(library)?;
            fs::copy(library, copy).with_context(|| format!("cannot copy {}", library.display()))?;
        }
        Ok(())
    }

    /// Makes the guest load a module at the start, unless the kernel contains it.
    fn add_module(&self, version_files: &Path, module: &str) -> Result<()> {
        let below = Path::new("kernel").join(module);
        let builtin = fs::read_to_string(version_files.join("modules.builtin"))?;
        if builtin.lines().any(|line| Path::new(line) == below) {
            return Ok(());
        }
        let name = below.file_name().context("a module has a name")?;
        fs::copy(version_files.join(&below), self.path(&Path::new("modules").join(name))?)
            .with_context(|| format!("there is no {module} in {}", version_files.display()))?;
        Ok(())
    }

    /// Returns the host's path of a path in the guest; creates its folder.
    fn path(&self, place: &Path) -> Result<PathBuf> {
        let there = self.folder.path().join("root").join(place.strip_prefix("/").unwrap_or(place));
        fs::create_dir_all(there.parent().context("a file lies in a folder")?)?;
        Ok(there)
    }

    /// Boots `kernel` with `modules`, such as `fs/fuse/fuse.ko`, and runs `script` in it as root; prints the script's
    /// output.
    ///
    /// # Errors
    ///
    /// If the script fails, or if the guest ends without running it.
    pub fn run(&self, kernel: &str, modules: &[&str], script: &str) -> Result<()> {
        let kernel_files = unpacked(&newest(kernel)?)?;
        let version_files = only_in(&kernel_files.join("lib/modules"), "")?;
        let of_another = self.folder.path().join("root/modules");
        if of_another.exists() {
            fs::remove_dir_all(of_another)?;
        }
        for module in modules {
            self.add_module(&version_files, module)?;
        }
        let init = self.path(Path::new("init"))?;
        fs::write(&init, init_script(script))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let archive = self.folder.path().join("initramfs");
        process::run(
            Command::new("sh")
                .args(["-c", "find . | \"$0\" cpio --quiet -o -H newc >\"$1\""])
                .args([&self.shell, &archive])
                .current_dir(self.folder.path().join("root")),
        )?;
        let mut machine = process::bound_to_this(Path::new("timeout"));
        // In our own process group, so that Ctrl-C ends it.
        machine.args(["--foreground", &SECONDS_MAX.to_string()]);
        machine.args(["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max"]);
        machine.args([
            "-smp",
            "2",
            "-m",
            &MEMORY_MIB.to_string(),
            "-nographic",
            "-no-reboot",
            "-nic",
            "none",
        ]);
        machine
            .args(["-append", "console=ttyS0 quiet panic=-1", "-kernel"])
            .arg(only_in(&kernel_files.join("boot"), "vmlinuz-")?);
        machine.arg("-initrd").arg(&archive);
        let mut machine =
            machine.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start QEMU")?;
        let console = std::io::BufReader::new(machine.stdout.take().context("its output is piped")?);
        // The firmware prints its lines first.
        let (mut before, mut has_begun, mut outcome) = (String::new(), false, None);
        for line in std::io::BufRead::split(console, b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            has_begun |= line.contains(BEGUN);
            if let Some(code) = line.strip_prefix(ENDED) {
                outcome = Some(code.to_owned());
            } else if has_begun {
                println!("  {line}");
            } else {
                before += line;
                before += "\n";
            }
        }
        machine.wait()?;
        process::check_signals()?;
        match outcome.as_deref() {
            Some("0") => Ok(()),
            Some(code) => bail!("it failed on {kernel} with exit code {code}"),
            None if has_begun => bail!("{kernel} ended before the script did"),
            None => bail!("{kernel} did not start; it said:\n{before}"),
        }
    }
}

fn init_script(script: &str) -> String {
    format!(
        "#!/bin/busybox sh\n/bin/busybox --install -s /bin\nexport PATH=/bin\nmkdir -p /proc /sys /dev /tmp\n\
         for module in /modules/*; do test ! -f $module || insmod $module; done\n\
         mount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\nmount -t tmpfs tmp /tmp\n\
         echo; echo \"{BEGUN}$(uname -r)\"\n({script})\necho \"{ENDED}$?\"\npoweroff -f\n"
    )
}

/// Returns the libraries in the output of `ldd`, including the dynamic linker.
fn libraries(text: &str) -> impl Iterator<Item = &Path> {
    text.lines().filter_map(|line| {
        let found = line.split_once("=>").map_or(line, |(_, found)| found).trim();
        let path = found.split_once(" (")?.0;
        path.starts_with('/').then(|| Path::new(path))
    })
}

/// Returns the package that a package without files of its own depends on.
fn newest(package: &str) -> Result<String> {
    let output = Command::new("apt-cache").args(["depends", package]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let newest = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let newest =
        newest.with_context(|| format!("apt knows no package {package}; `apt-get update` may help"))?;
    Ok(newest.to_owned())
}

/// Returns the only file in `folder` whose name has this beginning.
fn only_in(folder: &Path, beginning: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning)) {
            return Ok(path);
        }
    }
    bail!("{} has no {beginning}*", folder.display())
}

/// Returns the files of a Debian package, which is downloaded the first time.
fn unpacked(package: &str) -> Result<PathBuf> {
    let packages = process::scratch("packages")?;
    let files = packages.join(package);
    if files.exists() {
        return Ok(files);
    }
    let download = tempfile::tempdir_in(&packages)?;
    // If root starts apt, it would download as a user who may not write here.
    let download_only = ["-qq", "-o", "APT::Sandbox::User=root", "download", package];
    process::run(Command::new("apt-get").args(download_only).current_dir(download.path()))?;
    let archive = fs::read_dir(download.path())?.next().context("apt-get has downloaded nothing")??.path();
    let whole = download.path().join("files");
    process::run(Command::new("dpkg").arg("-x").args([&archive, &whole]))?;
    fs::rename(whole, &files)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tnot a dynamic executable\n";
        let found: Vec<&Path> = libraries(text).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(Path::new));
    }
}
