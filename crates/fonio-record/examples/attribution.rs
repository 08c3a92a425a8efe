//! Measures how much of the I/O of a file system fonio attributes rightly:
//! `cargo run --release -p fonio-record --example attribution [ROUNDS] [FILE-SYSTEM]`, as root, with e2fsprogs; for xfs also
//! with xfsprogs.
//!
//! Four processes write to an ext4 or xfs on a loop device of its own: into the page cache, with fsync, with O_DIRECT, and
//! through a mapping. Files are renamed, and one is deleted. Each process has its own files, so that the place of a
//! request on the device shows whose it is (`filefrag`; for the journal, `debugfs` or `xfs_db`). The program compares this with
//! the recording, and prints the bytes that are right, wrong and unknown. Neighbouring bios of different files can become
//! one request, which then counts for one of them; so data is compared by bios and by requests. A `*` marks a share that
//! misses the target: of data at least 95 % right and at most 1 % wrong; of metadata and journal at least 80 % right.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fonio_core::{Bio, Content, Op, Request, RowSink, SECTOR_BYTES, Thread, ignore_rows};
use fonio_record::{RecordOptions, Selector, record};
use fonio_recording::{Recording, Tables};

const DEVICE_BYTES: u64 = 512 << 20;
const MAPPED_BYTES: usize = 4 << 20;
/// The kinds of writers; each is the name of its process too.
const WRITERS: [&str; 4] = ["buffered", "fsync", "direct", "mmap"];
/// The file of the fsync writer that is deleted at the end.
const DELETED: &str = "fsync-deleted";
/// Targets: data right, data wrong, metadata and journal right.
const DATA_RIGHT: f64 = 0.95;
const DATA_WRONG: f64 = 0.01;
const REST_RIGHT: f64 = 0.8;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", kind, dir] => Ok(write(kind, Path::new(dir))?),
        ["drive", dir, truth] => drive(Path::new(dir), Path::new(truth)),
        [] => measure(3, "ext4"),
        [rounds] => measure(rounds.parse()?, "ext4"),
        [rounds, fs @ ("ext4" | "xfs")] => measure(rounds.parse()?, fs),
        _ => Err("the options are the number of rounds, and ext4 or xfs".into()),
    }
}

fn measure(rounds: u64, fs: &str) -> Result<()> {
    println!("{fs}\n");
    println!(
        "| round | bytes of | written | right | wrong | unknown | cause known |\n|---|---|---|---|---|---|---|"
    );
    for round in 1..=rounds {
        let scratch = tempfile::tempdir()?;
        let device = Device::over(&scratch.path().join("image"), fs)?;
        let system = device.mounted(&scratch.path().join("mnt"))?;
        let (truth, out) = (scratch.path().join("truth"), scratch.path().join("recording"));
        let own = std::env::current_exe()?;
        let words = [own.as_os_str(), "drive".as_ref(), system.0.as_os_str(), truth.as_os_str()];
        let options = RecordOptions {
            select: vec![Selector::Device(device.0.clone().into())],
            command: Some(words.map(Into::into).to_vec()),
            ..RecordOptions::new(&out)
        };
        let summary = record(&options, &mut |_| {})?;
        if summary.command_exit != Some(0) {
            return Err(format!("the writers failed: {:?}", summary.command_exit).into());
        }
        drop(system);
        let truth = Truth::read(&truth, &device, fs)?;
        let mut judge = Judge::default();
        Recording::open(&out)?.replay(&mut judge, Tables::ALL)?;
        for (kind, tally) in judge.tallies(&truth) {
            println!("| {round} | {kind} | {}", tally.row(kind.starts_with("data")));
        }
    }
    Ok(())
}

/// A loop device with an ext4; detached when dropped.
struct Device(String);

/// A mounted file system; unmounted when dropped.
struct Mounted(PathBuf);

impl Device {
    fn over(image: &Path, fs: &str) -> Result<Device> {
        File::create(image)?.set_len(DEVICE_BYTES)?;
        let options: &[&str] = match fs {
            "xfs" => &["-q"],
            _ => &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        };
        let mkfs = format!("mkfs.{fs}");
        ran(&mkfs, Command::new(&mkfs).args(options).arg(image))?;
        let made = ran("losetup", Command::new("losetup").args(["--find", "--show"]).arg(image))?;
        Ok(Device(made.trim().to_owned()))
    }

