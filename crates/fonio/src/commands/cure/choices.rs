//! The third step of a cure: the fixes for the cause that can be had on this machine, in the order in which they are
//! tried.

use std::path::{Path, PathBuf};

use fonio_analysis::waits::blocked::Role;
use fonio_experiment::{Candidate, Real};
use fonio_host::{Applied, IoPriority, Loss, Scope};
use serde::Serialize;

use super::said::Said;
use super::seen::Seen;
use super::slowed;
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
    /// The command that applies a setting until the next boot, without `fonio`; empty for processes.
    pub(super) words: Vec<String>,
    /// The same command, as a line for a shell.
    pub(super) command: String,
    does: String,
    pub(super) loses: Loss,
    pub(super) how: How,
    known: Option<Known>,
}

/// What a fix changes.
pub(super) enum How {
    /// A setting that fonio can switch.
    Setting { planned: Box<Applied>, path: Option<PathBuf> },
    /// A setting of the unit of the program in the way, which acts only on the unit's own processes.
    Unit { planned: Box<Applied> },
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
        let has_class = |choice: &Choice| choice.io_class().is_some();
        // The class of a service lasts, and so it is better than the class of its running processes.
        if is_from_here
            && seen.is_new
            && arguments.command.is_empty()
            && !choices.to_try.iter().any(has_class)
        {
            choices.to_try.extend(io_class(seen));
        }
        if choices.to_try.iter().any(has_class) {
            choices.by_hand.retain(|text| !text.contains("`ionice"));
        }
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
            let rank = |choice: &Choice| choice.known.as_ref().map_or(1.0, Known::rank);
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
            (Scope::Unit, _) => How::Unit { planned: Box::new(planned) },
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
        let ends = matches!(self.how, How::IoClass { .. });
        let keep = if ends { "" } else { " --keep" };
        let mut lines = vec![format!("{}{keep}", self.command), self.loses.sentence().to_owned()];
        if ends {
            lines.push(
                "It ends with these processes. To have it next time too, start the program with: fonio fix apply \
                 io-class=idle -- COMMAND"
                    .to_owned(),
            );
        }
        lines
    }

    /// Returns the I/O class that the fix gives to the program in the way, if it does that.
    pub(super) fn io_class(&self) -> Option<&str> {
        match self.how {
            How::IoClass { .. } => Some("idle"),
            How::Unit { .. } => self.name.strip_prefix("io-class="),
            How::Setting { .. } | How::Database { .. } => None,
        }
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

/// Returns the fix that gives the running processes of a copy in the way the I/O class idle. Only some schedulers heed
/// the class. A server is not slowed down, because others wait for it.
fn io_class(seen: &Seen) -> Option<Choice> {
    let diagnosis = seen.analysis.diagnosis.as_ref()?;
    let culprit = diagnosis.culprit.as_ref()?;
    let device = diagnosis.device.as_ref()?;
    let device = seen.analysis.devices.iter().find(|known| known.shown() == device)?;
    if !["bfq", "mq-deadline", "smartio"].contains(&device.scheduler.as_deref()?) {
        return None;
    }
    let is_copy = seen.analysis.blocked.as_ref()?.programs.iter().any(|program| {
        program.name == *culprit && program.unit == diagnosis.culprit_unit && program.role == Role::BulkWork
    });
    let pids = if is_copy { slowed::processes(seen).ok()? } else { Vec::new() };
    let first = pids.first()?;
    IoPriority::of(*first).ok().filter(|now| now.now != "idle")?;
    let command = pids.iter().map(|pid| format!("fonio fix apply io-class=idle --pid {pid}"));
    Some(Choice {
        name: "io-class=idle".to_owned(),
        command: command.collect::<Vec<_>>().join("; "),
        words: Vec::new(),
        does: format!(
            "lets the I/O of {culprit} wait for all other I/O until its processes end; {culprit} takes longer"
        ),
        loses: Loss::Nothing,
        how: How::IoClass { pids },
        known: None,
    })
}

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
