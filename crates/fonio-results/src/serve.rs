//! Implements the HTTP server. It accepts connections, limits their number and duration, and shuts down
//! gracefully.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;

use crate::limits;
use crate::problem::Problem;
use crate::service::Service;
use crate::{api, dump, pages};

/// Maximum number of open connections, in total and per network address. A connection needs a few tens of
/// KiB.
const CONNECTIONS_MAX: usize = 2048;
const CONNECTIONS_OF_ADDRESS_MAX: usize = 128;

/// Timeouts for clients.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Maximum time in which a client must send a request head. Idle connections are also closed after this
    /// time.
    pub head: Duration,
    /// Maximum time without progress while data is sent or received.
    pub stall: Duration,
    /// Maximum time for requests that are in progress at shutdown.
    pub stop: Duration,
}

impl Default for Times {
    /// The time limits are long enough for slow links, and for a browser that keeps its connection open
    /// between two clicks.
    fn default() -> Times {
        Times { head: Duration::from_secs(10), stall: Duration::from_secs(20), stop: Duration::from_secs(20) }
    }
}

/// Maximum size of a request head.
const HEAD_BYTES_MAX: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
struct Peer(IpAddr);

/// Returns the router for all paths of the service.
pub fn router(service: Service) -> Router {
    Router::new()
        .merge(api::router())
        .merge(dump::router())
        .merge(pages::router())
        .fallback(pages::no_page)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(service.clone(), guard))
        .with_state(service)
}

async fn wrong_method() -> Response {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this address does not support the method; the header Allow lists the supported methods",
    )
    .into_json()
}

/// Counts the request against the client's rate limit, and adds headers that prevent pages from running or
/// loading foreign content.
async fn guard(State(service): State<Service>, request: Request, next: Next) -> Response {
    let admitted = match request.extensions().get::<Peer>() {
        Some(Peer(peer)) => {
            let client = service.client(*peer, request.headers());
            let writes = matches!(*request.method(), Method::POST | Method::PUT | Method::DELETE);
            service.admit(client, writes)
        }
        None => Ok(()),
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_json(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        // A cache must not serve a deleted result.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Opens the socket on which the service listens. Returns a message that names the address or the port if the
/// service cannot listen on it.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {} is in use by another program; choose another one with --listen", address.port())
        }
        io::ErrorKind::PermissionDenied => format!(
            "port {} needs root; choose one above 1023 with --listen, and put a proxy in front of the service",
            address.port()
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "this machine does not have the address {}; choose another one with --listen",
                address.ip()
            )
        }
        _ => format!("cannot listen on {address}: {error}"),
    })
}

/// Serves until `stop` is ready; then finishes the requests in progress.
pub async fn serve(listener: TcpListener, router: Router, times: Times, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let connections = Connections::default();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => match connections.enter(peer.ip()) {
                Some(place) => connect(stream, (peer.ip(), place), router.clone(), times, &graceful),
                None => {
                    tokio::spawn(refuse(stream));
                }
            },
            Err(error) => {
                // The usual reason is that too many files are open. Retry after some connections have ended.
                eprintln!("fonio-results: cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(times.stop, graceful.shutdown()).await.is_err() {
        eprintln!("fonio-results: some connections did not end within {} s", times.stop.as_secs());
    }
}

fn connect(
    stream: TcpStream,
    (peer, place): (IpAddr, Place),
    router: Router,
    times: Times,
    graceful: &GracefulShutdown,
) {
    // Disable Nagle's algorithm, because it can delay a response on a persistent connection until an
    // acknowledgement arrives.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(times.stall));
    stream.set_write_timeout(Some(times.stall));
    let router = router.layer(axum::Extension(Peer(peer)));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(times.head).max_buf_size(HEAD_BYTES_MAX);
    let connection =
        builder.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // Ignore errors, because the client causes them: it disconnected, or was too slow.
        let _ = connection.await;
        drop(place);
    });
}

/// Sends the response that the service has too many connections.
async fn refuse(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
        Content-Type: application/json\r\nContent-Length: 79\r\n\r\n\
        {\"error\":\"there are too many connections; try again in a minute\",\"problems\":[]}";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(ANSWER)).await;
}

/// Number of open connections of each network address.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The slot of an open connection. Dropping this value frees the slot.
struct Place {
    connections: Connections,
    address: IpAddr,
}

impl Connections {
    fn enter(&self, address: IpAddr) -> Option<Place> {
        let address = limits::network(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&address).copied().unwrap_or(0);
        // From a loopback address, a proxy on this machine forwards the connections of all clients.
        let own_max = if address.is_loopback() { CONNECTIONS_MAX } else { CONNECTIONS_OF_ADDRESS_MAX };
        if all >= CONNECTIONS_MAX || own >= own_max {
            return None;
        }
        open.insert(address, own + 1);
        Some(Place { connections: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.address);
            }
        }
    }
}
