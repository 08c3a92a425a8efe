//! `cargo xtask demo`: the main job, once, on this machine.
//!
//! As root: an ext4 image on a loop device of its own, a real workload on it (SQLite commits beside file writes and
//! cold reads) under `fonio record`, then the report. The image is mounted with `-o loop` at one fixed place, so the
//! kernel frees the loop device with the mount, and a killed demo is undone by the next one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{process, tools};

/// Shipped with the readers' tests; its licence is beside it.
const SHIPPED_TRACE: &str = "crates/fonio-trace/tests/data/takeoverjp-sample.blktrace.0";

const IMAGE_BYTES: u64 = 512 << 20;

/// How long the workload runs.
const WORKLOAD: Duration = Duration::from_secs(12);

/// Builds fonio, records or reads, reports.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(unknown) = arguments.first() {
        bail!("`{unknown}` is not an option; it takes none");
    }
    let root = process::is_root();
    tools::ensure(if root { &[tools::BUILD, tools::DEMO] } else { &[tools::BUILD] })?;
    println!("Building fonio …");
    process::run(process::cargo().args(["build", "--release", "--package", "fonio"]))?;
    let dir = process::scratch("demo")?;
    let report = dir.join("report.html");
    let subject = if root {
        let recording = dir.join("recording");
        record(&dir, &recording)?;
        recording
    } else {
        println!(
            "Recording needs root (`sudo -E cargo xtask demo`). Without it: a block trace of somebody else's machine, {SHIPPED_TRACE}."
        );
        process::root().join(SHIPPED_TRACE)
    };
    println!();
    // The pictures go to a file; the terminal's version of the same is for here and now.
    let mut pictures = Command::new(program());
    process::run(pictures.arg("report").arg(&subject).arg("--html").arg(&report).stdout(Stdio::null()))?;
    process::run(Command::new(program()).arg("report").arg(&subject))?;
    println!("\nThe same with pictures to zoom into: {}", report.display());
    Ok(())
}

fn program() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| process::root().join("target"), PathBuf::from)
        .join("release/fonio")
}

fn record(dir: &Path, recording: &Path) -> Result<()> {
    // Ctrl-C goes to the whole process group: fonio and the workload end, and this process must live to unmount.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot handle signals")?;
    }
    let image = FileSystemImage::mount(dir)?;
    if recording.exists() {
        fs::remove_dir_all(recording).with_context(|| format!("cannot remove {}", recording.display()))?;
    }
    println!("Recording {} s of SQLite commits, file writes and cold reads on ext4 …", WORKLOAD.as_secs());
    let workload = std::env::current_exe().context("cannot find this program's own file")?;
    // Relative paths: the command is the report's title.
    let top = process::root();
    let short = |path: &Path| path.strip_prefix(top).unwrap_or(path).to_owned();
    let outcome = process::run(
        Command::new(program())
            .current_dir(top)
            .arg("record")
            .arg("--path")
            .arg(&image.mount_point)
            .arg("--out")
            .arg(recording)
            .arg("--")
            .arg(short(&workload))
            .arg("demo-workload")
            .arg(short(&image.mount_point)),
    );
    drop(image);
    outcome
}

/// A mounted ext4 image; dropped, it is unmounted and removed.
struct FileSystemImage {
    image: PathBuf,
    mount_point: PathBuf,
}

impl FileSystemImage {
    fn mount(dir: &Path) -> Result<FileSystemImage> {
        let this = FileSystemImage { image: dir.join("ext4.img"), mount_point: dir.join("mount") };
        fs::create_dir_all(&this.mount_point)?;
        if this.is_mounted()? {
            println!("Unmounting what an earlier demo left behind.");
            process::run(Command::new("umount").arg(&this.mount_point))?;
        }
        File::create(&this.image)
            .and_then(|file| file.set_len(IMAGE_BYTES))
            .with_context(|| format!("cannot make {}", this.image.display()))?;
        // The defaults would put megabytes of lazy initialisation into the first seconds of the recording.
        process::run(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
                .arg(&this.image),
        )?;
        process::run(Command::new("mount").args(["-o", "loop"]).arg(&this.image).arg(&this.mount_point))?;
        Ok(this)
    }

