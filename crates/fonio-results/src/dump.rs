//! Serves downloads of all received results, as CSV and as Parquet: one row for each result, one column for
//! each figure. A dump is produced in batches while it is sent, so it needs little memory and does not
//! contain results that were deleted before.

use std::io;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fonio_storebench_document::document::Document;
use fonio_storebench_document::figures as catalogue;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::api::document;
use crate::entry;
use crate::problem::Problem;
use crate::service::Service;
use crate::store::read;

/// Number of results per batch and per Parquet row group. A batch of 2,000 documents of 12 KB needs 24 MB
/// during conversion.
const PIECE: i64 = 2_000;

/// Maximum number of batches that wait to be sent to the client.
const AHEAD: usize = 2;

const COLUMNS: [&str; 16] = [
    "id",
    "received_unix_s",
    "key",
    "origin",
    "test_version",
    "effort",
    "mode",
    "file_system",
    "size_class_gb",
    "kind",
    "maker",
    "model",
    "revision",
    "capacity_bytes",
    "board",
    "kernel",
];

const WHOLE: [&str; 4] = ["received_unix_s", "test_version", "size_class_gb", "capacity_bytes"];

/// Returns the router with the paths of the dumps.
pub fn router() -> Router<Service> {
    Router::new().route("/dump/results.csv", get(csv)).route("/dump/results.parquet", get(parquet))
}

/// A result as a row of a dump: the cells of [`COLUMNS`], and the figures of the catalogue.
struct Row {
    cells: [Option<String>; COLUMNS.len()],
    figures: Vec<Option<f64>>,
}

impl Row {
    fn of(id: &str, received_at: i64, document: &Document, names: &[String]) -> Row {
        let (key, device) = (entry::key(document), entry::device(document));
        Row {
            cells: [
                Some(id.to_owned()),
                Some(received_at.to_string()),
                Some(key.name),
                Some(entry::word(&document.origin)),
                Some(document.key.test_version.to_string()),
                Some(entry::word(&document.key.effort)),
                Some(entry::word(&document.key.mode)),
                Some(key.file_system),
                Some(document.key.size_class_gb.to_string()),
                Some(device.kind),
                Some(device.maker),
                Some(device.model),
                Some(device.revision),
                Some(document.device.capacity_bytes.to_string()),
                document.machine.board.clone(),
                Some(document.machine.kernel.clone()),
            ],
            figures: names.iter().map(|name| Some(document.value(name)?.value)).collect(),
        }
    }
}

/// Encodes the rows of a dump in a file format.
trait Format: Send + 'static {
    /// Encodes a batch of rows.
    fn rows(&mut self, rows: &[Row]) -> io::Result<Vec<u8>>;

    /// Returns the bytes at the end of the file.
    fn end(self) -> io::Result<Vec<u8>>;
}

fn names() -> Vec<String> {
    catalogue::catalogue().into_iter().map(|figure| figure.figure.name).collect()
}

async fn csv(State(service): State<Service>) -> Response {
    let mut head: Vec<u8> = COLUMNS.join(",").into_bytes();
    for name in names() {
        head.extend([b",", name.as_bytes()].concat());
    }
    head.push(b'\n');
    send(service, "text/csv; charset=utf-8; header=present", "results.csv", Csv { head })
}

struct Csv {
    /// The header line of the CSV file; empty after it has been sent.
    head: Vec<u8>,
}

impl Format for Csv {
    fn rows(&mut self, rows: &[Row]) -> io::Result<Vec<u8>> {
        let mut out = std::mem::take(&mut self.head);
        for row in rows {
            for (at, cell) in row.cells.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_cell(&mut out, cell.as_deref().unwrap_or(""));
            }
            for figure in &row.figures {
                out.push(b',');
                out.extend(figure.map(|value| value.to_string()).unwrap_or_default().into_bytes());
            }
            out.push(b'\n');
        }
        Ok(out)
    }

    fn end(self) -> io::Result<Vec<u8>> {
        // If there were no results, the header line has not been sent yet.
        Ok(self.head)
    }
}

