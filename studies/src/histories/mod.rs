//! `cargo studies histories`: runs random histories of fonio's changes in a complete Debian guest.
//!
//! A history is a sequence of commands of fonio, of changes by other programs, of reboots and of power cuts
//! (`steps.rs`). Commands of fonio are killed at one of their calls that write, or run on a full disk. Each
//! history ends with one command of fonio that nothing disturbs: for settings `fonio fix undo`, otherwise a
//! complete recording or run of the watch. Then the files are compared byte for byte with those of the prepared
//! guest, and the settings with the former ones.
//!
//! One boot serves many histories. If everything was as before at the end of a history, only the changes of
//! other programs and the recordings are taken back, and the next history begins from there. After a history
//! with a boot or a wrong end, or in which fonio left a setting of another program alone, the guest is restored from a
//! snapshot.
//!
//! In a power cut, QEMU ends at once: the guest's page cache is lost, and its disk keeps all flushed data.

mod killed_at;
mod steps;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::random::{mix, seed_for};
use fonio_lab::{Archive, System, SystemOptions};

use crate::shares::{Shares, Study, sum};
use crate::{process, tools};
use steps::{Harm, SUBJECTS, Step, Subject, foreign_line, steps};

static STUDY: Study = Study {
    id: "histories",
    title: "random histories with kills, full disks, foreign changes, reboots and power cuts",
    command: "cargo studies histories",
    rows: "written files",
    columns: &[
        sum("histories"),
        sum("wrong at the end"),
        sum("steps"),
        sum("killed"),
        sum("on a full disk"),
        sum("foreign changes"),
        sum("reboots"),
        sum("power cuts"),
    ],
};

const DISK_BYTES: u64 = 128 << 20;
const SNAPSHOT: &str = "prepared";
/// The exit code of a shell for a command that SIGKILL ended.
const KILLED: u8 = 137;
const PREPARE: &str = include_str!("prepare.sh");
const FUNCTIONS: &str = include_str!("functions.sh");
/// The exit code of `fonio fix undo` if it left a setting alone that another program had changed.
const LEFT_ALONE: u8 = 3;
/// The exit code of a step that could not fill the disk.
const NOT_FULL: u8 = 98;
/// Begins the line with the exit code of a script.
const MARK: &str = "--- exit code ";
/// The path of the functions in the guest.
const FUNCTIONS_AT: &str = "/usr/local/lib/functions.sh";

#[derive(Args)]
pub struct Arguments {
    /// The number of histories to add.
    #[arg(long, value_name = "N", default_value_t = 200)]
    histories: u64,
    /// Repeat the history with this seed instead, without changing the result.
    #[arg(long, requires = "of")]
    seed: Option<u64>,
    /// The files that the repeated history writes: settings, recordings or watch.
    #[arg(long, requires = "seed", value_parser = ["settings", "recordings", "watch"])]
    of: Option<String>,
    /// Use this program, for example a release build (default: builds fonio as for tests).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::SYSTEM_GUEST])?;
    let stop = process::outlive_signals()?;
    let (fonio, build) = process::fonio_of_study(arguments.program.as_deref())?;
    let mut counted = Shares::open(&STUDY, &SUBJECTS.map(Subject::name))?;
    let archive = Archive::open()?;
    let options = SystemOptions { disks: vec![DISK_BYTES], ..SystemOptions::default() };
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
    let mut guest = Guest::prepare(&mut system, &fonio)?;
    if let (Some(seed), Some(of)) = (arguments.seed, &arguments.of) {
        let subject = SUBJECTS.into_iter().find(|subject| format!("{subject:?}").to_lowercase() == *of);
        let outcome = guest.history(subject.context("an unknown subject")?, seed)?;
        println!("{}\n{}", outcome.said, outcome.wrong.as_deref().unwrap_or("as before"));
        return Ok(());
    }
    let build = format!("{build} of fonio, Linux {} in the guest.", guest.system.release());
    counted.note(&build);
    for _ in 0..arguments.histories {
        if process::check_signals().is_err() {
            break;
        }
        // Of eight histories, four change settings, three record, and one runs the watch, which starts slowly.
        let cost = |subject: &Subject| {
            counted.tried(subject.name())
                * match subject {
                    Subject::Settings => 3,
                    Subject::Recordings => 4,
                    Subject::Watch => 12,
                }
        };
        let subject = SUBJECTS.into_iter().min_by_key(cost).expect("there are subjects");
        let seed = mix(seed_for(counted.tried(subject.name()), subject as u64));
        let began = Instant::now();
        let outcome = match guest.history(subject, seed) {
            Err(_) if process::check_signals().is_err() => break,
            outcome => outcome.with_context(|| format!("{subject:?}, seed {seed}"))?,
        };
        let repeat = format!("--of {} --seed {seed}", format!("{subject:?}").to_lowercase());
        let end = outcome.wrong.as_deref().map_or("as before", |_| "WRONG");
        println!("{repeat}: {end}, {} s", began.elapsed().as_secs());
        if let Some(why) = &outcome.wrong {
            println!("{}\n{why}", outcome.said);
            counted.note(&format!("Wrong: {repeat}: {}.", why.lines().next().unwrap_or_default()));
        }
        counted.add(subject.name(), &outcome.counts());
        counted.write()?;
    }
    counted.print()?;
    let sum = |count: &dyn Fn(&str) -> u64| SUBJECTS.map(|subject| count(subject.name())).iter().sum::<u64>();
    let (tried, failed) = (sum(&|row| counted.tried(row)), sum(&|row| counted.failed(row)));
    println!("{tried} tried, {failed} failed");
    ensure!(failed == 0, "{failed} histories left other files or settings");
    Ok(())
}

