//! The third step of a cure: the fixes for the cause that can be had on this machine, in the order in which they are
//! tried.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fonio_experiment::{Candidate, Real};
use fonio_host::{Applied, IoPriority, Loss, Scope};
use fonio_machine::Units;
use fonio_system::Task;
use serde::Serialize;

use super::said::Said;
use super::seen::Seen;
use super::trials::{Known, known};
use crate::cli::cure::Cure;

/// The fixes for a cause.
pub(super) struct Choices {
    pub(super) to_try: Vec<Choice>,
    /// Remedies that fonio cannot apply.
    by_hand: Vec<String>,
}

/// The fixes for a cause, as JSON output.
#[derive(Serialize)]
pub(super) struct Listed<'a> {
    fixes: Vec<Fix<'a>>,
    by_hand: &'a [String],
}

#[derive(Serialize)]
struct Fix<'a> {
    /// The command that applies the fix until the next boot.
    command: &'a str,
    does: &'a str,
    loses: &'a str,
    /// Why the fix has its place in the order.
    order: String,
}

/// A fix that can be tried.
pub(super) struct Choice {
    pub(super) name: String,
    /// The command that applies the fix until the next boot, without `fonio`.
    pub(super) words: Vec<String>,
    command: String,
    does: String,
    pub(super) loses: Loss,
    pub(super) how: How,
    known: Option<Known>,
}

/// What a fix changes.
pub(super) enum How {
    /// A setting that fonio can switch.
    Setting { planned: Box<Applied>, path: Option<PathBuf> },
    /// A setting of a database file, which a trial changes in a copy.
    Database { file: PathBuf },
    /// The I/O class of running processes.
    IoClass { pids: Vec<u32> },
}

impl Choices {
    pub(super) fn of(seen: &Seen, said: &Said, arguments: &Cure) -> Choices {
        let mut choices = Choices { to_try: Vec::new(), by_hand: Vec::new() };
        let Some(diagnosis) = &seen.analysis.diagnosis else { return choices };
        let is_from_here = seen.is_from_here();
        for remedy in &diagnosis.remedies {
            let found: Vec<Choice> = commands(&remedy.text)
                .iter()
                .filter(|_| is_from_here)
                .filter_map(|words| Choice::of_command(words))
                .collect();
            if found.is_empty() {
                choices.by_hand.push(remedy.text.clone());
            }
            choices.to_try.extend(found);
        }
        if is_from_here && seen.is_new && arguments.command.is_empty() {
            choices.to_try.extend(io_class(seen));
        }
        let has_class = choices.to_try.iter().any(|choice| matches!(choice.how, How::IoClass { .. }));
        let ionice = |text: &String| text.contains("`ionice");
        choices.by_hand.retain(|text| !(has_class && ionice(text)));
        choices.to_try.sort_by_key(|choice| choice.name.clone());
        choices.to_try.dedup_by(|a, b| a.command == b.command);
        let at = |choice: &Choice| {
            let text = diagnosis.remedies.iter().position(|remedy| remedy.text.contains(&choice.command));
            text.unwrap_or(usize::MAX)
        };
        for choice in &mut choices.to_try {
            choice.known = known(seen, said, &choice.name);
        }
        choices.to_try.sort_by(|a, b| {
            let rank =
                |choice: &Choice| choice.known.as_ref().map_or(1.0, |known| known.ratio.unwrap_or(1.0));
            rank(a).total_cmp(&rank(b)).then(at(a).cmp(&at(b)))
        });
        if arguments.yes {
            choices.to_try.retain(|choice| choice.loses.is_safe());
        }
        choices
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, choice) in self.to_try.iter().enumerate() {
            lines.push(format!("{}. {}", number + 1, choice.command));
            lines.push(format!("   {}. {}", capital(&choice.does), choice.loses.sentence()));
            lines.push(format!("   {}", choice.order()));
        }
        lines.extend(self.by_hand.iter().map(|text| format!("By hand: {text}")));
        lines
    }

    pub(super) fn listed(&self) -> Listed<'_> {
        let fixes = self.to_try.iter().map(|choice| Fix {
            command: &choice.command,
            does: &choice.does,
            loses: choice.loses.sentence(),
            order: choice.order(),
        });
        Listed { fixes: fixes.collect(), by_hand: &self.by_hand }
    }
}

impl Choice {
    /// Returns the fix that a command of the report applies; `None` if it cannot be applied here or is in force.
    fn of_command(words: &[String]) -> Option<Choice> {
        let [name, place @ ..] = words.strip_prefix(&["fix".to_owned(), "apply".to_owned()])? else {
            return None;
        };
        let candidate = Candidate::parse(name).ok()?;
        let fix = candidate.fix()?;
        let Real::Setting(_) = fix.real else { return None };
        let setting = candidate.setting()?;
        let path = place.first().map(PathBuf::from);
        let planned = setting.plan(path.as_deref().unwrap_or(Path::new("/"))).ok()?;
        if !planned.is_new() {
            return None;
        }
        let how = match (setting.scope(), &path) {
            (Scope::Database, Some(file)) => How::Database { file: file.clone() },
            _ => How::Setting { planned: Box::new(planned), path },
        };
        Some(Choice {
            name: candidate.name(),
            words: words.to_vec(),
            command: format!("fonio {}", shlex::try_join(words.iter().map(String::as_str)).ok()?),
            does: fix.does.to_owned(),
            loses: fix.loses,
            how,
            known: None,
        })
    }

