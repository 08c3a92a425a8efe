//! Defines the tasks that are measured in the mounted directory.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

const MIB: u64 = 1 << 20;

/// A part of a task in a directory, at a scale.
type Step = fn(&Path, u64) -> Result<()>;

/// A task. Each task is one line of the table. `scale` divides the size of the task.
pub struct Work {
    pub name: &'static str,
    /// Prepares the task; this time is not measured.
    pub prepare: Step,
    pub run: Step,
    /// Whether the task needs only the names of files, and not their content, folders or attributes.
    pub needs_only_names: bool,
    /// The number of files that the task makes, at full scale.
    pub files: u64,
}

impl Work {
    const fn new(name: &'static str, prepare: Step, run: Step) -> Self {
        Self { name, prepare, run, needs_only_names: false, files: FILES_USUAL }
    }

    const fn of_names(name: &'static str, prepare: Step, run: Step) -> Self {
        Self { needs_only_names: true, ..Self::new(name, prepare, run) }
    }
}

pub const CREATE: &str = "create 10,000";
pub const STAT_DROPPED: &str = "stat 10,000, names dropped";
pub const UNLINK: &str = "unlink 10,000";

/// All tasks, in an order in which each task finds its files.
pub const WORKS: &[Work] = &[
    Work::new("write 512 MiB by 512 KiB", clear, |dir, scale| {
        stream(dir, "large", 512 * MIB / scale, 512 << 10)
    }),
    Work::new("read 512 MiB by 512 KiB", nothing, read_large),
    Work::new("read 10,000 of 4 KiB", nothing, read_random),
    Work::new("write 10,000 of 4 KiB", nothing, write_random),
    Work::new("write 128 MiB by 4 KiB", clear, |dir, scale| stream(dir, "small", 128 * MIB / scale, 4 << 10)),
    Work::new("write 4 x 32 MiB interleaved", clear, interleave),
    Work::of_names(CREATE, clear, create),
    Work::of_names("stat 10,000", nothing, stat),
    Work::of_names(STAT_DROPPED, drop_names, stat),
    Work::of_names("list 10,000, ten times", nothing, list),
    Work::of_names(UNLINK, nothing, unlink),
    Work::new("unpack 2,000 files", make_archive, unpack),
    Work { files: REPOSITORY_FILES, ..Work::new("git status of 50,000 files", make_repository, git_status) },
];

/// The largest number of files of other tasks.
const FILES_USUAL: u64 = 10_000;
/// The files of the archive, and their largest size. Their sizes are those of source files: most are small.
const ARCHIVE_FILES: u64 = 2000;
const ARCHIVE_FILE_MAX: u64 = 64 << 10;
/// The files of the repository, and the files of one of its folders.
const REPOSITORY_FILES: u64 = 50_000;
const FOLDER_FILES: u64 = 100;

fn nothing(_dir: &Path, _scale: u64) -> Result<()> {
    Ok(())
}

fn clear(dir: &Path, _scale: u64) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes the kernel drop the names and inodes that it can drop. Those of a tmpfs stay.
fn drop_names(_dir: &Path, _scale: u64) -> Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "2").context("cannot drop the kernel's caches")
}

fn archive(scale: u64) -> Result<PathBuf> {
    Ok(process::scratch("bench-fuse")?.join(format!("tree-{scale}.tar")))
}

/// Makes an archive like that of a source tree, outside of the directory.
fn make_archive(dir: &Path, scale: u64) -> Result<()> {
    clear(dir, scale)?;
    let archive = archive(scale)?;
    if archive.exists() {
        return Ok(());
    }
    let tree = tempfile::tempdir()?;
    for number in 0..ARCHIVE_FILES / scale {
        let folder = tree.path().join((number / FOLDER_FILES).to_string());
        std::fs::create_dir_all(&folder)?;
        // The square of a uniform number is small more often than large.
        let part = place(number, 4096 << 10) / 4096;
        let bytes = (part * part * ARCHIVE_FILE_MAX) >> 20;
        std::fs::write(folder.join(number.to_string()), vec![b'a' + (number % 26) as u8; bytes as usize])?;
    }
    process::run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(tree.path()).arg("."))
}

