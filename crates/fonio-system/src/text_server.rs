//! A small read-only HTTP server for texts, such as figures for Prometheus or for home automation.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tiny_http::{Header, Method, Request, Response, Server};

const PLAIN: &str = "text/plain; charset=utf-8";

/// A text and its media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The media type of the text.
    pub kind: &'static str,
    /// The text itself.
    pub text: String,
}

impl Text {
    /// Creates a text for people.
    pub fn plain(text: impl Into<String>) -> Text {
        Text { kind: PLAIN, text: text.into() }
    }
}

/// A running server. It stops when it is dropped.
pub struct TextServer {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for TextServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextServer").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl TextServer {
    /// Listens at an address; with port 0, the kernel chooses the port. A thread calls `answer` with the path
    /// of each request; if it returns `None`, the path does not exist. Fails if listening fails.
    pub fn start(
        address: SocketAddr,
        answer: impl Fn(&str) -> Option<Text> + Send + 'static,
    ) -> io::Result<TextServer> {
        let listener = TcpListener::bind(address)?;
        let server = Arc::new(Server::from_listener(listener, None).map_err(io::Error::other)?);
        let own = Arc::clone(&server);
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            for request in own.incoming_requests() {
                respond(request, &answer);
            }
        })?;
        Ok(TextServer { server, thread: Some(thread) })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }
}

impl Drop for TextServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn respond(request: Request, answer: &impl Fn(&str) -> Option<Text>) {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    let (code, Text { kind, text }) = match request.method() {
        Method::Get | Method::Head => match answer(&path) {
            Some(text) => (200, text),
            None => (404, Text::plain(format!("{path} does not exist; see / for the valid paths\n"))),
        },
        method => (405, Text::plain(format!("{method} is not supported; use GET\n"))),
    };
    let mut response = Response::from_string(text).with_status_code(code);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    // The client may have closed its connection.
    let _ = request.respond(response);
}
