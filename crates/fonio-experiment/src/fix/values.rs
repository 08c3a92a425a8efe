//! Reads the values of fixes, such as the size in `read-ahead=1MiB`.

use std::ops::RangeInclusive;

use fonio_core::ByteCount;
use fonio_core::quantity::{parse_bytes, parse_duration};
use fonio_host::{HOT_RANGE_MIN, IoClass, Setting};

/// The setting of a fix without a value.
pub(super) fn fixed(setting: Setting, value: Option<&str>) -> Result<Setting, String> {
    match value {
        None => Ok(setting),
        Some(_) => Err("it takes no value".to_owned()),
    }
}

/// The largest size that a setting takes: more than any device needs.
const SIZE_MAX: u64 = 64 << 30;

/// A size in steps of `step`, which is also the least.
pub(super) fn size(value: Option<&str>, default: u64, step: u64) -> Result<ByteCount, String> {
    let bytes = value.map_or(Ok(default), |text| parse_bytes(text).map_err(|error| error.to_string()))?;
    if bytes < step || bytes % step > 0 {
        return Err(format!("write a multiple of {}", ByteCount(step).to_exact_text()));
    }
    if bytes > SIZE_MAX {
        return Err(format!("write at most {}", ByteCount(SIZE_MAX).to_exact_text()));
    }
    Ok(ByteCount(bytes))
}

/// The size of the image for a folder; without a value, the fix is refused on each folder.
pub(super) fn hot_range(value: Option<&str>) -> Result<Setting, String> {
    let size = value.map(|_| size(value, 0, 1 << 20)).transpose()?;
    if size.is_some_and(|size| size < HOT_RANGE_MIN) {
        return Err(format!(
            "write at least {}, of which 4 MiB are the journal",
            HOT_RANGE_MIN.to_exact_text()
        ));
    }
    Ok(Setting::HotRange { size, despite_writers: false })
}

pub(super) fn number(value: Option<&str>, default: u32, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = value.map_or(Some(default), |text| text.parse().ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
}

/// A time in whole seconds. As systemd does, it takes `m` for minutes.
pub(super) fn seconds(value: Option<&str>, default: u32, range: RangeInclusive<u32>) -> Result<u32, String> {
    let Some(text) = value else { return Ok(default) };
    let minutes = text.strip_suffix('m').filter(|digits| digits.parse::<u32>().is_ok());
    let text = minutes.map_or(text.to_owned(), |digits| format!("{digits}min"));
    let time = parse_duration(&text).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(time.as_secs()).ok().filter(|_| time.subsec_nanos() == 0);
    seconds
        .filter(|seconds| range.contains(seconds))
        .ok_or_else(|| format!("write a time in whole seconds from {}s to {}s", range.start(), range.end()))
}

/// A class of I/O by its name.
pub(super) fn class(value: Option<&str>) -> Result<IoClass, String> {
    let Some(text) = value else { return Ok(IoClass::Idle) };
    let known = IoClass::ALL.into_iter().find(|class| class.name() == text);
    known.ok_or_else(|| format!("write {}", IoClass::ALL.map(IoClass::name).join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_others_refused_with_the_reason() {
        assert_eq!(seconds(None, 30, 1..=60), Ok(30));
        for text in ["1m", "1min", "60s"] {
            assert_eq!(seconds(Some(text), 30, 1..=60), Ok(60));
        }
        for wrong in ["2m", "0s", "500ms"] {
            assert_eq!(
                seconds(Some(wrong), 30, 1..=60),
                Err("write a time in whole seconds from 1s to 60s".to_owned())
            );
        }
        assert_eq!(class(None), Ok(IoClass::Idle));
        assert_eq!(class(Some("best-effort")), Ok(IoClass::BestEffort));
        assert_eq!(class(Some("realtime")), Err("write idle or best-effort".to_owned()));
    }
}
