//! Provides memory for direct I/O.

use fonio_core::Random;

const ALIGNMENT: usize = 4096;

/// Block-aligned memory with incompressible content, so that a compressing file system writes the full
/// amount.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Returns the first `bytes` of the aligned memory; grows the memory if needed.
    pub fn of(&mut self, bytes: u64) -> &mut [u8] {
        let bytes = bytes as usize;
        if self.0.len() < bytes + ALIGNMENT {
            let mut random = Random::new(bytes as u64);
            self.0 = Vec::with_capacity(bytes + ALIGNMENT + 8);
            while self.0.len() < bytes + ALIGNMENT {
                self.0.extend(random.next_u64().to_ne_bytes());
            }
        }
        let from = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[from..from + bytes]
    }
}
