//! Copies of /proc/diskstats, one after the other.
//!
//! A line has the numbers of a device, its name, and counters since the start of the machine: reads, merged reads, sectors
//! read, ms of reads, writes, merged writes, sectors written, ms of writes, requests in flight, busy ms, weighted ms; then
//! discards (reads, merged, sectors, ms) and flushes (count, ms). A copy ends where a device appears again. A line with a
//! number alone is the time of the copy after it, in seconds (`date +%s`). Source: `Documentation/admin-guide/iostats.rst`.

use rustc_hash::FxHashMap;

use super::{Amounts, DEVICES_MAX, Devices, Times, UNKNOWN_NS};

const SECTOR_BYTES: f64 = 512.0;

/// The counters of a device that are read: requests, bytes read, bytes written, busy ms, ms of all requests.
type Counters = [u64; 5];

#[derive(Debug, Default)]
pub(super) struct Diskstats {
    before: FxHashMap<String, Counters>,
    /// The devices of the current copy, in their order.
    now: Vec<(String, Counters)>,
    /// The time of the copy before, and of the current one.
    at_before: Option<u64>,
    at: Option<u64>,
    /// Whether the times stand before their copies; known from the first time on.
    is_time_first: Option<bool>,
    has_times: bool,
    copies: u64,
    intervals: u64,
}

impl Diskstats {
    /// Returns whether a text has several copies.
    pub fn recognise<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
        let (mut first, mut others) = (None, 0);
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match (device(line), &first) {
                (Some((name, _)), Some(known)) if *known == name => return true,
                (Some((name, _)), None) => first = Some(name),
                (Some(_), _) => {}
                (None, _) if time(line).is_some() => {}
                // Text of another kind.
                (None, _) => others += 1,
            }
            if others > 2 {
                return false;
            }
        }
        false
    }

    pub fn line(&mut self, line: &str, devices: &mut Devices) {
        if let Some(at) = time(line) {
            if *self.is_time_first.get_or_insert(self.now.is_empty()) {
                self.end(devices);
                self.at = Some(at);
            } else {
                self.at = Some(at);
                self.end(devices);
            }
            return;
        }
        let Some((name, counters)) = device(line) else { return };
        if self.now.iter().any(|(known, _)| *known == name) {
            self.end(devices);
        }
        if self.now.len() < DEVICES_MAX {
            self.now.push((name.to_owned(), counters));
        }
    }

    /// Returns the time of the current copy; `None` if the copy does not end an interval.
    fn time_of_copy(&mut self) -> Option<u64> {
        match self.at.take() {
            // Times after the first interval cannot be those of all copies.
            Some(at) if self.has_times || self.copies <= 1 => {
                if !self.has_times {
                    self.has_times = true;
                    self.at_before = None;
                }
                Some(at).filter(|at| self.at_before != Some(*at))
            }
            _ if self.has_times => None,
            _ => Some(self.at_before.map_or(0, |before| before + UNKNOWN_NS)),
        }
    }

    /// Ends a copy. A copy at the time of the copy before, or at an unknown time, is left out: the next copy has its amounts.
    fn end(&mut self, devices: &mut Devices) {
        if self.now.is_empty() {
            self.at = None;
            return;
        }
        self.copies += 1;
        let Some(at) = self.time_of_copy() else { return self.now.clear() };
        // A clock that was set back begins anew.
        if let Some(before_at) = self.at_before.filter(|before| *before < at) {
            self.intervals += 1;
            for (name, counters) in &self.now {
                let Some(before) = self.before.get(name) else { continue };
                // A counter that fell belongs to another device with this name.
                if counters.iter().zip(before).any(|(now, before)| now < before) {
                    continue;
                }
                let rise = |place: usize| Some((counters[place] - before[place]) as f64);
                let amounts = Amounts {
                    requests: rise(0),
                    read_bytes: rise(1).map(|sectors| sectors * SECTOR_BYTES),
                    write_bytes: rise(2).map(|sectors| sectors * SECTOR_BYTES),
                    busy_ms: rise(3),
                    wait_ms: rise(4),
                };
                devices.add(name, (before_at, at), amounts);
            }
        }
        self.at_before = Some(at);
        self.before = self.now.drain(..).collect();
    }

    pub fn finish(&mut self, devices: &mut Devices) -> Times {
        self.end(devices);
        match (self.intervals, self.has_times) {
            (0, _) => Times::Equal,
            (_, true) => Times::Known,
            (_, false) => Times::Unknown,
        }
    }
}

/// Returns a time in ns: a line with only a number of seconds since 1970.
fn time(line: &str) -> Option<u64> {
    let line = line.trim();
    let seconds: f64 = line.parse().ok()?;
    let is_time = line.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_time && (1e8..1e10).contains(&seconds)).then_some((seconds * 1e9) as u64)
}

fn device(line: &str) -> Option<(&str, Counters)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if !(14..=24).contains(&words.len()) {
        return None;
    }
    let numbers: Vec<u64> = words
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 2)
        .map(|(_, word)| word.parse().ok())
        .collect::<Option<_>>()?;
    let name = words[2];
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Without the name, the two numbers of the device come first.
    let number = |place: usize| numbers.get(place + 2).copied().unwrap_or(0);
    let sum = |places: &[usize]| places.iter().fold(0_u64, |sum, place| sum.saturating_add(number(*place)));
    let counters = [sum(&[0, 4, 11, 15]), number(2), number(6), number(9), sum(&[3, 7, 14, 16])];
    Some((name, counters))
}
