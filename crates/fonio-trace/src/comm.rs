//! The names of threads.

/// Maximum length of a name, as in the kernel.
const BYTES_MAX: usize = 15;

/// The name of a thread, at most 15 bytes as in the kernel.
///
/// ```text
/// bytes 0 to 14: the name, then zeros | byte 15: the length
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(align(8))]
pub(crate) struct Comm([u8; BYTES_MAX + 1]);

impl Comm {
    #[inline]
    pub fn of(name: &[u8]) -> Comm {
        let length = name.len().min(BYTES_MAX);
        let bytes = first_bytes(&name[..length]) | (length as u128) << (8 * BYTES_MAX);
        Comm(bytes.to_le_bytes())
    }

    /// Returns the last bytes of a name, as Android's runtime names the main thread of an app.
    pub fn end_of(name: &[u8]) -> Comm {
        Comm::of(&name[name.len().saturating_sub(BYTES_MAX)..])
    }

    pub fn is_unknown(&self) -> bool {
        self.0[BYTES_MAX] == 0
    }

    /// Returns the name; `None` if it is unknown.
    pub fn known(&self) -> Option<&[u8]> {
        (!self.is_unknown()).then(|| &self.0[..usize::from(self.0[BYTES_MAX])])
    }
}

/// Returns up to 16 bytes as a little-endian number, with two loads that overlap.
#[inline]
fn first_bytes(bytes: &[u8]) -> u128 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        u128::from(first) | u128::from(last) << (8 * (length - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u128::from(u64::from(first) | u64::from(last) << (8 * (length - 4)))
    } else {
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.known().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_length() {
        let name = b"abcdefghijklmnopqrst";
        for length in 0..name.len() {
            let comm = Comm::of(&name[..length]);
            let expected = &name[..length.min(BYTES_MAX)];
            assert_eq!(comm.known(), Some(expected).filter(|name| !name.is_empty()), "{length}");
            assert_eq!(comm == Comm::of(b"abcdefgh"), length == 8);
        }
        assert_eq!(Comm::end_of(name).known(), Some(&name[5..]));
        assert_eq!(Comm::default(), Comm::of(b""));
    }
}
