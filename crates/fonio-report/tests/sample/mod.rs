#![allow(dead_code, reason = "each test uses only a part")]
//! An invented recording of a Raspberry Pi whose database syncs too often, with data for every part of the
//! analysis. The numbers are plausible but not consistent.

use fonio_analysis::requests::point::Point;
use fonio_analysis::{Analysis, Comparison};
use fonio_core::{Meta, Nanos};

const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 180 * SECOND;

/// Returns the analysis of the invented recording, with `points` sampled points.
pub fn analysis(points: u64) -> Analysis {
    let mut analysis: Analysis = read(include_str!("analysis.json"));
    let at = |at: u64, point: &Point| Point {
        request_id: at,
        at_ns: Nanos(LENGTH / points * at),
        ..point.clone()
    };
    let sample = analysis.points.sample.iter().cycle();
    analysis.points.sample = (0..points).zip(sample).map(|(number, point)| at(number, point)).collect();
    analysis
}

/// Returns the analysis of an invented trace of a phone without block events.
pub fn of_scheduler() -> Analysis {
    let mut analysis =
        Analysis { uninterruptible: Some(read(include_str!("scheduler.json"))), ..Analysis::default() };
    analysis.verdict = "I/O held a program up.".to_owned();
    analysis.validity.ok = true;
    analysis.span.duration_ns = Nanos(5 * SECOND);
    analysis
}

/// Returns the metadata of the invented recording.
pub fn meta() -> Meta {
    read(include_str!("meta.json"))
}

/// Returns a comparison of two further recordings with the first recording.
pub fn comparison() -> Comparison {
    read(include_str!("comparison.json"))
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("the samples follow the schema")
}
