//! Serves figures over HTTP: `/metrics` for Prometheus, and `/api/status` for Home Assistant and other
//! programs.

use std::net::SocketAddr;
use std::sync::Arc;

use fonio_core::prometheus::CONTENT_TYPE;
use fonio_system::{Text, TextServer};

use super::{prometheus, status};
use crate::error::WatchError;
use crate::shared::Shared;

const INDEX: &str = "fonio watch\n\n/metrics     for Prometheus\n/api/status  JSON\n";

pub(super) fn start(address: SocketAddr, shared: Arc<Shared>) -> Result<TextServer, WatchError> {
    let listen = |error: std::io::Error| WatchError::Listen {
        address: address.to_string(),
        problem: error.to_string(),
    };
    TextServer::start(address, move |path| answer(path, &shared)).map_err(listen)
}

fn answer(path: &str, shared: &Shared) -> Option<Text> {
    match path {
        "/metrics" => Some(Text { kind: CONTENT_TYPE, text: prometheus::text(&shared.figures()) }),
        "/api/status" => {
            let status = status::of(&shared.figures());
            let text = serde_json::to_string(&status).unwrap_or_default() + "\n";
            Some(Text { kind: "application/json", text })
        }
        "/" => Some(Text::plain(INDEX)),
        _ => None,
    }
}
