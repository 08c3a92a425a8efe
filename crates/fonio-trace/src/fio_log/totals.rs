//! Sums of the bandwidth and IOPS logs of fio.
//!
//! Without `log_avg_msec`, each call has a line, whose size counts; its value is of this call alone. With it, a line has the
//! rate of an interval in one direction. The interval began at the line before with this direction, or at the start of the job.

use fonio_core::{Batch, Metric, Op, Sample, Timestamp};

use super::{BEGINNING_MS, Entry, Kind, MS, UNIX_FROM_MS};

/// The name of the device of all samples.
const SUBJECT: &str = "fio";

#[derive(Debug)]
pub(super) struct Totals {
    kind: Kind,
    is_average: bool,
    /// The calls, the bytes read, and the bytes written.
    sums: [f64; 3],
    known: [bool; 3],
    /// The end of the last interval of each direction.
    before: [Option<u64>; 2],
    first_ms: Option<u64>,
    /// Whether the samples at the first time were given.
    has_begun: bool,
    last_ms: u64,
    /// The sums since the last sample.
    is_new: bool,
}

impl Totals {
    const METRICS: [Metric; 3] = [Metric::DiskRequests, Metric::DiskReadBytes, Metric::DiskWriteBytes];

    pub fn new(kind: Kind, is_average: bool) -> Totals {
        Totals {
            kind,
            is_average,
            sums: [0.0; 3],
            known: [false; 3],
            before: [None; 2],
            first_ms: None,
            has_begun: false,
            last_ms: 0,
            is_new: false,
        }
    }

    pub fn add(&mut self, entry: &Entry, batch: &mut Batch) {
        // The start of a job at a time since 1970 is unknown, so its first interval is left out.
        let began = if entry.time_ms >= UNIX_FROM_MS { entry.time_ms } else { 0 };
        self.first_ms.get_or_insert(began);
        if entry.time_ms > self.last_ms {
            self.samples(batch);
        }
        self.last_ms = self.last_ms.max(entry.time_ms);
        let side = match entry.op {
            Op::Read => 0,
            Op::Write => 1,
            // Trims and syncs move no bytes.
            _ => 2,
        };
        if self.is_average {
            let Some(before) = self.before.get_mut(side) else { return };
            let began = before.replace(entry.time_ms).unwrap_or(began);
            let seconds = entry.time_ms.saturating_sub(began) as f64 / 1000.0;
            let amount = entry.value as f64 * seconds;
            match self.kind {
                Kind::Bandwidth => self.put(1 + side, amount * 1024.0),
                _ => self.put(0, amount),
            }
        } else {
            self.put(0, 1.0);
            if side < 2 {
                self.put(1 + side, entry.bytes as f64);
            }
        }
    }

    fn put(&mut self, place: usize, amount: f64) {
        self.sums[place] += amount;
        self.known[place] = true;
        // If bytes of one direction are known, those of the other are, too.
        if place > 0 {
            self.known[1] = true;
            self.known[2] = true;
        }
        self.is_new = true;
    }

    /// Adds a sample of each sum at the last time.
    fn samples(&mut self, batch: &mut Batch) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let sample = |time_ms: u64, metric, value: f64| {
            let offset = if time_ms >= UNIX_FROM_MS { 0 } else { BEGINNING_MS };
            let time = Timestamp(time_ms.saturating_add(offset).saturating_mul(MS));
            Sample { time, metric, subject: Some(SUBJECT.to_owned()), value: value.round() as i64 }
        };
        for (place, metric) in Totals::METRICS.into_iter().enumerate().filter(|(place, _)| self.known[*place])
        {
            if let Some(first) = self.first_ms.filter(|_| !self.has_begun) {
                batch.samples.push(sample(first, metric, 0.0));
            }
            batch.samples.push(sample(self.last_ms, metric, self.sums[place]));
        }
        self.has_begun = true;
    }

    pub fn finish(&mut self, batch: &mut Batch) {
        self.samples(batch);
    }
}
