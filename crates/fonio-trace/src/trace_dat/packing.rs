//! Unpacks the parts of a compressed file. Each part is packed for itself.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// How a file's parts are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zstd,
    Zlib,
}

impl Packing {
    /// Returns the packing with this name in the file.
    pub fn named(name: &str) -> Option<Packing> {
        Some(match name {
            "none" | "" => Packing::None,
            "zstd" => Packing::Zstd,
            "zlib" => Packing::Zlib,
            _ => return None,
        })
    }

    /// Unpacks a part that must have `size` bytes; `None` if it is damaged.
    pub fn unpack(self, packed: &[u8], size: usize) -> Option<Vec<u8>> {
        let unpacked = match self {
            Packing::None => packed.to_vec(),
            Packing::Zstd => zstd::bulk::decompress(packed, size).ok()?,
            Packing::Zlib => {
                let mut unpacked = Vec::new();
                ZlibDecoder::new(packed).take(size as u64 + 1).read_to_end(&mut unpacked).ok()?;
                unpacked
            }
        };
        (unpacked.len() == size).then_some(unpacked)
    }
}
