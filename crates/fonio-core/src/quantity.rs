//! Parses and formats amounts, which are numbers with a unit. Units have the same spelling everywhere.
//!
//! User input is parsed with [`FromStr`]; reports, findings and errors use [`Unit::format`]. Sizes and times
//! that an `f64` cannot represent exactly are rejected.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::units::ByteCount;
use crate::units::Nanos;

/// The unit of a number. The unit determines how the number is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds, written as ns, µs, ms, s, min or h.
    Ns,
    /// Seconds, formatted like nanoseconds. This is the unit of run times and time axes.
    S,
    /// Bytes, written with binary prefixes.
    Bytes,
    /// Bytes per second, written with binary prefixes.
    BytesPerS,
    /// 10⁶ bytes per second: the unit of benchmarks.
    #[serde(rename = "MB/s")]
    MbPerS,
    /// Milliseconds, formatted like nanoseconds.
    Ms,
    /// A percentage: the value 100 is the whole.
    #[serde(rename = "%")]
    Percent,
    /// Events per second.
    PerS,
    /// A share of 1, written as a percentage.
    Share,
    /// A ratio of two values; written with a ×.
    Ratio,
    /// A count, written in full with separators.
    Count,
    /// Thousandths of a degree Celsius, written in degrees.
    Millicelsius,
    /// A number without a unit.
    Number,
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The number in the base unit (nanoseconds, bytes or shares of 1).
    pub value: f64,
    /// The unit of the number; `None` if the text has no unit.
    pub unit: Option<Unit>,
}

/// The reason why an amount cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text of the amount does not begin with a number.
    #[error("`{text}` does not begin with a number; write {expected}")]
    NoNumber {
        /// The text that the user wrote.
        text: String,
        /// The kind of amount that was expected.
        expected: Expected,
    },
    /// The number has no unit.
    #[error("`{text}` needs a unit; write {expected}")]
    NoUnit {
        /// The text that the user wrote.
        text: String,
        /// The kind of amount that was expected.
        expected: Expected,
    },
    /// The unit is unknown, or not allowed for this amount.
    #[error("`{text}` ends in `{unit}`; write {expected}")]
    OtherUnit {
        /// The text that the user wrote.
        text: String,
        /// The unit in the text.
        unit: String,
        /// The kind of amount that was expected.
        expected: Expected,
    },
    /// The amount is negative or too large.
    #[error("`{text}` is out of range; use 0 to {largest}")]
    OutOfRange {
        /// The text that the user wrote.
        text: String,
        /// The largest allowed amount, as text.
        largest: &'static str,
    },
}

/// The expected kind of amount. As text, it names the units and gives an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A number of bytes.
    Size,
    /// A length of time.
    Duration,
    /// A number with any unit, or without a unit.
    Quantity,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Size => "a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB",
            Expected::Duration => "a time in ns, us, ms, s, min or h, such as 30s",
            Expected::Quantity => {
                "a number with a unit, such as 20ms, 4KiB, 1.5MB/s, 12%, 10/s, 2x or 60°C, or a number alone"
            }
        })
    }
}

/// The suffixes, each with its unit and its factor to the base unit. kB is 1000 bytes, KiB is 1024 bytes. A
/// single-letter suffix, as in `2G`, is a power of 1024, as in fio, truncate, losetup and mount.
const SUFFIXES: &[(&str, Unit, f64)] = &[
    ("ns", Unit::Ns, 1.0),
    ("us", Unit::Ns, 1e3),
    ("µs", Unit::Ns, 1e3),
    ("ms", Unit::Ns, 1e6),
    ("s", Unit::Ns, 1e9),
    ("min", Unit::Ns, 60e9),
    ("m", Unit::Ns, 60e9),
    ("h", Unit::Ns, 3600e9),
    ("B", Unit::Bytes, 1.0),
    ("kB", Unit::Bytes, 1e3),
    ("KB", Unit::Bytes, 1e3),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("TB", Unit::Bytes, 1e12),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0),
    ("TiB", Unit::Bytes, 1_099_511_627_776.0),
    ("K", Unit::Bytes, 1024.0),
    ("k", Unit::Bytes, 1024.0),
    ("M", Unit::Bytes, 1_048_576.0),
    ("m", Unit::Bytes, 1_048_576.0),
    ("G", Unit::Bytes, 1_073_741_824.0),
    ("g", Unit::Bytes, 1_073_741_824.0),
    ("T", Unit::Bytes, 1_099_511_627_776.0),
    ("%", Unit::Share, 0.01),
    ("/s", Unit::PerS, 1.0),
    ("/min", Unit::PerS, 1.0 / 60.0),
    ("x", Unit::Ratio, 1.0),
    ("×", Unit::Ratio, 1.0),
    ("°C", Unit::Millicelsius, 1000.0),
    ("C", Unit::Millicelsius, 1000.0),
];

