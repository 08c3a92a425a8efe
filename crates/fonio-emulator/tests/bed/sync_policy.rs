//! Cuts the power of SQLite databases under a sync policy, and checks for lost transactions and corruption.
//!
//! A program commits transactions, each in two tables, and reports each commit. The test then adds a mark to
//! the device's log before the program continues. If the mark precedes a cut, the transaction was
//! acknowledged, and all writes that it required precede the cut too. At the same time, another process makes
//! the kernel write pages back without a flush, so that at a cut, writes of all files are in doubt.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fonio_emulator::{Cut, CutImages, Emulated, Kind, Log, Options, Tear, scratch};
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions, Step};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Name of the mode in tables.
    pub name: &'static str,
    /// Journal mode of the database, which the program also requests.
    pub journal: &'static str,
    /// Level of SQLite's `synchronous` that the program requests.
    pub synchronous: &'static str,
    /// Number of pages in the write-ahead log after which SQLite copies the pages into the database.
    pub checkpoint: u32,
    /// Class of the database in the sync policy; `None` if the program runs without the library.
    pub class: Option<&'static str>,
    pub promise: Promise,
}

/// What a mode promises to preserve in a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A power cut loses no acknowledged transaction.
    Durable,
    /// The database is intact, and all lost transactions were acknowledged within a window of this length.
    Within(Duration),
    /// Either there is no database, or the database has every acknowledged transaction.
    NeverStale,
    /// The mode promises nothing, and shows that the cuts can corrupt a database.
    Nothing,
}

const fn mode(
    name: &'static str,
    (journal, synchronous, checkpoint): (&'static str, &'static str, u32),
    class: Option<&'static str>,
    promise: Promise,
) -> Mode {
    Mode { name, journal, synchronous, checkpoint, class, promise }
}

/// With few pages per checkpoint, power cuts hit many checkpoints. With SQLite's default, cuts hit the end of
/// a window more often.
const WAL: (&str, &str, u32) = ("wal", "FULL", 60);
const LONG_WAL: (&str, &str, u32) = ("wal", "FULL", 1000);
const TRUNCATE: (&str, &str, u32) = ("truncate", "FULL", 0);

/// All modes, beginning with the mode without a promise.
pub const MODES: [Mode; 8] = [
    mode("synchronous=OFF, without the library", ("truncate", "OFF", 0), None, Promise::Nothing),
    mode("durable, write-ahead log", WAL, Some("class = 'durable'"), Promise::Durable),
    mode("durable, rollback journal", TRUNCATE, Some("class = 'durable'"), Promise::Durable),
    mode(
        "ordered, 50 ms",
        WAL,
        Some("class = 'ordered'\nwindow-ms = 50"),
        Promise::Within(Duration::from_millis(50)),
    ),
    mode(
        "ordered, 500 ms",
        LONG_WAL,
        Some("class = 'ordered'\nwindow-ms = 500"),
        Promise::Within(Duration::from_millis(500)),
    ),
    mode("ordered, rollback journal (stays durable)", TRUNCATE, Some("class = 'ordered'"), Promise::Durable),
    mode("cache, write-ahead log", WAL, Some("class = 'cache'"), Promise::NeverStale),
    mode("cache, rollback journal", TRUNCATE, Some("class = 'cache'"), Promise::NeverStale),
];

/// Counts the results of power cuts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub cuts: u32,
    /// Number of cuts that left an intact database.
    pub intact: u32,
    /// Number of cuts that left a damaged database or half of a transaction.
    pub corrupt: u32,
    /// Number of cuts after which the first open removed the database.
    pub removed: u32,
    /// Maximum number of acknowledged transactions missing in an intact database.
    pub lost_most: u64,
    /// Maximum time from the first to the last missing transaction, in milliseconds.
    pub span_ms_most: f64,
    /// Maximum time from the first missing transaction to the cut, in milliseconds.
    pub age_ms_most: f64,
    /// Number of cuts that broke the mode's promise.
    pub broken: u32,
    /// Message of the first error.
    pub example: Option<String>,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.cuts += other.cuts;
        self.intact += other.intact;
        self.corrupt += other.corrupt;
        self.removed += other.removed;
        self.broken += other.broken;
        self.lost_most = self.lost_most.max(other.lost_most);
        self.span_ms_most = self.span_ms_most.max(other.span_ms_most);
        self.age_ms_most = self.age_ms_most.max(other.age_ms_most);
        self.example = self.example.take().or_else(|| other.example.clone());
    }
}

const PREPARE: &str = "
    CREATE TABLE left_side(id INTEGER PRIMARY KEY, turn INTEGER, filling BLOB);
    CREATE TABLE right_side(id INTEGER PRIMARY KEY, turn INTEGER, filling BLOB);
    CREATE TABLE done(turn INTEGER PRIMARY KEY);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
    INSERT INTO left_side SELECT i, 0, randomblob(1800) FROM n;
    INSERT INTO right_side SELECT * FROM left_side;
