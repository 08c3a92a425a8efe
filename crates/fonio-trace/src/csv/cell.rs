//! Reads the value of a table cell.

use fonio_core::{ByteCount, DeviceId, Flags, Op, Timestamp, parse_rwbs};

use super::mapping::{OpWords, SizeUnit, TimeUnit};

/// Time between the epochs of Windows (1601) and Unix (1970), in units of 100 ns.
const FILE_TIME_UNIX_EPOCH: u64 = 116_444_736_000_000_000;

/// Reads `digits[.digits][e[+-]digits]`, or `0x` with hexadecimal digits, multiplied by `unit`; fractions of
/// the result are cut off. Returns `None` for any other text, and for results beyond 64 bits.
pub(crate) fn decimal(text: &[u8], unit: u64) -> Option<u64> {
    if let Some(whole) = whole(text) {
        return whole.checked_mul(unit);
    }
    if let Some(hex) = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        let value = u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
        return value.checked_mul(unit);
    }
    let (mut mantissa, mut exponent, mut digits, mut point) = (0_u128, 0_i32, 0, false);
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                // Twenty-five digits are enough for a 64-bit number and five more digits for the unit; later
                // digits cannot change the result.
                if mantissa < 10_u128.pow(25) {
                    mantissa = mantissa * 10 + u128::from(byte - b'0');
                    exponent -= i32::from(point);
                } else {
                    exponent = exponent.checked_add(i32::from(!point))?;
                }
            }
            b'.' if !point => point = true,
            b'e' | b'E' if digits > 0 => {
                let power: i32 = std::str::from_utf8(tail).ok()?.parse().ok()?;
                exponent = exponent.checked_add(power)?;
                break;
            }
            _ => return None,
        }
        rest = tail;
    }
    if digits == 0 {
        return None;
    }
    scaled_short(mantissa, exponent, unit).or_else(|| scaled(mantissa, exponent, unit))
}

/// Reads a number of at most 18 digits, as most cells have.
#[inline]
fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Computes [`scaled`] of numbers that fit into 64 bits, as nearly all do: divisions of 128 bits are much slower.
fn scaled_short(mantissa: u128, exponent: i32, unit: u64) -> Option<u64> {
    let value = u64::try_from(mantissa).ok()?.checked_mul(unit)?;
    let divisor = 10_u64.checked_pow((exponent <= 0).then_some(exponent.unsigned_abs())?)?;
    Some(value / divisor)
}

/// Computes `mantissa` × 10^`exponent` × `unit`, without the fraction; `None` if it has more than 64 bits.
fn scaled(mantissa: u128, exponent: i32, unit: u64) -> Option<u64> {
    let mut value = mantissa.checked_mul(u128::from(unit))?;
    if value == 0 {
        return Some(0);
    }
    for _ in 0..exponent.max(0) {
        value = value.checked_mul(10)?;
    }
    for _ in exponent..0 {
        value /= 10;
        if value == 0 {
            break;
        }
    }
    u64::try_from(value).ok()
}

