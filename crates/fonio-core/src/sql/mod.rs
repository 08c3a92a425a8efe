//! Normalises SQL statements of SQLite: removes their values.
//!
//! [`normalised`] replaces every value by `?`. This removes secrets, and statements that differ only in
//! values become equal. This module accepts any bytes, because statements come from other programs and can be
//! truncated.

mod tokens;
mod words;

use crate::untrusted::is_foreign;
use tokens::{Token, Tokens};

/// Maximum number of characters of a normalised statement, including the ellipsis of a truncated statement.
pub const TEXT_MAX: usize = 240;
const CUT: &str = "…";
/// Stands for all values of a list after the first value.
const MORE: &str = "...";

/// Returns the statement with `?` instead of its values. The result has one line, capital keywords and at
/// most [`TEXT_MAX`] characters. `is_cut` means that `text` is truncated. The last word of a truncated
/// statement is omitted, because it can be incomplete.
///
/// Values are numbers, text, blobs, parameters, `TRUE` and `FALSE`, and `NULL` where an expression can stand.
/// Several values in a row become `?, ...`; several rows of values become `(?, ...), ...`. A name in double
/// quotes is treated as a value unless it names a table, because SQLite treats it as text if no column has
/// this name. Words after the `=` of a PRAGMA are values too, except for a few harmless words, such as `WAL`.
pub fn normalised(text: &[u8], is_cut: bool) -> String {
    let mut writer = Writer::default();
    let mut tokens = Tokens::new(text, is_cut);
    let mut ahead = tokens.next();
    while let Some(token) = ahead {
        ahead = tokens.next();
        if writer.is_full() {
            break;
        }
        writer.token(&token, ahead.as_ref());
    }
    writer.finish(ahead.is_some() || is_cut)
}

/// Replaces each word of a normalised statement, except keywords, by the result of `name`.
pub fn with_names(text: &str, mut name: impl FnMut(&str) -> String) -> String {
    let mut replaced = String::new();
    let mut from = 0;
    for (token, place) in Tokens::new(text.as_bytes(), false).with_places() {
        let word = match token {
            Token::Word(word) if words::is_keyword(word) || word == CUT.as_bytes() => continue,
            Token::Word(word) | Token::Quoted(word) | Token::DoubleQuoted(word) => word,
            _ => continue,
        };
        replaced.push_str(&text[from..place.start]);
        let word = String::from_utf8_lossy(word);
        replaced.push_str(&name(word.trim_matches(['"', '`', '[', ']'])));
        from = place.end;
    }
    replaced + &text[from..]
}

/// The effect of a statement on transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The statement `BEGIN`.
    Begin,
    /// The statements `COMMIT` and `END`.
    Commit,
    /// `ROLLBACK`, except `ROLLBACK TO` a savepoint.
    Rollback,
    /// `SAVEPOINT`, which begins a transaction if no transaction is open.
    Savepoint,
    /// `RELEASE`, which commits a transaction if a savepoint began it.
    Release,
    /// A statement that does not itself change a database: `SELECT`, `EXPLAIN`, `ATTACH`, `DETACH`, `ROLLBACK
    /// TO`.
    Read,
    /// Any other statement.
    Write,
}

