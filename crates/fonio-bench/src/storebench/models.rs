//! Computes the results of the shipped profiles' models in virtual time. These results form a data set that
//! ships with fonio.
//!
//! A model has no file system, no apps and no distribution of response times, so these figures are missing.
//! `cargo studies storebench models` generates the data set of these results. The data set is marked as
//! generated, and never mixed with measured results.

use fonio_core::{ByteCount, DeviceIdentity, DeviceKind, Op, Timestamp};
use fonio_sim::measure::{Job, Order, run};
use fonio_sim::profile::{Profile, ProfileError};
use fonio_storebench_document::document::{Document, Effort, Machine, Mode, Origin};
use fonio_storebench_document::figures::{AT_ONCE, Part};

use super::parts::{NO_DISTRIBUTION, PartResult};
use super::run::{Circumstances, Kept};
use super::schedule::{Settings, TIME_MAX, WRITE_MAX, interference, sizes};
use crate::concurrency;
use crate::fio::RATE_INTERVAL_MS;
use crate::model;
use crate::plan::{self, Scope, Set};
use crate::result::{Benchmark, Run, TestResult};

/// Profiles of devices without flash; flash devices are not compared with them.
pub const NOT_FLASH: [&str; 2] = ["pcm", "ram"];

const MIB: u64 = 1 << 20;
/// Address range of the tests; a full run uses the same range.
const RANGE_BYTES: u64 = 64 * MIB;
/// The capacity of the modelled devices. Modelling their real capacities would only take more memory.
const CAPACITY_BYTES: u64 = 2048 * MIB;
const SUSTAINED_BYTES: u64 = 1024 * MIB;
/// Number of runs per test, each with its own seed for random addresses.
const RUNS: u32 = 3;

/// Computes the StoreBench result of a device profile's model.
pub fn document(profile: &Profile, tool: &str, began_unix_s: u64) -> Result<Document, ProfileError> {
    let capacity = ByteCount(CAPACITY_BYTES);
    let seed = 1;
    let mut kept = Kept::new(Circumstances {
        target: profile.name().into(),
        settings: Settings {
            effort: Effort::Full,
            mode: Mode::Device,
            time_max: TIME_MAX,
            write_max: WRITE_MAX,
            seed,
        },
        tool: tool.to_owned(),
        engine: "model".to_owned(),
        began_unix_s,
        origin: Origin::Model,
        file_system: "none".to_owned(),
        device: modelled(profile.name(), CAPACITY_BYTES),
        machine: Machine { kernel: "none".to_owned(), ..Machine::default() },
        health: None,
    });
    let at_once: Vec<u32> = std::iter::once(1).chain(AT_ONCE).collect();
    for (part, tests) in [
        (Part::Sizes, sizes(RANGE_BYTES)),
        (Part::Slowdown, interference(RANGE_BYTES / 2)),
        (Part::Concurrency, concurrency::tests(&at_once, RANGE_BYTES)),
    ] {
        let benchmark = model::benchmark(profile, capacity, &tests, RUNS, seed)?;
        kept.parts.push(PartResult::of_benchmark(part, &benchmark, "no model runs this part"));
    }
    let sustained = sustained(profile, capacity, seed)?;
    kept.parts.push(PartResult::of_benchmark(Part::Sustained, &sustained, "no model runs this part"));
    kept.parts.push(PartResult::not_measured(Part::Sync, NO_DISTRIBUTION));
    Ok(kept.document("a model has no file system and no apps"))
}

/// Runs one long write, and records its rate per half second.
fn sustained(profile: &Profile, capacity: ByteCount, seed: u64) -> Result<Benchmark, ProfileError> {
    const REQUEST: u64 = 512 << 10;
    let mut benchmark = model::benchmark(profile, capacity, &[], 1, seed)?;
    let mut device = profile.device(Some(capacity), seed)?;
    let (mut now, mut interval_ends) = (Timestamp(0), RATE_INTERVAL_MS * 1_000_000);
    let (mut rates, mut in_interval) = (Vec::new(), 0u64);
    let mut response_max = 0;
    for at in 0..SUSTAINED_BYTES / REQUEST {
        let job = Job {
            op: Op::Write,
            order: Order::Sequential,
            start: ByteCount(at * REQUEST),
            range: ByteCount(REQUEST),
            request: ByteCount(REQUEST),
            count: 1,
            depth: 1,
        };
        let (_, done) = run(device.as_mut(), &[job], now, seed);
        response_max = response_max.max(done.0 - now.0);
        now = done;
        while now.0 > interval_ends {
            rates.push(in_interval as f64 / (RATE_INTERVAL_MS as f64 / 1e3) / 1e6);
            in_interval = 0;
            interval_ends += RATE_INTERVAL_MS * 1_000_000;
        }
        in_interval += REQUEST;
    }
    let requests = SUSTAINED_BYTES / REQUEST;
    let run = Run {
        requests,
        bytes: SUSTAINED_BYTES,
        span_ns: now.0.max(1),
        response_mean_ns: now.0 / requests,
        response_max_ns: response_max,
        rates_mb_s: rates,
        ..Run::default()
    };
    let scope = Scope {
        sustained: ByteCount(SUSTAINED_BYTES),
        ..Scope::of(&[Set::Sustained], ByteCount(RANGE_BYTES))
    };
    let test = plan::tests(&scope);
    benchmark.tests = test.into_iter().map(|test| TestResult::new(test, vec![run.clone()], true)).collect();
    benchmark.written_bytes = SUSTAINED_BYTES;
    Ok(benchmark)
}

/// Describes a modelled or emulated device.
pub fn modelled(name: &str, capacity_bytes: u64) -> DeviceIdentity {
    let model = Some(name.to_owned());
    DeviceIdentity { kind: DeviceKind::Virtual, model, capacity_bytes, ..DeviceIdentity::default() }
}

#[cfg(test)]
mod tests {
    use fonio_storebench_document::models::shipped;

    use super::*;

    /// Tests that the data set matches the current profiles, by computing one result again.
    #[test]
    fn the_shipped_results_are_up_to_date() {
        let shipped = shipped();
        let of = |name: &str| shipped.iter().find(|document| document.device.model.as_deref() == Some(name));
        let old = of("sd_a1").expect("it is shipped");
        let profile = Profile::shipped("sd_a1").expect("a shipped profile");
        let new = document(&profile, &old.tool, old.began_unix_s).expect("it has the capacity");
        // Parsing a JSON number may change its last digit, so compare parsed values.
        let new = serde_json::to_vec(&new).expect("it can be written");
        let new = Document::parse(&new).expect("it can be read");
        assert_eq!(new.figures, old.figures, "run `cargo studies storebench models`");
    }
}
