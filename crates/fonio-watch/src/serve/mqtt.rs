//! Publishes the figures to an MQTT 3.1.1 broker each minute, and describes them to Home Assistant through
//! its MQTT discovery (<https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery>).
//!
//! All messages are sent at most once (QoS 0), because the message of the next minute replaces a lost
//! message. If the connection breaks, the watch reconnects after a pause and describes the sensors again. If
//! the watch ends without disconnecting, the broker publishes "offline".

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mqttbytes::QoS;
use mqttbytes::v4::{Connect, ConnectReturnCode, Disconnect, LastWill, Packet, Publish};
use serde_json::{Value, json};

use super::status::{self, Status};
use crate::error::WatchError;
use crate::settings::Mqtt;
use crate::shared::{Figures, Shared};

const PORT: u16 = 1883;
const TIMEOUT: Duration = Duration::from_secs(10);
/// MQTT keep-alive. The broker waits 1.5 times this interval for the next message; the watch sends a message
/// each minute.
const KEEP_ALIVE_S: u16 = 120;
/// Pause before reconnecting.
const AGAIN: Duration = Duration::from_secs(30);
const ANSWER_MAX: usize = 4096;

/// Starts publishing to the broker in a separate thread.
pub(super) fn start(
    settings: &Mqtt,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    tell: fn(&str),
) -> Result<JoinHandle<()>, WatchError> {
    let password = match &settings.password_file {
        Some(path) => {
            std::fs::read_to_string(path).map_err(WatchError::file(path, "read"))?.trim_end().to_owned()
        }
        None => String::new(),
    };
    let host = fonio_machine::Machine::here().host().name.unwrap_or_else(|| "machine".to_owned());
    let name = settings.name.clone().unwrap_or(host);
    let publisher = Publisher { settings: settings.clone(), password, id: identifier(&name), name };
    let thread = std::thread::Builder::new().name("mqtt".to_owned());
    thread
        .spawn(move || publisher.run(&shared, &stop, tell))
        .map_err(|error| WatchError::Listen { address: settings.broker.clone(), problem: error.to_string() })
}

/// Converts a name to letters, digits and underscores, for use in MQTT topics.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

struct Publisher {
    settings: Mqtt,
    password: String,
    id: String,
    name: String,
}

