//! Reads totals of devices: the text of iostat, `sar -d`, copies of /proc/diskstats, and the histograms of biolatency. They
//! have no requests, so the reader gives samples of counters, as fonio's own monitor does, and numbers of requests by latency.
//!
//! iostat and sar print averages of an interval. Each is multiplied by the length of its interval, and the products of a
//! device are summed up. Devices that never did anything are left out.

mod diskstats;
mod histogram;
mod sysstat;

use std::io::{self, Read};

use fonio_core::meta::{Clock, SHOWS_TOTALS, Source};
use fonio_core::{Batch, Metric, Sample, Severity, Timestamp, TraceReader};
use rustc_hash::{FxHashMap, FxHashSet};

use self::diskstats::Diskstats;
use self::histogram::Histogram;
use self::sysstat::Sysstat;
use crate::complaints::{Complaints, InputPlace};
use crate::input::Input;
use crate::lines::Lines;

/// Number of lines in a batch.
const BATCH_LINES: usize = 4096;
/// Maximum number of devices.
const DEVICES_MAX: usize = 1024;
/// Maximum number of histograms with different names.
const HISTOGRAMS_MAX: usize = 256;
/// The length of an interval if the text does not say it.
const UNKNOWN_NS: u64 = 1_000_000_000;
/// Number of lines in which the table of devices must begin. sar prints up to a hundred tables before it.
const LINES_EXAMINED: usize = 2000;

/// What a device did in an interval. An unknown amount is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amounts {
    requests: Option<f64>,
    read_bytes: Option<f64>,
    write_bytes: Option<f64>,
    busy_ms: Option<f64>,
    /// The response times of all requests together.
    wait_ms: Option<f64>,
}

impl Amounts {
    const METRICS: [Metric; 5] = [
        Metric::DiskRequests,
        Metric::DiskReadBytes,
        Metric::DiskWriteBytes,
        Metric::DiskBusyMs,
        Metric::DiskWaitMs,
    ];

    fn values(&self) -> [Option<f64>; 5] {
        [self.requests, self.read_bytes, self.write_bytes, self.busy_ms, self.wait_ms]
    }

    /// Multiplies amounts per second by the length of an interval.
    fn times(self, seconds: f64) -> Amounts {
        let times = |value: Option<f64>| value.map(|value| value * seconds);
        Amounts {
            requests: times(self.requests),
            read_bytes: times(self.read_bytes),
            write_bytes: times(self.write_bytes),
            busy_ms: times(self.busy_ms),
            wait_ms: times(self.wait_ms),
        }
    }
}

/// What a device did since the beginning of the text.
#[derive(Debug, Default)]
struct Sums {
    values: [f64; 5],
    /// Which of the values the text has.
    known: [bool; 5],
    /// The end of its last interval.
    until: u64,
}

/// The amounts of each device since the beginning of the text.
#[derive(Debug, Default)]
struct Devices {
    sums: FxHashMap<String, Sums>,
    samples: Vec<Sample>,
    /// The beginning of the first interval of the text, and the end of its last.
    span: Option<(u64, u64)>,
    /// Number of devices beyond [`DEVICES_MAX`].
    left_out: u64,
}

impl Devices {
    /// Adds what a device did in the interval.
    fn add(&mut self, name: &str, (began, ended): (u64, u64), amounts: Amounts) {
        let values = amounts.values();
        let (from, until) = self.span.unwrap_or((began, ended));
        let span = (from.min(began), until.max(ended));
        self.span = Some(span);
        let known = self.sums.contains_key(name);
        if !known && values.iter().flatten().all(|value| *value <= 0.0) {
            return;
        }
        if !known && self.sums.len() >= DEVICES_MAX {
            self.left_out += 1;
            return;
        }
        let sums = self.sums.entry(name.to_owned()).or_default();
        sums.until = ended;
        for (at, (metric, value)) in Amounts::METRICS.into_iter().zip(values).enumerate() {
            let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else { continue };
            if !sums.known[at] {
                sums.known[at] = true;
                // Before, the device did nothing: idle devices are left out, and some options omit them.
                self.samples.push(sample(name, span.0, metric, 0.0));
            }
            sums.values[at] += value;
            self.samples.push(sample(name, ended, metric, sums.values[at]));
        }
    }

