//! Receives the days of devices of a fleet. All requests need a token of the fleet.

use std::io::ErrorKind;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::answers::Days;
use super::{Answer, bearer, json, receive};
use crate::fleet::{Day, Device, FILE_BYTES_MAX, Fleet, Stored, TokenProblem, check};
use crate::problem::Problem;
use crate::service::Service;

/// Handles `GET /api/v1/fleet/{device}`: lists the days that the fleet has of a device.
pub(super) async fn days(
    State(service): State<Service>,
    Path(device): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let (fleet, device) = admit(&service, &headers, &device)?;
    let days = blocking(move || fleet.days(&device)).await?;
    Ok(json(StatusCode::OK, &Days { days }))
}

/// Handles `PUT /api/v1/fleet/{device}/{day}`: stores the file of a day. The file is on disk before the reply is sent.
pub(super) async fn put(
    State(service): State<Service>,
    Path((device, day)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let (fleet, device) = admit(&service, &headers, &device)?;
    let day = Day::named(&day)
        .ok_or_else(|| Problem::bad(format!("`{day}` is not a day; a day has the form 2026-11-24")))?;
    // A device's clock can be some hours ahead.
    let tomorrow = today().checked_add(Span::new().days(1)).expect("the year is not 9999");
    if day.is_in_future(tomorrow) {
        let sentence = "the day is in the future; set the clock of the device";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, sentence).into());
    }
    let bytes = receive(body, FILE_BYTES_MAX).await?;
    let _admitted = service.admit_submission()?;
    check(&bytes, &device, day)
        .map_err(|fault| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, fault.to_string()))?;
    match blocking(move || fleet.store(&device, day, &bytes)).await? {
        Stored::New => Ok(StatusCode::CREATED.into_response()),
        Stored::Known => {
            let sentence = "the fleet has this day of the device already; a day counts only once";
            Err(Problem::new(StatusCode::CONFLICT, sentence).into())
        }
    }
}

/// Checks the token of a request that is about the device with this name.
fn admit(service: &Service, headers: &HeaderMap, device: &str) -> Result<(Arc<Fleet>, Device), Problem> {
    let fleet = service.fleet.clone().ok_or_else(|| {
        Problem::unknown(
            "this service receives no days of devices; its operator can enable this with --fleet",
        )
    })?;
    let token = bearer(headers).ok_or_else(|| {
        let sentence = "only devices of the fleet may do this; send the header Authorization: Bearer TOKEN";
        Problem::new(StatusCode::UNAUTHORIZED, sentence)
    })?;
    let device = named(device)?;
    match fleet.admit(token, &device, today()) {
        Ok(()) => Ok((fleet, device)),
        Err(problem @ TokenProblem::Device) => Err(Problem::new(StatusCode::FORBIDDEN, problem.to_string())),
        Err(problem @ (TokenProblem::Unknown | TokenProblem::Expired(_))) => {
            Err(Problem::new(StatusCode::UNAUTHORIZED, problem.to_string()))
        }
        Err(problem) => Err(Problem::broken(
            "the service cannot read its tokens",
            &format!("the file with the tokens of the fleet: {problem}"),
        )),
    }
}

fn named(device: &str) -> Result<Device, Problem> {
    Device::named(device).ok_or_else(|| {
        Problem::bad(
            "this is not the name of a device; use up to 64 letters, digits, dashes, dots and underscores",
        )
    })
}

/// Returns the present day (UTC).
fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// Runs work on files on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ErrorKind::Other.into())).map_err(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "the disk of the service is full, and nothing was stored; inform the operator, and send the day later",
        ),
        _ => Problem::broken(
            "the service cannot use the folder of the fleet",
            &format!("the folder of the fleet cannot be used: {error}"),
        ),
    })
}
