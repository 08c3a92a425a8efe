//! Determines whether the figures can be trusted: missing, ambiguous or lost events, and values that the
//! source could not show.

use std::collections::{BTreeMap, VecDeque};

use fonio_core::{Diagnostic, EventKind, Meta, Nanos, Request, Severity, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the figures can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// False if the figures cannot be trusted; in this case, the command exits with code 3.
    pub ok: bool,
    /// Whether a tool other than fonio made the recording.
    #[serde(default)]
    pub is_foreign: bool,
    /// Whether the source has only totals of devices, without requests.
    #[serde(default)]
    pub is_totals_only: bool,
    /// The reasons, one sentence each.
    pub problems: Vec<String>,
    /// Values that the source could not show, one sentence each. Figures that need these values are absent,
    /// not zero.
    pub unknown: Vec<String>,
    /// The first few errors in the input and how fonio handled them, one sentence each with file, record and byte.
    pub input: Vec<String>,
    /// What the reader of a foreign trace notes: what it left out or did not use, and how exact the source is.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Requests analysed.
    pub requests: u64,
    /// Requests with a service time.
    pub with_service: u64,
    /// Requests with a response time.
    pub with_response: u64,
    /// Number of completed requests whose issue the source does not show.
    pub without_issue: u64,
    /// Number of issued requests whose completion is not in the recording.
    pub without_completion: u64,
    /// Number of requests without a completion that may have been in flight at the end. They were issued
    /// shortly before the end: at most one second before it, or at most the longest service time if that is
    /// more than a second.
    #[serde(default)]
    pub in_flight_at_end: u64,
    /// Number of requests that were queued but never issued, in a recording that shows issues. Their
    /// completions are not counted as missing.
    #[serde(default)]
    pub never_issued: u64,
    /// Number of requests with a completion before their issue or queueing; the source's timestamps are
    /// wrong.
    pub out_of_order_times: u64,
    /// Number of requests that were out of table order in the source.
    pub out_of_order_rows: u64,
    /// Number of requests that ended with an error.
    pub errors: u64,
    /// Number of events that match more than one request.
    pub ambiguous: u64,
    /// Number of events known to be lost within the span. If `lost_uncounted` is not 0, more events were
    /// lost.
    pub lost_events: u64,
    /// Number of gaps in which an unknown number of events was lost, at least one event each.
    #[serde(default)]
    pub lost_uncounted: u64,
    /// Gaps in the span.
    pub gaps: u64,
    /// The largest gaps, in time order; gaps of unknown size count as the largest.
    #[serde(default)]
    pub lost_where: Vec<LostPlace>,
    /// The assembler's counters, by name.
    pub assembly: BTreeMap<String, u64>,
}

use crate::figures::facts::{Facts, Frame};
use crate::question::context::{Context, Ending, LIVE};
use crate::question::loss::LostPlace;
use crate::question::ratio::ratio;
use crate::question::seen::Seen;
use crate::question::{Question, Row};

/// Share of lost events at which figures become unreliable (our choice). At 1 %, all values above the 99th
/// percentile may be lost.
const LOST_SHARE_MAX: f64 = 0.01;
/// Share of ambiguous events at which latencies become unreliable (our choice, for the same reason as for
/// lost events).
const AMBIGUOUS_SHARE_MAX: f64 = 0.01;
/// Share of requests without completion at which figures become unreliable (our choice). The end of a
/// recording can cut off the requests of a full queue, but not every tenth request.
const INCOMPLETE_SHARE_MAX: f64 = 0.1;
/// Number of completions that may be missing: the requests of a full queue.
const QUEUE_FULL: u64 = 64;
/// Maximum pause of a device, for example for garbage collection. A request without completion after this
/// time counts as a request whose completion is missing.
const PAUSE_MAX: Nanos = Nanos(1_000_000_000);
/// Maximum number of incomplete requests whose times are kept; only the latest requests are kept.
const INCOMPLETE_MAX: usize = 64 * 1024;
/// Minimum number of events of a request in a trace: issue and completion.
const EVENTS_OF_REQUEST: u64 = 2;

