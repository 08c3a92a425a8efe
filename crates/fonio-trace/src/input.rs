//! An input of a reader: bytes and their name.

use std::io::Read;

/// One stream of bytes with the name that diagnostics give it.
pub struct Input {
    /// The file's name as the user gave it, or `standard input`.
    pub name: String,
    /// The bytes.
    pub bytes: Box<dyn Read + Send>,
}
