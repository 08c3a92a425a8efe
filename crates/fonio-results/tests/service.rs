//! Tests the service through its sockets. The same requests are sent to a service with SQLite and to a
//! service with PostgreSQL.

#![allow(clippy::unwrap_used)] // A test may fail.

use crate::support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fonio_core::DeviceKind;
use fonio_results::database::{DatabaseError, Location};
use fonio_results::entry::Entry;
use fonio_results::review::{self, Decided};
use fonio_results::serve::Times;
use fonio_results::store::book::{Book, Submitted};
use fonio_results::store::{Outcome, Summaries, Verdict};
use fonio_results::texts::Accepted;
use fonio_storebench_document::document::{Document, Measure};
use fonio_storebench_document::sample;
use fonio_testing::skip_without;
use serde_json::Value;
use support::{Postgres, Running, settings};

const KEY: &str = "v1.full.directory.ext4.32gb";

type Scenario = fn(Location);

/// The scenarios that must succeed on both databases.
const SCENARIOS: [(&str, Scenario); 8] = [
    ("a result's life", a_results_life),
    ("rankings equal a sorted list", rankings_are_those_of_a_sorted_list),
    ("an implausible result is hidden", an_implausible_result_is_hidden),
    ("results survive a restart", results_survive_a_restart),
    ("texts cannot become SQL or HTML", texts_cannot_become_sql_or_html),
    ("a result counts once", a_result_counts_once),
    ("unknown texts wait for review", unknown_texts_wait_for_review),
    ("a deletion leaves nothing", a_deletion_leaves_nothing),
];

#[test]
fn on_sqlite() {
    for (name, scenario) in SCENARIOS {
        println!("{name}");
        let folder = tempfile::tempdir().unwrap();
        scenario(Location::Folder(folder.path().to_owned()));
    }
}

#[test]
fn on_postgres() {
    let Some(mut postgres) = Postgres::start() else { return };
    for (name, scenario) in SCENARIOS {
        println!("{name}");
        scenario(postgres.database());
    }
}

fn start(location: &Location) -> Running {
    Running::start(&settings(location.clone()), Times::default())
}

