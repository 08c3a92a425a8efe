//! `cargo xtask dist path`: a new user's steps with fonio, from end to end, in a new Debian with a slow
//! memory card.
//!
//! The card is an emulated one, served to the guest through NBD. On it, a unit keeps notes in a database of SQLite, and
//! another unit copies large files. The user installs the package, asks `fonio check` what is wrong, tries
//! the command that it recommends at the end while both units run, keeps it, reboots, and undoes it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_lab::SystemOptions;

use super::Made;
use super::program::{self, FONIO};
use super::target::TARGETS;
use crate::emulated::Emulated;
use crate::lab::steps::{Steps, all_kept, in_debian, ok, text};

const CARD: &str = "sd_a1";
const CARD_BYTES: &str = "4GiB";
/// The unit that matters to the user, and the one that slows it down.
const UNIT: &str = "notes.service";
const OTHER_UNIT: &str = "backup.service";
const DATABASE: &str = "/mnt/card/notes.db";

/// The file system on the card with a typical line in fstab, and the two units.
const PREPARE: &str = include_str!("path_prepare.sh");

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

/// Returns the settings in force, and the checksums of the files in which settings are kept.
fn state(steps: &mut Steps<'_, '_>) -> Result<[String; 2]> {
    Ok([text(steps.system, IN_FORCE)?, text(steps.system, FILES)?])
}

/// Runs a line as the user would, which must succeed; returns its output.
fn said(steps: &mut Steps<'_, '_>, line: &str) -> Result<String> {
    let (code, said) = steps.line(line)?;
    ensure!(code == 0, "`{line}` failed with exit code {code}");
    Ok(said)
}

/// Runs all steps in a guest of each architecture; returns an error if a step broke its promise.
pub fn run(all: &[Made]) -> Result<()> {
    // The card is served by the program for this machine.
    let here = TARGETS.into_iter().find(|target| target.emulator().is_none());
    let fonio = program::build(here.context("this machine is neither amd64 nor arm64")?, FONIO)?;
    let mut broken = 0;
    for made in all {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("card");
        let _card = Emulated::served(&fonio, CARD, CARD_BYTES, &socket)?;
        let options = SystemOptions {
            architecture: made.target.debian,
            packages: vec!["sqlite3".to_owned()],
            served: vec![socket],
            ..SystemOptions::default()
        };
        let title = format!("A user's path with a card like {CARD}");
        broken += in_debian(&title, &options, |steps| path(steps, &made.package))?;
    }
    all_kept(broken)
}

fn path(steps: &mut Steps<'_, '_>, package: &Path) -> Result<()> {
    ok(steps.system, PREPARE)?;
    steps.system.put(package, "/root/fonio.deb")?;
    said(steps, "dpkg -i fonio.deb")?;
    let before = state(steps)?;
    said(steps, "fonio")?;
    let check = said(steps, "fonio check")?;
    steps.promise("it names the unit or its program", check.contains(UNIT) || check.contains("sqlite3"), "");
    steps.promise("it names the file", check.contains(DATABASE), "");
    steps.promise("it names who is in the way", check.contains(OTHER_UNIT) || check.contains("dd"), "");
    let (fix, place) = check.lines().find_map(measured).context("it names no fix to measure")?;
    let trial = format!("fonio fix trial {fix} {place} --for {LIVE_FOR} --unit {UNIT} {LIVE} -o live");
    let live = said(steps, &trial)?;
    steps.promise("the test says what it found", live.contains("times as long"), "");
    let now = state(steps)?;
    steps.promise("the test left no trace", now == before, &now.concat());
    said(steps, &format!("fonio fix apply {fix} {place} --keep"))?;
    let kept = state(steps)?;
    steps.promise("it is in force", kept[0] != before[0], "");
    steps.reboot()?;
    said(steps, "fonio fix | sed -n '1,/^$/p'")?;
    let now = state(steps)?;
    steps.promise("it is in force after a reboot", now[0] == kept[0], &now[0]);
    said(steps, "fonio fix undo")?;
    let after = state(steps)?;
    let [in_force, files] = [0, 1].map(|at| format!("before:\n{}\nafter:\n{}", before[at], after[at]));
    steps.promise("it is not in force any more", after[0] == before[0], &in_force);
    steps.promise("the files are byte for byte as before", after[1] == before[1], &files);
    said(steps, "dpkg --purge fonio").map(drop)
}
