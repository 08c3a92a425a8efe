//! The place in which a case runs: a Debian root with the programs of the cases, in namespaces of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use xtask::{process, tools};

use super::case::Case;

/// The Debian release of the root.
const RELEASE: &str = "bookworm";
/// Packages that every case can use.
const BASE: &str = "ca-certificates,procps,util-linux,iproute2,psmisc,python3,sqlite3";
/// Programs that the study needs on the machine.
const TOOLS: &[tools::Tool] = &[
    ("debootstrap", "debootstrap", "the root of the cases"),
    ("unshare", "util-linux", "the namespaces of the cases"),
    ("mkfs.xfs", "xfsprogs", "cases on xfs"),
    ("mkfs.btrfs", "btrfs-progs", "cases on btrfs"),
];
const ENVIRONMENT: [&str; 5] = [
    "HOME=/root",
    "TERM=dumb",
    "LANG=C.UTF-8",
    "DEBIAN_FRONTEND=noninteractive",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
];

/// Mounts the parts of the root that every program needs. `$1` is the root.
const MOUNTS: &str = "\
mount --bind \"$1\" \"$1\"
mount -t proc proc \"$1/proc\"
mount --rbind /sys \"$1/sys\"
mount --rbind /dev \"$1/dev\"
mount -t tmpfs tmpfs \"$1/run\"
";

/// A Debian root with the programs of the cases.
pub struct Room {
    root: PathBuf,
}

impl Room {
    /// Makes the root, unless an earlier run made it, and installs the packages of the cases.
    pub fn make(cases: &[&Case]) -> Result<Room> {
        tools::ensure(&[TOOLS])?;
        let root = process::scratch("casebook")?.join("root");
        if !root.join("usr/bin/apt-get").exists() || root.join("debootstrap").exists() {
            println!("Making a Debian root in {}", root.display());
            process::remove_folder(&root)?;
            let mut command = Command::new("debootstrap");
            command.args(["--variant=minbase", &format!("--include={BASE}"), RELEASE]).arg(&root);
            process::run(command.stdout(Stdio::null()))?;
        }
        for folder in ["card", "case"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let room = Room { root };
        room.install(cases)?;
        Ok(room)
    }

    fn install(&self, cases: &[&Case]) -> Result<()> {
        let mut packages: Vec<&str> =
            cases.iter().flat_map(|case| &case.packages).map(String::as_str).collect();
        let pip: Vec<&str> = cases.iter().flat_map(|case| &case.pip).map(String::as_str).collect();
        if !pip.is_empty() {
            packages.push("python3-venv");
        }
        packages.sort_unstable();
        packages.dedup();
        let status = fs::read_to_string(self.root.join("var/lib/dpkg/status"))?;
        packages.retain(|package| !status.contains(&format!("Package: {package}\nStatus: install ok")));
        let mut lines = Vec::new();
        if !packages.is_empty() {
            println!("Installing in the root: {}", packages.join(" "));
            lines.push("apt-get -qq update".to_owned());
            lines.push(format!("apt-get -qq install -y --no-install-recommends {}", packages.join(" ")));
        }
        if !pip.is_empty() {
            lines.push("{ [ -x /venv/bin/pip ] || python3 -m venv /venv; }".to_owned());
            lines.push(format!("/venv/bin/pip install --quiet {}", pip.join(" ")));
        }
        if lines.is_empty() {
            return Ok(());
        }
        // Keep the packages from starting their servers.
        let policy = self.root.join("usr/sbin/policy-rc.d");
        fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
        process::run(Command::new("chmod").arg("755").arg(&policy))?;
        for file in ["etc/resolv.conf", "etc/hosts"] {
            fs::copy(Path::new("/").join(file), self.root.join(file))?;
        }
        let line = lines.join(" && ");
        let script =
            format!("set -e\n{MOUNTS}exec chroot \"$1\" env -i {} bash -c \"$2\"", ENVIRONMENT.join(" "));
        let mut command = process::bound_to_this(Path::new("unshare"));
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]);
        command.args(["bash", "-c", &script, "room"]).arg(&self.root).arg(line);
        process::run(command.stdout(Stdio::null()))
    }
}

/// A case that is being run. All its processes end when this value is dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// Prepares a case on the file system that is mounted at `card`. The logs of its scripts go to `folder`.
    pub fn prepare(room: &Room, case: &Case, card: &Path, folder: &Path) -> Result<Running> {
        for (name, script) in [("prepare.sh", &case.prepare), ("load.sh", &case.load)] {
            fs::write(folder.join(name), script)?;
        }
        let script = format!(
            "set -e\n{MOUNTS}\
             mount --bind \"$2\" \"$1/card\"\n\
             mount --bind \"$3\" \"$1/case\"\n\
             ip link set lo up\n\
             exec chroot \"$1\" env -i {} bash -c '\n\
             if bash /case/prepare.sh </dev/null >/case/prepare.log 2>&1; then echo prepared; else echo failed; exit 1; fi\n\
             read -r _\n\
             bash /case/load.sh </dev/null >/case/load.log 2>&1\n\
             sleep 3600'",
            ENVIRONMENT.join(" ")
        );
        let mut command = process::bound_to_this(Path::new("unshare"));
        command.args(["--mount", "--pid", "--net", "--fork", "--kill-child", "--propagation", "private"]);
        command.args(["bash", "-c", &script, "room"]).arg(&room.root).arg(card).arg(folder);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = Running { child: spawned.context("cannot start unshare")? };
        let mut line = String::new();
        let output = running.child.stdout.take().context("the output is not piped")?;
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != "prepared" {
            let log = fs::read_to_string(folder.join("prepare.log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(8).collect();
            bail!("the script `prepare` failed:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        Ok(running)
    }

    /// Starts the script `load`.
    pub fn load(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("the input is not piped")?;
        writeln!(input).context("the case ended before its load")?;
        Ok(())
    }

    /// Fails if the processes of the case have ended.
    pub fn check(&mut self) -> Result<()> {
        let status = self.child.try_wait()?;
        ensure!(status.is_none(), "the case ended early: {status:?}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of the first process ends all processes of its namespace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
