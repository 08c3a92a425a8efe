//! Defines the response types of the API. The schemas of these types are part of the OpenAPI document.

use fonio_storebench_document::document::Document;
use schemars::JsonSchema;
use serde::Serialize;

use crate::entry::{Key, word};
use crate::figures::Ranked;
use crate::store::read::StoredDevice;
use crate::store::summary::{Point, Quantile};

/// Whether a result is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The result is ranked.
    Received,
    /// The result is not ranked; `reason` says why.
    Hidden,
    /// The result is not public until a person has reviewed the texts in `reason`.
    Held,
}

/// The response to a submission.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Submitted {
    /// The result's id.
    pub id: String,
    /// Whether the result is ranked.
    pub state: State,
    /// Why the result is hidden or held.
    pub reason: Option<String>,
    /// The secret token that deletes the result. Only this response contains the token.
    pub delete_token: String,
    /// The address of the result's page.
    pub page: String,
}

/// A result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// The result's id.
    pub id: String,
    /// Whether the result is ranked.
    pub state: State,
    /// Why the result is hidden.
    pub reason: Option<String>,
    /// The time of receipt, in seconds since 1970.
    pub received_unix_s: i64,
    /// The comparison key.
    pub key: String,
    /// The device.
    pub device: DeviceAnswer,
    /// The address of the result's page.
    pub page: String,
    /// The result's percentile for each ranked figure; empty for a hidden result.
    pub percentiles: Vec<Percentile>,
    /// The document as it was submitted.
    #[schemars(schema_with = "document_schema")]
    pub document: Document,
}

fn document_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "$ref": "#/components/schemas/Document" })
}

/// The rank and percentile of a figure among the results with the same key.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Percentile {
    /// The figure's name.
    pub figure: String,
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: String,
    /// The rank, from 1.
    pub rank: i64,
    /// The number of results, including this one.
    pub results: i64,
    /// The percentage of the other results that are not better; absent if there are no other results.
    pub percentile: Option<f64>,
    /// The lower end of Wilson's 95 % confidence interval of this percentage.
    pub low: Option<f64>,
    /// The upper end of Wilson's 95 % confidence interval of this percentage.
    pub high: Option<f64>,
}

/// A device model and its revision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceAnswer {
    /// The kind.
    pub kind: String,
    /// The manufacturer.
    pub maker: String,
    /// The model.
    pub model: String,
    /// The revision.
    pub revision: String,
    /// The path of the device's page.
    pub page: String,
}

impl DeviceAnswer {
    /// Creates the response for a stored device.
    pub fn of(device: &StoredDevice) -> DeviceAnswer {
        DeviceAnswer {
            kind: device.kind.clone(),
            maker: device.maker.clone(),
            model: device.model.clone(),
            revision: device.revision.clone(),
            page: format!("/devices/{}#{}", device.slug, device.revision_slug),
        }
    }
}

/// A ranked figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FigureAnswer {
    /// The name.
    pub name: String,
    /// The label for people.
    pub label: String,
    /// The unit.
    pub unit: String,
    /// `higher` or `lower`.
    pub better: String,
}

impl FigureAnswer {
    /// Creates the response for a ranked figure.
    pub fn of(figure: &Ranked) -> FigureAnswer {
        FigureAnswer {
            name: figure.name.clone(),
            label: figure.label.clone(),
            unit: word(&figure.unit),
            better: word(&figure.better),
        }
    }
}

/// A comparison key.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyAnswer {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The number of received results.
    pub results: i64,
}

/// The keys with results, and the ranked figures.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Keys {
    /// The keys, ordered by descending number of results.
    pub keys: Vec<KeyAnswer>,
    /// The figures.
    pub figures: Vec<FigureAnswer>,
}

/// A row of a ranking.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankingRow {
    /// The rank, from 1. Equal values have equal ranks.
    pub rank: i64,
    /// The value.
    pub value: f64,
    /// The result's id.
    pub id: String,
    /// The device.
    pub device: DeviceAnswer,
}

/// A page of a ranking.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ranking {
    /// The comparison key.
    pub key: String,
    /// The figure.
    pub figure: FigureAnswer,
    /// The number of results.
    pub results: i64,
    /// The rows, the best first.
    pub rows: Vec<RankingRow>,
    /// The parameter `page` of the next page, if there is one.
    pub next: Option<String>,
}

/// A distribution.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ecdf {
    /// The comparison key.
    pub key: String,
    /// The figure.
    pub figure: FigureAnswer,
    /// The number of results.
    pub results: i64,
    /// Quantiles with a precision of 0.4 %, and their 95 % intervals by order statistics.
    pub quantiles: Vec<Quantile>,
    /// Points of the distribution function, which is exact at these points.
    pub points: Vec<Point>,
    /// Half the width of the 95 % band around the function (Dvoretzky, Kiefer, Wolfowitz); absent if there
    /// are no results.
    pub band: Option<f64>,
}

/// The state of the service.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// The days that a fleet has of a device.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Days {
    /// The days (UTC), such as `2026-11-24`, in order.
    pub days: Vec<String>,
}
