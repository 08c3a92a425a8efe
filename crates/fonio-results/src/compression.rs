//! Compresses documents. Nearly all text in a document consists of names that all documents contain. A
//! dictionary of these names halves the compressed size. The first byte of a compressed document is the
//! version of its dictionary.

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::LazyLock;

use zstd::bulk::Compressor;
use zstd::dict::EncoderDictionary;

/// Dictionary 1: a document of StoreBench's first version. The dictionary never changes, because stored
/// documents need it.
const DICTIONARY_1: &[u8] = include_bytes!("dictionary-1.json");

/// Compression level of zstd. It is fast enough for thousands of documents per second.
const LEVEL: i32 = 3;

/// The prepared dictionary. It is prepared only once, because this takes longer than compressing a document.
static PREPARED_1: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY_1, LEVEL));

thread_local! {
    /// The compressor of this thread. It is kept, because a compressor has tables of a megabyte, and creating
    /// it takes longer than compressing a document.
    static COMPRESSOR: RefCell<Compressor<'static>> = RefCell::new(
        Compressor::with_prepared_dictionary(&PREPARED_1).expect("the dictionary is valid"),
    );
}

/// Compresses a document with the newest dictionary.
pub fn compress(json: &[u8]) -> Vec<u8> {
    let compressed = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(json));
    let mut out = vec![1];
    out.extend(compressed.expect("memory suffices to compress a document"));
    out
}

/// Decompresses a document of up to `bytes_max` bytes. Fails if the bytes are damaged or were written by a
/// newer version of the service.
pub fn decompress(bytes: &[u8], bytes_max: usize) -> io::Result<Vec<u8>> {
    let Some((1, compressed)) = bytes.split_first().map(|(first, rest)| (*first, rest)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the document has an unknown dictionary"));
    };
    let mut json = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_dictionary(compressed, DICTIONARY_1)?;
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    decoder.take(limit + 1).read_to_end(&mut json)?;
    if json.len() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the document is too long"));
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_return(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(decompress(&compress(&bytes), 5000).unwrap(), bytes);
        }

        #[test]
        fn damaged_bytes_are_an_error_or_other_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(json) = decompress(&bytes, 1000) {
                prop_assert!(json.len() <= 1000);
            }
        }
    }

    #[test]
    fn a_document_becomes_small() {
        let json = serde_json::to_vec(&fonio_storebench_document::sample::document()).unwrap();
        assert!(compress(&json).len() * 4 < json.len(), "{} of {}", compress(&json).len(), json.len());
        assert!(decompress(&compress(&json), json.len() - 1).is_err());
    }
}
