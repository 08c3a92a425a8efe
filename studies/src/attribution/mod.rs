//! `cargo studies attribution`: measures the share of a file system's I/O that fonio attributes to the right
//! file, process and unit.
//!
//! Processes write to ext4, xfs or btrfs on a loop device: into the page cache, with fsync, with O_DIRECT,
//! and through a mapping. Then two processes with the same process id write one after the other. Files are
//! renamed, and one file is deleted. Each writer has its own files and its own unit, so the address of a
//! request on the device reveals its writer (`truth.rs`). The program compares this writer with the
//! recording, and prints how many bytes have a right, a wrong and no attribution. Neighbouring bios of
//! different files can be merged into one request, but a request is attributed to only one file. So the
//! attribution of data is judged once by bios and once by requests. A row of the table that misses a target
//! is marked. The targets are: at least 95 % of the data right and at most 1 % wrong, and at least 80 % of
//! metadata and journal right.
//!
//! With `--on-overlay`, the processes write through an overlay, and fonio must report the paths in its upper
//! folder. With `--short-lived`, the writers delete their files immediately (`short.rs`).
//!
//! With `--lab`, the study runs in a complete Debian (`system.rs`): the writers are real systemd units,
//! except for one writer in a Podman container. If LVM or LUKS is between the file system and the disks, the
//! bios and requests of the disks are judged (`stack.rs`).

mod device;
mod judge;
mod short;
mod stack;
mod system;
mod truth;
mod writers;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fonio_record::{RecordOptions, RecordSummary, Selector, record};
use fonio_recording::{Recording, Tables};
use xtask::results::{Row, StudyResult};

use device::{Device, FILE_SYSTEMS, Overlay};
use judge::Judge;
use stack::{Places, Stack};
use truth::Truth;
use writers::{Groups, Place, WRITERS};

const DELETED: &str = "fsync-deleted";

/// Records the I/O of the writers, which are other processes of this program.
fn record_writers(device: &Device, words: &[&OsStr], out: &Path) -> Result<RecordSummary> {
    let options = RecordOptions {
        select: vec![Selector::Device(device.path().into())],
        command: Some(words.iter().map(Into::into).collect()),
        ..RecordOptions::new(out)
    };
    let summary = record(&options, &mut |_| {})?;
    for note in &summary.notes {
        eprintln!("note: {note}");
    }
    ensure!(summary.command_exit == Some(0), "the writers failed: {:?}", summary.command_exit);
    Ok(summary)
}

#[derive(Args)]
pub struct Arguments {
    /// Measure on these file systems (default: ext4; in a complete Debian, all).
    #[arg(value_name = "FILE-SYSTEM", value_parser = FILE_SYSTEMS)]
    file_systems: Vec<String>,
    /// Record the writers this many times.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Measure files that are deleted immediately.
    #[arg(long, conflicts_with_all = ["on_overlay", "lab"])]
    short_lived: bool,
    /// Write through an overlay, as programs in containers do.
    #[arg(long)]
    on_overlay: bool,
    /// Measure in a complete Debian in a guest, with systemd units and a container.
    #[arg(long, conflicts_with = "on_overlay")]
    lab: bool,
    /// With --lab: measure on these layers (default: on the disk itself).
    #[arg(long, value_name = "LAYER", requires = "lab", value_delimiter = ',', value_parser = system::LAYERS)]
    on: Vec<String>,
}

/// Records the writers' I/O, and judges the attributions in the recording.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { file_systems, runs, short_lived, on_overlay, lab, on } = arguments;
    if *lab {
        return system::run(file_systems, on);
    }
    let file_systems = if file_systems.is_empty() { &["ext4".to_owned()][..] } else { file_systems };
    if *short_lived { short::measure(file_systems) } else { measure(*runs, file_systems, *on_overlay) }
}

const COLUMNS: [&str; 9] =
    ["", "written", "right", "wrong", "unknown", "cause known", "unit right", "unit wrong", "target"];

/// The name under which this program runs as a writer or drives the writers.
pub const ROLE: &str = "attribute";

/// Runs one writer, drives all writers, or measures in a guest.
pub fn run_role(words: &[String]) -> Result<()> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", kind, dir] => Ok(writers::write(kind, Path::new(dir), None)?),
        ["write", kind, dir, group] => Ok(writers::write(kind, Path::new(dir), Some(Path::new(group)))?),
        ["drive", place, dir, files, truth] => {
            drive(Place::of(place)?, Path::new(dir), Path::new(files), Path::new(truth))
        }
        ["guest", fs, stack, first, second] => {
            let stack = Stack::of(stack)?;
            let name =
                if stack == Stack::Nothing { fs.to_owned() } else { format!("{fs}, {}", stack.word()) };
            let scratch = tempfile::tempdir()?;
            let stacked = stack.make([first, second], scratch.path())?;
            let device = Device::at(&stacked.path, fs)?;
            for row in round(&name, fs, (&device, false), Place::Units, scratch.path())? {
                println!("{}", serde_json::to_string(&row)?);
            }
            Ok(())
        }
        ["write-short", name, dir, notes] => short::write(name, Path::new(dir), Path::new(notes)),
        ["drive-short", dir, notes] => short::drive(Path::new(dir), Path::new(notes)),
        _ => bail!("only `cargo studies attribution` runs this command"),
    }
}

