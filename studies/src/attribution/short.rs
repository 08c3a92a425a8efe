//! Measures the share of bytes that fonio attributes to the right path, for files that exist only for a
//! moment.
//!
//! Each writer creates files, writes them with fsync, deletes them immediately, and saves the times of
//! creation and deletion. A data bio that the writer caused between the creation and the deletion of a file
//! belongs to this file.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fonio_core::{Bio, Content, Op, Request, RowSink, Thread, ignore_rows};
use fonio_recording::{Recording, Tables};
use rustix::time::{ClockId, clock_gettime};
use xtask::results::{Cell, StudyResult};

use super::ROLE;
use super::device::{Device, FILE_SYSTEMS};

const FILES: usize = 400;

/// The writers, each with its name and its load. The name of a writer is also its process name.
const WRITERS: [(&str, Load); 5] = [
    ("database1", Load::Journal),
    ("database2", Load::Journal),
    ("database3", Load::Journal),
    ("compiler", Load::Temporary),
    ("editor", Load::Replaced),
];

#[derive(Clone, Copy)]
enum Load {
    /// A rollback journal. It is next to the database and always has the same name.
    Journal,
    /// A temporary file with a new name each time, in one of several folders.
    Temporary,
    /// A file that replaces another file. The replaced file is deleted, although no call names it.
    Replaced,
}

/// A file that a writer wrote, with the times of its creation and deletion in nanoseconds.
struct Written {
    began: u64,
    ended: u64,
    paths: Vec<PathBuf>,
}

/// Runs one writer in `dir`, and saves the names and times of its files in `notes`.
pub fn write(name: &str, dir: &Path, notes: &Path) -> Result<()> {
    let (_, load) = WRITERS.iter().find(|(known, _)| *known == name).context("no such writer")?;
    let comm = std::ffi::CString::new(name)?;
    // SAFETY: PR_SET_NAME reads a string that ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, comm.as_ptr()) };
    let dir = dir.join(name);
    fs::create_dir(&dir)?;
    let mut lines = String::new();
    for number in 0..FILES {
        let (path, replaces) = match load {
            Load::Journal => (dir.join("notes.db-journal"), None),
            Load::Temporary => {
                let folder = dir.join(format!("part{}", number % 7));
                fs::create_dir_all(&folder)?;
                (folder.join(format!("cc{number:04}.o")), None)
            }
            Load::Replaced => (dir.join(format!("text.{number:04}.new")), Some(dir.join("text"))),
        };
        let began = nanos();
        let mut file = File::create(&path)?;
        file.write_all(&vec![number as u8; 8192])?;
        file.sync_all()?;
        drop(file);
        match &replaces {
            Some(replaced) => fs::rename(&path, replaced)?,
            None => fs::remove_file(&path)?,
        }
        let names =
            [Some(&path), replaces.as_ref()].map(|path| path.map_or("", |path| path.to_str().unwrap_or("")));
        lines += &format!("{began} {} {} {}\n", nanos(), names[0], names[1]);
    }
    fs::write(notes.join(name), lines)?;
    Ok(())
}

fn nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn drive(dir: &Path, notes: &Path) -> Result<()> {
    let own = std::env::current_exe()?;
    let start = |(name, _): &(&str, Load)| {
        Command::new(&own).args([ROLE, "write-short", name]).arg(dir).arg(notes).spawn()
    };
    let children: io::Result<Vec<_>> = WRITERS.iter().map(start).collect();
    children?.into_iter().try_for_each(super::ended)
}

/// Records the writers once on each file system, and stores a result row for each writer.
pub fn measure(file_systems: &[String]) -> Result<()> {
    let columns = ["writer", "data written", "right path", "wrong path", "no path"];
    let title = format!("correctly attributed bytes of short-lived files, {FILES} files per writer");
    let command = format!("cargo studies attribution {} --short-lived", file_systems.join(" "));
    let mut result = StudyResult::begin("attribution-short-lived", &title, &command, &columns)?;
    for fs in file_systems {
        record(fs, &mut result)?;
    }
    result.keep(file_systems.len() == FILE_SYSTEMS.len())?;
    Ok(())
}

