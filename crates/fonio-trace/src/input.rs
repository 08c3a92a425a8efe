//! Defines the input of a reader: a stream of bytes and its name.

use std::io::{Cursor, Read, Seek};
use std::sync::Arc;

/// Bytes that can be read at any offset.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A stream of bytes and its name for diagnostics.
pub struct Input {
    /// The file's name as the user gave it, or `standard input`.
    pub name: String,
    /// The stream of bytes.
    pub bytes: Box<dyn Read + Send>,
    /// The same bytes with random access, if the input is a file. Some formats are not a sequence.
    pub file: Option<Box<dyn ReadSeek>>,
}

impl Input {
    /// Creates an input from a stream.
    pub fn new(name: impl Into<String>, bytes: Box<dyn Read + Send>) -> Input {
        Input { name: name.into(), bytes, file: None }
    }

    /// Creates an input from bytes in memory.
    pub fn of(name: &str, bytes: impl Into<Vec<u8>>) -> Input {
        let bytes: Arc<[u8]> = bytes.into().into();
        let file = Cursor::new(Arc::clone(&bytes));
        Input { file: Some(Box::new(file)), ..Input::new(name, Box::new(Cursor::new(bytes))) }
    }
}
