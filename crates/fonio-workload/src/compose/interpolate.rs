//! Variables in the values of a Compose file, and files with variables.

use std::collections::BTreeMap;

use super::error::Problem;
use super::yaml::{Node, Value};

/// Maximum depth of variables in defaults of variables.
const DEPTH_MAX: usize = 16;

/// Replaces the variables in all values below `node`. Returns the names of variables that are not set and have no default, in
/// the order of the file. Fails if a variable is malformed, or if one with `?` is not set.
pub(super) fn interpolate(
    node: &mut Node,
    variables: &BTreeMap<String, String>,
    unset: &mut Vec<String>,
) -> Result<(), Problem> {
    match &mut node.value {
        Value::Null => Ok(()),
        Value::Text(text) => {
            if text.contains('$') {
                *text =
                    replaced(text, variables, unset, 0).map_err(|problem| Problem::at(node.line, problem))?;
            }
            Ok(())
        }
        Value::List(list) => list.iter_mut().try_for_each(|node| interpolate(node, variables, unset)),
        Value::Map(map) => {
            map.iter_mut().try_for_each(|entry| interpolate(&mut entry.value, variables, unset))
        }
    }
}

/// Replaces `$NAME`, `${NAME}`, the forms with `:-`, `-`, `:?`, `?`, `:+` and `+`, and `$$`, which stands for a `$`.
fn replaced(
    text: &str,
    variables: &BTreeMap<String, String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> Result<String, String> {
    if depth > DEPTH_MAX {
        return Err(format!("`{text}` has too many variables in defaults of variables"));
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let end = closing(inner).ok_or_else(|| format!("`${rest}` has no closing brace"))?;
            out += &braced(&inner[..end], variables, unset, depth)?;
            rest = &inner[end + 1..];
        } else {
            let name = name(rest);
            if name.is_empty() {
                return Err(format!("`${rest}` is not a variable: write $$ for a dollar sign"));
            }
            out += &value(name, variables, unset);
            rest = &rest[name.len()..];
        }
    }
    Ok(out + rest)
}

/// Returns the position of the brace that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            '{' => depth += 1,
            _ => {}
        }
    }
    None
}

/// Returns the name of a variable at the beginning of a text.
fn name(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) { "" } else { &text[..end] }
}

fn value(name: &str, variables: &BTreeMap<String, String>, unset: &mut Vec<String>) -> String {
    match variables.get(name) {
        Some(value) => value.clone(),
        None => {
            if !unset.iter().any(|known| known == name) {
                unset.push(name.to_owned());
            }
            String::new()
        }
    }
}

