//! Measures the decompressed size of pages whose codec ignores the size in the page header.

#[cfg(feature = "codecs")]
use std::io::{self, Read};

use parquet::basic::Compression;

/// Returns whether decompressing `page` gives more than `limit` bytes. Damaged pages are accepted, because the
/// Parquet library detects them.
#[cfg(feature = "codecs")]
pub(super) fn exceeds(codec: Compression, page: &[u8], limit: u64) -> bool {
    let count = |decoder: &mut dyn Read| {
        let mut counted = Counted(0);
        // An error ends the count.
        let _ = io::copy(&mut decoder.take(limit.saturating_add(1)), &mut counted);
        counted.0 > limit
    };
    match codec {
        Compression::GZIP(_) => count(&mut flate2::read::MultiGzDecoder::new(page)),
        Compression::BROTLI(_) => count(&mut brotli::Decompressor::new(page, 4096)),
        // Some programs call LZ4 frames by the name of Hadoop's format.
        Compression::LZ4 => count(&mut lz4_flex::frame::FrameDecoder::new(page)),
        _ => false,
    }
}

/// Without these codecs, the Parquet library refuses such pages.
#[cfg(not(feature = "codecs"))]
pub(super) fn exceeds(_: Compression, _: &[u8], _: u64) -> bool {
    false
}

/// Counts bytes and drops them.
#[cfg(feature = "codecs")]
struct Counted(u64);

#[cfg(feature = "codecs")]
impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, feature = "codecs"))]
mod tests {
    use std::io::Write;

    use super::*;

    /// A way to compress bytes.
    type Compress = fn(&[u8]) -> Vec<u8>;

    #[test]
    fn pages_that_decompress_to_more_than_their_header_says_are_found() {
        let gzip: Compress = |bytes| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("compressed")
        };
        let brotli: Compress = |bytes| {
            let mut compressed = Vec::new();
            brotli::CompressorWriter::new(&mut compressed, 4096, 1, 22).write_all(bytes).expect("compressed");
            compressed
        };
        let lz4: Compress = |bytes| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).expect("compressed");
            encoder.finish().expect("compressed")
        };
        let codecs = [
            (Compression::GZIP(Default::default()), gzip),
            (Compression::BROTLI(Default::default()), brotli),
            (Compression::LZ4, lz4),
        ];
        for (codec, compress) in codecs {
            let page = compress(&[7; 100_000]);
            assert!(page.len() < 2000, "{codec}");
            assert!(exceeds(codec, &page, 99_999), "{codec}");
            assert!(!exceeds(codec, &page, 100_000), "{codec}");
            // The library detects a truncated page.
            assert!(!exceeds(codec, &page[..page.len() / 2], 100_000), "{codec}");
        }
    }
}
