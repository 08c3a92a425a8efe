//! Checks the file of one device and day: JSON Lines, compressed with gzip. `docs/fleet.md` describes it.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use serde::Deserialize;
use thiserror::Error;

/// Maximum number of bytes of a file, decompressed.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What is wrong with a file.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum BadDayFile {
    #[error("the file is not complete data of gzip ({0}); send it again")]
    Gzip(io::Error),
    #[error("the file has more than {TEXT_BYTES_MAX} bytes, or bytes after its end")]
    Long,
    #[error("line {0} is not a JSON object with a known kind (device, disk, unit, stall, end)")]
    Line(u64),
    #[error(
        "the first line must be the device's, and the last line the end's; the file is half-written or mixed up"
    )]
    Order,
    #[error("the last line counts {said} lines, but the file has {found}; send it again")]
    Count { said: u64, found: u64 },
    #[error("the file belongs to another device or day than its address")]
    Address,
}

#[derive(Deserialize)]
struct Line {
    kind: Kind,
    device: Option<String>,
    day: Option<String>,
    lines: Option<u64>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Device,
    Disk,
    Unit,
    Stall,
    End,
}

/// Checks the file's form, its completeness, and its device and day. Reports check the values.
pub(super) fn check(bytes: &[u8], device: &str, day: &str) -> Result<(), BadDayFile> {
    let mut text = BufReader::new(GzDecoder::new(bytes).take(TEXT_BYTES_MAX));
    let (mut found, mut last) = (0, None);
    let mut buffer = Vec::new();
    while text.read_until(b'\n', &mut buffer).map_err(BadDayFile::Gzip)? > 0 {
        found += 1;
        let line: Line = serde_json::from_slice(&buffer).map_err(|_| BadDayFile::Line(found))?;
        if (line.kind == Kind::Device) != (found == 1) || last.is_some() {
            return Err(BadDayFile::Order);
        }
        if line.kind == Kind::Device
            && (line.device.as_deref(), line.day.as_deref()) != (Some(device), Some(day))
        {
            return Err(BadDayFile::Address);
        }
        if line.kind == Kind::End {
            last = Some(line.lines.unwrap_or_default());
        }
        buffer.clear();
    }
    let limited = text.into_inner();
    if limited.limit() == 0 || !limited.into_inner().into_inner().is_empty() {
        return Err(BadDayFile::Long);
    }
    match last {
        None => Err(BadDayFile::Order),
        Some(said) if said != found => Err(BadDayFile::Count { said, found }),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn gzip(text: &str) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap()
    }

    const DEVICE: &str = r#"{"kind": "device", "schema": 2, "device": "d1", "day": "2026-01-02"}"#;
    const DISK: &str = r#"{"kind": "disk", "disk": "mmcblk0", "a_new_column": [1]}"#;

    #[test]
    fn a_file_is_complete_and_of_its_device_and_day() {
        let whole = format!("{DEVICE}\n{DISK}\n{{\"kind\": \"end\", \"lines\": 3}}\n");
        let check = |bytes: &[u8]| super::check(bytes, "d1", "2026-01-02").map_err(|error| error.to_string());
        assert_eq!(check(&gzip(&whole)), Ok(()));
        for (text, words) in [
            (String::new(), "half-written"),
            (format!("{DEVICE}\n{DISK}\n"), "half-written"),
            (whole.replace("\"disk\", ", "\"disc\", "), "line 2 is not"),
            (whole.replace("3}", "4}"), "counts 4 lines, but the file has 3"),
            (whole.replace("d1", "d2"), "another device"),
            (whole.replace("01-02", "01-03"), "another device"),
            (format!("{whole}{DISK}\n"), "mixed up"),
            (format!("{DEVICE}\n{whole}"), "mixed up"),
            (format!("{DEVICE}\n{}", "[".repeat(100_000)), "line 2 is not"),
            (format!("{DEVICE}\n{}", " ".repeat(17 << 20)), "not a JSON object"),
        ] {
            let error = check(&gzip(&text)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let bytes = gzip(&whole);
        assert!(check(&bytes[..bytes.len() - 9]).unwrap_err().contains("gzip"));
        assert!(check(&[&bytes[..], b"more"].concat()).unwrap_err().contains("after its end"));
        assert!(check(b"plain").unwrap_err().contains("gzip"));
    }
}
