//! Section on histograms of latencies by other tools.

use fonio_analysis::requests::histograms::{LatencyHistogram, LatencyRange};

use super::About;
use crate::document::{Cell, Fact, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let all = &about.analysis.latency_histograms;
    let first = all.first()?;
    let of = if first.name.is_empty() { String::new() } else { format!(" of {}", first.name) };
    let words = format!(
        "The median latency of {} requests{of} is {}; the longest is {}.",
        Unit::Count.format(first.requests as f64),
        first.p50.in_words(),
        first.longest.in_words()
    );
    Some(Section {
        id: "histograms".into(),
        question: "How long did requests take?".into(),
        answer: words,
        tables: vec![percentiles(all), ranges(all)],
        notes: vec![
            "The ranges are powers of two, and the text shows only the number of requests in each. So a percentile is known only \
             as the range of its request."
                .to_owned(),
            "The text does not say whether the latencies include the time in the queue (`-Q`).".to_owned(),
        ],
        ..Section::default()
    })
}

/// Returns the requests of all histograms.
pub fn facts(all: &[LatencyHistogram]) -> Option<Fact> {
    let requests = all.iter().fold(0_u64, |sum, histogram| sum.saturating_add(histogram.requests));
    let note = if all.len() == 1 { "in a histogram" } else { "in all histograms" };
    (!all.is_empty()).then(|| Fact::new("Requests", Cell::count(requests, Unit::Count)).note(note))
}

fn name(histogram: &LatencyHistogram) -> Cell {
    match histogram.name.as_str() {
        "" => Cell::words("all requests"),
        name => Cell::Name(name.to_owned()),
    }
}

fn range(range: &LatencyRange) -> Cell {
    let (low, high) = (range.from_ns.0 as f64, range.below_ns.0 as f64);
    Cell::Range { low, point: None, high, unit: Unit::Ns, change: false }
}

fn percentiles(all: &[LatencyHistogram]) -> Table {
    Table::of("Latencies, as ranges", all)
        .column("Of", "Disk, flags of the requests, or both.", |row| name(row))
        .column("Requests", "", |row| Cell::count(row.requests, Unit::Count))
        .column("Median", "", |row| range(&row.p50))
        .column("90 %", "The 90th percentile.", |row| range(&row.p90))
        .or_drop()
        .column("99 %", "The 99th percentile.", |row| range(&row.p99))
        .column("Longest", "", |row| range(&row.longest))
        .table
}

fn ranges(all: &[LatencyHistogram]) -> Table {
    let rows = all.iter().flat_map(|histogram| histogram.ranges.iter().map(move |range| (histogram, range)));
    Table::of("Requests by latency", rows)
        .column("Of", "Disk, flags of the requests, or both.", |(histogram, _)| name(histogram))
        .column("Latency", "At least the first, and less than the second.", |(_, one)| range(one))
        .column("Requests", "", |(_, one)| Cell::count(one.requests, Unit::Count))
        .column("Share", "Of the requests of this histogram.", |(histogram, one)| {
            Cell::Bar(one.requests as f64 / histogram.requests.max(1) as f64)
        })
        .table
}
