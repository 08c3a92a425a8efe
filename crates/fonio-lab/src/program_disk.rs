//! The disk on which a guest gets the programs of an app.

use std::path::PathBuf;

/// A disk image with programs, for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramDisk {
    /// The raw image, with ext4.
    pub image: PathBuf,
    /// The folder at which the guest mounts the image.
    pub root: PathBuf,
    /// The file that lists the packages.
    pub list: PathBuf,
}
