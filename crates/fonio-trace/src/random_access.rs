//! Reads numbers, texts and blocks at given offsets of a file.

use std::cell::RefCell;
use std::io::{self, Cursor, Read, SeekFrom};
use std::rc::Rc;

use fonio_tracefs::ring_buffer::ByteOrder;

use crate::input::{Input, ReadSeek};
use crate::refusal::Refusal;

/// Maximum size of a file without random access. It is kept in memory.
const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// The kind of a file, for messages.
#[derive(Debug)]
pub(crate) struct FileKind {
    /// The kind with its article: `a trace.dat of trace-cmd`.
    pub name: &'static str,
    /// What to do if the file is damaged.
    pub record_again: &'static str,
}

/// A file that its users read at different offsets.
#[derive(Clone)]
pub(crate) struct RandomAccess {
    file: Rc<RefCell<Box<dyn ReadSeek>>>,
    kind: &'static FileKind,
}

impl RandomAccess {
    /// Opens an input. If it is a stream, reads it into memory.
    pub fn of(input: Input, kind: &'static FileKind) -> Result<RandomAccess, Refusal> {
        let file = match input.file {
            Some(file) => file,
            None => {
                let mut bytes = Vec::new();
                input.bytes.take(MEMORY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > MEMORY_BYTES_MAX {
                    return Err(Refusal::is(
                        format!(
                            "it is {} with more than 128 MiB that comes through a pipe or is compressed",
                            kind.name
                        ),
                        "Give fonio the unpacked file itself, because parts of it refer to other parts",
                    ));
                }
                Box::new(Cursor::new(bytes))
            }
        };
        Ok(RandomAccess { file: Rc::new(RefCell::new(file)), kind })
    }

    /// Returns a reader of `size` bytes from this offset; fewer at the end of the file.
    pub fn part(&self, at: u64, size: u64) -> Section {
        Section { file: self.clone(), at, end: at.saturating_add(size) }
    }

    /// Reads up to `count` bytes; fewer at the end of the file.
    pub fn read(&self, offset: u64, count: usize, to: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(offset))?;
        to.clear();
        (&mut **file).take(count as u64).read_to_end(to)?;
        Ok(())
    }
}

/// Reads a part of a file from its beginning to its end.
pub(crate) struct Section {
    file: RandomAccess,
    at: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(to.len());
        let mut file = self.file.file.borrow_mut();
        file.seek(SeekFrom::Start(self.at))?;
        let count = file.read(&mut to[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}

/// A position in a file, or in bytes that were unpacked from it.
pub(crate) struct Place<'f> {
    from: From<'f>,
    pub at: u64,
    order: ByteOrder,
    kind: &'static FileKind,
}

enum From<'f> {
    File(&'f RandomAccess),
    Memory(Vec<u8>),
}

impl<'f> Place<'f> {
    pub fn of_file(file: &'f RandomAccess, at: u64, order: ByteOrder) -> Place<'f> {
        Place { from: From::File(file), at, order, kind: file.kind }
    }

    /// Creates a position at the beginning of a part of a file of this kind.
    pub fn of_memory(bytes: Vec<u8>, order: ByteOrder, kind: &'static FileKind) -> Place<'f> {
        Place { from: From::Memory(bytes), at: 0, order, kind }
    }

    pub fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
    }

    /// Reads `count` bytes, of which there must be at most `most`. `what` names them in the refusal.
    pub fn bytes(&mut self, count: u64, most: u64, what: &'static str) -> Result<Vec<u8>, Refusal> {
        let end = self.at.checked_add(count).filter(|_| count <= most).ok_or_else(|| self.damaged(what))?;
        let mut bytes = Vec::new();
        match &self.from {
            From::File(file) => file.read(self.at, count as usize, &mut bytes)?,
            From::Memory(all) => {
                let range = usize::try_from(self.at).ok().zip(usize::try_from(end).ok());
                bytes.extend_from_slice(range.and_then(|(at, end)| all.get(at..end)).unwrap_or_default());
            }
        }
        if bytes.len() as u64 != count {
            return Err(self.damaged(what));
        }
        self.at = end;
        Ok(bytes)
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: u64, what: &'static str) -> Result<(), Refusal> {
        self.at = self.at.checked_add(count).ok_or_else(|| self.damaged(what))?;
        Ok(())
    }

    /// Reads an unsigned number of 1, 2, 4 or 8 bytes.
    pub fn number(&mut self, size: usize, what: &'static str) -> Result<u64, Refusal> {
        let bytes = self.bytes(size as u64, 8, what)?;
        let little = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let big = bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(if self.order == ByteOrder::Little { little } else { big })
    }

    /// Reads a text that ends with a NUL.
    pub fn text(&mut self, what: &'static str) -> Result<String, Refusal> {
        const TEXT_BYTES_MAX: usize = 256;
        let mut text = Vec::new();
        loop {
            let byte = self.bytes(1, 1, what)?[0];
            if byte == 0 {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            if text.len() == TEXT_BYTES_MAX {
                return Err(self.damaged(what));
            }
            text.push(byte);
        }
    }

    /// Returns the refusal of a file whose part `what` is damaged here.
    pub fn damaged(&self, what: &'static str) -> Refusal {
        let place = match self.from {
            From::File(_) => format!("byte {}", self.at),
            From::Memory(_) => format!("byte {} of a section", self.at),
        };
        Refusal::is(
            format!("it is {}, but {what} is damaged or missing at {place}", self.kind.name),
            self.kind.record_again,
        )
    }
}