/// What a recording by ptrace does not show.
const CALLS_ONLY: &str =
    "Only file-system calls were recorded, so requests to devices and the waits of threads are unknown.";

/// What a trace of only the scheduler does not show.
const NO_BLOCK_EVENTS: &str = "The trace shows which threads were blocked, but has no block events, so the device, its queue and the cause are unknown.";

/// Formats of traces that can show the scheduler, and what such a trace lacks if it shows nothing.
const TRACES_OF_SCHEDULER: [&str; 4] = ["ftrace", "perf-script", "perfetto", "systrace"];
const NEITHER: &str = "The trace shows neither requests (block events) nor blocked threads (sched_switch).";
/// What a text with totals lacks.
const TOTALS_ONLY: &str = "The text has only totals of devices, so it does not show which requests were slow, whose they were, \
    and how deep the queue was.";

/// What a text with slow calls lacks.
const SLOW_CALLS_ONLY: &str =
    "The text has only slow calls of a file system, so devices, requests and faster calls are unknown.";

/// Code of the diagnostic for a completion whose issue was not seen.
const UNISSUED: &str = "completions-without-issue";
/// Maximum number of diagnostics shown; the recording contains all diagnostics.
const INPUT_MAX: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct ValidityTally {
    requests: u64,
    with_service: u64,
    with_response: u64,
    with_queue: u64,
    with_process: u64,
    with_requeues: u64,
    without_issue: u64,
    without_completion: u64,
    unissued: u64,
    /// Issue times of the latest requests that did not complete.
    incomplete: VecDeque<Timestamp>,
    service_max: Nanos,
    out_of_order_times: u64,
    out_of_order_rows: u64,
    errors: u64,
    input: Vec<String>,
    remarks: Vec<String>,
    /// Diagnostics of requests whose issue was not seen.
    unissued_input: Vec<String>,
}

impl Question for ValidityTally {
    type Answer = Validity;

    fn row(&mut self, row: Row, _: &mut Context) {
        let Row::Diagnostic(row) = row else { return };
        let kept = match row.severity >= Severity::Warning {
            true if row.code == UNISSUED => &mut self.unissued_input,
            true => &mut self.input,
            false => &mut self.remarks,
        };
        if kept.len() < INPUT_MAX {
            kept.push(sentence(row));
        }
    }

    #[inline]
    fn request(&mut self, row: &Request, seen: &Seen) {
        self.requests += 1;
        self.with_service += u64::from(seen.service.is_some());
        self.with_response += u64::from(seen.response.is_some());
        self.with_queue += u64::from(row.queued.is_some());
        self.with_process += u64::from(row.tid.is_some() || row.cause_tid.is_some());
        self.with_requeues += u64::from(row.requeues.is_some());
        self.without_issue += u64::from(row.issued.is_none());
        self.without_completion += u64::from(row.completed.is_none());
        self.service_max = self.service_max.max(row.service().unwrap_or_default());
        if row.completed.is_none() {
            self.add_incomplete(row);
        }
        let early = row.completed.is_some_and(|completed| {
            row.issued.is_some_and(|issued| completed < issued)
                || row.queued.is_some_and(|queued| completed < queued)
        }) || matches!((row.queued, row.issued), (Some(queued), Some(issued)) if issued < queued);
        self.out_of_order_times += u64::from(early);
        self.out_of_order_rows += u64::from(row.order_time() < seen.at);
        self.errors += u64::from(row.error.is_some_and(|error| error != 0));
    }