";

/// A program that commits transactions until its standard input ends, and prints each transaction's number
/// after its commit. Checkpoints are frequent, so that power cuts hit some of them.
const WRITER: &str = include_str!("writer.py");

/// A program that makes the kernel write pages back now and then without a flush, with POSIX_FADV_DONTNEED.
/// The program runs as a separate process, because closing a file would drop SQLite's locks on the file.
const DISTURBER: &str = include_str!("disturber.py");

const CHECK: &str = "
    PRAGMA integrity_check;
    SELECT count(*) FROM left_side JOIN right_side USING (id) WHERE left_side.turn <> right_side.turn;
    SELECT count(*) FROM done;
    SELECT coalesce(max(turn), 0) FROM done;
";

/// A database on an emulated device, and the log of the device's writes.
pub struct Recorded {
    log: Log,
    /// For each acknowledged transaction: the number of log records up to its mark, and the time of the mark.
    acknowledged: Vec<(usize, Duration)>,
    state: tempfile::TempDir,
    library: PathBuf,
    mode: Mode,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

impl Recorded {
    /// Records the device's writes while the program runs for `lasting`.
    pub fn new(
        mode: Mode,
        library: &Path,
        options: &dyn Fn(&Path) -> Options,
        server: Command,
        (lasting, seed): (Duration, u64),
        disturbed: bool,
    ) -> Result<Recorded> {
        let state = tempfile::tempdir()?;
        let log = scratch(64 << 20).join(format!("fonio-sync-{}-log", std::process::id()));
        let mut options = options(&state.path().join("state"));
        options.serve.log = Some(log.clone());
        let _log = Removed(log.clone());
        let mut emulated = Emulated::start(&options, server)?;
        let dir = emulated.mount_dir().ok_or("it is not mounted")?.to_owned();
        let database = dir.join("database");
        // Match only the file name: the images are mounted elsewhere.
        let policy = state.path().join("policy.toml");
        let rule = mode.class.map(|class| format!("[[database]]\npath = '/*/database'\n{class}\n"));
        fs::write(&policy, rule.unwrap_or_default())?;
        let prepared = Command::new("sqlite3")
            .arg(&database)
            .arg(format!("PRAGMA journal_mode={};{PREPARE}", mode.journal))
            .output()?;
        if !prepared.status.success() {
            return Err(format!("cannot prepare: {prepared:?}").into());
        }
        rustix::fs::syncfs(fs::File::open(&dir)?)?;
        let mut writer = Command::new("/usr/bin/python3");
        writer.args(["-c", WRITER]).arg(&database).args([
            mode.journal,
            mode.synchronous,
            &mode.checkpoint.to_string(),
        ]);
        if mode.class.is_some() {
            writer.env("LD_PRELOAD", library).env("FONIO_SYNC_POLICY", &policy);
        }
        let mut writer = Running(writer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let _disturber = if disturbed {
            let mut disturber = Command::new("/usr/bin/python3");
            disturber.args(["-c", DISTURBER]).arg(&database).arg(seed.to_string());
            Some(Running(disturber.spawn()?))
        } else {
            None
        };
        let mut answers = BufReader::new(writer.0.stdout.take().ok_or("no output")?).lines();
        let mut go_on = writer.0.stdin.take().ok_or("no input")?;
        let begun = std::time::Instant::now();
        emulated.mark("begin")?;
        let mut count = 0u64;
        while begun.elapsed() < lasting {
            let answer = answers.next().ok_or("the writer has ended")??;
            count += 1;
            if answer != count.to_string() {
                return Err(format!("the writer reports {answer} instead of {count}").into());
            }
            emulated.mark("ack")?;
            writeln!(go_on)?;
        }
        drop(_disturber);
        // Kill the writer, because closing the database would sync it.
        drop(writer);
        emulated.mark("end")?;
        emulated.stop()?;
        let log = Log::open(&log)?;
        let mut acknowledged = Vec::new();
        for (at, record) in log.records.iter().enumerate() {
            if record.kind == Kind::Mark && log.data(record)? == b"ack" {
                acknowledged.push((at + 1, Duration::from_nanos(record.time.0)));
            }
        }
        Ok(Recorded { log, acknowledged, state, library: library.to_owned(), mode })
    }

    /// Returns the mean number of writes, flushes and bytes per transaction.
    pub fn costs(&self) -> Result<[f64; 3]> {
        let from = self.log.mark("begin")?.unwrap_or(0);
        let to = self.log.mark("end")?.unwrap_or(self.log.records.len());
        let mut costs = [0.0; 3];
        for record in &self.log.records[from..to] {
            match record.kind {
                Kind::Write => {
                    costs[0] += 1.0;
                    costs[2] += record.bytes as f64;
                }
                Kind::Flush => costs[1] += 1.0,
                _ => {}
            }
        }
        Ok(costs.map(|cost| cost / self.acknowledged.len().max(1) as f64))
    }

    pub fn transactions(&self) -> usize {
        self.acknowledged.len()
    }

    /// Cuts the power at random moments and checks the database after each cut.
    pub fn cut(&self, count: u32, seed: u64, stop: &dyn Fn() -> bool) -> Result<Option<Outcome>> {
        let from = self.log.mark("begin")?.ok_or("no mark")?;
        let to = self.log.mark("end")?.ok_or("no mark")?;
        let mut ledger = Ledger::open(&self.state.path().join("cuts"))?;
        let place = fonio_host::private_folder(&mut ledger, &scratch(self.log.capacity.0))?;
        let base = place.join(format!("fonio-{}-base", std::process::id()));
        let image = place.join(format!("fonio-{}-cut", std::process::id()));
        let base_entry = ledger.begin(Step::File { path: base.clone() })?;
        let mut images = CutImages::new(&self.log, Tear::Page, &base)?;
        let mut outcome = Outcome::default();
        let mut stopped = false;
        for cut in Cut::plan(from..to, count, seed) {
            if stop() {
                stopped = true;
                break;
            }
            let entry = ledger.begin(Step::File { path: image.clone() })?;
            images.make(cut, &image)?;
            let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default())?;
            let (dir, mount) = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "")?;
            self.look(&dir.join("database"), cut, &mut outcome)?;
            ledger.undo(mount)?;
            device.detach(&mut ledger)?;
            ledger.undo(entry)?;
        }
        ledger.undo(base_entry)?;
        ledger.close()?;
        Ok((!stopped).then_some(outcome))
    }

