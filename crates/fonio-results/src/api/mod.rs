//! Serves version 1 of the API. Its responses are JSON. `openapi.rs` describes the API.

mod answers;
pub mod openapi;
mod rankings;
mod results;

pub use answers::Percentile;
pub(crate) use rankings::{KEYS, POINTS, ROWS, figure, no_key};
pub(crate) use results::{Found, document, find};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use crate::problem::Problem;
use crate::service::Service;

/// Returns the router with the paths of the API.
pub fn router() -> Router<Service> {
    Router::new()
        .route("/api/v1/results", post(results::submit))
        .route("/api/v1/results/{id}", get(results::show).delete(results::delete))
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
