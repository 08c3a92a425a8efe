//! The HTTP server: `/metrics` for Prometheus, `/api/status` for Home Assistant and others. It reads nothing and changes nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tiny_http::{Header, Method, Request, Response, Server};

use super::{prometheus, status};
use crate::error::WatchError;
use crate::shared::Shared;

const INDEX: &str = "fonio watch\n\n/metrics     for Prometheus\n/api/status  JSON\n";

/// Listens in a thread of its own.
pub(super) fn start(
    address: SocketAddr,
    shared: Arc<Shared>,
) -> Result<(Arc<Server>, JoinHandle<()>), WatchError> {
    let listen = |problem: String| WatchError::Listen { address: address.to_string(), problem };
    let server = Arc::new(Server::http(address).map_err(|error| listen(error.to_string()))?);
    let own = Arc::clone(&server);
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        for request in own.incoming_requests() {
            answer(request, &shared);
        }
    });
    Ok((server, thread.map_err(|error| listen(error.to_string()))?))
}

fn answer(request: Request, shared: &Shared) {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    let (code, kind, text) = match (request.method(), path.as_str()) {
        (Method::Get | Method::Head, "/metrics") => {
            (200, "text/plain; version=0.0.4; charset=utf-8", prometheus::text(&shared.figures()))
        }
        (Method::Get | Method::Head, "/api/status") => {
            let status = status::of(&shared.figures());
            (200, "application/json", serde_json::to_string(&status).unwrap_or_default() + "\n")
        }
        (Method::Get | Method::Head, "/") => (200, "text/plain; charset=utf-8", INDEX.to_owned()),
        (Method::Get | Method::Head, _) => {
            (404, "text/plain; charset=utf-8", format!("there is no {path}; / lists what there is\n"))
        }
        (method, _) => (405, "text/plain; charset=utf-8", format!("{method} is not possible; use GET\n")),
    };
    let mut response = Response::from_string(text).with_status_code(code);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    // The other side may have gone.
    let _ = request.respond(response);
}
