//! Converts an analysis into a document: the user's questions with answers, tables and charts.
//!
//! Each file in this folder converts one or two parts of the analysis into a section. The file selects,
//! names and orders the numbers. Each number is a field of the analysis, possibly converted to a rate or to a
//! share of a total.

mod blocked;
mod files;
mod flushes;
mod head;
mod histograms;
mod interference;
mod io_share;
mod latency;
mod launch;
mod machine;
mod place;
mod processes;
mod queueing;
mod sizes;
mod slow_calls;
mod slowest;
mod sqlite;
mod statements;
mod terms;
mod trust;
mod uninterruptible;
mod when;

use fonio_analysis::requests::point::Point;
use fonio_analysis::verdict::validity::Validity;
use fonio_analysis::{Analysis, Bounds, Cdf, Class, Distribution, Group};
use fonio_core::meta::SHOWS_TOTALS;
use fonio_core::{Meta, Nanos};

use crate::document::{Cell, Document, Role, Section, Series};
use fonio_core::Unit;

impl Document {
    /// Creates the report on an analysis.
    pub fn from_analysis(analysis: &Analysis, meta: &Meta) -> Document {
        let about = About { analysis, meta };
        // The most interesting sections come first. Questions that the recording cannot answer are omitted;
        // `trust` gives the reason.
        let questions: [fn(&About<'_>) -> Option<Section>; 18] = [
            launch::section,
            blocked::section,
            uninterruptible::section,
            io_share::section,
            latency::section,
            processes::section,
            files::section,
            sqlite::section,
            when::section,
            slowest::section,
            interference::section,
            queueing::section,
            flushes::section,
            sizes::section,
            place::section,
            place::again,
            machine::section,
            trust::section,
        ];
        // Without requests, a trace of the scheduler answers only these questions.
        let of_scheduler: [fn(&About<'_>) -> Option<Section>; 3] =
            [uninterruptible::section, machine::section, trust::section];
        // Totals of devices are samples of the machine.
        let of_totals: [fn(&About<'_>) -> Option<Section>; 3] =
            [histograms::section, machine::section, trust::section];
        let of_calls: [fn(&About<'_>) -> Option<Section>; 2] = [slow_calls::section, trust::section];
        let questions = if about.analysis.slow_calls.is_some() {
            &of_calls[..]
        } else if about.is_scheduler_only() {
            &of_scheduler[..]
        } else if about.has_only_totals() {
            &of_totals[..]
        } else {
            &questions[..]
        };
        Document {
            title: head::title(&about),
            subtitle: head::subtitle(&about),
            verdict: head::verdict(&about),
            facts: head::facts(&about),
            opening: Vec::new(),
            findings: head::findings(&about),
            sections: questions.iter().filter_map(|question| question(&about)).collect(),
            terms: terms::all(),
            provenance: head::provenance(&about),
            next: Vec::new(),
        }
    }
}

/// What the report is about: an analysis and the metadata of its recording.
pub struct About<'a> {
    analysis: &'a Analysis,
    meta: &'a Meta,
}

impl About<'_> {
    /// Returns the length of the analysed time span in seconds.
    fn length_s(&self) -> f64 {
        self.analysis.span.duration_ns.as_secs_f64()
    }

    /// Returns the name of a device for readers.
    fn device(&self, index: u32) -> String {
        match self.analysis.devices.get(index as usize) {
            Some(device) => device.name.clone().unwrap_or_else(|| device.device.clone()),
            None => format!("device {index}"),
        }
    }

    /// Returns whether blocked threads were sampled. Recordings with sampled threads have no requests.
    fn is_sampled(&self) -> bool {
        self.analysis.blocked.as_ref().is_some_and(|blocked| blocked.is_sampled)
    }

    /// Returns whether the recording comes from a trace of the scheduler without block events.
    fn is_scheduler_only(&self) -> bool {
        self.analysis.uninterruptible.as_ref().is_some_and(|answer| !answer.has_block_events)
    }

    /// Returns whether the recording comes from totals of devices, without requests.
    fn has_only_totals(&self) -> bool {
        self.meta.source.shows.iter().any(|shown| shown == SHOWS_TOTALS)
    }

    /// Returns whether the recording is of a kind that can have requests.
    fn shows_requests(&self) -> bool {
        let is_of_calls = self.analysis.slow_calls.is_some();
        !self.is_sampled() && !self.is_scheduler_only() && !self.has_only_totals() && !is_of_calls
    }

    /// Returns whether the recording shows queueing. Otherwise, the response time is unknown, and the report
    /// uses service time.
    fn shows_response(&self) -> bool {
        let outstanding = &self.analysis.outstanding;
        outstanding.counted_from_issue < outstanding.timed
    }

    /// Returns the kind of time that tables and charts show for requests.
    fn lead(&self) -> Lead {
        if self.shows_response() { Lead::Response } else { Lead::Service }
    }

    fn process(&self, index: u32) -> Cell {
        match self.analysis.processes.processes.get(index as usize) {
            Some(process) => Cell::Name(process.name.clone()),
            None => Cell::Unknown,
        }
    }

    /// Returns a note for charts that show only a sample of the requests.
    fn sample_note(&self) -> String {
        let points = &self.analysis.points;
        let shown = points.sample.len() as u64;
        if shown >= points.of_requests {
            return String::new();
        }
        let count = |value: u64| Unit::Count.format(value as f64);
        format!("A sample of {} of {} requests.", count(shown), count(points.of_requests))
    }
}

/// Returns a note on how lost events affect the percentiles of a section; `None` if no events were lost.
fn loss_note(validity: &Validity) -> Option<String> {
    validity.has_loss().then(|| {
        format!(
            "{} were lost. Each can hide a request's latency, so maxima are lower bounds, percentiles are \
             ranges, and means, sums and curves cover the recorded requests only.",
            sentence_case(&validity.lost_in_words())
        )
    })
}

/// The kind of time that tables and charts show for requests: the response time if it is known, otherwise the
/// service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    Response,
    Service,
}

impl Lead {
    fn title(self) -> &'static str {
        match self {
            Lead::Response => "Response time",
            Lead::Service => "Service time (queueing not recorded)",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            Lead::Response => "Queued to completion",
            Lead::Service => "Issue to completion",
        }
    }

    /// Returns the words that follow a figure in a sentence such as "half of them complete within 2 ms …".
    fn aside(self) -> &'static str {
        match self {
            Lead::Response => "",
            Lead::Service => " (service time; queueing was not recorded)",
        }
    }

    fn pick<T>(self, response: T, service: T) -> T {
        match self {
            Lead::Response => response,
            Lead::Service => service,
        }
    }
}

/// Returns the cell of a value, or an unknown cell if the analysis does not have the value.
fn maybe(value: Option<u64>, unit: Unit) -> Cell {
    value.map_or(Cell::Unknown, |value| Cell::count(value, unit))
}

/// Returns a quantile of a distribution: its value or, if values are missing, the range in which it lies.
fn quantile(distribution: Option<&Distribution>, which: Quantile, unit: Unit) -> Cell {
    let Some(d) = distribution else { return Cell::Unknown };
    let missing = d.missing.as_ref();
    let (value, bounds) = match which {
        Quantile::P50 => (d.p50, missing.and_then(|m| m.p50)),
        Quantile::P90 => (d.p90, missing.and_then(|m| m.p90)),
        Quantile::P95 => (d.p95, missing.and_then(|m| m.p95)),
        Quantile::P99 => (d.p99, missing.and_then(|m| m.p99)),
        Quantile::P999 => (d.p999, missing.and_then(|m| m.p999)),
    };
    match bounds {
        None => maybe(value, unit),
        Some(Bounds { low, high: Some(high) }) if low == high => Cell::count(low, unit),
        Some(Bounds { low, high: Some(high) }) => {
            Cell::Range { low: low as f64, point: None, high: high as f64, unit, change: false }
        }
        Some(Bounds { low: 0, high: None }) => Cell::Unknown,
        Some(Bounds { low, high: None }) => Cell::AtLeast(low as f64, unit),
    }
}

#[derive(Clone, Copy)]
enum Quantile {
    P50,
    P90,
    P95,
    P99,
    P999,
}

/// Returns the maximum of a distribution, or the greatest recorded value.
fn greatest(distribution: Option<&Distribution>, unit: Unit) -> Cell {
    let Some(d) = distribution else { return Cell::Unknown };
    match (d.max, &d.missing) {
        (Some(max), _) => Cell::count(max, unit),
        (None, Some(missing)) => Cell::AtLeast(missing.max_at_least as f64, unit),
        (None, None) => Cell::Unknown,
    }
}

fn group_name(group: Group) -> &'static str {
    match group {
        Group::All => "all",
        Group::Reads => "all reads",
        Group::Read => "reads",
        Group::Readahead => "readahead",
        Group::Writes => "all writes",
        Group::WriteSync => "sync writes",
        Group::WriteAsync => "write-back",
        Group::WriteUnknown => "writes",
        Group::Flush => "flushes",
        Group::Discard => "discards",
        Group::Other => "others",
    }
}

fn group_role(group: Group) -> Role {
    match group {
        Group::All => Role::All,
        Group::Reads | Group::Read => Role::Read,
        Group::Readahead => Role::Readahead,
        Group::Writes | Group::WriteSync | Group::WriteUnknown => Role::Write,
        Group::WriteAsync => Role::WriteAsync,
        Group::Flush => Role::Flush,
        Group::Discard => Role::Discard,
        Group::Other => Role::Rest,
    }
}

/// Returns whether a row represents a single class. Rows of single classes never count a request twice.
fn is_single(group: Group) -> bool {
    !matches!(group, Group::All | Group::Reads | Group::Writes)
}

/// Returns the cumulative distribution as shares; `None` if the analysis contains no distribution.
fn cdf(name: &str, role: Role, distribution: &Distribution) -> Option<Series> {
    let Cdf { up_to, cumulative } = distribution.cdf.as_ref()?;
    let whole = cumulative.last().copied().filter(|last| *last > 0)? as f64;
    // The curve starts at the smallest value, with a share of 0.
    let x =
        std::iter::once(distribution.min).chain(up_to.iter().copied()).map(|value| value as f64).collect();
    let y = std::iter::once(0.0).chain(cumulative.iter().map(|count| *count as f64 / whole)).collect();
    Some(Series { name: name.to_owned(), role, x, y, ..Series::default() })
}

/// Returns the centres of the bins, in seconds of recording time.
fn bin_times(start_ns: f64, width: Nanos, bins: usize) -> Vec<f64> {
    (0..bins).map(|bin| (start_ns + (bin as f64 + 0.5) * width.0 as f64) / 1e9).collect()
}

/// Returns the sampled points as one series for each class that has points.
fn by_class(points: &[Point], y: impl Fn(&Point) -> Option<f64>) -> Vec<Series> {
    let mut all = Vec::new();
    for class in Class::ALL {
        let group = Group::from(class);
        let mut series =
            Series { name: group_name(group).to_owned(), role: group_role(group), ..Series::default() };
        for point in points.iter().filter(|point| point.class == class) {
            if let Some(y) = y(point) {
                series.x.push(point.at_ns.as_secs_f64());
                series.y.push(y);
            }
        }
        if !series.x.is_empty() {
            all.push(series);
        }
    }
    all
}

/// Converts the first letter of a sentence to upper case.
fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Joins words to a list: "a", "a and b", "a, b and c".
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Formats a count with thousands separators.
fn count(number: u64) -> String {
    Unit::Count.format(number as f64)
}
