//! Measures how often a device is flushed: requests, bytes and time between its consecutive flushes (the
//! block-trace study's Figure 5 and Table II).

use fonio_core::{ByteCount, Flags, Request, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;

/// Flushes and the gaps between them.
///
/// A flush is a flush request or a write with preflush. The block layer turns most preflushes into separate
/// flush requests: if a flush request was issued between the queueing and the issue of such a write, only the
/// flush request is counted. A write with FUA alone does not empty the device's cache. It is counted
/// separately, and counts as a flush only if an option is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flushes {
    /// The number of flushes on all devices.
    pub flushes: u64,
    /// Number of flushes that are flush requests.
    pub flush_requests: u64,
    /// Number of flushes that are writes with preflush.
    pub preflush_writes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// Whether writes with FUA were counted as flushes (an option).
    pub fua_counted: bool,
    /// Number of flushes that are writes with FUA.
    pub fua_flushes: u64,
    /// Flushes per second of the span.
    pub flushes_per_s: Option<f64>,
    /// Write requests per flush; absent without flushes.
    pub writes_per_flush: Option<f64>,
    /// Bytes written per flush.
    pub write_bytes_per_flush: Option<f64>,
    /// Gaps between flushes, over all devices; absent if no device has two flushes.
    pub gaps: Option<FlushGaps>,
    /// Each device that has flushes.
    pub devices: Vec<DeviceFlushes>,
}

/// The gaps between consecutive flushes of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushGaps {
    /// Number of read and write requests between two flushes.
    pub requests: Distribution,
    /// Bytes of the read and write requests between two flushes.
    pub bytes: Distribution,
    /// Time from one flush to the next, in nanoseconds.
    pub time_ns: Distribution,
}

/// Flushes of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFlushes {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Flushes.
    pub flushes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    #[serde(default)]
    pub write_bytes: ByteCount,
    /// Flushes per second of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_s: Option<f64>,
    /// Gaps; absent with fewer than two flushes.
    pub gaps: Option<FlushGaps>,
}

use crate::distribution::tally::{Curve, Tally};
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::flush::Flush;
use crate::question::loss::Loss;
use crate::question::options::AnalysisOptions;
use crate::question::ratio::{at, per_second, ratio};
use crate::question::seen::Seen;

#[derive(Debug, Default)]
pub(crate) struct FlushTally {
    fua_counts: bool,
    flush_requests: u64,
    preflush_writes: u64,
    fua_flushes: u64,
    fua_writes: u64,
    devices: Vec<Device>,
}

#[derive(Debug, Default)]
struct Device {
    flushes: u64,
    writes: u64,
    write_bytes: ByteCount,
    last_flush: Option<Timestamp>,
    requests_since: u64,
    bytes_since: ByteCount,
    gaps: Option<Box<Gaps>>,
}

#[derive(Clone, Debug, Default)]
struct Gaps {
    requests: Tally,
    bytes: Tally,
    time_ns: Tally,
}

impl Question for FlushTally {
    type Answer = Flushes;

    fn with(options: &AnalysisOptions) -> FlushTally {
        FlushTally { fua_counts: options.fua_counts_as_flush, ..FlushTally::default() }
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let device = at(&mut self.devices, seen.device);
        let write = seen.class.is_write();
        self.fua_writes += u64::from(write && seen.flags.contains(Flags::FUA));
        match seen.flush {
            Some(Flush::Request) => self.flush_requests += 1,
            Some(Flush::Preflush) => self.preflush_writes += 1,
            Some(Flush::Fua) => self.fua_flushes += 1,
            None => {}
        }
        if seen.flush.is_some() {
            device.flushes += 1;
            if let Some(last) = device.last_flush.replace(seen.at) {
                let gaps = device.gaps.get_or_insert_default();
                gaps.requests.add(device.requests_since);
                gaps.bytes.add(device.bytes_since.0);
                gaps.time_ns.add((seen.at - last).0);
            }
            (device.requests_since, device.bytes_since) = (0, ByteCount(0));
        }
        if seen.has_data() {
            device.requests_since += 1;
            device.bytes_since += seen.bytes;
        }
        if write {
            device.writes += 1;
            device.write_bytes += seen.bytes;
        }
    }

    fn finish(self, end: &mut Ending) -> Flushes {
        let loss = end.loss.beyond_bounds();
        let flushes = self.devices.iter().map(|device| device.flushes).sum();
        let writes: u64 = self.devices.iter().map(|device| device.writes).sum();
        let write_bytes: ByteCount = self.devices.iter().map(|device| device.write_bytes).sum();
        let of = |gaps: fn(&Gaps) -> &Tally| {
            Tally::together(self.devices.iter().filter_map(|device| device.gaps.as_deref()).map(gaps))
        };
        let all =
            Gaps { requests: of(|g| &g.requests), bytes: of(|g| &g.bytes), time_ns: of(|g| &g.time_ns) };
        Flushes {
            flushes,
            flush_requests: self.flush_requests,
            preflush_writes: self.preflush_writes,
            fua_writes: self.fua_writes,
            fua_counted: self.fua_counts,
            fua_flushes: self.fua_flushes,
            flushes_per_s: per_second(flushes, end.duration()),
            writes_per_flush: ratio(writes, flushes),
            write_bytes_per_flush: ratio(write_bytes.0, flushes),
            gaps: all.finish(loss),
            devices: self
                .devices
                .iter()
                .enumerate()
                .filter(|(_, device)| device.flushes > 0)
                .map(|(index, device)| DeviceFlushes {
                    device: index as u32,
                    flushes: device.flushes,
                    writes: device.writes,
                    write_bytes: device.write_bytes,
                    flushes_per_s: per_second(device.flushes, end.duration()),
                    gaps: device.gaps.as_deref().and_then(|gaps| gaps.finish(loss)),
                })
                .collect(),
        }
    }