    /// Adds the idle time at the end of the text to devices that the text left out there.
    fn finish(&mut self) {
        let Some((_, ended)) = self.span else { return };
        let mut idle: Vec<(&String, &Sums)> =
            self.sums.iter().filter(|(_, sums)| sums.until < ended).collect();
        idle.sort_unstable_by_key(|(name, _)| *name);
        for (name, sums) in idle {
            let known = Amounts::METRICS.into_iter().enumerate().filter(|(at, _)| sums.known[*at]);
            self.samples.extend(known.map(|(at, metric)| sample(name, ended, metric, sums.values[at])));
        }
    }
}

fn sample(name: &str, time: u64, metric: Metric, value: f64) -> Sample {
    let (time, subject) = (Timestamp(time), Some(name.to_owned()));
    Sample { time, metric, subject, value: value.round() as i64 }
}

/// The histograms of the text.
#[derive(Debug, Default)]
struct Histograms {
    names: FxHashSet<String>,
    samples: Vec<Sample>,
    /// Number of rows of histograms beyond [`HISTOGRAMS_MAX`].
    left_out: u64,
}

impl Histograms {
    /// Adds the number of requests whose latency was at least the first bound and less than the second.
    fn add(&mut self, name: &str, time: u64, (from, below): (u64, u64), count: i64) {
        if !self.names.contains(name) {
            if self.names.len() >= HISTOGRAMS_MAX {
                self.left_out += 1;
                return;
            }
            self.names.insert(name.to_owned());
        }
        let subject = Some(format!("{from} {below} {name}"));
        let (time, metric) = (Timestamp(time), Metric::LatencyRequests);
        self.samples.push(Sample { time, metric, subject, value: count });
    }
}

/// What a table's reader knows of the times of its intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// The text has them.
    Known,
    /// The text has no times, so each interval counts as a second.
    Unknown,
    /// All copies have the same time, so there is no interval.
    Equal,
    /// The text needs no times.
    NotNeeded,
}

enum Text {
    Sysstat(Sysstat),
    Diskstats(Diskstats),
    Histogram(Histogram),
}

impl Text {
    /// Returns the reader of a text with this head; `None` if it has no totals.
    fn of(head: &[u8]) -> Option<Text> {
        let text = String::from_utf8_lossy(head);
        let lines = || text.lines().take(LINES_EXAMINED);
        if Sysstat::recognise(lines()) {
            Some(Text::Sysstat(Sysstat::default()))
        } else if Histogram::recognise(lines()) {
            Some(Text::Histogram(Histogram::default()))
        } else {
            Diskstats::recognise(lines()).then(|| Text::Diskstats(Diskstats::default()))
        }
    }
}

/// Returns whether a text has a table of devices by iostat or sar, several copies of /proc/diskstats, or a histogram of
/// biolatency.
pub fn recognise(head: &[u8]) -> bool {
    Text::of(head).is_some()
}

/// Reads totals of devices.
pub struct TotalsReader {
    lines: Lines<Box<dyn Read + Send>>,
    file: String,
    text: Option<Text>,
    devices: Devices,
    histograms: Histograms,
    complaints: Complaints,
    ended: bool,
}

impl TotalsReader {
    /// Creates a reader of `input`, whose first bytes are `head`.
    pub fn new(input: Input, head: &[u8]) -> TotalsReader {
        let text = Text::of(head).unwrap_or(Text::Diskstats(Diskstats::default()));
        TotalsReader {
            lines: Lines::new(input.bytes),
            file: input.name,
            text: Some(text),
            devices: Devices::default(),
            histograms: Histograms::default(),
            complaints: Complaints::default(),
            ended: false,
        }
    }

