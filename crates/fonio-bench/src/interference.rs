//! How much reads and writes slow each other down (Nguyen et al. 2015, sections 4.3 and 4.4).
//!
//! A slowdown is the mean response time of a process beside processes of the other op, over that of one process alone. The
//! study divides the total time of a process by the number of its requests; with one request in flight that is the same.

use serde::{Deserialize, Serialize};

use crate::plan::{Access, Set};
use crate::result::{Benchmark, Run, TestResult};
use crate::verdict::times;

/// The slowdown of one kind of I/O beside another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// The access pattern that was measured.
    pub access: Access,
    /// The access pattern beside it.
    pub beside: Access,
    /// The number of processes of each pattern.
    pub processes: u32,
    /// Mean response time of one process alone, in milliseconds.
    pub alone_ms: f64,
    /// Mean response time beside the others, in milliseconds.
    pub beside_ms: f64,
    /// `beside_ms` over `alone_ms`; above 1 is slower.
    pub slowdown: f64,
    /// The fastest run beside the others over the slowest run alone; `None` if one of them ran only once.
    pub slowdown_min: Option<f64>,
    /// The slowest run beside the others over the fastest run alone; `None` if one of them ran only once.
    pub slowdown_max: Option<f64>,
    /// Throughput of one process alone, in 10⁶ bytes per second.
    pub alone_mb_s: f64,
    /// Throughput of all processes of this pattern together, beside the others, in 10⁶ bytes per second.
    pub beside_mb_s: f64,
}

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

/// The verdict on slowdowns; `None` if none was measured.
pub(crate) fn sentence(slowdowns: &[Slowdown]) -> Option<String> {
    let of = |processes: u32, writes: bool, like: Access| {
        slowdowns.iter().find(|found| {
            let is_same = found.access.order() == like.order() && found.access.writes() == writes;
            is_same && found.processes == processes
        })
    };
    let reads = slowdowns.iter().filter(|found| found.processes == 1 && !found.access.writes());
    let read = reads.max_by(|a, b| a.slowdown.total_cmp(&b.slowdown))?;
    let write = of(1, true, read.access)?;
    let order = match read.access {
        Access::SeqRead | Access::SeqWrite => "sequential",
        Access::RandRead | Access::RandWrite => "random",
    };
    let mut text = match asymmetry(read, write) {
        Some(words) => format!("{words}: beside"),
        None => "Beside".to_owned(),
    };
    text += &format!(
        " one writer, a {order} 4 KiB read takes {} as long as alone ({} instead of {}); beside one reader, a write takes {} as long.",
        times(read.slowdown),
        ms(read.beside_ms),
        ms(read.alone_ms),
        times(write.slowdown)
    );
    if let (Some(read), Some(write)) = (of(4, false, read.access), of(4, true, read.access)) {
        text += &format!(
            " With four of each, a read takes {} as long as one alone, a write {}.",
            times(read.slowdown),
            times(write.slowdown)
        );
    }
    Some(text)
}

/// Which of both suffers more, if all runs agree on it.
fn asymmetry(read: &Slowdown, write: &Slowdown) -> Option<&'static str> {
    if read.slowdown_min? > write.slowdown_max? {
        Some("Writes slow reads down more than reads slow writes down")
    } else if write.slowdown_min? > read.slowdown_max? {
        Some("Reads slow writes down more than writes slow reads down")
    } else if read.slowdown_min? <= 1.0 && write.slowdown_min? <= 1.0 {
        Some("One of each beside the other was not shown to be slower")
    } else {
        None
    }
}

/// A time with a suitable number of digits.
fn ms(ms: f64) -> String {
    match ms {
        short if short < 0.95 => format!("{short:.2} ms"),
        short if short < 9.5 => format!("{short:.1} ms"),
        long => format!("{long:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_core::ByteCount;
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

    #[test]
    fn runs_that_disagree_show_no_asymmetry() {
        let found = |access, slowdown: f64, min, max| Slowdown {
            access,
            beside: if access == Access::SeqRead { Access::SeqWrite } else { Access::SeqRead },
            processes: 1,
            alone_ms: 1.0,
            beside_ms: slowdown,
            slowdown,
            slowdown_min: min,
            slowdown_max: max,
            alone_mb_s: 4.0,
            beside_mb_s: 4.0 / slowdown,
        };
        let told = |read: (f64, f64), write: (f64, f64)| {
            let [read, write] = [(Access::SeqRead, read), (Access::SeqWrite, write)]
                .map(|(access, (min, max))| found(access, (min + max) / 2.0, Some(min), Some(max)));
            sentence(&[read, write]).expect("both were measured")
        };
        assert!(told((3.0, 5.0), (1.0, 2.0)).starts_with("Writes slow reads down more than"));
        assert!(told((1.0, 2.0), (3.0, 5.0)).starts_with("Reads slow writes down more than"));
        assert!(told((1.1, 4.0), (3.0, 5.0)).starts_with("Beside one writer, a sequential"));
        assert!(told((0.8, 1.2), (0.9, 1.1)).starts_with("One of each beside the other was not shown"));
        let once = [found(Access::SeqRead, 4.0, None, None), found(Access::SeqWrite, 1.1, None, None)];
        assert!(sentence(&once).expect("both were measured").starts_with("Beside one writer"));
        assert_eq!(sentence(&once[..1]), None, "one side alone says nothing");
        assert_eq!(sentence(&[]), None);
    }
}
