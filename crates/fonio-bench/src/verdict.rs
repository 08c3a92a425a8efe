//! Computes the verdict of a benchmark.

use fonio_core::Access;
use fonio_storebench_document::classes::CLASSES;

use crate::plan::Set;
use crate::result::{Benchmark, SCHEMA, Slowdown, TestResult};
use crate::{concurrency, interference};

/// The tests whose results decide the SD speed classes: MB/s for sequential I/O, requests per second for
/// random I/O.
struct Four<'a> {
    seq_write: &'a TestResult,
    rand_write: &'a TestResult,
    rand_read: &'a TestResult,
}

fn four(benchmark: &Benchmark) -> Option<Four<'_>> {
    Some(Four {
        seq_write: benchmark.find(Set::Four, Access::SeqWrite)?,
        rand_write: benchmark.find(Set::Four, Access::RandWrite)?,
        rand_read: benchmark.find(Set::Four, Access::RandRead)?,
    })
}

/// Returns the SD speed classes whose limits the benchmark's four numbers reach. This does not certify a
/// class: the official tests use another queue depth and a fresh card.
pub fn classes(benchmark: &Benchmark) -> Vec<&'static str> {
    let Some(four) = four(benchmark) else { return Vec::new() };
    CLASSES
        .iter()
        .filter(|class| {
            four.seq_write.mb_s >= class.seq_write_mb_s
                && four.rand_write.iops >= class.rand_write_iops
                && four.rand_read.iops >= class.rand_read_iops
        })
        .map(|class| class.name)
        .collect()
}

/// Computes the slowdowns, the concurrency parameters and the verdict from the tests of a benchmark, and adds
/// the results and the version to the benchmark.
pub(crate) fn judged(mut benchmark: Benchmark) -> Benchmark {
    benchmark.schema = SCHEMA;
    benchmark.slowdowns = interference::slowdowns(&benchmark);
    benchmark.concurrency = concurrency::parameters(&benchmark);
    benchmark.verdict = sentence(&benchmark);
    benchmark
}

/// Returns the verdict on a device.
pub fn sentence(benchmark: &Benchmark) -> String {
    let mut sentences = Vec::new();
    sentences.extend(against_a1(benchmark));
    sentences.extend(on_slowdowns(&benchmark.slowdowns));
    sentences.extend(concurrency::sentence(&benchmark.concurrency));
    sentences.extend(cliff(benchmark));
    sentences.extend(sustained(benchmark));
    if sentences.is_empty() {
        sentences
            .push(format!("{} tests measured; they give no verdict on their own.", benchmark.tests.len()));
    }
    sentences.join(" ")
}

fn against_a1(benchmark: &Benchmark) -> Option<String> {
    let four = four(benchmark)?;
    let a1 = CLASSES.iter().find(|class| class.name == "A1")?;
    let shortfalls = [
        ("Random writes are", four.rand_write, a1.rand_write_iops / four.rand_write.iops),
        ("Random reads are", four.rand_read, a1.rand_read_iops / four.rand_read.iops),
        ("Sequential writes are", four.seq_write, a1.seq_write_mb_s / four.seq_write.mb_s),
    ];
    let (what, result, factor) = shortfalls.into_iter().max_by(|left, right| left.2.total_cmp(&right.2))?;
    Some(if factor > 1.0 {
        format!(
            "{what} the weak point: {}, {} slower than SD class A1 requires.",
            rate(result.mb_s),
            times(factor)
        )
    } else {
        let reached = classes(benchmark);
        let best = reached.last().copied().unwrap_or("A1");
        format!(
            "No weak point: everything is at least as fast as SD class A1 requires (reached: up to {best})."
        )
    })
}

/// If the throughput on the smallest range is at least this factor above the throughput on the largest range,
/// the verdict reports that random writes slow down.
const CLIFF: f64 = 2.0;

fn cliff(benchmark: &Benchmark) -> Option<String> {
    let curve: Vec<&TestResult> = benchmark.of(Set::AddressRange).collect();
    let (first, last) = (curve.first()?, curve.last()?);
    if curve.len() < 2 {
        return None;
    }
    let factor = first.mb_s / last.mb_s;
    Some(if factor >= CLIFF {
        let steps = curve.windows(2).map(|pair| (pair[0].mb_s / pair[1].mb_s, pair[0]));
        let (drop, before) = steps.max_by(|left, right| left.0.total_cmp(&right.0))?;
        format!(
            "Random writes slow down with the range that they touch: {} in {} MiB, {} in {} MiB; the largest drop, by {}, \
             comes beyond {} MiB.",
            rate(first.mb_s),
            first.test.range_bytes >> 20,
            rate(last.mb_s),
            last.test.range_bytes >> 20,
            times(drop),
            before.test.range_bytes >> 20
        )
    } else {
        format!(
            "Random writes hardly depend on their range: {} in {} MiB, {} in {} MiB.",
            rate(first.mb_s),
            first.test.range_bytes >> 20,
            rate(last.mb_s),
            last.test.range_bytes >> 20
        )
    })
}

