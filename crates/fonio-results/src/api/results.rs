//! Handles the submission, display and deletion of a result.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use fonio_storebench_document::document::{Document, JSON_BYTES_MAX};

use super::answers::{DeviceAnswer, Percentile, Shown, State as Listed, Submitted};
use super::{Answer, bearer, json, receive};
use crate::database::Connection;
use crate::entry;
use crate::problem::Problem;
use crate::service::{Lookup, Service};
use crate::store::{Deletion, Outcome, book, held, order, read};
use crate::texts::UnknownText;
use crate::{compression, figures, submission, token};

/// Handles `POST /api/v1/results`: stores a result. The result is on disk before the reply is sent.
pub(super) async fn submit(State(service): State<Service>, headers: HeaderMap, body: Body) -> Answer {
    let received = document_bytes(&headers, body).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let _admitted = service.admit_submission()?;
    let submission::Read { entry, unknown } = submission::read(&received, now, &service.accepted)?;
    let unknown = if service.reviews { unknown } else { Vec::new() };
    let (reason, state) = match unknown.as_slice() {
        [] => (entry.hidden_reason.clone(), state(entry.hidden_reason.as_deref())),
        texts => (Some(review_reason(texts)), Listed::Held),
    };
    let stored = match service.writer.store(book::Submitted { entry, unknown }).await? {
        Outcome::Stored(stored) => stored,
        Outcome::Known { id } => {
            let sentence =
                format!("this result was sent before and has the id {id}; a result counts only once");
            return Err(Problem::new(StatusCode::CONFLICT, sentence).into());
        }
        Outcome::QueueFull => {
            let sentence = "too many results wait for review, and nothing was stored";
            return Err(Problem::later_than(REVIEW_S, sentence).into());
        }
    };
    let page = page(&service, &stored.id);
    let location = [(header::LOCATION, format!("/api/v1/results/{}", stored.id))];
    let answer = Submitted { id: stored.id, state, reason, delete_token: stored.delete_token, page };
    Ok((location, json(StatusCode::CREATED, &answer)).into_response())
}

/// The time after which a client tries again if too many results wait for review.
const REVIEW_S: u64 = 3600;

fn review_reason(texts: &[UnknownText]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{} `{}`", text.field, text.text)).collect();
    format!("a person must first review texts that the service does not know: {}", texts.join(", "))
}

fn page(service: &Service, id: &str) -> String {
    format!("{}/results/{id}", service.public_url)
}

fn state(hidden_reason: Option<&str>) -> Listed {
    if hidden_reason.is_some() { Listed::Hidden } else { Listed::Received }
}

async fn document_bytes(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let sentence = "a result is JSON; send it with the header Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence));
    }
    receive(body, JSON_BYTES_MAX).await
}

/// Handles `GET /api/v1/results/{id}`.
pub(super) async fn show(State(service): State<Service>, Path(id): Path<String>) -> Answer {
    if !token::is_id(&id) {
        return Err(Problem::no_result().into());
    }
    let shown = service
        .read(move |connection, lookup| {
            let Found { stored, document, key, device, percentiles } = find(connection, lookup, &id)?;
            Ok(Shown {
                state: state(stored.hidden_reason.as_deref()),
                id: stored.id,
                reason: stored.hidden_reason,
                received_unix_s: stored.received_at,
                key: key.of.name,
                device: DeviceAnswer::of(&device),
                page: String::new(),
                percentiles,
                document,
            })
        })
        .await?;
    let page = page(&service, &shown.id);
    Ok(json(StatusCode::OK, &Shown { page, ..shown }))
}

/// A stored result, with its key, its device, and its standing among other results.
pub(crate) struct Found {
    pub(crate) stored: read::Stored,
    pub(crate) document: Document,
    pub(crate) key: read::StoredKey,
    pub(crate) device: read::StoredDevice,
    /// The standing for each ranked figure; empty for a hidden result.
    pub(crate) percentiles: Vec<Percentile>,
}

/// Reads the stored result with this id.
pub(crate) fn find(connection: &mut dyn Connection, lookup: &Lookup, id: &str) -> Result<Found, Problem> {
    let Some(stored) = read::result(connection, id)? else {
        return Err(match held::find(connection, id)? {
            Some(_) => Problem::held(),
            None => Problem::no_result(),
        });
    };
    let document = document(&stored.document);
    let key = read::key_by_id(connection, stored.key_id)?.ok_or_else(Problem::no_result)?;
    let device = read::device_by_id(connection, stored.device_id)?.ok_or_else(Problem::no_result)?;
    let percentiles = match stored.hidden_reason {
        Some(_) => Vec::new(),
        None => percentiles(connection, lookup, stored.key_id, &document)?,
    };
    Ok(Found { stored, document, key, device, percentiles })
}

pub(crate) fn document(compressed: &[u8]) -> Document {
    let json = compression::decompress(compressed, JSON_BYTES_MAX).expect("the service stored the document");
    serde_json::from_slice(&json).expect("the service stored the document")
}

/// Returns the standing of each ranked figure of a document.
fn percentiles(
    connection: &mut dyn Connection,
    lookup: &Lookup,
    key_id: i64,
    document: &Document,
) -> Result<Vec<Percentile>, Problem> {
    let mut all = Vec::new();
    for (figure, value) in entry::ranked_figures(document) {
        let summary = lookup.summary(connection, 0, key_id, figure)?;
        let better = read::better_than(connection, &summary, lookup.scope(0, key_id, figure), value)?;
        all.push(percentile(figure, value, better, summary.count()));
    }
    Ok(all)
}

/// Returns the standing of a value among `results` results. `better` of these results are better than the
/// value.
fn percentile(figure: usize, value: f64, better: i64, results: i64) -> Percentile {
    let ranked = &figures::ranked()[figure];
    let others = u64::try_from(results - 1).unwrap_or(0);
    // The two counts come from two queries. After a commit between these queries, the counts can be
    // inconsistent by a few results.
    let not_better = others.saturating_sub(u64::try_from(better).unwrap_or(0));
    let interval = (others > 0).then(|| order::wilson(not_better, others));
    Percentile {
        figure: ranked.name.clone(),
        value,
        unit: entry::word(&ranked.unit),
        rank: better + 1,
        results,
        percentile: (others > 0).then(|| 100.0 * not_better as f64 / others as f64),
        low: interval.map(|(low, _)| 100.0 * low),
        high: interval.map(|(_, high)| 100.0 * high),
    }
}

/// Handles `DELETE /api/v1/results/{id}`, with the header `Authorization: Bearer TOKEN`.
pub(super) async fn delete(
    State(service): State<Service>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let Some(given) = bearer(&headers) else {
        let sentence = "only the sender can delete a result; send the header Authorization: Bearer TOKEN";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, sentence).into());
    };
    if !token::is_id(&id) {
        return Err(Problem::no_result().into());
    }
    match service.writer.delete(id, given.to_owned()).await? {
        Deletion::Deleted => Ok(StatusCode::NO_CONTENT.into_response()),
        Deletion::Unknown => Err(Problem::no_result().into()),
        Deletion::WrongToken => {
            let sentence = "this is not the token of the result, and nothing was deleted";
            Err(Problem::new(StatusCode::FORBIDDEN, sentence).into())
        }
    }
}