    /// Adds the figures of the device with the most flushes. Sums over several devices would describe none of
    /// these devices.
    fn figures(flushes: &Flushes, frame: &Frame, facts: &mut Facts) {
        let first_of_most = |most: &'_ DeviceFlushes, next: &'_ DeviceFlushes| next.flushes > most.flushes;
        let most =
            flushes.devices.iter().reduce(|most, next| if first_of_most(most, next) { next } else { most });
        facts.count("flushes.count", "flushes", most.map_or(0, |device| device.flushes));
        let label = "writes with forced unit access (FUA)";
        facts.count("flushes.fua_writes", label, flushes.fua_writes);
        if let Some(device) = most.and_then(|most| frame.device(most.device)) {
            facts.word("flushes.device", device);
        }
        let rate = most.and_then(|device| device.flushes_per_s).or(flushes.flushes_per_s);
        facts.put("flushes.per_s", "flush rate", Unit::PerS, rate);
        let writes = most.and_then(|device| ratio(device.writes, device.flushes));
        facts.put("flushes.writes_per_flush", "writes per flush", Unit::Number, writes);
        let bytes = most.and_then(|device| ratio(device.write_bytes.0, device.flushes));
        facts.put("flushes.write_bytes_per_flush", "bytes written per flush", Unit::Bytes, bytes);
        if let Some(gaps) = most.and_then(|device| device.gaps.as_ref()) {
            let label = "requests between flushes";
            facts.distribution("flushes.gap_requests", label, Unit::Count, &gaps.requests);
            let label = "bytes written between flushes";
            facts.distribution("flushes.gap_bytes", label, Unit::Bytes, &gaps.bytes);
            facts.distribution("flushes.gap_time", "time between flushes", Unit::Ns, &gaps.time_ns);
        }
    }
}

impl Gaps {
    /// A lost flush merges two gaps, and a lost write lowers the counts of a gap.
    fn finish(&self, loss: Loss) -> Option<FlushGaps> {
        Some(FlushGaps {
            requests: self.requests.distribution_despite(loss, 1, Curve::With)?,
            bytes: self.bytes.distribution_despite(loss, 1, Curve::With)?,
            time_ns: self.time_ns.distribution_despite(loss, 1, Curve::With)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::analyser::tests::{analyse, analyse_with, rows};
    use crate::question::options::AnalysisOptions;
    use fonio_core::Meta;

    #[test]
    fn gaps_of_each_device() {
        let flushes = analyse(&[
            "W 0+8 d0 c1",
            "FF d10 c11",
            "W 0+8 d20 c21",
            "R 0+16 d30 c31",
            "W 0+8 dev1 d35 c36",
            "D 0+800 d36 c37",
            "FF dev1 d40 c41",
            "FF d50 c51",
            "FF d60 c61",
        ])
        .flushes;
        assert_eq!((flushes.flushes, flushes.flush_requests, flushes.preflush_writes), (4, 4, 0));
        assert_eq!((flushes.writes_per_flush, flushes.write_bytes_per_flush), (Some(0.75), Some(3072.0)));
        let gaps = flushes.gaps.unwrap();
        assert_eq!((gaps.requests.count, gaps.requests.min, gaps.requests.max), (2, 0, Some(2)));
        assert_eq!(
            (gaps.bytes.max, gaps.time_ns.min, gaps.time_ns.max),
            (Some(12_288), 10_000, Some(40_000))
        );
        assert_eq!(flushes.devices.len(), 2);
        assert_eq!(flushes.devices[1].gaps, None);
    }

    #[test]
    fn a_preflush_counts_once() {
        // The block layer issues the flush first, then the write, which keeps the preflush flag.
        let split = ["FF q0 d5 c10", "FWFS 0+8 q0 d11 c20", "FF q30 d35 c40", "FWS 8+8 q30 d41 c50"];
        // Case in which the source shows bios, or the flush belongs to an earlier write.
        let whole = ["FWFS 0+8 q0 d11 c20", "FF q30 d31 c32", "FWS 8+8 q40 d41 c50"];
        let count = |lines: &[&str]| {
            let flushes = analyse(lines).flushes;
            (flushes.flushes, flushes.flush_requests, flushes.preflush_writes, flushes.fua_writes)
        };
        assert_eq!(count(&split), (2, 2, 0, 1));
        assert_eq!(count(&whole), (3, 1, 2, 1));
    }

    #[test]
    fn fua_counts_if_asked_for() {
        let lines = ["WFS 0+8 d0 c1", "FF d2 c3", "WFS 0+8 d4 c5"];
        assert_eq!(analyse(&lines).flushes.flushes, 1);
        let options = AnalysisOptions { fua_counts_as_flush: true, ..AnalysisOptions::default() };
        let flushes = analyse_with(options, &rows(&lines), &Meta::default()).flushes;
        assert_eq!((flushes.flushes, flushes.fua_flushes), (3, 2));
    }
}
