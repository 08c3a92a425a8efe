use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use expect_test::expect;
use fonio_core::{BlockedIn, ByteCount, Nanos};
use fonio_record::observer::{Party, PartyKind};

use super::*;
use crate::histogram::Histogram;
use crate::settings::Mqtt;
use crate::summary::{
    BlockedFigures, DeviceFigures, HealthReading, PartyFigures, PressureFigures, Stall, Summary, Traffic, Why,
};

fn minute() -> Summary {
    let party = Party { name: "a \"b\".service".into(), kind: PartyKind::Unit };
    let mut waits = Histogram::default();
    waits.add(Nanos(30_000_000));
    let traffic =
        |bytes| Traffic { writes: waits.clone(), written_bytes: ByteCount(bytes), ..Traffic::default() };
    let device = "mmcblk0".to_owned();
    Summary {
        began: 1000,
        ended: 1060,
        watched_s: 60,
        devices: vec![DeviceFigures {
            name: device.clone(),
            traffic: traffic(8192),
            busy_ms: 6000,
            health: Some(HealthReading { life_used_percent: Some(20), ..HealthReading::default() }),
            ..DeviceFigures::default()
        }],
        parties: vec![PartyFigures { party: party.clone(), device: device.clone(), traffic: traffic(4096) }],
        blocked: vec![BlockedFigures {
            party: party.clone(),
            device: Some(device.clone()),
            waits: waits.clone(),
        }],
        pressure: Some(PressureFigures { io_some_ms: 1500, ..PressureFigures::default() }),
        stalls: vec![Stall {
            began: 1010,
            lasted_ms: 2000,
            goes_on: false,
            party,
            thread: "x".into(),
            blocked_in: BlockedIn::Fsync,
            file: None,
            device: Some(device),
            others: Vec::new(),
            why: Why::Unknown,
            kept: None,
        }],
        stalls_in_all: 1,
        ..Summary::default()
    }
}

