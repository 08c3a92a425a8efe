//! Recognises sentences of fonio: verdicts, and reasons why a figure was not measured. They consist of a small
//! vocabulary (`data/texts/words.txt`), and of short numbers with a unit or with the name of what is counted. A
//! number without a unit could be the number of a person, a room or a machine.

use std::collections::HashSet;
use std::sync::LazyLock;

static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/texts/words.txt").lines();
    lines.filter(|line| !line.starts_with("# ")).flat_map(str::split_whitespace).collect()
});

/// The words that can follow a number in a sentence of fonio.
const AFTER_NUMBERS: &str = "MB/s B KiB MiB GiB TiB KiB/s MiB/s GiB/s µs ms ns s min h % × times of models writes reads \
    regions figures more weak files apps cycles seconds samples requests runs IOPS failed points classes parts tests \
    bytes places";

/// The word that precedes a number without a unit: `os error 28`.
const BEFORE_NUMBER: &str = "error";

/// Maximum number of digits before and after the point, if no commas group the digits.
const DIGITS_MAX: usize = 6;

/// Returns whether a sentence consists only of fonio's own words, and of short numbers with units.
pub(super) fn is_own(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split(' ').filter(|word| !word.is_empty()).map(bare).collect();
    words.iter().enumerate().all(|(at, word)| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        if is_number(word, next) {
            let is_code = at > 0 && words[at - 1] == BEFORE_NUMBER && word.len() <= 3;
            AFTER_NUMBERS.split(' ').any(|unit| unit == next) || is_code
        } else {
            is_word(word)
        }
    })
}

/// Returns a word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(['(', ')', '`', ',', ';', ':', '.', '!', '?'])
}

fn is_number(word: &str, next: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The second number of `2 min 05 s` has a leading zero; any other such number is not a number of fonio.
    let leads = |text: &str| {
        !text.starts_with('0') || text == "0" || (text.len() == 2 && matches!(next, "s" | "min"))
    };
    if let Some((first, groups)) = word.split_once(',') {
        let groups: Vec<&str> = groups.split(',').collect();
        return digits(first)
            && first.len() <= 3
            && leads(first)
            && groups.len() <= 2
            && groups.iter().all(|group| digits(group) && group.len() == 3);
    }
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let is_short = |text: &str| digits(text) && text.len() <= DIGITS_MAX;
    is_short(whole) && is_short(fraction) && leads(whole)
}

fn is_word(word: &str) -> bool {
    let mut letters = word.trim_start_matches("--").chars();
    let lower: String =
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default();
    WORDS.contains(word)
        || WORDS.contains(lower.as_str())
        || AFTER_NUMBERS.split(' ').any(|unit| unit == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sentences_have_known_words_and_short_numbers_with_units() {
        for (sentence, expected) in [
            ("Random writes are the weak point: 2.9 MB/s.", true),
            ("The slowest random reads, 72.1 µs, better than 5 % of 19 models of flash devices", true),
            ("1,049 MB/s of 12,345,678 writes", true),
            ("it took 2 min 05 s", true),
            ("its writes would exceed the --max-write limit", true),
            ("this part needs 4096 MiB of free space, but only 12 MiB are free", true),
            ("cannot reserve the space (No space left on device (os error 28))", true),
            ("", true),
            ("Random writes of Anna are the weak point: 2.9 MB/s.", false),
            ("562632", false),
            ("the device 562632 is slow", false),
            ("write to 12345678", false),
            ("write 030 123 456", false),
            ("write 30 123 456", false),
            ("05 writes", false),
            ("2,9,1,7 writes", false),
            ("12345678 writes", false),
            ("the device of YW5uYQ==", false),
            ("writes\u{a0}anna", false),
        ] {
            assert_eq!(is_own(sentence), expected, "{sentence}");
        }
    }
}
