//! The paths of three small programs with an SQLite database, in Python, JavaScript and Go, on an emulated card.
//!
//! The program commits once per item. Its author types one command, and wants to know what a write-ahead log gains
//! and what it costs. The truth is measured without fonio: the program's time outside of the processor, and its time
//! with and without a write-ahead log.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xtask::emulated::{Emulated, Options};

use super::state::State;
use super::typed::{Person, here};
use super::{Answer, Outcome, Walk, wrong};
use crate::{process, tools};

const CARD: &str = "sd_a1";
const ITEMS: u32 = 100;
/// Number of runs of the program by hand, with and without a write-ahead log each.
const BY_HAND: usize = 3;
const TOOLS: &[tools::Tool] = &[("sqlite3", "sqlite3", "the truth about a write-ahead log")];
/// The folder of the results of `fonio fix prove` in fonio's own state.
const RESULTS: [&str; 1] = ["proofs"];
/// The prices that fonio names.
const LOSES_NOTHING: &str = "A power cut loses no more data than without the fix";
const LOSES_LAST: &str = "A power cut can lose the last transactions";
/// The folders in which fonio keeps its own state.
pub const OWN: [&str; 2] = ["/var/lib/fonio", "/etc/fonio"];

/// A small program with a database.
pub struct App {
    /// The program's files and their contents.
    files: &'static [(&'static str, &'static str)],
    /// The command of the program.
    command: &'static str,
    /// The name of its process.
    process: &'static str,
    database: &'static str,
    /// The file that the program reads, and one line of it for an item.
    input: &'static str,
    item: fn(u32) -> String,
    /// Makes what the program needs besides its files, in a folder that later runs use again. Fails if this
    /// machine lacks something.
    needs: fn(&Path) -> Result<Vec<PathBuf>>,
}

pub static PYTHON: App = App {
    files: &[("notes.py", include_str!("apps/notes.py"))],
    command: "python3 notes.py",
    process: "python3",
    database: "notes.db",
    input: "inbox.txt",
    item: |number| format!("Note {number}: a text of about one line, as people write it in a hurry"),
    needs: |_| {
        process::output(Command::new("python3").args(["-c", "import sqlite3"]))?;
        Ok(Vec::new())
    },
};

pub static NODE: App = App {
    files: &[("orders.js", include_str!("apps/orders.js"))],
    command: "node orders.js",
    process: "node",
    database: "shop.db",
    input: "orders.csv",
    item: |number| format!("customer {},item {},{}", number % 17, number % 5, 1 + number % 3),
    needs: |folder| {
        let modules = folder.join("node_modules");
        if !modules.join("better-sqlite3/build/Release/better_sqlite3.node").exists() {
            println!("  Building better-sqlite3 in {}", folder.display());
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "better-sqlite3@12.11.1"]).current_dir(folder);
            process::output(npm.stdin(Stdio::null()))?;
        }
        Ok(vec![modules])
    },
};

pub static GO: App = App {
    files: &[("readings.go", include_str!("apps/readings.go"))],
    command: "./readings",
    process: "readings",
    database: "readings.db",
    input: "readings.csv",
    item: |number| format!("2026-11-01T10:{:02},sensor {},{}.5", number % 60, number % 4, 15 + number % 9),
    needs: |folder| {
        let program = folder.join("readings");
        fs::write(folder.join("readings.go"), include_str!("apps/readings.go"))?;
        build_go(folder, "modernc.org/sqlite@v1.34.4", &program)?;
        Ok(vec![program])
    },
};

/// Builds the Go program in a folder, with one module that Go's client fetches.
pub fn build_go(folder: &Path, module: &str, program: &Path) -> Result<()> {
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        process::output(command.args(words).current_dir(folder).stdin(Stdio::null()))
    };
    if !folder.join("go.mod").exists() {
        go(&["mod", "init", "stranger"])?;
    }
    go(&["get", module])?;
    go(&["mod", "tidy"])?;
    go(&["build", "-o", &program.to_string_lossy(), "."])?;
    Ok(())
}

impl App {
    pub fn walk(&self, walk: &Walk<'_>) -> Result<Outcome> {
        tools::ensure(&[TOOLS])?;
        let needs = match (self.needs)(&walk.folder("needs")?) {
            Ok(needs) => needs,
            Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
        };
        let card = walk.folder("card")?;
        let options = Options { mounted: Some(("ext4", &card)), ..Options::bare(CARD, "512MiB") };
        let emulated = Emulated::start(walk.fonio, &options)?;
        let walked = self.walk_on(walk, &emulated.device, &card, &needs);
        drop(emulated);
        Ok(Outcome::Walked(walked?))
    }