/// Returns whether a cell stands for a missing value.
pub(super) fn absent(text: &[u8]) -> bool {
    text.is_empty()
        || [b"-".as_slice(), b"na", b"n/a", b"nan", b"null", b"none"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}

/// Reads a timestamp.
pub(super) fn time(text: &[u8], unit: TimeUnit) -> Option<Timestamp> {
    match unit {
        TimeUnit::FileTime => {
            let since_1970 = decimal(text, 1)?.checked_sub(FILE_TIME_UNIX_EPOCH)?;
            since_1970.checked_mul(100).map(Timestamp)
        }
        _ => decimal(text, unit.nanos()).map(Timestamp),
    }
}

/// Reads an offset or a size, and converts it to bytes.
pub(super) fn bytes(text: &[u8], unit: SizeUnit) -> Option<ByteCount> {
    decimal(text, unit.bytes()).map(ByteCount)
}

/// Returns the op and the flags of the request, and the set of flags that the op words `words` can express.
pub(super) fn op(text: &[u8], words: OpWords) -> Option<(Op, Flags, Flags)> {
    let plain = |op| Some((op, Flags::NONE, Flags::NONE));
    match (words, text) {
        (OpWords::Rwbs, b"") => None,
        (OpWords::Rwbs, _) => {
            let (op, flags) = parse_rwbs(text);
            Some((op, flags, Flags::KNOWN_FROM_RWBS))
        }
        (OpWords::ZeroIsRead, b"0") | (OpWords::OneIsRead, b"1") => plain(Op::Read),
        (OpWords::ZeroIsRead, b"1") | (OpWords::OneIsRead, b"0") => plain(Op::Write),
        (OpWords::ZeroIsRead | OpWords::OneIsRead, _) => None,
        (OpWords::Scsi, _) => {
            let text = std::str::from_utf8(text).ok()?;
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            plain(scsi(u8::from_str_radix(digits, 16).ok()?))
        }
        (OpWords::Words, _) => {
            let word = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
            plain(match word.as_str() {
                "r" | "rd" => Op::Read,
                "w" | "wr" => Op::Write,
                "d" | "trim" | "unmap" => Op::Discard,
                "f" | "fsync" | "sync" => Op::Flush,
                word => Op::from_name(word)?,
            })
        }
    }
}

/// Returns what a SCSI command does, by its operation code (SCSI Block Commands 4, table 32).
pub(crate) fn scsi(code: u8) -> Op {
    match code {
        // READ (6), (10), (12) and (16).
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        // WRITE, and WRITE AND VERIFY.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
        // WRITE SAME.
        0x41 | 0x93 => Op::WriteZeroes,
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Op::Flush,
        // UNMAP.
        0x42 => Op::Discard,
        _ => Op::Other,
    }
}

/// Reads a device number: `8,0`, `8:0`, or a plain number as a minor number with major 0.
pub(crate) fn device(text: &[u8]) -> Option<DeviceId> {
    let text = std::str::from_utf8(text).ok()?;
    let (major, minor) = text.split_once([',', ':']).unwrap_or(("0", text));
    let (major, minor) = (major.trim().parse().ok()?, minor.trim().parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then(|| DeviceId::new(major, minor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        // Each line is a number and the size of its unit.
        let number = |line: &str| {
            let (text, unit) = line.rsplit_once(' ').expect("two words");
            let number = decimal(text.as_bytes(), unit.parse().expect("a number"));
            number.map_or("-".to_owned(), |number| number.to_string())
        };
        let file = expect_test::expect_file!["numbers.txt"];
        file.assert_eq(&fonio_testing::cases::lines(&file.data(), number));
    }

    proptest! {
        #[test]
        fn nanoseconds_survive_as_seconds(nanos in any::<u64>()) {
            let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
            prop_assert_eq!(decimal(text.as_bytes(), 1_000_000_000), Some(nanos));
        }

        #[test]
        fn short_numbers_are_the_same(
            mantissa in prop_oneof![0..10_000_u128, any::<u64>().prop_map(u128::from), 0..10_u128.pow(26)],
            exponent in -30..30_i32,
            unit in prop_oneof![Just(1), Just(512), Just(1000), Just(1_000_000_000), any::<u64>()],
        ) {
            if let Some(short) = scaled_short(mantissa, exponent, unit) {
                prop_assert_eq!(Some(short), scaled(mantissa, exponent, unit));
            }
        }
    }

    #[test]
    fn file_time() {
        // 2007-02-22 17:00:00.3061629 UTC, the first line of the MSR Cambridge trace hm_0.
        let time = time(b"128166372003061629", TimeUnit::FileTime).expect("it is after 1970");
        assert_eq!(time.0, 1_172_163_600_306_162_900);
        assert_eq!(super::time(b"1", TimeUnit::FileTime), None);
    }

    #[test]
    fn devices() {
        assert_eq!(device(b"8,1"), Some(DeviceId::new(8, 1)));
        assert_eq!(device(b"259:0"), Some(DeviceId::new(259, 0)));
        assert_eq!(device(b"3"), Some(DeviceId::new(0, 3)));
        assert_eq!(device(b"sda"), None);
        assert_eq!(device(b"9999,0"), None);
    }

    #[test]
    fn ops() {
        let op = |text: &str, words| super::op(text.as_bytes(), words).map(|(op, _, _)| op);
        assert_eq!(op("Read", OpWords::Words), Some(Op::Read));
        assert_eq!(op("W", OpWords::Words), Some(Op::Write));
        assert_eq!(op("write_zeroes", OpWords::Words), Some(Op::WriteZeroes));
        assert_eq!(op("0", OpWords::Words), None);
        assert_eq!(op("0", OpWords::OneIsRead), Some(Op::Write));
        assert_eq!(op("FWFS", OpWords::Rwbs), Some(Op::Write));
        for (code, expected) in [
            ("28", Some(Op::Read)),
            ("0x8A", Some(Op::Write)),
            ("35", Some(Op::Flush)),
            ("42", Some(Op::Discard)),
            ("0x12", Some(Op::Other)),
            ("write", None),
            ("128", None),
        ] {
            assert_eq!(op(code, OpWords::Scsi), expected, "{code}");
        }
    }
}