/// Returns the value of what is between `${` and `}`.
fn braced(
    inner: &str,
    variables: &BTreeMap<String, String>,
    unset: &mut Vec<String>,
    depth: usize,
) -> Result<String, String> {
    let name = name(inner);
    let rest = &inner[name.len()..];
    if name.is_empty() {
        return Err(format!("`${{{inner}}}` is not a variable"));
    }
    if rest.is_empty() {
        return Ok(value(name, variables, unset));
    }
    let (ignores_empty, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let set = variables.get(name).filter(|value| !(ignores_empty && value.is_empty()));
    let mut other = |text: &str| replaced(text, variables, unset, depth + 1);
    if let Some(default) = rest.strip_prefix('-') {
        return set.map_or_else(|| other(default), |value| Ok(value.clone()));
    }
    if let Some(instead) = rest.strip_prefix('+') {
        return if set.is_some() { other(instead) } else { Ok(String::new()) };
    }
    if let Some(complaint) = rest.strip_prefix('?') {
        return set.cloned().ok_or_else(|| {
            let complaint = if complaint.is_empty() { String::new() } else { format!(": {complaint}") };
            format!("the variable {name} must be set, in the environment or in the file .env{complaint}")
        });
    }
    Err(format!(
        "`${{{inner}}}` is not a variable: use one of ${{{name}}}, ${{{name}:-default}}, ${{{name}:?error}}"
    ))
}

/// Parses a file of lines `NAME=VALUE`, such as `.env`. A line with only a NAME is left out if `outside` has no such variable.
/// Quotes around a value are removed. In a value without single quotes, variables of `outside` and of earlier lines are replaced.
pub(super) fn variables(
    text: &str,
    outside: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, Problem> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut known = outside.clone();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_end_matches('\r');
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || Problem::at(at + 1, format!("`{line}` is not NAME=VALUE"));
        let (name, given) = match line.split_once('=') {
            Some((name, given)) => (name.trim_end(), Some(given.trim_start())),
            None => (line.trim_end(), None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(bad());
        }
        let value = match given {
            None => match outside.get(name) {
                Some(value) => value.clone(),
                None => continue,
            },
            Some(given) => unquoted(given, &known).map_err(|problem| Problem::at(at + 1, problem))?,
        };
        known.insert(name.to_owned(), value.clone());
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

fn unquoted(given: &str, known: &BTreeMap<String, String>) -> Result<String, String> {
    let quoted = |quote: char| {
        let rest = given.strip_prefix(quote)?;
        Some(rest.find(quote).map(|end| &rest[..end]))
    };
    let unclosed = || format!("`{given}` has no closing quote");
    if let Some(inner) = quoted('\'') {
        return inner.map(str::to_owned).ok_or_else(unclosed);
    }
    if let Some(inner) = quoted('"') {
        let inner = inner.ok_or_else(unclosed)?.replace("\\n", "\n");
        return replaced(&inner, known, &mut Vec::new(), 0);
    }
    let plain = given.find(" #").map_or(given, |at| &given[..at]);
    replaced(plain.trim_end(), known, &mut Vec::new(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeMap<String, String> {
        [("A", "a"), ("EMPTY", ""), ("B_2", "b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn variables_are_replaced() {
        for (text, expected, missing) in [
            ("no", "no", &[][..]),
            ("$A-$B_2", "a-b", &[]),
            ("${A}${A}", "aa", &[]),
            ("cost $$5", "cost $5", &[]),
            ("$${A}", "${A}", &[]),
            ("${X}", "", &["X"]),
            ("$X ${X} $Y", "  ", &["X", "Y"]),
            ("${X:-d}", "d", &[]),
            ("${EMPTY:-d}", "d", &[]),
            ("${EMPTY-d}", "", &[]),
            ("${A:-d}", "a", &[]),
            ("${X:-${A}}", "a", &[]),
            ("${X:-${Y:-e}}!", "e!", &[]),
            ("${A:+other}${X:+other}", "other", &[]),
            ("${EMPTY+other}", "other", &[]),
            ("${A:?must}", "a", &[]),
            ("${X:-a:b}", "a:b", &[]),
        ] {
            let mut unset = Vec::new();
            assert_eq!(replaced(text, &known(), &mut unset, 0).as_deref(), Ok(expected), "{text}");
            assert_eq!(unset, missing, "{text}");
        }
        for (text, said) in [
            (
                "${X:?name a folder}",
                "the variable X must be set, in the environment or in the file .env: name a folder",
            ),
            ("${X?}", "the variable X must be set, in the environment or in the file .env"),
            ("${A", "`${A` has no closing brace"),
            ("a $ b", "`$ b` is not a variable: write $$ for a dollar sign"),
            ("$1", "`$1` is not a variable: write $$ for a dollar sign"),
            ("${}", "`${}` is not a variable"),
            ("${A/b/c}", "`${A/b/c}` is not a variable: use one of ${A}, ${A:-default}, ${A:?error}"),
        ] {
            assert_eq!(replaced(text, &known(), &mut Vec::new(), 0), Err(said.to_owned()), "{text}");
        }
        let deep = format!("{}x{}", "${X:-".repeat(100), "}".repeat(100));
        assert!(replaced(&deep, &known(), &mut Vec::new(), 0).is_err());
    }

    #[test]
    fn files_of_variables_are_parsed() {
        let text = "# a comment\n\nexport ONE=1\nTWO = two words # a comment\nTHREE='$ONE'\nFOUR=\"${ONE}\\n$A\"\nA\nX\nFIVE=\n";
        let found = variables(text, &known()).expect("it is right");
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("ONE", "1"),
            ("TWO", "two words"),
            ("THREE", "$ONE"),
            ("FOUR", "1\na"),
            ("A", "a"),
            ("FIVE", ""),
        ];
        assert_eq!(found, expected);
        for (text, line) in [("A=1\nB C=2\n", 2), ("=1", 1), ("A='x", 1), ("A=${", 1)] {
            assert_eq!(variables(text, &known()).expect_err(text).line, line, "{text}");
        }
    }
}
