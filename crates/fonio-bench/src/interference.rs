//! Computes how much concurrent reads and writes slow each other down (Nguyen et al. 2015, sections 4.3 and
//! 4.4).
//!
//! A slowdown is the mean response time of a process while processes of the other operation run, divided by
//! the mean response time of one process alone. The study divides a process's total time by its number of
//! requests; with one request in flight, the two values are equal.

use fonio_core::Access;
use fonio_core::statistics::sample::Spread;

use crate::plan::Set;
use crate::result::{Benchmark, Run, Slowdown, TestResult};

/// Returns the slowdowns that the tests of [`Set::Interference`] measured.
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
    let (of_alone, of_both) = (responses(&alone.runs), responses(&result.runs));
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

fn responses(runs: &[Run]) -> Spread {
    let each: Vec<f64> = runs.iter().map(|run| (run.response_mean_ns as f64).max(1.0)).collect();
    Spread::of(&each).expect("a test was run")
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, Random};
    use fonio_sim::profile::Profile;

    use super::*;
    use crate::{model, plan};

    fn measured(profile: &str, runs: u32) -> Benchmark {
        let tests = plan::tests(&plan::Scope::of(&[Set::Interference], ByteCount(32 << 20)));
        let profile = Profile::shipped(profile).expect("a shipped profile");
        model::benchmark(&profile, ByteCount(1 << 30), &tests, runs, 1).expect("it runs")
    }

    /// Tests the verdict for a phone whose reads wait for writes, and for a slow card.
    #[test]
    fn models_have_their_slowdowns() {
        let mut shown = String::new();
        for profile in ["samsung_s5", "transcend"] {
            let benchmark = measured(profile, 2);
            shown += &format!("{profile}: {}\n", benchmark.verdict);
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
        }
        expect_test::expect_file!["../tests/golden/slowdowns.txt"].assert_eq(&shown);
    }

    /// Reads and writes slow down equally, and runs differ by a tenth. The verdict picks the larger of two
    /// slowdowns; this choice alone must not lead to a claimed difference.
    #[test]
    fn equal_slowdowns_are_called_different_in_at_most_5_percent_of_benchmarks() {
        const BENCHMARKS: u64 = 1000;
        let mut benchmark = measured("samsung_s5", 3);
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
            assert!(claimed * 20 <= BENCHMARKS, "{runs} runs: {claimed} of {BENCHMARKS} make a false claim");
        }
    }
}