#[derive(Default)]
struct Outcome {
    wrong: Option<String>,
    /// The steps with their exit codes and output.
    said: String,
    steps: u32,
    killed: u32,
    full: u32,
    foreign: u32,
    reboots: u32,
    cuts: u32,
}

impl Outcome {
    fn counts(&self) -> [f64; 8] {
        let wrong = u32::from(self.wrong.is_some());
        [1, wrong, self.steps, self.killed, self.full, self.foreign, self.reboots, self.cuts].map(f64::from)
    }

    /// Counts a step, and keeps what it printed.
    fn count(&mut self, step: &Step, code: u8, said: &str) {
        self.steps += 1;
        let _ = writeln!(self.said, "{step:?}: exit code {code}\n{said}");
        match step {
            Step::Reboot => self.reboots += 1,
            Step::PowerCut => self.cuts += 1,
            Step::AppendToFstab(_) | Step::SetSwappiness(_) => self.foreign += 1,
            Step::Fonio(_, harm) => {
                self.killed += u32::from(matches!(harm, Harm::Kill(_)) && code == KILLED);
                self.full += u32::from(matches!(harm, Harm::Full(_)));
                if code == NOT_FULL {
                    self.fail(format!("{step:?} could not fill the disk"));
                }
                if said.contains("panicked at") || [101, 134, 139].contains(&code) {
                    self.fail(format!("{step:?} panicked"));
                }
            }
        }
    }

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }
}

/// The prepared guest, and its state in the snapshot.
struct Guest<'s, 'a> {
    system: &'s mut System<'a>,
    files: String,
    in_force: String,
    /// Whether the guest's state is equal to the snapshot.
    is_prepared: bool,
}

impl<'s, 'a> Guest<'s, 'a> {
    fn prepare(system: &'s mut System<'a>, fonio: &Path) -> Result<Guest<'s, 'a>> {
        let folder = tempfile::tempdir()?;
        let stripped = fonio_lab::stripped(fonio, &folder.path().join("fonio"))?;
        system.put(&stripped, "/usr/local/bin/fonio")?;
        let functions = folder.path().join("functions.sh");
        std::fs::write(&functions, FUNCTIONS)?;
        system.put(&functions, FUNCTIONS_AT)?;
        let killed_at = folder.path().join("killed_at");
        killed_at::compile(&killed_at)?;
        system.put(&killed_at, "/usr/local/bin/killed_at")?;
        let mut guest = Guest { system, files: String::new(), in_force: String::new(), is_prepared: true };
        // `reset` must change nothing in the prepared guest.
        let answers = guest.shell(&[PREPARE, "files", "in_force", "reset", "files", "in_force"])?;
        for (code, said) in &answers {
            ensure!(*code == 0, "the guest cannot be prepared: {said}");
        }
        guest.files.clone_from(&answers[1].1);
        guest.in_force.clone_from(&answers[2].1);
        ensure!(answers[1..3] == answers[4..6], "the reset changes the guest: {answers:?}");
        guest.system.snapshot(SNAPSHOT)?;
        Ok(guest)
    }

