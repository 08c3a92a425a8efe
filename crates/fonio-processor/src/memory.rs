//! The memory test: the time of a read at a random address, as tinymembench measures it.
//!
//! Each address depends on the value that was read before, so that the reads cannot overlap. The time for the
//! computation itself is measured with a buffer in the first cache and subtracted.

use std::hint::black_box;

/// The size of the buffer: a line of tinymembench's table.
const SIZE: usize = 32 << 20;
const SMALL: usize = 1 << 10;

pub(crate) struct Memory {
    buffer: Vec<u8>,
    seed: u32,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        // Each page must be written, because pages that were never written share one page of zeros.
        let buffer = (0..SIZE).map(|_| black_box(0)).collect();
        Memory { buffer, seed: 1 }
    }

    /// Reads `count` bytes at random addresses of the complete buffer.
    pub(crate) fn read(&mut self, count: u32) {
        self.read_within(count, SIZE);
    }

    /// Reads `count` bytes at random addresses that the first cache holds.
    pub(crate) fn read_cached(&mut self, count: u32) {
        self.read_within(count, SMALL);
    }

    fn read_within(&mut self, count: u32, size: usize) {
        let mut seed = self.seed;
        for _ in 0..count {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            // The upper bits of this generator are better than the lower ones.
            let at = (seed >> 4) as usize & (size - 1);
            seed = seed.wrapping_add(u32::from(self.buffer[at]));
        }
        self.seed = black_box(seed);
    }
}
