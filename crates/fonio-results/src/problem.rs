//! Defines problems with a request or with the service. Each problem has an HTTP status and a sentence. The
//! API reports problems as JSON, and the pages report them as HTML.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fonio_storebench_document as document;
use schemars::JsonSchema;
use serde::Serialize;

use crate::database::DatabaseError;
use crate::store::Refusal;

/// The reason why a request is refused.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The HTTP status of the response.
    pub status: StatusCode,
    /// A sentence about what happened, and what to do.
    pub sentence: String,
    /// The mistakes found in the submitted document.
    pub places: Vec<document::Problem>,
    /// How long the client should wait before the next attempt.
    pub retry_after: Option<Duration>,
}

/// The response to a refused request.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProblemAnswer {
    /// What happened, and what to do.
    pub error: String,
    /// The mistakes in the submitted document; empty for other problems.
    pub problems: Vec<document::Problem>,
}

impl Problem {
    /// Creates a problem with this status and this sentence.
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Problem {
        Problem { status, sentence: sentence.into(), places: Vec::new(), retry_after: None }
    }

    /// Creates the problem of a parameter that is missing or wrong.
    pub fn bad(sentence: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub(crate) fn no_result() -> Problem {
        Problem::unknown("no result has this id; it may have been deleted")
    }

    /// Creates the problem of a request for something that does not exist.
    pub fn unknown(sentence: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, sentence)
    }

    pub(crate) fn held() -> Problem {
        Problem::unknown("this result waits for review, and is not public yet")
    }

    /// Creates the problem for a client address that has sent too many requests.
    pub fn too_many(wait: Duration) -> Problem {
        let seconds = wait.as_secs_f64().ceil();
        let sentence = format!("too many requests came from this address; wait {seconds} s and try again");
        Problem { retry_after: Some(wait), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence) }
    }

    fn later(sentence: &str) -> Problem {
        let retry_after = Some(Duration::from_secs(1));
        Problem { retry_after, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence) }
    }

    /// Creates the problem of a request that may succeed after a number of seconds.
    pub(crate) fn later_than(seconds: u64, sentence: &str) -> Problem {
        let sentence = format!("{sentence}; try again in {seconds} s");
        let retry_after = Some(Duration::from_secs(seconds));
        Problem { retry_after, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence) }
    }

    /// Creates the problem that the operator must repair something, and writes the reason to the log.
    pub(crate) fn broken(sentence: &str, reason: &str) -> Problem {
        eprintln!("fonio-results: {reason}");
        Problem::later_than(
            60,
            &format!("{sentence}; the operator finds the reason in the log of the service"),
        )
    }

    /// Creates the problem of an overloaded service.
    pub fn busy() -> Problem {
        Problem::later("the service is overloaded; try again in a few seconds")
    }

    /// Returns the response for programs, in JSON.
    pub fn into_json(self) -> Response {
        let answer = ProblemAnswer { error: self.sentence.clone(), problems: self.places.clone() };
        let text = serde_json::to_string(&answer).expect("texts are JSON");
        let response = (self.status, [(header::CONTENT_TYPE, "application/json")], text).into_response();
        self.with_headers(response)
    }

    /// Adds the HTTP headers that the problem's status requires.
    pub fn with_headers(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs_f64().ceil() as u64;
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Problem {
        match error {
            DatabaseError::Busy => Problem::busy(),
            DatabaseError::Stopping => Problem::later("the service is stopping; try again in a minute"),
            error => {
                eprintln!("fonio-results: a request failed: {error}");
                Problem::later(
                    "the service cannot read its database; the operator finds the reason in the log of the service",
                )
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        match refusal {
            Refusal::Busy => Problem::busy(),
            Refusal::Stopping => Problem::later("the service is stopping; try again in a minute"),
            Refusal::Full => Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "the disk of the service is full, and nothing was stored; inform the operator, and send the result later",
            ),
            Refusal::Failed => Problem::later(
                "the service cannot write to its database, and nothing was stored; the operator finds the reason in the log of the service",
            ),
        }
    }
}
