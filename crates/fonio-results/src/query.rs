//! Parses the query string of a request. Only known parameter names are allowed, and each name may occur at
//! most once.

use axum::http::Uri;
use fonio_core::untrusted::is_foreign;

use crate::problem::Problem;
use crate::store::read::{Of, Position};

/// The query parameters of a request.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

/// Maximum length of a parameter's value; no key, figure or id is longer.
const VALUE_BYTES_MAX: usize = 256;

impl Parameters {
    /// Reads the query parameters. Only the names in `known` are allowed. Fails if a name is unknown or
    /// repeated, or a value is too long or has control characters.
    pub fn of(uri: &Uri, known: &[&str]) -> Result<Parameters, Problem> {
        let axum::extract::Query(pairs) = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| {
                Problem::bad("the query of the address cannot be read; write it as name=value&name=value")
            })?;
        for (at, (name, value)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Problem::bad(format!(
                    "unknown parameter {name}; use one of: {}",
                    known.join(", ")
                )));
            }
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::bad(format!("the parameter {name} occurs twice")));
            }
            if value.len() > VALUE_BYTES_MAX || value.contains(is_foreign) {
                return Err(Problem::bad(format!(
                    "the parameter {name} is too long, or has control characters"
                )));
            }
        }
        Ok(Parameters(pairs))
    }

    /// Returns the value of a parameter; `None` if the parameter is missing, or if its value is empty, as for
    /// an unused field of a form.
    pub fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(known, _)| known == name)?;
        Some(pair.1.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns the value of a required parameter.
    pub fn need(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| Problem::bad(format!("the parameter {name} is missing")))
    }

    /// Returns the kind of ranked entries, from the parameter `by`.
    pub fn by(&self) -> Result<Of, Problem> {
        match self.get("by") {
            None | Some("result") => Ok(Of::Results),
            Some("device") => Ok(Of::Devices),
            Some(_) => Err(Problem::bad("the parameter by must be `result` or `device`")),
        }
    }

    /// Returns the position in the parameter `page`. Clients copy this parameter from `next` of an earlier
    /// page.
    pub fn page(&self) -> Result<Option<Position>, Problem> {
        let Some(text) = self.get("page") else { return Ok(None) };
        parse_position(text)
            .map(Some)
            .ok_or_else(|| Problem::bad("the parameter page must be the `next` value of an earlier page"))
    }
}

fn parse_position(text: &str) -> Option<Position> {
    let (score, seq) = text.split_once('-')?;
    let is_hex = score.len() == 16 && score.bytes().all(|byte| byte.is_ascii_hexdigit());
    let score = is_hex.then(|| u64::from_str_radix(score, 16).ok()).flatten().map(f64::from_bits)?;
    let seq = seq.parse::<i64>().ok().filter(|seq| *seq >= 0 && score.is_finite())?;
    Some(Position { score, seq })
}

/// Formats a position for the parameter `page`.
pub fn page_name(position: Position) -> String {
    format!("{:016x}-{}", position.score.to_bits(), position.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str) -> Result<Parameters, String> {
        let uri = format!("/ranking?{query}").parse().unwrap();
        Parameters::of(&uri, &["key", "page", "by"]).map_err(|problem| problem.sentence)
    }

    #[test]
    fn only_known_parameters_are_taken_and_once() {
        assert_eq!(check("key=a%20b&by=").unwrap().get("key"), Some("a b"));
        assert_eq!(check("key=").unwrap().get("key"), None);
        for (query, expected) in [
            ("other=1", "unknown parameter other; use one of: key, page, by"),
            ("key=1&key=2", "the parameter key occurs twice"),
            ("key=%00", "the parameter key is too long, or has control characters"),
        ] {
            assert_eq!(check(query).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_position_returns() {
        for position in [Position { score: -12.5, seq: 7 }, Position { score: 0.0, seq: 0 }] {
            assert_eq!(parse_position(&page_name(position)), Some(position));
        }
        for text in ["", "-", "1-1", "7ff0000000000000-1", "0000000000000000--1", "+000000000000000-1"] {
            assert_eq!(parse_position(text), None, "{text}");
        }
    }
}
