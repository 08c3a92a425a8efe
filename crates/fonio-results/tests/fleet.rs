//! Tests that the service receives the days of devices, and refuses what does not belong to the fleet.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use fonio_results::database::Location;
use fonio_results::fleet::{FILE_BYTES_MAX, Fleet};
use fonio_results::limits::Rate;
use fonio_results::serve::Times;

use crate::support::{Answer, Running, check, settings};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const EXPIRED: &str = "fedcba9876543210fedcba9876543210";

fn write_tokens(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

struct Intake {
    service: Running,
    dir: tempfile::TempDir,
}

impl Intake {
    fn start(burst: f64) -> Intake {
        let dir = tempfile::tempdir().unwrap();
        let (data, folder, tokens) =
            (dir.path().join("data"), dir.path().join("fleet"), dir.path().join("tokens"));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&folder).unwrap();
        write_tokens(&tokens, &format!("{TOKEN}\n{EXPIRED} 2020-12-31\n"));
        let mut settings = settings(Location::Folder(data));
        settings.submissions = Rate { per_s: 1e-3, burst };
        settings.fleet = Some(Arc::new(Fleet::open(&folder, &tokens).unwrap()));
        Intake { service: Running::start(&settings, Times::default()), dir }
    }

    fn put(&self, path: &str, token: Option<&str>, body: &[u8]) -> Answer {
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        self.service.ask("PUT", &format!("/api/v1/fleet/{path}"), &headers, body)
    }

    fn get(&self, device: &str, token: &str) -> Answer {
        let header = format!("Authorization: Bearer {token}");
        self.service.ask("GET", &format!("/api/v1/fleet/{device}"), &[&header], b"")
    }
}

fn file(device: &str, day: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    write!(
        gzip,
        "{{\"kind\": \"device\", \"schema\": 1, \"device\": \"{device}\", \"day\": \"{day}\"}}\n{{\"kind\": \"end\", \"lines\": 2}}\n"
    )
    .unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_day_is_stored_once_and_listed() {
    let running = Intake::start(1e6);
    assert_eq!(running.get("d1", TOKEN).json()["days"], serde_json::json!([]));
    for day in ["2026-01-02", "2026-01-01"] {
        assert_eq!(running.put(&format!("d1/{day}"), Some(TOKEN), &file("d1", day)).status, 201);
    }
    check(&running.put("d1/2026-01-01", Some(TOKEN), &file("d1", "2026-01-01")), 409, "counts only once");
    assert_eq!(running.get("d1", TOKEN).json()["days"], serde_json::json!(["2026-01-01", "2026-01-02"]));
    assert_eq!(running.get("d2", TOKEN).json()["days"], serde_json::json!([]));
    let stored = fs::read(running.dir.path().join("fleet/arrived/2026-01-02/d1.jsonl.gz")).unwrap();
    assert_eq!(stored, file("d1", "2026-01-02"));
    // A new token is valid at once, without a restart.
    let other = "z".repeat(40);
    check(&running.get("d1", &other), 401, "does not know this token");
    write_tokens(&running.dir.path().join("tokens"), &other);
    assert_eq!(running.get("d1", &other).status, 200);
    check(&running.get("d1", TOKEN), 401, "does not know this token");
    write_tokens(&running.dir.path().join("tokens"), &format!("{TOKEN} device=d2"));
    check(&running.get("d1", TOKEN), 403, "for another device");
    let day = file("d1", "2026-01-03");
    check(&running.put("d1/2026-01-03", Some(TOKEN), &day), 403, "for another device");
    assert_eq!(running.put("d2/2026-01-03", Some(TOKEN), &file("d2", "2026-01-03")).status, 201);
}

#[test]
fn what_does_not_belong_to_the_fleet_is_refused_in_words() {
    let running = Intake::start(1e6);
    let day = file("d1", "2026-01-02");
    let put = |path: &str, body: &[u8]| running.put(path, Some(TOKEN), body);
    check(&running.put("d1/2026-01-02", None, &day), 401, "Authorization: Bearer TOKEN");
    check(&running.put("d1/2026-01-02", Some("x"), &day), 401, "does not know this token");
    check(&running.put("d1/2026-01-02", Some(EXPIRED), &day), 401, "expired after 2020-12-31");
    check(&put("d2/2026-01-02", &day), 422, "another device or day");
    check(&put("d1/2026-01-03", &day), 422, "another device or day");
    check(&put("d1/2999-01-01", &day), 422, "set the clock");
    check(&put("d1/yesterday", &day), 400, "form 2026-11-24");
    check(&put("..%2Fd1/2026-01-02", &day), 400, "not the name of a device");
    check(&put("d1/2026-01-02", &day[..20]), 422, "send it again");
    check(&put("d1/2026-01-02", b"x"), 422, "gzip");
    check(&put("d1/2026-01-02", &vec![0; FILE_BYTES_MAX + 1]), 413, "at most 1048576 bytes");
    let bomb = {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![b'\n'; 64 << 20]).unwrap();
        gzip.finish().unwrap()
    };
    check(&put("d1/2026-01-02", &bomb), 422, "line 1 is not");
    assert!(!running.dir.path().join("fleet/arrived").exists(), "nothing was stored");
    fs::set_permissions(running.dir.path().join("tokens"), fs::Permissions::from_mode(0o644)).unwrap();
    check(&put("d1/2026-01-02", &day), 503, "try again in 60 s");
}

#[test]
fn devices_are_limited_and_other_services_receive_no_days() {
    let running = Intake::start(2.0);
    for (day, status) in [("2026-01-01", 201), ("2026-01-02", 201), ("2026-01-03", 429)] {
        let answer = running.put(&format!("d1/{day}"), Some(TOKEN), &file("d1", day));
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.head.contains("retry-after"), status == 429, "{answer:?}");
    }
    let data = tempfile::tempdir().unwrap();
    let service = Running::start(&settings(Location::Folder(data.path().to_owned())), Times::default());
    let answer = service.ask("PUT", "/api/v1/fleet/d1/2026-01-02", &[], b"");
    check(&answer, 404, "--fleet");
}
