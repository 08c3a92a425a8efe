//! The reason why a file is not read.

use std::io;

/// The reason why a file is not read.
#[derive(Debug)]
pub enum Refusal {
    /// The file cannot be read.
    Read(io::Error),
    /// The file is of a kind that has no requests.
    Is {
        /// What the file is.
        found: String,
        /// What the user can do.
        way_out: String,
    },
}

impl Refusal {
    /// Creates the refusal of a file of a kind that has no requests.
    pub(crate) fn is(found: String, way_out: &str) -> Refusal {
        Refusal::Is { found, way_out: way_out.to_owned() }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Read(error)
    }
}
