//! Formats wall-clock times for people (in the machine's time zone), for file names and for programs.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::summary::UnixSeconds;

/// Formats a time as `2026-11-24T02-13-05Z`, which sorts by time and is valid in file names everywhere.
pub fn in_file_name(at: UnixSeconds) -> String {
    formatted(at, TimeZone::UTC, "%Y-%m-%dT%H-%M-%SZ")
}

/// Formats a time as `2026-11-24 02:13:05` in the machine's time zone.
pub fn shown(at: UnixSeconds) -> String {
    formatted(at, TimeZone::system(), "%F %T")
}

/// Formats a time as `2026-11-24T02:13:05Z`, for programs.
pub fn rfc3339(at: UnixSeconds) -> String {
    formatted(at, TimeZone::UTC, "%Y-%m-%dT%H:%M:%SZ")
}

/// Formats the day of a time as `2026-11-24` in the machine's time zone.
pub fn day(at: UnixSeconds) -> String {
    formatted(at, TimeZone::system(), "%F")
}

/// Formats the day of a time as `2026-11-24` in UTC.
pub fn utc_day(at: UnixSeconds) -> String {
    formatted(at, TimeZone::UTC, "%F")
}

/// Returns the day of the week of a time in the machine's time zone: 0 for Monday.
pub fn day_of_week(at: UnixSeconds) -> usize {
    let day = Timestamp::from_second(at).map(|at| at.to_zoned(TimeZone::system()).weekday());
    day.map_or(0, |day| usize::from(day.to_monday_zero_offset().unsigned_abs()))
}

/// Parses a time in the machine's time zone, such as `2026-11-24T02:13:05`.
pub fn parse_local(text: &str) -> Option<UnixSeconds> {
    let time: jiff::civil::DateTime = text.parse().ok()?;
    Some(time.to_zoned(TimeZone::system()).ok()?.timestamp().as_second())
}

/// Returns the machine's local time in seconds since 1970, computed as if the local time were UTC.
pub fn on_clock(at: UnixSeconds) -> i64 {
    let offset = Timestamp::from_second(at).map(|instant| TimeZone::system().to_offset(instant).seconds());
    at.saturating_add(offset.unwrap_or(0).into())
}

fn formatted(at: UnixSeconds, zone: TimeZone, format: &str) -> String {
    // The calendar ends in the year 9999; later times are shown in seconds.
    let time = Timestamp::from_second(at).map(|at| at.to_zoned(zone));
    time.map_or_else(|_| format!("{at} s"), |time| time.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (at, expected) in [
            (0, "1970-01-01T00-00-00Z"),
            (-1, "1969-12-31T23-59-59Z"),
            (951_782_400, "2000-02-29T00-00-00Z"),
            (i64::MAX, "9223372036854775807 s"),
        ] {
            assert_eq!(in_file_name(at), expected);
        }
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(shown(951_782_400).len(), "2000-02-29 00:00:00".len());
    }
}
