//! Recognises sentences of fonio: verdicts, and reasons why a figure was not measured. They consist of a small
//! vocabulary (`data/texts/words.txt`), and of numbers that are too short to be the number of a person or a
//! device.

use std::collections::HashSet;
use std::sync::LazyLock;

static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/texts/words.txt").lines();
    lines.filter(|line| !line.starts_with("# ")).flat_map(str::split_whitespace).collect()
});

/// Maximum number of digits before and after the point. A sentence can contain a number of MiB or of IOPS.
const DIGITS_MAX: usize = 7;

/// Returns whether a sentence consists only of fonio's own words and of short numbers.
pub(super) fn is_own(sentence: &str) -> bool {
    let mut last_was_number = false;
    sentence.split(' ').filter(|word| !word.is_empty()).all(|word| {
        // A dash with spaces around it, or a percent sign, stands alone.
        let bare = word.trim_matches(['(', ')', '`', ',', ';', ':', '.', '!', '?']);
        // A comma may only follow a word: `1,2,3` is not a number of fonio.
        let is_plain = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./%-_".contains(&byte));
        let number = is_number(bare);
        // Two numbers in a row could be the groups of a telephone number.
        let is_allowed = is_plain && if number { !last_was_number } else { is_word(bare) };
        last_was_number = number;
        is_allowed
    })
}

fn is_number(word: &str) -> bool {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let is_short = |digits: &str| {
        (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    // A number with a leading zero is a telephone number or a serial number.
    is_short(whole) && is_short(fraction) && (whole == "0" || !whole.starts_with('0'))
}

fn is_word(word: &str) -> bool {
    let mut letters = word.chars();
    let lower: String =
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default();
    WORDS.contains(word) || WORDS.contains(lower.trim_start_matches("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sentences_have_known_words_and_short_numbers() {
        for (sentence, expected) in [
            ("Random writes are the weak point: 2.9 MB/s.", true),
            ("its writes would exceed the --max-write limit", true),
            ("this part needs 4096 MiB of free space, but only 12 MiB are free", true),
            ("the rate did not fall within 1024 MiB", true),
            ("a device is only read unless --erase allows overwriting it", true),
            ("", true),
            ("Random writes of Anna are the weak point: 2.9 MB/s.", false),
            ("write to 12345678", false),
            ("write 030 123 456", false),
            ("write 30 123 456", false),
            ("2,9,1,7", false),
            ("the device of YW5uYQ==", false),
            ("writes\u{a0}anna", false),
        ] {
            assert_eq!(is_own(sentence), expected, "{sentence}");
        }
    }
}
