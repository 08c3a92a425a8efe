//! Fits text to a width.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fonio_core::printable_line;
use unicode_width::UnicodeWidthStr;

/// Returns the number of terminal columns that `text` occupies.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Words that stay on the same line as the preceding number, such as units.
const UNITS: [&str; 17] = [
    "ns", "µs", "us", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "B/s", "KiB/s", "MiB/s", "GiB/s",
    "°C",
];

/// Returns whether `word` is the unit of a number at the end of `before`.
fn is_unit(before: &str, word: &str) -> bool {
    before.ends_with(|c: char| c.is_ascii_digit())
        && UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')']))
}

/// Breaks `text` between words into lines of at most `columns`. A word that is longer gets its own line,
/// and a number stays on the same line as its unit.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_unit(last, word) => {
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

/// Shortens `text` to at most `columns`: `ellipsis` replaces the middle, because names differ at both ends.
/// For a path, three quarters of the kept text come from its end, because the file name matters most.
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

/// Shortens texts to at most `columns` so that different texts stay different: where [`shorten`] or [`cut`]
/// (`keeps_start`) would make texts equal, the part in which they differ is kept.
pub fn shorten_all(texts: &[&str], columns: usize, ellipsis: char, keeps_start: bool) -> Vec<String> {
    let fit = |text: &str| match keeps_start {
        true => cut(text, columns, ellipsis),
        false => shorten(text, columns, ellipsis),
    };
    let mut short: Vec<String> = texts.iter().map(|text| fit(text)).collect();
    // Texts that differ early can become equal to others that differ later.
    for _ in 0..ROUNDS_MAX {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, text) in short.iter().enumerate() {
            groups.entry(text).or_default().push(at);
        }
        let mut apart: Vec<(usize, String)> = Vec::new();
        for group in groups.values() {
            let first = texts[group[0]];
            let begins = group.iter().filter_map(|at| first_difference(first, texts[*at]));
            if let Some(begin) = begins.min() {
                apart.extend(group.iter().map(|at| (*at, around(texts[*at], begin, columns, ellipsis))));
            }
        }
        if apart.is_empty() {
            break;
        }
        apart.into_iter().for_each(|(at, text)| short[at] = text);
    }
    short
}

/// Maximum number of attempts to keep texts different.
const ROUNDS_MAX: usize = 4;

/// Returns the number of characters before the first difference; `None` if the texts are equal.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    (one != other).then_some(same)
}

/// Shortens a text to at most `columns`: it keeps a quarter at its start, and as much as possible from shortly
/// before the character `begin` on.
fn around(text: &str, begin: usize, columns: usize, ellipsis: char) -> String {
    /// Characters of the equal part that stay before the difference.
    const BEFORE: usize = 3;
    if width(text) <= columns {
        return text.to_owned();
    }
    let head: String = text.chars().take(begin.saturating_sub(BEFORE).min(columns / 4)).collect();
    let from = begin.saturating_sub(BEFORE);
    let rest: String = text.chars().skip(from).collect();
    let left_out = if from > head.chars().count() { ellipsis.to_string() } else { String::new() };
    let room = columns.saturating_sub(width(&head) + width(&left_out));
    head + &left_out + &cut(&rest, room, ellipsis)
}

/// A writer that wraps lines to a width. Longer lines are wrapped between words and continue below their last
/// column. Characters that could command the terminal are escaped ([`printable_line`]).
#[derive(Debug)]
pub struct Fitted<W> {
    out: W,
    columns: usize,
    /// The start of a line that is not complete yet.
    begun: Vec<u8>,
}

impl<W: Write> Fitted<W> {
    /// Creates a writer whose lines have at most `columns` columns.
    pub fn new(out: W, columns: usize) -> Fitted<W> {
        Fitted { out, columns, begun: Vec::new() }
    }
}

impl<W: Write> Write for Fitted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.begun.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        self.begun.extend_from_slice(&bytes[..end]);
        let line = String::from_utf8_lossy(&self.begun).into_owned();
        self.begun.clear();
        for line in fitted(&printable_line(&line), self.columns) {
            writeln!(self.out, "{line}")?;
        }
        Ok(end + 1)
    }

    /// Flushes the complete lines; an incomplete line is kept.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A word of a line: the width of the blanks before it, and its text with escape sequences.
struct Word<'a> {
    gap: usize,
    text: &'a str,
}

/// Splits a line into words at blanks. A number and its unit stay together.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let text = rest.trim_start_matches(' ');
        let gap = rest.len() - text.len();
        let end = text.find(' ').unwrap_or(text.len());
        rest = &text[end..];
        match words.last_mut() {
            Some(last) if gap == 1 && is_unit(last.text, &text[..end]) => {
                let from = line.len() - text.len() - gap - last.text.len();
                last.text = &line[from..line.len() - rest.len()];
            }
            _ => words.push(Word { gap, text: &text[..end] }),
        }
    }
    words
}

