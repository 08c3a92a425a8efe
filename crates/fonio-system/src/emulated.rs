//! Notes in the state folder which profile an emulated device has, so that every command can name it.
//!
//! A note is a file `*.emulated` with one line: the kernel's name of the device, its sequence number and the
//! profile, separated by spaces. The kernel gives each new disk another sequence number (`diskseq`, Linux 5.15;
//! 0 on older kernels). Therefore, a note that was left behind does not name a later device.

use std::io;
use std::path::Path;

use crate::trusted::TrustedFolder;

/// The extension of a note.
pub const EXTENSION: &str = "emulated";

/// Maximum number of bytes of a note.
const BYTES_MAX: u64 = 4096;

/// Writes a note to `path`, which must be in the state folder. `device` is a name such as `loop700`. Fails if
/// the file cannot be written.
pub fn note(path: &Path, device: &str, sequence: u64, profile: &str) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("{} is not a file in a folder", path.display())));
    };
    let line = format!("{device} {sequence} {}\n", shown(profile));
    Ok(TrustedFolder::make(dir)?.replace_without_sync(name, line.as_bytes())?)
}

/// Returns the profile of the emulated device with this name and sequence number; `None` if no note in `folder`
/// names the device, or the notes cannot be read.
pub fn profile_of(folder: &Path, device: &str, sequence: u64) -> Option<String> {
    let folder = TrustedFolder::open(folder).ok()??;
    let begin = format!("{device} {sequence} ");
    let notes = folder
        .names()
        .ok()?
        .into_iter()
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == EXTENSION));
    for name in notes {
        // A note can be removed meanwhile.
        let Ok(Some(text)) = folder.read(&name, BYTES_MAX) else { continue };
        let text = String::from_utf8_lossy(&text);
        if let Some(profile) = text.lines().next().and_then(|line| line.strip_prefix(&begin)) {
            return Some(profile.to_owned());
        }
    }
    None
}

/// Returns the profile's name. A file of the user is not named, because models of devices stay in redacted
/// recordings.
fn shown(profile: &str) -> &str {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-+:".contains(letter);
    if profile.chars().all(is_name) && !profile.is_empty() { profile } else { "profile of the user" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_until_another_has_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let note = |file: &str, device: &str, sequence, profile: &str| {
            note(&folder.path().join(file), device, sequence, profile).expect("the folder can be written");
        };
        note("7-0.emulated", "loop700", 12, "kingston");
        note("7-1.emulated", "ublkb701", 13, "./cards/mine.toml");
        note("7-2.emulated", "loop70", 12, "buffered:pcm+ridata");
        note("7-3.ledger", "loop702", 14, "kingston");
        let of = |device: &str, sequence| profile_of(folder.path(), device, sequence);
        assert_eq!(of("loop700", 12).as_deref(), Some("kingston"));
        assert_eq!(of("ublkb701", 13).as_deref(), Some("profile of the user"));
        assert_eq!(of("loop70", 12).as_deref(), Some("buffered:pcm+ridata"));
        assert_eq!((of("loop700", 15), of("loop702", 14), of("sda", 1)), (None, None, None));
        assert_eq!(profile_of(&folder.path().join("none"), "loop700", 12), None);
    }
}
