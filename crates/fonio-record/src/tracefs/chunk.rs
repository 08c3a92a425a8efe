//! Provides memory for packed pages, aligned for direct I/O.

/// Buffer addresses, offsets and lengths for direct I/O must be multiples of this number of bytes.
pub(crate) const ALIGNMENT: usize = 4096;

/// A block of memory with the alignment that direct I/O needs.
#[repr(C, align(4096))]
#[derive(Clone)]
struct Aligned([u8; ALIGNMENT]);

/// Packed ring-buffer pages of one processor.
#[derive(Clone)]
pub(crate) struct Chunk {
    memory: Vec<Aligned>,
    /// The offset in the chunk at which each page ends.
    pub ends: Vec<u32>,
}

impl Chunk {
    /// Creates an empty chunk of `bytes` bytes, a multiple of [`ALIGNMENT`].
    pub(crate) fn new(bytes: usize) -> Chunk {
        Chunk { memory: vec![Aligned([0; ALIGNMENT]); bytes / ALIGNMENT], ends: Vec::new() }
    }

    /// Returns all memory of the chunk, including the unused part.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `Aligned` is only bytes (size and alignment are both ALIGNMENT), so the elements are
        // contiguous initialised bytes. The borrow of `self` keeps these bytes valid.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * ALIGNMENT) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; any byte is a valid `Aligned`, and the mutable borrow is exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.memory.len() * ALIGNMENT)
        }
    }

    /// Returns the number of bytes in the chunk that contain pages.
    pub(crate) fn used(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }
}
