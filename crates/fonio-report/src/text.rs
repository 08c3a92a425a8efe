//! Makes untrusted text safe for a terminal, and fits text to a width.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// Removes control characters from `text`, because a thread's name must not move the cursor or change the colour.
///
/// Tab and newline become a space; others become their code, as `\x1b`. Directional overrides also count as control
/// characters, because they reorder their neighbours.
pub fn printable(text: &str) -> Cow<'_, str> {
    let foreign = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(foreign) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            c if foreign(c) => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Number of terminal columns of `text`.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Words that belong to the preceding number, such as units.
const UNITS: [&str; 17] = [
    "ns", "µs", "us", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "B/s", "KiB/s", "MiB/s", "GiB/s",
    "°C",
];

/// Breaks `text` between words into lines of at most `columns`. A longer word gets its own line, and a number keeps its
/// unit.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines = vec![String::new()];
    for word in &words {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if width(line) + 1 + width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.clone());
        }
    }
    lines
}

/// Shortens `text` to at most `columns` by replacing its end with `ellipsis`.
pub fn cut(text: &str, columns: usize, ellipsis: char) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut kept, mut kept_width) = (String::new(), 0);
    for c in text.chars() {
        kept_width += width(c.encode_utf8(&mut [0; 4]));
        if kept_width >= columns {
            break;
        }
        kept.push(c);
    }
    kept.push(ellipsis);
    kept
}

/// Shortens `text` to at most `columns` by replacing its middle with `ellipsis`, because names differ at both ends. Of a
/// path, three quarters of the rest are its end, because the file's name says most.
pub fn shorten(text: &str, columns: usize, ellipsis: char) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let keep = columns.saturating_sub(1);
    let head_most = if text.starts_with('/') { keep / 4 } else { keep / 2 };
    let (mut head, mut head_width) = (String::new(), 0);
    for c in text.chars() {
        let w = width(c.encode_utf8(&mut [0; 4]));
        if head_width + w > head_most {
            break;
        }
        head.push(c);
        head_width += w;
    }
    let (mut tail, mut tail_width) = (Vec::new(), 0);
    for c in text.chars().rev() {
        let w = width(c.encode_utf8(&mut [0; 4]));
        if head_width + tail_width + w > keep {
            break;
        }
        tail.push(c);
        tail_width += w;
    }
    head.push(ellipsis);
    head.extend(tail.into_iter().rev());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(printable("sqlite3"), "sqlite3");
        assert_eq!(printable("a\x1b[31mb\tc\u{202e}d"), "a\\x1b[31mb c\\x202ed");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("immeasurable", 4), ["immeasurable"]);
        assert_eq!(wrap("in 1.83 ms, or 4 more", 8), ["in", "1.83 ms,", "or 4", "more"]);
    }

    #[test]
    fn long_sentences_lose_their_end() {
        assert_eq!(cut("INSERT INTO t", 13, '…'), "INSERT INTO t");
        assert_eq!(cut("INSERT INTO t", 8, '…'), "INSERT …");
        assert_eq!(cut("日本語", 5, '…'), "日本…");
        assert_eq!(cut("日本語", 4, '…'), "日…");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("/var/lib/app/data.db", 11, '…'), "/v…/data.db");
        assert_eq!(shorten("日本語のファイル", 7, '…'), "日…イル");
        assert_eq!(shorten("short", 11, '…'), "short");
    }
}
