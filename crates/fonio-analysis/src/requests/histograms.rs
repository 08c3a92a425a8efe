//! Reads percentiles from the histograms of other tools, whose ranges are powers of two.
//!
//! Within a range, nothing is known of the latencies. So each percentile is a range too.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fonio_core::{Nanos, Sample, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::{Facts, Frame};
use crate::question::context::{Context, Ending};
use crate::question::{Question, Row};

/// Maximum number of histograms with different names.
const HISTOGRAMS_MAX: usize = 256;
/// Maximum number of ranges of a histogram. Powers of two below 2⁶⁴ ns have fewer.
const RANGES_MAX: usize = 128;
/// Maximum number of histograms that are listed.
const LISTED: usize = 32;

/// The number of requests by latency, from a histogram of another tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyHistogram {
    /// The disk, the flags of the requests, or both; empty if the text has one histogram of all requests.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// The ranges, in order, from the first with a request to the last.
    pub ranges: Vec<LatencyRange>,
    /// The range of the median.
    pub p50: LatencyRange,
    /// The range of the 90th percentile.
    pub p90: LatencyRange,
    /// The range of the 99th percentile.
    pub p99: LatencyRange,
    /// The range of the longest latency.
    pub longest: LatencyRange,
}

/// A range of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRange {
    /// The shortest latency of the range.
    pub from_ns: Nanos,
    /// The end of the range; all its latencies are shorter.
    pub below_ns: Nanos,
    /// Number of requests in the range.
    pub requests: u64,
}

impl LatencyRange {
    /// Returns the range in words: `between 256 µs and 512 µs`.
    pub fn in_words(&self) -> String {
        if self.from_ns == Nanos(0) {
            return format!("less than {}", self.below_ns);
        }
        format!("between {} and {}", self.from_ns, self.below_ns)
    }
}

