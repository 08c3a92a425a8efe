//! Writes the time of day for people, in the machine's time zone.

use crate::summary::UnixSeconds;

/// `2026-11-24T02-13-05Z`, which sorts by time and is a file name everywhere.
pub fn in_file_name(at: UnixSeconds) -> String {
    let (date, time) = utc(at);
    format!("{date}T{}Z", time.replace(':', "-"))
}

/// The date and the time in UTC.
fn utc(at: UnixSeconds) -> (String, String) {
    let (days, seconds) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    (format!("{year:04}-{month:02}-{day:02}"), time)
}

/// The date of a day since 1970-01-01 in the Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
            (1_790_215_985, "2026-09-24T02-13-05Z"),
            (4_107_542_400, "2100-03-01T00-00-00Z"),
        ] {
            assert_eq!(in_file_name(at), expected);
        }
    }
}
