//! Divides processor time among fuzz targets.

use std::time::Duration;

/// Divides `time` so that the targets' totals become as equal as possible. `before` has the processor time of each
/// target in earlier calls. Returns each target's share.
pub fn divide(time: Duration, before: &[Duration]) -> Vec<Duration> {
    let mut sorted = before.to_vec();
    sorted.sort_unstable();
    // Raise the lowest targets to a common level, until the time is used up.
    let (mut level, mut left) = (Duration::ZERO, time);
    for (at, lowest) in sorted.iter().enumerate() {
        let step = lowest.saturating_sub(level);
        let count = at as u32;
        if step.saturating_mul(count) > left {
            break;
        }
        left = left.saturating_sub(step.saturating_mul(count));
        level = *lowest;
    }
    let raised = sorted.iter().filter(|before| **before <= level).count() as u32;
    level += left / raised.max(1);
    before.iter().map(|before| level.saturating_sub(*before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_with_less_time_get_more() {
        for (time, before, expected) in [
            (30, vec![0, 0, 0], vec![10, 10, 10]),
            (30, vec![10, 0, 50], vec![10, 20, 0]),
            (5, vec![10, 0, 50], vec![0, 5, 0]),
            (90, vec![10, 0, 50], vec![40, 50, 0]),
            (93, vec![10, 0, 50], vec![41, 51, 1]),
            (7, vec![], vec![]),
        ] {
            let seconds =
                |numbers: Vec<u64>| numbers.into_iter().map(Duration::from_secs).collect::<Vec<_>>();
            assert_eq!(
                divide(Duration::from_secs(time), &seconds(before.clone())),
                seconds(expected),
                "{before:?}"
            );
        }
    }
}