fn unpack(dir: &Path, scale: u64) -> Result<()> {
    process::run(Command::new("tar").arg("-xf").arg(archive(scale)?).arg("-C").arg(dir))
}

fn git(dir: &Path, words: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["-c", "user.name=fonio", "-c", "user.email=fonio", "-c", "gc.auto=0"]);
    // The repository belongs to another user if the mount shows one.
    process::output(git.args(["-c", "safe.directory=*"]).args(words)).map(drop)
}

fn make_repository(dir: &Path, scale: u64) -> Result<()> {
    clear(dir, scale)?;
    for number in 0..REPOSITORY_FILES / scale {
        let folder = dir.join((number / FOLDER_FILES).to_string());
        std::fs::create_dir_all(&folder)?;
        // Equal files are one object.
        std::fs::write(folder.join(number.to_string()), "a line\n")?;
    }
    git(dir, &["init", "--quiet"])?;
    git(dir, &["add", "--all"])?;
    git(dir, &["commit", "--quiet", "--message", "all"])?;
    // The first status looks at files that are as new as the index, and writes the index.
    git(dir, &["status", "--porcelain"])
}

fn git_status(dir: &Path, _scale: u64) -> Result<()> {
    git(dir, &["status", "--porcelain"])
}

fn stream(dir: &Path, name: &str, bytes: u64, record: usize) -> Result<()> {
    let data = vec![0x5a; record];
    let mut file = File::create(dir.join(name))?;
    for _ in 0..bytes / record as u64 {
        file.write_all(&data)?;
    }
    Ok(())
}

fn read_large(dir: &Path, _scale: u64) -> Result<()> {
    let mut file = File::open(dir.join("large"))?;
    let mut data = vec![0; 512 << 10];
    while file.read(&mut data)? > 0 {}
    Ok(())
}

/// Returns a file offset that looks random but is the same in every run (Knuth's multiplicative hash).
fn place(number: u64, bytes: u64) -> u64 {
    (number.wrapping_mul(2_654_435_761) % (bytes / 4096)) * 4096
}

fn read_random(dir: &Path, scale: u64) -> Result<()> {
    let file = File::open(dir.join("large"))?;
    let mut data = vec![0; 4096];
    for number in 0..10_000 / scale {
        file.read_exact_at(&mut data, place(number, 512 * MIB / scale))?;
    }
    Ok(())
}

fn write_random(dir: &Path, scale: u64) -> Result<()> {
    let file = File::options().write(true).open(dir.join("large"))?;
    let data = vec![0xa5; 4096];
    for number in 0..10_000 / scale {
        file.write_all_at(&data, place(number, 512 * MIB / scale))?;
    }
    Ok(())
}

fn interleave(dir: &Path, scale: u64) -> Result<()> {
    let data = vec![0x3c; 64 << 10];
    let mut files = Vec::new();
    for number in 0..4 {
        files.push(File::create(dir.join(format!("stream{number}")))?);
    }
    for _ in 0..32 * MIB / scale / data.len() as u64 {
        for file in &mut files {
            file.write_all(&data)?;
        }
    }
    Ok(())
}

fn create(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        File::create(dir.join(number.to_string()))?;
    }
    Ok(())
}

fn stat(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        std::fs::metadata(dir.join(number.to_string()))?;
    }
    Ok(())
}

fn list(dir: &Path, _scale: u64) -> Result<()> {
    for _ in 0..10 {
        std::fs::read_dir(dir)?.try_for_each(|entry| entry.map(|_| ()))?;
    }
    Ok(())
}

fn unlink(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        std::fs::remove_file(dir.join(number.to_string()))?;
    }
    Ok(())
}
