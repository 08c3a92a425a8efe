//! Plans the tests of a benchmark, their order, and the amount that they write.
//!
//! A [`Test`] determines one number of the result. The same test runs with fio on a device and with the
//! simulator on a model. Before each write test, its range is written sequentially, so the result does not
//! depend on the previous test.

use fonio_core::{Access, ByteCount};
use fonio_storebench_document::figures::SIZES;
use serde::Serialize;

use crate::concurrency;
pub use crate::test::{Set, Test};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// The parameters from which a benchmark's tests are derived.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The test sets of the plan, in any order.
    pub sets: Vec<Set>,
    /// The address range of the sequential and random tests.
    pub size: ByteCount,
    /// The largest range of the tests over growing address ranges.
    pub range_max: ByteCount,
    /// Number of bytes of the sustained write.
    pub sustained: ByteCount,
    /// Number of bytes that can be written; the near-full test fills 95 % of them.
    pub room: ByteCount,
}

impl Scope {
    /// Creates a scope over `size` bytes, for sets that need no growing range, no sustained write and no
    /// nearly full device.
    pub fn of(sets: &[Set], size: ByteCount) -> Scope {
        let none = ByteCount(0);
        Scope { sets: sets.to_vec(), size, range_max: none, sustained: none, room: none }
    }
}

/// Returns the tests that a scope requires.
pub fn tests(scope: &Scope) -> Vec<Test> {
    let mut sets = scope.sets.clone();
    sets.sort_unstable();
    sets.dedup();
    sets.into_iter().flat_map(|set| of_set(set, scope)).collect()
}

/// Number of 4 KiB random requests in a run, as in Kim et al., section 5.3.
const RANDOM_REQUESTS: u64 = 2048;

/// Minimum number of bytes written sequentially before a test with random writes. The 1 GB of the studies
/// takes minutes on a slow card; this amount replaces more log blocks than the studies' cards seem to have.
const PREPARE_MIN: u64 = 16 * MIB;

fn of_set(set: Set, scope: &Scope) -> Vec<Test> {
    let size = scope.size.0;
    let seq = |access, request| sequential(set, access, request, size);
    let rand = |access, request, range| random(set, access, request, range);
    match set {
        Set::Four => vec![
            seq(Access::SeqWrite, 512 * KIB),
            seq(Access::SeqRead, 128 * KIB),
            rand(Access::RandWrite, 4 * KIB, size),
            rand(Access::RandRead, 4 * KIB, size),
        ],
        Set::Response => vec![seq(Access::SeqRead, 4 * KIB), seq(Access::SeqWrite, 4 * KIB)],
        Set::Concurrency => Access::ALL
            .into_iter()
            .flat_map(|access| [1u32, 2, 4, 8].map(|processes| concurrent(access, processes, size / 4)))
            .collect(),
        Set::ConcurrencyParameters => concurrency::tests(&concurrency::AT_ONCE, size),
        Set::Interference => [(Access::SeqRead, Access::SeqWrite), (Access::RandRead, Access::RandWrite)]
            .into_iter()
            .flat_map(|(read, write)| {
                let alone = [interfering(read, None, 1, size / 8), interfering(write, None, 1, size / 8)];
                let both = INTERFERING.into_iter().flat_map(move |processes| {
                    [(read, write), (write, read)]
                        .map(|(access, other)| interfering(access, Some(other), processes, size / 8))
                });
                alone.into_iter().chain(both)
            })
            .collect(),
        Set::Sizes => Access::ALL
            .into_iter()
            .flat_map(|access| SIZES.map(|request| of_size(access, request, size)))
            .collect(),
        Set::AddressRange => {
            doublings(MIB, scope.range_max.0).map(|range| rand(Access::RandWrite, 4 * KIB, range)).collect()
        }
        Set::Sustained => vec![Test {
            name: "seq_write_sustained".to_owned(),
            prepare_bytes: 0,
            ..sequential(set, Access::SeqWrite, 512 * KIB, scope.sustained.0 / MIB * MIB)
        }],
        Set::NearFull => vec![Test {
            name: "rand_write_near_full".to_owned(),
            prepare_bytes: scope.room.0 / 100 * 95 / MIB * MIB,
            ..rand(Access::RandWrite, 4 * KIB, size)
        }],
        Set::Fit => vec![
            seq(Access::SeqWrite, 64 * KIB),
            rand(Access::RandWrite, 16 * KIB, MIB),
            rand(Access::RandWrite, 64 * KIB, MIB),
            rand(Access::RandWrite, 64 * KIB, size),
            rand(Access::RandRead, 64 * KIB, size),
            seq(Access::SeqRead, 4 * KIB),
            // Each range is twice the previous range, so the exact range from which throughput falls is
            // unknown.
            rand(Access::RandWrite, 4 * KIB, size / 8 * 5),
        ],
        Set::HeldBack => vec![
            seq(Access::SeqRead, 32 * KIB),
            seq(Access::SeqWrite, 256 * KIB),
            rand(Access::RandRead, 16 * KIB, size / 2),
            rand(Access::RandWrite, 8 * KIB, MIB),
            rand(Access::RandWrite, 32 * KIB, MIB + MIB / 2),
            rand(Access::RandWrite, 4 * KIB, size / 4 * 3),
            rand(Access::RandWrite, 16 * KIB, size / 2),
            beside(Access::RandRead, Access::SeqWrite, size / 4),
        ],
    }
}

fn doublings(first: u64, last: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(first), |range| range.checked_mul(2)).take_while(move |range| *range <= last)
}

