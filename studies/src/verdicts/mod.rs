//! `cargo studies verdicts`: checks fonio's verdicts on situations with a known cause.
//!
//! Each situation runs on its own emulated device with a file system, and its programs have distinct names.
//! fonio records the machine as in `fonio check`. The study compares the report with the known cause: whether
//! storage delayed a program and, if so, which program and which of its files were affected, and which
//! program blocked it.

mod acts;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fonio_system::signals::Signal;
use serde::Deserialize;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::emulated::{self, Emulated, Options};
use crate::{asked, process};

const SITUATIONS: &str = include_str!("situations.toml");
/// The recording time of each situation. It is longer than the minimum for a verdict.
const RECORDED: &str = "14s";
const SIZE: &str = "1GiB";
/// The verdicts that state that storage delayed a program.
const STORAGE: [&str; 3] = ["blocked", "blocked-for-long", "blocked-by-memory"];
/// The name under which this program performs an action.
pub const ACT: &str = "act";

#[derive(Args)]
pub struct Arguments {
    /// Run the situations whose names contain one of the words (default: all).
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Situations {
    situation: Vec<Situation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Situation {
    name: String,
    device: String,
    #[serde(default = "ext4")]
    fs: String,
    #[serde(default)]
    prepare: Vec<(String, u64)>,
    programs: Vec<(String, String)>,
    storage: bool,
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    behind: Option<String>,
    /// Whether this situation was written after the thresholds were fixed.
    #[serde(default)]
    later: bool,
}

fn ext4() -> String {
    "ext4".to_owned()
}

/// fonio's statements about a situation, and whether they are right.
struct Said {
    verdict: String,
    problem: bool,
    /// Whether the program, its file and the blocking program were named correctly; `None` if the situation
    /// does not name them.
    program: Option<bool>,
    file: Option<bool>,
    behind: Option<bool>,
}

impl Said {
    /// Returns whether the situation counts as correct: the problem and the program must be right.
    fn is_right(&self) -> bool {
        self.problem && self.program != Some(false)
    }
}

/// Performs an action of a situation, such as `act spin 1`.
pub fn run_act(words: &[String]) -> Result<()> {
    acts::run(words)
}

/// Runs the situations whose names contain one of the words, or all situations.
pub fn run(Arguments { words }: &Arguments) -> Result<()> {
    let situations: Situations = toml::from_str(SITUATIONS).context("situations.toml cannot be read")?;
    let chosen: Vec<&Situation> = (situations.situation.iter())
        .filter(|situation| words.is_empty() || words.iter().any(|word| situation.name.contains(word)))
        .collect();
    if chosen.is_empty() {
        bail!("no situation's name contains {}", words.join(" or "));
    }
    let fonio = emulated::fonio()?;
    process::outlive_signals()?;
    let scratch = process::scratch("verdicts")?;
    let mut said: Vec<(&Situation, Said)> = Vec::new();
    for situation in chosen {
        process::check_signals()?;
        let found = situation.run(&fonio, &scratch).with_context(|| situation.name.clone())?;
        let mark = |is_right: Option<bool>, name: &str| match is_right {
            Some(true) => format!(" {name}: right."),
            Some(false) => format!(" {name}: WRONG."),
            None => String::new(),
        };
        println!(
            "{} {}{}\n      problem: {}.{}{}{}\n      {}",
            if found.is_right() { "right" } else { "WRONG" },
            situation.name,
            if situation.later { " (later)" } else { "" },
            if found.problem { "right" } else { "WRONG" },
            mark(found.program, "program"),
            mark(found.file, "file"),
            mark(found.behind, "behind"),
            found.verdict
        );
        said.push((situation, found));
    }
    keep(&said, words.is_empty())
}

fn keep(said: &[(&Situation, Said)], is_complete: bool) -> Result<()> {
    type Part<'a> = &'a dyn Fn(&Situation, &Said) -> Option<bool>;
    let parts: [(&str, Part<'_>); 8] = [
        ("the problem and the program", &|_, said| Some(said.is_right())),
        ("both, if storage delays a program", &|situation, said| situation.storage.then(|| said.is_right())),
        ("both, if other causes delay it", &|situation, said| (!situation.storage).then(|| said.is_right())),
        ("both, for situations written later", &|situation, said| situation.later.then(|| said.is_right())),
        ("whether storage is the problem", &|_, said| Some(said.problem)),
        ("the program, if one is expected", &|_, said| said.program),
        ("the file, if one is expected", &|_, said| said.file),
        ("the blocking program, if one is expected", &|_, said| said.behind),
    ];
    let title = "correct verdicts on situations with a known cause";
    let mut result = StudyResult::begin("verdicts", title, "cargo studies verdicts", &["", "right", "of"])?;
    println!();
    for (name, part) in parts {
        let judged: Vec<bool> = said.iter().filter_map(|(situation, said)| part(situation, said)).collect();
        let right = judged.iter().filter(|right| **right).count();
        result.row(name, vec![Cell::count(right), Cell::count(judged.len())]);
    }
    result.keep(is_complete)?;
    Ok(())
}

impl Situation {
    fn run(&self, fonio: &Path, scratch: &Path) -> Result<Said> {
        let place = tempfile::tempdir_in(scratch).context("cannot make a folder")?;
        let mount = place.path().join("mount");
        fs::create_dir(&mount)?;
        let options = Options { mounted: Some((&self.fs, &mount)), ..Options::bare(&self.device, SIZE) };
        let emulated = Emulated::start(fonio, &Options { scheduler: "mq-deadline", ..options })?;
        for (name, mebibytes) in &self.prepare {
            prepare(&mount.join(name), *mebibytes)?;
        }
        let running: Result<Vec<Program>> = (self.programs.iter())
            .map(|(name, line)| Program::start(name, line, &mount, place.path()))
            .collect();
        let running = running?;
        thread::sleep(Duration::from_secs(2));
        let recording = scratch.join("recording");
        let recorded = Command::new(fonio)
            .args(["record", "--for", RECORDED, "--overwrite", "--output"])
            .arg(&recording)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .context("cannot start fonio record")?;
        drop(running);
        drop(emulated);
        if !recorded.status.success() {
            bail!("fonio record failed: {}", String::from_utf8_lossy(&recorded.stderr));
        }
        self.judge(&asked::report(fonio, &recording)?)
    }

    fn judge(&self, report: &Value) -> Result<Said> {
        let analysis = report.get("analysis").unwrap_or(report);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&analysis["verdict_id"]);
        if analysis["blocked"].is_null() {
            bail!("the recording has no waits of threads");
        }
        let verdict = text(&analysis["verdict"]);
        let says_storage = STORAGE.contains(&id.as_str());
        // Take the program that the verdict names: the first program, or the program with the longest wait.
        let blocked = &analysis["blocked"];
        let (program, file, behind) = if id == "blocked-for-long" {
            let longest = &blocked["long"]["longest"][0];
            (text(&longest["program"]), text(&longest["file"]), &longest["behind"])
        } else {
            let first = &blocked["programs"][0];
            (text(&first["name"]), text(&first["file"]["path"]), &first["behind"])
        };
        let others = behind.as_array().cloned().unwrap_or_default();
        let others = others.iter().find(|row| row["is_own"] == Value::Bool(false));
        let other = others.map(|row| text(&row["process"])).unwrap_or_default();
        let of = |wanted: &Option<String>, is_right: &dyn Fn(&str) -> bool| {
            wanted.as_deref().filter(|_| self.storage).map(|wanted| says_storage && is_right(wanted))
        };
        Ok(Said {
            verdict,
            problem: says_storage == self.storage,
            program: of(&self.program, &|wanted| program == wanted),
            file: of(&self.file, &|wanted| file.contains(wanted)),
            behind: of(&self.behind, &|wanted| other == wanted),
        })
    }
}

fn prepare(path: &Path, mebibytes: u64) -> Result<()> {
    let mut command = Command::new("dd");
    command.args(["if=/dev/urandom", "bs=1M", "conv=fsync", "status=none"]);
    command.arg(format!("count={mebibytes}")).arg(format!("of={}", path.display()));
    process::run(&mut command)?;
    // Drop the file from the page cache.
    let mut drop_it = Command::new("dd");
    drop_it.args(["iflag=nocache", "count=0", "status=none"]).arg(format!("if={}", path.display()));
    process::run(&mut drop_it)
}

/// A running program of a situation. The program and its children are killed when this value is dropped.
struct Program {
    child: Child,
}

impl Program {
    fn start(name: &str, line: &str, mount: &Path, place: &Path) -> Result<Program> {
        let line = line.replace("$DIR", &mount.display().to_string());
        let line = line.replace("$ID", &format!("fonio-verdicts-{}", std::process::id()));
        let words: Vec<&str> = line.split_whitespace().collect();
        let (first, rest) = words.split_first().context("a program has no command")?;
        // The kernel gives a process the name of the file that it executes.
        let link = |target: &Path| -> Result<PathBuf> {
            let link = place.join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(target, &link)?;
            }
            Ok(link)
        };
        let mut command = match *first {
            "fio" => {
                let mut command = Command::new(link(&found("fio")?)?);
                command.args([&format!("--name={name}"), "--time_based", "--runtime=3600", "--thread"]);
                command.args(["--fallocate=none", "--minimal"]).args(rest);
                command
            }
            "sqlite" => {
                let mut command = Command::new(link(&found("sqlite3")?)?);
                let mode = rest.get(1).context("sqlite DATABASE MODE")?;
                let insert = "INSERT INTO t(x) VALUES(hex(randomblob(100)));\n".repeat(20_000);
                let script = place.join(format!("{name}.sql"));
                let head = format!("PRAGMA journal_mode={mode};PRAGMA synchronous=FULL;CREATE TABLE t(x);\n");
                fs::write(&script, head + &insert)?;
                command.arg(rest[0]).stdin(fs::File::open(&script)?);
                command
            }
            act => {
                let mut command = Command::new(link(&std::env::current_exe()?)?);
                command.arg(ACT).arg(act).args(rest);
                command
            }
        };
        if *first != "sqlite" {
            command.stdin(Stdio::null());
        }
        let child = command
            .current_dir(place)
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {first}"))?;
        Ok(Program { child })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            // If killing fails, the process has already ended.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn found(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    (std::env::split_paths(&path).map(|dir| dir.join(program)))
        .find(|path| path.is_file())
        .with_context(|| format!("{program} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations_are_complete() {
        let Situations { situation: all } = toml::from_str(SITUATIONS).unwrap();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "two situations have the same name");
        for one in &all {
            assert_eq!(one.storage, one.program.is_some(), "{}", one.name);
            let programs: Vec<&str> = one.programs.iter().map(|(name, _)| name.as_str()).collect();
            for named in one.program.iter().chain(&one.behind) {
                assert!(programs.contains(&named.as_str()), "{}: {named}", one.name);
            }
        }
    }
}
