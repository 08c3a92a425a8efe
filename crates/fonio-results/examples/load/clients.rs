//! Runs the clients that generate load for a results service.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use fonio_core::Random;
use fonio_results::database::Location;
use fonio_results::figures;
use fonio_results::store::read::{self, Of};
use fonio_results::store::{Scope, Summaries};
use fonio_storebench_document::document::Measure;
use fonio_storebench_document::sample;
use serde_json::{Value, json};

/// Number of connections of the load generator. This is also the maximum number of outstanding requests. It is
/// larger than the number of submissions that the service admits, so an overload shows.
const CONNECTIONS: u64 = 320;

/// Maximum rate in requests per second. Higher rates are assumed to be a mistake.
const RATE_MAX: f64 = 20_000.0;

/// A response of the service.
struct Answer {
    status: u16,
    /// The seconds in the header `Retry-After`.
    retry_after_s: Option<u64>,
    body: Vec<u8>,
}

/// A client with one persistent connection.
struct Client {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    fn ask(&mut self, head: &str, body: &[u8]) -> Result<Answer> {
        // The service closes idle connections, so a failed request is sent again on a new connection.
        match self.try_ask(head, body) {
            Ok(answer) => Ok(answer),
            Err(_) => {
                self.stream = None;
                self.try_ask(head, body)
            }
        }
    }

    fn try_ask(&mut self, head: &str, body: &[u8]) -> Result<Answer> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().context("it was opened")?;
        let bytes =
            [format!("{head}Host: x\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat();
        stream.get_mut().write_all(&bytes)?;
        let (mut status, mut length, mut retry_after_s) = (0, 0, None);
        loop {
            let mut line = String::new();
            ensure!(stream.read_line(&mut line)? > 0, "the connection has ended");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().unwrap_or("").parse()?;
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse()?;
            } else if let Some(value) = line.strip_prefix("retry-after: ") {
                retry_after_s = Some(value.parse()?);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Answer { status, retry_after_s, body })
    }

    fn get(&mut self, path: &str) -> Result<Answer> {
        self.ask(&format!("GET {path} HTTP/1.1\r\n"), b"")
    }
}

/// Sends requests at a constant rate over many connections, until the service ends. The latency of a request
/// is measured from the time at which the request is due. `make` returns a function that sends a request
/// through a client and returns whether the response is correct.
fn at_rate<Act: FnMut(&mut Client, u64) -> Result<bool>>(
    port: u16,
    rate: f64,
    seconds: f64,
    make: impl Fn() -> Act + Sync,
) -> Result<Value> {
    ensure!(
        rate > 0.0 && rate <= RATE_MAX && seconds > 0.0 && seconds <= 3600.0,
        "the rate or the duration is out of range"
    );
    let total = (rate * seconds) as u64;
    let next = AtomicU64::new(0);
    let (times, failed) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let (mut act, mut client) = (make(), Client { port, stream: None });
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= total {
                        return;
                    }
                    let due = began + Duration::from_secs_f64(at as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    match act(&mut client, at) {
                        Ok(true) => {
                            times.lock().expect("no thread panics").push(due.elapsed().as_secs_f64() * 1e3)
                        }
                        answer => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            if answer.is_err() {
                                client.stream = None;
                                if TcpStream::connect(("127.0.0.1", port)).is_err() {
                                    return;
                                }
                            }
                        }
                    }
                }
            });
        }
    });
    Ok(summary(times.into_inner()?, failed.into_inner(), began.elapsed().as_secs_f64()))
}

fn summary(mut times: Vec<f64>, failed: u64, took_s: f64) -> Value {
    times.sort_by(f64::total_cmp);
    let at =
        |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    json!({
        "answers": times.len(),
        "failed": failed,
        "per_s": times.len() as f64 / took_s,
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "max_ms": times.last(),
    })
}

/// Requests pages of rankings at a constant rate.
pub fn ranking(port: u16, rate: f64, seconds: f64) -> Result<Value> {
    let Answer { status, body, .. } = Client { port, stream: None }.get("/api/v1/keys")?;
    ensure!(status == 200, "cannot read the keys of the service: {status}");
    let answer: Value = serde_json::from_slice(&body)?;
    let names = |list: &str, name: &str| -> Vec<String> {
        let all = answer[list].as_array().into_iter().flatten();
        all.filter_map(|entry| entry[name].as_str().map(str::to_owned)).collect()
    };
    let (keys, figures) = (names("keys", "key"), names("figures", "name"));
    ensure!(!keys.is_empty(), "the service has no results");
    let (keys, figures) = (&keys, &figures);
    let make = || {
        let mut next: Option<String> = None;
        move |client: &mut Client, at: u64| {
            let mut random = Random::new(at);
            // Half of the requests fetch the page after the previous one, if it exists.
            let path = match next.take().filter(|_| random.below(2) == 0) {
                Some(path) => path,
                None => {
                    let key = &keys[random.below(keys.len() as u64) as usize];
                    let figure = &figures[random.below(figures.len() as u64) as usize];
                    // A quarter of the other requests begin at a random position in the ranking, given by a
                    // random value near the sample's value. The remaining requests begin at the first row.
                    let behind = match random.below(4) {
                        0 => {
                            let value = (random.below(40_000) + 1) as f64 / 1000.0;
                            let is_higher =
                                figure.starts_with("bandwidth") || figure.starts_with("sustained");
                            let score = if is_higher { -value } else { value };
                            format!("&page={:016x}-0", score.to_bits())
                        }
                        _ => String::new(),
                    };
                    format!("/ranking?key={key}&figure={figure}{behind}")
                }
            };
            let Answer { status, body, .. } = client.get(&path)?;
            let page = String::from_utf8(body)?;
            let link = page.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
            next = link.map(|link| link.replace("&amp;", "&").replace("&#38;", "&"));
            Ok(status == 200 && page.ends_with("</html>"))
        }
    };
    at_rate(port, rate, seconds, make)
}