    fn finish(&mut self) {
        let (times, since_boot) = match self.text.take() {
            Some(Text::Histogram(text)) => {
                self.finish_histograms(&text);
                (Times::NotNeeded, false)
            }
            Some(Text::Sysstat(mut text)) => (text.finish(&mut self.devices), text.left_out_since_boot()),
            Some(Text::Diskstats(mut text)) => (text.finish(&mut self.devices), false),
            None => return,
        };
        self.devices.finish();
        let place = InputPlace { file: &self.file, ..InputPlace::default() };
        let mut add = |severity, code, message: &str| {
            self.complaints.add(severity, code, place, || message.to_owned());
        };
        add(
            Severity::Note,
            "only-totals",
            "The text has totals of each device, without requests: it shows rates, mean sizes, mean times and utilisation, but \
             not which requests were slow, whose they were, and how deep the queue was at which time.",
        );
        if times == Times::Unknown {
            add(
                Severity::Warning,
                "unknown-interval",
                "The text does not say how long its intervals are, so each counts as one second: rates and shares are right, \
                 amounts are not. Print times: `iostat -t -x 1`, or `date +%s` before each copy of /proc/diskstats.",
            );
        }
        if times == Times::Equal {
            add(
                Severity::Warning,
                "no-interval",
                "All copies of /proc/diskstats have the same second, so no interval is known. Print parts of seconds: \
                 `date +%s.%N` before each copy.",
            );
        }
        if since_boot {
            add(
                Severity::Note,
                "since-boot",
                "The first report of iostat is about the time since the start of the machine, so it was left out.",
            );
        }
        if self.devices.left_out > 0 {
            add(Severity::Warning, "many-devices", "Only the first 1024 active devices were read.");
        }
        if self.devices.sums.is_empty() && !matches!(times, Times::Equal | Times::NotNeeded) {
            add(Severity::Warning, "idle-devices", "No device completed a request in the time of this text.");
        }
        self.complaints.finish();
    }
}

impl TotalsReader {
    fn finish_histograms(&mut self, text: &Histogram) {
        let place = InputPlace { file: &self.file, ..InputPlace::default() };
        self.devices.span = text.span();
        if text.is_empty() {
            self.complaints
                .add(Severity::Warning, "no-counts", place, || "The histogram has no requests.".into());
        }
        if self.histograms.left_out > 0 {
            self.complaints.add(Severity::Warning, "many-histograms", place, || {
                format!("Only the first {HISTOGRAMS_MAX} histograms with different names were read.")
            });
        }
    }
}

impl TraceReader for TotalsReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        for _ in 0..BATCH_LINES {
            if self.ended {
                break;
            }
            match self.lines.next()? {
                None => {
                    self.ended = true;
                    self.finish();
                }
                Some(line) => {
                    let line = String::from_utf8_lossy(line.bytes);
                    match &mut self.text {
                        Some(Text::Sysstat(text)) => text.line(&line, &mut self.devices),
                        Some(Text::Diskstats(text)) => text.line(&line, &mut self.devices),
                        Some(Text::Histogram(text)) => text.line(&line, &mut self.histograms),
                        None => {}
                    }
                }
            }
        }
        batch.samples.append(&mut self.devices.samples);
        batch.samples.append(&mut self.histograms.samples);
        // Idle devices have no samples, but their time was measured.
        if let Some((began, ended)) = self.devices.span.filter(|_| self.ended) {
            [began, ended].into_iter().for_each(|time| batch.instants.see(Timestamp(time)));
        }
        batch.diagnostics.append(&mut self.complaints.ready);
        Ok(!self.ended)
    }

    fn source(&self) -> Source {
        Source {
            format: "totals".into(),
            files: vec![self.file.clone()],
            shows: vec![SHOWS_TOTALS.to_owned()],
        }
    }

    fn clock(&self) -> Clock {
        Clock { name: "unknown".into(), unix_ns_at_zero: None }
    }
}

/// Returns a number that may have a decimal comma, and one of the units of `--human`: `40.5M`, `85,4%`.
fn number(word: &str) -> Option<f64> {
    let word = word.strip_suffix('%').unwrap_or(word);
    let (digits, unit) = match word.char_indices().last()? {
        (at, letter) if letter.is_ascii_alphabetic() => (&word[..at], letter),
        _ => (word, ' '),
    };
    let value: f64 = digits.replacen(',', ".", 1).parse().ok()?;
    let times = match unit {
        ' ' | 'B' => 1.0,
        's' => 512.0,
        'k' | 'K' => 1024.0,
        'M' => 1_048_576.0,
        'G' => 1_073_741_824.0,
        'T' => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(value * times).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests;
