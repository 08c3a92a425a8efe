//! Limits the memory that a recording can make the analysis use, and counts the rows beyond the limits.
//!
//! Each question limits the number of things that it keeps. The limits here apply to all questions: the total
//! length of the paths, the length of other texts, and the number of devices.

use fonio_core::{Diagnostic, File, Severity, shortened};

use crate::question::context::DEVICES_MAX;

/// Maximum number of bytes of the paths of files: 400,000 paths of 80 bytes. Up to four copies of a path are
/// kept at a time.
const PATH_BYTES_MAX: usize = 32 << 20;

/// Maximum number of bytes of a text other than a path. Questions keep up to some thousand texts. Only long SQL
/// statements have more bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The rows that were left out because they exceeded a limit.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    path_bytes: usize,
    paths: u64,
    pub(super) files: u64,
    pub(super) requests: u64,
    texts: u64,
}

impl LeftOut {
    /// Returns the row without its path if there are too many paths already.
    pub(super) fn cut(&mut self, row: &File) -> Option<File> {
        let bytes = row.path.as_ref().map_or(0, String::len);
        if bytes <= PATH_BYTES_MAX - self.path_bytes {
            self.path_bytes += bytes;
            return None;
        }
        self.paths += 1;
        let File { file_id, from, device, inode, path: _, content } = *row;
        Some(File { file_id, from, device, inode, path: None, content })
    }

    /// Returns a row with shorter texts if one of its texts is too long. `texts` returns the texts of a row.
    pub(super) fn shorten<R: Clone, const N: usize>(
        &mut self,
        row: &R,
        texts: fn(&mut R) -> [Option<&mut String>; N],
        longest: usize,
    ) -> Option<R> {
        if longest <= TEXT_BYTES_MAX {
            return None;
        }
        let mut row = row.clone();
        for text in texts(&mut row).into_iter().flatten().filter(|text| text.len() > TEXT_BYTES_MAX) {
            text.truncate(shortened(text, TEXT_BYTES_MAX).len());
            self.texts += 1;
        }
        Some(row)
    }

    /// Returns a diagnostic for each exceeded limit.
    pub(super) fn diagnostics(&self) -> Vec<Diagnostic> {
        let paths = format!(
            "the paths of {} rows of files were left out, because the analysis keeps {} MiB of paths",
            self.paths,
            PATH_BYTES_MAX >> 20
        );
        let files = format!("{} rows of files were left out, because there are too many files", self.files);
        let requests = format!(
            "{} requests were left out, because the analysis covers at most {DEVICES_MAX} devices",
            self.requests
        );
        let texts = format!(
            "{} texts were cut, because the analysis keeps the first {TEXT_BYTES_MAX} bytes of a text",
            self.texts
        );
        let all = [(self.paths, paths), (self.files, files), (self.requests, requests), (self.texts, texts)];
        let exceeded = all.into_iter().filter(|(count, _)| *count > 0);
        let diagnostic = |(count, message)| Diagnostic {
            severity: Severity::Warning,
            code: "left-out".to_owned(),
            message,
            file: None,
            record: None,
            offset: None,
            count,
        };
        exceeded.map(diagnostic).collect()
    }
}
