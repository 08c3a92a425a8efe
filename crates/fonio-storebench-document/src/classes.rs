//! Defines the SD classes, and checks whether a result meets their limits.

use std::collections::BTreeMap;

use fonio_core::Unit;

use crate::document::{ClassVerdict, Measure};

/// The requirements of a class that the SD Association defines. There are the application performance classes
/// A1 and A2, and the speed classes.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The class's name, such as `A1` or `V30`.
    pub name: &'static str,
    /// Minimum number of 4 KiB random reads per second.
    pub rand_read_iops: f64,
    /// Minimum number of 4 KiB random writes per second.
    pub rand_write_iops: f64,
    /// Minimum rate of sequential writes in MB/s.
    pub seq_write_mb_s: f64,
}

/// All classes, the lowest of each kind first.
pub const CLASSES: [Class; 7] = [
    video("V6", 6.0),
    video("V10", 10.0),
    Class { name: "A1", rand_read_iops: 1500.0, rand_write_iops: 500.0, seq_write_mb_s: 10.0 },
    Class { name: "A2", rand_read_iops: 4000.0, rand_write_iops: 2000.0, seq_write_mb_s: 10.0 },
    video("V30", 30.0),
    video("V60", 60.0),
    video("V90", 90.0),
];

const fn video(name: &'static str, seq_write_mb_s: f64) -> Class {
    Class { name, rand_read_iops: 0.0, rand_write_iops: 0.0, seq_write_mb_s }
}

/// Size in bytes of the random requests for which the classes state limits.
pub(crate) const REQUEST_BYTES: f64 = 4096.0;

/// Compares a result's figures with the limits of each SD class.
pub fn verdicts(measured: &BTreeMap<String, Measure>) -> BTreeMap<String, ClassVerdict> {
    CLASSES.iter().map(|class| (class.name.to_owned(), of_class(class, measured))).collect()
}

fn of_class(class: &Class, measured: &BTreeMap<String, Measure>) -> ClassVerdict {
    let limits = [
        ("bandwidth.rand_read", class.rand_read_iops * REQUEST_BYTES / 1e6, "random reads"),
        ("bandwidth.rand_write", class.rand_write_iops * REQUEST_BYTES / 1e6, "random writes"),
        // The classes require sustained writes, so the rate after the fast cache is full counts.
        ("sustained.last", class.seq_write_mb_s, "sequential writes"),
    ];
    let mut missing = None;
    for (name, limit, words) in limits.into_iter().filter(|(_, limit, _)| *limit > 0.0) {
        let value = |name: &str| measured.get(name).and_then(Measure::value).map(|value| value.value);
        let found = value(name).or_else(|| value("bandwidth.seq_write").filter(|_| name == "sustained.last"));
        match found {
            None => missing = Some(words),
            Some(found) if found < limit => {
                let is_random = name.starts_with("bandwidth.rand");
                let show = |rate: f64| {
                    if is_random {
                        format!("{:.0} IOPS", rate * 1e6 / REQUEST_BYTES)
                    } else {
                        Unit::MbPerS.format(rate)
                    }
                };
                return ClassVerdict::NotMet(format!("{words}: {} of {}", show(found), show(limit)));
            }
            Some(_) => {}
        }
    }
    match missing {
        Some(words) => ClassVerdict::NotMeasured(format!("{words} were not measured")),
        None => ClassVerdict::Met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Value;

    fn measured(figures: &[(&str, f64)]) -> BTreeMap<String, Measure> {
        let value =
            |value: f64| Value { value, unit: Unit::MbPerS, runs: 3, low: value, high: value, stable: true };
        figures.iter().map(|(name, rate)| ((*name).to_owned(), Measure::Measured(value(*rate)))).collect()
    }

    #[test]
    fn classes_are_met_missed_or_not_measured() {
        let a_card = measured(&[
            ("bandwidth.rand_read", 7.0),
            ("bandwidth.rand_write", 1.9),
            ("bandwidth.seq_write", 60.0),
            ("sustained.last", 28.0),
        ]);
        let found = verdicts(&a_card);
        assert_eq!(found["A1"], ClassVerdict::NotMet("random writes: 464 IOPS of 500 IOPS".to_owned()));
        assert_eq!(found["V10"], ClassVerdict::Met);
        // The rate of 60 MB/s in the fast cache is ignored.
        assert_eq!(found["V30"], ClassVerdict::NotMet("sequential writes: 28 MB/s of 30 MB/s".to_owned()));
        let reads_only = measured(&[("bandwidth.rand_read", 7.0)]);
        let found = verdicts(&reads_only);
        assert_eq!(found["A1"], ClassVerdict::NotMeasured("sequential writes were not measured".to_owned()));
        // If one requirement is missed, the class is not met, even if other requirements were not measured.
        assert!(matches!(found["A2"], ClassVerdict::NotMet(_)));
    }
}
