//! Parses profiles from TOML text.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{self, Key, Quantity};
use super::{Entry, Location, Profile, ProfileError, Source, Value};

const SOURCES: &str = "published, fitted, chosen, measured or assumed";

pub(super) fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
    let file = File { name, text };
    let document = DeTable::parse(text).map_err(|source| {
        let location = file.location(source.span().unwrap_or_default());
        ProfileError::Toml { location, source: Box::new(source) }
    })?;
    let mut about = String::new();
    let mut entries = BTreeMap::new();
    for (table, content) in document.get_ref() {
        if table.get_ref() == "about" {
            let wanted = || "a line of text, for example about = \"16 GB card\"".to_owned();
            let line = content.get_ref().as_str().ok_or_else(|| file.form("about", content, wanted()))?;
            about = line.to_owned();
            continue;
        }
        let DeValue::Table(content) = content.get_ref() else {
            return Err(file.unknown(table.get_ref(), table.span()));
        };
        for (key, value) in content {
            let path = format!("{}.{}", table.get_ref(), key.get_ref());
            let known = schema::find(&path).ok_or_else(|| file.unknown(&path, key.span()))?;
            entries.insert(known.path, file.entry(known, value)?);
        }
    }
    Ok(Profile { name: name.to_owned(), about, entries })
}

/// A profile's text, and the profile's name for errors.
struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn location(&self, at: Range<usize>) -> Location {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        Location { profile: self.name.to_owned(), line: Some(1 + before.matches('\n').count()) }
    }

    fn unknown(&self, key: &str, at: Range<usize>) -> ProfileError {
        ProfileError::UnknownKey {
            location: self.location(at),
            key: key.to_owned(),
            nearest: schema::nearest(key),
        }
    }

    /// Returns the error that `value` does not have the form `wanted`.
    fn form(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: String) -> ProfileError {
        let written = self.text.get(value.span()).unwrap_or_default();
        ProfileError::Form {
            location: self.location(value.span()),
            key: key.to_owned(),
            problem: format!("it is `{written}`"),
            wanted,
        }
    }

    fn entry(&self, key: &'static Key, entry: &Spanned<DeValue<'_>>) -> Result<Entry, ProfileError> {
        let wrong = |problem: String, wanted: String| ProfileError::Form {
            location: self.location(entry.span()),
            key: key.path.to_owned(),
            problem,
            wanted,
        };
        let DeValue::Table(fields) = entry.get_ref() else {
            return Err(self.form(key.path, entry, for_example(key)));
        };
        let mut value = None;
        let mut source = None;
        let mut to = String::new();
        for (name, content) in fields {
            match (name.get_ref().as_ref(), content.get_ref()) {
                ("source", DeValue::String(text)) => {
                    let known = Source::ALL.into_iter().find(|source| source.name() == text);
                    source = Some(known.ok_or_else(|| {
                        wrong(format!("`{text}` is not a source"), format!("`source` as {SOURCES}"))
                    })?);
                }
                ("to", DeValue::String(text)) => to = text.clone().into_owned(),
                ("value", written) => {
                    value = Some(read_value(key, written).ok_or_else(|| {
                        let written = self.text.get(content.span()).unwrap_or_default();
                        wrong(format!("`value = {written}` is not {}", noun(key.quantity)), for_example(key))
                    })?);
                }
                (name, _) => {
                    return Err(wrong(format!("`{name}` is not one of value, source, to"), for_example(key)));
                }
            }
        }
        let value = value.ok_or_else(|| wrong("it has no value".to_owned(), for_example(key)))?;
        let source = source
            .ok_or_else(|| wrong("`source` is missing".to_owned(), format!("`source` as {SOURCES}")))?;
        if source != Source::Assumed && to.is_empty() {
            let wanted = format!("`to` with a text: how or where the value was {}", source.name());
            return Err(wrong("`to` is missing".to_owned(), wanted));
        }
        if let Value::Number(number) = value {
            check_range(&self.location(entry.span()), key, number)?;
        }
        Ok(Entry { value, source, to })
    }
}

