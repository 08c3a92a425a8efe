//! A stream that gives few bytes at a time.

use std::io::{self, Cursor, Read};

/// A stream of bytes in memory, of which one call reads at most a given number.
pub struct Steps {
    bytes: Cursor<Vec<u8>>,
    most: usize,
}

impl Steps {
    /// Creates a stream of these bytes; each call reads at most `most`.
    pub fn of(bytes: &[u8], most: usize) -> Steps {
        Steps { bytes: Cursor::new(bytes.to_vec()), most }
    }
}

impl Read for Steps {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.most.min(to.len());
        self.bytes.read(&mut to[..count])
    }
}
