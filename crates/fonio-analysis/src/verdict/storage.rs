//! Computes the figures on which the verdict is based: the time for which programs waited, or may have
//! waited, for storage.

use fonio_core::{Nanos, Unit};

use crate::analyser::questions::Analysis;
use crate::figures::facts::Facts;
use crate::question::ratio::ratio;
use crate::waits::blocked::{Blocked, PROBLEM_FROM, Role};

/// Adds the waiting time of the program of interest that waited longest. If no waits were recorded, adds the
/// time with outstanding requests for which programs may wait.
pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    let span = analysis.span.duration_ns;
    let label = "time that programs waited for storage, or may have waited";
    let problem = "storage is, or may be, a problem";
    let Some(blocked) = &analysis.blocked else {
        let Some(waited) = &analysis.outstanding.waited else { return };
        facts.share("storage.waited", label, waited.share);
        facts.count("storage.problem", problem, u64::from(waited.share >= PROBLEM_FROM));
        let label = "time with a request that programs may wait for, without waits of threads";
        facts.share("inferred.waited", label, waited.share);
        let longest = analysis.outstanding.response_ns.as_ref().and_then(|response| response.max);
        facts.amount("inferred.longest", "longest response, without waits of threads", longest.map(Nanos));
        let share = Unit::Share.format(waited.share);
        let words = format!("programs may have been waiting for it for {share} of {span}");
        facts.word("storage.waited_words", &words);
        return;
    };
    let worst = blocked.worst(Role::OfInterest);
    let share = worst.map_or(0.0, |program| program.worst.share);
    facts.share("storage.waited", label, share);
    facts.count("storage.problem", problem, u64::from(worst.is_some_and(|program| program.is_problem)));
    let bulk = blocked.worst(Role::BulkWork);
    let apart = bulk.map(|bulk| format!("apart from bulk work ({}), ", bulk.full_name())).unwrap_or_default();
    let words = match worst {
        Some(_) => format!(
            "{apart}no program was blocked on it for more than {} of {span}",
            Unit::Share.format(share).trim_start_matches('<')
        ),
        None => format!("{apart}no program was blocked on it in {span}"),
    };
    let elsewhere = blocked.elsewhere.as_ref().filter(|elsewhere| elsewhere.worst.share >= PROBLEM_FROM);
    let elsewhere = elsewhere.map(|elsewhere| {
        let share = Unit::Share.format(elsewhere.worst.share);
        let is_by_filter = analysis.filter.as_ref().is_some_and(|filter| !filter.devices.is_empty());
        let which = if is_by_filter { "that the filter leaves out" } else { "that was not recorded" };
        format!("; {} was blocked for {share} of the time on storage {which}", elsewhere.program)
    });
    facts.word("storage.waited_words", &(words + &elsewhere.unwrap_or_default()));
    let label = "some tasks stalled on io, beyond the waits of all threads";
    let unexplained = unexplained_pressure(blocked, analysis);
    facts.share("blocked.unexplained_pressure", label, unexplained);
}

/// Returns the share of time in which some task stalled on I/O, minus the waits of all threads.
fn unexplained_pressure(blocked: &Blocked, analysis: &Analysis) -> Option<f64> {
    let io = analysis.machine.pressure.iter().find(|pressure| pressure.resource == "io")?;
    let sum: Nanos = blocked.programs.iter().map(|program| program.time_ns).sum();
    Some((io.some_share? - ratio(sum, analysis.span.duration_ns)?).max(0.0))
}
