//! Cuts the power of SQLite databases under a sync policy, and of plain files in the same folder. Checks for
//! lost transactions, corruption, and lost contents of the plain files.
//!
//! A program commits transactions, each in two tables, and reports each commit. The test then adds a mark to
//! the device's log before the program continues. If the mark precedes a cut, the transaction was
//! acknowledged, and all writes that it required precede the cut too. At the same time, another process makes
//! the kernel write pages back without a flush, so that at a cut, writes of all files are in doubt.
//!
//! Now and then, the program also appends a line to `data.log`, and replaces `data.conf` by a new file. It syncs
//! both as it should. The rule of the policy covers these files too, but they are no databases, so no class may
//! drop their syncs.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fonio_emulator::{Cut, Emulated, Kind, Log, Options, Tear, after_cuts, scratch};
use fonio_host::Ledger;
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
pub const MODES: [Mode; 9] = [
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
    mode(
        "cache with drop-fsync, rollback journal",
        TRUNCATE,
        Some("class = 'cache'\ndrop-fsync = true"),
        Promise::NeverStale,
    ),
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
    /// Number of cuts that lost an acknowledged change of a plain file, or damaged the file.
    pub plain_lost: u32,
    /// Number of cuts that broke the mode's promise, or lost a synced change of a plain file.
    pub broken: u32,
    /// The cuts that broke a promise, with a message.
    pub failures: Vec<(Cut, String)>,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.cuts += other.cuts;
        self.intact += other.intact;
        self.corrupt += other.corrupt;
        self.removed += other.removed;
        self.plain_lost += other.plain_lost;
        self.broken += other.broken;
        self.lost_most = self.lost_most.max(other.lost_most);
        self.span_ms_most = self.span_ms_most.max(other.span_ms_most);
        self.age_ms_most = self.age_ms_most.max(other.age_ms_most);
        self.failures.extend_from_slice(&other.failures);
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
    /// For each acknowledged change of the plain files: the number of log records up to its mark.
    plain: Vec<usize>,
    state: tempfile::TempDir,
    library: PathBuf,
    mode: Mode,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

impl Recorded {
    /// Records the device's writes while the program runs for `lasting`. Keeps the log in `kept`, if it is set.
    pub fn new(
        mode: Mode,
        library: &Path,
        options: &dyn Fn(&Path) -> Options,
        server: Command,
        (lasting, seed): (Duration, u64),
        disturbed: bool,
        kept: Option<&Path>,
    ) -> Result<Recorded> {
        let state = tempfile::tempdir()?;
        let log = scratch(64 << 20).join(format!("fonio-sync-{}-log", std::process::id()));
        let log = kept.map_or(log, Path::to_owned);
        let mut options = options(&state.path().join("state"));
        options.serve.log = Some(log.clone());
        let _log = kept.is_none().then(|| Removed(log.clone()));
        let mut emulated = Emulated::start(&options, server)?;
        let dir = emulated.mount_dir().ok_or("it is not mounted")?.to_owned();
        let database = dir.join("database");
        let policy = state.path().join("policy.toml");
        fs::write(&policy, rules(mode))?;
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
            if mode.promise == Promise::Nothing { "no sync" } else { "sync" },
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
        let (mut count, mut plain) = (0_u64, 0_u64);
        while begun.elapsed() < lasting {
            let answer = answers.next().ok_or("the writer has ended")??;
            count += 1;
            emulated.mark("ack")?;
            if answer == format!("{count} {}", plain + 1) {
                plain += 1;
                emulated.mark("plain")?;
            } else if answer != format!("{count} {plain}") {
                return Err(format!("the writer reports {answer} instead of {count} {plain}").into());
            }
            writeln!(go_on)?;
        }
        drop(_disturber);
        // Kill the writer, because closing the database would sync it.
        drop(writer);
        emulated.mark("end")?;
        emulated.stop()?;
        Recorded::of(mode, library, &log)
    }

    /// Reads the log of an earlier run.
    pub fn of(mode: Mode, library: &Path, log: &Path) -> Result<Recorded> {
        let log = Log::open(log)?;
        let (mut acknowledged, mut plain) = (Vec::new(), Vec::new());
        for (at, record) in log.records.iter().enumerate() {
            if record.kind == Kind::Mark {
                match log.data(record)?.as_slice() {
                    b"ack" => acknowledged.push((at + 1, Duration::from_nanos(record.time.0))),
                    b"plain" => plain.push(at + 1),
                    _ => {}
                }
            }
        }
        let state = tempfile::tempdir()?;
        fs::write(state.path().join("policy.toml"), rules(mode))?;
        Ok(Recorded { log, acknowledged, plain, state, library: library.to_owned(), mode })
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

    /// Returns the number of acknowledged changes of the plain files.
    pub fn plain_changes(&self) -> usize {
        self.plain.len()
    }

    /// Chooses random moments of the run for power cuts.
    pub fn plan(&self, count: u32, seed: u64) -> Result<Vec<Cut>> {
        let from = self.log.mark("begin")?.ok_or("no mark")?;
        let to = self.log.mark("end")?.ok_or("no mark")?;
        Ok(Cut::plan(from..to, count, seed))
    }

    /// Cuts the power at the given moments, and checks the database and the plain files after each cut. Ends
    /// before the next cut when `stop` returns true.
    pub fn cut(&self, plan: &[Cut], stop: &dyn Fn() -> bool) -> Result<Outcome> {
        let mut ledger = Ledger::open(&self.state.path().join("cuts"))?;
        let place = scratch(self.log.capacity.0);
        let mut outcome = Outcome::default();
        let mut looked = Ok(());
        after_cuts(&mut ledger, &self.log, Tear::Page, &place, plan, &mut |cut, mounted| {
            looked = match mounted {
                Ok(dir) => self.look(&dir.join("database"), cut, &mut outcome),
                Err(why) => {
                    outcome.cuts += 1;
                    outcome.corrupt += 1;
                    outcome.broken += 1;
                    outcome.failures.push((cut, why.to_owned()));
                    Ok(())
                }
            };
            looked.is_ok() && !stop()
        })?;
        looked?;
        ledger.close()?;
        Ok(outcome)
    }

    fn look(&self, database: &Path, cut: Cut, outcome: &mut Outcome) -> Result<()> {
        outcome.cuts += 1;
        let database_broken = self.look_at_database(database, cut, outcome)?;
        // Opening a cache may have removed it. The plain files must remain.
        let plain_broken = self.look_at_plain(database, cut).err();
        outcome.plain_lost += u32::from(plain_broken.is_some());
        let is_promised = self.mode.promise != Promise::Nothing;
        let broken: Vec<String> =
            [database_broken, plain_broken.filter(|_| is_promised)].into_iter().flatten().collect();
        if !broken.is_empty() {
            outcome.broken += 1;
            outcome.failures.push((cut, broken.join("; ")));
        }
        Ok(())
    }

    /// Compares the plain files with the acknowledged changes. One more change may have started.
    fn look_at_plain(&self, database: &Path, cut: Cut) -> std::result::Result<(), String> {
        let acknowledged = self.plain.partition_point(|at| *at <= cut.at);
        let read = |name: &str| match fs::read(database.with_file_name(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|error| format!("{name}: {error}")),
        };
        let conf = String::from_utf8_lossy(&read("data.conf")?).into_owned();
        let allowed = [acknowledged, acknowledged + 1].map(|turn| match turn {
            0 => String::new(),
            _ => format!("turn {turn}\n").repeat(700),
        });
        if !allowed.contains(&conf) {
            let start: String = conf.chars().take(20).collect();
            return Err(format!("data.conf has {} bytes, `{start}`, not turn {acknowledged}", conf.len()));
        }
        let log = read("data.log")?;
        let expected: String =
            (1..=acknowledged).map(|turn| format!("{turn:08} {}\n", "x".repeat(500))).collect();
        if !log.starts_with(expected.as_bytes()) {
            return Err(format!("data.log has {} bytes, not the {acknowledged} synced lines", log.len()));
        }
        Ok(())
    }

    /// Returns the broken promise of the database's class.
    fn look_at_database(&self, database: &Path, cut: Cut, outcome: &mut Outcome) -> Result<Option<String>> {
        let mut broken = None;
        if self.mode.promise == Promise::NeverStale && self.is_removed(database)? {
            outcome.removed += 1;
            return Ok(None);
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
        Ok(broken)
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

/// Returns the policy of a mode. The rule covers the database and the plain files. It has no folder, because
/// the images are mounted elsewhere.
fn rules(mode: Mode) -> String {
    mode.class.map(|class| format!("[[database]]\npath = '/*/data*'\n{class}\n")).unwrap_or_default()
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
