//! Reads `diagnostics.jsonl`.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use fonio_core::RowSink;
use fonio_system::regular;

use crate::error::RecordingError;
use crate::writer::DIAGNOSTICS_FILE;

/// Maximum number of bytes of the file. Producers merge diagnostics with the same code, so they write a few
/// KiB.
const BYTES_MAX: u64 = 64 << 20;
/// Maximum number of bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Passes the diagnostics in `dir` to `sink`. A recording without the file has none.
pub(super) fn replay(dir: &Path, sink: &mut dyn RowSink) -> Result<(), RecordingError> {
    let path = dir.join(DIAGNOSTICS_FILE);
    let file = match regular::open(&path) {
        Ok((file, bytes)) => regular::check_size(bytes, BYTES_MAX).map(|()| file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    };
    // The file can grow while it is read.
    let mut file = BufReader::new(file.map_err(RecordingError::io("read", &path))?.take(BYTES_MAX));
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let read = (&mut file).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text);
        if read.map_err(RecordingError::io("read", &path))? == 0 {
            break;
        }
        if text.len() as u64 > LINE_BYTES_MAX {
            let why = format!("line {line} has more than {LINE_BYTES_MAX} bytes");
            return Err(RecordingError::TooLarge { path, why });
        }
        let row = serde_json::from_slice(&text).map_err(|source| RecordingError::Json {
            path: path.clone(),
            line,
            source,
        })?;
        sink.diagnostic(&row).map_err(RecordingError::Sink)?;
    }
    Ok(())
}