    fn finish(self, end: &mut Ending) -> Validity {
        let (meta, span, lost) = (end.meta, &end.span, &end.lost);
        let ambiguous = (meta.assembly.iter())
            .filter(|(name, _)| name.contains("ambiguous"))
            .fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        let shows_issue = self.without_issue < self.requests;
        let never_issued = if shows_issue { self.unissued } else { 0 };
        let without_completion = self.without_completion - never_issued;
        let in_flight_at_end = self.in_flight_at_end(meta);
        let missing = without_completion.saturating_sub(in_flight_at_end);
        let mut problems = Vec::new();
        // A live recording without requests is valid: nothing happened. A trace without requests usually
        // lacks the required events.
        let idle = end.is_live() && self.requests == 0 && lost.gaps == 0 && lost.events == 0;
        // A trace of the scheduler alone is judged by the waits of threads.
        let is_scheduler_only = self.requests == 0 && end.is_scheduler_only();
        // Texts that have no requests by their nature.
        let is_without_requests = self.requests == 0 && (end.is_totals_only() || end.is_slow_calls_only());
        if self.requests == 0 {
            if !idle && !end.is_calls_only() && !is_scheduler_only && !is_without_requests {
                let is_of_scheduler = TRACES_OF_SCHEDULER.contains(&meta.source.format.as_str());
                let problem = if is_of_scheduler { NEITHER } else { "There are no requests to analyse." };
                problems.push(problem.to_owned());
            }
        } else if self.without_completion == self.requests {
            problems.push("No completion was recorded, so the latency is unknown.".to_owned());
        } else if missing > QUEUE_FULL {
            let issued = self.requests - never_issued;
            let share = ratio(missing, issued).unwrap_or(0.0);
            if share >= INCOMPLETE_SHARE_MAX {
                problems.push(format!("The completions of {missing} of {issued} requests are missing."));
            }
        }
        let events = self.requests.saturating_mul(EVENTS_OF_REQUEST).saturating_add(lost.events);
        // The number of recorded events of the scheduler is unknown; waits across a loss are left out.
        let judges_loss = !is_scheduler_only && !is_without_requests;
        if judges_loss && ratio(lost.events, events).is_some_and(|share| share >= LOST_SHARE_MAX) {
            problems.push(format!(
                "{} were lost while recording; {} requests were recorded.",
                lost_in_words(lost.events, lost.uncounted),
                self.requests
            ));
        } else if judges_loss
            && lost.uncounted > 0
            && ratio(lost.uncounted_time, end.duration()).is_none_or(|share| share >= LOST_SHARE_MAX)
        {
            problems.push(format!(
                "{} were lost while recording, within gaps of {} in a recording of {}.",
                sentence_case(&lost_in_words(lost.events, lost.uncounted)),
                lost.uncounted_time,
                span.duration_ns
            ));
        }
        if ratio(ambiguous, self.requests).is_some_and(|share| share >= AMBIGUOUS_SHARE_MAX) {
            problems.push(format!(
                "{ambiguous} events fit more than one of the {} requests, so latencies may belong to other requests.",
                self.requests
            ));
        }
        if ratio(self.out_of_order_times, self.requests).is_some_and(|share| share >= AMBIGUOUS_SHARE_MAX) {
            problems.push(format!(
                "{} of {} requests complete before their issue, or are issued before they are queued: the source's clock is wrong.",
                self.out_of_order_times, self.requests
            ));
        }
        Validity {
            ok: problems.is_empty(),
            is_foreign: !end.is_live() && !end.is_calls_only() && !meta.source.format.is_empty(),
            is_totals_only: self.requests == 0 && end.is_totals_only(),
            problems,
            unknown: match self.requests {
                0 if end.is_calls_only() => vec![CALLS_ONLY.to_owned()],
                0 if is_scheduler_only => vec![NO_BLOCK_EVENTS.to_owned()],
                0 if end.is_slow_calls_only() => vec![SLOW_CALLS_ONLY.to_owned()],
                0 if end.is_totals_only() => vec![TOTALS_ONLY.to_owned()],
                0 => Vec::new(),
                _ => self.unknown(end),
            },
            input: self.input(meta),
            remarks: self.remarks.clone(),
            requests: self.requests,
            with_service: self.with_service,
            with_response: self.with_response,
            without_issue: self.without_issue - never_issued,
            without_completion,
            in_flight_at_end,
            never_issued,
            out_of_order_times: self.out_of_order_times,
            out_of_order_rows: self.out_of_order_rows,
            errors: self.errors,
            ambiguous,
            lost_events: lost.events,
            lost_uncounted: lost.uncounted,
            gaps: lost.gaps,
            lost_where: lost.places.clone(),
            assembly: meta.assembly.clone(),
        }
    }