    fn walk_on(
        &self,
        walk: &Walk<'_>,
        device: &str,
        card: &Path,
        needs: &[PathBuf],
    ) -> Result<super::Walked> {
        let folder = card.join("app");
        self.install(&folder, needs)?;
        let folders = [folder.as_path(), Path::new(OWN[0]), Path::new(OWN[1])];
        let before = State::of(&folders)?.without(&RESULTS);

        let mut person = Person::new(|line: &str| here(line, &folder, walk.programs));
        let mut said = person.types(&format!("fonio fix prove wal-full -- {}", self.command))?;
        if Gain::of(&said.flowing()).is_none_or(|gain| gain.low <= 1.0)
            && let Some(rounds) = rounds_advised(&said.flowing())
        {
            // A person who was told that nothing was shown, and how many rounds are needed, runs these.
            said = person.types(&format!("fonio fix prove wal-full --runs {rounds} -- {}", self.command))?;
        }
        let proven = person.passed();
        let (typed, words) = (person.typed, person.words);
        drop(person);

        let after = State::of(&folders)?.without(&RESULTS);
        let mut as_before = before.difference(&after).map_or(Ok(()), Err);
        if fs::read_dir(card)?
            .flatten()
            .any(|entry| entry.file_name() != "app" && entry.file_name() != "lost+found")
        {
            as_before = wrong("files were left next to the folder of the program");
        }
        ensure!(said.code == 0, "fonio ended with exit code {}", said.code);

        let truth = self.by_hand(device, &card.join("by-hand"), needs)?;
        let text = said.flowing();
        let gain = Gain::of(&text);
        let shown = gain.map_or_else(|| "no gain".to_owned(), |gain| gain.shown());
        Ok(super::Walked {
            ended: proven,
            fixed: gain.is_some_and(|gain| gain.low > 1.0).then_some(proven),
            typed,
            words,
            verdict: Some(self.is_verdict_right(&text, &truth)),
            fix: Some(is_fix_right(&text, gain, &truth)),
            as_before,
            shown: format!("{shown}; by hand {:.2}", truth.ratio),
        })
    }

    /// Makes the folder of the program, with a database from its first run.
    fn install(&self, folder: &Path, needs: &[PathBuf]) -> Result<()> {
        fs::create_dir_all(folder)?;
        for (name, text) in self.files {
            fs::write(folder.join(name), text)?;
        }
        for need in needs {
            let at = folder.join(need.file_name().context("a need has a name")?);
            if need.is_dir() {
                std::os::unix::fs::symlink(need, at)?;
            } else {
                fs::copy(need, at)?;
            }
        }
        let mut input = String::new();
        for number in 0..ITEMS {
            writeln!(input, "{}", (self.item)(number))?;
        }
        fs::write(folder.join(self.input), input)?;
        process::output(&mut self.program(folder))?;
        Ok(())
    }

    fn program(&self, folder: &Path) -> Command {
        let mut words = self.command.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(folder);
        command
    }

    /// Measures the program without fonio, alternately without and with a write-ahead log.
    fn by_hand(&self, device: &str, folder: &Path, needs: &[PathBuf]) -> Result<Truth> {
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut waited = Vec::new();
        let mut writes = u64::MAX;
        for _ in 0..BY_HAND {
            for (times, mode) in times.iter_mut().zip(["DELETE", "WAL"]) {
                process::check_signals()?;
                process::remove_folder(folder)?;
                self.install(folder, needs)?;
                let pragma = format!("PRAGMA journal_mode={mode}");
                process::output(Command::new("sqlite3").arg(folder.join(self.database)).arg(pragma))?;
                process::output(Command::new("sync").arg("-f").arg(folder))?;
                let written = written_requests(device)?;
                let used = process::measure(&mut self.program(folder))?;
                if mode == "WAL" {
                    writes = writes.min(written_requests(device)? - written);
                }
                times.push(used.wall.as_secs_f64());
                if mode == "DELETE" {
                    waited.push(1.0 - used.cpu.as_secs_f64() / used.wall.as_secs_f64());
                }
            }
        }
        process::remove_folder(folder)?;
        let [without, with] = times.map(median);
        Ok(Truth { waited: median(waited), ratio: without / with, is_synced: writes >= u64::from(ITEMS) })
    }

    fn is_verdict_right(&self, text: &str, truth: &Truth) -> Answer {
        // The program only computes, and waits for its files.
        let says_storage = text.contains("Storage is your problem");
        if says_storage != (truth.waited > 0.5) {
            return wrong(&format!(
                "by hand, the program waits for {:.0} % of its time",
                truth.waited * 100.0
            ));
        }
        let blamed = format!("{} was blocked", self.process);
        if says_storage && !(text.contains(&blamed) && text.contains("in fsync of")) {
            return wrong("the verdict does not name the program and its syncs");
        }
        Ok(())
    }
}

