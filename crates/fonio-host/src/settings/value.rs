//! Parses the values that users write for settings, such as the size in `read-ahead=1MiB`.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use fonio_core::ByteCount;
use fonio_core::quantity::{parse_bytes, parse_duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The user wrote no value, and the setting has no default.
    None,
    Size(ByteCount),
    /// Bytes per second; `disk` is the name of the only disk in `/sys/block` that has this limit.
    Rate {
        per_s: ByteCount,
        disk: Option<String>,
    },
    Number(u32),
    Word(String),
    Folder(PathBuf),
}

impl Value {
    /// Returns the size that the user wrote. Panics if the value is not a size. A kind gets only values that
    /// it has parsed.
    pub(super) fn size(&self) -> ByteCount {
        match self {
            Value::Size(size) => *size,
            other => panic!("{other:?} is not a size"),
        }
    }

    /// Returns the word that the user wrote; `None` if the value is not a word.
    pub(super) fn word(&self) -> Option<&str> {
        if let Value::Word(word) = self { Some(word) } else { None }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => Ok(()),
            Value::Size(size) | Value::Rate { per_s: size, .. } => f.write_str(&size.to_exact_text()),
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => f.write_str(word),
            Value::Folder(folder) => write!(f, "{}", folder.display()),
        }
    }
}

/// Maximum size that a setting accepts. No device needs more.
const SIZE_MAX: u64 = 64 << 30;

/// Parses a size, which must be a multiple of `step`.
pub(super) fn size(text: Option<&str>, default: u64, step: u64) -> Result<Value, String> {
    let bytes = text.map_or(Ok(default), |text| parse_bytes(text).map_err(|error| error.to_string()))?;
    if bytes < step || bytes % step > 0 {
        return Err(format!("write a multiple of {}", ByteCount(step).to_exact_text()));
    }
    if bytes > SIZE_MAX {
        return Err(format!("write at most {}", ByteCount(SIZE_MAX).to_exact_text()));
    }
    Ok(Value::Size(ByteCount(bytes)))
}

/// Minimum of a rate in bytes per second: programs with less would seem to hang.
const RATE_MIN: ByteCount = ByteCount(64 << 10);

/// Parses a rate: a number of bytes per second, written as a size.
pub(super) fn rate(text: Option<&str>, default: ByteCount) -> Result<Value, String> {
    let bytes = text.map_or(Ok(default.0), |text| parse_bytes(text).map_err(|error| error.to_string()))?;
    if !(RATE_MIN.0..=SIZE_MAX).contains(&bytes) {
        let [min, max] = [RATE_MIN, ByteCount(SIZE_MAX)].map(ByteCount::to_exact_text);
        return Err(format!("write a size from {min} to {max}, which is the limit per second"));
    }
    Ok(Value::Rate { per_s: ByteCount(bytes), disk: None })
}

pub(super) fn number(text: Option<&str>, default: u32, range: RangeInclusive<u32>) -> Result<Value, String> {
    let number = text.map_or(Some(default), |text| text.parse().ok());
    number
        .filter(|number| range.contains(number))
        .map(Value::Number)
        .ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
}

/// Parses a time in full seconds. As in systemd, `m` means minutes.
pub(super) fn seconds(text: Option<&str>, default: u32, range: RangeInclusive<u32>) -> Result<Value, String> {
    let Some(text) = text else { return Ok(Value::Number(default)) };
    let minutes = text.strip_suffix('m').filter(|digits| digits.parse::<u32>().is_ok());
    let text = minutes.map_or(text.to_owned(), |digits| format!("{digits}min"));
    let time = parse_duration(&text).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(time.as_secs()).ok().filter(|_| time.subsec_nanos() == 0);
    seconds
        .filter(|seconds| range.contains(seconds))
        .map(Value::Number)
        .ok_or_else(|| format!("write a time in whole seconds from {}s to {}s", range.start(), range.end()))
}

/// Parses one of several words; the first word is the default.
pub(super) fn one_of(text: Option<&str>, words: &[&str]) -> Result<Value, String> {
    let found = words.iter().find(|word| text.is_none_or(|text| text == **word));
    found.map(|word| Value::Word((*word).to_owned())).ok_or_else(|| format!("write {}", words.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_others_refused_with_the_reason() {
        assert_eq!(seconds(None, 30, 1..=60), Ok(Value::Number(30)));
        for text in ["1m", "1min", "60s"] {
            assert_eq!(seconds(Some(text), 30, 1..=60), Ok(Value::Number(60)));
        }
        for wrong in ["2m", "0s", "500ms"] {
            assert_eq!(
                seconds(Some(wrong), 30, 1..=60),
                Err("write a time in whole seconds from 1s to 60s".to_owned())
            );
        }
        let in_range = "write a size from 64KiB to 64GiB, which is the limit per second";
        for (text, expected) in [
            (None, Ok(10 << 20)),
            (Some("10MB"), Ok(10_000_000)),
            (Some("64KiB"), Ok(64 << 10)),
            (Some("65535B"), Err(in_range.to_owned())),
            (Some("65GiB"), Err(in_range.to_owned())),
            (Some("10"), Err(in_range.to_owned())),
            (
                Some("10MB/s"),
                Err("`10MB/s` ends in `MB/s`; write a size in B, kB, KiB, MB, MiB, GB, GiB, TB or TiB, such as 256MiB".to_owned()),
            ),
        ] {
            let per_s = expected.map(|bytes| Value::Rate { per_s: ByteCount(bytes), disk: None });
            assert_eq!(rate(text, ByteCount(10 << 20)), per_s, "{text:?}");
        }
        let class = |text| one_of(text, &["idle", "best-effort"]).map(|class| class.to_string());
        assert_eq!(class(None).as_deref(), Ok("idle"));
        assert_eq!(class(Some("best-effort")).as_deref(), Ok("best-effort"));
        assert_eq!(class(Some("realtime")), Err("write idle or best-effort".to_owned()));
    }
}