    fn order(&self) -> String {
        match &self.known {
            Some(known) => known.sentence(),
            None => "Its place in this list is that of the catalogue: it was not tried on this machine yet."
                .to_owned(),
        }
    }

    /// The question before the fix is kept.
    pub(super) fn question(&self) -> String {
        match self.how {
            How::IoClass { .. } => "Leave it in force until these processes end?".to_owned(),
            _ => "Keep it across reboots?".to_owned(),
        }
    }

    /// Returns whether `--yes` keeps the fix. A fix with which a power cut can lose data is a decision of a person.
    pub(super) fn is_kept_with_yes(&self) -> bool {
        self.loses.is_safe()
    }

    pub(super) fn keep_lines(&self) -> Vec<String> {
        let keep = match self.how {
            How::IoClass { .. } => String::new(),
            _ => " --keep".to_owned(),
        };
        vec![format!("{}{keep}", self.command), self.loses.sentence().to_owned()]
    }
}

/// Begins a phrase, such as `lets the I/O wait` or `the scheduler BFQ`, as a line.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the commands of fonio in a remedy, as words without `fonio`. They are in backquotes.
fn commands(text: &str) -> Vec<Vec<String>> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|command| shlex::split(command.strip_prefix("fonio ")?)).collect()
}

/// Returns the fix that gives the running processes of the program in the way the I/O class idle. Only some schedulers
/// heed the class.
fn io_class(seen: &Seen) -> Option<Choice> {
    let diagnosis = seen.analysis.diagnosis.as_ref()?;
    let culprit = diagnosis.culprit.as_ref()?;
    let device = diagnosis.device.as_ref()?;
    let device = seen.analysis.devices.iter().find(|known| known.shown() == device)?;
    if !["bfq", "mq-deadline", "smartio"].contains(&device.scheduler.as_deref()?) {
        return None;
    }
    let mut units = Units::below(Path::new("/"));
    let mut is_culprit = |pid: &u32| {
        let task = Task::of(*pid);
        let mut unit = || {
            let cgroups = task.cgroups();
            let uid = std::fs::metadata(task.file("")).ok().map(|found| found.uid());
            units.of(cgroups.as_ref().and_then(|cgroups| cgroups.telling()), uid)
        };
        task.name().as_deref() == Some(culprit)
            && diagnosis.culprit_unit.clone().is_none_or(|wanted| unit() == Some(wanted))
    };
    let pids: Vec<u32> = Task::all_below(Path::new("/proc")).filter(|pid| is_culprit(pid)).collect();
    // This command, the delayed program, and all processes that started them, are not slowed down.
    let is_victim = |pid: &u32| Task::of(*pid).name() == diagnosis.program;
    let victims = Task::all_below(Path::new("/proc")).filter(is_victim).chain([std::process::id()]);
    let spared: Vec<u32> =
        victims.flat_map(|pid| std::iter::successors(Some(pid), |pid| parent(*pid))).collect();
    let mut pids: Vec<u32> = pids.into_iter().map(|pid| starter(pid, &spared)).collect();
    pids.sort_unstable();
    pids.dedup();
    let first = pids.first()?;
    IoPriority::of(*first).ok().filter(|now| now.now != "idle")?;
    let mut words = ["fix", "apply", "io-class=idle"].map(str::to_owned).to_vec();
    words.extend(["--pid".to_owned(), first.to_string()]);
    Some(Choice {
        name: "io-class=idle".to_owned(),
        command: format!("fonio {}", words.join(" ")),
        words,
        does: format!(
            "lets the I/O of {culprit} wait for all other I/O until its processes end; {culprit} takes longer"
        ),
        loses: Loss::Nothing,
        how: How::IoClass { pids },
        known: None,
    })
}

/// Returns the shell that runs a program, because it starts the program's next process, such as the next copy of a
/// script; or the program's process itself. The shell of a person has no script, and is not slowed down.
fn starter(pid: u32, spared: &[u32]) -> u32 {
    let is_script = |shell: &u32| {
        let task = Task::of(*shell);
        let arguments = std::fs::read(task.file("cmdline")).unwrap_or_default();
        let has_script = arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty()).count() > 1;
        let is_shell = task.name().is_some_and(|name| SHELLS.contains(&name.as_str()));
        is_shell && has_script && !spared.contains(shell)
    };
    let mut found = pid;
    while let Some(shell) = parent(found).filter(is_script) {
        found = shell;
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    Task::of(pid).stat().map(|stat| stat.parent).filter(|parent| *parent > 1)
}

/// Programs that run scripts.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_fonio_in_backquotes() {
        let text = "Switch it, once: `fonio fix apply wal-full '/home/a b/x.db'`. Or `ionice -c idle`, or `fonio fix apply bfq /dev/sda` (it has none now).";
        assert_eq!(
            commands(text),
            [
                ["fix", "apply", "wal-full", "/home/a b/x.db"].map(str::to_owned).to_vec(),
                ["fix", "apply", "bfq", "/dev/sda"].map(str::to_owned).to_vec()
            ]
        );
    }
}
