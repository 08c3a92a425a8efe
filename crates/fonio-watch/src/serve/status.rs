//! Renders the watch's figures as a flat JSON object for sensors.

use std::collections::BTreeMap;

use fonio_core::Nanos;
use serde::Serialize;

use crate::answers::stall_sentence;
use crate::shared::Figures;
use crate::summary::{DeviceFigures, HealthReading, Summary};
use crate::times;

/// Figures of the last minute, and totals since the watch began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Status {
    /// Number of seconds since the watch began.
    pub watched_s: u64,
    /// Number of stalls since the watch began.
    pub stalls: u64,
    /// Start time (UTC) of the last stall, and a sentence that describes this stall.
    pub last_stall_at: Option<String>,
    pub last_stall: Option<String>,
    /// The party blocked longest on storage in the last minute, the sum of its threads' waits in percent of
    /// the minute, and the longest wait of any party.
    pub blocked_most: Option<String>,
    pub blocked_most_percent: f64,
    pub longest_wait_ms: f64,
    /// Share of the last minute in which some task was stalled for I/O; `None` if the kernel does not report
    /// it.
    pub io_pressure_percent: Option<f64>,
    /// Bytes that the watch itself wrote to the medium in the last 24 hours.
    pub own_written_bytes: u64,
    pub devices: BTreeMap<String, DeviceStatus>,
}

/// Figures of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DeviceStatus {
    /// Bytes written to the device since the watch began.
    pub written_bytes: u64,
    pub read_bytes: u64,
    /// Share of the last minute in which requests were in flight.
    pub busy_percent: f64,
    pub life_used_percent: Option<u32>,
    /// The party that wrote the most bytes to the device since the watch began.
    pub writes_most: Option<String>,
}

pub(super) fn of(figures: &Figures) -> Status {
    let none = Summary::default();
    let (total, minute) = (&figures.total, figures.minute.as_ref().unwrap_or(&none));
    let percent = |part: f64, seconds: u64| rounded(100.0 * part / (seconds.max(1) as f64));
    let most = most_blocked(minute);
    let longest = minute.blocked.iter().map(|row| row.waits.longest()).max().unwrap_or_default();
    let last = total.stalls.iter().max_by_key(|stall| stall.began);
    Status {
        watched_s: total.watched_s,
        stalls: total.stalls_in_all,
        last_stall_at: last.map(|stall| times::rfc3339(stall.began)),
        last_stall: last.map(stall_sentence),
        blocked_most: most.as_ref().map(|(name, _)| name.clone()),
        blocked_most_percent: percent(most.map_or(0.0, |(_, time)| time.0 as f64 / 1e9), minute.watched_s),
        longest_wait_ms: rounded(longest.0 as f64 / 1e6),
        io_pressure_percent: minute.pressure.map(|p| percent(p.io_some_ms as f64 / 1000.0, minute.watched_s)),
        own_written_bytes: figures.written.0,
        devices: total.devices.iter().map(|device| (device.name.clone(), status(device, figures))).collect(),
    }
}

fn status(device: &DeviceFigures, figures: &Figures) -> DeviceStatus {
    let minute = figures.minute.as_ref();
    let now = minute.and_then(|minute| minute.devices.iter().find(|row| row.name == device.name));
    let busy_s = now.map_or(0.0, |row| row.busy_ms as f64 / 1000.0);
    let seconds = minute.map_or(1, |minute| minute.watched_s.max(1));
    let of_device = figures.total.parties.iter().filter(|row| row.device == device.name);
    let most =
        of_device.max_by_key(|row| row.traffic.written_bytes).filter(|row| row.traffic.written_bytes.0 > 0);
    DeviceStatus {
        written_bytes: device.traffic.written_bytes.0,
        read_bytes: device.traffic.read_bytes.0,
        busy_percent: rounded(100.0 * busy_s / seconds as f64),
        life_used_percent: device.health.as_ref().and_then(HealthReading::used_percent),
        writes_most: most.map(|row| row.party.name.clone()),
    }
}

/// Returns the party whose threads were blocked for the longest time, summed over all devices.
fn most_blocked(minute: &Summary) -> Option<(String, Nanos)> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &minute.blocked {
        *times.entry(&row.party.name).or_default() += row.waits.total().0;
    }
    let most = times.into_iter().filter(|(_, time)| *time > 0).max_by_key(|(_, time)| *time);
    most.map(|(name, time)| (name.to_owned(), Nanos(time)))
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