/// The limit (8 PiB, 104 days) up to which an `f64` can represent every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn split(text: &str, expected: Expected) -> Result<(f64, &str), QuantityError> {
    let text = text.trim();
    let no_number = || QuantityError::NoNumber { text: text.to_owned(), expected };
    let is_digit = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '_' | '-' | '+');
    let mut end = text.find(|letter| !is_digit(letter)).unwrap_or(text.len());
    // Read an exponent, as in `1e6`, if digits follow the letter.
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let digits = exponent.find(|letter| !is_digit(letter)).unwrap_or(exponent.len());
        if digits > 0 {
            end += 1 + digits;
        }
    }
    let number: f64 = text[..end].replace('_', "").parse().map_err(|_| no_number())?;
    if !number.is_finite() {
        return Err(no_number());
    }
    Ok((number, text[end..].trim()))
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Parses a number with an optional unit: `20ms`, `4 KiB`, `1.5 MB/s`, `12%`, `10/s`, `2x`, `60°C`, `3`.
    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let (number, suffix) = split(text, Expected::Quantity)?;
        if suffix.is_empty() {
            return Ok(Quantity { value: number, unit: None });
        }
        let known = |suffix: &str| SUFFIXES.iter().find(|(name, ..)| *name == suffix);
        let rate = || suffix.strip_suffix("/s").and_then(known).filter(|(_, unit, _)| *unit == Unit::Bytes);
        let (unit, worth) = match (known(suffix), rate()) {
            (Some((_, unit, worth)), _) => (*unit, *worth),
            (None, Some((_, _, worth))) => (Unit::BytesPerS, *worth),
            (None, None) => {
                return Err(QuantityError::OtherUnit {
                    text: text.trim().to_owned(),
                    unit: suffix.to_owned(),
                    expected: Expected::Quantity,
                });
            }
        };
        Ok(Quantity { value: number * worth, unit: Some(unit) })
    }
}

/// Parses an integer amount of one unit. A number without a unit is multiplied by `bare`.
fn whole(text: &str, unit: Unit, bare: Option<f64>, expected: Expected) -> Result<u64, QuantityError> {
    let (number, suffix) = split(text, expected)?;
    let text = text.trim();
    let known = SUFFIXES.iter().find(|(name, of, _)| *name == suffix && *of == unit);
    let worth = match (known, bare) {
        (Some((_, _, worth)), _) => *worth,
        (None, Some(bare)) if suffix.is_empty() => bare,
        (None, _) if suffix.is_empty() => {
            return Err(QuantityError::NoUnit { text: text.to_owned(), expected });
        }
        (None, _) => {
            return Err(QuantityError::OtherUnit {
                text: text.to_owned(),
                unit: suffix.to_owned(),
                expected,
            });
        }
    };
    let value = (number * worth).round();
    if (0.0..=EXACT_MAX).contains(&value) {
        Ok(value as u64)
    } else {
        let largest = if unit == Unit::Ns { "2500h" } else { "8192TiB" };
        Err(QuantityError::OutOfRange { text: text.to_owned(), largest })
    }
}

impl FromStr for ByteCount {
    type Err = QuantityError;

    /// Parses sizes such as `256MiB`, `1GB`, `2G` and `4096`. A number without a unit is a number of bytes,
    /// as in fio, dd and truncate. Fractions of a byte are rounded.
    fn from_str(text: &str) -> Result<ByteCount, QuantityError> {
        whole(text, Unit::Bytes, Some(1.0), Expected::Size).map(ByteCount)
    }
}

impl FromStr for Nanos {
    type Err = QuantityError;

    /// Parses times such as `30s`, `500ms`, `1.5 min` and `2h`; the unit is required. Fractions of a ns are
    /// rounded.
    fn from_str(text: &str) -> Result<Nanos, QuantityError> {
        whole(text, Unit::Ns, None, Expected::Duration).map(Nanos)
    }
}

/// Parses a size as a [`ByteCount`] and returns the number of bytes. Fails if the text is not a valid size.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    text.parse().map(|ByteCount(bytes)| bytes)
}

