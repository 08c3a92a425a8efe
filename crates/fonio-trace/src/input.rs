//! An input of a reader: its bytes and its name.

use std::io::Read;

/// A stream of bytes with its name for diagnostics.
pub struct Input {
    /// The file's name as the user gave it, or `standard input`.
    pub name: String,
    /// The bytes.
    pub bytes: Box<dyn Read + Send>,
}
