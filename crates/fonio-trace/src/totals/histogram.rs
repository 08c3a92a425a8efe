//! The histograms of biolatency, of bcc and libbpf-tools.
//!
//! ```text
//! Tracing block device I/O... Hit Ctrl-C to end.
//!
//! disk = vda   flags = Sync-Write
//!      usecs               : count    distribution
//!        256 -> 511        : 77       |****************************************|
//! ```
//!
//! A row has the number of requests whose latency, rounded down to the unit, is within bounds. The bounds are powers of two, so
//! a percentile is known only as a range. With `-T`, each interval has the time of its end. Other programs of bcc print
//! the same histograms of other things, such as waits for a processor, so the first line or the name of a disk must be there.
//!
//! `biolatency -j` of bcc prints a histogram as a dictionary of Python in one line:
//!
//! ```text
//! {'ts': '2026-11-27 20:14:05', 'val_type': 'usecs', 'data': [{'interval-start': 0, 'interval-end': 1, 'count': 2}], 'disk': b'vda'}
//! ```

use serde::Deserialize;

use super::Histograms;
use super::sysstat::time_of_day;

const NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * NS;
/// The first line of biolatency.
const FIRST: &str = "Tracing block device I/O";
/// Maximum length of the name of a histogram. The longest set of flags has about 100 characters.
const NAME_BYTES_MAX: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Histogram {
    name: String,
    unit_ns: Option<u64>,
    /// The end of the current interval in ns since midnight of the first day, if the text has it.
    ended: Option<u64>,
    first: Option<u64>,
    rows: u64,
    /// The text is of `biolatency -j`, which says the interval's end in each line.
    is_of_dictionaries: bool,
}

impl Histogram {
    /// Returns whether a text is of biolatency.
    pub fn recognise<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
        let (mut is_of_disks, mut has_columns) = (false, false);
        for line in lines {
            if Dictionary::of(line).is_some_and(|one| one.unit_ns().is_some() && !one.name().is_empty()) {
                return true;
            }
            is_of_disks |= line.starts_with(FIRST) || name(line).is_some_and(|name| !name.is_empty());
            has_columns |= unit(line).is_some();
            if is_of_disks && has_columns {
                return true;
            }
        }
        false
    }

    pub fn line(&mut self, line: &str, histograms: &mut Histograms) {
        if let Some(one) = Dictionary::of(line) {
            self.dictionary(&one, histograms);
            return;
        }
        if let Some(name) = name(line) {
            self.name = name;
            self.unit_ns = None;
            return;
        }
        if let Some(unit_ns) = unit(line) {
            self.unit_ns = Some(unit_ns);
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() == 1
            && let Some((seconds, _)) = time_of_day(&words)
        {
            // With `-j` and `-T`, the dictionaries have the same times, with the day.
            if !self.is_of_dictionaries {
                self.interval_ended(seconds);
            }
            self.name.clear();
            return;
        }
        let (Some(unit_ns), [first, "->", last, ":", count, ..]) = (self.unit_ns, &words[..]) else {
            return;
        };
        let (Ok(first), Ok(last), Ok(count)) =
            (first.parse::<u64>(), last.parse::<u64>(), count.parse::<i64>())
        else {
            return;
        };
        self.row((first, last, count), unit_ns, histograms);
    }

    /// An interval ended at this second of a day.
    fn interval_ended(&mut self, seconds: u64) {
        let mut at = seconds * NS;
        if let Some(before) = self.ended.filter(|before| *before > at) {
            at = at.saturating_add((before - at).div_ceil(DAY_NS).saturating_mul(DAY_NS));
        }
        self.first.get_or_insert(at);
        self.ended = Some(at);
    }

    fn row(&mut self, (first, last, count): (u64, u64, i64), unit_ns: u64, histograms: &mut Histograms) {
        let bounds =
            first.checked_mul(unit_ns).zip(last.checked_add(1).and_then(|end| end.checked_mul(unit_ns)));
        let Some((from, below)) = bounds.filter(|(from, below)| from < below && count > 0) else { return };
        self.rows += 1;
        histograms.add(&self.name, self.ended.unwrap_or(0), (from, below), count);
    }

    fn dictionary(&mut self, one: &Dictionary, histograms: &mut Histograms) {
        let Some(unit_ns) = one.unit_ns() else { return };
        if !self.is_of_dictionaries {
            self.is_of_dictionaries = true;
            (self.first, self.ended) = (None, None);
        }
        let time = one.ts.split_once(' ').and_then(|(_, time)| time_of_day(&[time]));
        if let Some((seconds, _)) = time {
            self.interval_ended(seconds);
        }
        self.name = one.name();
        for row in &one.data {
            self.row((row.start, row.end, row.count), unit_ns, histograms);
        }
    }

    /// Returns the times of the first and last interval's ends, if the text has several.
    pub fn span(&self) -> Option<(u64, u64)> {
        self.first.zip(self.ended).filter(|(first, last)| first < last)
    }

    /// Returns whether the text has no count.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

/// A histogram of `biolatency -j`.
#[derive(Debug, Deserialize)]
struct Dictionary {
    /// The local time at the end of the interval.
    ts: String,
    val_type: String,
    data: Vec<Row>,
    /// The disk, with `-D`; older releases call it a bucket.
    #[serde(alias = "Bucket ptr", default)]
    disk: String,
    /// The flags of the requests, with `-F`.
    #[serde(default)]
    flags: String,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(rename = "interval-start")]
    start: u64,
    #[serde(rename = "interval-end")]
    end: u64,
    count: i64,
}

impl Dictionary {
    fn of(line: &str) -> Option<Dictionary> {
        let line = line.trim();
        if !line.starts_with("{'ts': '") && !line.starts_with("{\"ts\": \"") {
            return None;
        }
        // Names of disks and flags have no quotes, so Python's text differs from JSON only in the quotes.
        serde_json::from_str(&line.replace(": b'", ": '").replace('\'', "\"")).ok()
    }

    fn unit_ns(&self) -> Option<u64> {
        unit_of(&self.val_type)
    }

    fn name(&self) -> String {
        let name = [self.disk.as_str(), self.flags.as_str()].join(" ");
        fonio_core::shortened(name.trim(), NAME_BYTES_MAX).to_owned()
    }
}

/// Returns the name of a histogram: the disk, the flags of its requests, or both.
fn name(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.strip_prefix("Bucket ").unwrap_or(line);
    let (key, rest) = line.split_once(" = ")?;
    if !matches!(key, "disk" | "flags") {
        return None;
    }
    // With disks and flags, a line has both. bcc quotes disks, and Python's bytes have the letter b.
    let parts = rest.split("flags = ").map(|part| {
        let part = part.trim();
        let quoted = part
            .strip_prefix('b')
            .unwrap_or(part)
            .strip_prefix('\'')
            .and_then(|part| part.strip_suffix('\''));
        quoted.unwrap_or(part)
    });
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Some(fonio_core::shortened(&parts.join(" "), NAME_BYTES_MAX).to_owned())
}

/// Returns the unit in ns of the histogram that begins with this line.
fn unit(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    let unit = unit_of(words.next()?)?;
    (words.next() == Some(":") && words.next() == Some("count")).then_some(unit)
}

fn unit_of(word: &str) -> Option<u64> {
    match word {
        "nsecs" => Some(1),
        "usecs" => Some(1000),
        "msecs" => Some(1_000_000),
        _ => None,
    }
}