/// Reads the value of an entry; `None` if it does not fit the key.
fn read_value(key: &Key, written: &DeValue<'_>) -> Option<Value> {
    match (key.quantity, written) {
        (Quantity::Word(words), DeValue::String(text)) => {
            words.iter().find(|word| *word == text).map(|word| Value::Word(word))
        }
        (Quantity::Count, DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Number)
        }
        (quantity, DeValue::String(text)) => quantity.read(text).map(Value::Number),
        _ => None,
    }
}

/// Reads a value from text without quotation marks.
pub(super) fn parse_value(location: &Location, key: &'static Key, text: &str) -> Result<Value, ProfileError> {
    let value = match key.quantity {
        Quantity::Word(words) => words.iter().find(|word| **word == text).map(|word| Value::Word(word)),
        Quantity::Count => text.parse().ok().map(Value::Number),
        quantity => quantity.read(text).map(Value::Number),
    };
    let value = value.ok_or_else(|| ProfileError::Form {
        location: location.clone(),
        key: key.path.to_owned(),
        problem: format!("`{text}` is not {}", noun(key.quantity)),
        wanted: typical_text(key),
    })?;
    if let Value::Number(number) = value {
        check_range(location, key, number)?;
    }
    Ok(value)
}

fn noun(quantity: Quantity) -> String {
    match quantity {
        Quantity::Duration => "a time in ns, us, ms or s".to_owned(),
        Quantity::Size => "a size in B, KiB, MiB, GiB, kB, MB or GB".to_owned(),
        Quantity::Rate => "a rate in MB/s".to_owned(),
        Quantity::Share => "a share in %".to_owned(),
        Quantity::Count => "a number".to_owned(),
        Quantity::Word(words) => format!("one of {}", words.join(", ")),
    }
}

fn for_example(key: &Key) -> String {
    format!("for example {}", example(key))
}

/// Returns an example line for a key.
pub(super) fn example(key: &Key) -> String {
    let value = match key.quantity {
        Quantity::Count => typical_text(key),
        _ => quoted(&typical_text(key)),
    };
    let name = key.path.split_once('.').map_or(key.path, |(_, name)| name);
    format!("{name} = {{ value = {value}, source = \"assumed\" }}")
}

/// Returns an example of a value, without quotation marks.
fn typical_text(key: &Key) -> String {
    let typical = match key.quantity {
        Quantity::Word(words) => return words[0].to_owned(),
        Quantity::Duration => 5_000,
        Quantity::Size => 16 << 10,
        Quantity::Rate => 20_000_000,
        Quantity::Share => 7_000,
        Quantity::Count => 4,
    };
    let typical = typical.clamp(key.min, key.max);
    match key.quantity {
        Quantity::Count => typical.to_string(),
        quantity => quantity.written(typical),
    }
}

fn number_text(quantity: Quantity, number: u64) -> String {
    match quantity {
        Quantity::Count => number.to_string(),
        _ => quoted(&quantity.written(number)),
    }
}

pub(super) fn check_range(location: &Location, key: &'static Key, number: u64) -> Result<(), ProfileError> {
    if let Quantity::Word(_) = key.quantity {
        return Err(ProfileError::Form {
            location: location.clone(),
            key: key.path.to_owned(),
            problem: format!("`{number}` is not {}", noun(key.quantity)),
            wanted: for_example(key),
        });
    }
    if !(key.min..=key.max).contains(&number) {
        return Err(ProfileError::Range { location: location.clone(), key, value: number });
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
            Value::Word(word) => quoted(word),
            Value::Number(number) => number_text(key.quantity, *number),
        };
        let to = if entry.to.is_empty() { String::new() } else { format!(", to = {}", quoted(&entry.to)) };
        out.push_str(&format!("{name} = {{ value = {value}, source = \"{}\"{to} }}\n", entry.source.name()));
    }
    out
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