fn bytes(document: &Document) -> Vec<u8> {
    serde_json::to_vec(document).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn set(document: &mut Document, figure: &str, value: f64) {
    match document.figures.get_mut(figure) {
        Some(Measure::Measured(measured)) => {
            (measured.value, measured.low, measured.high) = (value, value, value)
        }
        other => panic!("{figure} is {other:?}"),
    }
}

fn authorization(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn a_results_life(location: Location) {
    let service = start(&location);
    for speed in [0.5, 1.0, 1.5] {
        assert_eq!(service.submit(&bytes(&sample::scaled(speed))).status, 201);
    }
    let answer = service.submit(&bytes(&sample::scaled(2.0)));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let submitted = answer.json();
    assert_eq!((text(&submitted, "state"), &submitted["reason"]), ("received", &Value::Null));
    let id = text(&submitted, "id").to_owned();
    let api = format!("/api/v1/results/{id}");
    assert!(answer.head.contains(&format!("location: {api}")), "{}", answer.head);

    let shown = service.get(&api).json();
    assert_eq!(text(&shown, "key"), KEY);
    let document: Document = serde_json::from_value(shown["document"].clone()).unwrap();
    assert!(document == sample::scaled(2.0), "{document:?}");
    let first = &shown["percentiles"][0];
    assert_eq!(
        (text(first, "figure"), first["rank"].as_i64(), first["results"].as_i64()),
        ("bandwidth.total", Some(1), Some(4))
    );
    assert_eq!(first["percentile"].as_f64(), Some(100.0));
    let page = service.get(text(&submitted, "page"));
    assert!(page.status == 200 && page.text().contains("Rank 1 of 4"), "{}", page.text());
    let everywhere = |service: &Running| {
        let parquet = service.get("/dump/results.parquet").body;
        [
            service.get("/dump/results.csv").text().contains(&id),
            parquet.windows(id.len()).any(|window| window == id.as_bytes()),
            service.get(&format!("/api/v1/ranking?key={KEY}&figure=cpu.iowait")).text().contains(&id),
            service.get("/ranking?by=device").text().contains(&id),
            service.get(&api).status == 200,
            service.get(&format!("/results/{id}")).status == 200,
        ]
    };
    // `dumped[1]` is not checked, because Parquet compresses the ids.
    let dumped = everywhere(&service);
    assert_eq!((dumped[0], &dumped[2..]), (true, &[true; 4][..]));

    assert_eq!(service.ask("DELETE", &api, &[], b"").status, 401);
    assert_eq!(service.ask("DELETE", &api, &[&authorization(&"0".repeat(64))], b"").status, 403);
    assert_eq!(everywhere(&service), dumped);
    let token = authorization(text(&submitted, "delete_token"));
    assert_eq!(service.ask("DELETE", &api, &[&token], b"").status, 204);
    assert_eq!(everywhere(&service), [false; 6]);
    assert_eq!(service.ask("DELETE", &api, &[&token], b"").status, 404);
    let ecdf = service.get(&format!("/api/v1/ecdf?key={KEY}&figure=bandwidth.total")).json();
    assert_eq!(ecdf["results"].as_i64(), Some(3));
    assert_eq!(service.get("/healthz").status, 200);
}

/// A naive ranking. Each entry has a value, a submission number and a device.
type Naive = Vec<(f64, usize, usize)>;

fn rankings_are_those_of_a_sorted_list(location: Location) {
    let service = start(&location);
    let mut naive: Naive = Vec::new();
    let mut submitted = Vec::new();
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for at in 0..130 {
        // The values include ties, and values that need all digits of a float.
        let (value, device) = (draw(60) as f64 / 7.0 + 1.0, draw(5) as usize);
        let mut document = sample::document();
        document.device.model = Some(model(device));
        set(&mut document, "sustained.last", value);
        set(&mut document, "launch.cold.total", value);
        // A result counts only once, so the results differ in a figure that is not ranked.
        set(&mut document, "cpu.active", 10.0 + at as f64 / 10.0);
        let answer = service.submit(&bytes(&document)).json();
        submitted.push((text(&answer, "id").to_owned(), text(&answer, "delete_token").to_owned()));
        naive.push((value, at, device));
    }
    compare(&service, &naive, &submitted);
    for _ in 0..60 {
        let (_, at, _) = naive.remove(draw(naive.len() as u64) as usize);
        let (id, token) = &submitted[at];
        let deleted = service.ask("DELETE", &format!("/api/v1/results/{id}"), &[&authorization(token)], b"");
        assert_eq!(deleted.status, 204);
    }
    compare(&service, &naive, &submitted);
    // A restarted service reads its summaries from the tables.
    service.stop();
    compare(&start(&location), &naive, &submitted);
}

fn compare(service: &Running, naive: &Naive, submitted: &[(String, String)]) {
    for (figure, sign) in [("sustained.last", -1.0), ("launch.cold.total", 1.0)] {
        let mut sorted = naive.clone();
        sorted.sort_by(|a, b| (a.0 * sign).total_cmp(&(b.0 * sign)).then(a.1.cmp(&b.1)));
        let rank =
            |list: &Naive, value: f64| 1 + list.iter().filter(|other| other.0 * sign < value * sign).count();
        let expected: Vec<(usize, f64, &str)> = sorted
            .iter()
            .map(|(value, at, _)| (rank(&sorted, *value), *value, submitted[*at].0.as_str()))
            .collect();
        let rows = pages(service, &format!("/api/v1/ranking?key={KEY}&figure={figure}"));
        let ours: Vec<(usize, f64, &str)> = rows
            .iter()
            .map(|row| {
                (row["rank"].as_u64().unwrap() as usize, row["value"].as_f64().unwrap(), text(row, "id"))
            })
            .collect();
        assert_eq!(ours, expected, "{figure}");

        let mut best: BTreeMap<usize, (f64, usize, usize)> = BTreeMap::new();
        for entry in &sorted {
            best.entry(entry.2).or_insert(*entry);
        }
        let best: Naive = best.into_values().collect();
        let rows = pages(service, &format!("/api/v1/ranking?key={KEY}&figure={figure}&by=device"));
        assert_eq!(rows.len(), best.len());
        for row in &rows {
            let value = row["value"].as_f64().unwrap();
            assert_eq!(row["rank"].as_u64().unwrap() as usize, rank(&best, value), "{figure} {row}");
            let device = text(&row["device"], "model");
            let entry = best.iter().find(|entry| model(entry.2) == device).unwrap();
            assert_eq!((value, text(row, "id")), (entry.0, submitted[entry.1].0.as_str()), "{figure}");
        }
    }
}

/// Returns the name of a card that the service knows.
fn model(device: usize) -> String {
    format!("S{}32G", ["U", "C", "L", "N", "R"][device])
}

/// Reads all pages of a ranking.
fn pages(service: &Running, path: &str) -> Vec<Value> {
    let (mut rows, mut next) = (Vec::new(), String::new());
    loop {
        let answer = service.get(&format!("{path}{next}")).json();
        rows.extend(answer["rows"].as_array().unwrap().clone());
        match answer["next"].as_str() {
            Some(page) => next = format!("&page={page}"),
            None => return rows,
        }
    }
}

fn an_implausible_result_is_hidden(location: Location) {
    let service = start(&location);
    assert_eq!(service.submit(&bytes(&sample::document())).status, 201);
    let mut document = sample::scaled(1.5);
    document.machine.virtual_machine = Some(true);
    let submitted = service.submit(&bytes(&document)).json();
    assert_eq!(text(&submitted, "state"), "hidden");
    assert!(text(&submitted, "reason").contains("virtual machine"));
    let id = text(&submitted, "id");
    let page = service.get(&format!("/results/{id}")).text();
    assert!(page.contains("<strong>Hidden</strong> because it was measured in a virtual machine"), "{page}");
    for path in ["/ranking", "/ranking?by=device", "/dump/results.csv", "/devices"] {
        assert!(!service.get(path).text().contains(id), "{path}");
    }
    let ecdf = service.get(&format!("/api/v1/ecdf?key={KEY}&figure=bandwidth.total")).json();
    assert_eq!(ecdf["results"].as_i64(), Some(1));
    let token = authorization(text(&submitted, "delete_token"));
    assert_eq!(service.ask("DELETE", &format!("/api/v1/results/{id}"), &[&token], b"").status, 204);
    assert_eq!(service.get(&format!("/results/{id}")).status, 404);
    let ecdf = service.get(&format!("/api/v1/ecdf?key={KEY}&figure=bandwidth.total")).json();
    assert_eq!(ecdf["results"].as_i64(), Some(1));
}

fn results_survive_a_restart(location: Location) {
    let service = start(&location);
    let submitted = service.submit(&bytes(&sample::document())).json();
    match location.open_writer().err() {
        Some(DatabaseError::Taken { .. }) => {}
        other => panic!("a second process took the database: {other:?}"),
    }
    service.stop();
    let service = start(&location);
    assert_eq!(service.get(text(&submitted, "page")).status, 200);
    // The service still knows the result, and stores others.
    assert_eq!(service.submit(&bytes(&sample::document())).status, 409);
    assert_eq!(service.submit(&bytes(&sample::scaled(1.25))).status, 201);
    service.stop();
    // Simulates a database that was written by a newer version.
    let mut writer = location.open_writer().unwrap();
    writer.query("INSERT INTO tables_version (version) VALUES (99)", &[]).unwrap();
    drop(writer);
    let refused = location.open_writer().err().expect("it is newer").to_string();
    assert!(
        refused.contains("version 99") && refused.contains("install the newer fonio-results"),
        "{refused}"
    );
}

fn texts_cannot_become_sql_or_html(location: Location) {
    let mut document = sample::document();
    document.device.model = Some("<script>alert(1)</script>'; DROP TABLE results; --".to_owned());
    document.machine.board = Some("\"><img src=x onerror=alert(1)>".to_owned());
    // The service publishes such texts only if the operator accepts them, so store the result directly.
    let stored = {
        let mut writer = location.open_writer().unwrap();
        let mut book = Book::open(writer.as_mut(), Summaries::default(), Accepted::default()).unwrap();
        let entry = Entry::new(&document, sample::BEGAN_UNIX_S);
        let submitted = vec![Submitted { entry, unknown: Vec::new() }];
        match book.store(writer.as_mut(), submitted, sample::BEGAN_UNIX_S as i64).unwrap().remove(0) {
            Outcome::Stored(stored) => stored,
            other => panic!("{other:?}"),
        }
    };
    let service = start(&location);
    let page = format!("/results/{}", stored.id);
    let shown = service.get(&format!("/api/v1{page}")).json();
    let slug = text(&shown["device"], "page").to_owned();
    let slug = slug.split('#').next().unwrap();
    for path in ["/", "/ranking", "/devices", "/distributions", slug, &page] {
        let answer = service.get(path);
        let page = answer.text();
        assert_eq!(answer.status, 200, "{path}");
        assert!(!page.contains("<script") && !page.contains("<img"), "{path}: {page}");
        assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{path}");
    }
    for evil in ["'%20OR%201=1%20--", "%22;DROP%20TABLE%20results", "%00", "%F0%9F%92%A9", "..%2f..%2fetc"] {
        for path in [
            format!("/ranking?key={evil}"),
            format!("/ranking?figure={evil}"),
            format!("/ranking?page={evil}"),
            format!("/devices/{evil}"),
            format!("/devices?after={evil}"),
            format!("/results/{evil}"),
            format!("/compare?a={evil}&b={evil}"),
            format!("/api/v1/ranking?key={evil}&figure=cpu.iowait&page={evil}"),
            format!("/api/v1/results/{evil}"),
        ] {
            let status = service.get(&path).status;
            assert!([200, 400, 404].contains(&status), "{path}: {status}");
        }
    }
    assert_eq!(service.get(&page).status, 200);
}

fn a_result_counts_once(location: Location) {
    let service = start(&location);
    let first = service.submit(&bytes(&sample::document())).json();
    let mut again = sample::document();
    again.took_s += 10.0;
    again.began_unix_s += 86_400;
    for document in [&sample::document(), &again] {
        let refused = service.submit(&bytes(document));
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.text().contains(text(&first, "id")), "{}", refused.text());
    }
    let ecdf = format!("/api/v1/ecdf?key={KEY}&figure=bandwidth.total");
    assert_eq!(service.get(&ecdf).json()["results"].as_i64(), Some(1));
    let token = authorization(text(&first, "delete_token"));
    assert_eq!(
        service.ask("DELETE", &format!("/api/v1/results/{}", text(&first, "id")), &[&token], b"").status,
        204
    );
    assert_eq!(service.submit(&bytes(&again)).status, 201);
}

/// A model that no list contains.
const UNKNOWN: &str = "Card of Anna Schmidt";

fn with_unknown_model(speed: f64) -> Vec<u8> {
    let mut document = sample::scaled(speed);
    document.device.model = Some(UNKNOWN.to_owned());
    bytes(&document)
}

fn unknown_texts_wait_for_review(location: Location) {
    let service = start(&location);
    let held: Vec<Value> = [0.5, 0.75, 1.0]
        .into_iter()
        .map(|speed| {
            let answer = service.submit(&with_unknown_model(speed));
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.json()
        })
        .collect();
    let ids: Vec<&str> = held.iter().map(|held| text(held, "id")).collect();
    assert_eq!(text(&held[0], "state"), "held");
    let reason = text(&held[0], "reason");
    assert!(reason.ends_with(&format!("does not know: device.model `{UNKNOWN}`")), "{reason}");
    assert_eq!(service.submit(&with_unknown_model(0.5)).status, 409);
    let status = |id: &str| service.get(&format!("/api/v1/results/{id}")).status;
    let nothing_shows_the_text = || {
        for path in ["/", "/ranking", "/devices", "/distributions", "/dump/results.csv", "/api/v1/keys"]
            .map(str::to_owned)
            .into_iter()
            .chain(ids.iter().map(|id| format!("/results/{id}")))
            .chain(ids.iter().map(|id| format!("/api/v1/results/{id}")))
        {
            assert!(!service.get(&path).text().contains("Anna"), "{path}");
        }
    };
    nothing_shows_the_text();
    let page = service.get(&format!("/results/{}", ids[0]));
    assert!(page.status == 404 && page.text().contains("waits for review"), "{}", page.text());
    let list = || {
        let mut out = Vec::new();
        review::list(&location, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(ids.iter().all(|id| list().contains(id)) && list().contains(UNKNOWN), "{}", list());
    let mut shown = Vec::new();
    assert!(review::show(&location, ids[0], &mut shown).unwrap());
    assert!(String::from_utf8(shown).unwrap().contains(UNKNOWN));

    // The sender can delete the result, and the operator can reject it.
    let token = authorization(text(&held[0], "delete_token"));
    let path = format!("/api/v1/results/{}", ids[0]);
    assert_eq!(service.ask("DELETE", &path, &[&authorization(&"0".repeat(64))], b"").status, 403);
    assert_eq!(service.ask("DELETE", &path, &[&token], b"").status, 204);
    let decide = |id: &str, verdict| review::decide(&location, id, verdict).unwrap();
    assert_eq!(decide(ids[0], Verdict::Publish), Decided::Unknown);
    assert_eq!(decide(ids[1], Verdict::Reject), Decided::Done);
    assert_eq!(ids.iter().map(|id| status(id)).collect::<Vec<_>>(), [404, 404, 404]);
    nothing_shows_the_text();

    // A result that is published once does not make its text known, but one that is published does.
    let other = service.submit(&with_unknown_model(1.5)).json();
    let once = service.submit(&with_unknown_model(2.0)).json();
    assert_eq!(decide(text(&once, "id"), Verdict::PublishOnce), Decided::Done);
    assert_eq!((status(text(&once, "id")), status(text(&other, "id"))), (200, 404));
    assert_eq!(decide(ids[2], Verdict::Publish), Decided::Done);
    assert_eq!((status(ids[2]), status(text(&other, "id"))), (200, 200));
    assert_eq!(text(&service.submit(&with_unknown_model(2.25)).json(), "state"), "received");
    assert!(list().contains("No result waits"), "{}", list());
    let ecdf = format!("/api/v1/ecdf?key={KEY}&figure=bandwidth.total");
    assert_eq!(service.get(&ecdf).json()["results"].as_i64(), Some(4));

    // A published result can be held back, and the service remembers everything.
    assert_eq!(decide(ids[2], Verdict::Withhold), Decided::Done);
    assert_eq!(status(ids[2]), 404);
    assert!(list().contains("withheld by the operator"), "{}", list());
    assert_eq!(service.get(&ecdf).json()["results"].as_i64(), Some(3));
    service.stop();
    let service = start(&location);
    assert_eq!(text(&service.submit(&with_unknown_model(1.75)).json(), "state"), "received");
    service.stop();
    // Without a running service, the command carries out the decision itself.
    assert_eq!(review::decide(&location, ids[2], Verdict::Publish).unwrap(), Decided::Done);
    let service = start(&location);
    assert_eq!(service.get(&format!("/results/{}", ids[2])).status, 200);
}

fn a_deletion_leaves_nothing(location: Location) {
    const MODEL: &str = "WDC WDS500G2B0C-00PXH0";
    let service = start(&location);
    assert_eq!(service.submit(&bytes(&sample::document())).status, 201);
    let mut document = sample::scaled(1.5);
    document.device.kind = DeviceKind::Nvme;
    document.device.model = Some(MODEL.to_owned());
    document.device.firmware = None;
    document.key.file_system = "nilfs2".to_owned();
    let submitted = service.submit(&bytes(&document));
    assert_eq!(submitted.status, 201, "{submitted:?}");
    let submitted = submitted.json();
    let id = text(&submitted, "id");
    let key = text(&service.get(&format!("/api/v1/results/{id}")).json(), "key").to_owned();
    let ranking = format!("/ranking?key={key}");
    assert!(service.get(&ranking).text().contains(MODEL));
    let token = authorization(text(&submitted, "delete_token"));
    assert_eq!(service.ask("DELETE", &format!("/api/v1/results/{id}"), &[&token], b"").status, 204);
    let page = service.get(&ranking);
    assert!(page.status == 404 && !page.text().contains("nilfs2"), "{}", page.text());
    for path in ["/", "/ranking", "/devices", "/api/v1/keys", "/dump/results.csv"] {
        let page = service.get(path).text();
        assert!(!page.contains("nilfs2") && !page.contains("WDS500G2B0C"), "{path}");
    }
    let mut reader = location.open_reader().unwrap();
    for (sql, rows) in [
        ("SELECT COUNT(*) FROM devices", 1),
        ("SELECT COUNT(*) FROM keys", 1),
        ("SELECT COUNT(*) FROM results", 1),
        ("SELECT COUNT(*) FROM documents", 1),
        ("SELECT COUNT(*) FROM best WHERE device_id NOT IN (SELECT device_id FROM devices)", 0),
        ("SELECT COUNT(*) FROM bins WHERE scope <> 0 AND scope NOT IN (SELECT device_id FROM devices)", 0),
        ("SELECT COUNT(*) FROM bins WHERE key_id NOT IN (SELECT key_id FROM keys)", 0),
    ] {
        assert_eq!(reader.query(sql, &[]).unwrap()[0].int(0), rows, "{sql}");
    }
    drop(reader);
    let Location::Folder(folder) = &location else { return };
    // The next chores of the service wipe the files, if a reader prevented it.
    let until = Instant::now() + Duration::from_secs(30);
    let backup = folder.join("backup");
    loop {
        let left: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| contains(path, b"WDS500G2B0C") || contains(path, b"nilfs2"))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "{left:?} still contain the deleted texts");
        std::thread::sleep(Duration::from_millis(200));
    }
    location.back_up(&backup).unwrap();
    assert!(!contains(&backup, b"WDS500G2B0C") && contains(&backup, b"SC32G"));
}

fn contains(file: &Path, text: &[u8]) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
}

