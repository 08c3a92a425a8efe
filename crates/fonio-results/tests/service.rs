//! Tests the service through its sockets. The same requests are sent to a service with SQLite and to a
//! service with PostgreSQL.

#![allow(clippy::unwrap_used)] // A test may fail.

use crate::support;

use std::collections::BTreeMap;

use fonio_results::database::{DatabaseError, Location};
use fonio_results::entry::Entry;
use fonio_results::serve::Times;
use fonio_results::store::Summaries;
use fonio_results::store::book::Book;
use fonio_storebench_document::document::{Document, Measure};
use fonio_storebench_document::sample;
use serde_json::Value;
use support::{Postgres, Running, settings};

const KEY: &str = "v1.full.directory.ext4.32gb";

type Scenario = fn(Location);

/// The scenarios that must succeed on both databases.
const SCENARIOS: [(&str, Scenario); 5] = [
    ("a result's life", a_results_life),
    ("rankings equal a sorted list", rankings_are_those_of_a_sorted_list),
    ("an implausible result is hidden", an_implausible_result_is_hidden),
    ("results survive a restart", results_survive_a_restart),
    ("texts cannot become SQL or HTML", texts_cannot_become_sql_or_html),
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
    assert_eq!(service.submit(&bytes(&sample::document())).status, 201);
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
        let mut book = Book::open(writer.as_mut(), Summaries::default()).unwrap();
        let entry = Entry::new(&document, sample::BEGAN_UNIX_S);
        book.store(writer.as_mut(), &[entry], sample::BEGAN_UNIX_S as i64).unwrap().remove(0)
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
