//! Profiles as text.

use std::collections::BTreeMap;

use super::schema::{self, Key, Quantity, decimal};
use super::{Entry, Profile, ProfileError, Source, Value};

/// Values up to here are whole numbers in a `f64` too.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
    let form = |key: &str, value: &toml::Value, wanted: &str| ProfileError::Form {
        profile: name.to_owned(),
        key: key.to_owned(),
        value: value.to_string(),
        wanted: wanted.to_owned(),
    };
    let document: toml::Table = text
        .parse()
        .map_err(|source| ProfileError::Toml { profile: name.to_owned(), source: Box::new(source) })?;
    let mut about = String::new();
    let mut entries = BTreeMap::new();
    for (table, content) in &document {
        if table == "about" {
            let line = content.as_str().ok_or_else(|| form("about", content, "it is a line of text"))?;
            about = line.to_owned();
            continue;
        }
        let toml::Value::Table(content) = content else {
            return Err(unknown(name, table));
        };
        for (key, value) in content {
            let path = format!("{table}.{key}");
            let known = schema::find(&path).ok_or_else(|| unknown(name, &path))?;
            entries.insert(known.path, entry(name, known, value)?);
        }
    }
    Ok(Profile { name: name.to_owned(), about, entries })
}

fn unknown(profile: &str, key: &str) -> ProfileError {
    ProfileError::UnknownKey {
        profile: profile.to_owned(),
        key: key.to_owned(),
        nearest: schema::nearest(key).map(str::to_owned),
    }
}

fn entry(profile: &str, key: &'static Key, value: &toml::Value) -> Result<Entry, ProfileError> {
    let form = |wanted: String| ProfileError::Form {
        profile: profile.to_owned(),
        key: key.path.to_owned(),
        value: value.to_string(),
        wanted,
    };
    let toml::Value::Table(fields) = value else {
        return Err(form(format!("it must say its unit and source, as in {}", example(key))));
    };
    let mut found = None;
    let mut source = None;
    let mut to = String::new();
    for (field, content) in fields {
        match (field.as_str(), content) {
            ("source", toml::Value::String(text)) => {
                let known = Source::ALL.into_iter().find(|source| source.name() == text);
                source = Some(known.ok_or_else(|| {
                    form("`source` is published, fitted, chosen, measured or assumed".to_owned())
                })?);
            }
            ("to", toml::Value::String(text)) => to.clone_from(text),
            _ if found.is_none() => {
                found = Some(number_or_word(key, field, content).ok_or_else(|| {
                    form(format!("`{field} = {content}` is not understood; write it as in {}", example(key)))
                })?)
            }
            _ => return Err(form(format!("it has more than one value; write it as in {}", example(key)))),
        }
    }
    let value = found.ok_or_else(|| form(format!("it has no value; write it as in {}", example(key))))?;
    let source = source.ok_or_else(|| {
        form("`source` is missing: published, fitted, chosen, measured or assumed".to_owned())
    })?;
    if source != Source::Assumed && to.is_empty() {
        return Err(form(format!("`to` is missing: what {} means here", source.name())));
    }
    if let Value::Number(number) = value {
        check_range(profile, key, number)?;
    }
    Ok(Entry { value, source, to })
}

fn number_or_word(key: &Key, field: &str, content: &toml::Value) -> Option<Value> {
    if let Quantity::Word(words) = key.quantity {
        let text = content.as_str().filter(|_| field == "is")?;
        return words.iter().find(|word| **word == text).map(|word| Value::Word(word));
    }
    let (_, worth) = key.quantity.units().iter().find(|(unit, _)| *unit == field)?;
    let number = match content {
        toml::Value::Integer(integer) => u64::try_from(*integer).ok()?.checked_mul(*worth)?,
        toml::Value::Float(float) => {
            let exact = float * *worth as f64;
            // A range check follows; here only what cannot be a number at all is refused.
            if !(0.0..EXACT_MAX).contains(&exact) {
                return None;
            }
            (exact + 0.5) as u64
        }
        _ => return None,
    };
    Some(Value::Number(number))
}

fn example(key: &Key) -> String {
    match key.quantity {
        Quantity::Word(words) => {
            format!("{{ is = \"{}\", source = \"assumed\" }} ({})", words[0], words.join(", "))
        }
        quantity => {
            let units: Vec<&str> = quantity.units().iter().map(|(unit, _)| *unit).collect();
            format!(
                "{{ {} = 1, source = \"assumed\" }} ({})",
                units[1.min(units.len() - 1)],
                units.join(", ")
            )
        }
    }
}

pub(super) fn check_range(profile: &str, key: &'static Key, number: u64) -> Result<(), ProfileError> {
    if matches!(key.quantity, Quantity::Word(_)) {
        return Err(ProfileError::Form {
            profile: profile.to_owned(),
            key: key.path.to_owned(),
            value: number.to_string(),
            wanted: format!("it is a word, as in {}", example(key)),
        });
    }
    if !(key.min..=key.max).contains(&number) {
        return Err(ProfileError::Range {
            profile: profile.to_owned(),
            key: key.path,
            value: key.quantity.show(number),
            min: key.quantity.show(key.min),
            max: key.quantity.show(key.max),
        });
    }
    Ok(())
}

pub(super) fn write(profile: &Profile) -> String {
    let mut out = String::new();
    if !profile.about.is_empty() {
        out.push_str(&format!("about = {}\n", quoted(&profile.about)));
    }
    let mut table = "";
    for (key, entry) in profile.in_order() {
        let (of, name) = key.path.split_once('.').expect("every key is in a table");
        if of != table {
            out.push_str(&format!("\n[{of}]\n"));
            table = of;
        }
        let value = match &entry.value {
            Value::Word(word) => format!("is = \"{word}\""),
            Value::Number(number) => {
                let (unit, worth) = key.quantity.unit_for(*number);
                format!("{unit} = {}", decimal(*number, worth))
            }
        };
        let to = if entry.to.is_empty() { String::new() } else { format!(", to = {}", quoted(&entry.to)) };
        out.push_str(&format!("{name} = {{ {value}, source = \"{}\"{to} }}\n", entry.source.name()));
    }
    out
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