fn record(fs: &str, result: &mut StudyResult) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let device = Device::over(&scratch.path().join("image"), fs)?;
    let system = device.mounted(&scratch.path().join("mnt"))?;
    let (notes, out) = (scratch.path().join("notes"), scratch.path().join("recording"));
    fs::create_dir(&notes)?;
    let own = std::env::current_exe()?;
    let [role, drive] = [ROLE, "drive-short"].map(OsStr::new);
    let words = [own.as_os_str(), role, drive, system.0.as_os_str(), notes.as_os_str()];
    let summary = super::record_writers(&device, &words, &out)?;
    drop(system);
    let mut judge = Judge::default();
    Recording::open(&out)?.replay(&mut judge, Tables::ALL)?;
    let mut all = Tally::default();
    for (name, _) in WRITERS {
        let written = written(&fs::read_to_string(notes.join(name))?)?;
        let tally = judge.tally(name, &written);
        result.row(format!("{fs}: {name}"), tally.cells());
        for (sum, part) in all.0.iter_mut().zip(tally.0) {
            *sum += part;
        }
    }
    result.row(format!("{fs}: all"), all.cells());
    eprintln!("The recorder used {} ms of a processor.", summary.capture_cpu.as_millis());
    Ok(())
}

fn written(lines: &str) -> Result<Vec<Written>> {
    let parse = |line: &str| -> Result<Written> {
        let words: Vec<&str> = line.split(' ').collect();
        let [began, ended, paths @ ..] = &words[..] else { bail!("the list of files is damaged") };
        let paths = paths.iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect();
        Ok(Written { began: began.parse()?, ended: ended.parse()?, paths })
    };
    lines.lines().map(parse).collect()
}

#[derive(Default)]
struct Judge {
    bios: Vec<Bio>,
    /// The kind of data of each request, by request.
    contents: HashMap<u64, Content>,
    /// The names of each file, sorted by time.
    paths: HashMap<u32, Vec<(u64, PathBuf)>>,
    /// The process name of each thread.
    threads: HashMap<u32, String>,
}

impl RowSink for Judge {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.contents.insert(row.request_id, row.content);
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.bios.push(row.clone());
        Ok(())
    }
    fn file(&mut self, row: &fonio_core::File) -> io::Result<()> {
        if let Some(path) = &row.path {
            self.paths.entry(row.file_id).or_default().push((row.from.0, path.into()));
        }
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if let Some(comm) = &row.comm {
            self.threads.insert(row.tid, comm.clone());
        }
        Ok(())
    }
    ignore_rows!(began, link, call, statement, wait, blocked_count, sample, mark, diagnostic, settled);
}

impl Judge {
    fn is_data(&self, bio: &Bio) -> bool {
        let content = bio.request_id.and_then(|id| self.contents.get(&id));
        content.is_some_and(|content| {
            !matches!(content, Content::FsJournal | Content::FsMetadata | Content::Swap | Content::Unknown)
        })
    }

    fn tally(&self, writer: &str, written: &[Written]) -> Tally {
        let (mut right, mut wrong, mut none) = (0, 0, 0);
        for bio in self.bios.iter().filter(|bio| bio.op == Op::Write && self.is_data(bio)) {
            let cause = bio.cause_tid.and_then(|tid| self.threads.get(&tid));
            let at = written.partition_point(|file| file.began <= bio.queued.0).checked_sub(1);
            let Some(file) = at.map(|at| &written[at]).filter(|file| bio.queued.0 <= file.ended) else {
                continue;
            };
            if cause.is_none_or(|cause| cause != writer) {
                continue;
            }
            let names = bio.file_id.and_then(|id| self.paths.get(&id));
            let name = names.and_then(|names| {
                let before = names.iter().rev().find(|(from, _)| *from <= bio.queued.0);
                before.or(names.first())
            });
            let place = match name {
                Some((_, path)) if file.paths.contains(path) => &mut right,
                Some(_) => &mut wrong,
                None => &mut none,
            };
            *place += bio.bytes.0;
        }
        Tally([right, wrong, none])
    }
}

/// Number of bytes attributed to the right path, to a wrong path, and to no path.
#[derive(Clone, Copy, Default)]
struct Tally([u64; 3]);

impl Tally {
    fn cells(self) -> Vec<Cell> {
        let total: u64 = self.0.iter().sum();
        let shares = self.0.map(|part| Cell::once(part as f64 * 100.0 / total as f64, "%", 1));
        [Cell::once(total as f64 / 1024.0, "KiB", 0)].into_iter().chain(shares).collect()
    }
}
