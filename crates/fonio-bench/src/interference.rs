//! How much reads and writes slow each other down (Nguyen et al. 2015, sections 4.3 and 4.4).
//!
//! A slowdown is the mean response time of a process while processes of the other op run, divided by that of
//! one process alone. The study divides the total time of a process by the number of its requests; with one
//! request in flight that is the same.

use fonio_core::Access;

use crate::plan::Set;
use crate::result::{Benchmark, Run, Slowdown, TestResult};

/// Returns the slowdowns that the tests of [`Set::Interference`] show.
pub fn slowdowns(benchmark: &Benchmark) -> Vec<Slowdown> {
    let tests: Vec<&TestResult> = benchmark.of(Set::Interference).collect();
    let both = tests.iter().filter_map(|result| {
        let alone = tests
            .iter()
            .find(|alone| alone.test.access == result.test.access && alone.test.beside.is_none())?;
        Some(slowdown(alone, result, result.test.beside?))
    });
    both.collect()
}

fn slowdown(alone: &TestResult, result: &TestResult, beside: Access) -> Slowdown {
    let (of_alone, of_both) = (Responses::of(&alone.runs), Responses::of(&result.runs));
    let is_repeated = alone.runs.len() > 1 && result.runs.len() > 1;
    Slowdown {
        access: result.test.access,
        beside,
        processes: result.test.processes,
        alone_ms: of_alone.mean / 1e6,
        beside_ms: of_both.mean / 1e6,
        slowdown: of_both.mean / of_alone.mean,
        slowdown_min: is_repeated.then_some(of_both.min / of_alone.max),
        slowdown_max: is_repeated.then_some(of_both.max / of_alone.min),
        alone_mb_s: alone.mb_s,
        beside_mb_s: result.mb_s,
    }
}

/// Mean response times of runs, in nanoseconds.
struct Responses {
    mean: f64,
    min: f64,
    max: f64,
}

