//! Tests of the program's errors, graceful shutdown and backup.

#![allow(clippy::unwrap_used)] // A test may fail.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use fonio_storebench_document::sample;

use crate::support::{self, Answer};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fonio-results"))
}

struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(folder: &Path) -> Service {
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
        Service { child, address }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn head(body: &[u8]) -> String {
    support::head("POST", "/api/v1/results", &["Content-Type: application/json"], body.len())
}

fn submit(address: SocketAddr) -> u16 {
    // A result counts only once, so each one is different.
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let body = serde_json::to_vec(&sample::scaled(1.0 + f64::from(number) / 100.0)).unwrap();
    support::ask(address, &head(&body), &body).status
}

#[track_caller]
fn check(output: &Output, words: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("fonio-results: ") && error.contains(words) && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn errors_are_sentences_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |data: &Path, listen: &str| {
        program().args(["serve", "--listen", listen, "--data"]).arg(data).output().unwrap()
    };
    let missing = folder.path().join("missing");
    check(&serve(&missing, "127.0.0.1:0"), "create it, or give another one with --data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&serve(folder.path(), &address), "is in use by another program; choose another one with --listen");
    let damaged = tempfile::tempdir().unwrap();
    std::fs::write(
        damaged.path().join("results.sqlite"),
        "this is not a database, but it is long enough".repeat(100),
    )
    .unwrap();
    check(
        &serve(damaged.path(), "127.0.0.1:0"),
        "is damaged, or is not a database of fonio-results; restore a backup",
    );
    let service = Service::start(folder.path());
    check(&serve(folder.path(), "127.0.0.1:0"), "another fonio-results uses");
    drop(service);
    let unreachable = program().args(["serve", "--database", "postgres://x@127.0.0.1:1/x"]).output().unwrap();
    check(&unreachable, "check that PostgreSQL runs");
}

#[test]
fn sigterm_finishes_requests_and_a_backup_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Service::start(folder.path());
    assert_eq!(submit(service.address), 201);
    let copy = folder.path().join("copy");
    let back_up = || {
        program()
            .arg("backup")
            .arg("--data")
            .arg(folder.path())
            .arg(copy.join("results.sqlite"))
            .output()
            .unwrap()
    };
    std::fs::create_dir(&copy).unwrap();
    assert!(back_up().status.success());
    check(&back_up(), "a backup does not overwrite files");

    // Begin a request that is in progress when the signal arrives.
    let body = serde_json::to_vec(&sample::document()).unwrap();
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(head(&body).as_bytes()).unwrap();
    stream.write_all(&body[..100]).unwrap();
    // When a second request has completed, the connection of the first request must have been accepted.
    assert_eq!(submit(service.address), 201);
    service.signal("-TERM");
    stream.write_all(&body[100..]).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(service.child.wait().unwrap().success());

    let count = |folder: &Path| {
        let database = rusqlite::Connection::open(folder.join("results.sqlite")).unwrap();
        database.query_row("SELECT COUNT(*) FROM results", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((count(&copy), count(folder.path())), (1, 3));
    let mut restored = Service::start(&copy);
    restored.signal("-TERM");
    assert!(restored.child.wait().unwrap().success());
}