/// Writes a CSV cell as in RFC 4180. An apostrophe is put before a text that begins like a formula, because
/// spreadsheets would otherwise run it.
fn write_cell(out: &mut Vec<u8>, text: &str) {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !is_formula && !text.contains([',', '"', '\n', '\r']) {
        out.extend(text.as_bytes());
        return;
    }
    out.push(b'"');
    if is_formula {
        out.push(b'\'');
    }
    out.extend(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

async fn parquet(State(service): State<Service>) -> Response {
    let field = |name: &str| {
        let kind = if WHOLE.contains(&name) { DataType::Int64 } else { DataType::Utf8 };
        Field::new(name, kind, true)
    };
    let mut fields: Vec<Field> = COLUMNS.into_iter().map(field).collect();
    fields.extend(names().into_iter().map(|name| Field::new(name, DataType::Float64, true)));
    let schema = Arc::new(Schema::new(fields));
    let level = ZstdLevel::try_new(3).expect("the level is valid");
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties))
        .expect("the columns are valid");
    send(service, "application/vnd.apache.parquet", "results.parquet", Parquet { schema, writer })
}

struct Parquet {
    schema: Arc<Schema>,
    writer: ArrowWriter<Vec<u8>>,
}

impl Format for Parquet {
    fn rows(&mut self, rows: &[Row]) -> io::Result<Vec<u8>> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (at, name) in COLUMNS.iter().enumerate() {
            let cells = rows.iter().map(|row| row.cells[at].as_deref());
            columns.push(if WHOLE.contains(name) {
                Arc::new(
                    cells.map(|cell| cell.and_then(|cell| cell.parse::<i64>().ok())).collect::<Int64Array>(),
                )
            } else {
                Arc::new(cells.collect::<StringArray>())
            });
        }
        for at in 0..names().len() {
            columns.push(Arc::new(rows.iter().map(|row| row.figures[at]).collect::<Float64Array>()));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(io::Error::other)?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(io::Error::other)?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    fn end(self) -> io::Result<Vec<u8>> {
        self.writer.into_inner().map_err(io::Error::other)
    }
}

/// Sends a dump, unless too many dumps are being sent already.
fn send(service: Service, kind: &'static str, name: &str, format: impl Format) -> Response {
    let Ok(permit) = Arc::clone(&service.dumps).try_acquire_owned() else {
        let sentence = "other downloads of all results are running; try again in a minute";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence);
        return Problem { retry_after: Some(std::time::Duration::from_secs(60)), ..problem }.into_json();
    };
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    tokio::spawn(async move {
        if let Err(error) = produce(&service, format, &sender, permit).await {
            // For the client, this error looks like an aborted transfer.
            let _ = sender.send(Err(error)).await;
        }
    });
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, Body::from_stream(Pieces(receiver))).into_response()
}

async fn produce(
    service: &Service,
    mut format: impl Format,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    _permit: OwnedSemaphorePermit,
) -> io::Result<()> {
    let mut seq = 0;
    loop {
        let piece = service.read(move |connection, _| Ok(read::received(connection, seq, PIECE)?)).await;
        let piece = piece.map_err(|problem| io::Error::other(problem.sentence))?;
        let Some(last) = piece.last() else { break };
        seq = last.seq;
        let convert = move || {
            let names = names();
            let row = |stored: &read::Stored| {
                Row::of(&stored.id, stored.received_at, &document(&stored.document), &names)
            };
            let rows: Vec<Row> = piece.iter().map(row).collect();
            let bytes = format.rows(&rows);
            (format, bytes)
        };
        let (returned, bytes) = tokio::task::spawn_blocking(convert).await.map_err(io::Error::other)?;
        format = returned;
        if sender.send(Ok(bytes?.into())).await.is_err() {
            return Ok(());
        }
    }
    // Sending fails if the client has disconnected.
    let _ = sender.send(Ok(format.end()?.into())).await;
    Ok(())
}

/// The body of a dump, as a stream of batches.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl futures_core::Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_needed() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("=1+1", "\"'=1+1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
        ] {
            let mut out = Vec::new();
            write_cell(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