    /// Runs scripts with the functions of the steps, each in its own shell. Returns their exit codes and output.
    ///
    /// All scripts run as one command of the agent, because on a busy machine each command takes seconds.
    fn shell(&mut self, scripts: &[impl AsRef<str>]) -> Result<Vec<(u8, String)>> {
        process::check_signals()?;
        if scripts.is_empty() {
            return Ok(Vec::new());
        }
        // The agent reads slowly, so the functions are in a file of the guest.
        let mut script = format!("exec 2>&1; . {FUNCTIONS_AT}\n");
        for part in scripts {
            let part = part.as_ref();
            let _ = writeln!(script, "(\n{part}\n); printf '\\n{MARK}%s\\n' $?");
        }
        let out = self.system.run(&["sh", "-c", &script])?;
        let said = String::from_utf8_lossy(&out.stdout);
        let answers = answers(&said);
        ensure!(answers.len() == scripts.len(), "a script ended its shell: {said}\n{script}");
        Ok(answers)
    }

    fn history(&mut self, subject: Subject, seed: u64) -> Result<Outcome> {
        if !self.is_prepared {
            self.system.restore(SNAPSHOT)?;
        }
        self.is_prepared = false;
        let mut outcome = Outcome::default();
        let mut foreign = Foreign::default();
        let (steps, end) = (steps(subject, seed), end(subject));
        let mut rest = steps.as_slice();
        // The steps up to a boot are one command of the agent, and so are the last steps with the comparison.
        let answers = loop {
            let count = rest.iter().position(|step| step.script().is_none()).unwrap_or(rest.len());
            let (part, after) = rest.split_at(count);
            let mut scripts: Vec<String> = part.iter().filter_map(Step::script).collect();
            if after.is_empty() {
                scripts.extend([end, "files", "in_force", "reset"].map(str::to_owned));
            }
            let mut answers = self.shell(&scripts)?;
            let ends = answers.split_off(part.len());
            for (step, (code, said)) in part.iter().zip(&answers) {
                outcome.count(step, *code, said);
                foreign.apply(step);
            }
            let Some((boot, after)) = after.split_first() else { break ends };
            outcome.count(boot, 0, "");
            foreign.apply(boot);
            if *boot == Step::Reboot {
                self.system.reboot()?;
            } else {
                self.system.cut();
                self.system.power_on()?;
            }
            self.settle()?;
            rest = after;
        };
        let [(code, said), (_, files), (_, in_force), (reset, why)] = answers.as_slice() else {
            unreachable!("there is an answer for each script")
        };
        let _ = writeln!(outcome.said, "{end}: exit code {code}\n{said}");
        ensure!(*reset == 0, "the guest cannot be reset: {why}");
        if let Some(difference) = different(&with_appended(&self.files, &foreign.appended), files) {
            outcome.fail(format!("files differ: {difference}"));
        }
        let expected = foreign.swappiness.map(|value| with_swappiness(&self.in_force, value));
        let is_left_alone = *in_force != self.in_force && Some(in_force) == expected.as_ref();
        // The other program's change may also have come before that of fonio, which then restores it.
        if *code != 0 && !(*code == LEFT_ALONE && is_left_alone) {
            outcome.fail(format!("`{end}` failed with exit code {code}"));
        }
        if *in_force != self.in_force && Some(in_force) != expected.as_ref() {
            let difference = different(&self.in_force, in_force).unwrap_or_default();
            outcome.fail(format!("settings differ: {difference}"));
        }
        // fonio still knows of a setting that it has left alone.
        self.is_prepared = outcome.wrong.is_none() && outcome.reboots + outcome.cuts == 0 && *code == 0;
        Ok(outcome)
    }

    fn settle(&mut self) -> Result<()> {
        // On a busy machine, the boot may give up waiting for the disk.
        // After a power cut, the files that filled the disk may be back.
        let script = "rm -f /filling /rest; quick; systemctl is-system-running --wait >/dev/null; udevadm settle; \
                      findmnt -n /mnt/card || { systemctl start mnt-card.mount; findmnt -n /mnt/card; }";
        let answers = self.shell(&[script])?;
        let (code, said) = &answers[0];
        ensure!(*code == 0, "the file system of fstab is not mounted after the boot: {said}");
        Ok(())
    }
}

/// Returns the last command of a history, which runs without harm.
fn end(subject: Subject) -> &'static str {
    match subject {
        Subject::Settings => "fonio fix undo",
        Subject::Recordings => "end_of_recordings",
        Subject::Watch => "end_of_watch",
    }
}

/// The changes of other programs that must be there at the end of a history.
#[derive(Default)]
struct Foreign {
    /// Lines at the end of fstab.
    appended: String,
    swappiness: Option<u64>,
}

