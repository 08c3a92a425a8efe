//! Section on interference: whether reads wait for writes.

use fonio_analysis::device::interference::{EqualDepth, Slowdown, SlowdownSide};

use super::About;
use crate::document::{Cell, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let interference = &about.analysis.interference;
    let pairs = [("reads", "writes", &interference.read), ("writes", "reads", &interference.write)];
    if pairs.iter().all(|(_, _, slowdown)| slowdown.with.requests == 0 || slowdown.without.requests == 0) {
        return None;
    }
    let sides = pairs.into_iter().flat_map(|(own, other, slowdown)| {
        [
            (format!("{own}, no {other} outstanding"), &slowdown.without),
            (format!("{own}, {other} outstanding"), &slowdown.with),
        ]
    });
    let compared =
        pairs.into_iter().filter_map(|(own, _, slowdown)| Some((own, slowdown.equal_depth.as_ref()?)));
    let tables = [at_equal_depth(compared), found_outstanding(sides)];
    Some(Section {
        id: "interference".into(),
        question: "Do reads wait for writes?".into(),
        answer: answer(&interference.read),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        notes: vec![
            "Requests that meet the other kind also meet more requests, so plain means differ even without interference. \
             The slowdown compares requests of similar size that found equally many requests outstanding. It is an \
             observation: only an experiment keeps everything else equal."
                .into(),
        ],
        ..Section::default()
    })
}

fn answer(reads: &Slowdown) -> String {
    let Some(equal) = &reads.equal_depth else {
        return "Unknown: too few reads can be compared at equal depth, with and without writes outstanding."
            .to_owned();
    };
    let times = |value: f64| Unit::Ratio.format(value);
    let interval =
        format!("{} (99 % interval {} to {})", times(equal.slowdown), times(equal.low), times(equal.high));
    if equal.low > 1.0 {
        format!("Yes: at equal depth, reads took {interval} as long with writes outstanding as without.")
    } else if equal.high < 1.0 {
        format!("No: at equal depth, reads took {interval} as long with writes outstanding as without.")
    } else {
        format!(
            "Not shown: at equal depth, reads took {interval} as long with writes outstanding as without."
        )
    }
}

fn at_equal_depth<'a>(compared: impl Iterator<Item = (&'a str, &'a EqualDepth)>) -> Table {
    Table::of("At equal depth", compared)
        .column("Requests", "", |(name, _)| Cell::words(*name))
        .column("Met the other", "Matched requests with the other kind outstanding.", |(_, equal)| {
            Cell::count(equal.with_requests, Unit::Count)
        })
        .column("Met their own", "Matched requests with only their own kind outstanding.", |(_, equal)| {
            Cell::count(equal.without_requests, Unit::Count)
        })
        .column("With", "Weighted mean time to completion with the other kind outstanding.", |(_, equal)| {
            Cell::Number(equal.with_mean_ns, Unit::Ns)
        })
        .column(
            "Without",
            "Weighted mean time to completion with only the own kind outstanding.",
            |(_, equal)| Cell::Number(equal.without_mean_ns, Unit::Ns),
        )
        .column("Slowdown", "Ratio of the means, with its 99 % interval.", |(_, equal)| {
            let (low, point, high) = (equal.low, Some(equal.slowdown), equal.high);
            Cell::Range { low, point, high, unit: Unit::Ratio, change: false }
        })
        .table
}

fn found_outstanding<'a>(sides: impl Iterator<Item = (String, &'a SlowdownSide)>) -> Table {
    Table::of("What requests found outstanding", sides)
        .column("Requests", "", |(name, _)| Cell::words(name))
        .column("Count", "", |(_, side)| Cell::count(side.requests, Unit::Count))
        .column(
            "Found",
            "Mean number of other requests outstanding when the request was queued.",
            |(_, side)| Cell::known(side.mean_depth, Unit::Number),
        )
        .column("Response", "Mean, queued to completion.", |(_, side)| {
            Cell::known(side.mean_response_ns, Unit::Ns)
        })
        .column("Service", "Mean, issue to completion.", |(_, side)| {
            Cell::known(side.mean_service_ns, Unit::Ns)
        })
        .or_drop()
        .column("Size", "Mean.", |(_, side)| Cell::known(side.mean_bytes, Unit::Bytes))
        .or_drop()
        .table
}
