//! Memory buffers for direct I/O.

/// Memory alignment for direct I/O; a page is enough for every device.
const ALIGNMENT: usize = 4096;

/// A buffer aligned for direct I/O.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    /// Returns the first `bytes` bytes of the buffer, which keeps its contents.
    pub(super) fn get(&mut self, bytes: u64) -> &mut [u8] {
        let bytes = bytes as usize;
        if self.0.len() < bytes + ALIGNMENT {
            self.0.resize(bytes + ALIGNMENT, 0);
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[start..start + bytes]
    }
}
