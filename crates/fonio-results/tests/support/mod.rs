//! Runs a results service in this process, with SQLite or PostgreSQL, and provides a client that sends raw
//! bytes.

#![allow(dead_code)] // Each test program uses only a part of this module.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fonio_results::database::Location;
use fonio_results::forwarded::ProxyHeader;
use fonio_results::limits::Rate;
use fonio_results::serve::{self, Times};
use fonio_results::service::{Service, Settings};
use fonio_testing::Need;
use tokio::sync::oneshot;

/// A PostgreSQL server with its own folder and port. Dropping this value stops the server.
pub struct Postgres {
    server: Child,
    port: u16,
    databases: u32,
    _folder: tempfile::TempDir,
}

impl Postgres {
    /// Starts a server; `None` if PostgreSQL is not installed.
    pub fn start() -> Option<Postgres> {
        if !fonio_testing::has(&[Need::Postgres]) {
            return None;
        }
        let programs = fonio_testing::postgres_programs().expect("PostgreSQL was found before");
        let folder = tempfile::Builder::new().prefix("fonio-postgres").tempdir().unwrap();
        // PostgreSQL refuses to run as root, so root starts it as the user `nobody`.
        let is_root = folder_owner(folder.path()) == 0;
        if is_root {
            chown(folder.path(), Some(65534), Some(65534)).unwrap();
        }
        let program = |name: &str| {
            let mut command = if is_root {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(programs.join(name));
                command
            } else {
                Command::new(programs.join(name))
            };
            command
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let data = folder.path().join("data");
        let made = program("initdb")
            .args(["--auth=trust", "--username=fonio", "--no-sync", "-D"])
            .arg(&data)
            .status();
        assert!(made.unwrap().success(), "initdb failed");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = program("postgres")
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k"])
            .arg(folder.path())
            .arg("-D")
            .arg(&data)
            .spawn()
            .unwrap();
        let postgres = Postgres { server, port, databases: 0, _folder: folder };
        let until = Instant::now() + Duration::from_secs(60);
        while postgres.connect("postgres").is_err() {
            assert!(Instant::now() < until, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }

    fn url(&self, name: &str) -> String {
        format!("postgres://fonio@127.0.0.1:{}/{name}", self.port)
    }

    fn connect(&self, name: &str) -> Result<postgres::Client, postgres::Error> {
        postgres::Client::connect(&self.url(name), postgres::NoTls)
    }

    pub fn database(&mut self) -> Location {
        self.databases += 1;
        let name = format!("results_{}", self.databases);
        self.connect("postgres").unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Location::Server(self.url(&name))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT makes PostgreSQL shut down without waiting for its clients.
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

fn folder_owner(folder: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    folder.metadata().unwrap().uid()
}

pub struct Running {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Settings with limits that no test exceeds by accident.
pub fn settings(location: Location) -> Settings {
    let many = Rate { per_s: 1e6, burst: 1e6 };
    Settings {
        location,
        readers: 2,
        requests: many,
        submissions: many,
        submissions_at_once: 256,
        reviews: true,
        proxies: Vec::new(),
        proxy_header: ProxyHeader::XForwardedFor,
        public_url: String::new(),
        fleet: None,
    }
}

impl Running {
    pub fn start(settings: &Settings, times: Times) -> Running {
        let (service, writer) = Service::start(settings).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (send_address, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = serve::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
                send_address.send(listener.local_addr().unwrap()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                serve::serve(listener, serve::router(service), times, stop).await;
            });
            drop(runtime);
            writer.join().unwrap();
        });
        Running { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        ask(self.address, &head(method, path, headers, body.len()), body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub fn submit(&self, body: &[u8]) -> Answer {
        self.ask("POST", "/api/v1/results", &["Content-Type: application/json"], body)
    }

    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn head(method: &str, path: &str, headers: &[&str], bytes: usize) -> String {
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {bytes}\r\n");
    headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
    head + "\r\n"
}

pub fn ask(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The service may refuse a large body before it has arrived completely.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    Answer::read(&mut stream)
}

/// An HTTP response of the service.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status; 0 if the connection ended without a response.
    pub status: u16,
    /// The response head, in lower-case letters.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads an HTTP response until the connection ends.
    pub fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // If the connection is reset after the response, this also counts as the end of the response.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        let body = if head.contains("transfer-encoding: chunked") { unchunk(&body) } else { body };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head, body }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Checks that a request was refused with this status and these words.
#[track_caller]
pub fn check(answer: &Answer, status: u16, words: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(words), "{error}");
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    out
}
