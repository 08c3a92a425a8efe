//! Checks a document: the units and ranges of its figures, the lengths of its texts, and whether a text looks
//! private, such as a path, a serial number, a host name or an address.

use std::collections::BTreeMap;
use std::fmt;

use fonio_core::untrusted::is_foreign;
use schemars::JsonSchema;
use serde::Serialize;

use crate::classes::CLASSES;
use crate::document::{
    APPS_MAX, CURVE_POINTS_MAX, CapacityCheck, ClassVerdict, Document, JSON_BYTES_MAX, Key, Measure, Mode,
    SCHEMA, SENTENCE_MAX, SIZE_CLASS_MAX_GB, TEST_VERSION, TEXT_MAX, Value, size_class_gb,
};
use crate::figures::{self, CatalogueFigure};

/// A mistake in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Place")]
pub struct Problem {
    /// The field in the document: `figures.bandwidth.seq_read.value`; empty for the document itself.
    pub path: String,
    /// The problem as a sentence.
    pub sentence: String,
}

impl Problem {
    /// Creates the description of a problem with one field.
    pub fn new(path: impl Into<String>, sentence: impl Into<String>) -> Problem {
        Problem { path: path.into(), sentence: sentence.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.sentence)
        } else {
            write!(f, "{}: {}", self.path, self.sentence)
        }
    }
}

const PROBLEMS_MAX: usize = 20;

/// Maximum accepted duration of a run in seconds. This is generous: a run takes at most ten minutes, and a
/// continued run takes only slightly longer.
const TOOK_S_MAX: f64 = 3600.0;

/// The earliest accepted start time: 2020-01-01, before StoreBench existed.
const BEGAN_MIN_UNIX_S: u64 = 1_577_836_800;

/// Maximum plausible capacity and maximum plausible amount of written data: a thousand TB.
const BYTES_MAX: u64 = 1_000_000_000_000_000;

const OPTIONS_MAX: usize = 32;
const NOTES_MAX: usize = 40;

impl Document {
    /// Checks ranges, units and lengths. Returns the problems; there are none for a valid document. Serde has
    /// already refused unknown keys.
    pub fn check(&self) -> Vec<Problem> {
        let mut checker = Checker { problems: Vec::new() };
        checker.document(self);
        checker.problems.truncate(PROBLEMS_MAX);
        checker.problems
    }

    /// Reads a document. Refuses a document that exceeds [`JSON_BYTES_MAX`] or has problems according to
    /// [`Document::check`]. Returns the problems, each with its field and a sentence.
    pub fn parse(json: &[u8]) -> Result<Document, Vec<Problem>> {
        if json.len() > JSON_BYTES_MAX {
            return Err(vec![Problem::new(
                "",
                format!("the document has {} bytes; at most {JSON_BYTES_MAX} are allowed", json.len()),
            )]);
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|error| vec![Problem::new("", error.to_string())])?;
        let problems = document.check();
        if problems.is_empty() { Ok(document) } else { Err(problems) }
    }
}

struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    fn document(&mut self, document: &Document) {
        if document.schema != SCHEMA {
            self.refuse(
                "schema",
                format!("the schema is not {SCHEMA}, the only one that this program can read"),
            );
        }
        self.text("tool", &document.tool);
        self.text("engine", &document.engine);
        self.sentence("verdict", &document.verdict, 2 * SENTENCE_MAX);
        if document.began_unix_s < BEGAN_MIN_UNIX_S || document.began_unix_s > BYTES_MAX {
            self.refuse("began_unix_s", "the start time is before 2020 or far in the future; set the clock");
        }
        self.number("took_s", document.took_s, 0.0, TOOK_S_MAX);
        self.key(&document.key, document.device.capacity_bytes);
        self.device(document);
        self.machine(document);
        self.figures(&document.figures);
        self.curve_and_launches(document);
        self.capacity(&document.capacity_check);
        self.classes(&document.classes);
        if let Some(health) = &document.health {
            for (name, life) in [
                ("life_used_percent", health.life_used_percent),
                ("life_used_b_percent", health.life_used_b_percent),
            ] {
                // 110 % stands for 0x0B: the device has exceeded its lifetime.
                self.number(&format!("health.{name}"), f64::from(life.unwrap_or(0)), 0.0, 110.0);
            }
            self.optional("health.reserved_blocks", health.reserved_blocks.as_ref());
        }
        if document.written_bytes > BYTES_MAX {
            self.refuse("written_bytes", format!("the number is above the limit of {BYTES_MAX} bytes"));
        }
        if document.notes.len() > NOTES_MAX {
            self.refuse("notes", format!("at most {NOTES_MAX} notes are allowed"));
        }
        for (at, note) in document.notes.iter().enumerate().take(NOTES_MAX) {
            self.length(&format!("notes[{at}]"), note, SENTENCE_MAX);
        }
    }

    fn key(&mut self, key: &Key, capacity_bytes: u64) {
        if key.test_version == 0 || key.test_version > TEST_VERSION {
            self.refuse("key.test_version", format!("the test version must be between 1 and {TEST_VERSION}"));
        }
        self.text("key.file_system", &key.file_system);
        let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if key.file_system.is_empty() || key.file_system.len() > 16 || !key.file_system.chars().all(is_word) {
            self.refuse("key.file_system", "a file system name has up to 16 lower-case letters and digits");
        }
        if (key.mode == Mode::Directory) == (key.file_system == "none") {
            self.refuse("key.file_system", "a directory needs a file system, and a raw device needs `none`");
        }
        if !key.size_class_gb.is_power_of_two() || key.size_class_gb > SIZE_CLASS_MAX_GB {
            self.refuse(
                "key.size_class_gb",
                format!("a size class is a power of two up to {SIZE_CLASS_MAX_GB}"),
            );
        } else if key.size_class_gb != size_class_gb(capacity_bytes) {
            self.refuse(
                "key.size_class_gb",
                format!("the capacity belongs to the size class {}", size_class_gb(capacity_bytes)),
            );
        }
    }

    fn device(&mut self, document: &Document) {
        let device = &document.device;
        for (name, text) in [
            ("model", &device.model),
            ("manufacturer", &device.manufacturer),
            ("manufacturer_id", &device.manufacturer_id),
            ("oem_id", &device.oem_id),
            ("firmware", &device.firmware),
            ("hardware", &device.hardware),
            ("made", &device.made),
            ("bus", &device.bus),
            ("scheduler", &device.scheduler),
        ] {
            self.optional(&format!("device.{name}"), text.as_ref());
        }
        if device.capacity_bytes == 0 || device.capacity_bytes > BYTES_MAX {
            self.refuse(
                "device.capacity_bytes",
                format!("a capacity must be between 1 and {BYTES_MAX} bytes"),
            );
        }
        if let Some(limit) = device.bus_limit_mb_s {
            self.number("device.bus_limit_mb_s", limit, 0.1, 1e6);
        }
    }

    fn machine(&mut self, document: &Document) {
        let machine = &document.machine;
        for (name, text) in [
            ("board", &machine.board),
            ("cpu", &machine.cpu),
            ("distribution", &machine.distribution),
            ("encryption", &machine.encryption),
            ("compression", &machine.compression),
        ] {
            self.optional(&format!("machine.{name}"), text.as_ref());
        }
        self.text("machine.kernel", &machine.kernel);
        self.number("machine.cpus", f64::from(machine.cpus.unwrap_or(1)), 1.0, 65_536.0);
        if machine.mount_options.len() > OPTIONS_MAX {
            self.refuse("machine.mount_options", format!("at most {OPTIONS_MAX} options are allowed"));
        }
        for (at, option) in machine.mount_options.iter().enumerate().take(OPTIONS_MAX) {
            self.text(&format!("machine.mount_options[{at}]"), option);
        }
    }

    fn figures(&mut self, figures: &BTreeMap<String, Measure>) {
        let catalogue = figures::by_name();
        for name in figures.keys() {
            if !catalogue.contains_key(name) {
                let name: String = name.chars().take(TEXT_MAX).collect();
                self.refuse(
                    "figures",
                    format!("`{}` is not in the catalogue of figures", name.escape_debug()),
                );
            }
        }
        for figure in catalogue.values() {
            let path = || format!("figures.{}", figure.name);
            match figures.get(&figure.name) {
                None => self.refuse(path(), "the figure is missing; say why it was not measured"),
                Some(Measure::NotMeasured(reason)) => self.sentence(&path(), reason, SENTENCE_MAX),
                Some(Measure::Measured(value)) => self.value(&path, figure, value),
            }
        }
    }

    fn value(&mut self, path: &dyn Fn() -> String, figure: &CatalogueFigure, value: &Value) {
        if value.unit != figure.unit {
            self.refuse(format!("{}.unit", path()), "the unit differs from the unit in the catalogue");
        }
        for (name, number) in [("value", value.value), ("low", value.low), ("high", value.high)] {
            if !is_within(number, figure.min, figure.max) {
                self.number(&format!("{}.{name}", path()), number, figure.min, figure.max);
            }
        }
        if !(value.low <= value.value && value.value <= value.high) {
            self.refuse(path(), "the value is outside its interval");
        }
        if value.runs == 0 || value.runs > 10_000 {
            self.refuse(format!("{}.runs", path()), "a measured figure must have 1 to 10000 runs");
        }
    }

    fn curve_and_launches(&mut self, document: &Document) {
        if let Some(curve) = &document.sustained_curve {
            self.number("sustained_curve.interval_s", curve.interval_s, 0.001, 600.0);
            if curve.mb_s.len() > CURVE_POINTS_MAX {
                self.refuse("sustained_curve.mb_s", format!("at most {CURVE_POINTS_MAX} points are allowed"));
            }
            for (at, rate) in curve.mb_s.iter().enumerate().take(CURVE_POINTS_MAX) {
                // Format the name of the field only for an invalid rate, because most rates are valid.
                if !is_within(*rate, 0.0, 32_000.0) {
                    self.number(&format!("sustained_curve.mb_s[{at}]"), *rate, 0.0, 32_000.0);
                }
            }
        }
        if document.launches.len() > APPS_MAX {
            self.refuse("launches", format!("at most {APPS_MAX} apps are allowed"));
        }
        for (at, launch) in document.launches.iter().enumerate().take(APPS_MAX) {
            self.text(&format!("launches[{at}].app"), &launch.app);
            self.number(&format!("launches[{at}].cold_ms"), launch.cold_ms, 0.0, 600_000.0);
            self.number(&format!("launches[{at}].warm_ms"), launch.warm_ms, 0.0, 600_000.0);
        }
    }

    fn capacity(&mut self, check: &CapacityCheck) {
        match check {
            CapacityCheck::Genuine { checked_bytes, .. } => {
                if *checked_bytes == 0 || *checked_bytes > BYTES_MAX {
                    self.refuse("capacity_check.checked_bytes", "a genuine device must have checked bytes");
                }
            }
            CapacityCheck::Fake { reason, checked_bytes, lost_bytes } => {
                self.sentence("capacity_check.reason", reason, SENTENCE_MAX);
                if *lost_bytes == 0 || lost_bytes > checked_bytes || *checked_bytes > BYTES_MAX {
                    self.refuse(
                        "capacity_check.lost_bytes",
                        "a fake device must have lost some of the checked bytes",
                    );
                }
            }
            CapacityCheck::NotChecked { reason } => {
                self.sentence("capacity_check.reason", reason, SENTENCE_MAX);
            }
        }
    }

    fn classes(&mut self, classes: &BTreeMap<String, ClassVerdict>) {
        for (name, verdict) in classes {
            if !CLASSES.iter().any(|class| class.name == name) {
                let name: String = name.chars().take(TEXT_MAX).collect();
                self.refuse("classes", format!("`{}` is not an SD class", name.escape_debug()));
            }
            if let ClassVerdict::NotMet(reason) | ClassVerdict::NotMeasured(reason) = verdict {
                self.sentence(&format!("classes.{name}"), reason, SENTENCE_MAX);
            }
        }
        for class in CLASSES.iter().filter(|class| !classes.contains_key(class.name)) {
            self.refuse(format!("classes.{}", class.name), "the class is missing");
        }
    }

    fn refuse(&mut self, path: impl Into<String>, sentence: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem::new(path, sentence));
        }
    }

    fn number(&mut self, path: &str, value: f64, min: f64, max: f64) {
        if !is_within(value, min, max) {
            self.refuse(path, format!("{value} is out of range; it must be between {min} and {max}"));
        }
    }

    fn optional(&mut self, path: &str, text: Option<&String>) {
        if let Some(text) = text {
            self.text(path, text);
        }
    }

    /// Checks a text that must be a name or a number.
    fn text(&mut self, path: &str, text: &str) {
        if text.trim().is_empty() {
            self.refuse(path, "the text is empty; omit the key");
        }
        self.sentence(path, text, TEXT_MAX);
    }

    /// Checks whether a text may be published.
    fn sentence(&mut self, path: &str, text: &str, chars_max: usize) {
        self.length(path, text, chars_max);
        if let Some(found) = private(text) {
            self.refuse(path, format!("the text has {found}, which must not leave the machine"));
        }
    }

    fn length(&mut self, path: &str, text: &str, chars_max: usize) {
        if text.chars().count() > chars_max {
            self.refuse(path, format!("the text is longer than {chars_max} characters"));
        } else if text.contains(is_foreign) {
            self.refuse(path, "the text has control characters");
        }
    }
}

