//! Serves version 1 of the API. Its responses are JSON. `openapi.rs` describes the API.

mod answers;
mod fleet;
pub mod openapi;
mod rankings;
mod results;

pub use answers::Percentile;
pub(crate) use rankings::{KEYS, POINTS, ROWS, figure, no_key};
pub(crate) use results::{Found, document, find};

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;

use crate::problem::Problem;
use crate::service::Service;

/// Returns the router with the paths of the API.
pub fn router() -> Router<Service> {
    Router::new()
        .route("/api/v1/results", post(results::submit))
        .route("/api/v1/results/{id}", get(results::show).delete(results::delete))
        .route("/api/v1/fleet/{device}", get(fleet::days))
        .route("/api/v1/fleet/{device}/{day}", put(fleet::put))
        .route("/api/v1/ranking", get(rankings::ranking))
        .route("/api/v1/ecdf", get(rankings::ecdf))
        .route("/api/v1/keys", get(rankings::keys))
        .route("/openapi.json", get(openapi::show))
        .route("/healthz", get(health))
}

/// The response of the API, or the problem for which the request is refused.
pub(crate) type Answer = Result<Response, Json>;

/// A problem whose response is in JSON.
pub(crate) struct Json(Problem);

impl<T: Into<Problem>> From<T> for Json {
    fn from(problem: T) -> Json {
        Json(problem.into())
    }
}

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        self.0.into_json()
    }
}

pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    let text = serde_json::to_string(answer).expect("an answer is JSON");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Time limit for receiving a request body. Even on a slow link, the transfer of a document takes only a second.
const BODY_TIME: Duration = Duration::from_secs(15);

/// Receives a body of at most `bytes_max` bytes.
async fn receive(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let limited = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_TIME, limited).await {
        Ok(Ok(received)) => Ok(received.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let sentence = format!("the document is too large; at most {bytes_max} bytes are allowed");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, sentence))
        }
        Ok(Err(_)) => Err(Problem::bad("the document did not arrive completely; send it again")),
        Err(_) => {
            let sentence =
                format!("the document did not arrive within {} s; send it again", BODY_TIME.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, sentence))
        }
    }
}

/// Returns the token of the header `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Handles a health check: reports whether the database can be read.
async fn health(State(service): State<Service>) -> Answer {
    service
        .read(|connection, _| {
            connection.query("SELECT version FROM tables_version LIMIT 1", &[])?;
            Ok(())
        })
        .await?;
    Ok(json(StatusCode::OK, &answers::Health { status: "ok".to_owned() }))
}