/// Parses a time as [`Nanos`] and returns a [`Duration`]. Fails if the text is not a valid time.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    text.parse().map(|Nanos(ns)| Duration::from_nanos(ns))
}

impl ByteCount {
    /// Returns the shortest text that [`FromStr`] parses to the same number of bytes: `4KiB`, `1MB`, `1537B`.
    pub fn to_exact_text(self) -> String {
        let fits = |(_, unit, worth): &&(&str, Unit, f64)| {
            let worth = *worth as u64;
            *unit == Unit::Bytes && self.0 >= worth && self.0.is_multiple_of(worth)
        };
        // Among suffixes with the same factor, the first is used: `KiB` before `K`.
        let best =
            SUFFIXES.iter().filter(fits).reduce(|best, other| if other.2 > best.2 { other } else { best });
        best.map_or_else(
            || format!("{}B", self.0),
            |(name, _, worth)| format!("{}{name}", self.0 / *worth as u64),
        )
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.unit.unwrap_or(Unit::Number).format(self.value))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Unit::Bytes.format(self.0 as f64))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Unit::Ns.format(self.0 as f64))
    }
}

impl Unit {
    /// Formats a value in this unit, rounded for people.
    ///
    /// A value that is not finite is written as a dash. Reports should not contain such values.
    pub fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        if value < 0.0 {
            return format!("-{}", self.format(-value));
        }
        match self {
            Unit::Ns => duration(value),
            Unit::Ms => duration(value * 1e6),
            Unit::S => duration(value * 1e9),
            Unit::Bytes => binary(value, ""),
            Unit::BytesPerS => binary(value, "/s"),
            Unit::MbPerS => format!("{} MB/s", plain(value)),
            Unit::Count => {
                if value.fract() == 0.0 && value < 1e15 {
                    grouped(value as u64)
                } else {
                    plain(value)
                }
            }
            Unit::PerS => format!("{}/s", plain(value)),
            Unit::Share => percent(value),
            Unit::Percent => percent(value / 100.0),
            Unit::Ratio => format!("{}×", plain(value)),
            Unit::Millicelsius => format!("{} °C", plain(value / 1000.0)),
            Unit::Number => plain(value),
        }
    }

    /// Formats a change in this unit, with its sign.
    pub fn format_change(self, value: f64) -> String {
        // A change that would round to 0 is formatted as no change.
        let text = self.format(value.abs());
        match text.starts_with('<') {
            true => self.format(0.0),
            false if value > 0.0 => format!("+{text}"),
            false => self.format(value),
        }
    }
}

/// Formats a number with three significant digits, without trailing zeroes. Integers above 999 keep all their
/// digits and get separators.
fn plain(value: f64) -> String {
    if value >= 999.5 {
        return if value < 1e15 { grouped(value.round() as u64) } else { format!("{value:.2e}") };
    }
    significant(value)
}

/// Formats a `value` in `0.0..1000.0` with three significant digits and at most four decimals.
fn significant(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else if value >= 0.9995 || value == 0.0 {
        2
    } else if value >= 0.09995 {
        3
    } else {
        4
    };
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "0" && value > 0.0 { "<0.0001".to_owned() } else { text.to_owned() }
}

fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.01 {
        return "<0.01 %".to_owned();
    }
    // A share below 1 must not be shown as 100 %.
    if share < 1.0 && value >= 99.95 {
        return ">99.9 %".to_owned();
    }
    format!("{} %", plain((value * 100.0).round() / 100.0))
}

fn duration(ns: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let seconds = ns / 1e9;
    if seconds >= 5999.5 {
        let minutes = (seconds / 60.0).round() as u64;
        return format!("{} h {:02} min", minutes / 60, minutes % 60);
    }
    if seconds >= 119.95 {
        let seconds = seconds.round() as u64;
        return format!("{} min {:02} s", seconds / 60, seconds % 60);
    }
    for (step, name) in STEPS {
        // 999.6 µs rounds up to 1000, so the next unit is used.
        if ns / step >= 0.9995 {
            return format!("{} {name}", significant(ns / step));
        }
    }
    format!("{} ns", significant(ns))
}

fn binary(bytes: f64, per: &str) -> String {
    const STEPS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut at = 0;
    while at + 1 < STEPS.len() && value >= 1023.5 {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}{per}", plain(value).replace(',', ""), STEPS[at])
}

