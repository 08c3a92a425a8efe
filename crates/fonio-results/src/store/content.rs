//! Identifies the content of a result, so that a result that is sent again counts only once.

use fonio_storebench_document::document::Document;
use sha2::{Digest, Sha256};

/// Bytes of a content hash. Half of SHA-256 is enough to tell results apart, and halves the index.
const HASH_BYTES: usize = 16;

/// Returns the hash of a document's key, device and figures. Two measurements never have equal figures, so
/// documents with an equal hash describe the same measurement, even if their other fields differ.
pub fn hash(document: &Document) -> Vec<u8> {
    let parts = (&document.origin, &document.key, &document.device, &document.figures);
    let json = serde_json::to_vec(&parts).expect("a part of a document is JSON");
    Sha256::digest(&json)[..HASH_BYTES].to_vec()
}

#[cfg(test)]
mod tests {
    use fonio_storebench_document::document::Measure;
    use fonio_storebench_document::sample;

    use super::*;

    #[test]
    fn only_the_device_and_its_figures_count() {
        let document = sample::document();
        let mut other = document.clone();
        other.took_s += 1.0;
        other.began_unix_s += 86_400;
        other.verdict = "No weak point.".to_owned();
        other.machine.kernel = "6.1.0".to_owned();
        assert_eq!(hash(&other), hash(&document));
        if let Some(Measure::Measured(value)) = other.figures.get_mut("cpu.iowait") {
            value.value += 0.001;
        }
        assert_ne!(hash(&other), hash(&document));
        let mut other = document.clone();
        other.device.model = Some("SU32G".to_owned());
        assert_ne!(hash(&other), hash(&document));
    }
}
