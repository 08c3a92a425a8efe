//! The third step of a cure: the fixes for the cause that can be had on this machine, in the order in which they are
//! tried.

use std::path::{Path, PathBuf};

use fonio_analysis::DeviceInfo;
use fonio_analysis::waits::blocked::Role;
use fonio_experiment::{Candidate, Real};
use fonio_host::{Applied, IoPriority, Loss, Scope};
use serde::Serialize;

use super::evidence::Evidence;
use super::said::Said;
use super::seen::Seen;
use super::slowed;
use crate::cli::cure::Cure;
use crate::output;

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
    evidence: &'a Evidence,
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
    evidence: Evidence,
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
    /// A limit of a running process and its descendants, which repeated calls do not have.
    Process { planned: Box<Applied> },
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
        let is_now = is_from_here && seen.is_new && arguments.command.is_empty();
        let limit = if is_now { io_rate(seen) } else { None };
        if choices.to_try.iter().any(has_class) {
            choices.by_hand.retain(|text| !text.contains("`ionice"));
            if let Some(limit) = limit {
                let by_hand = choices.by_hand.iter_mut().find(|text| *text == LIMIT_BY_HAND);
                by_hand
                    .into_iter()
                    .for_each(|text| *text = format!("Or, with half of its rate: {}", limit.command));
            }
        } else if limit.is_some() {
            choices.by_hand.retain(|text| text != LIMIT_BY_HAND);
            choices.to_try.extend(limit);
        }
        choices.to_try.sort_by_key(|choice| choice.name.clone());
        choices.to_try.dedup_by(|a, b| a.command == b.command);
        let at = |choice: &Choice| {
            let has = |text: &str| match choice.is_limit() {
                true => text == LIMIT_BY_HAND,
                false => commands(text).contains(&choice.words),
            };
            diagnosis.remedies.iter().position(|remedy| has(&remedy.text)).unwrap_or(usize::MAX)
        };
        for choice in &mut choices.to_try {
            choice.evidence = Evidence::of(seen, said, &choice.name, choice.io_class());
        }
        choices
            .to_try
            .sort_by(|a, b| a.evidence.rank().total_cmp(&b.evidence.rank()).then(at(a).cmp(&at(b))));
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
            lines.push(format!("   {}", choice.evidence.sentence()));
        }
        lines.extend(self.by_hand.iter().map(|text| format!("By hand: {text}")));
        lines
    }

    pub(super) fn listed(&self) -> Listed<'_> {
        let fixes = self.to_try.iter().map(|choice| Fix {
            command: &choice.command,
            does: &choice.does,
            loses: choice.loses.sentence(),
            order: choice.evidence.sentence(),
            evidence: &choice.evidence,
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
            command: format!("fonio {}", output::joined(words)),
            does: fix.does.to_owned(),
            loses: fix.loses,
            how,
            evidence: Evidence::Catalogue,
        })
    }

    /// Returns whether the fix limits the rate of the program in the way.
    pub(super) fn is_limit(&self) -> bool {
        self.name.starts_with("io-rate=")
    }

    /// The question before the fix is kept.
    pub(super) fn question(&self) -> String {
        match self.how {
            How::IoClass { .. } | How::Process { .. } => {
                "Leave it in force until these processes end?".to_owned()
            }
            _ => "Keep it across reboots?".to_owned(),
        }
    }

    /// Returns whether `--yes` keeps the fix. A fix with which a power cut can lose data is a decision of a person.
    pub(super) fn is_kept_with_yes(&self) -> bool {
        self.loses.is_safe()
    }

    pub(super) fn keep_lines(&self) -> Vec<String> {
        let ends = matches!(self.how, How::IoClass { .. } | How::Process { .. });
        let keep = if ends { "" } else { " --keep" };
        let mut lines = vec![format!("{}{keep}", self.command), self.loses.sentence().to_owned()];
        if ends {
            lines.push(format!(
                "It ends with these processes. To have it next time too, start the program with: fonio fix apply {} -- \
                 COMMAND",
                self.name
            ));
        }
        lines
    }

    /// Returns the I/O class that the fix gives to the program in the way, if it does that.
    pub(super) fn io_class(&self) -> Option<&str> {
        match self.how {
            How::IoClass { .. } => Some("idle"),
            How::Unit { .. } => self.name.strip_prefix("io-class="),
            How::Setting { .. } | How::Database { .. } | How::Process { .. } => None,
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

/// A program's I/O class has too little effect if at least this share of its I/O is issued by others for it, as write-back
/// is by the kernel.
const ISSUED_FOR_IT: f64 = 0.5;

/// Returns whether the program in the way issued most of its I/O itself, so that its I/O class has an effect.
fn issues_itself(seen: &Seen) -> bool {
    let Some(diagnosis) = &seen.analysis.diagnosis else { return false };
    let of_culprit = seen.victim().and_then(|victim| {
        (victim.behind.iter()).find(|row| {
            Some(&row.process) == diagnosis.culprit.as_ref() && row.unit == diagnosis.culprit_unit
        })
    });
    of_culprit.is_none_or(|row| row.issued_for_it < ISSUED_FOR_IT * row.share)
}

/// Returns the fix that gives the running processes of a copy in the way the I/O class idle. Only some schedulers heed
/// the class.
fn io_class(seen: &Seen) -> Option<Choice> {
    if !issues_itself(seen) {
        return None;
    }
    let Copy { program: culprit, device, pids, .. } = Copy::in_the_way(seen)?;
    if !["bfq", "mq-deadline", "smartio"].contains(&device.scheduler.as_deref()?) {
        return None;
    }
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
        evidence: Evidence::Catalogue,
    })
}

