//! Concurrency parameters of the scheduler smartio: the maximum number of requests in flight for each kind of
//! request.

use std::fmt;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use crate::settings::kind::*;
use crate::settings::places::disk_of;

/// The value has one assignment per file of the scheduler.
pub(super) struct OfSmartio;

const FACTS: Facts = Facts {
    tag: "concurrency",
    title: "the concurrency parameters",
    has_parts: true,
    fixes: &[SettingFix {
        name: "concurrency",
        does: "limits how many requests of each kind the scheduler SmartIO has in flight: `concurrency=2,4,4,2` for sequential reads, random reads, sequential writes and random writes; `fonio bench concurrency` finds the numbers; the default is no limit",
        needs: "a disk with the scheduler smartio",
        source: "Nguyen et al. (MobiSys 2015)",
        trial: Trial::WithScheduler(SMARTIO),
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for OfSmartio {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        let numbers = text.map_or(Ok(Concurrency::UNLIMITED), str::parse)?;
        Ok(Value::Word(numbers.value()))
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        let device = disk_of(path)?;
        let (now, _) = Queue::of(&device).schedulers()?;
        if now == SMARTIO {
            return Ok(Object::Disk(device));
        }
        Err(Refusal::Reason(format!(
            "the disk's scheduler is {now}, and only {SMARTIO} has these parameters: run `fonio fix apply {SMARTIO} /dev/{device}`"
        )))
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let queue = Queue::of(on.disk());
        let mut pairs = Vec::new();
        for kind in KINDS {
            match queue.read(&attribute(kind)) {
                Ok(number) => pairs.push(format!("{kind}={number}")),
                // The file is missing, because the device now has another scheduler.
                Err(HostError::System(error)) if error.source.kind() == ErrorKind::NotFound => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(pairs.join(" ")))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let queue = Queue::of(on.disk());
        assignments(value).iter().try_for_each(|(kind, number)| queue.write(&attribute(kind), number))
    }

    fn kept_as(&self, _on: &Object, value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
        let files: Vec<(String, String)> =
            assignments(value).into_iter().map(|(kind, number)| (attribute(&kind), number)).collect();
        Ok(KeptAs::queue_files(files.iter().map(|(file, number)| (file.as_str(), number.as_str()))))
    }

    fn scheduler<'v>(&self, _wanted: &'v Value) -> Option<&'v str> {
        Some(SMARTIO)
    }
}

/// The kinds of requests, in the order of the numbers in a value. The names are those of the files in
/// `queue/iosched` in sysfs.
const KINDS: [&str; 4] = ["seq_read", "rand_read", "seq_write", "rand_write"];

/// Maximum number of requests in flight for each kind of request; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is named after its kind of request")]
pub struct Concurrency {
    pub seq_read: u32,
    pub rand_read: u32,
    pub seq_write: u32,
    pub rand_write: u32,
}

impl Concurrency {
    /// The parameters of the study's Samsung S5 (Nguyen et al. 2015, section 4.5).
    pub const STUDY: Concurrency = Concurrency { seq_read: 2, rand_read: 4, seq_write: 4, rand_write: 2 };

    /// No limits on requests in flight, which is the scheduler's default.
    pub const UNLIMITED: Concurrency = Concurrency { seq_read: 0, rand_read: 0, seq_write: 0, rand_write: 0 };

    /// The numbers that the scheduler accepts.
    pub const RANGE: RangeInclusive<u32> = 0..=10_000;

    /// Returns the largest of the four maximum numbers of requests.
    pub fn greatest(self) -> u32 {
        self.numbers().into_iter().fold(0, u32::max)
    }

    fn numbers(self) -> [u32; 4] {
        [self.seq_read, self.rand_read, self.seq_write, self.rand_write]
    }

    /// Formats the numbers as in the record of settings: `seq_read=2 rand_read=4 …`.
    fn value(self) -> String {
        let pairs = KINDS.iter().zip(self.numbers());
        pairs.map(|(kind, number)| format!("{kind}={number}")).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Concurrency {
    /// Writes the numbers in the form in which users write them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.numbers().map(|number| number.to_string()).join(","))
    }
}

impl FromStr for Concurrency {
    type Err = String;

    /// Parses four numbers such as `2,4,4,2`, for sequential reads, random reads, sequential writes and
    /// random writes.
    fn from_str(text: &str) -> Result<Concurrency, String> {
        let numbers: Option<Vec<u32>> = text
            .split(',')
            .map(|number| number.trim().parse().ok().filter(|number| Concurrency::RANGE.contains(number)))
            .collect();
        match numbers.as_deref() {
            Some(&[seq_read, rand_read, seq_write, rand_write]) => {
                Ok(Concurrency { seq_read, rand_read, seq_write, rand_write })
            }
            _ => Err(format!(
                "write four whole numbers from {} (no limit) to {}, for sequential reads, random reads, sequential writes and random writes, such as {}",
                Concurrency::RANGE.start(),
                Concurrency::RANGE.end(),
                Concurrency::STUDY
            )),
        }
    }
}

/// Returns the file for a kind of request, relative to the `queue` folder in sysfs.
fn attribute(kind: &str) -> String {
    format!("iosched/{kind}_requests_max")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_numbers_are_read_and_others_refused_with_the_way_out() {
        assert_eq!("2,4,4,2".parse(), Ok(Concurrency::STUDY));
        assert_eq!(Concurrency::STUDY.to_string().parse(), Ok(Concurrency::STUDY));
        assert_eq!(Concurrency::STUDY.greatest(), 4);
        for wrong in ["", "2", "2,4,4", "2,4,4,2,1", "1,1,1,10001", "a,b,c,d", "-1,1,1,1", "1;2;3;4"] {
            assert_eq!(
                wrong.parse::<Concurrency>(),
                Err("write four whole numbers from 0 (no limit) to 10000, for sequential reads, random reads, sequential writes and random writes, such as 2,4,4,2".to_owned()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_value_names_files_of_the_scheduler() {
        assert_eq!(Concurrency::STUDY.value(), "seq_read=2 rand_read=4 seq_write=4 rand_write=2");
        assert_eq!(attribute(KINDS[1]), "iosched/rand_read_requests_max");
    }

    #[test]
    fn the_module_has_these_files_and_this_range() {
        let source = include_str!("../../../../../kernel/smartio/sysfs.h");
        let (least, most) = (Concurrency::RANGE.start(), Concurrency::RANGE.end());
        for kind in KINDS {
            let line =
                source.lines().find(|line| line.starts_with(&format!("SETTING({kind}_requests_max, ")));
            let line = line.unwrap_or_else(|| panic!("the module has no setting {kind}_requests_max"));
            assert!(line.ends_with(&format!(", {least}, {most})")), "{line}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_has_none() {
        assert_eq!(
            OfSmartio.current(&Object::Disk("no-such-disk".to_owned())).expect("nothing to read"),
            None
        );
    }
}
