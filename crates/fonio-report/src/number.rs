//! How numbers are written, in every renderer alike: three significant digits and a unit that fits.

use serde::{Deserialize, Serialize};

/// What a number counts; decides its prefixes and its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds, written as ns, µs, ms, s, min or h.
    Nanos,
    /// Seconds, written likewise.
    Seconds,
    /// Bytes, written with binary prefixes.
    Bytes,
    /// Bytes per second, written with binary prefixes.
    BytesPerSecond,
    /// Things, written in full with separators.
    Count,
    /// Things per second.
    PerSecond,
    /// A share of one, written as a percentage.
    Share,
    /// How many times one thing is another, written with a ×.
    Times,
    /// Degrees Celsius.
    Celsius,
    /// A number without a unit.
    Plain,
}

impl Unit {
    /// `value` of this unit, as people read it.
    ///
    /// A value that is not finite is written as a dash: the report has no word for it, and none may occur.
    pub fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        if value < 0.0 {
            return format!("-{}", self.format(-value));
        }
        match self {
            Unit::Nanos => duration(value),
            Unit::Seconds => duration(value * 1e9),
            Unit::Bytes => binary(value, ""),
            Unit::BytesPerSecond => binary(value, "/s"),
            Unit::Count => {
                if value.fract() == 0.0 && value < 1e15 {
                    grouped(value as u64)
                } else {
                    plain(value)
                }
            }
            Unit::PerSecond => format!("{}/s", plain(value)),
            Unit::Share => percent(value),
            Unit::Times => format!("{}×", plain(value)),
            Unit::Celsius => format!("{} °C", plain(value)),
            Unit::Plain => plain(value),
        }
    }

    /// A change of this unit, with its sign.
    pub fn format_change(self, value: f64) -> String {
        if value > 0.0 { format!("+{}", self.format(value)) } else { self.format(value) }
    }
}

/// Three significant digits, without trailing zeroes.
///
/// Integers above 999 keep every digit, and separators.
fn plain(value: f64) -> String {
    if value >= 999.5 {
        return if value < 1e15 { grouped(value.round() as u64) } else { format!("{value:.2e}") };
    }
    significant(value)
}

/// `value` in `0.0..1000.0` with three significant digits, at most four decimals.
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
    // What is not all must not read as all.
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
        // 999.6 µs rounds up to 1000: the next unit says it better.
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

/// `1234567` as `1,234,567`.
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

    #[test]
    fn numbers_as_people_read_them() {
        let cases: &[(Unit, f64, &str)] = &[
            (Unit::Nanos, 0.0, "0 ns"),
            (Unit::Nanos, 999.0, "999 ns"),
            (Unit::Nanos, 999.6, "1 µs"),
            (Unit::Nanos, 1_500.0, "1.5 µs"),
            (Unit::Nanos, 12_345_678.0, "12.3 ms"),
            (Unit::Nanos, 999_600.0, "1 ms"),
            (Unit::Nanos, 999_960_000.0, "1 s"),
            (Unit::Nanos, 59.96e9, "60 s"),
            (Unit::Nanos, 119.9e9, "120 s"),
            (Unit::Nanos, 120e9, "2 min 00 s"),
            (Unit::Nanos, 6000e9, "1 h 40 min"),
            (Unit::Nanos, -12_345_678.0, "-12.3 ms"),
            (Unit::Seconds, 1.5, "1.5 s"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::Bytes, 1023.0, "1023 B"),
            (Unit::Bytes, 4096.0, "4 KiB"),
            (Unit::Bytes, 4_299_162.0, "4.1 MiB"),
            (Unit::Bytes, 1_048_300.0, "1 MiB"),
            (Unit::BytesPerSecond, 12_900_000.0, "12.3 MiB/s"),
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Count, 7.0, "7"),
            (Unit::Count, 2.345, "2.35"),
            (Unit::PerSecond, 1234.5, "1,235/s"),
            (Unit::PerSecond, 0.25, "0.25/s"),
            (Unit::Share, 0.0, "0 %"),
            (Unit::Share, 0.1234, "12.3 %"),
            (Unit::Share, 0.00001, "<0.01 %"),
            (Unit::Share, 0.9999, ">99.9 %"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Share, 1.62, "162 %"),
            (Unit::Times, 2.5, "2.5×"),
            (Unit::Plain, 0.00001, "<0.0001"),
            (Unit::Plain, f64::NAN, "–"),
        ];
        for (unit, value, expected) in cases {
            assert_eq!(unit.format(*value), *expected, "{unit:?} {value}");
        }
        assert_eq!(Unit::Nanos.format_change(1e6), "+1 ms");
        assert_eq!(Unit::Share.format_change(-0.5), "-50 %");
    }
}
