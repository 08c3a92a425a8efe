//! Computes the share of time spent on I/O: the sum of latencies, and the busy time, each divided by the span
//! (the block-trace study's Figure 7 and Table III).

use fonio_core::{Nanos, Request, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The storage load is light below this share (section IV.D of the block-trace study).
pub const LIGHT_BELOW: f64 = 0.09;
/// Storage load is called heavy if its share is at least this value (our choice). The study gives no second
/// threshold: its moderate group ends at 13.4 percent and its heavy group begins at 16.8 percent.
pub const HEAVY_FROM: f64 = 0.15;

/// The weight of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The sum of latencies is below 9 percent of the span.
    Light,
    /// The sum of latencies is at least 9 and less than 15 percent of the span.
    Moderate,
    /// The sum of latencies is at least 15 percent of the span.
    Heavy,
}

/// The I/O share by latency and by busy time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoShare {
    /// The share of all devices together; absent if nothing completed or the span is empty.
    pub all: Option<Share>,
    /// Each device.
    pub devices: Vec<DeviceShare>,
    /// Number of requests whose issue the source does not show; these requests count as in flight from the
    /// time at which they were queued.
    pub counted_from_queueing: u64,
}

/// One I/O share, by latency and by busy time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Sum of service times divided by the span, as in the study; it may exceed 1 because requests overlap.
    pub latency_sum_share: f64,
    /// Time with at least one request in flight, divided by the span; at most 1.
    pub busy_union_share: f64,
    /// The sum of service times, in nanoseconds.
    pub latency_sum_ns: Nanos,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_union_ns: Nanos,
    /// The level according to `latency_sum_share`.
    pub level: Level,
}

/// One device's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceShare {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The share.
    pub share: Share,
}

use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;

/// Sums the latencies and the time with requests in flight.
#[derive(Debug, Default)]
pub(crate) struct ShareTally {
    all: Union,
    devices: Vec<Union>,
    from_queueing: u64,
}

#[derive(Debug, Default)]
struct Union {
    latency_sum: Nanos,
    busy: Nanos,
    busy_until: Timestamp,
}

impl Question for ShareTally {
    type Answer = IoShare;

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some((start, end)) = seen.flight else { return };
        self.from_queueing += u64::from(seen.service.is_none());
        at(&mut self.devices, seen.device).add(start, end);
        self.all.latency_sum += end - start;
        self.all.busy += seen.busy.map_or(Nanos(0), |(from, until)| until - from);
    }

    fn finish(self, end: &mut Ending) -> IoShare {
        let span = end.duration();
        IoShare {
            all: self.all.finish(span),
            devices: (self.devices.iter().enumerate())
                .filter_map(|(device, union)| {
                    Some(DeviceShare { device: device as u32, share: union.finish(span)? })
                })
                .collect(),
            counted_from_queueing: self.from_queueing,
        }
    }

    fn figures(io_share: &IoShare, frame: &Frame, facts: &mut Facts) {
        if let Some(all) = &io_share.all {
            let in_flight = all.latency_sum_share;
            facts.put("io_share.latency_sum", "requests in flight, mean", Unit::Number, in_flight);
            facts.share("io_share.busy_union", "devices busy", all.busy_union_share);
            facts.amount("io_share.busy_time", "devices busy, time", all.busy_union_ns);
        }
        for row in &io_share.devices {
            let Some(device) = frame.device(row.device) else { continue };
            let name = |figure: &str| format!("device[{device}].{figure}");
            facts.share(name("busy_union"), format!("{device}, busy"), row.share.busy_union_share);
            let label = format!("{device}, busy time");
            facts.amount(name("busy_time"), label, row.share.busy_union_ns);
        }
    }
}

impl Union {
    #[inline]
    fn add(&mut self, start: Timestamp, end: Timestamp) {
        self.latency_sum += end - start;
        // Requests arrive in order of their start times, so only the end of the last busy interval is stored.
        let from = start.max(self.busy_until);
        if end > from {
            self.busy += end - from;
            self.busy_until = end;
        }
    }

    fn finish(&self, span: Nanos) -> Option<Share> {
        let latency_sum_share = ratio(self.latency_sum, span).filter(|share| *share > 0.0)?;
        Some(Share {
            latency_sum_share,
            busy_union_share: ratio(self.busy, span)?,
            latency_sum_ns: self.latency_sum,
            busy_union_ns: self.busy,
            level: match latency_sum_share {
                share if share < LIGHT_BELOW => Level::Light,
                share if share < HEAVY_FROM => Level::Moderate,
                _ => Level::Heavy,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::analyse;

    #[test]
    fn overlapping_requests_on_two_devices() {
        let share =
            analyse(&["R 0+8 d0 c40", "R 0+8 d20 c60", "R 0+8 dev1 d50 c80", "R 0+8 d100 c1000"]).io_share;
        let all = share.all.unwrap();
        assert_eq!((all.latency_sum_ns, all.busy_union_ns), (Nanos(1_010_000), Nanos(980_000)));
        assert_eq!((all.latency_sum_share, all.busy_union_share, all.level), (1.01, 0.98, Level::Heavy));
        let devices: Vec<_> =
            share.devices.iter().map(|d| (d.device, d.share.busy_union_ns.0, d.share.level)).collect();
        assert_eq!(devices, [(0, 960_000, Level::Heavy), (1, 30_000, Level::Light)]);
    }

    #[test]
    fn levels() {
        let level = |share_permille: u64| {
            let union = Union { latency_sum: Nanos(share_permille), ..Union::default() };
            union.finish(Nanos(1000)).unwrap().level
        };
        let levels = [89, 90, 149, 150].map(level);
        assert_eq!(levels, [Level::Light, Level::Moderate, Level::Moderate, Level::Heavy]);
    }

    #[test]
    fn without_issue_time_counts_from_queueing() {
        let share = analyse(&["R 0+8 q0 c50", "R 0+8 q50 c100"]).io_share;
        assert_eq!(share.counted_from_queueing, 2);
        assert_eq!(share.all.unwrap().busy_union_share, 1.0);
    }
}