/// Fills a small disk, and deletes a result from it.
#[test]
fn a_full_disk_accepts_deletions_and_then_submissions() {
    skip_without!(Root);
    let disk = SmallDisk::mount();
    let service = start(&Location::Folder(disk.folder.path().to_owned()));
    let mut stored = Vec::new();
    let mut number = 0;
    let mut submit = || {
        number += 1;
        let mut document = sample::scaled(0.5 + f64::from(number % 50) * 0.03);
        set(&mut document, "cpu.active", 10.0 + f64::from(number) / 1000.0);
        // A long text makes the document larger.
        document.machine.mount_options = vec!["noatime".to_owned(); 32];
        service.submit(&bytes(&document))
    };
    let refused = loop {
        let answer = submit();
        if answer.status != 201 {
            break answer;
        }
        stored.push(answer.json());
        assert!(stored.len() < 20_000, "the disk is not full");
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    println!("{} results fill the disk", stored.len());
    assert!(stored.len() > 20);
    // Delete half of the results. Their space can be used again.
    let half = stored.len() / 2;
    for result in stored.drain(..half) {
        let token = authorization(text(&result, "delete_token"));
        let path = format!("/api/v1/results/{}", text(&result, "id"));
        let answer = service.ask("DELETE", &path, &[&token], b"");
        assert_eq!(answer.status, 204, "{answer:?}");
        assert_eq!(service.get(&path).status, 404);
    }
    let stored_again = (0..half).filter(|_| submit().status == 201).count();
    println!("{stored_again} results were stored in the space of {half} deleted results");
    assert!(stored_again > half / 4, "{stored_again} of {half}");
    for result in &stored {
        assert_eq!(service.get(&format!("/api/v1/results/{}", text(result, "id"))).status, 200);
    }
    service.stop();
}

/// A file system of 8 MiB in memory.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "fonio-results-test"])
            .arg(folder.path())
            .status();
        assert!(mounted.unwrap().success());
        SmallDisk { folder }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The service has closed its files, also after a failed test, because it is dropped first.
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

/// Keeps the database locked, so that submissions wait. The service refuses those that exceed its limit.
#[test]
fn submissions_beyond_the_limit_are_told_to_wait() {
    const AT_ONCE: u16 = 4;
    const SENT: u16 = 12;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(Location::Folder(folder.path().to_owned()));
    settings.submissions_at_once = AT_ONCE;
    let service = Running::start(&settings, Times::default());
    let lock = rusqlite::Connection::open(folder.path().join("results.sqlite")).unwrap();
    lock.busy_timeout(Duration::from_secs(30)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for number in 0..SENT {
            let (sender, service) = (sender.clone(), &service);
            let document = sample::scaled(1.0 + f64::from(number) / 100.0);
            scope.spawn(move || sender.send(service.submit(&bytes(&document))).unwrap());
        }
        let (mut accepted, mut refused) = (0, 0);
        for answer in answers.iter().take(SENT.into()) {
            match answer.status {
                503 => {
                    assert!(answer.head.contains("retry-after: "), "{answer:?}");
                    assert!(answer.text().contains("more results than it can store"), "{answer:?}");
                    refused += 1;
                    if refused == SENT - AT_ONCE {
                        lock.execute_batch("ROLLBACK").unwrap();
                    }
                }
                201 => accepted += 1,
                _ => panic!("{answer:?}"),
            }
        }
        assert_eq!((accepted, refused), (AT_ONCE, SENT - AT_ONCE));
    });
    assert_eq!(service.submit(&bytes(&sample::scaled(0.9))).status, 201);
}
