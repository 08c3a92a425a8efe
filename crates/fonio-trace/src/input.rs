//! Defines the input of a reader: a stream of bytes and its name.

use std::io::{Cursor, Read};

/// A stream of bytes and its name for diagnostics.
pub struct Input {
    /// The file's name as the user gave it, or `standard input`.
    pub name: String,
    /// The stream of bytes.
    pub bytes: Box<dyn Read + Send>,
}

impl Input {
    /// Creates an input from bytes in memory.
    pub fn of(name: &str, bytes: impl Into<Vec<u8>>) -> Input {
        Input { name: name.to_owned(), bytes: Box::new(Cursor::new(bytes.into())) }
    }
}