fn is_within(value: f64, min: f64, max: f64) -> bool {
    value.is_finite() && min <= value && value <= max
}

/// Minimum number of digits of a suspected serial number. The longest harmless number in a result is a size
/// in bytes.
const SERIAL_DIGITS: usize = 16;

/// Finds text that looks like a path, an address, or a serial number.
pub fn private(text: &str) -> Option<&'static str> {
    let is_separator = |letter: char| {
        letter.is_whitespace() || matches!(letter, ',' | ';' | '(' | ')' | '"' | '\'' | '`' | '=')
    };
    for word in text.split(is_separator) {
        let slashes = word.matches('/').count();
        if word.contains("://") || word.starts_with("www.") {
            return Some("a web address");
        }
        if (word.len() > 1 && word.starts_with('/'))
            || word.starts_with("~/")
            || slashes > 2
            || word.contains(":\\")
        {
            return Some("a path");
        }
        if word.contains('@') && word.len() > 2 {
            return Some("an e-mail address");
        }
        let hex = word.trim_start_matches("0x");
        let is_hex = hex.chars().all(|letter| letter.is_ascii_hexdigit() || matches!(letter, '-' | ':'));
        let digits = hex.chars().filter(char::is_ascii_hexdigit).count();
        if is_hex && (digits >= SERIAL_DIGITS || hex.matches(':').count() >= 5) {
            return Some("a number that looks like a serial number");
        }
        if word.matches('.').count() == 3 && word.split('.').all(|part| part.parse::<u8>().is_ok()) {
            return Some("an IP address");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use fonio_testing::cases::lines;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::models;
    use crate::submission::{DAY_S, Submission};

    fn leaves(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| leaves(field, &format!("{path}/{name}"), found));
            }
            serde_json::Value::Array(entries) => {
                entries
                    .iter()
                    .enumerate()
                    .for_each(|(at, entry)| leaves(entry, &format!("{path}/{at}"), found));
            }
            _ => found.push(path.to_owned()),
        }
    }

    fn odd_value() -> impl Strategy<Value = serde_json::Value> {
        prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            Just(serde_json::json!(1e300)),
            "[ -~]{0,80}".prop_map(Into::into),
            Just(serde_json::json!({"value": 1})),
            Just(serde_json::json!(["a\u{7}", "b"])),
        ]
    }

    proptest! {
        /// Puts any value into any field of a document. The document must either be accepted, or be refused
        /// with a sentence. An accepted document must stay equal when it is written and read again, and must
        /// pass a second check.
        #[test]
        fn odd_values_are_read_or_refused(place in any::<prop::sample::Index>(), odd in odd_value()) {
            static MODEL: LazyLock<serde_json::Value> =
                LazyLock::new(|| serde_json::to_value(models::shipped().swap_remove(0)).expect("JSON"));
            let mut value = MODEL.clone();
            let mut places = Vec::new();
            leaves(&value, "", &mut places);
            let place = &places[place.index(places.len())];
            *value.pointer_mut(place).expect("it was found") = odd;
            let json = serde_json::to_vec(&value).expect("JSON");
            match Document::parse(&json) {
                Ok(document) => {
                    prop_assert!(document.check().is_empty());
                    let again = Document::parse(&serde_json::to_vec(&document).expect("JSON"));
                    prop_assert_eq!(again.as_ref().map(|again| &again.device), Ok(&document.device));
                    let submission = Submission::of(&document);
                    prop_assert!(submission.is_ok_and(|sent| sent.notes.is_empty() && sent.began_unix_s % DAY_S == 0));
                }
                Err(problems) => prop_assert!(problems.iter().all(|problem| !problem.sentence.is_empty())),
            }
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Document::parse(&bytes).is_err());
        }
    }

    #[test]
    fn a_text_that_reorders_a_page_is_refused() {
        let mut document = models::shipped().swap_remove(0);
        document.device.model = Some("fast\u{202e}card".to_owned());
        let problems = document.check();
        assert!(problems.iter().any(|problem| problem.sentence == "the text has control characters"));
    }

    #[test]
    fn a_large_document_is_refused_before_it_is_read() {
        let problems = Document::parse(&vec![b' '; JSON_BYTES_MAX + 1]).expect_err("it is too large");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].sentence.contains("at most 65536 are allowed"));
    }

    #[test]
    fn private_texts_are_found() {
        let file = expect_test::expect_file!["check_texts.txt"];
        file.assert_eq(&lines(&file.data(), |text| private(text).unwrap_or("-").to_owned()));
    }
}
