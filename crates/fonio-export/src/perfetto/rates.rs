//! Sums completed requests over intervals of equal length.

use std::collections::BTreeMap;

use fonio_core::{DeviceId, Op, Request, Timestamp};

/// Length of an interval at first, and maximum number of intervals of all devices. If there are more, two
/// intervals become one.
const WIDTH_NS: u64 = 10_000_000;
const INTERVALS_MAX: usize = 1 << 16;

/// The completed requests of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Completed {
    pub requests: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
}

impl Completed {
    fn add(&mut self, other: Completed) {
        self.requests = self.requests.saturating_add(other.requests);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
    }
}

/// The sums of each device.
#[derive(Debug)]
pub(super) struct Rates {
    width: u64,
    /// By device and number of the interval since the time 0.
    sums: BTreeMap<(DeviceId, u64), Completed>,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { width: WIDTH_NS, sums: BTreeMap::new() }
    }
}

impl Rates {
    /// Adds a request at its completion.
    pub fn add(&mut self, row: &Request) {
        let Some(completed) = row.completed else { return };
        let bytes = |is_it: bool| if is_it { row.bytes.0 } else { 0 };
        let one = Completed {
            requests: 1,
            read_bytes: bytes(row.op == Op::Read),
            write_bytes: bytes(matches!(row.op, Op::Write | Op::WriteZeroes)),
        };
        self.sums.entry((row.device, completed.0 / self.width)).or_default().add(one);
        while self.sums.len() > INTERVALS_MAX && self.width < u64::MAX / 2 {
            self.width *= 2;
            let mut wider: BTreeMap<(DeviceId, u64), Completed> = BTreeMap::new();
            for ((device, place), sum) in std::mem::take(&mut self.sums) {
                wider.entry((device, place / 2)).or_default().add(sum);
            }
            self.sums = wider;
        }
    }

    /// Returns the length of an interval in seconds.
    pub fn width_s(&self) -> f64 {
        self.width as f64 / 1e9
    }

    /// Returns the sums by device and begin of the interval; an interval without requests follows each interval with
    /// requests whose next interval has none.
    pub fn steps(&self) -> Vec<(DeviceId, Timestamp, Completed)> {
        let mut steps = Vec::new();
        for (&(device, place), &sum) in &self.sums {
            steps.push((device, Timestamp(place.saturating_mul(self.width)), sum));
            if !self.sums.contains_key(&(device, place + 1)) {
                let after = Timestamp((place + 1).saturating_mul(self.width));
                steps.push((device, after, Completed::default()));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;

    use super::*;

    const DEVICE: DeviceId = DeviceId(8 << 20);

    fn request(op: Op, bytes: u64, completed_ms: u64) -> Request {
        Request {
            completed: Some(Timestamp(completed_ms * 1_000_000)),
            ..Request::new(DEVICE, op, ByteCount(bytes))
        }
    }

    #[test]
    fn sums_end_with_zero() {
        let mut rates = Rates::default();
        for (op, bytes, at) in
            [(Op::Read, 4096, 1), (Op::Write, 512, 9), (Op::Flush, 0, 12), (Op::Read, 8, 45)]
        {
            rates.add(&request(op, bytes, at));
        }
        let told: Vec<_> = (rates.steps().into_iter())
            .map(|(_, at, sum)| (at.0 / 1_000_000, sum.requests, sum.read_bytes, sum.write_bytes))
            .collect();
        assert_eq!(told, [(0, 2, 4096, 512), (10, 1, 0, 0), (20, 0, 0, 0), (40, 1, 8, 0), (50, 0, 0, 0)]);
        assert_eq!(rates.width_s(), 0.01);
    }

    #[test]
    fn a_long_recording_has_wider_intervals() {
        let mut rates = Rates::default();
        for at in 0..3 * INTERVALS_MAX as u64 {
            rates.add(&request(Op::Read, 1, at * 10));
        }
        assert!(rates.sums.len() <= INTERVALS_MAX);
        assert_eq!(rates.width_s(), 0.04);
        assert_eq!(rates.sums.values().map(|sum| sum.requests).sum::<u64>(), 3 * INTERVALS_MAX as u64);
    }
}