    fn figures(validity: &Validity, _: &Frame, facts: &mut Facts) {
        facts.count("validity.ok", "valid measurement", u64::from(validity.ok));
        facts.count("validity.lost_events", "lost events", validity.lost_events);
        let label = "losses of an unknown number of events";
        facts.count("validity.lost_uncounted", label, validity.lost_uncounted);
        facts.count("validity.loss", "events were lost", u64::from(validity.has_loss()));
        facts.word("validity.lost", &validity.lost_in_words());
        facts.count("validity.ambiguous", "ambiguous events", validity.ambiguous);
        let share = ratio(validity.ambiguous, validity.requests);
        facts.share("validity.ambiguous_share", "ambiguous events, share of requests", share);
        facts.felt("validity.errors", "requests with an error", Unit::Count, validity.errors as f64);
        let without = validity.without_completion;
        facts.count("validity.without_completion", "requests without completion", without);
        let issued = validity.requests.saturating_sub(validity.never_issued);
        let share = ratio(without, issued);
        facts.share("validity.without_completion_share", "requests without completion, share", share);
        if let Some(problem) = validity.problems.first() {
            facts.word("validity.problem", problem.trim_end_matches('.'));
        }
    }
}

impl ValidityTally {
    /// Returns the diagnostics for users. At the start of a live recording, completions of requests that were
    /// already in flight are normal, so they are not reported.
    fn input(&self, meta: &Meta) -> Vec<String> {
        let unissued = meta.assembly.get(&UNISSUED.replace('-', "_")).copied().unwrap_or(0);
        let is_usual = meta.source.format == LIVE && unissued <= QUEUE_FULL;
        let unissued = self.unissued_input.iter().filter(|_| !is_usual);
        self.input.iter().chain(unissued).take(INPUT_MAX).cloned().collect()
    }

    #[cold]
    fn add_incomplete(&mut self, row: &Request) {
        let Some(issued) = row.issued else {
            self.unissued += u64::from(row.queued.is_some() || row.inserted.is_some());
            return;
        };
        if self.incomplete.len() == INCOMPLETE_MAX {
            self.incomplete.pop_front();
        }
        self.incomplete.push_back(issued);
    }

    /// Returns the number of requests that may have been in flight when the recording ended.
    fn in_flight_at_end(&self, meta: &Meta) -> u64 {
        let Some(ended) = meta.ended else { return 0 };
        let pause = self.service_max.max(PAUSE_MAX);
        self.incomplete.iter().filter(|issued| ended - **issued <= pause).count() as u64
    }

    fn unknown(&self, end: &Ending) -> Vec<String> {
        let response = &end.context.response;
        let lists_requeues = end.meta.source.shows.iter().any(|kind| kind == EventKind::Requeue.name());
        let cases = [
            (self.with_queue == 0, "The source shows no queueing: queue time and response are unknown."),
            (
                self.without_issue == self.requests,
                "The source shows no issue: service time is unknown, and requests count as in flight from queueing.",
            ),
            (self.with_process == 0, "The source does not show which thread a request belongs to."),
            (
                self.with_requeues == 0 && !lists_requeues,
                "The source does not show whether requests were requeued.",
            ),
            (!response.is_sync_known(), "The source does not show which writes are synchronous."),
            (!response.is_readahead_known(), "The source does not show which reads are readahead."),
        ];
        cases.into_iter().filter(|(unknown, _)| *unknown).map(|(_, sentence)| sentence.to_owned()).collect()
    }
}

