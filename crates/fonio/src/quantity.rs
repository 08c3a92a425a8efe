//! Times and sizes as people type them; a unit is required.

use std::time::Duration;

/// `30s`, `500ms`, `5min`, `2h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
    let (number, unit) = split(text);
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or("a time needs a unit: ns, us, ms, s, min or h, as in 30s")?;
    Duration::try_from_secs_f64(number? * factor).map_err(|_| "the time is out of range".to_owned())
}

/// `256MiB`, `1GB`, `4096B`; kB is 1000, KiB is 1024. A letter alone is binary, as fio, truncate and losetup have it: `2G`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] = &[
        ("B", 1),
        ("kB", 1000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
    ];
    let (number, unit) = split(text);
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or("a size needs a unit: B, kB, KiB, MB, MiB, GB or GiB, as in 256MiB")?;
    let bytes = number? * factor as f64;
    // 2^53: beyond, a float no longer holds every byte count.
    if bytes <= 9_007_199_254_740_992.0 {
        Ok(bytes as u64)
    } else {
        Err("the size is out of range".to_owned())
    }
}

fn split(text: &str) -> (Result<f64, String>, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number.parse().map_err(|_| format!("`{number}` is not a number")), unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("1.5 min"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        for wrong in ["30", "s", "-1s", "1e3s", "99999999999999999999999999h", ""] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1.5kB"), Ok(1500));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for wrong in ["256", "256m", "MiB", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