/// The remedy of the report for work in the way, without a number.
const LIMIT_BY_HAND: &str = "Limit the rate of that work.";
/// A copy is not limited to less than this.
const RATE_LEAST: u64 = 1 << 20;

/// Returns the fix that limits a running copy in the way to half of its rate in the recording. The limit of a service
/// lasts, and so it is better than the limit of its running processes.
fn io_rate(seen: &Seen) -> Option<Choice> {
    let copy = Copy::in_the_way(seen)?;
    let Copy { program, device, bytes, .. } = copy;
    let disk = device.name.as_deref()?;
    // The bytes are those of the complete recording, also of the part before the analysed one.
    let recorded = seen.from.as_secs_f64() + seen.analysis.span.duration_ns.as_secs_f64();
    let half = bytes as f64 / recorded / 2.0;
    let mib = (half / RATE_LEAST as f64).round().max(1.0);
    let name = format!("io-rate={mib}MiB");
    let setting = Candidate::parse(&name).ok()?.setting()?;
    let on_disk = setting.clone().on_disk_of(&Path::new("/dev").join(disk)).ok()?;
    let (planned, words) = match (copy.service(), &copy.pids[..]) {
        (Some(unit), _) => (setting.plan(Path::new(unit)).ok()?, vec![unit.to_owned()]),
        (None, [pid]) => {
            let planned = on_disk.plan(Path::new(&format!("/proc/{pid}"))).ok()?;
            (planned, vec!["--pid".to_owned(), pid.to_string(), format!("/dev/{disk}")])
        }
        // Each process would get a limit of its own.
        _ => return None,
    };
    if !planned.is_new() {
        return None;
    }
    let words = [vec!["fix".to_owned(), "apply".to_owned(), name.clone()], words].concat();
    let planned = Box::new(planned);
    let what = copy.service().unwrap_or(program);
    Some(Choice {
        command: format!("fonio {}", output::joined(&words)),
        words,
        does: format!(
            "limits {what} to {mib} MiB/s on each disk, half of its rate in the recording; it takes longer, and programs \
             that wait for its writes wait longer too"
        ),
        name,
        loses: Loss::Nothing,
        how: match copy.service() {
            Some(_) => How::Unit { planned },
            None => How::Process { planned },
        },
        evidence: Evidence::Catalogue,
    })
}

/// A copy or other bulk work that is in the way of the delayed program.
pub(super) struct Copy<'a> {
    program: &'a str,
    /// The systemd unit or container, if known.
    unit: Option<&'a str>,
    /// The disk on which it is in the way.
    pub(super) device: &'a DeviceInfo,
    /// The running processes, or the scripts that start them.
    pub(super) pids: Vec<u32>,
    /// The bytes that it read from the disk or wrote to it in the recording, whichever is more.
    bytes: u64,
}

impl Copy<'_> {
    /// Returns the copy in the way, if its processes still run. A server is not slowed down, because others wait for it.
    pub(super) fn in_the_way(seen: &Seen) -> Option<Copy<'_>> {
        let diagnosis = seen.analysis.diagnosis.as_ref()?;
        let program = diagnosis.culprit.as_deref()?;
        let device = diagnosis.device.as_ref()?;
        let device = seen.analysis.devices.iter().find(|known| known.shown() == device)?;
        let is_copy = seen.analysis.blocked.as_ref()?.programs.iter().any(|found| {
            found.name == program && found.unit == diagnosis.culprit_unit && found.role == Role::BulkWork
        });
        if !is_copy {
            return None;
        }
        let slowed::Slowed { pids, bytes } = slowed::processes(seen, &device.device).ok()?;
        Some(Copy { program, unit: diagnosis.culprit_unit.as_deref(), device, pids, bytes })
    }

    /// Returns the service of the copy, if it has one. A copy in a session has only processes.
    fn service(&self) -> Option<&str> {
        self.unit.filter(|unit| unit.ends_with(".service"))
    }
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
