//! Shows whether the speed of a device depends on its own state: single slow requests, slow requests after
//! idleness, and slower writes after many bytes.
//!
//! Most figures use requests that were alone in the device: no other request was in flight at any time between
//! issue and completion. Other requests cannot have delayed these requests.

use fonio_core::{ByteCount, Nanos, Request, Sector, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filter::FilterOptions;
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::options::AnalysisOptions;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;

/// Idleness from which a device may have changed its power state, and idleness after which it has not.
const IDLE_FROM: Nanos = Nanos(100_000_000);
const BUSY_BELOW: Nanos = Nanos(20_000_000);
/// Smallest ratio of the times of reads after idleness and of other reads.
const IDLE_RATIO: f64 = 3.0;
/// Requests up to this size are compared with each other.
const SMALL: ByteCount = ByteCount(64 << 10);
/// Requests at least this far from the previous request are not sequential.
const FAR_SECTORS: u64 = 2048;
/// Fewest requests of each kind for a comparison.
const COMPARED_FROM: usize = 8;
/// Maximum number of times kept of each kind.
const TIMES_MAX: usize = 1 << 12;
/// A single request is slow if it takes at least this time, and this many times the median of its kind.
const SLOW_FROM: Nanos = Nanos(100_000_000);
const SLOW_RATIO: f64 = 10.0;
/// Number of slow requests kept.
const SLOW_KEPT: usize = 10;
/// Written bytes over which one rate is measured, and the fewest such pieces before and after a change.
const PIECE: ByteCount = ByteCount(8 << 20);
const PIECES_FROM: usize = 8;
/// Maximum number of pieces; more bytes are ignored.
const PIECES_MAX: usize = 1 << 14;
/// Smallest ratio of the rates before and after a change.
const SLOWER_FROM: f64 = 2.0;

/// The speed of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSpeed {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The requests that were alone in the device and much slower than others of their kind, longest first; at
    /// most ten.
    pub slow: Vec<SlowRequest>,
    /// Reads after idleness, compared with other reads; absent if there are too few reads, or if the times are
    /// similar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_idleness: Option<AfterIdleness>,
    /// The change of the write rate; absent if writes did not become slower for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_writes: Option<SlowerWrites>,
}

/// A request that was alone in the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowRequest {
    /// Time of issue, in nanoseconds since the span began.
    pub at_ns: Nanos,
    /// Time from issue to completion.
    pub time_ns: Nanos,
    /// Median time of the requests of the same kind that were alone in the device.
    pub usual_ns: Nanos,
}

/// Small reads that are not sequential and were alone in the device. Writes are not compared, since a device
/// may also need longer for the first of several writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AfterIdleness {
    /// Number of reads after at least 100 ms without a request.
    pub reads: u64,
    /// Their median time.
    pub median_ns: Nanos,
    /// Median time of reads after at most 20 ms without a request.
    pub otherwise_ns: Nanos,
}

/// Writes that became slower after many bytes and remained slower.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowerWrites {
    /// Bytes written until then.
    pub after: ByteCount,
    /// Bytes per second of busy time before.
    pub before_bytes_per_s: f64,
    /// Bytes per second of busy time afterwards.
    pub after_bytes_per_s: f64,
}

#[derive(Debug, Default)]
pub(crate) struct SpeedTally {
    devices: Vec<Device>,
    /// Whether the filter leaves requests out. Then it is unknown which requests were alone.
    is_filtered: bool,
}

#[derive(Debug, Default)]
struct Device {
    /// The request in flight that was alone so far, and its idleness before.
    alone: Option<Alone>,
    free_from: Option<Timestamp>,
    last_end: Option<Sector>,
    /// Times of the requests of each kind that were alone.
    times: [Vec<Nanos>; 3],
    /// Times of small reads that were alone and not sequential: after idleness, and otherwise.
    after_idleness: Vec<Nanos>,
    otherwise: Vec<Nanos>,
    slow: Vec<(Alone, Nanos)>,
    writing: Writing,
}

