//! Splits a statement into tokens, as SQLite does (`src/tokenize.c`). Spaces and comments are not tokens.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A keyword or a name.
    Word(&'t [u8]),
    /// A name, including its backticks or square brackets.
    Quoted(&'t [u8]),
    /// A name, including its double quotes; SQLite can treat it as text.
    DoubleQuoted(&'t [u8]),
    /// A number, text, blob or parameter, or possibly the start of one.
    Value,
    /// One or two characters of another kind, such as an operator.
    Sign(&'t [u8]),
}

#[derive(Clone, Debug)]
pub(super) struct Tokens<'t> {
    text: &'t [u8],
    at: usize,
    is_cut: bool,
}

impl<'t> Tokens<'t> {
    /// `is_cut` means that the statement is truncated. If so, a word at the end is omitted.
    pub(super) fn new(text: &'t [u8], is_cut: bool) -> Tokens<'t> {
        Tokens { text, at: 0, is_cut }
    }

    pub(super) fn with_places(mut self) -> impl Iterator<Item = (Token<'t>, Range<usize>)> {
        std::iter::from_fn(move || {
            let (token, start) = self.step()?;
            Some((token, start..self.at))
        })
    }

    /// Returns the next token and its start offset in the text.
    fn step(&mut self) -> Option<(Token<'t>, usize)> {
        self.skip_spaces();
        let (start, rest) = (self.at, &self.text[self.at..]);
        let (kind, length) = token(rest)?;
        self.at += length;
        let bytes = &rest[..length];
        let is_last = self.at == self.text.len();
        let token = match kind {
            Shape::Word if is_last && self.is_cut => return None,
            Shape::Word => Token::Word(bytes),
            Shape::Quoted => Token::Quoted(bytes),
            Shape::DoubleQuoted => Token::DoubleQuoted(bytes),
            Shape::Value => Token::Value,
            Shape::Sign => Token::Sign(bytes),
        };
        Some((token, start))
    }

    fn skip_spaces(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            self.at += match rest {
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0 => 1,
                [b'-', b'-', ..] => length_until(rest, |byte| byte == b'\n'),
                [b'/', b'*', inside @ ..] => {
                    inside.windows(2).position(|end| end == b"*/").map_or(rest.len(), |at| at + 4)
                }
                // Skip a byte order mark.
                [0xef, 0xbb, 0xbf, ..] if self.at == 0 => 3,
                _ => return,
            };
        }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        self.step().map(|(token, _)| token)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Word,
    Quoted,
    DoubleQuoted,
    Value,
    Sign,
}

/// Returns the kind and the length of the token at the beginning of `text`.
fn token(text: &[u8]) -> Option<(Shape, usize)> {
    let value = |length| (Shape::Value, length);
    Some(match text {
        [] => return None,
        [b'x' | b'X', b'\'', ..] => value(1 + quoted(&text[1..]).0),
        [b'\'', ..] => value(quoted(text).0),
        // A name without its closing quote could also be a value.
        [b'"', ..] => or_value(quoted(text), Shape::DoubleQuoted),
        [b'`', ..] => or_value(quoted(text), Shape::Quoted),
        [b'[', ..] => {
            let length = length_until(text, |byte| byte == b']');
            if length < text.len() { (Shape::Quoted, length + 1) } else { value(length) }
        }
        [b'.', digit, ..] | [digit, ..] if digit.is_ascii_digit() => value(number(text)),
        [b'?', rest @ ..] => value(1 + length_until(rest, |byte| !byte.is_ascii_digit())),
        [b':' | b'@' | b'#' | b'$', rest @ ..] => value(1 + parameter(rest)),
        [first, ..] if is_of_word(*first) => (Shape::Word, length_until(text, |byte| !is_of_word(byte))),
        [b'|', b'|', ..] | [b'<', b'<' | b'=' | b'>', ..] | [b'>', b'>' | b'=', ..] => (Shape::Sign, 2),
        [b'=' | b'!', b'=', ..] => (Shape::Sign, 2),
        [b'-', b'>', b'>', ..] => (Shape::Sign, 3),
        [b'-', b'>', ..] => (Shape::Sign, 2),
        _ => (Shape::Sign, 1),
    })
}

fn or_value((length, is_closed): (usize, bool), shape: Shape) -> (Shape, usize) {
    (if is_closed { shape } else { Shape::Value }, length)
}

/// Returns the number of bytes before the first byte that `is_end` accepts, or the number of all bytes if
/// there is none.
fn length_until(text: &[u8], is_end: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| is_end(*byte)).unwrap_or(text.len())
}

/// Returns the length of a quoted text, and whether the closing quote exists. Quotes within the text are
/// doubled.
fn quoted(text: &[u8]) -> (usize, bool) {
    let mark = text[0];
    let mut at = 1;
    loop {
        at += length_until(&text[at..], |byte| byte == mark);
        match (text.get(at), text.get(at + 1)) {
            (None, _) => return (at, false),
            (Some(_), Some(next)) if *next == mark => at += 2,
            (Some(_), _) => return (at + 1, true),
        }
    }
}

/// Returns the length of a number, including all directly following letters and digits.
fn number(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += length_until(&text[at..], |byte| !(is_of_word(byte) || byte == b'.'));
        let is_exponent = at > 0 && matches!(text[at - 1], b'e' | b'E') && !text.starts_with(b"0x");
        let is_signed = matches!(text.get(at), Some(b'+' | b'-'));
        if !(is_exponent && is_signed && text.get(at + 1).is_some_and(u8::is_ascii_digit)) {
            return at;
        }
        at += 1;
    }
}

/// Returns the length of a parameter's name. Tcl's parameter names can have the form `$a::b(c)`.
fn parameter(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += length_until(&text[at..], |byte| !is_of_word(byte));
        match &text[at..] {
            [b':', b':', ..] => at += 2,
            _ => return at,
        }
    }
}

/// Returns whether this byte may occur in a name. Every byte outside ASCII is allowed.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}