fn sequential(set: Set, access: Access, request: u64, range: u64) -> Test {
    Test {
        name: format!("{}_{}", access.name(), size_name(request)),
        set,
        access,
        request_bytes: request,
        range_bytes: range,
        requests: range / request,
        processes: 1,
        beside: None,
        prepare_bytes: range,
    }
}

fn random(set: Set, access: Access, request: u64, range: u64) -> Test {
    Test {
        name: format!("{}_{}_in_{}", access.name(), size_name(request), size_name(range)),
        requests: RANDOM_REQUESTS,
        prepare_bytes: if access.writes() { range.max(PREPARE_MIN) } else { range },
        ..sequential(set, access, request, range)
    }
}

/// Random requests larger than 4 KiB cover their range once on average.
fn of_size(access: Access, request: u64, range: u64) -> Test {
    if access.is_sequential() {
        return sequential(Set::Sizes, access, request, range);
    }
    let test = random(Set::Sizes, access, request, range);
    Test { requests: test.requests.min(range / request), ..test }
}

fn concurrent(access: Access, processes: u32, range: u64) -> Test {
    Test {
        name: format!("{}_4k_by_{processes}", access.name()),
        processes,
        prepare_bytes: u64::from(processes) * range,
        ..sequential(Set::Concurrency, access, 4 * KIB, range)
    }
}

const INTERFERING: [u32; 2] = [1, 4];

fn interfering(access: Access, other: Option<Access>, processes: u32, range: u64) -> Test {
    let how = match other {
        None => "alone".to_owned(),
        Some(_) => format!("{processes}x{processes}"),
    };
    Test {
        name: format!("{}_4k_{how}", access.name()),
        processes,
        beside: other,
        prepare_bytes: 2 * u64::from(processes) * range,
        ..sequential(Set::Interference, access, 4 * KIB, range)
    }
}

fn beside(access: Access, other: Access, range: u64) -> Test {
    Test {
        name: format!("{}_4k_beside_{}", access.name(), other.name()),
        beside: Some(other),
        prepare_bytes: 2 * range,
        ..random(Set::HeldBack, access, 4 * KIB, range)
    }
}

fn size_name(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) { format!("{}m", bytes / MIB) } else { format!("{}k", bytes / KIB) }
}

/// The space that a plan uses, and the number of bytes that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Number of bytes of the file or device that the tests use.
    pub extent_bytes: u64,
    /// Number of bytes written if every test needs only the minimum number of runs, and no run reaches its
    /// time limit.
    pub writes_min_bytes: u64,
    /// Maximum number of bytes that the tests write.
    pub writes_max_bytes: u64,
}

/// Returns the amount that `tests` write if each test runs `runs_min` to `runs_max` times.
pub fn volume(tests: &[Test], runs_min: u32, runs_max: u32) -> Volume {
    let extent_bytes = tests.iter().map(Test::extent_bytes).max().unwrap_or(0);
    // In tests that run in rounds, the range is prepared once per round for each kind of writes.
    let of_round = |access: Access| {
        let in_rounds =
            tests.iter().filter(|test| test.set == Set::ConcurrencyParameters && test.access == access);
        in_rounds.map(|test| test.prepare_bytes).max().unwrap_or(0)
    };
    let prepared: u64 = Access::ALL.into_iter().filter(|access| access.writes()).map(of_round).sum();
    // The range of all other tests is written only once.
    let layout =
        tests.iter().filter(|test| !test.is_prepared_each_time()).map(|test| test.prepare_bytes).max();
    let writes = |runs: u32| {
        let each = |test: &Test| test.run_writes_bytes() * u64::from(repeats(test, runs));
        tests.iter().map(each).sum::<u64>() + layout.unwrap_or(0) + prepared * u64::from(runs)
    };
    Volume { extent_bytes, writes_min_bytes: writes(runs_min), writes_max_bytes: writes(runs_max) }
}

/// Returns the number of runs of a test; tests that write large amounts run only once.
pub(crate) fn repeats(test: &Test, runs: u32) -> u32 {
    if matches!(test.set, Set::Sustained | Set::NearFull) { 1 } else { runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_their_tests_and_volumes() {
        let mut shown = String::new();
        for sets in
            [&[Set::Four][..], &[Set::AddressRange], &[Set::NearFull, Set::Sustained], &[Set::HeldBack]]
        {
            let tests = tests(&Scope {
                range_max: ByteCount(8 * MIB),
                sustained: ByteCount(1 << 30),
                room: ByteCount(4 << 30),
                ..Scope::of(sets, ByteCount(128 * MIB))
            });
            shown += &format!("{sets:?}\n");
            for test in &tests {
                shown += &format!(
                    "{:<28} {:>6} × {:>6} B, prepared {:>4} MiB, writes {:>5} MiB\n",
                    test.name,
                    test.requests,
                    test.request_bytes,
                    test.prepare_bytes / MIB,
                    test.run_writes_bytes() / MIB
                );
            }
            let volume = volume(&tests, 3, 10);
            shown += &format!(
                "{} MiB touched, {} to {} MiB written\n\n",
                volume.extent_bytes / MIB,
                volume.writes_min_bytes / MIB,
                volume.writes_max_bytes / MIB
            );
        }
        expect_test::expect_file!["../tests/golden/plan.txt"].assert_eq(&shown);
    }

    #[test]
    fn sets_have_names() {
        for (set, name) in Set::ALL {
            assert_eq!(Set::named(name), Some(set));
        }
    }
}
