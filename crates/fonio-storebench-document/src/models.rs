//! Contains results of device models, with which results of devices are compared. They were computed by
//! `fonio-bench` (`cargo studies storebench models`), are marked as computed, and are never mixed with
//! measured results.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::document::Document;

/// The data set: compressed JSON documents, one per line.
const SHIPPED: &[u8] = include_bytes!("../data/models.jsonl.gz");

/// Returns the shipped results of models. Panics if the built-in data set is unreadable. A test ensures that
/// it is readable.
pub fn shipped() -> Vec<Document> {
    let mut text = String::new();
    GzDecoder::new(SHIPPED).read_to_string(&mut text).expect("the built-in data set can be decompressed");
    let documents = text.lines().map(|line| Document::parse(line.as_bytes()));
    documents.collect::<Result<_, _>>().expect("the built-in data set is valid")
}

/// Writes a data set in the format of [`shipped`].
pub fn pack(documents: &[Document]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    for document in documents {
        serde_json::to_writer(&mut packed, document)?;
        packed.write_all(b"\n")?;
    }
    packed.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Origin;

    #[test]
    fn the_shipped_results_are_marked_as_models() {
        let shipped = shipped();
        assert!(shipped.len() >= 19, "{}", shipped.len());
        for document in &shipped {
            assert_eq!((document.origin, document.engine.as_str()), (Origin::Model, "model"));
            assert!(document.check().is_empty(), "{:?}", document.check());
            for figure in ["bandwidth.total", "slowdown.rand_read.4x4", "concurrency.rand_read"] {
                assert!(document.value(figure).is_some(), "{:?}: {figure}", document.device.model);
            }
        }
    }
}
