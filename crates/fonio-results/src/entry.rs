//! Converts a submission into the form in which the service stores it: comparison key, device, ranked figures
//! and compressed document.

use fonio_storebench_document::document::{Document, Origin};
use fonio_storebench_document::plausibility;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::store::content;
use crate::{compression, figures};

/// Placeholder for a manufacturer that the device does not report.
pub const UNKNOWN_MAKER: &str = "unknown manufacturer";

/// A submission in the form in which it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The comparison key of the result.
    pub key: Key,
    /// The device that was measured.
    pub device: DeviceRevision,
    /// Why the result is hidden; `None` for a result that is not hidden.
    pub hidden_reason: Option<String>,
    /// The ranked figures that were measured, each as its index in [`figures::ranked`] and its value.
    pub figures: Vec<(usize, f64)>,
    /// The hash of the measurement, which tells whether the result was sent before.
    pub content_hash: Vec<u8>,
    /// The compressed document.
    pub document: Vec<u8>,
}

/// A comparison key with its texts for pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Key {
    /// The key's name in the parameter `key`: `v1.full.directory.ext4.32gb`; for generated results,
    /// `model.v1.…`.
    #[serde(rename = "key")]
    pub name: String,
    /// The version and effort of the test: `1 (full)`.
    pub test_version: String,
    /// The file system.
    pub file_system: String,
    /// The mode of the test, and whether the result was generated.
    pub mode: String,
    /// The size class: `32 GB`.
    pub size_class: String,
}

/// A device model and its revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceRevision {
    /// The name of the model in URLs.
    pub slug: String,
    /// The name of the revision in URLs.
    pub revision_slug: String,
    /// The kind of the device, such as `SD card`.
    pub kind: String,
    /// The manufacturer's name or id.
    pub maker: String,
    /// The name of the device model.
    pub model: String,
    /// The revision of the device's hardware and firmware.
    pub revision: String,
}

impl Entry {
    /// Converts a checked document that was received at `now_unix_s`.
    pub fn new(document: &Document, now_unix_s: u64) -> Entry {
        let json = serde_json::to_string(document).expect("a document is JSON");
        Entry::of_json(document, &json, now_unix_s)
    }

    /// Does the same as [`Entry::new`], but takes the document's JSON from the caller.
    pub(crate) fn of_json(document: &Document, json: &str, now_unix_s: u64) -> Entry {
        Entry {
            key: key(document),
            device: device(document),
            hidden_reason: plausibility::reason_to_hide(document, now_unix_s),
            figures: ranked_figures(document),
            content_hash: content::hash(document),
            document: compression::compress(json.as_bytes()),
        }
    }
}

/// Returns the ranked figures of a document, each as its index and value.
pub fn ranked_figures(document: &Document) -> Vec<(usize, f64)> {
    let of = |(at, figure): (usize, &figures::Ranked)| Some((at, document.value(&figure.name)?.value));
    figures::ranked().iter().enumerate().filter_map(of).collect()
}

/// Prefixes of comparison keys of generated results.
const EMULATED: &str = "emulated.";
const MODEL: &str = "model.";

/// Returns whether results with the key of this name were generated.
pub fn is_generated(key: &str) -> bool {
    key.starts_with(EMULATED) || key.starts_with(MODEL)
}

/// Returns the comparison key of a document. Generated results have separate keys, so they are never ranked
/// among measured results.
pub fn key(document: &Document) -> Key {
    use fonio_storebench_document::document::{Effort, Mode};
    let key = &document.key;
    let (prefix, origin) = match document.origin {
        Origin::Measured => ("", ""),
        Origin::Emulated => (EMULATED, " on an emulated device"),
        Origin::Model => (MODEL, " in a model"),
    };
    let effort = match key.effort {
        Effort::Full => "full",
        Effort::Quick => "quick",
    };
    let mode = match key.mode {
        Mode::Directory => "directory",
        Mode::DeviceReadOnly => "device, only read",
        Mode::Device => "device",
    };
    Key {
        name: format!("{prefix}{key}"),
        test_version: format!("{} ({effort})", key.test_version),
        file_system: key.file_system.clone(),
        mode: format!("{mode}{origin}"),
        size_class: format!("{} GB", key.size_class_gb),
    }
}

/// Returns the model and revision of the device that a document describes.
pub fn device(document: &Document) -> DeviceRevision {
    let device = &document.device;
    let kind = device.kind.label().to_owned();
    let maker = match (&device.manufacturer, &device.manufacturer_id, &device.oem_id) {
        (Some(name), ..) => name.clone(),
        (None, Some(id), Some(oem)) => format!("manufacturer {id}, for {oem}"),
        (None, Some(id), None) => format!("manufacturer {id}"),
        (None, None, _) => UNKNOWN_MAKER.to_owned(),
    };
    let model = device.model.clone().unwrap_or_else(|| "unknown model".to_owned());
    let revision = match (&device.hardware, &device.firmware) {
        (Some(hardware), Some(firmware)) => format!("hardware {hardware}, firmware {firmware}"),
        (Some(hardware), None) => format!("hardware {hardware}"),
        (None, Some(firmware)) => format!("firmware {firmware}"),
        (None, None) => "unknown revision".to_owned(),
    };
    DeviceRevision {
        slug: slug(&[&kind, &maker, &model]),
        revision_slug: slug(&[&revision]),
        kind,
        maker,
        model,
        revision,
    }
}

/// Returns the text of a value that serializes to a string, such as a unit. Panics if the value does not
/// serialize to a string.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => panic!("the value is not serialised as a text: {other:?}"),
    }
}

/// Returns a name for use in URLs: the texts in lower-case letters, digits and hyphens. Different texts could
/// give the same name, so six digits of a hash are appended.
fn slug(texts: &[&str]) -> String {
    const LETTERS_MAX: usize = 60;
    let mut letters = String::new();
    for letter in texts.join(" ").chars() {
        if letter.is_ascii_alphanumeric() {
            letters.push(letter.to_ascii_lowercase());
        } else if !letters.is_empty() && !letters.ends_with('-') {
            letters.push('-');
        }
    }
    letters.truncate(LETTERS_MAX);
    let hash = Sha256::digest(texts.join("\0").as_bytes());
    format!("{}-{:02x}{:02x}{:02x}", letters.trim_end_matches('-'), hash[0], hash[1], hash[2])
}

/// Returns whether a text is a valid name for use in URLs.
pub fn is_slug(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() < 80 && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fonio_storebench_document::sample;

    #[test]
    fn keys_tell_generated_results_apart() {
        let mut document = sample::document();
        let measured = key(&document);
        assert_eq!(measured.name, "v1.full.directory.ext4.32gb");
        document.origin = Origin::Model;
        assert_eq!(key(&document).name, "model.v1.full.directory.ext4.32gb");
        document.origin = Origin::Emulated;
        assert_eq!(key(&document).name, "emulated.v1.full.directory.ext4.32gb");
    }

    #[test]
    fn slugs_differ_where_names_differ() {
        assert_eq!(slug(&["SD card", "a b"]), slug(&["SD card", "a b"]));
        assert_ne!(slug(&["SD card", "a b"]), slug(&["SD card", "a-b"]));
        for name in ["<script>", "../..", "日本", "", &"x".repeat(500)] {
            let slug = slug(&[name]);
            assert!(is_slug(&slug), "{slug}");
        }
    }
}
