//! Profiles as text.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{self, EXACT_MAX, Key, Quantity};
use super::{Entry, Place, Profile, ProfileError, Source, Value};

const SOURCES: &str = "published, fitted, chosen, measured or assumed";

pub(super) fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
    let file = File { name, text };
    let document = DeTable::parse(text).map_err(|source| {
        let place = file.place(source.span().unwrap_or_default());
        ProfileError::Toml { place, source: Box::new(source) }
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

/// A profile's text, and its name in errors.
struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn place(&self, at: Range<usize>) -> Place {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        Place { profile: self.name.to_owned(), line: Some(1 + before.matches('\n').count()) }
    }

    fn unknown(&self, key: &str, at: Range<usize>) -> ProfileError {
        ProfileError::UnknownKey {
            place: self.place(at),
            key: key.to_owned(),
            nearest: schema::nearest(key).map(str::to_owned),
        }
    }

    /// The error that `value` is not of the form `wanted`.
    fn form(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: String) -> ProfileError {
        let written = self.text.get(value.span()).unwrap_or_default();
        ProfileError::Form {
            place: self.place(value.span()),
            key: key.to_owned(),
            problem: format!("it is `{written}`"),
            wanted,
        }
    }

    fn entry(&self, key: &'static Key, entry: &Spanned<DeValue<'_>>) -> Result<Entry, ProfileError> {
        let wrong = |problem: String, wanted: String| ProfileError::Form {
            place: self.place(entry.span()),
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
                (_, _) if value.is_some() => {
                    return Err(wrong("it has more than one value".to_owned(), for_example(key)));
                }
                (name, written) => {
                    value = Some(read_value(key, name, written).ok_or_else(|| {
                        let written = self.text.get(content.span()).unwrap_or_default();
                        wrong(format!("`{name} = {written}` is not {}", noun(key.quantity)), for_example(key))
                    })?);
                }
            }
        }
        let value = value.ok_or_else(|| wrong("it has no value".to_owned(), for_example(key)))?;
        let source = source
            .ok_or_else(|| wrong("`source` is missing".to_owned(), format!("`source` as {SOURCES}")))?;
        if source != Source::Assumed && to.is_empty() {
            let wanted = format!("`to`, which says how or where the value was {}", source.name());
            return Err(wrong("`to` is missing".to_owned(), wanted));
        }
        if let Value::Number(number) = value {
            check_range(&self.place(entry.span()), key, number)?;
        }
        Ok(Entry { value, source, to })
    }
}

/// Reads the field of an entry that holds its value; `None` if it does not fit the key.
fn read_value(key: &Key, name: &str, written: &DeValue<'_>) -> Option<Value> {
    match (key.quantity, written) {
        (Quantity::Word(words), DeValue::String(text)) if matches!(name, "value" | "is") => {
            words.iter().find(|word| *word == text).map(|word| Value::Word(word))
        }
        (Quantity::Word(_), _) => None,
        (Quantity::Count, number) if name == "value" => in_units_of(number, 1).map(Value::Number),
        (quantity, DeValue::String(text)) if name == "value" => quantity.read(text).map(Value::Number),
        (quantity, number) => {
            let unit = quantity.units().iter().find(|unit| unit.field == name)?;
            in_units_of(number, unit.worth).map(Value::Number)
        }
    }
}

/// `number` times `worth`; `None` if it is not a number, negative or not exact.
fn in_units_of(number: &DeValue<'_>, worth: u64) -> Option<u64> {
    match number {
        DeValue::Integer(integer) => {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            u64::try_from(whole).ok()?.checked_mul(worth)
        }
        DeValue::Float(float) => {
            let exact = float.as_str().parse::<f64>().ok()? * worth as f64;
            (0.0..EXACT_MAX).contains(&exact).then_some((exact + 0.5) as u64)
        }
        _ => None,
    }
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

/// A line of a profile for a key, as an example.
pub(super) fn example(key: &Key) -> String {
    let value = match key.quantity {
        Quantity::Word(words) => quoted(words[0]),
        quantity => {
            let typical = match quantity {
                Quantity::Duration => 5_000,
                Quantity::Size => 16 << 10,
                Quantity::Rate => 20_000_000,
                Quantity::Share => 7_000,
                Quantity::Count | Quantity::Word(_) => 4,
            };
            number_text(quantity, typical.clamp(key.min, key.max))
        }
    };
    let name = key.path.split_once('.').map_or(key.path, |(_, name)| name);
    format!("{name} = {{ value = {value}, source = \"assumed\" }}")
}

fn number_text(quantity: Quantity, number: u64) -> String {
    match quantity {
        Quantity::Count => number.to_string(),
        _ => quoted(&quantity.written(number)),
    }
}

pub(super) fn check_range(place: &Place, key: &'static Key, number: u64) -> Result<(), ProfileError> {
    if let Quantity::Word(_) = key.quantity {
        return Err(ProfileError::Form {
            place: place.clone(),
            key: key.path.to_owned(),
            problem: format!("`{number}` is not {}", noun(key.quantity)),
            wanted: for_example(key),
        });
    }
    if !(key.min..=key.max).contains(&number) {
        return Err(ProfileError::Range { place: place.clone(), key, value: number });
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
