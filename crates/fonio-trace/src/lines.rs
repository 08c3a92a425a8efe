//! Splits a text trace into lines, in bounded memory for any input.

use std::io::{self, Read};

use memchr::memchr;

/// Maximum length of a line; longer lines are cut. The kernel's lines are at most one page long, and a table
/// that needs longer lines (thousands of columns) is not a trace.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Size of the buffer. It is several times as large as the longest line, so a line in the buffer is usually
/// complete.
const BUFFER_BYTES: usize = 4 * LINE_BYTES_MAX;

/// One line of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line's bytes without the line end (`\n` or `\r\n`).
    pub bytes: &'a [u8],
    /// The line's number, counted from 1.
    pub number: u64,
    /// The offset of the line's first byte in the stream.
    pub offset: u64,
    /// Whether the line was longer than [`LINE_BYTES_MAX`]. For a longer line, `bytes` is the beginning, and
    /// the rest of the line is dropped.
    pub cut: bool,
}

/// Splits a stream into lines.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The index of the first buffered byte not yet returned.
    begin: usize,
    end: usize,
    /// The offset in the stream of the byte at `begin`.
    offset: u64,
    number: u64,
    /// Whether the rest of a cut line must still be skipped.
    skipping: bool,
    ended: bool,
}

impl<R: Read> Lines<R> {
    /// Creates an iterator over the lines of `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            buffer: vec![0; BUFFER_BYTES],
            begin: 0,
            end: 0,
            offset: 0,
            number: 0,
            skipping: false,
            ended: false,
        }
    }

    /// Returns the underlying stream. Bytes that the caller reads from this stream are missing in the lines.
    pub fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// Returns the next nonempty line, or `None` after the last line. The last line need not have a line end.
    /// Fails if reading the stream fails.
    #[allow(clippy::should_implement_trait)] // An `Iterator` cannot return borrows of its own buffer.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        while self.skipping {
            match memchr(b'\n', &self.buffer[self.begin..self.end]) {
                Some(at) => {
                    self.take(at + 1);
                    self.skipping = false;
                }
                None => {
                    self.take(self.end - self.begin);
                    if !self.fill()? {
                        return Ok(None);
                    }
                }
            }
        }
        self.pass_over_empty()?;
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.begin + searched..self.end];
            if let Some(at) = memchr(b'\n', rest) {
                let len = searched + at;
                return Ok(Some(self.line(len.min(LINE_BYTES_MAX), len + 1, len > LINE_BYTES_MAX)));
            }
            searched = self.end - self.begin;
            if searched > LINE_BYTES_MAX {
                self.skipping = true;
                return Ok(Some(self.line(LINE_BYTES_MAX, searched, true)));
            }
            if !self.fill()? {
                return Ok(if searched == 0 { None } else { Some(self.line(searched, searched, false)) });
            }
        }
    }

    /// Skips line ends, because empty lines have no meaning in any format, and a file may have billions of
    /// them.
    #[inline]
    fn pass_over_empty(&mut self) -> io::Result<()> {
        loop {
            let rest = &self.buffer[self.begin..self.end];
            let empty = rest.iter().take_while(|byte| **byte == b'\n').count();
            if empty > 0 {
                self.take(empty);
                self.number += empty as u64;
            }
            if self.begin < self.end || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Returns the next `len` bytes as a line, and consumes `taken` bytes.
    fn line(&mut self, len: usize, taken: usize, cut: bool) -> Line<'_> {
        let (begin, offset) = (self.begin, self.offset);
        self.take(taken);
        self.number += 1;
        let bytes = &self.buffer[begin..begin + len];
        let bytes = if cut { bytes } else { bytes.strip_suffix(b"\r").unwrap_or(bytes) };
        Line { bytes, number: self.number, offset, cut }
    }

    fn take(&mut self, count: usize) {
        self.begin += count;
        self.offset += count as u64;
    }

    /// Reads more bytes into the buffer; returns `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.begin > 0 && self.buffer.len() - self.end < BUFFER_BYTES / 2 {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        assert!(self.end < self.buffer.len(), "a line longer than the limit was not cut");
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns at most `step` bytes at a time.
    struct Steps<'a>(&'a [u8], usize);

    impl Read for Steps<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(to.len());
            self.0.read(&mut to[..count])
        }
    }

    fn lines(bytes: &[u8], step: usize) -> Vec<(Vec<u8>, u64, u64, bool)> {
        let mut lines = Lines::new(Steps(bytes, step));
        let mut out = Vec::new();
        while let Some(line) = lines.next().expect("memory reads") {
            out.push((line.bytes.to_vec(), line.number, line.offset, line.cut));
        }
        out
    }

    proptest! {
        #[test]
        fn same_as_splitting(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200), step in 1_usize..40) {
            let mut expected = Vec::new();
            let mut offset = 0;
            for (at, piece) in bytes.split(|byte| *byte == b'\n').enumerate() {
                let line = piece.strip_suffix(b"\r").unwrap_or(piece);
                if !piece.is_empty() {
                    expected.push((line.to_vec(), at as u64 + 1, offset, false));
                }
                offset += piece.len() as u64 + 1;
            }
            prop_assert_eq!(lines(&bytes, step), expected);
        }
    }

    #[test]
    fn long_lines_are_cut_and_the_next_is_whole() {
        for extra in [0, 1, 2, LINE_BYTES_MAX, 3 * LINE_BYTES_MAX, 10 * LINE_BYTES_MAX] {
            let mut text = b"first\n".to_vec();
            text.extend(vec![b'x'; LINE_BYTES_MAX + extra]);
            text.extend(b"\nlast");
            for step in [1000, 60_000, usize::MAX] {
                let found = lines(&text, step);
                assert_eq!(found.len(), 3, "{extra} {step}");
                assert_eq!((found[1].0.len(), found[1].3), (LINE_BYTES_MAX, extra > 0), "{extra} {step}");
                assert_eq!(found[2], (b"last".to_vec(), 3, (LINE_BYTES_MAX + extra) as u64 + 7, false));
            }
        }
    }
}