#[derive(Clone, Copy, Debug)]
struct Alone {
    kind: Kind,
    issued: Timestamp,
    completed: Timestamp,
    idle_before: Nanos,
    is_small_and_far: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
}

/// Time in which writes were in flight, for each piece of the written bytes.
#[derive(Debug, Default)]
struct Writing {
    bytes: ByteCount,
    busy: Nanos,
    busy_until: Timestamp,
    requests: u64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: ByteCount,
    busy: Nanos,
    requests: u64,
}

impl Question for SpeedTally {
    type Answer = Vec<DeviceSpeed>;

    fn with(options: &AnalysisOptions) -> SpeedTally {
        let is_filtered = options.filter.as_ref().is_some_and(FilterOptions::is_partial);
        SpeedTally { is_filtered, ..SpeedTally::default() }
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some(flight) = seen.flight.filter(|_| !self.is_filtered) else { return };
        let kind = match seen.class {
            class if class.is_read() => Kind::Read,
            class if class.is_write() => Kind::Write,
            _ if seen.flush.is_some() => Kind::Flush,
            _ => return at(&mut self.devices, seen.device).occupy(flight),
        };
        at(&mut self.devices, seen.device).add(kind, seen, flight);
    }

    /// After lost events, it is unknown which requests were alone, and how many bytes were written.
    fn finish(mut self, end: &mut Ending) -> Vec<DeviceSpeed> {
        if end.lost.is_any() {
            return Vec::new();
        }
        let began = end.began();
        let devices = self.devices.iter_mut().enumerate();
        devices
            .map(|(device, tally)| tally.finish(device as u32, began))
            .filter(DeviceSpeed::says_something)
            .collect()
    }
}

impl DeviceSpeed {
    fn says_something(&self) -> bool {
        !self.slow.is_empty() || self.after_idleness.is_some() || self.slower_writes.is_some()
    }
}

impl Device {
    /// Notes a request of any kind.
    fn occupy(&mut self, (issued, completed): (Timestamp, Timestamp)) {
        if let Some(alone) = self.alone.take()
            && alone.completed <= issued
        {
            self.keep(alone);
        }
        self.free_from = Some(self.free_from.map_or(completed, |free| free.max(completed)));
    }

    fn add(&mut self, kind: Kind, seen: &Seen, flight: (Timestamp, Timestamp)) {
        let (issued, completed) = flight;
        let free_from = self.free_from;
        self.occupy(flight);
        let is_far = match (seen.sector, self.last_end) {
            (Some(sector), Some(end)) => sector.0.abs_diff(end.0) >= FAR_SECTORS,
            _ => false,
        };
        if let Some(sector) = seen.sector {
            self.last_end = Some(Sector(sector.0.saturating_add(seen.bytes.0 / 512)));
        }
        if free_from.is_none_or(|free| free <= issued) {
            let idle_before = free_from.map_or(Nanos(0), |free| issued - free);
            let is_small_and_far = is_far && seen.bytes <= SMALL;
            self.alone = Some(Alone { kind, issued, completed, idle_before, is_small_and_far });
        }
        if kind == Kind::Write {
            self.writing.add(seen.bytes, issued, completed);
        }
    }

    fn keep(&mut self, alone: Alone) {
        let time = alone.completed - alone.issued;
        push(&mut self.times[alone.kind as usize], time);
        if alone.kind == Kind::Read && alone.is_small_and_far {
            match alone.idle_before {
                idle if idle >= IDLE_FROM => push(&mut self.after_idleness, time),
                idle if idle <= BUSY_BELOW => push(&mut self.otherwise, time),
                _ => {}
            }
        }
        if time >= SLOW_FROM {
            self.slow.push((alone, time));
            if self.slow.len() >= 2 * SLOW_KEPT {
                self.shorten();
            }
        }
    }

    fn shorten(&mut self) {
        self.slow.sort_by_key(|(alone, time)| (std::cmp::Reverse(*time), alone.issued));
        self.slow.truncate(SLOW_KEPT);
    }

