//! Reads the numbers and names of a FUSE record, one after the other.

use std::ffi::CStr;

/// The error for a record that is too short for the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Malformed> for rustix::io::Errno {
    fn from(_: Malformed) -> Self {
        Self::INVAL
    }
}

/// The unread rest of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.rest = self.rest.get(bytes..).ok_or(Malformed)?;
        Ok(())
    }

    /// Reads a name, which ends with a zero byte.
    pub(crate) fn name(&mut self) -> Result<&'a CStr, Malformed> {
        let name = CStr::from_bytes_until_nul(self.rest).map_err(|_| Malformed)?;
        self.rest = self.rest.get(name.to_bytes_with_nul().len()..).ok_or(Malformed)?;
        Ok(name)
    }

    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (first, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed)?;
        self.rest = rest;
        Ok(first)
    }
}