/// Returns the kind of a normalised statement.
pub fn kind(text: &str) -> Kind {
    match text.split([' ', '(']).next().unwrap_or_default() {
        "BEGIN" => Kind::Begin,
        "COMMIT" | "END" => Kind::Commit,
        "ROLLBACK" if !text.contains(" TO ") => Kind::Rollback,
        "SAVEPOINT" => Kind::Savepoint,
        "RELEASE" => Kind::Release,
        "SELECT" | "EXPLAIN" | "VALUES" | "ATTACH" | "DETACH" | "ROLLBACK" => Kind::Read,
        _ => Kind::Write,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Keyword,
    Name,
    Value,
    /// `(` or `.`, after which no space is written.
    Open,
    Close,
    Comma,
    /// A `+` or `-` sign that may belong to the next value.
    Operator,
}

#[derive(Debug, Default)]
struct Writer {
    out: String,
    chars: usize,
    last: Last,
    /// Whether the last written word precedes the name of a table.
    names_table: bool,
    is_pragma: bool,
    /// The offset of a sign that belongs to the value after the sign.
    sign: Option<usize>,
    /// The start of the current values, and the start and end of the preceding list of values in brackets.
    values: Option<usize>,
    row: Option<(usize, usize)>,
}

impl Writer {
    fn is_full(&self) -> bool {
        // Read more characters than the limit, to find out whether the statement must be truncated.
        self.chars > 2 * TEXT_MAX
    }

    fn put(&mut self, text: &str, last: Last) {
        let is_first = matches!(self.last, Last::Nothing | Last::Open);
        let is_tight = matches!(text, "," | ")" | "." | ";") || (text == "(" && self.last == Last::Name);
        if !is_first && !is_tight {
            self.out.push(' ');
            self.chars += 1;
        }
        self.out.push_str(text);
        self.chars += text.chars().count();
        self.last = last;
    }

    fn cut(&mut self, length: usize) {
        self.chars -= self.out[length..].chars().count();
        self.out.truncate(length);
    }

    fn token(&mut self, token: &Token<'_>, next: Option<&Token<'_>>) {
        let names_table = std::mem::take(&mut self.names_table);
        let is_named = names_table || self.out.ends_with('.') || matches!(next, Some(Token::Sign(b".")));
        match *token {
            Token::Value => self.value(),
            Token::DoubleQuoted(_) if !is_named => self.value(),
            Token::Quoted(_) | Token::DoubleQuoted(_) if self.is_pragma => self.value(),
            Token::Word(word) if self.is_pragma && self.sets() && !words::says_nothing(word) => self.value(),
            Token::Word(word) if words::is_value(word) && !is_named => self.value(),
            Token::Word(word) if word.eq_ignore_ascii_case(b"null") && self.expects_expression() => {
                self.value()
            }
            Token::Word(word) => self.word(word, names_table),
            Token::Quoted(name) | Token::DoubleQuoted(name) => {
                self.values = None;
                self.put(&printable(name), Last::Name);
            }
            Token::Sign(sign) => self.sign(sign),
        }
    }

    /// Whether the next token is the value of a PRAGMA.
    fn sets(&self) -> bool {
        self.out.contains(['=', '('])
    }

    /// Whether an expression follows. If so, NULL is a value and not a part of `NOT NULL` or `IS NULL`.
    fn expects_expression(&self) -> bool {
        matches!(self.last, Last::Open | Last::Comma | Last::Operator)
    }

    fn word(&mut self, word: &[u8], names_table: bool) {
        self.values = None;
        if !words::is_keyword(word) || words::is_mostly_name(word) {
            return self.put(&printable(word), Last::Name);
        }
        let word = printable(word).to_ascii_uppercase();
        self.is_pragma |= self.last == Last::Nothing && word == "PRAGMA";
        // `IS DISTINCT FROM` compares with a value, so a NULL after it is a value.
        let compares = word == "FROM" && self.out.ends_with("DISTINCT");
        self.names_table =
            words::names_table(&word) && !compares || names_table && words::is_before_name(&word);
        self.put(&word, Last::Keyword);
    }

    fn value(&mut self) {
        // A sign is a part of the following value, unless it subtracts from a preceding value.
        if let Some(at) = self.sign.take() {
            self.cut(at);
            self.last = self.before_sign();
        }
        if self.values.is_some() && self.last == Last::Comma {
            // Replace `?,` by `?, ...` once, whatever follows the comma.
            let comma = self.out.len() - 1;
            self.cut(comma);
            if !self.out.ends_with(MORE) {
                self.put(",", Last::Comma);
                self.put(MORE, Last::Value);
            }
            self.last = Last::Value;
            return;
        }
        let at = self.out.len();
        self.put("?", Last::Value);
        self.values = Some(at);
    }

    fn before_sign(&self) -> Last {
        match self.out.bytes().last() {
            None => Last::Nothing,
            Some(b'(') => Last::Open,
            Some(b',') => Last::Comma,
            Some(byte) if byte.is_ascii_alphanumeric() => Last::Keyword,
            Some(_) => Last::Operator,
        }
    }

    fn sign(&mut self, sign: &[u8]) {
        let text = printable(sign);
        match sign {
            b"," => self.put(",", Last::Comma),
            b"." => {
                self.values = None;
                self.put(".", Last::Open);
            }
            b"(" => {
                self.values = None;
                let after_row = self.last == Last::Comma && self.row.is_some();
                if !after_row {
                    self.row = None;
                }
                self.put("(", Last::Open);
            }
            b")" => self.close(),
            b";" => {}
            b"-" | b"+" if !matches!(self.last, Last::Name | Last::Value | Last::Close) => {
                let at = self.out.len();
                let values = self.values.filter(|_| self.last == Last::Comma);
                self.put(&text, Last::Operator);
                (self.sign, self.values) = (Some(at), values);
                return;
            }
            _ => {
                self.values = None;
                self.put(&text, Last::Operator);
            }
        }
        self.sign = None;
    }

    /// Writes a closing bracket. The second and further lists of values are replaced by an ellipsis: `(?,
    /// ...), ...`.
    fn close(&mut self) {
        let only_values = self.values.filter(|at| self.out[..*at].ends_with('('));
        self.put(")", Last::Close);
        self.values = None;
        let Some(at) = only_values else {
            self.row = None;
            return;
        };
        let open = at - 1;
        match self.row {
            // In `(?), (?)`, the previous list, a comma and a space precede the bracket.
            Some((_, end)) if end + 2 == open => {
                self.cut(end);
                if !self.out.ends_with(MORE) {
                    self.put(",", Last::Comma);
                    self.put(MORE, Last::Close);
                }
                self.last = Last::Close;
                self.row = Some((open, self.out.len()));
            }
            _ => self.row = Some((open, self.out.len())),
        }
    }

    fn finish(self, is_cut: bool) -> String {
        let is_long = self.chars > TEXT_MAX;
        if !is_long && !is_cut {
            return self.out;
        }
        let mut text: String = self.out.chars().take(TEXT_MAX - 2).collect();
        if is_long && let Some(at) = text.rfind(' ') {
            text.truncate(at);
        }
        format!("{} {CUT}", text.trim_end()).trim_start().to_owned()
    }
}

/// Converts the bytes to text. Replaces characters that are unsafe in a terminal by spaces.
fn printable(bytes: &[u8]) -> String {
    let shown = |c: char| if is_foreign(c) { ' ' } else { c };
    String::from_utf8_lossy(bytes).chars().map(shown).collect()
}

#[cfg(test)]
mod tests;
