//! Escapes texts from strangers on their way out.
//!
//! Names of processes, files, devices and columns, and every text of a recording or a document, come from
//! strangers. Raw on a terminal, they can move the cursor, change the colour, forge lines, or reorder what
//! follows. Data keep these texts unchanged; each way out escapes them:
//!
//! - a name within a line of text: [`printable`];
//! - finished lines that can contain such names, as a second line of defence: [`printable_line`];
//! - JSON that is printed: [`printable_json`].
//!
//! HTML and Markdown additionally escape their own signs (`fonio-report`), and so do the labels of
//! [`prometheus`](crate::prometheus).

use std::borrow::Cow;
use std::fmt::Write;

/// The colours that fonio prints (ECMA-48, SGR): normal, bold, faint, red and green, and bold in red, green
/// and yellow.
const COLOURS: [&str; 8] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m"];

/// Returns whether a character must not be printed: control characters, signs that change the direction of
/// text, line separators, and signs that are invisible everywhere.
pub fn is_foreign(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns the beginning of a text, of at most `bytes_max` bytes.
pub fn shortened(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Escapes a name or another text that must stay within its line.
///
/// Tabs and newlines become spaces; other foreign characters become their codes, such as `\x1b`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => out.push(' '),
            c => push(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// Escapes the foreign characters of finished text, except tabs, newlines and the colours that fonio prints.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = COLOURS.iter().find(|colour| c == '\x1b' && rest.starts_with(**colour));
        let (taken, is_kept) = match colour {
            Some(colour) => (colour.len(), true),
            None => (c.len_utf8(), matches!(c, '\t' | '\n')),
        };
        if is_kept {
            out.push_str(&rest[..taken]);
        } else {
            push(&mut out, c);
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// Escapes the foreign characters of JSON; the values stay the same. In JSON, such characters occur only in
/// strings, except newlines between values.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(|c: char| is_foreign(c) && c != '\n') {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_foreign(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn push(out: &mut String, c: char) {
    if is_foreign(c) {
        let _ = write!(out, "\\x{:02x}", u32::from(c));
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that a stranger can give, each with a foreign character of another kind.
    const TEXTS: [&str; 9] = [
        "a\x1b[2Jb",
        "a\x1b]0;title\x07b",
        "a\u{9b}31mb",
        "a\u{7f}b",
        "a\rb",
        "a\u{202e}b",
        "a\u{2066}b",
        "a\u{2028}b",
        "a\u{e0041}b",
    ];

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(printable("sqlite3 größe 数据"), "sqlite3 größe 数据");
        assert_eq!(printable("a\x1b[31mb\tc\u{202e}d\ne"), "a\\x1b[31mb c\\x202ed e");
        for text in TEXTS {
            assert!(!printable(text).contains(is_foreign), "{text:?}");
        }
    }

    #[test]
    fn finished_lines_keep_the_colours_of_fonio() {
        let line = "\x1b[1mbold\x1b[0m\ttext\n";
        assert_eq!(printable_line(line), line);
        assert_eq!(printable_line("\x1b[1ma\x1b[7mb\x1b[0m"), "\x1b[1ma\\x1b[7mb\x1b[0m");
        for text in TEXTS {
            assert!(!printable_line(text).contains(is_foreign), "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_meaning() {
        for text in TEXTS {
            let json = serde_json::to_string_pretty(&[text, "plain"]).expect("it is JSON");
            let escaped = printable_json(&json);
            assert!(!escaped.contains(|c| is_foreign(c) && c != '\n'), "{escaped}");
            let again: Vec<String> = serde_json::from_str(&escaped).expect("it is JSON");
            assert_eq!(again, [text, "plain"]);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, bytes_max, expected) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("aäb", 2, "a"),
            ("aäb", 3, "aä"),
            ("äb", 1, ""),
            ("", 0, ""),
        ] {
            assert_eq!(shortened(text, bytes_max), expected, "{text} {bytes_max}");
        }
    }
}
