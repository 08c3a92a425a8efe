//! Values to bind to the parameters of an SQL statement.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::quantity::{Sizes, as_string};

/// A parameter value, generated for each execution of a statement:
///
/// | written | value |
/// |---|---|
/// | `next:NAME` | 1, 2, 3 …: increments the counter NAME |
/// | `last:NAME` | the current value of the counter |
/// | `pick:NAME` | a number from 1 to the counter, all equally likely |
/// | `int:A..B` | an integer, both ends included |
/// | `real:A..B` | a fraction between the integers A and B |
/// | `text:SIZE` | words |
/// | `blob:SIZE` | incompressible bytes |
/// | `spelled:A..B` | a number in English words, as on SQLite's old speed page |
/// | `scaled:N` | N times the scale of the run, at least 1 |
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Param {
    /// `next:NAME`
    Next(String),
    /// `last:NAME`
    Last(String),
    /// `pick:NAME`
    Pick(String),
    /// `int:A..B`
    Int(i64, i64),
    /// `real:A..B`
    Real(i64, i64),
    /// `text:SIZE`
    Text(Sizes),
    /// `blob:SIZE`
    Blob(Sizes),
    /// `spelled:A..B`
    Spelled(i64, i64),
    /// `scaled:N`
    Scaled(u64),
}

const KINDS: &str =
    "next:NAME, last:NAME, pick:NAME, int:A..B, real:A..B, text:SIZE, blob:SIZE, spelled:A..B or scaled:N";

as_string!(Param);

impl FromStr for Param {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) =
            text.split_once(':').ok_or_else(|| format!("`{text}` is not a parameter; use one of {KINDS}"))?;
        let rest = rest.trim();
        match kind.trim() {
            "next" => name(rest).map(Param::Next),
            "last" => name(rest).map(Param::Last),
            "pick" => name(rest).map(Param::Pick),
            "int" => range(rest).map(|(low, high)| Param::Int(low, high)),
            "real" => range(rest).map(|(low, high)| Param::Real(low, high)),
            "text" => rest.parse().map(Param::Text),
            "blob" => rest.parse().map(Param::Blob),
            "spelled" => {
                let (low, high) = range(rest)?;
                if low < 0 || high >= 1_000_000 {
                    return Err(format!("`{text}` is out of range; use numbers from 0 to 999999"));
                }
                Ok(Param::Spelled(low, high))
            }
            "scaled" => {
                rest.parse().map(Param::Scaled).map_err(|_| format!("`{rest}` is not a whole number"))
            }
            other => Err(format!("`{other}` is not a kind of parameter; use one of {KINDS}")),
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the name of the counter is missing; write, for example, next:row".to_owned());
    }
    Ok(text.to_owned())
}

fn range(text: &str) -> Result<(i64, i64), String> {
    let (low, high) =
        text.split_once("..").ok_or_else(|| format!("`{text}` is not a range; write it as 0..100"))?;
    let number =
        |part: &str| part.trim().parse::<i64>().map_err(|_| format!("`{part}` is not a whole number"));
    let (low, high) = (number(low)?, number(high)?);
    if low > high || high.checked_sub(low).is_none() {
        return Err(format!("the range `{text}` is descending or too wide"));
    }
    Ok((low, high))
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Next(name) => write!(f, "next:{name}"),
            Param::Last(name) => write!(f, "last:{name}"),
            Param::Pick(name) => write!(f, "pick:{name}"),
            Param::Int(low, high) => write!(f, "int:{low}..{high}"),
            Param::Real(low, high) => write!(f, "real:{low}..{high}"),
            Param::Text(sizes) => write!(f, "text:{sizes}"),
            Param::Blob(sizes) => write!(f, "blob:{sizes}"),
            Param::Spelled(low, high) => write!(f, "spelled:{low}..{high}"),
            Param::Scaled(count) => write!(f, "scaled:{count}"),
        }
    }
}

/// Returns a number below a million in English words.
pub(crate) fn spelled(number: u64) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] =
        ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    assert!(number < 1_000_000, "checked by the parser");
    let join = |head: String, rest: u64| if rest == 0 { head } else { format!("{head} {}", spelled(rest)) };
    match number {
        0..20 => SMALL[number as usize].to_owned(),
        20..100 => join(TENS[number as usize / 10].to_owned(), number % 10),
        100..1000 => join(format!("{} hundred", SMALL[number as usize / 100]), number % 100),
        _ => join(format!("{} thousand", spelled(number / 1000)), number % 1000),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_read_and_written() {
        for text in [
            "next:row",
            "last:row",
            "pick:row",
            "int:-5..9",
            "real:0..1",
            "text:20B..60B",
            "blob:4KiB",
            "spelled:0..100000",
            "scaled:315",
        ] {
            assert_eq!(text.parse::<Param>().map(|param| param.to_string()).as_deref(), Ok(text));
        }
        for (text, complaint) in [
            ("row", "`row` is not a parameter"),
            ("next:", "the name of the counter is missing"),
            ("int:9..1", "`9..1` is descending"),
            ("int:1", "is not a range"),
            ("spelled:0..9999999", "use numbers from 0"),
            ("uuid:4", "`uuid` is not a kind of parameter; use one of next:NAME"),
        ] {
            let got = text.parse::<Param>().expect_err(text);
            assert!(got.contains(complaint), "{got}");
        }
    }

    #[test]
    fn numbers_are_spelled() {
        for (number, text) in [
            (0, "zero"),
            (13, "thirteen"),
            (40, "forty"),
            (73_100, "seventy three thousand one hundred"),
            (999_999, "nine hundred ninety nine thousand nine hundred ninety nine"),
        ] {
            assert_eq!(spelled(number), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z]{0,7}:?[-0-9.xKB:|]{0,20}") {
            let _ = text.parse::<Param>();
        }
    }
}
