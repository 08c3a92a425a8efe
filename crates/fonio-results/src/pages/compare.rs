//! The page that compares two results with the same comparison key.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use fonio_storebench_document::compare::{self, Answer, Compared};
use fonio_storebench_document::document::Document;

use super::{Page, html};
use crate::api::document;
use crate::database::Connection;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::service::Service;
use crate::store::read;
use crate::token;

struct Row {
    label: String,
    a: String,
    b: String,
    outcome: String,
}

#[derive(Default, Template)]
#[template(path = "compare.html")]
struct Comparison {
    a: String,
    b: String,
    name_a: String,
    name_b: String,
    verdict: Option<String>,
    rows: Vec<Row>,
}

/// Handles `GET /compare`.
pub(super) async fn show(State(service): State<Service>, uri: Uri) -> Page {
    let parameters = Parameters::of(&uri, &["a", "b"])?;
    let (a, b) = (parameters.get("a").unwrap_or("").to_owned(), parameters.get("b").unwrap_or("").to_owned());
    if a.is_empty() || b.is_empty() {
        return Ok(html(&Comparison { a, b, ..Comparison::default() }));
    }
    if !token::is_id(&a) || !token::is_id(&b) {
        return Err(Problem::no_result().into());
    }
    let page = service
        .read(move |connection, _| {
            let one = read::result(connection, &a)?.ok_or_else(Problem::no_result)?;
            let other = read::result(connection, &b)?.ok_or_else(Problem::no_result)?;
            if one.key_id != other.key_id {
                let key = |connection: &mut dyn Connection, id| {
                    read::key_by_id(connection, id)?.ok_or_else(Problem::no_result)
                };
                let (one, other) = (key(connection, one.key_id)?, key(connection, other.key_id)?);
                return Err(Problem::new(
                    StatusCode::CONFLICT,
                    format!(
                        "only results with equal keys can be compared; these have {} and {}",
                        one.name, other.name
                    ),
                ));
            }
            let name = |connection: &mut dyn Connection, id| {
                let device = read::device_by_id(connection, id)?.ok_or_else(Problem::no_result)?;
                Ok::<_, Problem>(device.name())
            };
            let (name_a, name_b) = (name(connection, one.device_id)?, name(connection, other.device_id)?);
            let rows = rows(&document(&one.document), &document(&other.document));
            let of = |word: &str| rows.iter().filter(|row| row.outcome.starts_with(word)).count();
            let verdict = format!(
                "A is better in {} figures, B is better in {}, and {} show no difference.",
                of("A"),
                of("B"),
                of("no difference")
            );
            Ok(Comparison { a, b, name_a, name_b, verdict: Some(verdict), rows })
        })
        .await?;
    Ok(html(&page))
}

/// Returns the rows of the table, with the same outcomes as `fonio storebench compare`.
fn rows(a: &Document, b: &Document) -> Vec<Row> {
    let row = |compared: Compared| {
        let (a, b) = (compared.first.value()?, compared.second.value()?);
        Some(Row {
            outcome: outcome(compared.answer, a.value, b.value),
            a: a.unit.format(a.value),
            b: b.unit.format(b.value),
            label: compared.figure.figure.label,
        })
    };
    compare::compare(a, b).figures.into_iter().filter_map(row).collect()
}

fn outcome(answer: Answer, a: f64, b: f64) -> String {
    let times = a.max(b) / a.min(b);
    let times = if times.is_finite() { format!(" ({times:.2} ×)") } else { String::new() };
    match answer {
        Answer::Better => format!("B is better{times}"),
        Answer::Worse => format!("A is better{times}"),
        Answer::Differs => format!("different{times}"),
        Answer::NoDifference => "no difference".to_owned(),
        Answer::OneRun => "only one run, so the spread is unknown".to_owned(),
        Answer::NotMeasured => "not measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fonio_storebench_document::figures as catalogue;

    use super::*;
    use fonio_storebench_document::sample;

    #[test]
    fn only_intervals_apart_are_a_difference() {
        let (one, faster) = (sample::document(), sample::scaled(2.0));
        assert!(rows(&one, &one).iter().all(|row| row.outcome == "no difference"));
        let rows = rows(&one, &faster);
        let outcome = |begins: &str, ends: &str| {
            let all = catalogue::catalogue().into_iter();
            let mut named =
                all.filter(|figure| figure.name.starts_with(begins) && figure.name.ends_with(ends));
            let label = named.next().unwrap().figure.label;
            &rows.iter().find(|row| row.label == label).unwrap().outcome
        };
        assert_eq!(outcome("bandwidth.", ""), "B is better (2.00 ×)");
        assert_eq!(outcome("response.", ".4k.p50"), "B is better (2.00 ×)");
        assert_eq!(outcome("speedup.", ".2"), "no difference");
    }
}
