//! Renders the HTML pages on the server, without scripts. Templates escape all texts.

mod chart;
mod compare;
mod devices;
mod distributions;
mod ranking;
mod result;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use fonio_core::Unit;

use crate::api::{KEYS, no_key};
use crate::database::Connection;
use crate::entry;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::service::Service;
use crate::store::read::{self, StoredKey};
use crate::store::summary::Quantile;

/// Returns the router with the paths of the pages.
pub fn router() -> Router<Service> {
    Router::new()
        .route("/", get(home))
        .route("/ranking", get(ranking::show))
        .route("/distributions", get(distributions::show))
        .route("/results/{id}", get(result::show))
        .route("/devices", get(devices::list))
        .route("/devices/{slug}", get(devices::show))
        .route("/compare", get(compare::show))
        .route("/style.css", get(style))
}

async fn style() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, "max-age=3600")];
    (headers, include_str!("../../templates/style.css")).into_response()
}

/// The response with a page, or the problem that an error page shows.
type Page = Result<Response, Wrong>;

/// A problem whose response is an HTML page.
struct Wrong(Problem);

impl<T: Into<Problem>> From<T> for Wrong {
    fn from(problem: T) -> Wrong {
        Wrong(problem.into())
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    title: &'static str,
    sentence: String,
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let title = match self.0.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::BAD_REQUEST => "The address is wrong",
            StatusCode::CONFLICT => "Not comparable",
            _ => "Not possible at the moment",
        };
        let mut sentence = self.0.sentence.clone();
        if let Some(first) = sentence.get(..1) {
            let first = first.to_ascii_uppercase();
            sentence.replace_range(..1, &first);
        }
        sentence.push('.');
        let page = html(&ProblemPage { title, sentence });
        self.0.with_headers((self.0.status, page).into_response())
    }
}

fn html(page: &impl Template) -> Response {
    Html(page.render().expect("writing a template into memory cannot fail")).into_response()
}

/// Returns the error page for an unknown address.
pub async fn no_page() -> Response {
    Wrong(Problem::unknown("no page has this address")).into_response()
}

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    measured: String,
    /// The number of generated results; `None` if there are none.
    generated: Option<String>,
    keys: Vec<StoredKey>,
    server: String,
}

async fn home(State(service): State<Service>, uri: axum::http::Uri) -> Page {
    Parameters::of(&uri, &[])?;
    let keys = service.read(|connection, _| Ok(read::keys(connection, KEYS)?)).await?;
    let of = |generated: bool| -> i64 {
        keys.iter().filter(|key| entry::is_generated(&key.name) == generated).map(|key| key.results).sum()
    };
    let (measured, generated) = (count(of(false)), Some(of(true)).filter(|results| *results > 0).map(count));
    let server =
        if service.public_url.is_empty() { "URL".to_owned() } else { service.public_url.to_string() };
    Ok(html(&Home { measured, generated, keys, server }))
}

/// An option in a selection field of a form.
struct Choice {
    value: String,
    label: String,
    chosen: bool,
}

/// Returns the comparison key with the given name. If no name is given, returns the first key in `keys`. This
/// is the key with the most results.
fn chosen_key(
    connection: &mut dyn Connection,
    keys: &[StoredKey],
    name: Option<&str>,
) -> Result<Option<StoredKey>, Problem> {
    match name {
        Some(name) => read::key_by_name(connection, name)?.ok_or_else(no_key).map(Some),
        None => Ok(keys.first().cloned()),
    }
}

/// Returns the form options for choosing a comparison key.
fn key_choices(keys: &[StoredKey], chosen: &str) -> Vec<Choice> {
    let mut choices: Vec<Choice> = keys
        .iter()
        .map(|key| Choice {
            value: key.name.clone(),
            label: format!("{} ({})", key.name, count(key.results)),
            chosen: key.name == chosen,
        })
        .collect();
    if !choices.iter().any(|choice| choice.chosen) {
        choices.push(Choice { value: chosen.to_owned(), label: chosen.to_owned(), chosen: true });
    }
    choices
}

/// Formats a count with thin spaces between groups of three digits.
fn count(number: i64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Returns the first digits of a result's id.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

struct QuantileRow {
    share: String,
    value: String,
    interval: String,
}

fn quantile_row(quantile: &Quantile, unit: Unit) -> QuantileRow {
    QuantileRow {
        share: format!("{:.0} %", quantile.share * 100.0),
        value: unit.format(quantile.value),
        interval: interval(quantile, unit),
    }
}

fn interval(quantile: &Quantile, unit: Unit) -> String {
    match (quantile.low, quantile.high) {
        (Some(low), Some(high)) => format!("{} to {}", unit.format(low), unit.format(high)),
        _ => "too few results".to_owned(),
    }
}

/// Formats the date of a time in seconds since 1970: `2026-11-24`.
fn day(unix_s: i64) -> String {
    let time = jiff::Timestamp::from_second(unix_s).expect("times of the service's clock are valid");
    time.strftime("%F").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_counts_are_written_for_people() {
        for (seconds, expected) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_478_400, "2026-11-24")]
        {
            assert_eq!(day(seconds), expected);
        }
        assert_eq!(count(1234), "1234");
        assert_eq!(count(10_000_000), "10\u{202f}000\u{202f}000");
    }
}
