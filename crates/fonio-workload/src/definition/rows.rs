//! Row templates: `[[rows.apps]]` lists apps with their numbers. Every table with `each = "apps"` is repeated
//! for each row, with `$name` replaced by the row's `name`. A step whose count comes from the row is omitted
//! if this count is 0.

use toml::{Table, Value};

/// Removes `rows` from the document and expands the tables that refer to it. Returns a message that quotes a
/// reference to a row or key that does not exist.
pub(super) fn expand(mut document: Table) -> Result<Table, String> {
    let Some(rows) = document.remove("rows") else { return Ok(document) };
    let Value::Table(rows) = rows else {
        return Err("`rows` must be a table of lists; write [[rows.NAME]] before each row".to_owned());
    };
    let mut expanded = Table::new();
    for (key, value) in document {
        expanded.insert(key, walk(value, &rows)?);
    }
    Ok(expanded)
}

fn walk(value: Value, rows: &Table) -> Result<Value, String> {
    match value {
        Value::Array(items) => {
            let mut all = Vec::new();
            for item in items {
                match referred(&item, rows)? {
                    None => all.push(walk(item, rows)?),
                    Some(referred) => {
                        for row in referred {
                            all.push(walk(fill(without_each(&item), row)?, rows)?);
                        }
                    }
                }
            }
            Ok(Value::Array(all))
        }
        Value::Table(table) => {
            let mut all = Table::new();
            for (key, item) in table {
                match referred(&item, rows)? {
                    None => {
                        all.insert(key, walk(item, rows)?);
                    }
                    Some(referred) => {
                        for row in referred {
                            let key = replace(&key, row)?;
                            all.insert(key, walk(fill(without_each(&item), row)?, rows)?);
                        }
                    }
                }
            }
            Ok(Value::Table(all))
        }
        other => Ok(other),
    }
}

fn referred<'a>(item: &Value, rows: &'a Table) -> Result<Option<Vec<&'a Table>>, String> {
    let Some(name) = item.get("each") else { return Ok(None) };
    let name = name.as_str().ok_or("`each` must be a text: the NAME of a list [[rows.NAME]]")?;
    let known = || rows.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let list = rows.get(name).and_then(Value::as_array).ok_or_else(|| {
        format!("each = \"{name}\", but there is no [[rows.{name}]]; use one of: {}", known())
    })?;
    let tables: Option<Vec<&Table>> = list.iter().map(Value::as_table).collect();
    tables.map(Some).ok_or_else(|| format!("[[rows.{name}]] contains an entry that is not a table"))
}

fn without_each(item: &Value) -> Value {
    let mut item = item.clone();
    if let Value::Table(table) = &mut item {
        table.remove("each");
    }
    item
}

/// Replaces each `$key` in strings. A string that is only `$key` becomes the row's value itself, so counts
/// remain numbers.
fn fill(value: Value, row: &Table) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$').filter(|key| key.bytes().all(is_word)) {
            Some(key) => row.get(key).cloned().ok_or_else(|| missing(key, row))?,
            None => Value::String(replace(&text, row)?),
        },
        Value::Array(items) => {
            let mut filled = Vec::new();
            for item in items {
                let given = item.get("count").is_some_and(Value::is_str);
                let item = fill(item, row)?;
                if given && item.get("count").and_then(Value::as_integer) == Some(0) {
                    continue;
                }
                filled.push(item);
            }
            Value::Array(filled)
        }
        Value::Table(table) => Value::Table(
            table
                .into_iter()
                .map(|(key, item)| Ok((key, fill(item, row)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other,
    })
}

fn replace(text: &str, row: &Table) -> Result<String, String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let end = after.bytes().position(|byte| !is_word(byte)).unwrap_or(after.len());
        let (key, tail) = after.split_at(end);
        match row.get(key).ok_or_else(|| missing(key, row))? {
            Value::String(word) => result.push_str(word),
            other => result.push_str(&other.to_string()),
        }
        rest = tail;
    }
    result.push_str(rest);
    Ok(result)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn missing(key: &str, row: &Table) -> String {
    let known: Vec<&str> = row.keys().map(String::as_str).collect();
    format!("`${key}` is not a key of the row; use one of: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_out() {
        let mut said = String::new();
        for text in [
            "steps = [{ do = 'a' }, { each = 'apps', count = '$n', files = 'apk_$name' }]\n\
             [files.'apk_$name']\neach = 'apps'\nsize = '${n}'\n\
             [[rows.apps]]\nname = 'x'\nn = 3\n[[rows.apps]]\nname = 'y'\nn = 4\n",
            "steps = [{ do = 'a' }, { each = 'apps', count = '$n', files = 'apk_$name' }]\n\
             [[rows.apps]]\nname = 'x'\nn = 3\n[[rows.apps]]\nname = 'y'\nn = 4\n",
            "steps = [{ each = 'apps', steps = [{ do = '$name', count = '$n' }, { do = 'b', count = 0 }] }]\n\
             [[rows.apps]]\nname = 'x'\nn = 0\n[[rows.apps]]\nname = 'y'\nn = 4\n",
            "a = [{ each = 'dogs' }]\n[[rows.cats]]\n",
        ] {
            let expanded = expand(text.parse().unwrap());
            let outcome = expanded.map_or_else(|problem| problem, |table| table.to_string());
            said.push_str(&format!("{text}->\n{outcome}\n\n"));
        }
        expect_test::expect_file!["rows.txt"].assert_eq(&said);
    }
}