    fn finish(&mut self, device: u32, began: Timestamp) -> DeviceSpeed {
        if let Some(alone) = self.alone.take() {
            self.keep(alone);
        }
        self.shorten();
        let usual = self.times.each_mut().map(|times| {
            let enough = times.len() >= 2 * COMPARED_FROM;
            median(times).filter(|_| enough)
        });
        let slow = self.slow.iter().filter_map(|(alone, time)| {
            let usual_ns = usual[alone.kind as usize]?;
            let is_slow = ratio(*time, usual_ns).is_some_and(|ratio| ratio >= SLOW_RATIO);
            is_slow.then_some(SlowRequest { at_ns: alone.issued - began, time_ns: *time, usual_ns })
        });
        let slow = slow.collect();
        let after_idleness = self.after_idleness();
        DeviceSpeed { device, slow, after_idleness, slower_writes: self.writing.slower() }
    }

    fn after_idleness(&mut self) -> Option<AfterIdleness> {
        let enough = self.after_idleness.len().min(self.otherwise.len()) >= COMPARED_FROM;
        let reads = self.after_idleness.len() as u64;
        let median_ns = median(&mut self.after_idleness).filter(|_| enough)?;
        let otherwise_ns = median(&mut self.otherwise)?;
        let is_slower = ratio(median_ns, otherwise_ns).is_some_and(|ratio| ratio >= IDLE_RATIO);
        is_slower.then_some(AfterIdleness { reads, median_ns, otherwise_ns })
    }
}

fn push(times: &mut Vec<Nanos>, time: Nanos) {
    if times.len() < TIMES_MAX {
        times.push(time);
    }
}

fn median(times: &mut [Nanos]) -> Option<Nanos> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

impl AfterIdleness {
    /// Returns the additional time of all reads after idleness.
    pub(crate) fn lost(&self) -> Nanos {
        Nanos(self.median_ns.0.saturating_sub(self.otherwise_ns.0).saturating_mul(self.reads))
    }
}

impl Writing {
    fn add(&mut self, bytes: ByteCount, issued: Timestamp, completed: Timestamp) {
        let from = issued.max(self.busy_until);
        if completed > from {
            self.busy += completed - from;
            self.busy_until = completed;
        }
        self.bytes += bytes;
        self.requests += 1;
        if self.bytes >= PIECE && self.pieces.len() < PIECES_MAX {
            self.pieces.push(Piece { bytes: self.bytes, busy: self.busy, requests: self.requests });
            (self.bytes, self.busy, self.requests) = (ByteCount(0), Nanos(0), 0);
        }
    }

    /// Returns the change after which nearly all pieces are slower than nearly all pieces before. Requests
    /// that become smaller explain slower writes, so they must keep their size.
    fn slower(&self) -> Option<SlowerWrites> {
        let pieces = &self.pieces;
        let change = (PIECES_FROM..pieces.len().checked_sub(PIECES_FROM)? + 1)
            .max_by(|one, other| gain(pieces, *one).total_cmp(&gain(pieces, *other)))?;
        let (before, after) = pieces.split_at(change);
        let (slow_before, fast_after) = (quantile(before, 0.1), quantile(after, 0.9));
        let size = |pieces: &[Piece]| {
            ratio(
                pieces.iter().map(|piece| piece.bytes.0).sum::<u64>(),
                pieces.iter().map(|piece| piece.requests).sum(),
            )
        };
        let keeps_size = size(before)? <= 1.5 * size(after)?;
        let (before_rate, after_rate) = (rate(before)?, rate(after)?);
        let is_slower = fast_after < slow_before && before_rate >= SLOWER_FROM * after_rate && keeps_size;
        is_slower.then(|| SlowerWrites {
            after: before.iter().map(|piece| piece.bytes).sum(),
            before_bytes_per_s: before_rate,
            after_bytes_per_s: after_rate,
        })
    }
}

