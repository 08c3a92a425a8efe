//! Builds the OpenAPI document. Its paths are written by hand, and its schemas are the schemas of the
//! response types.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fonio_storebench_document::document::{Document, JSON_BYTES_MAX};
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::answers;
use crate::fleet::FILE_BYTES_MAX;
use crate::problem::ProblemAnswer;

static TEXT: LazyLock<String> =
    LazyLock::new(|| serde_json::to_string_pretty(&document()).expect("it is JSON"));

/// `GET /openapi.json`.
pub(super) async fn show() -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

struct Schemas(SchemaGenerator);

impl Schemas {
    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    fn answer<T: JsonSchema>(&mut self, description: &str) -> Value {
        json!({ "description": description, "content": { "application/json": { "schema": self.of::<T>() } } })
    }

    /// Returns the responses of a path: its own responses, and the problems that it can report.
    fn answers(&mut self, own: Vec<(&str, Value)>, problems: &[(&str, &str)]) -> Value {
        let mut all: Map<String, Value> =
            own.into_iter().map(|(status, answer)| (status.to_owned(), answer)).collect();
        // On each path, a client can exceed its rate limit, and the database can be busy.
        for (status, description) in problems.iter().chain(&EVERYWHERE) {
            let mut answer = self.answer::<ProblemAnswer>(description);
            if ["429", "503"].contains(status) {
                answer["headers"] = json!({ "Retry-After": {
                    "description": "Seconds to wait before the next attempt.", "schema": { "type": "integer" } } });
            }
            all.insert((*status).to_owned(), answer);
        }
        Value::Object(all)
    }
}

const EVERYWHERE: [(&str, &str); 2] =
    [("429", "Too many requests came from this address."), ("503", "The service is overloaded or stopping.")];

const BAD_QUERY: (&str, &str) = ("400", "A parameter is missing, unknown or wrong.");

fn parameter(name: &str, place: &str, required: bool, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": place, "required": required, "description": description, "schema": schema })
}

/// The document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = Schemas(settings.into_generator());
    let own = schemas.answer::<answers::Keys>("The keys and figures.");
    let keys = schemas.answers(vec![("200", own)], &[BAD_QUERY]);
    let own = schemas.answer::<answers::Health>("The service can read its database.");
    let health = schemas.answers(vec![("200", own)], &[]);
    let paths = json!({
        "/api/v1/results": { "post": submit(&mut schemas) },
        "/api/v1/results/{id}": { "get": show_result(&mut schemas), "delete": delete(&mut schemas) },
        "/api/v1/ranking": { "get": ranking(&mut schemas) },
        "/api/v1/ecdf": { "get": ecdf(&mut schemas) },
        "/api/v1/keys": { "get": {
            "summary": "List comparison keys and ranked figures",
            "operationId": "keys",
            "responses": keys,
        } },
        "/api/v1/fleet/{device}": { "get": days(&mut schemas) },
        "/api/v1/fleet/{device}/{day}": { "put": put_day(&mut schemas) },
        "/dump/results.csv": { "get": dump(&mut schemas, "csv", "text/csv") },
        "/dump/results.parquet": { "get": dump(&mut schemas, "parquet", "application/vnd.apache.parquet") },
        "/healthz": { "get": {
            "summary": "Check whether the service can read its database",
            "operationId": "health",
            "responses": health,
        } },
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fonio results service",
            "version": "1",
            "description": "Receives results of fonio storebench, and ranks results with equal comparison keys.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": Value::Object(schemas.0.take_definitions(true)),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "The delete token of the result." },
                "fleet": { "type": "http", "scheme": "bearer", "description": "A token of the fleet." },
            },
        },
    })
}

fn id() -> Value {
    parameter(
        "id",
        "path",
        true,
        "The result's id.",
        json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }),
    )
}

fn key() -> Value {
    parameter(
        "key",
        "query",
        true,
        "The comparison key.",
        json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
    )
}

fn figure() -> Value {
    let names: Vec<&str> = crate::figures::ranked().iter().map(|figure| figure.name.as_str()).collect();
    parameter("figure", "query", true, "The figure.", json!({ "type": "string", "enum": names }))
}

fn submit(schemas: &mut Schemas) -> Value {
    let created = schemas.answer::<answers::Submitted>(
        "The result is stored on disk, and is ranked, hidden or held for review.",
    );
    json!({
        "summary": "Submit a result",
        "operationId": "submit",
        "requestBody": {
            "required": true,
            "description": format!("A document of fonio storebench, at most {JSON_BYTES_MAX} bytes."),
            "content": { "application/json": { "schema": schemas.of::<Document>() } },
        },
        "responses": schemas.answers(vec![("201", created)], &[
            ("400", "The body is not UTF-8, not JSON, or not a result."),
            ("408", "The body did not arrive in time."),
            ("409", "The same result was received before."),
            ("413", "The body is too large."),
            ("415", "The Content-Type of the body is not JSON."),
            ("422", "Values are out of range, or texts name a person, a machine or a single device."),
            ("507", "The disk of the service is full."),
        ]),
    })
}

