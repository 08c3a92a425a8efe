//! Summarises the histograms of biolatency, of bcc and libbpf-tools, for the message about such a text.
//!
//! ```text
//! disk = vda
//!      usecs               : count    distribution
//!        256 -> 511        : 77       |****************************************|
//! ```
//!
//! The bounds are powers of two, so a percentile is known only as "less than".

use std::collections::BTreeMap;

/// Maximum number of disks or flags that the summary names.
const NAMED_MAX: usize = 4;

/// Counts by the upper bound of their times, in ns.
type Counts = BTreeMap<u64, u64>;

/// Returns the number of requests and their percentiles, by disk if the text names disks; `None` if it has no counts.
pub(crate) fn summary(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let mut all: Vec<(String, Counts)> = Vec::new();
    let (mut name, mut unit_ns) = ("all".to_owned(), 1000);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["disk" | "flags", "=", ref rest @ ..] => name = rest.join(" "),
            [unit @ ("nsecs" | "usecs" | "msecs"), ":", "count", ..] => {
                unit_ns = match unit {
                    "nsecs" => 1,
                    "usecs" => 1000,
                    _ => 1_000_000,
                };
            }
            [_, "->", last, ":", count, ..] => {
                let (Ok(last), Ok(count)) = (last.parse::<u64>(), count.parse::<u64>()) else { continue };
                let bound = last.saturating_add(1).saturating_mul(unit_ns);
                let counts = match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, counts)) => counts,
                    None => {
                        all.push((name.clone(), Counts::default()));
                        &mut all.last_mut()?.1
                    }
                };
                let sum = counts.entry(bound).or_default();
                *sum = sum.saturating_add(count);
            }
            _ => {}
        }
    }
    let shown: Vec<String> =
        all.iter().filter_map(|(name, counts)| of_one(name, counts)).take(NAMED_MAX).collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

fn of_one(name: &str, counts: &Counts) -> Option<String> {
    let total = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    if total == 0 {
        return None;
    }
    let below = |percent: u64| {
        let wanted = u128::from(total) * u128::from(percent);
        let mut sum = 0_u128;
        let reached = counts.iter().find(|(_, count)| {
            sum += u128::from(**count);
            sum * 100 >= wanted
        });
        reached.map_or(0, |(bound, _)| *bound)
    };
    let longest = counts.iter().rfind(|(_, count)| **count > 0).map_or(0, |(bound, _)| *bound);
    let [half, most, longest] = [below(50), below(99), longest].map(time);
    Some(format!(
        "{name}: {total} requests, half of them faster than {half}, 99 % faster than {most}, all faster than {longest}"
    ))
}

fn time(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        1000..1_000_000 => format!("{:.3} µs", ns as f64 / 1e3),
        _ => format!("{:.3} ms", ns as f64 / 1e6),
    }
    .replace(".000 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_summarised() {
        let text = "Tracing block device I/O... Hit Ctrl-C to end.\n\ndisk = vda\n\
            \x20    usecs               : count    distribution\n\
            \x20      128 -> 255        : 0        |      |\n\
            \x20      256 -> 511        : 77       |******|\n\
            \x20      512 -> 1023       : 22       |**    |\n\
            \x20     8192 -> 16383      : 1        |      |\n";
        let expected = "vda: 100 requests, half of them faster than 512 µs, 99 % faster than 1.024 ms, all faster than 16.384 ms";
        assert_eq!(summary(text.as_bytes()).as_deref(), Some(expected));
        // The counts of several intervals are added.
        let twice = summary(text.repeat(2).as_bytes()).expect("there are counts");
        assert!(twice.starts_with("vda: 200 requests, half of them faster than 512 µs"), "{twice}");
        let milliseconds =
            "  msecs : count distribution\n 0 -> 1 : 18446744073709551615 |*|\n 2 -> 3 : 9 |*|\n";
        assert!(
            summary(milliseconds.as_bytes())
                .expect("there are counts")
                .contains("half of them faster than 2 ms")
        );
        assert_eq!(summary(b"usecs : count distribution\n"), None);
    }
}
