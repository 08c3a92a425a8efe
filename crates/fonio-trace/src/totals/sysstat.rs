//! The tables of devices in the text of iostat and of `sar -d`.
//!
//! The first line of a table names its columns. iostat prints a table for each interval, and with `-t` its time before it; the
//! first one is about the time since the start of the machine. sar prints all intervals of a day in one table, with the time at
//! the end of each at the beginning of its lines, and the time of the beginning in the first line.

use super::{Amounts, Devices, Times, UNKNOWN_NS, number};

const DAY_NS: u64 = 86_400 * NS;
const NS: u64 = 1_000_000_000;
/// Bytes of a sector, in columns such as `rsec/s`.
const SECTOR: f64 = 512.0;
const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Device,
    /// Requests per second of one kind: `r`, `w`, `d` (discards), `f` (flushes), or `t` for all.
    Requests(u8),
    /// Bytes per second, in this unit.
    Read(f64),
    Write(f64),
    /// Mean response time in ms of the requests of one kind.
    Await(u8),
    /// Share of the time with a request in flight, in percent.
    Busy,
    Other,
}

impl Column {
    fn of(name: &str) -> Column {
        match name {
            "Device" | "Device:" | "DEV" => Column::Device,
            "tps" | "r/s" | "w/s" | "d/s" | "f/s" => Column::Requests(name.as_bytes()[0]),
            "kB_read/s" | "rkB/s" => Column::Read(KIB),
            "kB_wrtn/s" | "wkB/s" => Column::Write(KIB),
            "MB_read/s" | "rMB/s" => Column::Read(MIB),
            "MB_wrtn/s" | "wMB/s" => Column::Write(MIB),
            "Blk_read/s" | "rsec/s" | "rd_sec/s" => Column::Read(SECTOR),
            "Blk_wrtn/s" | "wsec/s" | "wr_sec/s" => Column::Write(SECTOR),
            "await" => Column::Await(b't'),
            "r_await" | "w_await" | "d_await" | "f_await" => Column::Await(name.as_bytes()[0]),
            "%util" => Column::Busy,
            _ => Column::Other,
        }
    }
}

/// Returns the columns of a table of devices, and whether it is sar's, whose lines begin with a time.
fn columns(line: &str) -> Option<(Vec<Column>, bool)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let device = words.iter().position(|word| Column::of(word) == Column::Device)?;
    let is_sar = words[device] == "DEV";
    if is_sar && time_of_day(&words).is_none() {
        return None;
    }
    let begin = if is_sar { device } else { 0 };
    let columns: Vec<Column> = words[begin..].iter().map(|word| Column::of(word)).collect();
    let has_requests = columns.iter().any(|column| matches!(column, Column::Requests(_)));
    has_requests.then_some((columns, is_sar))
}

/// Returns the time of day in seconds at the beginning of a line, and the number of words in it.
pub(super) fn time_of_day(words: &[&str]) -> Option<(u64, usize)> {
    let parts: Vec<u64> = words.first()?.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let (hours, count) = match words.get(1) {
        Some(&"AM") => (hours % 12, 2),
        Some(&"PM") => (hours % 12 + 12, 2),
        _ => (hours, 1),
    };
    Some((hours * 3600 + minutes * 60 + seconds, count))
}

/// Returns the time in the line that `iostat -t` prints before a report: a day and a time of day.
fn time_of_report(words: &[&str]) -> Option<u64> {
    if !(1..=3).contains(&words.len()) || !words[0].starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    // ISO 8601, with `S_TIME_FORMAT=ISO`: 2026-11-27T12:00:00+0000.
    if let Some((_, time)) = words[0].split_once('T') {
        return time_of_day(&[time.get(..8)?]).map(|(seconds, _)| seconds);
    }
    let is_day = words[0].matches(['/', '.', '-']).count() == 2;
    (is_day && words.len() > 1).then(|| time_of_day(&words[1..])).flatten().map(|(seconds, _)| seconds)
}

#[derive(Debug, Default)]
pub(super) struct Sysstat {
    columns: Option<Vec<Column>>,
    is_sar: bool,
    /// Time of day of the beginning and end of the current interval in ns, counted on after midnight.
    began: Option<u64>,
    ended: Option<u64>,
    /// The rows of iostat's first report, which is about the time since the start of the machine.
    first: Option<Vec<(String, Amounts)>>,
    reports: u64,
    has_times: bool,
    left_out: bool,
}