    fn look(&self, database: &Path, cut: Cut, outcome: &mut Outcome) -> Result<()> {
        outcome.cuts += 1;
        let mut broken = None;
        if self.mode.promise == Promise::NeverStale && self.is_removed(database)? {
            outcome.removed += 1;
            return Ok(());
        }
        let out = Command::new("sqlite3").arg(database).arg(CHECK).output()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        let acknowledged: Vec<Duration> =
            (self.acknowledged.iter()).take_while(|(at, _)| *at <= cut.at).map(|(_, time)| *time).collect();
        match lines[..] {
            ["ok", "0", count, last] if count == last => {
                outcome.intact += 1;
                let last: usize = last.parse()?;
                let lost = &acknowledged[last.min(acknowledged.len())..];
                if let [first, .., end] | [first @ end] = lost {
                    let now = self.log.records[cut.at - 1].time.0;
                    let span = end.saturating_sub(*first);
                    let age = Duration::from_nanos(now).saturating_sub(*first);
                    outcome.lost_most = outcome.lost_most.max(lost.len() as u64);
                    outcome.span_ms_most = outcome.span_ms_most.max(span.as_secs_f64() * 1e3);
                    outcome.age_ms_most = outcome.age_ms_most.max(age.as_secs_f64() * 1e3);
                    let is_broken = match self.mode.promise {
                        Promise::Durable | Promise::NeverStale => true,
                        Promise::Within(window) => span > window,
                        Promise::Nothing => false,
                    };
                    if is_broken {
                        broken = Some(format!("{} transactions within {span:?} are lost", lost.len()));
                    }
                }
            }
            _ => {
                outcome.corrupt += 1;
                let mut why = said.trim().to_owned();
                let _ = write!(why, " {}", String::from_utf8_lossy(&out.stderr).trim());
                if self.mode.promise != Promise::Nothing {
                    broken = Some(why);
                }
            }
        }
        if let Some(why) = broken {
            outcome.broken += 1;
            outcome.example.get_or_insert_with(|| format!("record {}, seed {}: {why}", cut.at, cut.seed));
        }
        Ok(())
    }

    /// Opens the database with the library under another boot ID, and returns whether the library removed the
    /// database.
    fn is_removed(&self, database: &Path) -> Result<bool> {
        let boot = self.state.path().join("boot");
        fs::write(&boot, "11111111-1111-1111-1111-111111111111\n")?;
        let script = r#"mount --bind "$BOOT" /proc/sys/kernel/random/boot_id &&
            LD_PRELOAD="$LIBRARY" sqlite3 "$DATABASE" "SELECT count(*) FROM sqlite_schema""#;
        let out = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .env("BOOT", &boot)
            .env("LIBRARY", &self.library)
            .env("DATABASE", database)
            .env("FONIO_SYNC_POLICY", self.state.path().join("policy.toml"))
            .output()?;
        match String::from_utf8_lossy(&out.stdout).trim() {
            "0" => Ok(true),
            "3" => Ok(false),
            _ => Err(format!("cannot read the cache database: {out:?}").into()),
        }
    }
}

/// A child that is killed when this value is dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file that is removed when this value is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
