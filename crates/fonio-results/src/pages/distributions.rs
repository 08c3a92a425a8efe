//! The page with a study's views of many devices (Nguyen and others, MobiSys 2015): the distribution of
//! iowait (figure 3), the response times of the four kinds of requests (figure 5), and the twenty best
//! devices (figure 6). The page does not show the study's own numbers, because the study used other devices
//! and tests.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;

use super::chart::{self, Chart, Curve, Texts};
use super::ranking::Row;
use super::{Choice, Page, chosen_key, count, html, interval, key_choices};
use crate::api::{KEYS, POINTS};
use crate::database::Connection;
use crate::entry;
use crate::figures::{self, Ranked};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::service::{Lookup, Service};
use crate::store::read::{self, Of, StoredKey};

struct DistributionRow {
    label: String,
    count: String,
    low: String,
    median: String,
    high: String,
}

struct Part {
    heading: &'static str,
    chart: Chart,
    rows: Vec<DistributionRow>,
}

#[derive(Default, Template)]
#[template(path = "distributions.html")]
struct Distributions {
    key: String,
    count: String,
    note: &'static str,
    keys: Vec<Choice>,
    charts: Vec<Part>,
    top: Vec<Row>,
}

const RESPONSES: [&str; 4] = [
    "response.seq_read.4k.mean",
    "response.rand_read.4k.mean",
    "response.seq_write.4k.mean",
    "response.rand_write.4k.mean",
];

/// Handles `GET /distributions`. By default, the page shows the comparison key with the most results.
pub(super) async fn show(State(service): State<Service>, uri: Uri) -> Page {
    let parameters = Parameters::of(&uri, &["key"])?;
    let wanted = parameters.get("key").map(str::to_owned);
    let page = service
        .read(move |connection, lookup| {
            let keys = read::keys(connection, KEYS)?;
            match chosen_key(connection, &keys, wanted.as_deref())? {
                Some(key) => page(connection, lookup, &keys, key),
                None => Ok(Distributions::default()),
            }
        })
        .await?;
    Ok(html(&page))
}

fn page(
    connection: &mut dyn Connection,
    lookup: &Lookup,
    keys: &[StoredKey],
    key: StoredKey,
) -> Result<Distributions, Problem> {
    let is_generated = entry::is_generated(&key.name);
    let note = if is_generated {
        "These results come from device models. They cannot be compared with the study's figures."
    } else {
        ""
    };
    let responses = "Response times of requests of 4 KiB";
    let iowait = "Processor time in iowait";
    let charts = [
        part(connection, lookup, key.key_id, responses, "responses", &RESPONSES)?,
        part(connection, lookup, key.key_id, iowait, "iowait", &["cpu.iowait"])?,
    ];
    let at = figures::find("bandwidth.total").expect("it is ranked");
    let summary = lookup.summary(connection, 0, key.key_id, at)?;
    let top = read::ranking(connection, &summary, lookup.scope(0, key.key_id, at), Of::Devices, None, 20)?;
    Ok(Distributions {
        count: count(key.results),
        note,
        keys: key_choices(keys, &key.name),
        charts: charts.into_iter().flatten().collect(),
        top: top.places.into_iter().map(|place| Row::of(place, &figures::ranked()[at])).collect(),
        key: key.of.name,
    })
}

fn part(
    connection: &mut dyn Connection,
    lookup: &Lookup,
    key_id: i64,
    heading: &'static str,
    id: &'static str,
    names: &[&str],
) -> Result<Option<Part>, Problem> {
    let (mut curves, mut rows) = (Vec::new(), Vec::new());
    let mut unit = None;
    for name in names {
        let at = figures::find(name).expect("it is ranked");
        let figure: &Ranked = &figures::ranked()[at];
        let summary = lookup.summary(connection, 0, key_id, at)?;
        let (Some(low), Some(median), Some(high)) =
            (summary.quantile(0.05), summary.quantile(0.5), summary.quantile(0.95))
        else {
            continue;
        };
        unit = Some(figure.unit);
        curves.push(Curve {
            label: figure.label.clone(),
            points: summary.points(POINTS),
            band: Some(summary.band()),
        });
        rows.push(DistributionRow {
            label: figure.label.clone(),
            count: count(summary.count()),
            low: figure.unit.format(low.value),
            median: format!("{} ({})", figure.unit.format(median.value), interval(&median, figure.unit)),
            high: figure.unit.format(high.value),
        });
    }
    let Some(unit) = unit else { return Ok(None) };
    let medians: Vec<String> =
        rows.iter().map(|row| format!("{}: median {}", row.label, row.median)).collect();
    let texts = Texts {
        id,
        title: heading.to_owned(),
        description: format!(
            "The share of results with lower values, from 0 to 100 %. {}.",
            medians.join("; ")
        ),
        caption: "Share of results with lower values.".to_owned(),
    };
    Ok(Some(Part { heading, chart: chart::draw(texts, unit, &curves, None), rows }))
}