fn measure(rounds: u64, file_systems: &[String], is_on_overlay: bool) -> Result<()> {
    let (id, option, how) = if is_on_overlay {
        ("attribution-overlay", " --on-overlay", ", through an overlay")
    } else {
        ("attribution", "", "")
    };
    let command = format!("cargo studies attribution {}{option} --runs {rounds}", file_systems.join(" "));
    let title = format!("bytes attributed to the right file, process and unit{how}");
    let mut result = StudyResult::begin(id, &title, &command, &COLUMNS)?;
    result.rounds = Some(rounds);
    for (fs, number) in file_systems.iter().flat_map(|fs| (1..=rounds).map(move |number| (fs, number))) {
        let scratch = tempfile::tempdir()?;
        let device = Device::over(&scratch.path().join("image"), fs)?;
        let name = format!("{fs}, round {number}");
        for row in round(&name, fs, (&device, is_on_overlay), Place::Groups, scratch.path())? {
            result.row(row.name, row.cells);
        }
    }
    result.keep(!is_on_overlay && rounds >= 3 && file_systems.len() == FILE_SYSTEMS.len())?;
    Ok(())
}

/// Records the writers once, and returns the rows of the recording.
fn round(
    name: &str,
    fs: &str,
    (device, is_on_overlay): (&Device, bool),
    place: Place,
    scratch: &Path,
) -> Result<Vec<Row>> {
    let system = device.mounted(&scratch.join("mnt"))?;
    let overlay = is_on_overlay.then(|| Overlay::over(&system.0, scratch)).transpose()?;
    let (dir, files) = overlay.as_ref().map_or((&system.0, &system.0), |over| (&over.merged.0, &over.upper));
    let (truth, out) = (scratch.join("truth"), scratch.join("recording"));
    let own = std::env::current_exe()?;
    let [role, drive, place_word] = [ROLE, "drive", place.word()].map(OsStr::new);
    let words = [own.as_os_str(), role, drive, place_word, dir.as_ref(), files.as_ref(), truth.as_os_str()];
    record_writers(device, &words, &out)?;
    drop(overlay);
    drop(system);
    let truth = Truth::read(&truth, device.path(), fs)?;
    let mut judge = Judge::new(place, Places::of(device.path())?);
    Recording::open(&out)?.replay(&mut judge, Tables::ALL)?;
    let tallies = judge.tallies(&truth).into_iter();
    let rows = tallies.map(|(kind, tally)| Row {
        name: format!("{name}: {kind}"),
        cells: tally.cells(kind.starts_with("data")),
    });
    let rows = rows.collect();
    for (unit, file, bytes) in judge.misses() {
        eprintln!("note: {} KiB of {file} were attributed to {unit}", bytes / 1024);
    }
    Ok(rows)
}

/// Runs the writers in `dir`, saves the addresses of their files on the device, and deletes one file. The
/// saved paths are in `files`. This is the same folder as `dir`, unless an overlay is used.
fn drive(place: Place, dir: &Path, files: &Path, truth: &Path) -> Result<()> {
    let groups = Groups::make(place)?;
    let mut writers = Vec::new();
    for kind in WRITERS.iter().filter(|kind| place.has(kind) && !kind.starts_with("reused")) {
        writers.push(groups.start(kind, dir)?);
    }
    // These two writers run one after the other, because the second writer gets the process id of the first.
    for kind in ["reused1", "reused2"] {
        ended(groups.start(kind, dir)?)?;
    }
    for writer in writers {
        ended(writer)?;
    }
    // Let kernel workers and the journal thread write the dirty data. Without this sync, they would do this
    // too, but not within seconds.
    ran("sync", Command::new("sync").arg("-f").arg(files))?;
    let mut lines = String::new();
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        if path.is_file() {
            let extents = ran("filefrag", Command::new("filefrag").args(["-v", "-b512"]).arg(&path))?;
            for (first, sectors) in extents.lines().filter_map(truth::extent) {
                lines += &format!("{first} {sectors} {}\n", path.display());
            }
        }
    }
    fs::write(truth, lines)?;
    fs::remove_file(dir.join(DELETED))?;
    ran("sync", Command::new("sync").arg("-f").arg(files))?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

fn ended(mut writer: std::process::Child) -> Result<()> {
    ensure!(writer.wait()?.success(), "a writer failed");
    Ok(())
}

fn ran(name: &str, command: &mut Command) -> Result<String> {
    let out = command.stderr(Stdio::piped()).output().with_context(|| name.to_owned())?;
    ensure!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
