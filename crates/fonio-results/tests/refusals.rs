//! Tests that the service refuses bad requests with an explanation and keeps running.

#![allow(clippy::unwrap_used)] // A test may fail.

use crate::support;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use fonio_results::database::Location;
use fonio_results::limits::Rate;
use fonio_results::serve::Times;
use fonio_results::service::Settings;
use fonio_storebench_document::sample;
use support::{Answer, Running, check, settings};

fn on_sqlite(change: impl FnOnce(&mut Settings), times: Times) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(Location::Folder(folder.path().to_owned()));
    change(&mut settings);
    (Running::start(&settings, times), folder)
}

fn sample() -> Vec<u8> {
    serde_json::to_vec(&sample::document()).unwrap()
}

#[test]
fn bad_bodies_are_refused_in_words() {
    let (service, _folder) = on_sqlite(|_| (), Times::default());
    check(&service.submit(&vec![b' '; 100_000]), 413, "at most 65536 bytes");
    check(&service.submit("[".repeat(50_000).as_bytes()), 400, "not a StoreBench result");
    check(&service.submit(format!("{{\"schema\":{}", "[".repeat(50_000)).as_bytes()), 400, "not");
    check(&service.submit(b"{\"schema\": \"\xff\"}"), 400, "not UTF-8 at byte 12");
    check(&service.submit(b""), 400, "not JSON");
    check(&service.submit(b"{}"), 400, "missing field");
    check(
        &service.ask("POST", "/api/v1/results", &["Content-Type: text/plain"], &sample()),
        415,
        "Content-Type",
    );

    let mut unknown = serde_json::to_value(sample::document()).unwrap();
    unknown["device"]["serial"] = "1234".into();
    check(&service.submit(unknown.to_string().as_bytes()), 400, "unknown field `serial`");
    for (place, value, words) in [
        (
            "/device/model",
            "0123456789abcdef0123",
            "device.model: the text has a number that looks like a serial number",
        ),
        ("/machine/board", "ann-pi.local", "machine.board: the text has the name of a host"),
        ("/verdict", "see /home/ann/result", "verdict: the text has a path"),
    ] {
        let mut private = serde_json::to_value(sample::document()).unwrap();
        *private.pointer_mut(place).unwrap() = value.into();
        let answer = service.submit(private.to_string().as_bytes());
        check(&answer, 422, words);
        assert_eq!(answer.json()["problems"].as_array().map(Vec::len), Some(1));
    }
    check(&service.ask("PUT", "/api/v1/keys", &[], b""), 405, "does not support the method");
    assert_eq!(service.submit(&sample()).status, 201);
}

#[test]
fn a_flood_is_refused_and_others_are_served() {
    let (service, _folder) = on_sqlite(
        |settings| {
            settings.submissions = Rate { per_s: 0.01, burst: 3.0 };
            settings.proxies = vec!["127.0.0.1".parse().unwrap()];
        },
        Times::default(),
    );
    let number = std::cell::Cell::new(0);
    let send = |client: &str| {
        let client = format!("X-Forwarded-For: 192.0.2.99, {client}");
        // A result counts only once, so each one is different.
        number.set(number.get() + 1);
        let body = serde_json::to_vec(&sample::scaled(1.0 + f64::from(number.get()) / 100.0)).unwrap();
        service.ask("POST", "/api/v1/results", &["Content-Type: application/json", &client], &body)
    };
    for _ in 0..3 {
        assert_eq!(send("198.51.100.1").status, 201);
    }
    let refused = send("198.51.100.1");
    check(&refused, 429, "too many requests came from this address");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(send("198.51.100.2").status, 201);
    // Some proxies add the port of the client; each address still has a limit of its own.
    assert_eq!(send("198.51.100.1:4711").status, 429);
    for client in ["198.51.100.3:4711", "[2001:db8:1::1]:4711", "[2001:db8:2::1]"] {
        assert_eq!(send(client).status, 201, "{client}");
    }
    assert_eq!(service.get("/ranking").status, 200);
}

#[test]
fn slow_clients_do_not_hold_connections() {
    let short = Duration::from_millis(200);
    let (service, _folder) =
        on_sqlite(|_| (), Times { head: short, stall: short, stop: Duration::from_secs(5) });
    for start in [
        &b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "[..],
        b"",
        b"POST /api/v1/results HTTP/1.1\r\nHost: x\r\n\
        Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    ] {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.write_all(start).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The service must close the connection before this read times out after 30 s.
        let answer = Answer::read(&mut stream);
        assert!([0, 400, 408].contains(&answer.status), "{answer:?}");
        let mut again = [0];
        assert!(matches!(std::io::Read::read(&mut stream, &mut again), Ok(0) | Err(_)));
    }
    assert_eq!(service.get("/").status, 200);
}