/// Submits results, and writes the ids of acknowledged results to a file.
pub fn submit(port: u16, rate: f64, seconds: f64, file: &str) -> Result<Value> {
    let bodies: Vec<(String, String)> =
        (0..50).map(|at| body(0.5 + f64::from(at) * 0.03)).collect::<Result<_>>()?;
    // The service counts a result only once, so each body is different, also from those of earlier runs.
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let acknowledged = Mutex::new(File::options().create(true).append(true).open(file)?);
    let (refused, later, words) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(String::new()));
    let send = |client: &mut Client, at: u64| {
        let (before, after) = &bodies[at as usize % bodies.len()];
        let body = format!("{before}{}{after}", unique(run, at));
        let head = "POST /api/v1/results HTTP/1.1\r\nContent-Type: application/json\r\n";
        // A submission is never sent twice, because the first attempt may have been stored.
        let Answer { status, retry_after_s, body } = client.try_ask(head, body.as_bytes())?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let (201, Some(id)) = (status, answer["id"].as_str()) {
            let line = format!("{id}\n");
            acknowledged.lock().expect("no thread panics").write_all(line.as_bytes())?;
            return Ok(true);
        }
        refused.fetch_add(1, Ordering::Relaxed);
        later.fetch_add(u64::from(status == 503 && retry_after_s.is_some()), Ordering::Relaxed);
        let error = answer["error"].as_str().unwrap_or_default();
        *words.lock().expect("no thread panics") = format!("{status}: {error}");
        Ok(false)
    };
    let mut printed = at_rate(port, rate, seconds, || &send)?;
    let refused = refused.into_inner();
    printed["failed"] = (printed["failed"].as_u64().unwrap_or(0) - refused).into();
    printed["refused"] = refused.into();
    printed["refused_with_retry_after"] = later.into_inner().into();
    printed["words"] = words.into_inner()?.into();
    printed["processor_s"] = processor_s()?.into();
    Ok(printed)
}

/// A number that does not occur in the sample, and a figure that has this value in a body.
const MARK: f64 = 31.062_5;
const MARKED: &str = "cpu.active";

/// Returns the parts of a document's JSON before and after the value that differs in each body.
fn body(speed: f64) -> Result<(String, String)> {
    let mut document = sample::scaled(speed);
    let Some(Measure::Measured(value)) = document.figures.get_mut(MARKED) else {
        bail!("the sample lacks {MARKED}")
    };
    (value.value, value.low, value.high) = (MARK, 0.0, 100.0);
    let json = serde_json::to_string(&document)?;
    let (before, after) = json.split_once(&MARK.to_string()).context("the value is in the document")?;
    Ok((before.to_owned(), after.to_owned()))
}

/// Returns a percentage that is different for each request of each run. It has at most 15 digits, so a float
/// represents it exactly enough.
fn unique(run: u64, at: u64) -> String {
    format!("{}.{:06}{:07}", 10 + run / 1_000_000 % 80, run % 1_000_000, at % 10_000_000)
}

fn processor_s() -> Result<f64> {
    const STAT: &str = "/proc/self/stat";
    /// Clock ticks per second in /proc, on every architecture that Rust supports.
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string(STAT)?;
    // The process name in parentheses can contain spaces. The user time and the system time are the 12th and
    // 13th fields after the closing parenthesis.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: Vec<f64> =
        behind.split_whitespace().skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    ensure!(ticks.len() == 2, "{STAT} lacks the processor time");
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_S)
}

/// Requests each result that has its id in `file`, and counts the lost results.
pub fn check(port: u16, file: &str) -> Result<Value> {
    let ids: Vec<String> = BufReader::new(File::open(file)?).lines().collect::<Result<_, _>>()?;
    let mut client = Client { port, stream: None };
    let mut lost = 0;
    for id in &ids {
        let answer = client.get(&format!("/api/v1/results/{id}"))?;
        lost += i32::from(answer.status != 200);
    }
    Ok(json!({ "acknowledged": ids.len(), "lost": lost }))
}

/// Measures the database without the service: the time to read the first pages of rankings.
pub fn query(folder: PathBuf, seconds: f64) -> Result<Value> {
    let mut connection = Location::Folder(folder).open_reader()?;
    let connection = connection.as_mut();
    let summaries = Summaries::default();
    let keys = read::keys(connection, 100)?;
    ensure!(!keys.is_empty(), "the database has no results");
    let mut times = Vec::new();
    let mut random = Random::new(1);
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        let key = &keys[random.below(keys.len() as u64) as usize];
        let at = random.below(figures::ranked().len() as u64) as usize;
        let figure = &figures::ranked()[at];
        let ids = connection
            .query("SELECT figure_id FROM figures WHERE name = $1", &[figure.name.as_str().into()])?;
        let scope = Scope { device_id: 0, key_id: key.key_id, figure_id: ids[0].int(0) };
        let summary = read::summary(connection, &summaries, scope, figure.better)?;
        let asked = Instant::now();
        let page = read::ranking(connection, &summary, scope, Of::Results, None, 50)?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
        ensure!(!page.places.is_empty(), "a ranking is empty");
    }
    let mut printed = summary(times, 0, began.elapsed().as_secs_f64());
    printed["results"] = keys.iter().map(|key| key.results).sum::<i64>().into();
    Ok(printed)
}