    fn mounted(&self, dir: &Path) -> Result<Mounted> {
        fs::create_dir(dir)?;
        ran("mount", Command::new("mount").arg(&self.0).arg(dir))?;
        Ok(Mounted(dir.to_owned()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Runs a program and returns its output.
fn ran(name: &str, command: &mut Command) -> Result<String> {
    let out = command.stderr(Stdio::piped()).output().map_err(|error| format!("{name}: {error}"))?;
    if !out.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs the writers, notes where their files are, and deletes one file.
fn drive(dir: &Path, truth: &Path) -> Result<()> {
    let own = std::env::current_exe()?;
    let start = |kind: &&str| Command::new(&own).args(["write", kind]).arg(dir).spawn();
    let writers = WRITERS.iter().map(start).collect::<io::Result<Vec<_>>>()?;
    for mut writer in writers {
        if !writer.wait()?.success() {
            return Err("a writer failed".into());
        }
    }
    // As the kernel would do by itself, but within seconds: a worker and the journal's thread write what is dirty.
    ran("sync", Command::new("sync").arg("-f").arg(dir))?;
    let mut lines = String::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_file() {
            let extents = ran("filefrag", Command::new("filefrag").args(["-v", "-b512"]).arg(&path))?;
            for (first, sectors) in extents.lines().filter_map(extent) {
                lines += &format!("{first} {sectors} {}\n", path.display());
            }
        }
    }
    fs::write(truth, lines)?;
    fs::remove_file(dir.join(DELETED))?;
    ran("sync", Command::new("sync").arg("-f").arg(dir))?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

/// First sector and length from a line of filefrag: `   0:        0..    2047:     278528..    280575:   2048:   last`.
fn extent(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split(':');
    fields.next()?.trim().parse::<u64>().ok()?;
    let first = fields.nth(1)?.split("..").next()?.trim().parse().ok()?;
    Some((first, fields.next()?.trim().parse().ok()?))
}

/// Writes the files of one writer.
fn write(kind: &str, dir: &Path) -> io::Result<()> {
    let name = std::ffi::CString::new(kind)?;
    // SAFETY: PR_SET_NAME reads a string that ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let path = |name: &str| dir.join(format!("{kind}-{name}"));
    let pause = || std::thread::sleep(Duration::from_millis(20));
    match kind {
        "buffered" => {
            for number in 0..8 {
                let temporary = path("temporary");
                fs::write(&temporary, vec![number; 1 << 20])?;
                pause();
                fs::rename(&temporary, path(&number.to_string()))?;
            }
        }
        "fsync" => {
            for name in ["log", "deleted"] {
                let mut file = File::create(path(name))?;
                for number in 0..50 {
                    file.write_all(&vec![number; 16 << 10])?;
                    file.sync_all()?;
                }
            }
        }
        "direct" => {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).custom_flags(libc::O_DIRECT).open(path("file"))?;
            let mut memory = vec![0_u8; (64 << 10) + 4096];
            let aligned = memory.as_ptr().align_offset(4096);
            memory.fill(7);
            for number in 0..64 {
                file.write_all_at(&memory[aligned..aligned + (64 << 10)], number * (64 << 10))?;
                pause();
            }
        }
        _ => {
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path("file"))?;
            file.set_len(MAPPED_BYTES as u64)?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping of a file that is as long as the mapping.
            let mapped = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    MAPPED_BYTES,
                    protection,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                )
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            for at in (0..MAPPED_BYTES).step_by(4096) {
                // SAFETY: `at` is inside the mapping, which nobody else uses.
                unsafe { mapped.cast::<u8>().add(at).write(1) };
            }
            pause();
            // SAFETY: the mapping made above.
            unsafe { libc::munmap(mapped, MAPPED_BYTES) };
        }
    }
    Ok(())
}

/// Where the data of each file and the journal are.
struct Truth {
    /// First sector, sectors, and file; in order of place.
    extents: Vec<(u64, u64, PathBuf)>,
}

impl Truth {
    fn read(path: &Path, device: &Device, fs: &str) -> Result<Truth> {
        let mut extents = Vec::new();
        for line in fs::read_to_string(path)?.lines() {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().ok_or("a damaged list of extents");
            extents.push((next()?.parse()?, next()?.parse()?, PathBuf::from(next()?)));
        }
        if fs == "xfs" {
            let ask = |commands: &[&str]| {
                ran("xfs_db", Command::new("xfs_db").arg("-r").args(commands).arg(&device.0))
            };
            let told = ask(&["-c", "sb 0", "-c", "print logstart logblocks"])?;
            let numbers: Vec<&str> =
                told.lines().filter_map(|line| Some(line.split_once('=')?.1.trim())).collect();
            let [start, blocks] = numbers[..] else { return Err(format!("xfs_db printed {told:?}").into()) };
            // Such as `0x64032 (409650)`.
            let place = ask(&["-c", &format!("convert fsblock {start} daddr")])?;
            let first =
                place.split(['(', ')']).nth(1).ok_or("xfs_db did not convert the place of the log")?;
            extents.push((first.parse()?, blocks.parse::<u64>()? * 8, PathBuf::new()));
        } else {
            let blocks = ran("debugfs", Command::new("debugfs").args(["-R", "blocks <8>", &device.0]))?;
            for block in blocks.split_whitespace() {
                extents.push((block.parse::<u64>()? * 8, 8, PathBuf::new()));
            }
        }
        extents.sort();
        Ok(Truth { extents })
    }

    /// The file at a sector; an empty path for the journal, `None` for metadata.
    fn at(&self, sector: u64) -> Option<&Path> {
        let at = self.extents.partition_point(|(first, ..)| *first <= sector).checked_sub(1)?;
        let (first, sectors, file) = &self.extents[at];
        (sector < first + sectors).then_some(file.as_path())
    }
}

#[derive(Default)]
struct Judge {
    requests: Vec<Request>,
    bios: Vec<Bio>,
    paths: HashMap<u32, PathBuf>,
    names: HashMap<u32, String>,
}

impl RowSink for Judge {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.requests.push(row.clone());
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.bios.push(row.clone());
        Ok(())
    }
    fn file(&mut self, row: &fonio_core::File) -> io::Result<()> {
        if let Some(path) = &row.path {
            self.paths.insert(row.file_id, path.into());
        }
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if let Some(comm) = &row.comm {
            self.names.insert(row.tid, comm.clone());
        }
        Ok(())
    }
    ignore_rows!(began, link, call, wait, blocked_count, sample, mark, diagnostic, settled);
}

#[derive(Clone, Copy, Default)]
struct Tally {
    right: u64,
    wrong: u64,
    unknown: u64,
    cause_known: u64,
}

impl Judge {
    fn tallies(&self, truth: &Truth) -> [(&'static str, Tally); 4] {
        let [mut by_request, mut metadata, mut journal, mut by_bio] = [Tally::default(); 4];
        let contents: HashMap<u64, Content> =
            self.requests.iter().map(|row| (row.request_id, row.content)).collect();
        for row in self.requests.iter().filter(|row| row.op == Op::Write) {
            let Some(sector) = row.sector else { continue };
            for at in (0..row.bytes.0 / SECTOR_BYTES).map(|step| sector.0 + step) {
                let is_known = row.cause_tid.is_some_and(|tid| self.names.contains_key(&tid));
                match truth.at(at) {
                    Some(file) if file.as_os_str().is_empty() => {
                        journal.add(row.content, Content::FsJournal, Some(true), is_known);
                    }
                    Some(file) => {
                        let verdict = self.is_of(row.file_id, row.cause_tid, file);
                        by_request.add(row.content, Content::Data, verdict, is_known);
                    }
                    None => metadata.add(row.content, Content::FsMetadata, Some(true), is_known),
                }
            }
        }
        for row in self.bios.iter().filter(|row| row.op == Op::Write) {
            let Some(sector) = row.sector else { continue };
            let content = row.request_id.and_then(|id| contents.get(&id)).copied().unwrap_or_default();
            for at in (0..row.bytes.0 / SECTOR_BYTES).map(|step| sector.0 + step) {
                if let Some(file) = truth.at(at).filter(|file| !file.as_os_str().is_empty()) {
                    let is_known = row.cause_tid.is_some_and(|tid| self.names.contains_key(&tid));
                    by_bio.add(
                        content,
                        Content::Data,
                        self.is_of(row.file_id, row.cause_tid, file),
                        is_known,
                    );
                }
            }
        }
        [
            ("data, by bios", by_bio),
            ("data, by requests", by_request),
            ("metadata", metadata),
            ("journal", journal),
        ]
    }

    /// Whether a request or bio is said to be of the file and of its writer; `None` if that is not known.
    fn is_of(&self, file_id: Option<u32>, cause: Option<u32>, file: &Path) -> Option<bool> {
        let path = file_id.and_then(|id| self.paths.get(&id));
        let name = cause.and_then(|tid| self.names.get(&tid));
        let is_path = path.map(|path| path == file);
        let is_name =
            name.map(|name| file.file_name().is_some_and(|of| of.to_string_lossy().starts_with(&**name)));
        match (is_path, is_name) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

impl Tally {
    /// Counts one sector with `content` instead of `expected`; `verdict` is whether file and process are right.
    fn add(&mut self, content: Content, expected: Content, verdict: Option<bool>, is_cause_known: bool) {
        let place = match verdict {
            _ if content == Content::Unknown => &mut self.unknown,
            _ if content != expected => &mut self.wrong,
            None => &mut self.unknown,
            Some(true) => &mut self.right,
            Some(false) => &mut self.wrong,
        };
        *place += SECTOR_BYTES;
        self.cause_known += if is_cause_known { SECTOR_BYTES } else { 0 };
    }

    fn row(&self, is_data: bool) -> String {
        let total = self.right + self.wrong + self.unknown;
        let share = |part: u64| part as f64 / total as f64;
        let star = |missed: bool| if missed { "*" } else { "" };
        let right = share(self.right);
        if total == 0 {
            return "none | – | – | – | – |".to_owned();
        }
        let low = right < if is_data { DATA_RIGHT } else { REST_RIGHT };
        let wrong = is_data && share(self.wrong) > DATA_WRONG;
        format!(
            "{} KiB | {:.1} %{} | {:.1} %{} | {:.1} % | {:.1} % |",
            total / 1024,
            right * 100.0,
            star(low),
            share(self.wrong) * 100.0,
            star(wrong),
            share(self.unknown) * 100.0,
            share(self.cause_known) * 100.0,
        )
    }
}
