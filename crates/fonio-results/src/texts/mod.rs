//! Decides which texts of a document may be published without review.
//!
//! A text that a client sent can identify a person or a machine in more ways than a filter can recognise: a
//! host name, a serial number or an encoded address looks like a model's name. Therefore, the rules are
//! positive. A text is known if `data/texts` lists it or has a pattern for it, if it is a sentence of fonio's
//! own words (`sentences`), or if the operator has accepted it. All other texts are unknown, and a document
//! with an unknown text waits for review.

mod lists;
mod sentences;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use fonio_core::DeviceKind;
use fonio_storebench_document::document::{CapacityCheck, ClassVerdict, Document, Measure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text that waits for review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UnknownText {
    /// The field of the document: `device.model`.
    pub field: String,
    /// The text in this field.
    pub text: String,
}

/// The texts that the operator has accepted, each with its field. All clones share the texts.
#[derive(Clone, Debug, Default)]
pub struct Accepted(Arc<RwLock<HashSet<UnknownText>>>);

impl Accepted {
    /// Adds accepted texts.
    pub fn add(&self, texts: impl IntoIterator<Item = UnknownText>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(texts);
    }

    pub(crate) fn contains(&self, text: &UnknownText) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(text)
    }
}

/// Returns the texts of a document that are neither known nor accepted.
pub fn unknown(document: &Document, accepted: &Accepted) -> Vec<UnknownText> {
    let mut finder = Finder { kind: document.device.kind, accepted, found: Vec::new() };
    finder.document(document);
    finder.found
}

/// The field of [`withheld`], which no list and no decision accepts.
pub const WITHHELD: &str = "withheld by the operator";

/// Returns the entry that keeps a document held until the operator publishes this document itself. Its text is the
/// model of the device.
pub fn withheld(document: &Document) -> UnknownText {
    let text = document.device.model.clone().unwrap_or_else(|| "unknown model".to_owned());
    UnknownText { field: WITHHELD.to_owned(), text }
}

struct Finder<'a> {
    kind: DeviceKind,
    accepted: &'a Accepted,
    found: Vec<UnknownText>,
}

impl Finder<'_> {
    /// Looks at every text of a document. A test checks that no text is left out.
    fn document(&mut self, document: &Document) {
        // `Document::check` compares the schema, and the names of figures and classes with those of the catalogue.
        let Document { tool, engine, key, device, machine, verdict, health, .. } = document;
        self.listed("tool", Some(tool));
        self.listed("engine", Some(engine));
        self.listed("key.file_system", Some(&key.file_system));
        for (field, text) in [
            ("device.model", &device.model),
            ("device.manufacturer", &device.manufacturer),
            ("device.manufacturer_id", &device.manufacturer_id),
            ("device.oem_id", &device.oem_id),
            ("device.firmware", &device.firmware),
            ("device.hardware", &device.hardware),
            ("device.made", &device.made),
            ("device.bus", &device.bus),
            ("device.scheduler", &device.scheduler),
            ("machine.board", &machine.board),
            ("machine.cpu", &machine.cpu),
            ("machine.distribution", &machine.distribution),
            ("machine.encryption", &machine.encryption),
            ("machine.compression", &machine.compression),
        ] {
            self.listed(field, text.as_ref());
        }
        self.listed("machine.kernel", Some(&machine.kernel));
        for option in &machine.mount_options {
            self.listed("machine.mount_options", Some(option));
        }
        for launch in &document.launches {
            self.listed("launches.app", Some(&launch.app));
        }
        self.listed(
            "health.reserved_blocks",
            health.as_ref().and_then(|health| health.reserved_blocks.as_ref()),
        );
        self.sentence("verdict", verdict);
        for (name, measure) in &document.figures {
            if let Measure::NotMeasured(reason) = measure {
                self.sentence(&format!("figures.{name}"), reason);
            }
        }
        for (name, verdict) in &document.classes {
            if let ClassVerdict::NotMet(reason) | ClassVerdict::NotMeasured(reason) = verdict {
                self.sentence(&format!("classes.{name}"), reason);
            }
        }
        match &document.capacity_check {
            CapacityCheck::Fake { reason, .. } | CapacityCheck::NotChecked { reason } => {
                self.sentence("capacity_check.reason", reason);
            }
            CapacityCheck::Genuine { .. } => {}
        }
        for note in &document.notes {
            self.note("notes", note);
        }
    }

    fn listed(&mut self, field: &str, text: Option<&String>) {
        if let Some(text) = text.filter(|text| !lists::has(field, self.kind, text)) {
            self.note(field, text);
        }
    }

    fn sentence(&mut self, field: &str, text: &str) {
        if !sentences::is_own(text) {
            self.note(field, text);
        }
    }

    fn note(&mut self, field: &str, text: &str) {
        let unknown = UnknownText { field: field.to_owned(), text: text.to_owned() };
        if !self.accepted.contains(&unknown) && !self.found.contains(&unknown) {
            self.found.push(unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_storebench_document::{models, sample};

    use super::*;

    #[test]
    fn fonios_own_results_need_no_review() {
        for document in models::shipped().iter().chain([&sample::document()]) {
            assert_eq!(unknown(document, &Accepted::default()), [], "{:?}", document.device.model);
        }
    }

    /// Replaces each text of a document in turn. A field that nothing looks at would let the text through.
    #[test]
    fn every_text_of_a_document_is_looked_at() {
        let mut full = sample::document();
        full.device.manufacturer_id = Some("0x000003".to_owned());
        full.machine.encryption = Some("dm-crypt".to_owned());
        full.machine.compression = Some("zstd:3".to_owned());
        full.health = Some(fonio_storebench_document::document::Health {
            reserved_blocks: Some("normal".to_owned()),
            ..Default::default()
        });
        let no_time = || "no time left".to_owned();
        full.figures.insert("cpu.active".to_owned(), Measure::NotMeasured(no_time()));
        full.classes.insert("A1".to_owned(), ClassVerdict::NotMet(no_time()));
        full.classes.insert("A2".to_owned(), ClassVerdict::NotMeasured(no_time()));
        assert_eq!(unknown(&full, &Accepted::default()), []);
        let mut fakes = full.clone();
        fakes.capacity_check = CapacityCheck::Fake { reason: no_time(), checked_bytes: 2, lost_bytes: 1 };
        let mut replaced = 0;
        for document in [full, fakes] {
            let clean = serde_json::to_value(&document).unwrap();
            for at in 0.. {
                let (mut value, mut left) = (clean.clone(), at);
                if !sample::replace_text(&mut value, &mut left, NAME) {
                    break;
                }
                // Other fields have a fixed set of values, so serde or the check refuses the text.
                let Ok(document) = serde_json::from_value::<Document>(value) else { continue };
                if document.check().is_empty() {
                    let found = unknown(&document, &Accepted::default());
                    assert_eq!(found.len(), 1, "{at}: {document:?}");
                    assert_eq!(found[0].text, NAME);
                    replaced += 1;
                }
            }
        }
        assert!(replaced >= 48, "{replaced}");
    }

    /// A text that no rule refuses, and no list contains. It is also valid as the name of a file system.
    const NAME: &str = "anna_schmidt";

    #[test]
    fn an_accepted_text_is_known_in_its_field_only() {
        let mut document = sample::document();
        document.device.model = Some("A card of Anna".to_owned());
        document.machine.board = Some("A card of Anna".to_owned());
        let accepted = Accepted::default();
        let found = unknown(&document, &accepted);
        assert_eq!(found.len(), 2);
        accepted.add([found[0].clone()]);
        assert_eq!(unknown(&document, &accepted), [found[1].clone()]);
    }
}