impl Publisher {
    fn run(&self, shared: &Shared, stop: &AtomicBool, tell: fn(&str)) {
        let mut told = String::new();
        // The number of the last published notification. Those that came without a connection are published later.
        let mut notified = 0;
        while !stop.load(Ordering::Relaxed) {
            let Err(error) = self.publish(shared, stop, &mut notified) else { return };
            let error = error.to_string();
            if error != told {
                tell(&format!(
                    "cannot publish to the broker {}: {error}; trying again",
                    self.settings.broker
                ));
                told = error;
            }
            let failed = Instant::now();
            while failed.elapsed() < AGAIN && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }

    /// Publishes the figures each minute until `stop` is set.
    fn publish(&self, shared: &Shared, stop: &AtomicBool, notified: &mut u64) -> io::Result<()> {
        let mut stream = self.connect()?;
        let mut described: Vec<String> = Vec::new();
        let mut minutes = 0;
        self.send(&mut stream, &self.topic("availability"), "online", true)?;
        while !stop.load(Ordering::Relaxed) {
            let figures = shared.wait(minutes, Duration::from_millis(500));
            if figures.minutes <= minutes {
                continue;
            }
            minutes = figures.minutes;
            self.send_figures(&mut stream, &figures, &mut described)?;
            for (number, text) in &figures.notifications {
                if number > notified {
                    self.send(&mut stream, &self.topic("notification"), text, false)?;
                    *notified = *number;
                }
            }
        }
        self.send(&mut stream, &self.topic("availability"), "offline", true)?;
        let mut bytes = BytesMut::new();
        Disconnect.write(&mut bytes).map_err(of_protocol)?;
        stream.write_all(&bytes)
    }

    fn send_figures(
        &self,
        stream: &mut TcpStream,
        figures: &Figures,
        described: &mut Vec<String>,
    ) -> io::Result<()> {
        let status = status::of(figures);
        for (key, description) in self.sensors(&status) {
            if !described.contains(&key) {
                let topic =
                    format!("{}/sensor/fonio_{}/{key}/config", self.settings.discovery_prefix, self.id);
                self.send(stream, &topic, &description.to_string(), true)?;
                described.push(key);
            }
        }
        let text = serde_json::to_string(&status)?;
        self.send(stream, &self.topic("state"), &text, false)
    }

    fn topic(&self, what: &str) -> String {
        format!("fonio/{}/{what}", self.id)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let broker = &self.settings.broker;
        let with_port = if broker.contains(':') { broker.clone() } else { format!("{broker}:{PORT}") };
        let address = with_port.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the broker's name does not resolve"))?;
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut connect = Connect::new(format!("fonio_{}", self.id));
        connect.keep_alive = KEEP_ALIVE_S;
        connect.last_will =
            Some(LastWill::new(self.topic("availability"), b"offline".to_vec(), QoS::AtMostOnce, true));
        if let Some(user) = &self.settings.user {
            connect.set_login(user, &self.password);
        }
        let mut bytes = BytesMut::new();
        connect.write(&mut bytes).map_err(of_protocol)?;
        stream.write_all(&bytes)?;
        accepted(&mut stream)?;
        Ok(stream)
    }

    fn send(&self, stream: &mut TcpStream, topic: &str, text: &str, retain: bool) -> io::Result<()> {
        let mut publish = Publish::new(topic, QoS::AtMostOnce, text.as_bytes());
        publish.retain = retain;
        let mut bytes = BytesMut::new();
        publish.write(&mut bytes).map_err(of_protocol)?;
        stream.write_all(&bytes)
    }

    /// Returns the sensors, each with its key and its description for Home Assistant's MQTT discovery.
    fn sensors(&self, status: &Status) -> Vec<(String, Value)> {
        let measured = |unit: &str, icon: &str| json!({ "unit_of_measurement": unit, "state_class": "measurement", "icon": icon });
        let with = |mut description: Value, template: &str| {
            description["json_attributes_topic"] = self.topic("state").into();
            description["json_attributes_template"] = template.into();
            description
        };
        let last_stall =
            with(json!({ "device_class": "timestamp" }), "{{ {'what': value_json.last_stall} | tojson }}");
        let blocked =
            with(measured("%", "mdi:timer-sand"), "{{ {'unit': value_json.blocked_most} | tojson }}");
        let longest = json!({
            "unit_of_measurement": "ms", "device_class": "duration", "state_class": "measurement",
        });
        let pressure = measured("%", "mdi:gauge");
        let mut sensors = Vec::new();
        for (key, name, description) in [
            (
                "stalls",
                "Stalls",
                json!({ "state_class": "total_increasing", "icon": "mdi:timer-alert-outline" }),
            ),
            ("last_stall_at", "Last stall", last_stall),
            ("blocked_most_percent", "Blocked on storage", blocked),
            ("longest_wait_ms", "Longest wait for storage", longest),
            ("io_pressure_percent", "I/O pressure", pressure),
        ] {
            if key != "io_pressure_percent" || status.io_pressure_percent.is_some() {
                let template = format!("{{{{ value_json.{key} }}}}");
                sensors.push(self.sensor(key, name, &template, description));
            }
        }
        let bytes = json!({
            "unit_of_measurement": "B", "device_class": "data_size", "state_class": "total_increasing",
        });
        for (device, figures) in &status.devices {
            let mut add = |suffix: &str, shown: &str, field: &str, description: Value| {
                let key = format!("{}_{suffix}", identifier(device));
                let name = device.replace('\'', "");
                let template = format!("{{{{ value_json.devices['{name}'].{field} }}}}");
                sensors.push(self.sensor(&key, &format!("{device} {shown}"), &template, description));
            };
            add("written", "written", "written_bytes", bytes.clone());
            if figures.life_used_percent.is_some() {
                add("life", "life used", "life_used_percent", measured("%", "mdi:sd"));
            }
        }
        sensors
    }

    fn sensor(&self, key: &str, name: &str, template: &str, more: Value) -> (String, Value) {
        let mut description = json!({
            "name": name,
            "unique_id": format!("fonio_{}_{key}", self.id),
            "object_id": format!("fonio_{}_{key}", self.id),
            "state_topic": self.topic("state"),
            "value_template": template,
            "availability_topic": self.topic("availability"),
            // Home Assistant shows the sensor as unavailable after three minutes without figures.
            "expire_after": 180,
            "device": {
                "identifiers": [format!("fonio_{}", self.id)],
                "name": format!("{} storage", self.name),
                "manufacturer": "fonio",
                "model": "fonio watch",
                "sw_version": env!("CARGO_PKG_VERSION"),
            },
        });
        if let (Some(all), Value::Object(more)) = (description.as_object_mut(), more) {
            all.extend(more);
        }
        (key.to_owned(), description)
    }
}

/// Reads the broker's CONNACK packet.
fn accepted(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    loop {
        let mut part = [0; 256];
        let length = stream.read(&mut part)?;
        if length == 0 || bytes.len() > ANSWER_MAX {
            return Err(io::Error::other("the broker does not support MQTT 3.1.1"));
        }
        bytes.extend_from_slice(&part[..length]);
        match mqttbytes::v4::read(&mut bytes, ANSWER_MAX) {
            Ok(Packet::ConnAck(answer)) => {
                return match answer.code {
                    ConnectReturnCode::Success => Ok(()),
                    ConnectReturnCode::BadUserNamePassword | ConnectReturnCode::NotAuthorized => {
                        Err(io::Error::other(
                            "the broker rejects the user or the password; set `user` and `password-file`",
                        ))
                    }
                    code => Err(io::Error::other(format!("the broker rejects the connection ({code:?})"))),
                };
            }
            Err(mqttbytes::Error::InsufficientBytes(_)) => {}
            Ok(_) | Err(_) => return Err(io::Error::other("the broker does not support MQTT 3.1.1")),
        }
    }
}

fn of_protocol(error: mqttbytes::Error) -> io::Error {
    io::Error::other(format!("{error:?}"))
}
