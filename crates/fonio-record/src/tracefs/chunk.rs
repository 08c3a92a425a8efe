//! Memory for packed pages, aligned for direct I/O.

/// Direct I/O needs buffers, offsets and lengths in multiples of this.
pub(crate) const ALIGNMENT: usize = 4096;

/// Memory with the alignment that direct I/O needs.
#[repr(C, align(4096))]
#[derive(Clone)]
struct Aligned([u8; ALIGNMENT]);

/// Packed pages of one processor.
#[derive(Clone)]
pub(crate) struct Chunk {
    memory: Vec<Aligned>,
    /// The end of each page.
    pub ends: Vec<u32>,
}

impl Chunk {
    /// An empty chunk with this much memory, a multiple of [`ALIGNMENT`].
    pub(crate) fn new(bytes: usize) -> Chunk {
        Chunk { memory: vec![Aligned([0; ALIGNMENT]); bytes / ALIGNMENT], ends: Vec::new() }
    }

    /// All of its memory, used or not.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `Aligned` is nothing but its bytes (size and alignment are both ALIGNMENT), so the vector's elements
        // are that many initialised bytes in a row; the borrow of `self` keeps them in place.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * ALIGNMENT) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; any byte is a valid `Aligned`, and the mutable borrow keeps others away.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.memory.len() * ALIGNMENT)
        }
    }

    /// The bytes that pages fill.
    pub(crate) fn used(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }
}
