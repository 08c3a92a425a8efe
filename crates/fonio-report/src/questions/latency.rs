//! Section on latency: which requests take long.

use fonio_analysis::requests::latency::LatencyRow;
use fonio_analysis::waits::outstanding::OutstandingRow;
use fonio_analysis::{Distribution, Group};

use super::{
    About, Lead, Quantile, cdf, greatest, group_name, group_role, is_single, loss_note, quantile,
    sentence_case,
};
use crate::document::{Axis, Cell, Chart, Column, Mark, Plot, Section, Series, Table};
use fonio_core::{Nanos, Unit};

pub fn section(about: &About<'_>) -> Option<Section> {
    let latency = &about.analysis.latency;
    if latency.groups.is_empty() {
        return None;
    }
    let mut notes: Vec<String> = loss_note(&about.analysis.validity).into_iter().collect();
    if !about.shows_response() {
        notes.push(
            "The recording does not show when requests were queued, so response time is unknown. The tables and \
             charts show service time instead, which does not include queueing."
                .to_owned(),
        );
    }
    let bare: Vec<String> = (latency.groups.iter())
        .filter(|row| row.response_ns.is_none() && row.service_ns.is_some())
        .map(|row| group_name(row.group).to_owned())
        .collect();
    if about.shows_response() && !bare.is_empty() {
        notes.push(format!(
            "The recording does not show the queueing of {} (the kernel issues flushes itself); the tables use their service time.",
            super::listed(&bare)
        ));
    }
    if !latency.readahead_known {
        notes.push("The source does not show which reads are readahead; all count as reads.".to_owned());
    }
    if !latency.sync_known {
        notes.push("The source does not show which writes are synchronous.".to_owned());
    }
    Some(Section {
        id: "latency".into(),
        question: "Which requests take long?".into(),
        answer: answer(about),
        figures: [outstanding(about), curves(about)].into_iter().flatten().collect(),
        tables: vec![table(about), service(&latency.groups)],
        notes,
        hints: Vec::new(),
    })
}

fn time_of(row: &LatencyRow, lead: Lead) -> Option<&Distribution> {
    lead.pick(row.response_ns.as_ref().or(row.service_ns.as_ref()), row.service_ns.as_ref())
}

fn outstanding_of(about: &About<'_>, group: Group) -> Option<OutstandingRow> {
    about.analysis.outstanding.groups.iter().find(|row| row.group == group).cloned()
}

fn answer(about: &About<'_>) -> String {
    let (rows, lead) = (&about.analysis.latency.groups, about.lead());
    // Kinds of requests that programs may wait for come first, because slow write-back may not affect
    // programs.
    let longest = about.analysis.outstanding.groups.iter().filter(|row| is_single(row.group));
    let longest = longest.max_by_key(|row| (row.of_waited_share.is_some(), row.time.ns));
    let Some(longest) = longest else {
        return "No completion was recorded, so no latency is known.".to_owned();
    };
    let mut answer = format!(
        "{}: outstanding for {} of the time",
        sentence_case(group_name(longest.group)),
        Unit::Share.format(longest.time.share)
    );
    let row = rows.iter().find(|row| row.group == longest.group);
    if let Some(times) = row.and_then(|row| time_of(row, lead)) {
        if let Some(median) = times.p50 {
            let median = Unit::Ns.format(median as f64);
            answer += &format!("; the median is {median}{}", lead.aside());
        }
        if let Some(tail) = times.p99 {
            answer += &format!(", the 99th percentile {}", Unit::Ns.format(tail as f64));
        }
    }
    answer += ".";
    let long = &about.analysis.outstanding.long;
    if long.count > 0 {
        answer += &format!(
            " {} {} took {} or longer (write-back not counted).",
            Unit::Count.format(long.count as f64),
            if long.count == 1 { "request" } else { "requests" },
            long.threshold_ns
        );
    }
    answer
}

fn outstanding(about: &About<'_>) -> Option<Chart> {
    let rows: Vec<&OutstandingRow> = (about.analysis.outstanding.groups.iter())
        .filter(|row| is_single(row.group) && row.time.ns > Nanos(0))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let names = rows.iter().map(|row| group_name(row.group).to_owned()).collect();
    let series = rows.iter().enumerate().map(|(at, row)| Series {
        name: group_name(row.group).to_owned(),
        role: group_role(row.group),
        x: vec![row.time.share],
        y: vec![at as f64],
        ..Series::default()
    });
    Some(Chart {
        id: "outstanding".into(),
        title: "Time outstanding".into(),
        caption: "Share of the time with at least one request of this kind outstanding. Kinds overlap."
            .into(),
        plot: Plot::StackedBar,
        x: Axis::linear("Share of the time", Unit::Share),
        y: Axis::categories("Kind", names),
        series: series.collect(),
        ..Chart::default()
    })
}

