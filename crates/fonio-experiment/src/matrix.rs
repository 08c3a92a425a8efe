//! Combines the values of a comparison: every combination of storage, file system and scheduler.

use fonio_host::Filesystem;

use crate::error::ExperimentError;

/// Separates the storage from the other values in a combination's name.
pub(crate) const SEPARATOR: &str = " with ";

/// The values that a comparison combines, in the user's order.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The directories, block devices and profiles to compare; at least one.
    pub places: &'a [String],
    /// The file systems to compare; empty for the default file system.
    pub filesystems: &'a [Filesystem],
    /// The schedulers to compare; empty for the default scheduler.
    pub schedulers: &'a [String],
}

/// One combination of a [`Matrix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination<'a> {
    /// The name of the combination: the storage, followed by the values that differ between the combinations.
    pub name: String,
    /// The directory, block device or profile.
    pub place: &'a str,
    /// The file system of the combination; `None` for the default.
    pub filesystem: Option<Filesystem>,
    /// The scheduler of the combination; `None` for the default.
    pub scheduler: Option<&'a str>,
}

impl<'a> Matrix<'a> {
    /// Returns all combinations of the values, ordered by storage, file system and scheduler.
    pub fn combinations(&self) -> Result<Vec<Combination<'a>>, ExperimentError> {
        once("--on", self.places)?;
        once("--fs", self.filesystems)?;
        once("--scheduler", self.schedulers)?;
        let filesystems = choices(self.filesystems.iter().copied());
        let schedulers = choices(self.schedulers.iter().map(String::as_str));
        let mut combinations = Vec::new();
        for place in self.places {
            for filesystem in filesystems.iter().copied() {
                for scheduler in schedulers.iter().copied() {
                    let shown = filesystem.filter(|_| filesystems.len() > 1).map(|name| name.to_string());
                    let scheduled = scheduler.filter(|_| schedulers.len() > 1).map(str::to_owned);
                    let differing: Vec<String> = shown.into_iter().chain(scheduled).collect();
                    let name = if differing.is_empty() {
                        place.clone()
                    } else {
                        format!("{place}{SEPARATOR}{}", differing.join(" and "))
                    };
                    combinations.push(Combination { name, place, filesystem, scheduler });
                }
            }
        }
        Ok(combinations)
    }
}

/// Returns `values` as choices, or only the default if there are no values.
fn choices<T>(values: impl Iterator<Item = T>) -> Vec<Option<T>> {
    let values: Vec<Option<T>> = values.map(Some).collect();
    if values.is_empty() { vec![None] } else { values }
}

fn once<T: PartialEq + ToString>(option: &'static str, values: &[T]) -> Result<(), ExperimentError> {
    let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    twice.map_or(Ok(()), |(_, value)| Err(ExperimentError::NamedTwice { option, value: value.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(places: &str, filesystems: &str, schedulers: &str) -> Result<Vec<String>, String> {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (places, schedulers) = (words(places), words(schedulers));
        let filesystems: Vec<Filesystem> =
            words(filesystems).iter().map(|name| name.parse().expect("it is known")).collect();
        let matrix = Matrix { places: &places, filesystems: &filesystems, schedulers: &schedulers };
        let combinations = matrix.combinations().map_err(|error| error.to_string())?;
        Ok(combinations
            .into_iter()
            .map(|of| {
                let filesystem = of.filesystem.map_or("-".to_owned(), |filesystem| filesystem.to_string());
                format!("{}: {} {filesystem} {}", of.name, of.place, of.scheduler.unwrap_or("-"))
            })
            .collect())
    }

    #[test]
    fn names_show_only_what_differs() {
        for (places, filesystems, schedulers, expected) in [
            ("card", "", "", &["card: card - -"][..]),
            ("card", "f2fs", "bfq", &["card: card f2fs bfq"]),
            ("card disk", "xfs", "", &["card: card xfs -", "disk: disk xfs -"]),
            ("card", "ext4 f2fs", "bfq", &["card with ext4: card ext4 bfq", "card with f2fs: card f2fs bfq"]),
            ("card", "", "none bfq", &["card with none: card - none", "card with bfq: card - bfq"]),
            (
                "card disk",
                "ext4 vfat",
                "none bfq",
                &[
                    "card with ext4 and none: card ext4 none",
                    "card with ext4 and bfq: card ext4 bfq",
                    "card with vfat and none: card vfat none",
                    "card with vfat and bfq: card vfat bfq",
                    "disk with ext4 and none: disk ext4 none",
                    "disk with ext4 and bfq: disk ext4 bfq",
                    "disk with vfat and none: disk vfat none",
                    "disk with vfat and bfq: disk vfat bfq",
                ],
            ),
        ] {
            assert_eq!(of(places, filesystems, schedulers).expect("each is named once"), expected);
        }
    }

    #[test]
    fn a_value_that_is_named_twice_is_refused() {
        for (places, filesystems, schedulers, expected) in [
            ("card disk card", "", "", "--on names card twice"),
            ("card", "xfs f2fs xfs", "", "--fs names xfs twice"),
            ("card", "xfs", "bfq bfq", "--scheduler names bfq twice"),
        ] {
            let refused = of(places, filesystems, schedulers).expect_err("a value is named twice");
            assert_eq!(refused, expected);
        }
    }
}
