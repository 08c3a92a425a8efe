//! Reads pressure stall information (PSI): the time in which tasks waited because a resource was unavailable
//! (`/proc/pressure/io`, and `io.pressure` of a control group).

use std::path::Path;
use std::time::Duration;

/// Two counters that start at arbitrary values. Only differences between two readings have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Time in which at least one task was stalled; `None` if the kernel does not report this time.
    pub some: Option<Duration>,
    /// Time in which all non-idle tasks were stalled; `None` if the kernel does not report this time.
    pub full: Option<Duration>,
}

impl Pressure {
    /// Reads a pressure file. Returns `None` if the file does not exist, or if pressure information is
    /// disabled (the boot option `psi=1` enables it).
    pub fn read(path: &Path) -> Option<Pressure> {
        Some(Pressure::parse(&std::fs::read_to_string(path).ok()?))
    }

    /// Parses lines such as `some avg10=0.00 avg60=0.11 avg300=0.26 total=9066175`; the total is in
    /// microseconds.
    pub fn parse(text: &str) -> Pressure {
        let mut pressure = Pressure::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let kind = words.next();
            let total = words.find_map(|word| word.strip_prefix("total=")?.parse().ok());
            match kind {
                Some("some") => pressure.some = total.map(Duration::from_micros),
                Some("full") => pressure.full = total.map(Duration::from_micros),
                _ => {}
            }
        }
        pressure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let of = |some, full| Pressure {
            some: Option::map(some, Duration::from_micros),
            full: Option::map(full, Duration::from_micros),
        };
        for (text, expected) in [
            (
                "some avg10=0.00 avg60=0.11 avg300=0.26 total=9066175\nfull avg10=0.00 total=12\n",
                of(Some(9_066_175), Some(12)),
            ),
            ("some avg10=0.00 total=7\n", of(Some(7), None)),
            ("some avg10=0.00\nother total=3\n", of(None, None)),
            ("", of(None, None)),
        ] {
            assert_eq!(Pressure::parse(text), expected, "{text}");
        }
        assert_eq!(Pressure::read(Path::new("/no/such/file")), None);
    }
}