fn show_result(schemas: &mut Schemas) -> Value {
    let shown = schemas.answer::<answers::Shown>("The result.");
    json!({
        "summary": "Show a result",
        "operationId": "result",
        "parameters": [id()],
        "responses": schemas.answers(vec![("200", shown)], &[("400", "The address cannot be read."), ("404", "No result has this id.")]),
    })
}

fn delete(schemas: &mut Schemas) -> Value {
    json!({
        "summary": "Delete a result",
        "operationId": "delete",
        "parameters": [id()],
        "security": [{ "token": [] }],
        "responses": schemas.answers(
            vec![("204", json!({ "description": "The result is deleted; pages, replies and dumps no longer contain it." }))],
            &[
                ("400", "The address cannot be read."),
                ("401", "The request has no token."),
                ("403", "The token does not belong to the result."),
                ("404", "No result has this id."),
                ("507", "The disk of the service is full."),
            ],
        ),
    })
}

fn device() -> Value {
    parameter(
        "device",
        "path",
        true,
        "The name of the device in the fleet.",
        json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$" }),
    )
}

const NO_FLEET: (&str, &str) = ("404", "The service receives no days of devices.");
const NO_TOKEN: (&str, &str) = ("401", "The request has no token, or the token is unknown or expired.");
const OTHER_DEVICE: (&str, &str) = ("403", "The token is for another device.");

fn days(schemas: &mut Schemas) -> Value {
    let own = schemas.answer::<answers::Days>("The days.");
    json!({
        "summary": "List the days that the fleet has of a device",
        "operationId": "days",
        "parameters": [device()],
        "security": [{ "fleet": [] }],
        "responses": schemas.answers(vec![("200", own)], &[
            ("400", "The name of the device cannot be read."), NO_TOKEN, OTHER_DEVICE, NO_FLEET]),
    })
}

fn put_day(schemas: &mut Schemas) -> Value {
    let day = json!({ "type": "string", "format": "date" });
    let file = json!({ "type": "string", "contentEncoding": "binary" });
    json!({
        "summary": "Send a day of a device",
        "operationId": "send_day",
        "parameters": [device(), parameter("day", "path", true, "The day (UTC).", day)],
        "security": [{ "fleet": [] }],
        "requestBody": {
            "required": true,
            "description": format!("The file of `fonio watch send`: JSON Lines, compressed with gzip, at most {FILE_BYTES_MAX} bytes."),
            "content": { "application/gzip": { "schema": file } },
        },
        "responses": schemas.answers(
            vec![("201", json!({ "description": "The day is stored on disk." }))],
            &[
                ("400", "The name of the device or the day cannot be read, or the body did not arrive completely."),
                NO_TOKEN,
                OTHER_DEVICE,
                NO_FLEET,
                ("408", "The body did not arrive in time."),
                ("409", "The fleet has this day of the device already."),
                ("413", "The body is too large."),
                ("422", "The file is damaged, belongs to another device or day, or the day is in the future."),
                ("507", "The disk of the service is full."),
            ],
        ),
    })
}

fn ranking(schemas: &mut Schemas) -> Value {
    let page = json!({ "type": "string", "pattern": "^[0-9a-f]{16}-[0-9]{1,18}$" });
    let by = json!({ "type": "string", "enum": ["result", "device"] });
    let ranking = schemas.answer::<answers::Ranking>("A page of the ranking.");
    json!({
        "summary": "Rank results with equal comparison keys",
        "operationId": "ranking",
        "parameters": [
            key(),
            figure(),
            parameter("page", "query", false, "The value of `next` from an earlier page.", page),
            parameter("by", "query", false, "Rank every result, or the best result of each device.", by),
        ],
        "responses": schemas.answers(vec![("200", ranking)], &[BAD_QUERY, ("404", "The key or the figure is unknown.")]),
    })
}

fn ecdf(schemas: &mut Schemas) -> Value {
    let ecdf = schemas.answer::<answers::Ecdf>("The distribution.");
    json!({
        "summary": "Show the distribution of a figure",
        "operationId": "ecdf",
        "parameters": [key(), figure()],
        "responses": schemas.answers(vec![("200", ecdf)], &[BAD_QUERY, ("404", "The key or the figure is unknown.")]),
    })
}

fn dump(schemas: &mut Schemas, format: &str, media_type: &str) -> Value {
    let own = json!({
        "description": "All received results except hidden and deleted results.",
        "content": { media_type: { "schema": { "type": "string", "format": "binary" } } },
    });
    json!({
        "summary": format!("Download all received results as {format}"),
        "operationId": format!("dump_{format}"),
        "responses": schemas.answers(vec![("200", own)], &[]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_its_schema() {
        let document = document();
        let text = document.to_string();
        let names: Vec<&str> = text
            .split("\"#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().expect("a text ends"))
            .collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