    fn is_mounted(&self) -> Result<bool> {
        let place = self.mount_point.canonicalize()?;
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
        Ok(mounts.lines().any(|line| line.split(' ').nth(1) == place.to_str()))
    }
}

impl Drop for FileSystemImage {
    fn drop(&mut self) {
        if self.is_mounted().unwrap_or(false)
            && let Err(error) = process::run(Command::new("umount").arg(&self.mount_point))
        {
            eprintln!("{error:#}; run `umount {}`", self.mount_point.display());
            return;
        }
        // Already gone is fine.
        let _ = fs::remove_file(&self.image);
    }
}

/// `cargo xtask demo-workload DIR`: what an app with a database, a cache and a few large files does.
pub fn workload(arguments: &[String]) -> Result<()> {
    let [dir] = arguments else { bail!("it takes one folder") };
    let dir = PathBuf::from(dir);
    let cache = dir.join("cache");
    fs::create_dir_all(&cache)?;
    let cold = dir.join("cold.bin");
    write_file(&cold, 48 << 20, true)?;
    // Out of the page cache with this file, and with no other: dd has the call for it.
    let mut forget = Command::new("dd");
    forget.arg(format!("of={}", cold.display())).args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
    process::run(forget.arg("status=none"))?;
    let mut database = Database::open(&dir.join("app.db"))?;
    let began = Instant::now();
    let mut step = 0_u64;
    let mut reader = File::open(&cold).context("cannot open the file just written")?;
    let mut page = vec![0; 256 << 10];
    while began.elapsed() < WORKLOAD {
        step += 1;
        database.commit(step)?;
        if step.is_multiple_of(5) {
            write_file(&cache.join(format!("{:04}.jpg", step % 400)), 60 << 10, false)?;
        }
        if step.is_multiple_of(40) {
            write_file(&dir.join(format!("photo-{:02}.jpg", step / 40 % 16)), 3 << 20, true)?;
        }
        if step.is_multiple_of(8) && reader.read(&mut page)? == 0 {
            reader = File::open(&cold)?;
        }
        std::thread::sleep(Duration::from_millis(8));
    }
    database.close()
}

fn write_file(path: &Path, bytes: usize, durable: bool) -> Result<()> {
    // Not zeroes: some devices and file systems make those cheaper than data.
    let mut state = bytes as u64;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    })
    .take(bytes)
    .collect();
    let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(&data)?;
    if durable {
        file.sync_all()?;
    }
    Ok(())
}

/// The sqlite3 shell, fed one transaction at a time: a real SQLite with its default rollback journal.
struct Database {
    shell: std::process::Child,
}

impl Database {
    fn open(path: &Path) -> Result<Database> {
        let shell = Command::new("sqlite3")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start sqlite3")?;
        let mut database = Database { shell };
        database.send(
            "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL;
             CREATE TABLE message(id INTEGER PRIMARY KEY, body TEXT, sent INTEGER);
             CREATE INDEX message_by_time ON message(sent);\n",
        )?;
        Ok(database)
    }

    fn send(&mut self, sql: &str) -> Result<()> {
        let input = self.shell.stdin.as_mut().context("sqlite3 has no input any more")?;
        input.write_all(sql.as_bytes()).and_then(|()| input.flush()).context("sqlite3 ended early")
    }

    fn commit(&mut self, step: u64) -> Result<()> {
        let body = "x".repeat(100 + (step % 7) as usize * 60);
        self.send(&format!(
            "BEGIN; INSERT INTO message(body, sent) VALUES('{body}', {}); UPDATE message SET sent = sent + 1 WHERE id = {}; COMMIT;\n",
            step * 7919 % 100_003,
            step / 2 + 1,
        ))
    }

    fn close(mut self) -> Result<()> {
        drop(self.shell.stdin.take());
        let status = self.shell.wait()?;
        if !status.success() {
            bail!("sqlite3 failed: {status}");
        }
        Ok(())
    }
}
