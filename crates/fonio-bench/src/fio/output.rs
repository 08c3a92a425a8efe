//! Parses the parts of fio 3's JSON output that benchmarks need. Times are in nanoseconds, except `runtime`
//! in milliseconds.

use serde::Deserialize;

use crate::error::BenchError;
use crate::plan::{Set, Test};
use crate::result::Run;

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i64,
    read: Side,
    write: Side,
}

#[derive(Deserialize)]
struct Side {
    io_bytes: u64,
    total_ios: u64,
    runtime: u64,
    clat_ns: Latency,
    lat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(default)]
    percentile: Percentiles,
}

#[derive(Default, Deserialize)]
struct Percentiles {
    #[serde(rename = "50.000000")]
    p50: Option<u64>,
    #[serde(rename = "99.000000")]
    p99: Option<u64>,
}

/// Parses the result of `test` from fio's standard output. Notes that fio prints before the JSON are skipped.
/// Fails with [`BenchError::FioOutput`] if the output contains no JSON of fio 3, lacks a job, or contains no
/// requests.
pub fn parse(text: &str, test: &Test) -> Result<Run, BenchError> {
    let wrong = |what: String| BenchError::FioOutput { what };
    let start = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let start = start.ok_or_else(|| wrong("it contains no JSON".to_owned()))?;
    let document: Document = serde_json::Deserializer::from_str(&text[start..])
        .into_iter()
        .next()
        .ok_or_else(|| wrong("the JSON is empty".to_owned()))?
        .map_err(|error| wrong(format!("{error}, in the JSON that begins at byte {start}")))?;
    // In a test of two concurrent access patterns, each process has its own job; otherwise the processes form
    // one group.
    let mut sides = Vec::new();
    for job in document.jobs.iter().filter(|job| job.jobname == "measured") {
        if job.error != 0 {
            return Err(wrong(format!("the job ended with error {}", job.error)));
        }
        sides.push(if test.access.writes() { &job.write } else { &job.read });
    }
    if sides.is_empty() {
        return Err(wrong("the JSON has no job `measured`".to_owned()));
    }
    let requests: u64 = sides.iter().map(|side| side.total_ios).sum();
    if requests == 0 {
        return Err(wrong("no request was completed before the time was over".to_owned()));
    }
    let (mean, sigma) = together(&sides, requests);
    // For one process with one request in flight, the duration is the sum of its response times. The sum is
    // more precise than fio's run time in milliseconds. For several processes, and for one process that is
    // compared with several, the duration is the run time of the group. The sum of the response times would
    // exclude the time between requests.
    let runtime = sides.iter().map(|side| side.runtime).max().unwrap_or(0);
    let span_ns = if test.processes == 1 && test.set != Set::ConcurrencyParameters {
        (mean * requests as f64) as u64
    } else {
        runtime.max(1) * 1_000_000
    };
    // Percentiles of several jobs cannot be combined into one.
    let percentile = |of: fn(&Percentiles) -> Option<u64>| match sides[..] {
        [only] => of(&only.clat_ns.percentile),
        _ => None,
    };
    Ok(Run {
        requests,
        bytes: sides.iter().map(|side| side.io_bytes).sum(),
        span_ns: span_ns.max(1),
        response_mean_ns: mean as u64,
        response_sigma_ns: sigma as u64,
        response_p50_ns: percentile(|known| known.p50),
        response_p99_ns: percentile(|known| known.p99),
        response_max_ns: sides.iter().map(|side| side.lat_ns.max).max().unwrap_or(0),
        ..Run::default()
    })
}

/// Returns the mean and standard deviation of the response times over all jobs.
fn together(sides: &[&Side], requests: u64) -> (f64, f64) {
    let weighted = |value: &dyn Fn(&Side) -> f64| {
        sides.iter().map(|side| value(side) * side.total_ios as f64).sum::<f64>() / requests as f64
    };
    let mean = weighted(&|side| side.lat_ns.mean);
    let variance = weighted(&|side| side.lat_ns.stddev.powi(2) + (side.lat_ns.mean - mean).powi(2));
    (mean, variance.sqrt())
}

/// Parses the throughput in MB/s from a bandwidth log with lines of `milliseconds, KiB/s, direction, …`.
/// Fails with [`BenchError::FioOutput`], which contains the first invalid line.
pub fn rates(log: &str) -> Result<Vec<f64>, BenchError> {
    log.lines()
        .enumerate()
        .map(|(at, line)| {
            let rate = line.split(',').nth(1).and_then(|field| field.trim().parse::<u64>().ok());
            rate.map(|kib_s| kib_s as f64 * 1024.0 / 1e6).ok_or_else(|| BenchError::FioOutput {
                what: format!("line {} of fio's bandwidth log is `{line}`", at + 1),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fonio_core::Access;

    use super::*;

    fn test(access: Access, processes: u32) -> Test {
        Test {
            name: "x".to_owned(),
            set: Set::Four,
            access,
            request_bytes: 4096,
            range_bytes: 1 << 20,
            requests: 256,
            processes,
            beside: None,
            prepare_bytes: 0,
        }
    }

    #[test]
    fn real_output_is_read_and_damage_is_an_error() {
        let writes = include_str!("../../tests/data/fio-3.33-randwrite.json");
        let readers = include_str!("../../tests/data/fio-3.33-randread-by-4.json");
        let both = include_str!("../../tests/data/fio-3.33-beside.json");
        let mut shown = String::new();
        for (name, text, access, processes) in [
            ("random writes", writes, Access::RandWrite, 1),
            ("four readers, with a note before", readers, Access::RandRead, 4),
            ("a reader with a writer in the background", both, Access::RandRead, 1),
            ("the same as a test of writes", both, Access::RandWrite, 1),
            ("no output", "", Access::RandRead, 1),
            ("a cut output", &writes[..400], Access::RandRead, 1),
            ("an error", &writes.replace("\"error\" : 0", "\"error\" : 28"), Access::RandWrite, 1),
        ] {
            let found = match parse(text, &test(access, processes)) {
                Ok(run) => format!("{run:#?}"),
                Err(error) => error.to_string(),
            };
            shown += &format!("{name}: {found}\n");
        }
        expect_test::expect_file!["../../tests/golden/fio.txt"].assert_eq(&shown);
    }

    #[test]
    fn bandwidth_logs() {
        let log = include_str!("../../tests/data/fio-3.33-rate_bw.1.log");
        let rates = rates(log).expect("a real log");
        assert!(rates.len() > 2 && rates.iter().all(|rate| *rate > 0.0));
        assert!(super::rates("500, x, 1").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_cut_of_a_real_output_is_an_error_or_a_run(cut in 0usize..6000) {
            let text = include_str!("../../tests/data/fio-3.33-randwrite.json");
            let cut = cut.min(text.len());
            if let Ok(run) = parse(&text[..cut], &test(Access::RandWrite, 1)) {
                proptest::prop_assert!(run.requests > 0);
            }
        }
    }
}
