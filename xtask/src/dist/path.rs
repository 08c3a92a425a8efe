//! `cargo xtask dist path`: follows a new user's steps with fonio in a new Debian with a slow memory card.
//!
//! The card is emulated and served to the guest through NBD. One unit stores notes in an SQLite database on
//! the card, and another unit copies large files. The user installs the package, runs `fonio check`, runs the
//! recommended command while both units run, keeps the fix, reboots, and undoes the fix.

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
/// The name of the user's important unit, and the name of the unit that slows it down.
const UNIT: &str = "notes.service";
const OTHER_UNIT: &str = "backup.service";
const DATABASE: &str = "/mnt/card/notes.db";

/// A script that sets up the file system of the card, with a typical line in fstab, and the two units.
const PREPARE: &str = include_str!("path_prepare.sh");

/// A script that prints the checksums of the files that keep settings.
const FILES: &str = "for file in $(find /etc /var/lib/fonio -type f 2>/dev/null | grep -v -e ^/etc/machine-id -e ^/etc/resolv.conf | sort); \
    do sha256sum $file; done";

/// A script that prints the machine's current settings.
const IN_FORCE: &str = "findmnt -n -o OPTIONS /mnt/card; grep -o '\\[.*\\]' /sys/block/sda/queue/scheduler; grep . /sys/block/sda/queue/nr_requests /sys/block/sda/queue/read_ahead_kb; \
    cat /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes; \
    systemctl show --property=IOWeight --property=IOSchedulingClass --property=IOReadBandwidthMax backup.service";

/// The options for the trial while both units run. The slices are shorter than by default, because a dozen
/// pairs must fit into the trial.
const LIVE_FOR: &str = "10m";
const LIVE: &str = "--slice 12s --carry-over 5s";

/// If a line contains a command that measures a fix, returns the fix and the target in this command.
fn measured(line: &str) -> Option<(String, String)> {
    let (_, command) = line.split_once("sudo fonio fix trial ")?;
    let (fix, rest) = command.split_once(' ')?;
    Some((fix.to_owned(), rest.split(' ').next()?.to_owned()))
}

/// Returns the machine's current settings, and the checksums of the files that keep settings.
fn state(steps: &mut Steps<'_, '_>) -> Result<[String; 2]> {
    Ok([text(steps.system, IN_FORCE)?, text(steps.system, FILES)?])
}

/// Runs a command line as the user would, and returns its output. Fails if the command fails.
fn said(steps: &mut Steps<'_, '_>, line: &str) -> Result<String> {
    let (code, said) = steps.line(line)?;
    ensure!(code == 0, "`{line}` failed with exit code {code}");
    Ok(said)
}

/// Runs all steps in a guest of each architecture. Fails if a step does not keep its promise.
pub fn run(all: &[Made]) -> Result<()> {
    // The program for this machine serves the emulated card.
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
        let title = format!("A user's steps with a card like {CARD}");
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
    steps.promise("`check` names the unit or program", check.contains(UNIT) || check.contains("sqlite3"), "");
    steps.promise("`check` names the file", check.contains(DATABASE), "");
    steps.promise("`check` names the blocking unit", check.contains(OTHER_UNIT) || check.contains("dd"), "");
    let (fix, place) = check.lines().find_map(measured).context("`check` names no fix")?;
    let trial = format!("fonio fix trial {fix} {place} --for {LIVE_FOR} --unit {UNIT} {LIVE} -o live");
    let live = said(steps, &trial)?;
    steps.promise("the trial reports a result", live.contains("times as long"), "");
    let now = state(steps)?;
    steps.promise("the trial left nothing behind", now == before, &now.concat());
    said(steps, &format!("fonio fix apply {fix} {place} --keep"))?;
    let kept = state(steps)?;
    steps.promise("it is in force", kept[0] != before[0], "");
    steps.reboot()?;
    said(steps, "fonio fix | sed -n '1,/^$/p'")?;
    let now = state(steps)?;
    steps.promise("the fix is in force after a reboot", now[0] == kept[0], &now[0]);
    said(steps, "fonio fix undo")?;
    let after = state(steps)?;
    let [in_force, files] = [0, 1].map(|at| format!("before:\n{}\nafter:\n{}", before[at], after[at]));
    steps.promise("the fix is no longer in force after undo", after[0] == before[0], &in_force);
    steps.promise("the files are identical to before", after[1] == before[1], &files);
    said(steps, "dpkg --purge fonio").map(drop)
}
