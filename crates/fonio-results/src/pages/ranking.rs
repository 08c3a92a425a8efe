//! The page that shows a ranking of results or devices.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use fonio_core::Better;

use super::chart::{self, Chart, Curve, Texts};
use super::{Choice, Page, QuantileRow, chosen_key, count, html, key_choices, quantile_row, short};
use crate::api::{KEYS, POINTS, ROWS, figure};
use crate::figures::{self, Ranked};
use crate::problem::Problem;
use crate::query::{Parameters, page_name};
use crate::service::Service;
use crate::store::read::{self, Of, Place};
use crate::store::summary::Summary;

pub(super) struct Row {
    pub(super) rank: i64,
    pub(super) value: String,
    pub(super) slug: String,
    pub(super) device: String,
    pub(super) revision: String,
    pub(super) id: String,
    pub(super) short_id: String,
}

impl Row {
    pub(super) fn of(place: Place, figure: &Ranked) -> Row {
        Row {
            rank: place.rank,
            value: figure.unit.format(place.value),
            device: place.device.name(),
            slug: place.device.of.slug,
            revision: place.device.of.revision,
            short_id: short(&place.id),
            id: place.id,
        }
    }
}

#[derive(Template)]
#[template(path = "ranking.html")]
struct RankingPage {
    figure: String,
    verdict: String,
    higher: bool,
    keys: Vec<Choice>,
    figures: Vec<Choice>,
    by_device: bool,
    chart: Option<Chart>,
    count: String,
    quantiles: Vec<QuantileRow>,
    rows: Vec<Row>,
    is_first: bool,
    first: String,
    next: Option<String>,
}

/// Handles `GET /ranking`. By default, the page shows the comparison key with the most results.
pub(super) async fn show(State(service): State<Service>, uri: Uri) -> Page {
    let parameters = Parameters::of(&uri, &["key", "figure", "page", "by"])?;
    let at = figure(parameters.get("figure").unwrap_or(figures::FIRST))?;
    let (behind, of) = (parameters.page()?, parameters.by()?);
    let wanted = parameters.get("key").map(str::to_owned);
    let page = service
        .read(move |connection, lookup| {
            let keys = read::keys(connection, KEYS)?;
            let key = chosen_key(connection, &keys, wanted.as_deref())?
                .ok_or_else(|| Problem::unknown("there are no results yet"))?;
            let summary = lookup.summary(connection, 0, key.key_id, at)?;
            let page =
                read::ranking(connection, &summary, lookup.scope(0, key.key_id, at), of, behind, ROWS)?;
            Ok((keys, key, summary, page))
        })
        .await?;
    let (keys, key, summary, page) = page;
    let figure = &figures::ranked()[at];
    let by = if of == Of::Devices { "device" } else { "result" };
    let address = |page: &str| format!("/ranking?key={}&figure={}&by={by}{page}", key.name, figure.name);
    let choices = figures::ranked().iter().enumerate().map(|(other, figure)| Choice {
        value: figure.name.clone(),
        label: figure.label.clone(),
        chosen: other == at,
    });
    Ok(html(&RankingPage {
        verdict: verdict(figure, &key.name, &summary),
        higher: figure.better == Better::Higher,
        keys: key_choices(&keys, &key.name),
        figures: choices.collect(),
        by_device: of == Of::Devices,
        chart: (summary.count() > 0 && behind.is_none()).then(|| distribution(figure, &summary, None)),
        count: count(summary.count()),
        quantiles: summary.quantiles().iter().map(|quantile| quantile_row(quantile, figure.unit)).collect(),
        rows: page.places.into_iter().map(|place| Row::of(place, figure)).collect(),
        is_first: behind.is_none(),
        first: address(""),
        next: page.next.map(|next| address(&format!("&page={}", page_name(next)))),
        figure: figure.label.clone(),
    }))
}

fn verdict(figure: &Ranked, key: &str, summary: &Summary) -> String {
    match summary.quantile(0.5) {
        Some(median) => format!(
            "Half of the {} results with the key {key} are below {} (95 % interval: {}).",
            count(summary.count()),
            figure.unit.format(median.value),
            super::interval(&median, figure.unit)
        ),
        None => format!("No result with the key {key} has this figure."),
    }
}

/// Draws the distribution of a figure, with a marked value.
pub(super) fn distribution(figure: &Ranked, summary: &Summary, mark: Option<f64>) -> Chart {
    let (low, high) = (summary.quantile(0.05), summary.quantile(0.95));
    let spread = match (low, high) {
        (Some(low), Some(high)) => {
            format!(
                "90 % of the results are between {} and {}",
                figure.unit.format(low.value),
                figure.unit.format(high.value)
            )
        }
        _ => "there are no results".to_owned(),
    };
    let marked = mark.map(|value| format!(" The dashed line is this result, {}.", figure.unit.format(value)));
    let texts = Texts {
        id: "ecdf",
        title: format!("Distribution of {}", figure.label),
        description: format!(
            "The share of results with lower values, from 0 to 100 %: {spread}.{}",
            marked.clone().unwrap_or_default()
        ),
        caption: format!(
            "Share of {} results with lower values. With 95 % confidence, the band contains the distribution of all such devices.{}",
            count(summary.count()),
            marked.unwrap_or_default()
        ),
    };
    let curve =
        Curve { label: figure.label.clone(), points: summary.points(POINTS), band: Some(summary.band()) };
    chart::draw(texts, figure.unit, &[curve], mark)
}
