//! Checks the normalised forms of statements with values.

use expect_test::expect_file;
use fonio_testing::cases::lines;
use proptest::prelude::*;

use super::*;

#[test]
fn values_become_question_marks() {
    let long = format!("INSERT INTO t VALUES ({}'x')", "1,".repeat(1000));
    let wide =
        format!("SELECT {} FROM t", (0..200).map(|n| format!("column{n}")).collect::<Vec<_>>().join(","));
    let shown = format!("SELECT {}", (0..24).map(|n| format!("column{n},")).collect::<Vec<_>>().join(" "));
    let file = expect_file!["normalised.txt"];
    file.assert_eq(&lines(&file.data(), |text| normalised(text.as_bytes(), false)));
    for (text, expected) in [
        ("-- a secret\n select /* a secret */ x /* unended secret", "SELECT x"),
        ("  ;", ""),
        ("", ""),
        ("\u{feff}BEGIN", "BEGIN"),
        ("DELETE FROM t\u{1b}[31m", "DELETE FROM t   ?"),
        (&long, "INSERT INTO t VALUES (?, ...)"),
        (&wide, &format!("{shown} …")),
    ] {
        assert_eq!(normalised(text.as_bytes(), false), expected, "{text}");
    }
}

#[test]
fn a_word_that_is_cut_off_is_left_out() {
    for (text, expected) in [
        ("INSERT INTO messages(body, attachm", "INSERT INTO messages(body, …"),
        ("INSERT INTO t VALUES ('abc", "INSERT INTO t VALUES (? …"),
        ("INSERT INTO t VALUES (12", "INSERT INTO t VALUES (? …"),
        ("SEL", "…"),
    ] {
        assert_eq!(normalised(text.as_bytes(), true), expected);
    }
}

#[test]
fn names_are_replaced_and_keywords_stay() {
    let text = normalised(b"INSERT INTO \"Notes\"(body) SELECT lower(notes.x) FROM notes WHERE y = 7", false);
    let replaced = with_names(&text, |name| format!("<{}>", name.to_ascii_lowercase()));
    assert_eq!(
        replaced,
        "INSERT INTO <notes>(<body>) SELECT <lower>(<notes>.<x>) FROM <notes> WHERE <y> = ?"
    );
    assert_eq!(with_names("VALUES (?, ...) …", |_| "<>".to_owned()), "VALUES (?, ...) …");
}