impl Responses {
    fn of(runs: &[Run]) -> Responses {
        let each = runs.iter().map(|run| (run.response_mean_ns as f64).max(1.0));
        Responses {
            mean: each.clone().sum::<f64>() / runs.len() as f64,
            min: each.clone().fold(f64::INFINITY, f64::min),
            max: each.fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_core::{ByteCount, Random};
    use fonio_sim::profile::Profile;

    use super::*;
    use crate::{model, plan};

    fn check(profile: &str, expected: Expect) {
        let tests = plan::tests(&plan::Scope {
            sets: vec![Set::Interference],
            size: ByteCount(32 << 20),
            range_max: ByteCount(0),
            sustained: ByteCount(0),
            room: ByteCount(1 << 30),
        });
        let profile = Profile::shipped(profile).expect("a shipped profile");
        let benchmark = model::benchmark(&profile, ByteCount(1 << 30), &tests, 2, 1).expect("it runs");
        let mut shown = format!("{}\n", benchmark.verdict);
        for found in &benchmark.slowdowns {
            shown += &format!(
                "{} beside {}, {}: {:.2} ({:.2} to {:.2}), {:.3} MB/s of {:.3}\n",
                found.access.name(),
                found.beside.name(),
                found.processes,
                found.slowdown,
                found.slowdown_min.expect("two runs"),
                found.slowdown_max.expect("two runs"),
                found.beside_mb_s,
                found.alone_mb_s
            );
        }
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_phone_whose_reads_wait_for_writes() {
        check(
            "samsung_s5",
            expect![[r#"
            Writes slow reads down more than reads slow writes down: beside one writer, a sequential 4 KiB read takes 2.7 times as long as alone (0.20 ms instead of 0.07 ms); beside one reader, a write takes 1.0 times as long. With four of each, a read takes 15 times as long as one alone, a write 5.6 times.
            seq_read beside seq_write, 1: 2.73 (2.73 to 2.73), 20.799 MB/s of 56.767
            seq_write beside seq_read, 1: 1.04 (1.04 to 1.04), 20.775 MB/s of 21.534
            seq_read beside seq_write, 4: 14.85 (14.85 to 14.85), 15.288 MB/s of 56.767
            seq_write beside seq_read, 4: 5.63 (5.63 to 5.63), 15.287 MB/s of 21.534
            rand_read beside rand_write, 1: 2.19 (2.19 to 2.19), 9.993 MB/s of 21.912
            rand_write beside rand_read, 1: 1.00 (1.00 to 1.00), 9.960 MB/s of 10.003
            rand_read beside rand_write, 4: 8.79 (8.79 to 8.80), 9.967 MB/s of 21.912
            rand_write beside rand_read, 4: 4.01 (4.01 to 4.02), 9.963 MB/s of 10.003
        "#]],
        );
    }

    #[test]
    fn a_slow_card() {
        check(
            "transcend",
            expect![[r#"
            Writes slow reads down more than reads slow writes down: beside one writer, a random 4 KiB read takes 3.1 times as long as alone (4.3 ms instead of 1.4 ms); beside one reader, a write takes 1.5 times as long. With four of each, a read takes 12 times as long as one alone, a write 5.9 times.
            seq_read beside seq_write, 1: 3.10 (3.10 to 3.10), 0.943 MB/s of 2.920
            seq_write beside seq_read, 1: 1.48 (1.48 to 1.48), 0.943 MB/s of 1.392
            seq_read beside seq_write, 4: 12.38 (12.38 to 12.38), 0.943 MB/s of 2.920
            seq_write beside seq_read, 4: 5.90 (5.90 to 5.90), 0.943 MB/s of 1.392
            rand_read beside rand_write, 1: 3.10 (3.10 to 3.10), 0.943 MB/s of 2.920
            rand_write beside rand_read, 1: 1.48 (1.48 to 1.48), 0.943 MB/s of 1.392
            rand_read beside rand_write, 4: 12.38 (12.38 to 12.38), 0.943 MB/s of 2.920
            rand_write beside rand_read, 4: 5.90 (5.90 to 5.90), 0.943 MB/s of 1.392
        "#]],
        );
    }

    /// Reads and writes slow down equally, on a device whose runs differ by a tenth. The verdict picks the
    /// larger of two slowdowns, which must not make it claim a difference.
    #[test]
    fn equal_slowdowns_are_called_different_in_at_most_5_percent_of_benchmarks() {
        const BENCHMARKS: u64 = 1000;
        let tests = plan::tests(&plan::Scope {
            sets: vec![Set::Interference],
            size: ByteCount(32 << 20),
            range_max: ByteCount(0),
            sustained: ByteCount(0),
            room: ByteCount(1 << 30),
        });
        let profile = Profile::shipped("samsung_s5").expect("a shipped profile");
        let mut benchmark = model::benchmark(&profile, ByteCount(1 << 30), &tests, 3, 1).expect("it runs");
        for runs in [3, 10] {
            let mut claimed = 0;
            for seed in 0..BENCHMARKS {
                let mut random = Random::new(seed);
                for result in &mut benchmark.tests {
                    let mut run = result.runs[0].clone();
                    result.runs.clear();
                    for _ in 0..runs {
                        let noise = 0.1 * (random.uniform() + random.uniform() + random.uniform() - 1.5);
                        let slower = if result.test.beside.is_some() { 2.0 } else { 1.0 };
                        run.response_mean_ns = (1e6 * slower * noise.exp()) as u64;
                        result.runs.push(run.clone());
                    }
                }
                benchmark.slowdowns = slowdowns(&benchmark);
                let said = crate::verdict::sentence(&benchmark);
                claimed += u64::from(said.contains(" slow ") && said.contains(" more than "));
            }
            assert!(claimed * 20 <= BENCHMARKS, "{runs} runs: {claimed} of {BENCHMARKS}");
        }
    }
}