/// What was measured without fonio.
struct Truth {
    /// The share of the program's time outside of the processor.
    waited: f64,
    /// How many times as fast the program is with a write-ahead log.
    ratio: f64,
    /// Whether the program makes each commit durable with a write-ahead log: then the device gets at least one write
    /// per commit. Some builds of SQLite sync a write-ahead log only at checkpoints (`SQLITE_DEFAULT_WAL_SYNCHRONOUS`).
    is_synced: bool,
}

/// Returns the number of write requests that a device has completed.
fn written_requests(device: &str) -> Result<u64> {
    let path = format!("/sys/block/{}/stat", device.trim_start_matches("/dev/"));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // Documentation/block/stat.rst: the fifth number is the number of completed writes.
    let writes = text.split_whitespace().nth(4).and_then(|number| number.parse().ok());
    writes.with_context(|| format!("{path} has no number of writes"))
}

fn is_fix_right(text: &str, gain: Option<Gain>, truth: &Truth) -> Answer {
    match gain {
        None => wrong("no gain with an interval was printed"),
        Some(gain) if gain.low <= 1.0 => wrong(&format!("not shown: {}", gain.shown())),
        Some(_) if truth.ratio <= 1.0 => wrong(&format!("by hand {:.2} times as fast", truth.ratio)),
        Some(_) => match (text.contains(LOSES_NOTHING), text.contains(LOSES_LAST), truth.is_synced) {
            (true, false, true) | (false, true, false) => Ok(()),
            (true, _, false) => {
                wrong("a power cut loses the last transactions, because this SQLite does not sync each one")
            }
            _ => wrong("the price of the fix was not printed"),
        },
    }
}

/// The gain in the first line of the result: `is 1.52 (1.07 to 2.14) times as fast`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gain {
    times: f64,
    low: f64,
    high: f64,
}

impl Gain {
    fn of(text: &str) -> Option<Gain> {
        let (before, _) = text.split_once(") times as fast")?;
        let (before, interval) = before.rsplit_once(" (")?;
        let (low, high) = interval.split_once(" to ")?;
        let times = before.rsplit(' ').next()?.parse().ok()?;
        Some(Gain { times, low: low.parse().ok()?, high: high.parse().ok()? })
    }

    fn shown(self) -> String {
        format!("{} ({} to {}) times as fast", self.times, self.low, self.high)
    }
}

/// Returns the number of rounds that a result without a shown gain advises: `(--runs 24, at least 90 s)`.
fn rounds_advised(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("(--runs ")?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns minutes, for tables.
pub fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_read_from_the_result() {
        let text = "▲ python3 notes.py took 3.17 s; wal-full is 1.52 (1.07 to 2.14) times as fast as without";
        let gain = Gain::of(text).expect("a gain");
        assert_eq!(gain, Gain { times: 1.52, low: 1.07, high: 2.14 });
        let truth = |ratio| Truth { waited: 0.9, ratio, is_synced: true };
        assert!(is_fix_right(text, Some(gain), &truth(1.5)).is_err(), "without a price");
        let text = format!("{text}. A power cut loses no more data than without the fix.");
        assert_eq!(is_fix_right(&text, Some(gain), &truth(1.5)), Ok(()));
        assert!(is_fix_right(&text, Some(gain), &truth(0.9)).is_err(), "it is slower by hand");
        assert!(is_fix_right(&text, Some(Gain { low: 0.9, ..gain }), &truth(1.5)).is_err(), "not shown");
        let unsynced = Truth { is_synced: false, ..truth(1.5) };
        assert!(is_fix_right(&text, Some(gain), &unsynced).is_err(), "it loses transactions");
        let honest = text.replace(LOSES_NOTHING, LOSES_LAST);
        assert_eq!(is_fix_right(&honest, Some(gain), &unsynced), Ok(()));
        assert_eq!(Gain::of("no difference was shown"), None);
    }

    #[test]
    fn the_advised_rounds_are_read_from_the_result() {
        let text = "about 24 rounds are needed to know each gain to within 25 % (--runs 24, at least 90 s).";
        assert_eq!(rounds_advised(text), Some(24));
        assert_eq!(rounds_advised("run each setup three times or more (--runs auto)"), None);
    }

    #[test]
    fn a_verdict_must_agree_with_the_time_by_hand() {
        let truth = |waited| Truth { waited, ratio: 2.0, is_synced: true };
        let right = "Storage is your problem: python3 was blocked on it, mostly in fsync of notes.db";
        assert_eq!(PYTHON.is_verdict_right(right, &truth(0.9)), Ok(()));
        assert!(PYTHON.is_verdict_right(right, &truth(0.1)).is_err());
        assert!(NODE.is_verdict_right(right, &truth(0.9)).is_err(), "another program");
        assert_eq!(GO.is_verdict_right("Storage is not the problem", &truth(0.1)), Ok(()));
    }

    #[test]
    fn the_programs_are_small() {
        for app in [&PYTHON, &NODE, &GO] {
            for (name, text) in app.files {
                assert!(text.lines().count() <= 60, "{name}");
            }
        }
    }
}