impl Validity {
    /// Whether any event or gap is known to be lost.
    pub fn has_loss(&self) -> bool {
        self.lost_events > 0 || self.lost_uncounted > 0
    }

    /// Returns the number of lost events as the subject of a sentence: `3,012 events`, `at least 12 events`,
    /// `an unknown number of events`; `no event` if no event is known to be lost.
    pub fn lost_in_words(&self) -> String {
        lost_in_words(self.lost_events, self.lost_uncounted)
    }
}

fn lost_in_words(events: u64, uncounted: u64) -> String {
    let number = Unit::Count.format(events as f64);
    match (events, uncounted) {
        (0, 0) => "no event".to_owned(),
        (1, 0) => "1 event".to_owned(),
        (_, 0) => format!("{number} events"),
        (0, _) => "an unknown number of events".to_owned(),
        // Each gap of unknown size lost at least one event.
        _ => format!("more than {number} events"),
    }
}

fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn sentence(row: &Diagnostic) -> String {
    let mut place = row.file.clone().unwrap_or_default();
    for (what, at) in [("record", row.record), ("byte", row.offset)] {
        if let Some(at) = at {
            let comma = if place.is_empty() { "" } else { ", " };
            place = format!("{place}{comma}{what} {at}");
        }
    }
    let colon = if place.is_empty() { "" } else { ": " };
    // Some messages already contain the number.
    let has_number =
        row.message.split(|letter: char| !letter.is_ascii_digit()).any(|word| word == row.count.to_string());
    let times = if row.count > 1 && !has_number { format!(" ({} times)", row.count) } else { String::new() };
    format!("{place}{colon}{}{times}", row.message)
}

#[cfg(test)]
mod tests {
    use fonio_core::meta::Lost;
    use fonio_core::{LostEvents, Meta, Nanos, Request, RowSink, Timestamp};

    use crate::analyser::Analyser;
    use crate::analyser::tests::{analyse_rows, request, rows};
    use crate::filter::FilterOptions;
    use crate::question::options::AnalysisOptions;

    fn reads() -> Vec<Request> {
        (0..1000).map(|id| request(id, &format!("R 0+8 d{id} c{}", id + 1))).collect()
    }

    fn gap(count: Option<u64>, after: u64, before: u64) -> LostEvents {
        LostEvents { cpu: Some(0), count, after: Timestamp(after), before: Timestamp(before) }
    }

    fn meta(lost: u64, ambiguous: u64) -> Meta {
        let mut meta = Meta { lost: Lost { events: lost, ..Lost::default() }, ..Meta::default() };
        meta.assembly.insert("completions_ambiguous".to_owned(), ambiguous);
        meta
    }

    #[test]
    fn what_makes_a_measurement_invalid() {
        let whole = reads();
        let mut cut = whole.clone();
        cut[880..].iter_mut().for_each(|row| row.completed = None);
        let mut open = whole.clone();
        open.iter_mut().for_each(|row| row.completed = None);
        for (rows, lost, ambiguous, ok) in [
            (&whole, 0, 0, true),
            (&whole, 19, 9, true),
            (&whole, 21, 0, false),
            (&whole, 0, 10, false),
            (&cut, 0, 0, false),
            (&open, 0, 0, false),
        ] {
            let validity = analyse_rows(rows, &meta(lost, ambiguous)).validity;
            assert_eq!(validity.ok, ok, "{:?}", validity.problems);
            assert_eq!(validity.problems.is_empty(), ok);
        }
    }

