//! `cargo studies receipt`: compares the costs of SQLite transactions, as reported by fonio, with a published
//! table.
//!
//! Each row uses a new file system on a loop device without FUA. `fonio record --calls -- sqlite3 …` records
//! transactions of one small insert, and the receipt in fonio's report is compared with the table. The
//! numbers do not depend on fonio's speed, so a debug build is used.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
use serde::Deserialize;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::{asked, process};

const PUBLISHED: &str = include_str!("../../published.toml");
/// The size of a device, and the size of a device with fragmented free space. The device with fragmented
/// space is small, so it is filled quickly.
const DEVICE_BYTES: u64 = 512 << 20;
const FRAGMENTED_BYTES: u64 = 128 << 20;
const PIECE_BYTES: usize = 64 << 10;
/// A row agrees up to this absolute difference of a mean count, and up to this relative difference of the
/// KiB.
const MEAN_DIFFERENCE: f64 = 0.05;
const KIB_DIFFERENCE: f64 = 0.1;

/// The part of the published figures that this study uses.
#[derive(Debug, Deserialize)]
struct Published {
    sqlite_receipt: Receipts,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipts {
    transactions: u64,
    row: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    fs: String,
    journal: String,
    synchronous: String,
    autocheckpoint: Option<u64>,
    #[serde(default)]
    whole: bool,
    writes: f64,
    flushes: f64,
    kib: f64,
    explained: Option<Condition>,
}

/// A condition under which a row that differs is measured again. It was chosen after the difference was seen.
/// So it can explain the difference, but the row does not count as agreeing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    transactions: Option<u64>,
    #[serde(default)]
    fragmented: bool,
    #[serde(default)]
    killed: bool,
    because: String,
}

/// The costs of a transaction as reported by fonio.
#[derive(Debug)]
struct Said {
    transactions: u64,
    /// The mean numbers of writes, flushes and KiB.
    mean: [f64; 3],
    /// The most frequent numbers of writes and flushes, and the number of transactions with these numbers.
    usual: (f64, f64, u64),
}

#[derive(Args)]
pub struct Arguments {
    /// Measure the rows whose names contain one of the words (default: all).
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// Measures the rows whose names contain one of the words, or all rows.
pub fn run(Arguments { words }: &Arguments) -> Result<()> {
    let published: Published = toml::from_str(PUBLISHED).context("published.toml cannot be read")?;
    let published = published.sqlite_receipt;
    let chosen: Vec<&Row> = (published.row.iter())
        .filter(|row| words.is_empty() || words.iter().any(|word| row.name().contains(word.as_str())))
        .collect();
    ensure!(!chosen.is_empty(), "no row's name contains {}", words.join(" or "));
    ensure!(process::is_root(), "loop devices need root: run it with sudo");
    for program in ["sqlite3", "mkfs.ext4", "mkfs.xfs"] {
        let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(found.is_ok(), "{program} is not installed; its Debian package is {}", package(program));
    }
    process::run(process::cargo().args(["build", "--package", "fonio"]))?;
    let fonio = process::target().join("debug/fonio");
    process::outlive_signals()?;
    let scratch = process::scratch("receipt")?;
    println!(
        "Writes and flushes for each of {} transactions of one insert: published, ours (most frequent, mean), and the verdict.\n",
        published.transactions
    );
    let columns = ["mode", "published", "most frequent", "mean", "KiB published", "KiB ours", "verdict"];
    let title = "writes + flushes for each SQLite transaction, compared with a published table";
    let mut result = StudyResult::begin("receipt", title, "cargo studies receipt", &columns)?;
    let (mut agreeing, mut differing, mut explained) = (0, 0, 0);
    for row in chosen {
        process::check_signals()?;
        let stated = Condition::default();
        let said =
            row.measure(&fonio, &scratch, published.transactions, &stated).with_context(|| row.name())?;
        let agrees = row.agrees(&said);
        result.row(row.name(), row.cells(&said, agrees));
        *(if agrees { &mut agreeing } else { &mut differing }) += 1;
        let Some(condition) = row.explained.as_ref().filter(|_| !agrees) else { continue };
        let transactions = condition.transactions.unwrap_or(published.transactions);
        let said = row.measure(&fonio, &scratch, transactions, condition).with_context(|| row.name())?;
        let agrees = row.agrees(&said);
        let name = format!("– where {}", condition.because);
        result.row(name, row.cells(&said, agrees));
        explained += u32::from(agrees);
    }
    result.keep(words.is_empty())?;
    println!("\n{agreeing} rows agree, {differing} differ.");
    if explained > 0 {
        println!(
            "{explained} of the differing rows agree under a condition that the table does not state. The \
             conditions were found after the differences."
        );
    }
    Ok(())
}

fn package(program: &str) -> &str {
    match program {
        "mkfs.ext4" => "e2fsprogs",
        "mkfs.xfs" => "xfsprogs",
        other => other,
    }
}

impl Row {
    fn name(&self) -> String {
        let checkpoint = match self.autocheckpoint {
            Some(0) => ", growing".to_owned(),
            Some(pages) => format!(", autocheckpoint {pages}"),
            None => String::new(),
        };
        format!("{} {} {}{checkpoint}", self.fs, self.journal, self.synchronous)
    }

