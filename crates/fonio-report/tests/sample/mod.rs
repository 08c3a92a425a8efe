#![allow(dead_code, reason = "each test uses a part")]
//! An invented recording with data for every part of the analysis: a Pi whose database syncs too often. The numbers need
//! not be consistent; they only have to look like those of a report.

use fonio_analysis::requests::point::Point;
use fonio_analysis::{Analyser, Analysis, AnalysisOptions, Comparison};
use fonio_core::units::{ByteCount, DeviceId, Sector, Timestamp};
use fonio_core::{Flags, Meta, Op, Random, Request, RowSink as _};

const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 180 * SECOND;

/// The analysis of the recording, with this number of sampled points.
pub fn analysis(points: u64) -> Analysis {
    let mut analysis: Analysis = read(include_str!("analysis.json"));
    let at = |at: u64, point: &Point| Point { request_id: at, at_ns: LENGTH / points * at, ..point.clone() };
    let sample = analysis.points.sample.iter().cycle();
    analysis.points.sample = (0..points).zip(sample).map(|(number, point)| at(number, point)).collect();
    analysis
}

/// The description of the recording.
pub fn meta() -> Meta {
    read(include_str!("meta.json"))
}

/// Two recordings, compared with a first one.
pub fn comparison() -> Comparison {
    read(include_str!("comparison.json"))
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("the samples follow the schema")
}

/// The analysis of `count` invented requests by the real analyser.
pub fn analysed(count: u64, meta: &Meta) -> std::io::Result<Analysis> {
    let mut random = Random::new(11);
    let mut analyser = Analyser::new(AnalysisOptions::default());
    let device = DeviceId::new(179, 0);
    analyser.began(Timestamp(1_000 * SECOND))?;
    for request_id in 0..count {
        let issued = 1_000 * SECOND + LENGTH / count * request_id;
        let (op, flags) = match random.below(10) {
            0..=2 => (Op::Read, Flags::NONE),
            3..=6 => (Op::Write, Flags::SYNC),
            7..=8 => (Op::Write, Flags::NONE),
            _ => (Op::Flush, Flags::PREFLUSH),
        };
        let bytes = if op == Op::Flush { 0 } else { 4096 << random.below(6) };
        // A few requests take up to 200 times as long as most.
        let longest = [200, 20, 5, 2, 2, 2, 2, 2][random.below(8) as usize];
        let service = 40_000 + random.below(80_000 * longest);
        analyser.request(&Request {
            request_id,
            flags,
            flags_known: Flags::KNOWN_FROM_RWBS,
            sector: (op != Op::Flush).then(|| Sector(8 * random.below(7_000_000))),
            queued: Some(Timestamp(issued - random.below(30_000))),
            issued: Some(Timestamp(issued)),
            completed: Some(Timestamp(issued + service)),
            tid: Some(100 + random.below(6) as u32),
            ..Request::new(device, op, ByteCount(bytes))
        })?;
    }
    Ok(analyser.finish(meta))
}