impl Sysstat {
    /// Returns whether a text has a table of devices.
    pub fn recognise<'t>(mut lines: impl Iterator<Item = &'t str>) -> bool {
        lines.any(|line| columns(line).is_some())
    }

    /// Returns the time in ns of a time of day that follows `before`.
    fn after(seconds: u64, before: Option<u64>) -> u64 {
        let mut time = seconds * NS;
        let before = before.unwrap_or(0);
        if time < before {
            time = time.saturating_add((before - time).div_ceil(DAY_NS).saturating_mul(DAY_NS));
        }
        time
    }

    pub fn line(&mut self, line: &str, devices: &mut Devices) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((columns, is_sar)) = columns(line) {
            self.columns = Some(columns);
            self.is_sar = is_sar;
            if is_sar {
                // The time of the header is the beginning of the first interval.
                let at = time_of_day(&words).map(|(seconds, _)| Sysstat::after(seconds, self.ended));
                (self.began, self.ended) = (at, at);
                self.has_times = true;
            } else {
                self.report();
            }
            return;
        }
        if !self.is_sar
            && let Some(seconds) = time_of_report(&words)
        {
            self.has_times = true;
            let at = Sysstat::after(seconds, self.ended);
            (self.began, self.ended) = (self.ended, Some(at));
            self.columns = None;
            return;
        }
        let is_end = words.first().is_none_or(|word| matches!(*word, "avg-cpu:" | "Linux" | "Average:"));
        if is_end {
            self.columns = None;
            return;
        }
        self.row(&words, devices);
    }

    /// Begins a report of iostat.
    fn report(&mut self) {
        self.reports += 1;
        if !self.has_times {
            let ended = self.ended.unwrap_or(0);
            (self.began, self.ended) = (Some(ended), Some(ended + UNKNOWN_NS));
        }
    }

    fn row(&mut self, words: &[&str], devices: &mut Devices) {
        let Some(columns) = &self.columns else { return };
        let mut words = words;
        if self.is_sar {
            let Some((seconds, count)) = time_of_day(words) else {
                // The table of another statistic follows.
                self.columns = None;
                return;
            };
            let at = Sysstat::after(seconds, self.ended);
            if Some(at) != self.ended {
                (self.began, self.ended) = (self.ended, Some(at));
            }
            words = &words[count..];
        }
        if words.len() != columns.len() {
            self.columns = None;
            return;
        }
        let Some((name, amounts)) = amounts(columns, words) else {
            self.columns = None;
            return;
        };
        if !self.is_sar && self.reports == 1 {
            self.first.get_or_insert_default().push((name.to_owned(), amounts));
            return;
        }
        let (Some(began), Some(ended)) = (self.began, self.ended) else { return };
        self.left_out |= self.first.take().is_some();
        devices.add(name, (began, ended), amounts.times((ended - began) as f64 / NS as f64));
    }

    pub fn left_out_since_boot(&self) -> bool {
        self.left_out
    }

    pub fn finish(&mut self, devices: &mut Devices) -> Times {
        // A single report has only averages since the start of the machine, whose length is unknown.
        for (name, amounts) in self.first.take().unwrap_or_default() {
            self.has_times = false;
            devices.add(&name, (0, UNKNOWN_NS), amounts);
        }
        if self.has_times { Times::Known } else { Times::Unknown }
    }
}

/// Returns the device of a row, and its amounts per second.
fn amounts<'w>(columns: &[Column], words: &[&'w str]) -> Option<(&'w str, Amounts)> {
    let (mut name, mut amounts) = (None, Amounts::default());
    let (mut rates, mut means) = (Vec::new(), Vec::new());
    for (column, word) in columns.iter().zip(words) {
        if *column == Column::Device {
            name = Some(*word);
            continue;
        }
        if *column == Column::Other {
            continue;
        }
        // `--human` prints bytes with their unit, whatever the column says.
        let has_unit = word.ends_with(|letter: char| letter.is_ascii_alphabetic());
        let value = number(word)?;
        let bytes = |unit: f64| Some(if has_unit { value } else { value * unit });
        match column {
            Column::Requests(kind) => rates.push((*kind, value)),
            Column::Read(unit) => amounts.read_bytes = bytes(*unit),
            Column::Write(unit) => amounts.write_bytes = bytes(*unit),
            Column::Await(kind) => means.push((*kind, value)),
            // Rounded, it can be a little more than all the time.
            Column::Busy => amounts.busy_ms = Some(10.0 * value.min(100.0)),
            Column::Device | Column::Other => {}
        }
    }
    let total: f64 = rates.iter().map(|(_, rate)| rate).sum();
    amounts.requests = (!rates.is_empty()).then_some(total);
    let of_all = means.iter().find(|(kind, _)| *kind == b't').map(|(_, mean)| mean * total);
    let of_kinds = || {
        let rate = |of: u8| rates.iter().find(|(kind, _)| *kind == of).map_or(0.0, |(_, rate)| *rate);
        means.iter().map(|(kind, mean)| rate(*kind) * mean).sum()
    };
    amounts.wait_ms = of_all.or_else(|| (!means.is_empty()).then(of_kinds));
    Some((name?, amounts))
}