    /// At the end, the scheduler's queue is full of writes, but the device has completed all issued requests.
    #[test]
    fn what_is_never_issued_misses_no_completion() {
        let done = (0..100).map(|id| request(id, &format!("W 0+8 q{id} d{id} c{}", id + 1)));
        let queued = (100..400).map(|id| request(id, &format!("W 0+8 q{id}")));
        let rows: Vec<_> = done.chain(queued).collect();
        let validity = analyse_rows(&rows, &Meta::default()).validity;
        assert!(validity.ok, "{:?}", validity.problems);
        assert_eq!((validity.never_issued, validity.without_completion, validity.without_issue), (300, 0, 0));
        // If a source does not show when requests are issued, the number of requests that were never issued
        // is unknown.
        let validity = analyse_rows(&rows[100..], &Meta::default()).validity;
        assert!(!validity.ok);
        assert_eq!(
            (validity.never_issued, validity.without_completion, validity.without_issue),
            (0, 300, 300)
        );
    }

    #[test]
    fn what_is_in_flight_at_the_end_is_not_lost() {
        let mut rows = reads();
        rows[500..].iter_mut().for_each(|row| row.completed = None);
        let ended = |at| Meta { ended: Some(fonio_core::Timestamp(at)), ..Meta::default() };
        let validity = analyse_rows(&rows, &ended(1_000_000)).validity;
        assert!(validity.ok, "{:?}", validity.problems);
        assert_eq!((validity.in_flight_at_end, validity.without_completion), (500, 500));
        let validity = analyse_rows(&rows, &ended(1_000_900_000)).validity;
        assert!(!validity.ok);
        assert_eq!((validity.in_flight_at_end, validity.without_completion), (100, 500));
    }

    #[test]
    fn loss_of_unknown_size_is_neither_one_nor_nothing() {
        let rows = reads();
        // The rows span 1 ms. In these two cases, the number of lost events is unknown for the gap of 1 us or
        // for the gap of 100 us.
        for (until, ok) in [(501_000, true), (600_000, false)] {
            let mut meta = Meta::default();
            meta.lost.add(gap(None, 500_000, until));
            let analysis = analyse_rows(&rows, &meta);
            let validity = &analysis.validity;
            assert_eq!((validity.lost_events, validity.lost_uncounted, validity.ok), (0, 1, ok));
            assert_eq!(validity.lost_in_words(), "an unknown number of events");
            let service = analysis.latency.groups[0].service_ns.as_ref().unwrap();
            assert_eq!((service.max, service.p50, service.p99), (None, None, None));
            let missing = service.missing.as_ref().unwrap();
            assert_eq!((missing.at_most, missing.max_at_least, missing.p50), (None, 1000, None));
            let figures = analysis.figures();
            let longest = figures.iter().find(|figure| figure.name == "latency.all.service.max").unwrap();
            assert_eq!((longest.value, longest.text.as_str()), (None, "unknown"));
        }
        let mut meta = Meta::default();
        meta.lost.add(gap(None, 1, 2));
        meta.lost.add(gap(Some(3), 1, 2));
        assert_eq!(analyse_rows(&rows, &meta).validity.lost_in_words(), "more than 3 events");
    }

    #[test]
    fn what_was_lost_outside_a_time_range_does_not_matter() {
        let rows = reads();
        let mut meta =
            Meta { began: Some(Timestamp(0)), ended: Some(Timestamp(1_000_000)), ..Meta::default() };
        meta.lost.add(gap(Some(700), 900_000, 1_000_000));
        let within = |until_ns| {
            let filter = FilterOptions { until_ns, ..FilterOptions::default() };
            let options = AnalysisOptions { filter: Some(filter), ..AnalysisOptions::default() };
            let mut analyser = Analyser::new(options);
            analyser.began(Timestamp(0)).unwrap();
            rows.iter().filter(|row| until_ns.is_none_or(|until| row.order_time().0 < until.0)).for_each(
                |row| {
                    analyser.request(row).unwrap();
                },
            );
            analyser.finish(&meta)
        };
        let (all, part) = (within(None), within(Some(Nanos(800_000))));
        assert_eq!(
            (all.validity.lost_events, all.validity.ok, all.validity.lost_where.len()),
            (700, false, 1)
        );
        assert_eq!(
            (part.validity.lost_events, part.validity.ok, part.validity.lost_where.len()),
            (0, true, 0)
        );
        assert!(part.latency.groups[0].service_ns.as_ref().unwrap().max.is_some());
    }

