//! Opens and reads files that come from strangers, such as the files of a recording.
//!
//! A path in a foreign directory can lead to anything: a FIFO blocks the reader until somebody writes to it,
//! `/dev/zero` never ends, and opening a device can change its state. Therefore these functions accept only
//! regular files, and check the size before they read. The errors do not name the file; callers add its name.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading, and returns it with its size in bytes. Fails with
/// [`ErrorKind::IsADirectory`] for a directory, and with [`ErrorKind::InvalidInput`] for a FIFO, socket or
/// device.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    // A device is not opened at all. If another file takes the place of this file before it is opened,
    // O_NONBLOCK avoids waiting for the writer of a FIFO.
    check(fs::metadata(path)?.file_type())?;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    check(found.file_type())?;
    Ok((file, found.len()))
}

/// Reads a regular file of at most `bytes_max` bytes. Fails like [`open`], and with
/// [`ErrorKind::FileTooLarge`] for a longer file.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, bytes) = open(path)?;
    check_size(bytes, bytes_max)?;
    let mut content = Vec::with_capacity(bytes as usize);
    // The file can grow while it is read.
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    check_size(content.len() as u64, bytes_max)?;
    Ok(content)
}

/// Reads a regular file of at most `bytes_max` bytes as text. Fails like [`read`], and with
/// [`ErrorKind::InvalidData`] if the content is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8");
    String::from_utf8(read(path, bytes_max)?).map_err(not_text)
}

/// Checks the size of a file. Fails with [`ErrorKind::FileTooLarge`] if it exceeds `bytes_max`.
pub fn check_size(bytes: u64, bytes_max: u64) -> io::Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let why = format!("it has {bytes} bytes, and fonio reads at most {bytes_max} bytes of such a file");
    Err(io::Error::new(ErrorKind::FileTooLarge, why))
}

fn check(found: FileType) -> io::Result<()> {
    let kind = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => {
            return Err(io::Error::new(ErrorKind::IsADirectory, "it is a directory, not a regular file"));
        }
        found if found.is_fifo() => "a FIFO",
        found if found.is_socket() => "a socket",
        found if found.is_block_device() || found.is_char_device() => "a device",
        _ => "a special file",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        fs::write(path("text"), "12345").expect("written");
        fs::write(path("bytes"), b"\xff").expect("written");
        // A sparse file takes no space.
        File::create(path("large")).and_then(|file| file.set_len(3 << 30)).expect("a sparse file");
        mknodat(CWD, path("fifo"), Kind::Fifo, Mode::RUSR, 0).expect("a FIFO");
        std::os::unix::fs::symlink("/dev/zero", path("zero")).expect("a link");
        std::os::unix::fs::symlink("text", path("link")).expect("a link");
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
        let result = |name: &str| match read_text(&path(name), 5) {
            Ok(text) => text,
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        for (name, expected) in [
            ("text", "12345"),
            ("link", "12345"),
            ("bytes", "InvalidData: it is not text in UTF-8"),
            (
                "large",
                "FileTooLarge: it has 3221225472 bytes, and fonio reads at most 5 bytes of such a file",
            ),
            ("fifo", "InvalidInput: it is a FIFO, not a regular file"),
            ("zero", "InvalidInput: it is a device, not a regular file"),
            ("socket", "InvalidInput: it is a socket, not a regular file"),
            (".", "IsADirectory: it is a directory, not a regular file"),
            ("none", "NotFound: No such file or directory (os error 2)"),
        ] {
            assert_eq!(result(name), expected, "{name}");
        }
        assert!(read(&path("text"), 4).is_err());
    }
}