#[test]
fn kinds_are_known_by_the_first_word() {
    for (text, expected) in [
        ("BEGIN IMMEDIATE", Kind::Begin),
        ("COMMIT", Kind::Commit),
        ("END TRANSACTION", Kind::Commit),
        ("ROLLBACK", Kind::Rollback),
        ("ROLLBACK TO a", Kind::Read),
        ("SAVEPOINT a", Kind::Savepoint),
        ("RELEASE a", Kind::Release),
        ("SELECT ?", Kind::Read),
        ("INSERT INTO t VALUES (?)", Kind::Write),
        ("", Kind::Write),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

/// A naive tokenizer: it reads one byte at a time, and the first byte of a token decides which bytes can
/// follow.
fn naive(text: &[u8]) -> Vec<(char, Vec<u8>)> {
    let mut found: Vec<(char, Vec<u8>)> = Vec::new();
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 128;
    let mut at = 0;
    while at < text.len() {
        let (start, first) = (at, byte(at));
        if first == b'-' && byte(at + 1) == b'-' {
            while at < text.len() && byte(at) != b'\n' {
                at += 1;
            }
            continue;
        }
        if first == b'/' && byte(at + 1) == b'*' {
            at += 2;
            while at < text.len() && !(byte(at) == b'*' && byte(at + 1) == b'/') {
                at += 1;
            }
            at = (at + 2).min(text.len());
            continue;
        }
        let is_blob = (first == b'x' || first == b'X') && byte(at + 1) == b'\'';
        if is_blob || matches!(first, b'\'' | b'"' | b'`') {
            at += usize::from(is_blob);
            let mark = byte(at);
            at += 1;
            let mut is_closed = false;
            while at < text.len() && !is_closed {
                if byte(at) != mark {
                    at += 1;
                } else if at + 1 < text.len() && byte(at + 1) == mark {
                    at += 2;
                } else {
                    (at, is_closed) = (at + 1, true);
                }
            }
            let kind = if mark == b'\'' || !is_closed { 'v' } else { 'q' };
            found.push((kind, text[start..at].to_vec()));
        } else if is_word(first) && !first.is_ascii_digit() && first != b'$' {
            while at < text.len() && is_word(byte(at)) {
                at += 1;
            }
            found.push(('w', text[start..at].to_vec()));
        } else if matches!(first, b' ' | b'\n') {
            at += 1;
        } else if first.is_ascii_digit() {
            while at < text.len() && (is_word(byte(at)) || byte(at) == b'.') {
                at += 1;
            }
            found.push(('v', text[start..at].to_vec()));
        } else if first == b'?' {
            at += 1;
            while byte(at).is_ascii_digit() {
                at += 1;
            }
            found.push(('v', text[start..at].to_vec()));
        } else {
            at += 1;
            found.push(('s', text[start..at].to_vec()));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tokens_are_those_of_the_simplest_way(parts in prop::collection::vec(prop::sample::select(vec![
        "'", "\"", "`", "x'", "X", "--", "\n", "/*", "*/", "*", "/", " ", "ab", "é", "7", "?", "(", ")", ",", ";", "_",
    ]), 0..30)) {
        let text = parts.concat().into_bytes();
        let found = Tokens::new(&text, false).with_places().map(|(token, place)| {
            let kind = match token {
                Token::Word(_) => 'w',
                Token::Quoted(_) | Token::DoubleQuoted(_) => 'q',
                Token::Value => 'v',
                Token::Sign(_) => 's',
            };
            (kind, text[place].to_vec())
        });
        prop_assert_eq!(found.collect::<Vec<_>>(), naive(&text));
    }

    #[test]
    fn any_bytes_are_a_statement(text in prop::collection::vec(any::<u8>(), 0..600), is_cut: bool) {
        let shown = normalised(&text, is_cut);
        prop_assert!(shown.chars().count() <= TEXT_MAX && !shown.contains(char::is_control), "{shown:?}");
    }

    /// Checks with templates that statements with different values give the same text, and that the text
    /// contains no value.
    #[test]
    fn no_value_is_left(
        template in prop::sample::select(vec![
            "INSERT INTO t(a, b) VALUES (@, @)", "UPDATE t SET a = @, b = b + @ WHERE c BETWEEN @ AND @",
            "DELETE FROM t WHERE a LIKE @ OR b IN (@, @, @)", "SELECT f(@, x) || @ FROM t LIMIT @ OFFSET @",
            "PRAGMA p = @", "INSERT INTO t VALUES (@, @), (@, @), (@, @)", "ATTACH @ AS a",
        ]),
        kinds in prop::collection::vec(0usize..7, 8),
        at in 0usize..200,
    ) {
        let values = ["'secret'", "\"secret\"", "x'5ec2e7'", "5327", "-53.27e-5", ":p5327", "'sec''ret\n--'"];
        let with = |choose: &dyn Fn(usize) -> usize| {
            let parts: Vec<&str> = template.split('@').collect();
            let values = parts.iter().enumerate().map(|(at, part)| match at + 1 < parts.len() {
                true => format!("{part}{}", values[choose(at)]),
                false => (*part).to_owned(),
            });
            values.collect::<String>()
        };
        let text = with(&|at| kinds[at]);
        let shown = normalised(text.as_bytes(), false);
        prop_assert_eq!(&shown, &normalised(with(&|_| 0).as_bytes(), false));
        let start = &text.as_bytes()[..at.min(text.len())];
        for shown in [&shown, &normalised(start, true)] {
            for part in ["sec", "ret", "5", "2"] {
                prop_assert!(!shown.contains(part), "{}: {}", text, shown);
            }
        }
    }
}

#[test]
fn a_megabyte_is_read_once() {
    for part in ["'", "a", "(1,", "(1),", "-", "/*", "x'", "[", "\"a\".", "😀"] {
        let text = part.repeat((1 << 20) / part.len());
        let shown = normalised(text.as_bytes(), false);
        assert!(shown.chars().count() <= TEXT_MAX, "{part}: {shown}");
    }
}