    #[test]
    fn a_source_that_lists_requeues_and_shows_none_had_none() {
        let rows = rows(&["R 0+8 d0 c1"]);
        let mut meta = Meta::default();
        let requeues = |meta: &Meta| {
            let analysis = analyse_rows(&rows, meta);
            let denied = analysis.validity.unknown.iter().any(|sentence| sentence.contains("requeued"));
            (analysis.queueing.requeues.map(|requeues| requeues.requeues), denied)
        };
        assert_eq!(requeues(&meta), (None, true));
        meta.source.shows = vec!["issue".to_owned(), "requeue".to_owned()];
        assert_eq!(requeues(&meta), (Some(0), false));
    }

    #[test]
    fn an_idle_device_is_an_answer() {
        let mut meta = Meta::default();
        assert!(!analyse_rows(&[], &meta).validity.ok);
        meta.source.format = "tracefs".to_owned();
        (meta.began, meta.ended) = (Some(Timestamp(0)), Some(Timestamp(12_000_000_000)));
        let analysis = analyse_rows(&[], &meta);
        assert!(analysis.validity.ok);
        assert_eq!(analysis.verdict_id, "not-storage");
    }

    #[test]
    fn diagnostics_name_their_place() {
        let row = fonio_core::Diagnostic {
            severity: fonio_core::Severity::Warning,
            code: "truncated-record".to_owned(),
            message: "The last record is cut off; it is left out.".to_owned(),
            file: Some("a.blktrace.0".to_owned()),
            record: Some(7),
            offset: Some(336),
            count: 2,
        };
        expect_test::expect![
            "a.blktrace.0, record 7, byte 336: The last record is cut off; it is left out. (2 times)"
        ]
        .assert_eq(&super::sentence(&row));
    }

    #[test]
    fn requests_in_flight_at_the_beginning_of_a_recording_are_usual() {
        let told = |format: &str, count: u64| {
            let mut analyser = Analyser::new(AnalysisOptions::default());
            let row = fonio_core::Diagnostic {
                severity: fonio_core::Severity::Warning,
                code: super::UNISSUED.to_owned(),
                message: "a completion fits nothing".to_owned(),
                file: None,
                record: None,
                offset: None,
                count,
            };
            analyser.diagnostic(&row).unwrap();
            let mut meta = Meta::default();
            meta.source.format = format.to_owned();
            meta.assembly.insert("completions_without_issue".to_owned(), count);
            analyser.finish(&meta).validity.input.len()
        };
        assert_eq!((told("tracefs", 3), told("tracefs", 65), told("blktrace", 3)), (0, 1, 1));
    }

    #[test]
    fn what_the_source_could_not_show() {
        let mut rows = rows(&["R 0+8 d0 c1", "W 0+8 d1 c2"]);
        rows.iter_mut().for_each(|row| row.flags_known = fonio_core::Flags::NONE);
        let validity = analyse_rows(&rows, &Meta::default()).validity;
        assert!(validity.ok);
        expect_test::expect![[r#"
            [
                "The source shows no queueing: queue time and response are unknown.",
                "The source does not show which thread a request belongs to.",
                "The source does not show whether requests were requeued.",
                "The source does not show which writes are synchronous.",
                "The source does not show which reads are readahead.",
            ]
        "#]]
        .assert_debug_eq(&validity.unknown);
    }
}