impl LatencyHistogram {
    fn of(name: String, counts: &BTreeMap<(u64, u64), u64>) -> Option<LatencyHistogram> {
        let ranges: Vec<LatencyRange> = (counts.iter())
            .filter(|(_, requests)| **requests > 0)
            .map(|((from, below), requests)| LatencyRange {
                from_ns: Nanos(*from),
                below_ns: Nanos(*below),
                requests: *requests,
            })
            .collect();
        let total = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.requests));
        // The percentile is the latency of the request at this place in their order.
        let at = |per_mille: u128| {
            let wanted = (u128::from(total) * per_mille).div_ceil(1000);
            let mut sum = 0_u128;
            ranges.iter().find(|range| {
                sum += u128::from(range.requests);
                sum >= wanted
            })
        };
        Some(LatencyHistogram {
            name,
            requests: total,
            p50: *at(500)?,
            p90: *at(900)?,
            p99: *at(990)?,
            longest: *ranges.last()?,
            ranges,
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct HistogramTally {
    /// The numbers of requests by range, by name.
    counts: BTreeMap<String, BTreeMap<(u64, u64), u64>>,
}

impl HistogramTally {
    fn sample(&mut self, sample: &Sample) -> Option<()> {
        let mut parts = sample.subject.as_deref()?.splitn(3, ' ');
        let from: u64 = parts.next()?.parse().ok()?;
        let below: u64 = parts.next()?.parse().ok().filter(|below| *below > from)?;
        let name = parts.next().unwrap_or_default();
        let requests = u64::try_from(sample.value).ok()?;
        if self.counts.len() >= HISTOGRAMS_MAX && !self.counts.contains_key(name) {
            return None;
        }
        let ranges = self.counts.entry(name.to_owned()).or_default();
        if ranges.len() < RANGES_MAX || ranges.contains_key(&(from, below)) {
            let sum = ranges.entry((from, below)).or_default();
            *sum = sum.saturating_add(requests);
        }
        Some(())
    }
}

impl Question for HistogramTally {
    type Answer = Vec<LatencyHistogram>;

    fn row(&mut self, row: Row, _: &mut Context) {
        if let Row::Sample(sample) = row
            && sample.metric.is_of_histogram()
        {
            self.sample(sample);
        }
    }

    fn finish(self, _: &mut Ending) -> Vec<LatencyHistogram> {
        let counts = self.counts.into_iter();
        let mut all: Vec<LatencyHistogram> =
            counts.filter_map(|(name, counts)| LatencyHistogram::of(name, &counts)).collect();
        all.sort_by_key(|histogram| Reverse(histogram.requests));
        all.truncate(LISTED);
        all
    }

    /// Adds the histogram with the most requests.
    fn figures(all: &Vec<LatencyHistogram>, _: &Frame, facts: &mut Facts) {
        let first = all.first();
        let label = "requests of the largest histogram of another tool";
        facts.count("histogram.requests", label, first.map(|first| first.requests));
        for (name, label, range) in [
            ("p50", "median", first.map(|first| first.p50)),
            ("p99", "99th percentile", first.map(|first| first.p99)),
            ("longest", "longest", first.map(|first| first.longest)),
        ] {
            let below = range.map(|range| range.below_ns.0 as f64);
            let label = format!("upper bound of the {label} latency in this histogram");
            facts.put(format!("histogram.{name}_below"), label, Unit::Ns, below);
            if let Some(range) = range {
                facts.word(&format!("histogram.{name}"), &range.in_words());
            }
        }
        if let Some(first) = first.filter(|first| !first.name.is_empty()) {
            facts.word("histogram.name", &first.name);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fonio_trace::assemble::assemble;
    use fonio_trace::input::Input;
    use fonio_trace::recognise::{ReadOptions, open};

    use super::*;
    use crate::analyser::{Analyser, Analysis};
    use crate::question::options::AnalysisOptions;

    /// The analysis of a text of biolatency.
    pub(crate) fn example() -> Analysis {
        analysed(
            "Tracing block device I/O... Hit Ctrl-C to end.\n\ndisk = vda\t\n\
             \x20    usecs               : count    distribution\n\
             \x20        0 -> 1          : 1        |      |\n\
             \x20      128 -> 255        : 0        |      |\n\
             \x20      256 -> 511        : 77       |******|\n\
             \x20      512 -> 1023       : 21       |**    |\n\
             \x20     8192 -> 16383      : 1        |      |\n\n\
             disk = vdb\t\n\
             \x20    usecs               : count    distribution\n\
             \x20      128 -> 255        : 3        |      |\n",
        )
    }

    fn analysed(text: &str) -> Analysis {
        let mut reader = open(vec![Input::of("t", text)], &ReadOptions::default()).expect("it is recognised");
        let mut analyser = Analyser::new(AnalysisOptions::default());
        let meta = assemble(&mut *reader, Default::default(), &mut analyser).expect("memory reads");
        analyser.finish(&meta)
    }

    #[test]
    fn percentiles_are_ranges() {
        let analysis = example();
        let shown: Vec<_> = (analysis.latency_histograms.iter())
            .map(|one| {
                let ranges = [one.p50, one.p90, one.p99, one.longest].map(|range| range.in_words());
                (one.name.as_str(), one.requests, one.ranges.len(), ranges.join("; "))
            })
            .collect();
        let of_vda = "between 256 µs and 512 µs; between 512 µs and 1.02 ms; between 512 µs and 1.02 ms; between 8.19 ms and 16.4 ms";
        let of_vdb = ["between 128 µs and 256 µs"; 4].join("; ");
        assert_eq!(shown, [("vda", 100, 4, of_vda.to_owned()), ("vdb", 3, 1, of_vdb)]);
        assert_eq!(analysis.verdict_id, "histogram-only");
        assert!(analysis.validity.ok && analysis.findings.is_empty() && analysis.machine.samples == 0);
        let expected = "Of 100 requests of vda, the median latency is between 256 µs and 512 µs";
        assert!(analysis.verdict.contains(expected), "{}", analysis.verdict);
    }

    #[test]
    fn intervals_are_added() {
        let text = "Tracing block device I/O... Hit Ctrl-C to end.\n\n06:20:16\n\
                    \x20    msecs           : count     distribution\n       0 -> 1        : 36       |**|\n\n06:20:17\n\
                    \x20    msecs           : count     distribution\n       0 -> 1        : 4        |**|\n";
        let analysis = analysed(text);
        let found = &analysis.latency_histograms[0];
        assert_eq!((found.requests, found.p99.in_words().as_str()), (40, "less than 2 ms"));
        assert_eq!(analysis.span.duration_ns, Nanos(1_000_000_000));
        // A damaged recording.
        let mut tally = HistogramTally::default();
        let metric = fonio_core::Metric::LatencyRequests;
        for subject in [None, Some(""), Some("1 1 a"), Some("x 2 a"), Some("1 2"), Some("0 5 a b")] {
            let subject = subject.map(str::to_owned);
            tally.sample(&Sample { time: fonio_core::Timestamp(0), metric, subject, value: i64::MAX });
        }
        assert_eq!(tally.counts.keys().collect::<Vec<_>>(), ["", "a b"]);
    }
}