impl Foreign {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::AppendToFstab(number) => {
                let _ = writeln!(self.appended, "{}", foreign_line(*number));
            }
            Step::SetSwappiness(value) => self.swappiness = Some(*value),
            Step::Reboot | Step::PowerCut => self.swappiness = None,
            Step::Fonio(..) => {}
        }
    }
}

/// Splits the output of several scripts at the lines with their exit codes. Without a code that is a number,
/// the script was ended together with its shell.
fn answers(said: &str) -> Vec<(u8, String)> {
    let mut answers = Vec::new();
    let mut text = String::new();
    for line in said.lines() {
        match line.strip_prefix(MARK).and_then(|code| code.parse().ok()) {
            // An empty line is printed before the mark, in case the output has no line break at its end.
            Some(code) => {
                let trimmed = std::mem::take(&mut text).trim_end().to_owned();
                answers.push((code, trimmed + "\n"));
            }
            None => text = text + line + "\n",
        }
    }
    answers
}

/// Returns the list of files with lines appended to fstab. The list begins with fstab's text.
fn with_appended(files: &str, appended: &str) -> String {
    let first = files.lines().position(is_checksum).unwrap_or(usize::MAX);
    let mut lines: Vec<&str> = files.lines().collect();
    let at = first.min(lines.len());
    lines.splice(at..at, appended.lines());
    lines.join("\n") + "\n"
}

fn is_checksum(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn with_swappiness(in_force: &str, value: u64) -> String {
    let line = |line: &str| {
        if line.starts_with("swappiness ") { format!("swappiness {value}\n") } else { format!("{line}\n") }
    };
    in_force.lines().map(line).collect()
}

/// Returns the first lines that only one of two texts has; `None` if the texts are equal.
fn different(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let only = |one: &str, other: &str, sign: char| -> Vec<String> {
        let lines: Vec<&str> = other.lines().collect();
        one.lines().filter(|line| !lines.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    let mut lines = only(expected, found, '-');
    lines.extend(only(found, expected, '+'));
    if lines.is_empty() {
        lines.push("the same lines in another order or number".to_owned());
    }
    Some(lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_and_foreign_lines_belong_to_fstab() {
        let sum = "0".repeat(64);
        let files = format!("UUID=1 / ext4\n{sum}  /etc/hosts\n");
        let more = with_appended(&files, "# note 1\n");
        assert_eq!(more, format!("UUID=1 / ext4\n# note 1\n{sum}  /etc/hosts\n"));
        assert_eq!(different(&files, &files), None);
        assert_eq!(different(&files, &more).as_deref(), Some("+ # note 1"));
        assert_eq!(different(&more, &files).as_deref(), Some("- # note 1"));
        assert_eq!(with_swappiness("a\nswappiness 60\n", 20), "a\nswappiness 20\n");
    }

    #[test]
    fn answers_are_split_at_the_exit_codes() {
        let said = format!("a\nb\n\n{MARK}0\n\n{MARK}137\nno line break\n{MARK}1\nnot complete");
        let answer = |code, text: &str| (code, text.to_owned());
        assert_eq!(answers(&said), [answer(0, "a\nb\n"), answer(137, "\n"), answer(1, "no line break\n")]);
    }

    #[test]
    fn a_history_counts_its_steps_and_remembers_foreign_changes() {
        let (mut outcome, mut foreign) = (Outcome::default(), Foreign::default());
        let fonio = |harm| Step::Fonio("fix undo".to_owned(), harm);
        for (step, code, said) in [
            (fonio(Harm::Kill(1)), KILLED, ""),
            (fonio(Harm::Kill(70)), 0, ""),
            (fonio(Harm::Full(0)), 1, ""),
            (Step::AppendToFstab(5), 0, ""),
            (Step::SetSwappiness(30), 0, ""),
        ] {
            outcome.count(&step, code, said);
            foreign.apply(&step);
        }
        assert_eq!(outcome.counts(), [1.0, 0.0, 5.0, 1.0, 1.0, 2.0, 0.0, 0.0]);
        assert_eq!((foreign.appended.as_str(), foreign.swappiness), ("# note 5\n", Some(30)));
        // fstab survives a power cut, the swappiness does not.
        foreign.apply(&Step::PowerCut);
        assert_eq!((foreign.appended.as_str(), foreign.swappiness), ("# note 5\n", None));
        outcome.count(&fonio(Harm::None), 101, "thread 'main' panicked at x");
        assert!(outcome.wrong.is_some());
    }
}