fn curves(about: &About<'_>) -> Option<Chart> {
    let lead = about.lead();
    let curves = about.analysis.latency.groups.iter().filter(|row| is_single(row.group));
    let series: Vec<Series> = curves
        .filter_map(|row| cdf(group_name(row.group), group_role(row.group), time_of(row, lead)?))
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(Chart {
        id: "latency-cdf".into(),
        title: format!("{}, cumulative", lead.title()),
        caption: "Share of requests that complete within each time. Curves further right are slower.".into(),
        plot: Plot::Step,
        x: Axis::log(lead.axis(), Unit::Ns),
        y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of requests", Unit::Share) },
        z: None,
        series,
        marks: vec![Mark::AtY { y: 0.99, label: "99 %".into() }, Mark::AtY { y: 0.5, label: "half".into() }],
    })
}

fn table(about: &About<'_>) -> Table {
    let lead = about.lead();
    let line = |row: &LatencyRow| {
        let times = time_of(row, lead);
        let mut cells = vec![
            Cell::words(group_name(row.group)),
            Cell::count(row.requests, Unit::Count),
            match row.group {
                // The row of all requests shows the share of requests that programs may wait for.
                Group::All => about.analysis.outstanding.waited.map(|waited| waited.share),
                group => outstanding_of(about, group).map(|row| row.time.share),
            }
            .map_or(Cell::Unknown, Cell::Bar),
        ];
        cells.extend(statistics(times));
        if lead == Lead::Response {
            cells.push(quantile(row.service_ns.as_ref(), Quantile::P50, Unit::Ns));
        }
        cells
    };
    let name = lead.pick("Response time", "Service time");
    let noted = |label: &str, what: &str| Column::noted(label, &format!("{name}{what}"));
    let mut columns = vec![
        Column::new("Requests of"),
        Column::new("Count"),
        Column::noted(
            "Outstanding",
            "Share of the time with at least one such request outstanding. In the row All: only reads, synchronous writes and flushes.",
        ),
        noted("Mean", lead.pick(": queued to completion.", ": issue to completion.")),
        noted("Median", ": half of the requests take no longer."),
        noted("95 %", " that 95 % of the requests do not exceed.").or_drop(),
        noted("99 %", " that 99 % of the requests do not exceed; needs 100 requests."),
        noted("99.9 %", " that 99.9 % of the requests do not exceed; needs 1000 requests.").or_drop(),
        noted("Longest", ": the longest."),
    ];
    if lead == Lead::Response {
        columns.push(Column::noted("Service median", "Issue to completion, without the queue.").or_drop());
    }
    Table {
        caption: format!("{} by kind", lead.title()),
        columns,
        rows: about.analysis.latency.groups.iter().map(line).collect(),
        ..Table::default()
    }
}

fn statistics(times: Option<&Distribution>) -> [Cell; 6] {
    [
        times.map_or(Cell::Unknown, |times| Cell::Number(times.mean, Unit::Ns)),
        quantile(times, Quantile::P50, Unit::Ns),
        quantile(times, Quantile::P95, Unit::Ns),
        quantile(times, Quantile::P99, Unit::Ns),
        quantile(times, Quantile::P999, Unit::Ns),
        greatest(times, Unit::Ns),
    ]
}

/// Returns a table of service times, as a detail that explains the response times.
fn service(rows: &[LatencyRow]) -> Table {
    let line = |row: &LatencyRow| {
        let times = row.service_ns.as_ref();
        let mut cells =
            vec![Cell::words(group_name(row.group)), row.latency_share.map_or(Cell::Unknown, Cell::Bar)];
        cells.extend(statistics(times));
        cells
    };
    Table {
        caption: "Service time by kind".into(),
        columns: vec![
            Column::new("Requests of"),
            Column::noted("Of the sum", "Share of all requests' summed service time."),
            Column::noted("Mean", "Issue to completion."),
            Column::new("Median"),
            Column::new("95 %"),
            Column::new("99 %"),
            Column::new("99.9 %"),
            Column::new("Longest"),
        ],
        rows: rows.iter().map(line).collect(),
        detail: true,
        ..Table::default()
    }
}