    fn agrees(&self, said: &Said) -> bool {
        let [writes, flushes, kib] = said.mean;
        let counts = if self.whole {
            let (writes, flushes, _) = said.usual;
            writes == self.writes && flushes == self.flushes
        } else {
            let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= MEAN_DIFFERENCE;
            near(writes, self.writes) && near(flushes, self.flushes)
        };
        counts && (kib - self.kib).abs() <= KIB_DIFFERENCE * self.kib
    }

    fn cells(&self, said: &Said, agrees: bool) -> Vec<Cell> {
        let ([mean_writes, mean_flushes, kib], (writes, flushes, count)) = (said.mean, said.usual);
        vec![
            format!("{} + {}", self.writes, self.flushes).into(),
            format!("{writes} + {flushes} ({count} of {})", said.transactions).into(),
            format!("{mean_writes:.2} + {mean_flushes:.2}").into(),
            Cell::once(self.kib, "", 0),
            Cell::once(kib, "", 1),
            (if agrees { "agrees" } else { "**differs**" }).into(),
        ]
    }

    fn measure(&self, fonio: &Path, scratch: &Path, transactions: u64, under: &Condition) -> Result<Said> {
        let place = tempfile::tempdir_in(scratch).context("cannot make a folder")?;
        let image = place.path().join("image");
        let bytes = if under.fragmented { FRAGMENTED_BYTES } else { DEVICE_BYTES };
        File::create(&image)?.set_len(bytes)?;
        let file_system = match self.fs.as_str() {
            "ext4" => Filesystem::Ext4,
            "xfs" => Filesystem::Xfs,
            other => bail!("`{other}` is not a file system of this study"),
        };
        // Closing the ledger undoes the changes recorded in it. If this process is killed, the next run
        // undoes them.
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default())?;
        file_system.make(device.path())?;
        let (dir, _) = fonio_host::mount(&mut ledger, device.path(), file_system, None, "")?;
        if under.fragmented {
            fragment(&dir)?;
        }
        let said = self.record(fonio, (place.path(), device.path(), &dir), transactions, under.killed);
        ledger.close()?;
        said
    }

