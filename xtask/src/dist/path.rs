//! `cargo xtask dist path`: a new user's steps with fonio, from end to end, in a new Debian with a slow
//! memory card.
//!
//! The card is an emulated one, served to the guest through NBD. On it, a unit keeps notes in a database of SQLite, and
//! another unit copies large files. The user installs the package, asks `fonio check` what is wrong, tries
//! the command that it recommends at the end while both units run, keeps it, reboots, and undoes it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use super::Made;
use super::program::{self, FONIO};
use super::target::Target;
use crate::emulated::Emulated;
use crate::lab::system::{ok, text};
use crate::process;

const CARD: &str = "sd_a1";
const CARD_BYTES: &str = "4GiB";
/// The unit that matters to the user, and the one that slows it down.
const UNIT: &str = "notes.service";
const OTHER_UNIT: &str = "backup.service";
const DATABASE: &str = "/mnt/card/notes.db";

/// The file system on the card with a typical line in fstab, and the two units.
const PREPARE: &str = r#"systemctl is-system-running --wait >/dev/null
set -e
udevadm settle
mkfs.ext4 -q /dev/sda
mkdir -p /mnt/card
touch /etc/fstab
printf '# the card\nUUID=%s\t/mnt/card\text4  defaults,nofail\t0 2\n' $(blkid -s UUID -o value /dev/sda) >>/etc/fstab
cat >/etc/systemd/system/notes.service <<END
[Unit]
RequiresMountsFor=/mnt/card
[Service]
ExecStart=/bin/sh -c 'while sleep 2; do echo "INSERT INTO notes(text) VALUES(hex(randomblob(100)));"; done | sqlite3 -batch /mnt/card/notes.db'
[Install]
WantedBy=multi-user.target
END
cat >/etc/systemd/system/backup.service <<END
[Unit]
RequiresMountsFor=/mnt/card
[Service]
ExecStart=/bin/sh -c 'while :; do dd if=/dev/zero of=/mnt/card/backup.tar bs=1M count=200 status=none; sleep 5; done'
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
mount /mnt/card
sqlite3 /mnt/card/notes.db 'CREATE TABLE notes(text)'
systemctl enable --quiet --now notes.service backup.service
sleep 5
systemctl is-active notes.service backup.service
"#;

/// The files in which settings are kept.
const FILES: &str = "for file in $(find /etc /var/lib/fonio -type f 2>/dev/null | grep -v -e ^/etc/machine-id -e ^/etc/resolv.conf | sort); \
    do sha256sum $file; done";

/// Prints the settings that are in force on the machine.
const IN_FORCE: &str = "findmnt -n -o OPTIONS /mnt/card; grep -o '\\[.*\\]' /sys/block/sda/queue/scheduler; grep . /sys/block/sda/queue/nr_requests /sys/block/sda/queue/read_ahead_kb; \
    cat /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes; \
    systemctl show --property=IOWeight --property=IOSchedulingClass --property=IOReadBandwidthMax backup.service";

/// The times of the test while both units run: shorter than by default, so that a dozen pairs fit.
const LIVE_FOR: &str = "10m";
const LIVE: &str = "--slice 12s --carry-over 5s";

/// The fix and the place of a line that names a command to measure.
fn measured(line: &str) -> Option<(String, String)> {
    let (_, command) = line.split_once("sudo fonio fix trial ")?;
    let (fix, rest) = command.split_once(' ')?;
    Some((fix.to_owned(), rest.split(' ').next()?.to_owned()))
}

/// The guest in which the steps run, and how many of them failed.
struct Steps<'a, 'b> {
    system: &'a mut System<'b>,
    broken: u32,
}

impl Steps<'_, '_> {
    /// Runs a line as the user would, and prints the line and its output; returns the output.
    fn run(&mut self, line: &str) -> Result<String> {
        process::check_signals()?;
        println!("\n$ {line}");
        let out = self.system.run(&["sh", "-c", &format!("{line} 2>&1")])?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        print!("{said}");
        ensure!(out.code == 0, "`{line}` failed with exit code {}", out.code);
        Ok(said)
    }

    /// Returns the settings in force, and the checksums of the files in which settings are kept.
    fn state(&mut self) -> Result<[String; 2]> {
        Ok([text(self.system, IN_FORCE)?, text(self.system, FILES)?])
    }

    fn check(&mut self, what: &str, holds: bool) {
        self.broken += u32::from(!holds);
        println!("  [{}] {what}", if holds { "yes" } else { "NO *" });
    }
}

/// Runs all steps in a guest of each architecture; returns an error if a step broke its promise.
pub fn run(all: &[Made]) -> Result<()> {
    // The card is served by the program for this machine.
    let here = Target::ALL.into_iter().find(|target| target.emulator().is_none());
    let fonio = program::build(here.context("this machine is neither amd64 nor arm64")?, FONIO)?;
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let mut broken = 0;
    for made in all {
        let architecture = made.target.debian();
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("card");
        let card = Emulated::served(&fonio, CARD, CARD_BYTES, &socket)?;
        let options = SystemOptions {
            architecture,
            packages: vec!["sqlite3".to_owned()],
            served: vec![socket],
            ..SystemOptions::default()
        };
        let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
        println!("\nIn Debian on {architecture}, with Linux {}, and a card like {CARD}:", system.release());
        let mut steps = Steps { system: &mut system, broken: 0 };
        steps.all(&made.package)?;
        broken += steps.broken;
        system.stop()?;
        drop(card);
    }
    ensure!(broken == 0, "{broken} steps were not as promised");
    println!("\nEvery step was as promised.");
    Ok(())
}

impl Steps<'_, '_> {
    fn all(&mut self, package: &Path) -> Result<()> {
        ok(self.system, PREPARE)?;
        self.system.put(package, "/root/fonio.deb")?;
        self.run("dpkg -i fonio.deb")?;
        let before = self.state()?;
        self.run("fonio")?;
        let said = self.run("fonio check")?;
        self.check("it names the unit or its program", said.contains(UNIT) || said.contains("sqlite3"));
        self.check("it names the file", said.contains(DATABASE));
        self.check("it names who is in the way", said.contains(OTHER_UNIT) || said.contains("dd"));
        let (fix, place) = said.lines().find_map(measured).context("it names no fix to measure")?;
        let live = self
            .run(&format!("fonio fix trial {fix} {place} --for {LIVE_FOR} --unit {UNIT} {LIVE} -o live"))?;
        self.check("the test says what it found", live.contains("times as long"));
        let now = self.state()?;
        self.check("the test left no trace", now == before);
        self.run(&format!("fonio fix apply {fix} {place} --keep"))?;
        let kept = self.state()?;
        self.check("it is in force", kept[0] != before[0]);
        println!("\n$ reboot");
        self.system.reboot()?;
        ok(self.system, "systemctl is-system-running --wait; udevadm settle")?;
        self.run("fonio fix | sed -n '1,/^$/p'")?;
        let now = self.state()?;
        self.check("it is in force after a reboot", now[0] == kept[0]);
        self.run("fonio fix undo")?;
        let after = self.state()?;
        self.check("it is not in force any more", after[0] == before[0]);
        self.check("the files are byte for byte as before", after[1] == before[1]);
        for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            println!("before:\n{before}\nafter:\n{after}");
        }
        self.run("dpkg --purge fonio")?;
        Ok(())
    }
}
