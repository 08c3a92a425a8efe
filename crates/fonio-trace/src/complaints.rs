//! Collects diagnostics and merges repetitions. Otherwise, a badly damaged input could fill memory.

use std::collections::BTreeMap;

use fonio_core::{Diagnostic, Severity};

/// Number of diagnostics per code and file that are reported with their position; further diagnostics are
/// only counted. Three positions show whether the damage is local or everywhere.
const PLACES: u64 = 3;

/// A position in a reader's input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InputPlace<'a> {
    /// The input's name; empty if the position is not in a single input.
    pub file: &'a str,
    /// The number of the record or line, counted from 1.
    pub record: Option<u64>,
    /// Offset of the byte, counted from 0.
    pub offset: Option<u64>,
}

#[derive(Debug)]
struct Merged {
    severity: Severity,
    message: String,
    seen: u64,
}

/// Collects diagnostics. The first few diagnostics with a code in a file are kept; further ones are merged
/// into one diagnostic.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// The diagnostics for the next batch.
    pub ready: Vec<Diagnostic>,
    by_code: BTreeMap<(&'static str, String), Merged>,
}

impl Complaints {
    /// Adds a diagnostic. `message` returns one sentence with the problem and how it was handled. It is
    /// called only if the diagnostic is shown.
    pub fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        place: InputPlace<'_>,
        message: impl FnOnce() -> String,
    ) {
        let merged = match self.by_code.entry((code, place.file.to_owned())) {
            std::collections::btree_map::Entry::Occupied(entry) => {
                let merged = entry.into_mut();
                merged.seen += 1;
                if merged.seen > PLACES {
                    return;
                }
                merged.message = message();
                merged
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Merged { severity, message: message(), seen: 1 })
            }
        };
        self.ready.push(Diagnostic {
            severity,
            code: code.to_owned(),
            message: merged.message.clone(),
            file: (!place.file.is_empty()).then(|| place.file.to_owned()),
            record: place.record,
            offset: place.offset,
            count: 1,
        });
    }

    /// Returns the number of diagnostics with `code` in all files.
    pub fn count(&self, code: &str) -> u64 {
        self.by_code.iter().filter(|((c, _), _)| *c == code).map(|(_, merged)| merged.seen).sum()
    }

    /// Reports the merged repetitions at the end of the input, one diagnostic for each code and file.
    pub fn finish(&mut self) {
        for ((code, file), merged) in std::mem::take(&mut self.by_code) {
            if merged.seen > PLACES {
                self.ready.push(Diagnostic {
                    severity: merged.severity,
                    code: code.to_owned(),
                    message: format!("{} The same occurs elsewhere.", merged.message),
                    file: (!file.is_empty()).then_some(file),
                    record: None,
                    offset: None,
                    count: merged.seen - PLACES,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_merged_into_one() {
        let mut complaints = Complaints::default();
        for record in 1..=10 {
            let place = InputPlace { file: "a", record: Some(record), offset: None };
            complaints.add(Severity::Warning, "bad-magic", place, || "No magic.".to_owned());
        }
        complaints.finish();
        let counts: Vec<_> = complaints.ready.iter().map(|d| (d.record, d.count)).collect();
        assert_eq!(counts, [(Some(1), 1), (Some(2), 1), (Some(3), 1), (None, 7)]);
    }
}
