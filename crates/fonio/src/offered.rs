//! Selects the fix to try first on this machine, for the report of a recording.

use std::path::Path;

use fonio_analysis::waits::blocked::Role;
use fonio_analysis::{Analysis, Severity};
use fonio_core::Meta;
use fonio_experiment::Candidate;
use fonio_input::is_of_this_machine;

/// Returns up to two commands that the user should try first, based on findings that users can notice. The
/// first command applies the fix for the most important finding that has a fix. The second command measures
/// the first fix that can be switched on and off while programs run. A command is returned only if the
/// recording is from this machine and the fix can still be applied.
pub fn offered(analysis: &Analysis, meta: &Meta) -> Vec<String> {
    if !is_of_this_machine(meta) {
        return Vec::new();
    }
    let felt = analysis.findings.iter().filter(|finding| finding.severity >= Severity::Medium);
    let here: Vec<Here<'_>> = felt.filter_map(|finding| Here::of(finding.command.as_deref()?)).collect();
    let first = here.first().map(|Here { fix, place, .. }| {
        format!("sudo fonio fix apply {fix}{place} (try this; sudo fonio fix undo {fix} removes it)")
    });
    let unit = blocked_unit(analysis).map(|unit| format!(" --unit {unit}")).unwrap_or_default();
    let live = here.iter().find(|here| here.can_switch).map(|Here { fix, place, .. }| {
        format!("sudo fonio fix trial {fix}{place}{unit} (measures its gain in ten minutes)")
    });
    first.into_iter().chain(live).collect()
}

/// Returns the systemd unit of the program that was blocked longest, if any.
fn blocked_unit(analysis: &Analysis) -> Option<&str> {
    let mut programs = analysis.blocked.iter().flat_map(|blocked| &blocked.programs);
    let unit = programs.find(|program| program.role == Role::OfInterest)?.unit.as_deref();
    unit.filter(|unit| unit.ends_with(".service"))
}

/// A fix that can be applied on this machine.
struct Here<'a> {
    /// The name of the fix, such as `bfq`.
    fix: &'a str,
    /// The fix's target (device, file or unit), quoted for the shell, with a leading space; empty if not
    /// needed.
    place: &'a str,
    /// Whether the fix can be switched on and off while programs run.
    can_switch: bool,
}

impl Here<'_> {
    fn of(command: &str) -> Option<Here<'_>> {
        let words = command.strip_prefix("fonio fix apply ")?;
        let (fix, place) = words.split_at(words.find(' ').unwrap_or(words.len()));
        let path = match place.trim().trim_matches('\'') {
            "" => Path::new("/"),
            path => Path::new(path),
        };
        let candidate = Candidate::parse(fix).ok()?;
        let planned = candidate.setting()?.plan(path).ok()?;
        Some(Here { fix, place, can_switch: planned.target.cannot_switch().is_none() })
    }
}