/// Returns how well the mean times before and after `change` explain the times of the pieces: the sum of
/// squares between the two parts.
fn gain(pieces: &[Piece], change: usize) -> f64 {
    let mean = |pieces: &[Piece]| {
        let sum: f64 = pieces.iter().map(|piece| piece.busy.0 as f64).sum();
        sum / pieces.len() as f64
    };
    let (before, after) = pieces.split_at(change);
    let weight = before.len() as f64 * after.len() as f64 / pieces.len() as f64;
    weight * (mean(after) - mean(before)).powi(2)
}

fn rate(pieces: &[Piece]) -> Option<f64> {
    let bytes: ByteCount = pieces.iter().map(|piece| piece.bytes).sum();
    let busy: Nanos = pieces.iter().map(|piece| piece.busy).sum();
    ratio(bytes.0, busy.0).map(|rate| rate * 1e9)
}

/// Returns the rate of the pieces below which a `share` of the pieces is.
fn quantile(pieces: &[Piece], share: f64) -> f64 {
    let mut rates: Vec<f64> = pieces.iter().filter_map(|piece| rate(&[*piece])).collect();
    rates.sort_by(f64::total_cmp);
    let place = (rates.len() as f64 * share) as usize;
    rates.get(place.min(rates.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use crate::analyser::tests::analyse;
    use crate::device::speed::DeviceSpeed;

    fn speed(lines: &[String]) -> Option<DeviceSpeed> {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        analyse(&lines).device_speeds.into_iter().next()
    }

    fn read(number: u64, at_us: u64, time_us: u64) -> String {
        format!("R {}+8 d{at_us} c{}", (number % 7) * 100_000, at_us + time_us)
    }

    #[test]
    fn reads_after_idleness_are_compared() {
        // Every second read comes 200 ms after the previous one, and takes `slow` instead of 1 ms.
        let idle = |slow: u64| {
            let mut lines = Vec::new();
            let mut at = 0;
            for number in 0..40 {
                at += if number % 2 == 0 { 200_000 } else { 2_000 };
                let time = if number % 2 == 0 { slow } else { 1_000 };
                lines.push(read(number, at, time));
                at += time;
            }
            speed(&lines).and_then(|speed| speed.after_idleness)
        };
        assert_eq!(idle(2_000), None, "the times are similar");
        let idle = idle(30_000).unwrap();
        assert_eq!((idle.reads, idle.median_ns.0, idle.otherwise_ns.0), (19, 30_000_000, 1_000_000));
    }

    #[test]
    fn only_requests_without_company_are_slow() {
        let mut lines: Vec<String> = (0..30).map(|number| read(number, number * 2_000, 1_000)).collect();
        lines.push(read(30, 100_000, 400_000));
        assert_eq!(speed(&lines).unwrap().slow[0].time_ns.0, 400_000_000);
        lines.push(read(31, 300_000, 1_000));
        assert_eq!(speed(&lines), None, "another request was in flight");
    }

    #[test]
    fn a_full_cache_slows_writes_for_good() {
        let writes = |times_us: &[u64], kib: u64| {
            let mut at = 0;
            let lines = times_us.iter().enumerate().flat_map(|(place, time)| {
                (0..(8 << 10) / kib).map(move |_| (place, *time * kib / 1024)).collect::<Vec<_>>()
            });
            let lines = lines.map(|(place, time)| {
                at += time;
                format!("W {}+{} d{} c{at}", place * 16_384, kib * 2, at - time)
            });
            lines.collect::<Vec<String>>()
        };
        // 1 MiB in 50 ms, later in 200 ms.
        let slower: Vec<u64> = [[50_000; 20], [200_000; 20]].concat();
        let found = speed(&writes(&slower, 1024)).unwrap().slower_writes.unwrap();
        assert_eq!(found.after.0, 160 << 20);
        assert!((found.before_bytes_per_s / found.after_bytes_per_s - 4.0).abs() < 0.01);
        let steady: Vec<u64> = [[50_000, 70_000]; 20].concat();
        assert_eq!(speed(&writes(&steady, 1024)), None);
        let for_a_moment: Vec<u64> = [vec![50_000; 20], vec![200_000; 9], vec![50_000; 11]].concat();
        assert_eq!(speed(&writes(&for_a_moment, 1024)), None);
    }
}
