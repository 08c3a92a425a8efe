//! The integer test and the compression test: LZMA, as in the benchmark of 7-Zip.
//!
//! 7-Zip's benchmark (`7z b`) has published results for most processors since 2005. Its manual says:
//! decompression depends on integer operations and branches, compression on the latency of memory and on the
//! caches. 7-Zip turns the speeds into ratings in MIPS; [`integer_mips`] and [`compression_mips`] use its
//! formulas (`CPP/7zip/UI/Common/Bench.cpp`). Our LZMA is another program, so [`PER_7ZIP_INTEGER`] and
//! [`PER_7ZIP_COMPRESSION`] correct its ratings.

use std::io::{Read, Write};

use lzma_rust2::{EncodeMode, LzmaOptions, LzmaReader, LzmaWriter};

/// Size of the data and of the dictionary: the first line of 7-Zip's benchmark (2²² bytes).
pub(crate) const SIZE: usize = 1 << 22;
/// 7-Zip's default effort in the benchmark (level 5).
const PRESET: u32 = 5;
const NICE_LEN: u32 = 32;

/// The rating of this LZMA, divided by the rating of p7zip 16.02 for the same processor. Both ratings were
/// measured in turns, nine times, on an AMD EPYC of 2021 (Zen 3), by processor time.
const PER_7ZIP_INTEGER: f64 = 1.12;
const PER_7ZIP_COMPRESSION: f64 = 1.16;

fn options(size: usize) -> LzmaOptions {
    let mut options = LzmaOptions::with_preset(PRESET);
    options.dict_size = size.max(1 << 12) as u32;
    options.nice_len = NICE_LEN;
    options.mode = EncodeMode::Normal;
    options
}

/// Compresses `data` with a dictionary of the same size.
pub(crate) fn compress(data: &[u8]) -> Vec<u8> {
    let out = Vec::with_capacity(data.len());
    let written = LzmaWriter::new_use_header(out, &options(data.len()), Some(data.len() as u64))
        .and_then(|mut writer| writer.write_all(data).and_then(|()| writer.finish()));
    written.expect("memory can be written")
}

/// Decompresses `compressed` into `out`, which has the size of the data. Panics if the data is damaged.
pub(crate) fn decompress(compressed: &[u8], out: &mut [u8]) {
    let read =
        LzmaReader::new_mem_limit(compressed, u32::MAX, None).and_then(|mut reader| reader.read_exact(out));
    read.expect("the data was compressed by this program");
}

/// Returns 7-Zip's rating for compressing `size` bytes in a dictionary of 2²² bytes.
pub(crate) fn compression_mips(size: usize, seconds: f64) -> f64 {
    const COMMANDS_PER_BYTE: f64 = 870.0 + 80.0;
    size as f64 * COMMANDS_PER_BYTE / seconds / 1e6 / PER_7ZIP_COMPRESSION
}

/// Returns 7-Zip's rating for decompressing `packed` bytes into `size` bytes.
pub(crate) fn integer_mips(packed: usize, size: usize, seconds: f64) -> f64 {
    (packed as f64 * 200.0 + size as f64 * 4.0) / seconds / 1e6 / PER_7ZIP_INTEGER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::data;

    #[test]
    fn the_data_comes_back_and_is_as_redundant_as_7_zips() {
        let original = data(1 << 18);
        let packed = compress(&original);
        let mut back = vec![0; original.len()];
        decompress(&packed, &mut back);
        assert!(back == original, "LZMA changed the data");
        let ratio = packed.len() as f64 / original.len() as f64;
        assert!((0.25..0.5).contains(&ratio), "{ratio}");
    }

    /// The first line of 7-Zip's benchmark on a Raspberry Pi 4, as sbc-bench printed it.
    #[test]
    fn the_ratings_are_those_of_7_zip() {
        let near = |rating: f64, published: f64| (rating / published - 1.0).abs() < 0.01;
        let one_second_of_compression = 1321 * 1024;
        let rating = compression_mips(one_second_of_compression, 1.0) * PER_7ZIP_COMPRESSION;
        assert!(near(rating, 1285.0), "{rating}");
    }
}
