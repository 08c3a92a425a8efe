//! `cargo studies histories`: runs random histories of fonio's changes in a complete Debian guest.
//!
//! A history is a sequence of commands of fonio, of changes by other programs, of reboots and of power cuts
//! (`steps.rs`). Commands of fonio are killed at one of their calls that write, or run on a full disk. Each
//! history begins from a snapshot of the prepared guest. It ends with one command of fonio that nothing
//! disturbs: for settings `fonio fix undo`, otherwise a complete recording or run of the watch. Then the files
//! are compared byte for byte with those of the snapshot, and the settings with the former ones.
//!
//! In a power cut, QEMU ends at once: the guest's page cache is lost, and its disk keeps all flushed data.

mod steps;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

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
    let options = SystemOptions {
        packages: vec!["strace".to_owned()],
        disks: vec![DISK_BYTES],
        ..SystemOptions::default()
    };
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
        // Half of the histories change settings.
        let cost = |subject: &Subject| {
            counted.tried(subject.name()) * if *subject == Subject::Settings { 1 } else { 2 }
        };
        let subject = SUBJECTS.into_iter().min_by_key(cost).expect("there are subjects");
        let seed = mix(seed_for(counted.tried(subject.name()), subject as u64));
        let outcome = match guest.history(subject, seed) {
            Err(_) if process::check_signals().is_err() => break,
            outcome => outcome.with_context(|| format!("{subject:?}, seed {seed}"))?,
        };
        let repeat = format!("--of {} --seed {seed}", format!("{subject:?}").to_lowercase());
        println!("{repeat}: {}", outcome.wrong.as_deref().map_or("as before", |_| "WRONG"));
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

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }
}

/// The prepared guest, and its state in the snapshot.
struct Guest<'s, 'a> {
    system: &'s mut System<'a>,
    files: String,
    in_force: String,
}

impl<'s, 'a> Guest<'s, 'a> {
    fn prepare(system: &'s mut System<'a>, fonio: &Path) -> Result<Guest<'s, 'a>> {
        let folder = tempfile::tempdir()?;
        let stripped = fonio_lab::stripped(fonio, &folder.path().join("fonio"))?;
        system.put(&stripped, "/usr/local/bin/fonio")?;
        let functions = folder.path().join("functions.sh");
        std::fs::write(&functions, FUNCTIONS)?;
        system.put(&functions, FUNCTIONS_AT)?;
        let mut guest = Guest { system, files: String::new(), in_force: String::new() };
        let (code, said) = guest.shell(PREPARE)?;
        ensure!(code == 0, "the guest cannot be prepared: {said}");
        guest.files = guest.text("files")?;
        guest.in_force = guest.text("in_force")?;
        guest.system.snapshot(SNAPSHOT)?;
        Ok(guest)
    }

    /// Runs a script with the functions of the steps. Returns its exit code and its output.
    fn shell(&mut self, script: &str) -> Result<(u8, String)> {
        process::check_signals()?;
        // The agent reads slowly, so the functions are in a file of the guest.
        let script = format!("{{ . {FUNCTIONS_AT}\n{script}\n}} 2>&1");
        let out = self.system.run(&["sh", "-c", &script])?;
        Ok((out.code, String::from_utf8_lossy(&out.stdout).into_owned()))
    }

    fn text(&mut self, function: &str) -> Result<String> {
        let (code, said) = self.shell(function)?;
        ensure!(code == 0, "`{function}` failed: {said}");
        Ok(said)
    }

    fn history(&mut self, subject: Subject, seed: u64) -> Result<Outcome> {
        self.system.restore(SNAPSHOT)?;
        let mut outcome = Outcome::default();
        let (mut appended, mut swappiness) = (String::new(), None);
        for step in steps(subject, seed) {
            outcome.steps += 1;
            match &step {
                Step::Reboot => {
                    outcome.reboots += 1;
                    swappiness = None;
                    self.system.reboot()?;
                    self.settle()?;
                }
                Step::PowerCut => {
                    outcome.cuts += 1;
                    swappiness = None;
                    self.system.cut();
                    self.system.power_on()?;
                    self.settle()?;
                }
                Step::AppendToFstab(number) => {
                    outcome.foreign += 1;
                    let _ = writeln!(appended, "{}", foreign_line(*number));
                }
                Step::SetSwappiness(value) => {
                    outcome.foreign += 1;
                    swappiness = Some(*value);
                }
                Step::Fonio(..) => {}
            }
            let Some(script) = step.script() else {
                let _ = writeln!(outcome.said, "{step:?}");
                continue;
            };
            let (code, said) = self.shell(&script)?;
            let _ = writeln!(outcome.said, "{step:?}: exit code {code}\n{said}");
            if let Step::Fonio(_, harm) = step {
                outcome.killed += u32::from(matches!(harm, Harm::Kill(_)) && code == KILLED);
                outcome.full += u32::from(matches!(harm, Harm::Full(_)));
                if said.contains("panicked at") || [101, 134, 139].contains(&code) {
                    outcome.fail(format!("{step:?} panicked"));
                }
            }
        }
        let (end, code, said) = self.end(subject)?;
        let _ = writeln!(outcome.said, "{end}: exit code {code}\n{said}");
        if code != 0 {
            outcome.fail(format!("`{end}` failed with exit code {code}"));
        }
        let files = self.text("files")?;
        if let Some(difference) = different(&with_appended(&self.files, &appended), &files) {
            outcome.fail(format!("files differ: {difference}"));
        }
        let in_force = self.text("in_force")?;
        let foreign = swappiness.map(|value| with_swappiness(&self.in_force, value));
        if in_force != self.in_force && Some(&in_force) != foreign.as_ref() {
            let difference = different(&self.in_force, &in_force).unwrap_or_default();
            outcome.fail(format!("settings differ: {difference}"));
        }
        Ok(outcome)
    }

    fn settle(&mut self) -> Result<()> {
        let script = "systemctl is-system-running --wait >/dev/null; udevadm settle; findmnt -n /mnt/card";
        let (code, said) = self.shell(script)?;
        ensure!(code == 0, "the file system of fstab is not mounted after the boot: {said}");
        Ok(())
    }

    /// Runs the last command of a history, without harm.
    fn end(&mut self, subject: Subject) -> Result<(&'static str, u8, String)> {
        let script = match subject {
            Subject::Settings => "fonio fix undo",
            Subject::Recordings => {
                "cd /var/lib/histories; for old in recording*; do [ ! -e $old ] || fonio report $old >/dev/shm/report 2>&1; \
                 code=$?; ! grep -q 'panicked at' /dev/shm/report || exit 101; [ $code -lt 128 ] || exit $code; done; \
                 fonio record --for 1s --overwrite -o recording0 >&2 && fonio report recording0 >/dev/null && \
                 rm -r recording* && [ -z \"$(ls -A .)\" ] && [ -z \"$(ls /sys/kernel/tracing/instances)\" ]"
            }
            Subject::Watch => {
                "mkdir -p /run/histories; cd /var/lib/histories; \
                 fonio watch run --state /var/lib/histories/watch --run /run/histories & pid=$!; sleep 4; pkill -TERM -x fonio; \
                 wait $pid; [ $? = 143 ] && fonio watch report --state /var/lib/histories/watch --run /run/histories --json >/dev/null && \
                 ! find watch /run/histories -name '*.new' -o -name '*.tmp' | grep ."
            }
        };
        let (code, said) = self.shell(script)?;
        Ok((script, code, said))
    }
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
}