fn get(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn figures_are_served_over_http() {
    let shared = Arc::new(Shared::default());
    let settings = Settings { listen: Some("127.0.0.1:0".parse().unwrap()), ..Settings::default() };
    let servers = start(&settings, Arc::clone(&shared), |_| {}).unwrap();
    let address = servers.address().unwrap();
    shared.add(&minute());
    let metrics = get(address, "GET /metrics");
    let wanted = |line: &&str| {
        line.starts_with("fonio_unit_written")
            || line.contains("life")
            || line.starts_with("fonio_stalls")
            || (line.starts_with("fonio_unit_blocked")
                && (line.contains("0.016384") || line.contains("0.065536")))
            || line.starts_with("fonio_unit_blocked_seconds_sum")
    };
    let lines: Vec<&str> = metrics.lines().filter(wanted).collect();
    expect![[r#"
        fonio_stalls_total 1
        # HELP fonio_device_life_used_ratio Used life reported by the device (upper end of the reported step).
        # TYPE fonio_device_life_used_ratio gauge
        fonio_device_life_used_ratio{device="mmcblk0"} 0.2
        fonio_unit_written_bytes_total{unit="a \"b\".service",device="mmcblk0"} 4096
        fonio_unit_blocked_seconds_bucket{unit="a \"b\".service",device="mmcblk0",le="0.016384"} 0
        fonio_unit_blocked_seconds_bucket{unit="a \"b\".service",device="mmcblk0",le="0.065536"} 1
        fonio_unit_blocked_seconds_sum{unit="a \"b\".service",device="mmcblk0"} 0.03"#]]
    .assert_eq(&lines.join("\n"));
    let status = get(address, "GET /api/status?x=1");
    let json: serde_json::Value = serde_json::from_str(status.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&json["stalls"], &json["devices"]["mmcblk0"]["busy_percent"]), (&1.into(), &10.0.into()));
    assert_eq!(json["io_pressure_percent"], 2.5);
    for (request, code) in [("GET /", "200"), ("GET /etc/passwd", "404"), ("POST /metrics", "405")] {
        assert!(get(address, request).starts_with(&format!("HTTP/1.1 {code}")), "{request}");
    }
    let taken = Settings { listen: Some(address), ..Settings::default() };
    let error = start(&taken, shared, |_| {}).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
}

#[test]
fn a_real_broker_gets_the_sensors_and_their_figures() {
    if !fonio_testing::has(&[fonio_testing::Need::Mosquitto]) {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("broker.conf");
    std::fs::write(
        &config,
        format!("listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nuser root\n"),
    )
    .unwrap();
    let broker =
        Command::new("mosquitto").arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut broker = Ends(broker.unwrap());
    let began = std::time::Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "the broker does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut listener = Command::new("mosquitto_sub");
    listener.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-t", "#", "-F", "%t %r %p", "-W", "60"]);
    let mut listener = Ends(listener.stdout(Stdio::piped()).spawn().unwrap());
    let mqtt = Mqtt {
        broker: format!("127.0.0.1:{port}"),
        user: None,
        password_file: None,
        name: Some("Pi 4".into()),
        discovery_prefix: "homeassistant".into(),
    };
    let shared = Arc::new(Shared::default());
    let settings = Settings { mqtt: Some(mqtt), ..Settings::default() };
    // One notification comes before the connection, and two come in one minute.
    let notifications = ["1 stall\nearly\n", "2 stalls\nof Zürich\n", "the last week\n"];
    shared.notify(notifications[0]);
    let servers = start(&settings, Arc::clone(&shared), |_| {}).unwrap();
    notifications[1..].iter().for_each(|text| shared.notify(text));
    shared.add(&minute());
    let mut lines = BufReader::new(listener.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut seen: Vec<String> = Vec::new();
    for line in &mut lines {
        let is_state = line.starts_with("fonio/pi_4/state");
        seen.push(line);
        if is_state {
            break;
        }
    }
    let state = seen.iter().find_map(|line| line.strip_prefix("fonio/pi_4/state 0 ")).unwrap();
    let state: serde_json::Value = serde_json::from_str(state).unwrap();
    assert_eq!(state["devices"]["mmcblk0"]["life_used_percent"], 20);
    let described = |key: &str| {
        let topic = format!("homeassistant/sensor/fonio_pi_4/{key}/config ");
        let line = seen
            .iter()
            .find_map(|line| line.strip_prefix(&topic))
            .unwrap_or_else(|| panic!("{key}: {seen:?}"));
        serde_json::from_str::<serde_json::Value>(&line[2..]).unwrap()
    };
    assert_eq!(described("stalls")["state_topic"], "fonio/pi_4/state");
    assert_eq!(
        described("mmcblk0_life")["value_template"],
        "{{ value_json.devices['mmcblk0'].life_used_percent }}"
    );
    // A message with several lines is printed as several lines.
    let wanted = notifications.map(|text| format!("fonio/pi_4/notification 0 {text}")).concat();
    let mut told = String::new();
    while told.len() < wanted.len() {
        told += &lines.next().unwrap_or_else(|| panic!("only {told} was published"));
        told.push('\n');
        // mosquitto_sub ends each message with a line break of its own.
        if told.ends_with("\n\n") {
            told.pop();
        }
    }
    assert_eq!(told, wanted);
    drop(servers);
    let offline = lines.find(|line| line.starts_with("fonio/pi_4/availability"));
    assert!(offline.is_some_and(|line| line.ends_with(" offline")));
    let _ = broker.0.kill();
}

struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the words of a text that are names of fonio's metrics.
fn metric_names(text: &str) -> std::collections::BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("fonio_")).map(str::to_owned).collect()
}

#[test]
fn the_grafana_dashboard_uses_metrics_and_labels_that_are_served() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages/grafana/fonio-watch.json");
    let dashboard: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let shared = Shared::default();
    shared.add(&minute());
    let served = prometheus::text(&shared.figures());
    let names = metric_names(&served);
    let panels = dashboard["panels"].as_array().unwrap();
    let targets: Vec<_> = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).collect();
    let texts: Vec<&str> = targets
        .iter()
        .flat_map(|target| [&target["expr"], &target["legendFormat"]])
        .map(|text| text.as_str().unwrap())
        .collect();
    let used = metric_names(&texts.join(" "));
    assert!(used.len() >= 9, "{used:?}");
    assert!(used.is_subset(&names), "not served: {:?}", used.difference(&names).collect::<Vec<_>>());
    // `instance` is Prometheus's own label.
    let labels = ["device", "op", "unit", "resource", "le"];
    for text in texts {
        for label in text.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
            assert!(label == "instance" || labels.contains(&label), "{label} in {text}");
        }
    }
    assert!(labels.iter().all(|label| served.contains(&format!("{label}=\""))), "{served}");
}