fn sustained(benchmark: &Benchmark) -> Option<String> {
    let found = benchmark.of(Set::Sustained).next()?.sustained?;
    Some(match found.fell_after_bytes {
        Some(bytes) => format!(
            "Sequential writes fall from {} to {} after {} MB.",
            rate(found.first_mb_s),
            rate(found.last_mb_s),
            bytes / 1_000_000
        ),
        None => format!("Sequential writes keep their rate: {} at the end.", rate(found.last_mb_s)),
    })
}

/// Returns the verdict on slowdowns, or `None` if no slowdown was measured.
fn on_slowdowns(slowdowns: &[Slowdown]) -> Option<String> {
    let of = |processes: u32, writes: bool, like: Access| {
        slowdowns.iter().find(|found| {
            let is_same =
                found.access.is_sequential() == like.is_sequential() && found.access.writes() == writes;
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
        Some(words) => format!("{words}: with"),
        None => "With".to_owned(),
    };
    text += &format!(
        " one concurrent writer, a {order} 4 KiB read takes {} as long as alone ({} instead of {}); with one concurrent reader, a write takes {} as long.",
        times(read.slowdown),
        ms(read.beside_ms),
        ms(read.alone_ms),
        times(write.slowdown)
    );
    if let (Some(read), Some(write)) = (of(4, false, read.access), of(4, true, read.access)) {
        text += &format!(
            " With four readers and four writers, a read takes {} as long as one read alone, and a write {}.",
            times(read.slowdown),
            times(write.slowdown)
        );
    }
    Some(text)
}

/// Returns whether reads or writes slow down more, if all runs agree.
fn asymmetry(read: &Slowdown, write: &Slowdown) -> Option<&'static str> {
    if read.slowdown_min? > write.slowdown_max? {
        Some("Writes slow reads down more than reads slow writes down")
    } else if write.slowdown_min? > read.slowdown_max? {
        Some("Reads slow writes down more than writes slow reads down")
    } else if read.slowdown_min? <= 1.0 && write.slowdown_min? <= 1.0 {
        Some("A concurrent reader and writer were not shown to slow each other down")
    } else {
        None
    }
}

fn ms(ms: f64) -> String {
    match ms {
        short if short < 0.95 => format!("{short:.2} ms"),
        short if short < 9.5 => format!("{short:.1} ms"),
        long => format!("{long:.0} ms"),
    }
}

/// Formats a rate with a suitable number of digits.
pub fn rate(mb_s: f64) -> String {
    match mb_s {
        small if small < 0.095 => format!("{small:.3} MB/s"),
        small if small < 9.5 => format!("{small:.2} MB/s"),
        small if small < 95.0 => format!("{small:.1} MB/s"),
        large => format!("{large:.0} MB/s"),
    }
}

fn times(factor: f64) -> String {
    if factor < 9.5 { format!("{factor:.1} times") } else { format!("{factor:.0} times") }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;
    use fonio_sim::profile::Profile;

    use super::*;
    use crate::{model, plan};

    /// Tests the verdict on a slow card, a card with a cliff, a card without a cliff, and a fast device.
    #[test]
    fn models_have_their_verdicts() {
        let mut shown = String::new();
        for (profile, sets) in [
            ("kingston", &[Set::Four][..]),
            ("kingston", &[Set::AddressRange]),
            ("transcend", &[Set::Four, Set::AddressRange]),
            ("ufs31", &[Set::Four]),
        ] {
            let size = ByteCount(32 << 20);
            let tests = plan::tests(&plan::Scope { range_max: size, ..plan::Scope::of(sets, size) });
            let model = Profile::shipped(profile).expect("a shipped profile");
            let benchmark = model::benchmark(&model, ByteCount(1 << 30), &tests, 1, 1).expect("it runs");
            let classes = classes(&benchmark).join(", ");
            shown += &format!("{profile}: {}\nclasses: {classes}\n", sentence(&benchmark));
        }
        expect_test::expect_file!["../tests/golden/verdicts.txt"].assert_eq(&shown);
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
            on_slowdowns(&[read, write]).expect("both were measured")
        };
        assert!(told((3.0, 5.0), (1.0, 2.0)).starts_with("Writes slow reads down more than"));
        assert!(told((1.0, 2.0), (3.0, 5.0)).starts_with("Reads slow writes down more than"));
        assert!(told((1.1, 4.0), (3.0, 5.0)).starts_with("With one concurrent writer, a sequential"));
        assert!(told((0.8, 1.2), (0.9, 1.1)).starts_with("A concurrent reader and writer were not shown"));
        let once = [found(Access::SeqRead, 4.0, None, None), found(Access::SeqWrite, 1.1, None, None)];
        assert!(on_slowdowns(&once).expect("both were measured").starts_with("With one concurrent writer"));
        assert_eq!(on_slowdowns(&once[..1]), None, "a read without a concurrent write gives no verdict");
        assert_eq!(on_slowdowns(&[]), None);
    }
}