/// Returns the width of a text without its escape sequences.
fn shown_width(text: &str) -> usize {
    let mut columns = 0;
    for (at, part) in text.split('\x1b').enumerate() {
        // An escape sequence for a colour ends with the letter `m`.
        let shown = if at == 0 { part } else { part.split_once('m').map_or("", |(_, shown)| shown) };
        columns += width(shown);
    }
    columns
}

fn fitted(line: &str, columns: usize) -> Vec<String> {
    if shown_width(line) <= columns {
        return vec![line.to_owned()];
    }
    let mut words = words(line);
    // The last column starts after two blanks or more. If the last column started beyond the middle of the
    // line, it would be too narrow for wrapped text.
    let (mut at, mut hang) = (0, None);
    for (number, Word { gap, text }) in words.iter_mut().enumerate() {
        at += *gap;
        if at > columns / 2 {
            *gap = (*gap).min(2);
        } else if *gap > 1 || number == 0 {
            hang = Some(if number == 0 { at + 2 } else { at });
        }
        at += shown_width(text);
    }
    let hang = hang.unwrap_or(2).min(columns / 2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for (number, Word { gap, text }) in words.iter().enumerate() {
        let wide = shown_width(text);
        let line = lines.last_mut().expect("there is always a line");
        if number == 0 || used + gap + wide <= columns {
            line.push_str(&" ".repeat(*gap));
            used += gap + wide;
        } else {
            lines.push(" ".repeat(hang));
            used = hang + wide;
        }
        lines.last_mut().expect("there is always a line").push_str(text);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_below_their_last_column() {
        let check = |text: &str, columns: usize, expected: &[&str]| {
            let mut out = Vec::new();
            // Write in fragments, as `writeln!` does.
            let mut fitted = Fitted::new(&mut out, columns);
            for piece in text.as_bytes().chunks(3) {
                fitted.write_all(piece).expect("memory takes it");
            }
            let out = String::from_utf8(out).expect("text");
            assert_eq!(out.lines().collect::<Vec<_>>(), expected);
        };
        check("short\n\nlines\n", 10, &["short", "", "lines"]);
        check("  name    what it does here\n", 20, &["  name    what it", "          does here"]);
        check("a sentence of several words\n", 12, &["a sentence", "  of several", "  words"]);
        check("took 12 ms and 400 s\n", 10, &["took 12 ms", "  and", "  400 s"]);
        check("\x1b[1mbold\x1b[0m text\n", 9, &["\x1b[1mbold\x1b[0m text"]);
        check("/a/path/without/any/blank\n", 10, &["/a/path/without/any/blank"]);
        check("one      two      three\n", 16, &["one  two  three"]);
    }

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        let mut out = Vec::new();
        let mut fitted = Fitted::new(&mut out, 40);
        fitted.write_all("\x1b[1mcp\x1b[2J\u{202e}\x1b[0m\n".as_bytes()).expect("memory takes it");
        assert_eq!(String::from_utf8(out).expect("text"), "\x1b[1mcp\\x1b[2J\\x202e\x1b[0m\n");
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

    #[test]
    fn different_names_stay_different() {
        let check = |texts: &[&str], columns: usize, keeps_start: bool, expected: &[&str]| {
            let short = shorten_all(texts, columns, '…', keeps_start);
            assert_eq!(short, expected);
            assert!(short.iter().all(|text| width(text) <= columns), "{short:?}");
        };
        // The usual middle is left out if the ends tell the names apart.
        check(&["/data/app/notes.db", "/data/app/order.db"], 12, false, &["/d…/notes.db", "/d…/order.db"]);
        check(
            &["/srv/runs/before/card/recording", "/srv/runs/after/card/recording", "short"],
            18,
            false,
            &["/srv…ns/before/ca…", "/srv…ns/after/car…", "short"],
        );
        check(
            &["INSERT INTO t(a) VALUES 1", "INSERT INTO t(b) VALUES 1"],
            15,
            true,
            &["INS… t(a) VALU…", "INS… t(b) VALU…"],
        );
        // Two differences, one after the other.
        check(
            &[
                "aaaaaaaaaaXbbbbbbbbbbbbbbbbbbbbYcccccccccccc",
                "aaaaaaaaaaZbbbbbbbbbbbbbbbbbbbbYcccccccccccc",
                "aaaaaaaaaaXbbbbbbbbbbbbbbbbbbbbWcccccccccccc",
            ],
            16,
            false,
            &["aaaa…bbbYcccccc…", "aaaa…aaaZbbbbbb…", "aaaa…bbbWcccccc…"],
        );
        // A text that is the beginning of another, and equal texts.
        check(&["aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaab"], 8, true, &["aa…aaa", "aa…aaab"]);
        check(&["aaaaaaaaaaaa", "aaaaaaaaaaaa"], 6, true, &["aaaaa…", "aaaaa…"]);
    }
}
