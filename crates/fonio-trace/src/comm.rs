//! The names of threads.

/// The name of a thread, at most 15 bytes as in the kernel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Comm {
    length: u8,
    bytes: [u8; 15],
}

impl Comm {
    pub fn of(name: &[u8]) -> Comm {
        let mut comm = Comm { length: name.len().min(15) as u8, bytes: [0; 15] };
        let length = usize::from(comm.length);
        comm.bytes[..length].copy_from_slice(&name[..length]);
        comm
    }

    /// Returns the last bytes of a name, as Android's runtime names the main thread of an app.
    pub fn end_of(name: &[u8]) -> Comm {
        Comm::of(&name[name.len().saturating_sub(15)..])
    }

    /// Returns the name; `None` if it is unknown.
    pub fn known(&self) -> Option<&[u8]> {
        (self.length > 0).then(|| &self.bytes[..usize::from(self.length)])
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.known().unwrap_or_default()))
    }
}
