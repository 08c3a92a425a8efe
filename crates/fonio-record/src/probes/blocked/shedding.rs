//! Chooses the minimum length of a wait with its own row, so that recording stays cheap on a busy machine.
//!
//! The threshold doubles if there are more than [`LONG_WAITS_PER_S`] long waits per second. The threshold is
//! halved if the number of long waits would still be well below this limit after doubling. Waits below the
//! threshold are counted, so no waiting time is lost.

/// The minimum and maximum length from which a wait has its own row.
pub(super) const THRESHOLD_MIN_NS: u64 = 1_000_000;
pub(super) const THRESHOLD_MAX_NS: u64 = 64_000_000;
/// Maximum number of long waits per second. Each long wait costs about 12 µs for two stacks (`cargo xtask
/// bench blocked`), so all long waits together cost about 2.5 % of one processor.
const LONG_WAITS_PER_S: u64 = 2000;
/// Halving the threshold at most about doubles the number of long waits.
const CALM_PER_S: u64 = LONG_WAITS_PER_S / 4;

/// Returns the next threshold after a period of `elapsed_ns` with `long_waits` long waits.
pub(super) fn next_threshold(threshold_ns: u64, long_waits: u64, elapsed_ns: u64) -> u64 {
    let per_s = u128::from(long_waits) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
    if per_s > u128::from(LONG_WAITS_PER_S) {
        (threshold_ns * 2).min(THRESHOLD_MAX_NS)
    } else if per_s < u128::from(CALM_PER_S) {
        (threshold_ns / 2).max(THRESHOLD_MIN_NS)
    } else {
        threshold_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_follows_the_load() {
        const SECOND: u64 = 1_000_000_000;
        for (threshold_ms, long_waits, elapsed_ns, expected_ms) in [
            (1, 0, SECOND, 1),
            (1, 2000, SECOND, 1),
            (1, 2001, SECOND, 2),
            (1, 600, SECOND / 5, 2),
            (64, 1_000_000, SECOND, 64),
            (64, 499, SECOND, 32),
            (4, 500, SECOND, 4),
            (1, 1, 0, 2),
        ] {
            let next = next_threshold(threshold_ms * 1_000_000, long_waits, elapsed_ns);
            assert_eq!(next, expected_ms * 1_000_000, "{threshold_ms} ms, {long_waits} waits");
        }
    }
}
