//! Counts requests and bytes by op, and computes the ratio of reads to writes (the block-trace study's Table
//! I).

use fonio_core::{ByteCount, Flags, Op, Request, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests, bytes and their ratios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Requests of every kind.
    pub requests: u64,
    /// Read requests, readahead included.
    pub reads: u64,
    /// Write requests, zone appends included.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: ByteCount,
    /// Bytes written.
    pub write_bytes: ByteCount,
    /// Number of reads per write; absent if there are no writes.
    pub read_write_ratio: Option<f64>,
    /// Bytes read per byte written; absent if nothing was written.
    pub read_write_bytes_ratio: Option<f64>,
    /// Requests per second of the span; absent if the span is empty.
    pub requests_per_s: Option<f64>,
    /// Bytes read per second of the span.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written per second of the span.
    pub write_bytes_per_s: Option<f64>,
    /// Totals of each op that occurs, in the order of the recording's ops.
    pub by_op: Vec<OpTotal>,
    /// Each class that occurs.
    pub by_class: Vec<ClassTotal>,
    /// Writes with FUA (durable on completion).
    pub fua_writes: u64,
    /// Requests for file system metadata.
    pub meta_requests: u64,
}

/// One op's total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpTotal {
    /// The op's name in the recording: `read`, `write`, `flush`, …
    pub op: String,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: ByteCount,
}

/// One class's total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTotal {
    /// The class.
    pub class: Class,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: ByteCount,
}

use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::{per_second, ratio};
use crate::question::seen::Seen;
use crate::requests::class::Class;

#[derive(Debug, Default)]
pub(crate) struct TotalTally {
    by_op: [(u64, ByteCount); Op::ALL.len()],
    by_class: [(u64, ByteCount); Class::COUNT],
    fua_writes: u64,
    meta_requests: u64,
}

impl Question for TotalTally {
    type Answer = Totals;

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        for (requests, bytes) in [&mut self.by_op[seen.op as usize], &mut self.by_class[seen.class as usize]]
        {
            *requests += 1;
            *bytes += seen.bytes;
        }
        self.fua_writes += u64::from(seen.class.is_write() && seen.flags.contains(Flags::FUA));
        self.meta_requests += u64::from(seen.flags.contains(Flags::META));
    }

    fn finish(self, end: &mut Ending) -> Totals {
        let span_ns = end.duration();
        let of = |wanted: fn(Class) -> bool| {
            Class::ALL.into_iter().filter(|class| wanted(*class)).fold((0, ByteCount(0)), |sum, class| {
                let (requests, bytes) = self.by_class[class as usize];
                (sum.0 + requests, sum.1 + bytes)
            })
        };
        let (requests, _) = of(|_| true);
        let (reads, read_bytes) = of(Class::is_read);
        let (writes, write_bytes) = of(Class::is_write);
        Totals {
            requests,
            reads,
            writes,
            read_bytes,
            write_bytes,
            read_write_ratio: ratio(reads, writes),
            read_write_bytes_ratio: ratio(read_bytes, write_bytes),
            requests_per_s: per_second(requests, span_ns),
            read_bytes_per_s: per_second(read_bytes, span_ns),
            write_bytes_per_s: per_second(write_bytes, span_ns),
            by_op: Op::ALL
                .into_iter()
                .zip(self.by_op)
                .filter(|(_, (requests, _))| *requests > 0)
                .map(|(op, (requests, bytes))| OpTotal { op: op.name().to_owned(), requests, bytes })
                .collect(),
            by_class: Class::ALL
                .into_iter()
                .zip(self.by_class)
                .filter(|(_, (requests, _))| *requests > 0)
                .map(|(class, (requests, bytes))| ClassTotal { class, requests, bytes })
                .collect(),
            fua_writes: self.fua_writes,
            meta_requests: self.meta_requests,
        }
    }

    fn figures(totals: &Totals, _: &Frame, facts: &mut Facts) {
        facts.count("totals.requests", "requests", totals.requests);
        facts.count("totals.reads", "reads", totals.reads);
        facts.count("totals.writes", "writes", totals.writes);
        facts.amount("totals.read_bytes", "bytes read", totals.read_bytes);
        facts.amount("totals.write_bytes", "bytes written", totals.write_bytes);
        facts.put("totals.read_write_ratio", "reads per write", Unit::Ratio, totals.read_write_ratio);
        facts.put("totals.requests_per_s", "request rate", Unit::PerS, totals.requests_per_s);
        facts.put("totals.read_bytes_per_s", "read rate", Unit::BytesPerS, totals.read_bytes_per_s);
        facts.put("totals.write_bytes_per_s", "write rate", Unit::BytesPerS, totals.write_bytes_per_s);
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;

    use crate::analyser::tests::analyse;

    #[test]
    fn three_reads_to_two_writes() {
        let totals = analyse(&[
            "R 0+8 d0 c100",
            "RA 8+56 d100 c200",
            "WS 0+8 d200 c300",
            "FF d300 c400",
            "WFS 100+16 d400 c500",
            "R 0+8 d500 c1000",
        ])
        .totals;
        assert_eq!((totals.requests, totals.reads, totals.writes, totals.fua_writes), (6, 3, 2, 1));
        assert_eq!((totals.read_bytes, totals.write_bytes), (ByteCount(72 * 512), ByteCount(24 * 512)));
        assert_eq!((totals.read_write_ratio, totals.read_write_bytes_ratio), (Some(1.5), Some(3.0)));
        assert_eq!(totals.requests_per_s, Some(6000.0));
        let ops: Vec<_> = totals.by_op.iter().map(|op| (op.op.as_str(), op.requests)).collect();
        assert_eq!(ops, [("read", 3), ("write", 2), ("flush", 1)]);
    }
}
