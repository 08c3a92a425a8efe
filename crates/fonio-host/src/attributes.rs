//! Reads and copies the extended attributes of a file, such as access control lists and security labels.

use std::ffi::CString;

use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

/// Prefixes of extended attributes that have the same meaning on all file systems; other prefixes are
/// specific to one file system.
const ATTRIBUTES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];

/// Gives `to` the extended attributes of `from`. Returns whether this changed an attribute.
pub(crate) fn copy_attributes(from: &str, to: &str) -> Result<bool> {
    let (wanted, now) = (attributes(from)?, attributes(to)?);
    for (name, value) in wanted.iter().filter(|attribute| !now.contains(attribute)) {
        rustix::fs::setxattr(to, name.as_c_str(), value, XattrFlags::empty())?;
    }
    for (name, _) in now.iter().filter(|(name, _)| !wanted.iter().any(|(known, _)| known == name)) {
        match rustix::fs::removexattr(to, name.as_c_str()) {
            Err(error) if error != Errno::NODATA => return Err(error),
            _ => {}
        }
    }
    Ok(wanted != now)
}

/// Returns the sorted extended attributes of an object.
pub(crate) fn attributes(path: &str) -> Result<Vec<(CString, Vec<u8>)>> {
    // The buffers have the sizes of the kernel's limits (XATTR_LIST_MAX, XATTR_SIZE_MAX).
    let mut names = vec![0_u8; 64 << 10];
    let length = match rustix::fs::listxattr(path, names.as_mut_slice()) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    names.truncate(length);
    let mut found = Vec::new();
    let mut value = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        if !ATTRIBUTES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let name = CString::new(name).expect("the name was split at zero bytes");
        value.resize(64 << 10, 0_u8);
        match rustix::fs::getxattr(path, name.as_c_str(), value.as_mut_slice()) {
            Err(Errno::NODATA) => {}
            length => found.push((name, value[..length?].to_vec())),
        }
    }
    found.sort();
    Ok(found)
}
