//! The second step of a cure: who waits, how long, and why, in sentences.

use std::time::Duration;

use anyhow::Result;
use fonio_analysis::waits::blocked::{BlockedProgram, Role, doing};
use fonio_core::Unit;
use serde::Serialize;

use super::seen::Seen;
use super::unit_of_work::UnitOfWork;
use crate::cli::cure::Cure;

/// What a recording says about the stalls.
#[derive(Serialize)]
pub(super) struct Said {
    /// Whether storage is a problem for the program.
    pub(super) is_problem: bool,
    /// The verdict of the recording.
    verdict: String,
    /// The longest wait.
    longest: Option<Stall>,
    /// The most frequent wait of the delayed program.
    most_frequent: Option<Frequent>,
    /// The name of the mechanism, and a sentence about it.
    pub(super) mechanism: Option<String>,
    cause: Option<String>,
    /// What each unit of work waits; only with `--per`.
    pub(super) unit_of_work: Option<UnitOfWork>,
}

/// One wait.
#[derive(Serialize)]
struct Stall {
    program: String,
    seconds: f64,
    sentence: String,
}

/// Waits in one operation.
#[derive(Serialize)]
struct Frequent {
    program: String,
    waits: u64,
    waits_per_minute: f64,
    mean_seconds: f64,
    sentence: String,
}

/// A program is named as the one in the way if its requests have at least this share of the request time.
const BEHIND_FROM: f64 = 0.3;

impl Said {
    pub(super) fn of(seen: &Seen, arguments: &Cure) -> Result<Said> {
        let unit = arguments.unit.as_deref();
        let analysis = &seen.analysis;
        let diagnosis = analysis.diagnosis.as_ref();
        let mechanism = diagnosis.and_then(|diagnosis| diagnosis.mechanism.clone());
        let finding = analysis.findings.iter().find(|finding| Some(&finding.id) == mechanism.as_ref());
        let is_problem = analysis.verdict_id != "not-storage"
            && diagnosis.is_some_and(|diagnosis| diagnosis.is_storage)
            && mechanism.as_deref() != Some("bulk-work");
        let verdict = match unit.filter(|_| !has_interest(seen)) {
            Some(unit) => format!("No thread of {unit} was blocked on storage. {}", analysis.verdict),
            None => analysis.verdict.clone(),
        };
        let per = arguments.per.as_ref();
        Ok(Said {
            is_problem,
            verdict,
            longest: longest(seen),
            most_frequent: seen.victim().and_then(|program| frequent(seen, program)),
            mechanism,
            cause: finding.map(|finding| finding.sentence.clone()),
            unit_of_work: per.map(|per| UnitOfWork::of(seen, per)).transpose()?.flatten(),
        })
    }

    pub(super) fn lines(&self, seen: &Seen) -> Vec<String> {
        let mut lines = vec![self.verdict.clone()];
        lines.extend(self.longest.iter().map(|longest| longest.sentence.clone()));
        lines.extend(self.most_frequent.iter().map(|frequent| frequent.sentence.clone()));
        lines.extend(self.unit_of_work.iter().map(|unit| unit.sentence().to_owned()));
        if self.is_problem {
            lines.extend(self.cause.iter().map(|cause| format!("Cause: {cause}")));
        }
        lines.extend(seen.analysis.validity.problems.iter().cloned());
        let since = match seen.from {
            Duration::ZERO => String::new(),
            from => format!(" --since {}s", from.as_secs()),
        };
        lines.push(format!("The recording: fonio report {}{since}", seen.recording.display()));
        lines
    }
}

fn has_interest(seen: &Seen) -> bool {
    let programs = seen.analysis.blocked.iter().flat_map(|blocked| &blocked.programs);
    programs.into_iter().any(|program| program.role == Role::OfInterest)
}

fn longest(seen: &Seen) -> Option<Stall> {
    let all = &seen.analysis.blocked.as_ref()?.long.longest;
    // A shell that waits for a copy is not what delays the person.
    let name = seen.victim().map(BlockedProgram::full_name);
    let wait = all.iter().find(|wait| Some(&wait.program) == name.as_ref()).or_else(|| all.first())?;
    let doing = doing(&wait.blocked_in, wait.file.as_deref(), wait.through.as_ref());
    let behind = wait.behind.iter().find(|row| row.share >= BEHIND_FROM);
    let behind = behind.map_or_else(String::new, |row| {
        let who = if row.is_own { "its own".to_owned() } else { format!("{}'s", row.full_name()) };
        format!(", behind {who} requests ({} of the outstanding I/O)", Unit::Share.format(row.share))
    });
    let time = Unit::Ns.format(wait.time_ns.0 as f64);
    Some(Stall {
        program: wait.program.clone(),
        seconds: wait.time_ns.as_secs_f64(),
        sentence: format!("Longest wait: {} stood still for {time} {doing}{behind}.", wait.program),
    })
}

fn frequent(seen: &Seen, program: &BlockedProgram) -> Option<Frequent> {
    let most = program.operations.iter().max_by_key(|row| row.waits).filter(|row| row.waits > 1)?;
    let span = seen.analysis.span.duration_ns.as_secs_f64();
    let mean_seconds = most.time_ns.as_secs_f64() / most.waits as f64;
    let file = program.file.as_ref().map(|file| file.path.as_str());
    let doing = doing(&most.blocked_in, file, None);
    Some(Frequent {
        program: program.full_name(),
        waits: most.waits,
        waits_per_minute: most.waits as f64 * 60.0 / span,
        mean_seconds,
        sentence: format!(
            "Most often: {} waited {} times {doing}, {} each on average.",
            program.full_name(),
            most.waits,
            Unit::S.format(mean_seconds)
        ),
    })
}