/// Formats `1234567` as `1,234,567`.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is `UNIT VALUE TEXT`; the test of the report's script reads this file too.
    #[test]
    fn numbers_as_people_read_them() {
        for line in include_str!("quantity/formatted.tsv").lines().filter(|line| !line.starts_with('#')) {
            let [unit, value, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
            let unit: Unit = serde_json::from_value(unit.into()).expect(line);
            assert_eq!(unit.format(value.parse().expect(line)), text, "{line}");
        }
        for (unit, value, text) in [
            (Unit::MbPerS, 1234.5, "1,235 MB/s"),
            (Unit::MbPerS, 12.34, "12.3 MB/s"),
            (Unit::Ms, 0.0721, "72.1 µs"),
            (Unit::Percent, 19.44, "19.4 %"),
        ] {
            assert_eq!(unit.format(value), text);
        }
        assert_eq!(Unit::Ns.format_change(1e6), "+1 ms");
        assert_eq!(Unit::Share.format_change(-0.5), "-50 %");
        assert_eq!(Unit::Share.format_change(-0.00001), "0 %");
        assert_eq!(Unit::Number.format(f64::NAN), "–");
    }

    #[test]
    fn amounts() {
        let of = |value, unit| Ok(Quantity { value, unit });
        for (text, expected) in [
            ("20ms", of(20e6, Some(Unit::Ns))),
            ("1.5 MB/s", of(1.5e6, Some(Unit::BytesPerS))),
            (" 4 KiB ", of(4096.0, Some(Unit::Bytes))),
            ("12%", of(0.12, Some(Unit::Share))),
            ("10/s", of(10.0, Some(Unit::PerS))),
            ("2x", of(2.0, Some(Unit::Ratio))),
            ("60 °C", of(60_000.0, Some(Unit::Millicelsius))),
            ("1_000", of(1000.0, None)),
            ("1e6", of(1e6, None)),
            ("-5 %", of(-0.05, Some(Unit::Share))),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_times() {
        let size =
            |text: &str| text.parse::<ByteCount>().map(|size| size.0).map_err(|error| error.to_string());
        let time = |text: &str| text.parse::<Nanos>().map(|time| time.0).map_err(|error| error.to_string());
        assert_eq!(size("256MiB"), Ok(256 << 20));
        assert_eq!(size("1.5kB"), Ok(1500));
        assert_eq!((size("2G"), size("64k"), size("4096")), (Ok(2 << 30), Ok(64 << 10), Ok(4096)));
        assert_eq!(time("1.5 min"), Ok(90_000_000_000));
        assert_eq!(time("10m"), time("10min"));
        assert_eq!(time("250us"), Ok(250_000));
        let errors: Vec<String> =
            [size("MiB"), size("4 potatoes"), size("10ms"), size("-1B"), size("99999999TiB")]
                .into_iter()
                .chain([time("30"), time("s"), time("1e3"), time("1MiB"), time("99999999h"), time("")])
                .map(|read| read.expect_err("it cannot be read"))
                .collect();
        expect_test::expect![[r#"
            `MiB` does not begin with a number; write a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB
            `4 potatoes` ends in `potatoes`; write a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB
            `10ms` ends in `ms`; write a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB
            `-1B` is out of range; use 0 to 8192TiB
            `99999999TiB` is out of range; use 0 to 8192TiB
            `30` needs a unit; write a time in ns, us, ms, s, min or h, such as 30s
            `s` does not begin with a number; write a time in ns, us, ms, s, min or h, such as 30s
            `1e3` needs a unit; write a time in ns, us, ms, s, min or h, such as 30s
            `1MiB` ends in `MiB`; write a time in ns, us, ms, s, min or h, such as 30s
            `99999999h` is out of range; use 0 to 2500h
            `` does not begin with a number; write a time in ns, us, ms, s, min or h, such as 30s"#]].assert_eq(&errors.join("\n"));
    }

    proptest::proptest! {
        #[test]
        fn exact_text_comes_back(bytes in 0_u64..1 << 53, zeroes in 0_u32..40) {
            let size = ByteCount(bytes >> zeroes << zeroes);
            proptest::prop_assert_eq!(size.to_exact_text().parse(), Ok(size));
        }

        #[test]
        fn nothing_panics(text in ".{0,12}", number in proptest::num::f64::ANY) {
            let _ = (text.parse::<Quantity>(), text.parse::<ByteCount>(), text.parse::<Nanos>());
            for unit in [Unit::Ns, Unit::Bytes, Unit::Share, Unit::Count, Unit::Ratio, Unit::Number] {
                proptest::prop_assert!(!unit.format(number).is_empty());
            }
        }
    }
}
