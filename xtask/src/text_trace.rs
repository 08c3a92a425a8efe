//! Makes long text traces for benchmarks of short ones.

/// Returns a line whose time is later by this many seconds; `None` if the line has no time. The time is the first word with
/// digits, a point, and at least three digits.
pub fn later(line: &str, seconds: u64) -> Option<String> {
    let is_digits =
        |text: &str, least: usize| text.len() >= least && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut place = 0;
    for word in line.split(' ') {
        if let Some((whole, rest)) = word.split_once('.')
            && is_digits(whole, 1)
            && is_digits(rest.trim_end_matches(':'), 3)
        {
            let sum = whole.parse::<u64>().ok()? + seconds;
            return Some(format!("{}{sum}{}", &line[..place], &line[place + whole.len()..]));
        }
        place += word.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_moved_in_its_place() {
        for (line, expected) in [
            (
                "  8,0    1        1     0.000001234  1914  Q  WS 8 + 8 [a]",
                "  8,0    1        1     100.000001234  1914  Q  WS 8 + 8 [a]",
            ),
            ("dd 774 [000] 81688.464406607:   block:x", "dd 774 [000] 81788.464406607:   block:x"),
            ("a-30 [000] ..... 1.000000: block_rq_issue", "a-30 [000] ..... 101.000000: block_rq_issue"),
        ] {
            assert_eq!(later(line, 100).as_deref(), Some(expected));
        }
        assert_eq!(later("# tracer: nop", 100), None);
        assert_eq!(later("Total (8,0): 1.5", 100), None);
    }
}
