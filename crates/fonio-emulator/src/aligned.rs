//! Memory that is aligned for direct I/O.

/// The alignment that direct I/O needs on all usual disks.
pub(crate) const ALIGNMENT: usize = 4096;

/// A buffer whose address is a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Aligned {
    /// Allocates a buffer of zeros.
    pub(crate) fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + ALIGNMENT];
        let from = memory.as_ptr().align_offset(ALIGNMENT);
        Aligned { memory, from, bytes }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned() {
        let mut buffer = Aligned::new(8192);
        assert_eq!((buffer.bytes().as_ptr() as usize % 4096, buffer.bytes().len()), (0, 8192));
    }
}
