//! Unpacks compressed files. A file is unpacked only once, because a crafted file can grow at each level.

use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::expansion;

/// Maximum window of zstd, as a power of two: 128 MiB, the most that `zstd --long` uses without a number. The decoder keeps
/// one window in memory.
const WINDOW_LOG_MAX: u32 = 27;

/// Maximum memory of the decoder of xz: 128 MiB as for zstd, and what the decoder needs besides its window. `xz -9` uses a
/// window of 64 MiB.
const XZ_KIB_MAX: u32 = (128 + 16) << 10;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Bzip2,
    Gzip,
    Xz,
    Zstd,
}

/// The code and message of the diagnostic; set when unpacking has failed.
pub(crate) type Damage = Arc<Mutex<Option<(&'static str, String)>>>;

/// A stream of bytes.
type Bytes = Box<dyn Read + Send>;

impl Packing {
    /// Returns the packing of a file with this head.
    pub fn of(head: &[u8]) -> Option<Packing> {
        if head.starts_with(&[0x1f, 0x8b, 8]) {
            Some(Packing::Gzip)
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Some(Packing::Zstd)
        } else if head.starts_with(b"\xfd7zXZ\0") {
            Some(Packing::Xz)
        } else if head.starts_with(b"BZh") && head.get(4..10) == Some(b"\x31\x41\x59\x26\x53\x59") {
            // The size of a block, and the start of the first block.
            Some(Packing::Bzip2)
        } else {
            None
        }
    }

    /// Returns the unpacked bytes. They end at the first damage, which is then in the returned [`Damage`].
    pub fn unpack(self, bytes: Bytes) -> io::Result<(Bytes, Damage)> {
        let watch = Arc::new(Watch::default());
        let packed = Watched { bytes, watch: Arc::clone(&watch) };
        let decoder: Bytes = match self {
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Xz => Box::new(XzReader::new_mem_limit(BufReader::new(packed), true, XZ_KIB_MAX)),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(BufReader::new(packed))?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        let damage = Damage::default();
        let unpacked = Unpacked { packing: self, decoder, watch, count: 0, damage: Arc::clone(&damage) };
        Ok((Box::new(unpacked), damage))
    }

    fn name(self) -> &'static str {
        match self {
            Packing::Bzip2 => "bzip2",
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }
}

/// What was read from a packed stream.
#[derive(Debug, Default)]
struct Watch {
    count: AtomicU64,
    /// Whether the stream itself failed. Other errors come from the decoder.
    failed: AtomicBool,
}

/// A packed stream that counts its bytes and notes its errors.
struct Watched {
    bytes: Bytes,
    watch: Arc<Watch>,
}

impl Read for Watched {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let result = self.bytes.read(to);
        match &result {
            Ok(count) => drop(self.watch.count.fetch_add(*count as u64, Ordering::Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.watch.failed.store(true, Ordering::Relaxed),
        }
        result
    }
}

/// An unpacked stream that ends at the first damage. The data before the damage is returned.
struct Unpacked {
    packing: Packing,
    decoder: Bytes,
    watch: Arc<Watch>,
    /// Number of bytes unpacked so far.
    count: u64,
    damage: Damage,
}

impl Read for Unpacked {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut damage = self.damage.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if damage.is_some() {
            return Ok(0);
        }
        let name = self.packing.name();
        match self.decoder.read(to) {
            Ok(count) => {
                self.count += count as u64;
                if expansion::is_too_far(self.watch.count.load(Ordering::Relaxed), self.count) {
                    let found = expansion::describe(&format!("{name} data"));
                    let message =
                        format!("{found}; the rest is not read. If it is a trace, unpack it first.");
                    *damage = Some(("expands-too-far", message));
                    return Ok(0);
                }
                Ok(count)
            }
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted
                    || self.watch.failed.load(Ordering::Relaxed) =>
            {
                Err(error)
            }
            Err(error) => {
                let code = match self.packing {
                    Packing::Bzip2 => "damaged-bzip2",
                    Packing::Gzip => "damaged-gzip",
                    Packing::Xz => "damaged-xz",
                    Packing::Zstd => "damaged-zstd",
                };
                let message =
                    format!("The {name} data is damaged or cut short ({error}); the rest is not read.");
                *damage = Some((code, message));
                Ok(0)
            }
        }
    }
}