    fn record(
        &self,
        fonio: &Path,
        (place, device, dir): (&Path, &Path, &Path),
        transactions: u64,
        killed: bool,
    ) -> Result<Said> {
        let database = dir.join("notes.db");
        // In a rollback mode, the first recorded transaction creates the journal file.
        let mode = if self.journal == "WAL" { "WAL" } else { "DELETE" };
        let prepare =
            format!("PRAGMA journal_mode={mode}; CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT);");
        process::run(Command::new("sqlite3").arg(&database).arg(prepare).stdout(Stdio::null()))?;
        process::run(Command::new("sync").arg("-f").arg(dir))?;
        let mut script =
            format!("PRAGMA journal_mode={};\nPRAGMA synchronous={};\n", self.journal, self.synchronous);
        if let Some(pages) = self.autocheckpoint {
            writeln!(script, "PRAGMA wal_autocheckpoint={pages};")?;
        }
        for number in 0..transactions {
            writeln!(script, "INSERT INTO notes(body) VALUES('{number:06}{}');", "x".repeat(100))?;
        }
        if killed {
            script.push_str(".shell kill -9 $PPID\n");
        }
        let (script_path, recording) = (place.join("script.sql"), place.join("recording"));
        fs::write(&script_path, script)?;
        let recorded = Command::new(fonio)
            .args(["record", "--calls", "--device"])
            .arg(device)
            .arg("--output")
            .arg(&recording)
            .args(["--", "sqlite3"])
            .arg(&database)
            .arg(format!(".read {}", script_path.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .context("cannot start fonio record")?;
        let complaint = String::from_utf8_lossy(&recorded.stderr);
        ensure!(recorded.status.success() != killed, "fonio record failed: {complaint}");
        let report = asked::report(fonio, &recording)?;
        Said::read(&report["analysis"]["sqlite"], transactions)
            .with_context(|| format!("fonio record said: {complaint}"))
    }
}

impl Said {
    fn read(sqlite: &Value, expected: u64) -> Result<Said> {
        ensure!(sqlite["is_complete"] == true, "the recording is not complete, or has no calls");
        let receipt = &sqlite["all"];
        let transactions = receipt["transactions"].as_u64().unwrap_or(0);
        ensure!(transactions == expected, "fonio counted {transactions} transactions instead of {expected}");
        let number =
            |of: &Value, name: &str| of[name].as_f64().with_context(|| format!("the receipt has no {name}"));
        let (mean, usual) = (&receipt["mean"], &receipt["usual"]);
        Ok(Said {
            transactions,
            mean: [number(mean, "writes")?, number(mean, "flushes")?, number(mean, "bytes")? / 1024.0],
            usual: (
                number(usual, "writes")?,
                number(usual, "flushes")?,
                usual["transactions"].as_u64().unwrap_or(0),
            ),
        })
    }
}

/// Fragments the free space: fills the file system with files, and deletes every second file.
fn fragment(dir: &Path) -> Result<()> {
    let folder = dir.join("files");
    fs::create_dir(&folder)?;
    let mut made: Vec<PathBuf> = Vec::new();
    loop {
        let path = folder.join(made.len().to_string());
        match fs::write(&path, vec![0; PIECE_BYTES]) {
            Ok(()) => made.push(path),
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(error.into()),
        }
    }
    process::run(Command::new("sync").arg("-f").arg(dir))?;
    for path in made.iter().step_by(2) {
        fs::remove_file(path)?;
    }
    process::run(Command::new("sync").arg("-f").arg(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(whole: bool, writes: f64, flushes: f64, kib: f64) -> Row {
        let published = toml::from_str::<Published>(PUBLISHED).unwrap().sqlite_receipt;
        Row { whole, writes, flushes, kib, ..published.row.into_iter().next().unwrap() }
    }

    #[test]
    fn each_row_is_there_once() {
        let published = toml::from_str::<Published>(PUBLISHED).unwrap().sqlite_receipt;
        let names: std::collections::BTreeSet<String> = published.row.iter().map(Row::name).collect();
        assert_eq!(names.len(), published.row.len());
        assert!(
            published.row.iter().all(|row| row.explained.as_ref().is_none_or(|by| !by.because.is_empty()))
        );
    }

    #[test]
    fn whole_numbers_agree_exactly_and_means_nearly() {
        let said = Said { transactions: 1000, mean: [6.03, 4.03, 57.4], usual: (6.0, 4.0, 930) };
        for (row, agrees) in [
            (row(true, 6.0, 4.0, 57.0), true),
            (row(true, 6.0, 4.0, 63.0), true),
            (row(true, 6.0, 4.0, 64.0), false),
            (row(true, 6.0, 5.0, 57.0), false),
            (row(false, 6.0, 4.0, 57.0), true),
            (row(false, 5.97, 4.0, 57.0), false),
        ] {
            assert_eq!(row.agrees(&said), agrees, "{row:?}");
        }
    }

    #[test]
    fn a_receipt_that_cannot_be_trusted_is_an_error() {
        let mut sqlite = serde_json::json!({
            "is_complete": true,
            "all": {
                "transactions": 3,
                "mean": { "writes": 1.5, "flushes": 1.0, "bytes": 2048.0 },
                "usual": { "writes": 1, "flushes": 1, "transactions": 2 },
            },
        });
        let said = Said::read(&sqlite, 3).unwrap();
        assert_eq!((said.mean, said.usual), ([1.5, 1.0, 2.0], (1.0, 1.0, 2)));
        assert!(Said::read(&sqlite, 4).is_err());
        sqlite["is_complete"] = false.into();
        assert!(Said::read(&sqlite, 3).is_err());
        assert!(Said::read(&Value::Null, 3).is_err());
    }
}
