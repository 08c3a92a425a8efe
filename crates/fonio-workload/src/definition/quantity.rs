//! Numbers of bytes with a unit, and distributions of sizes.

use std::fmt;
use std::str::FromStr;

use fonio_core::ByteCount;
use fonio_core::Random;
use fonio_core::quantity::parse_bytes;
use serde::{Deserialize, Serialize};

/// A number of bytes, written with its unit: `512 B`, `4KiB`, `1.5 MB`. kB means 1000, KiB means 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

/// The maximum valid size. No phone app writes 1 TiB, so larger sizes are treated as errors.
const BYTES_MAX: u64 = 1 << 40;

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_bytes(text) {
            Ok(bytes) if bytes <= BYTES_MAX => Ok(Bytes(bytes)),
            Ok(_) => Err(format!("`{text}` is more than 1 TiB")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ByteCount(self.0).to_exact_text())
    }
}

/// A distribution of sizes, as weighted alternatives. Each alternative is one size or a uniform range.
/// Examples: `4KiB`, `1KiB..64KiB` (both ends included), `40x 1KiB..4KiB | 60x 32KiB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sizes(Vec<Alternative>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alternative {
    weight: u64,
    low: u64,
    high: u64,
}

impl Sizes {
    /// Returns the distribution that contains only the given size.
    #[must_use]
    pub fn fixed(bytes: u64) -> Self {
        Sizes(vec![Alternative { weight: 1, low: bytes, high: bytes }])
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let mut left = random.below(self.weight());
        for alternative in &self.0 {
            if left < alternative.weight {
                return random.between(alternative.low, alternative.high);
            }
            left -= alternative.weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// Returns the maximum size in the distribution.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.0.iter().map(|alternative| alternative.high).max().unwrap_or(0)
    }

    /// Returns the distribution's mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|a| a.weight as f64 * (a.low as f64 + a.high as f64) / 2.0).sum();
        sum / self.weight() as f64
    }

    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|alternative| [alternative.low, alternative.high])
    }

    fn weight(&self) -> u64 {
        self.0.iter().map(|alternative| alternative.weight).sum()
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split('|').map(Alternative::from_str).collect::<Result<_, _>>().map(Sizes)
    }
}

impl FromStr for Alternative {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (weight, range) = match text.trim().split_once('x') {
            None => (1, text),
            Some((weight, range)) => (
                weight.trim().parse().ok().filter(|weight| (1..=1_000_000).contains(weight)).ok_or_else(
                    || {
                        format!(
                            "`{weight}` is not a weight; write a whole number from 1 to 1000000 before the x"
                        )
                    },
                )?,
                range,
            ),
        };
        let (low, high) = range.split_once("..").unwrap_or((range, range));
        let (low, high) = (low.parse::<Bytes>()?.0, high.parse::<Bytes>()?.0);
        if low > high {
            return Err(format!("`{}` runs backwards", range.trim()));
        }
        Ok(Alternative { weight, low, high })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, alternative) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            if self.0.len() > 1 {
                write!(f, "{}x ", alternative.weight)?;
            }
            write!(f, "{}", Bytes(alternative.low))?;
            if alternative.high != alternative.low {
                write!(f, "..{}", Bytes(alternative.high))?;
            }
        }
        Ok(())
    }
}

macro_rules! as_string {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}
as_string!(Bytes, Sizes);
pub(super) use as_string;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        let read = |text: &str| text.parse::<Sizes>().map_or_else(|error| error, |sizes| sizes.to_string());
        let file = expect_test::expect_file!["sizes.txt"];
        file.assert_eq(&fonio_testing::cases::lines(&file.data(), read));
    }

    #[test]
    fn draws_keep_to_the_weights() {
        let sizes: Sizes = "9x 1KiB..2KiB | 1x 64KiB".parse().unwrap();
        let mut random = Random::new(1);
        let draws: Vec<u64> = (0..10_000).map(|_| sizes.draw(&mut random)).collect();
        let large = draws.iter().filter(|&&size| size == 65_536).count();
        assert!((800..1200).contains(&large), "{large}");
        let mean = draws.iter().sum::<u64>() as f64 / 10_000.0;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.1, "{mean} against {}", sizes.mean());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Sizes>();
        }

        #[test]
        fn what_was_written_reads_the_same(parts in prop::collection::vec((1_u64..100, 0_u64..1 << 30, 0_u64..1 << 30), 1..4)) {
            let one = parts.len() == 1;
            let sizes = Sizes(parts.into_iter().map(|(weight, low, more)| Alternative {
                weight: if one { 1 } else { weight }, low, high: low + more }).collect());
            prop_assert_eq!(sizes.to_string().parse::<Sizes>(), Ok(sizes));
        }
    }
}
