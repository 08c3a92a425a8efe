//! Finds the parts of an HTML file that contain a trace.

use memchr::memmem;

use super::Unpacked;
use super::content::Content;

/// Maximum length of a tag; the `<script …>` tags of systrace are never longer.
const TAG_BYTES_MAX: usize = 1024;

const SCRIPT: &[u8] = b"<script";
const SCRIPT_END: &[u8] = b"</script";
/// The text before the trace, up to the backslash. The viewer's own code contains this text too, but without
/// a line end after it.
const OLD_DATA: &[u8] = b"linuxPerfData = \"\\";

/// Finds the parts of an HTML file that contain trace text.
#[derive(Default)]
pub(super) struct Html {
    /// Bytes that can be handled only when later bytes are known.
    pending: Vec<u8>,
    /// The part that is being read.
    part: Option<Content>,
}

impl Html {
    pub fn push(&mut self, bytes: &[u8], out: &mut Unpacked) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let mut rest = pending.as_slice();
        while let Some(taken) = self.step(rest, out) {
            rest = &rest[taken..];
        }
        pending.drain(..pending.len() - rest.len());
        self.pending = pending;
    }

    /// Returns the number of bytes of `text` that were handled; `None` if more bytes are needed.
    fn step(&mut self, text: &[u8], out: &mut Unpacked) -> Option<usize> {
        if let Some(part) = &mut self.part {
            if let Some(at) = memmem::find(text, SCRIPT_END) {
                part.push(&text[..at], out);
                part.finish(out);
                // Make the next part start on a new line.
                out.text.push(b'\n');
                self.part = None;
                return Some(at + SCRIPT_END.len());
            }
            let safe = text.len().saturating_sub(SCRIPT_END.len() - 1);
            part.push(&text[..safe], out);
            return Some(safe).filter(|safe| *safe > 0);
        }
        let script = memmem::find(text, SCRIPT);
        let old = memmem::find(text, OLD_DATA);
        match (script, old) {
            (Some(at), old) if old.is_none_or(|old| at < old) => {
                let tag = &text[at..];
                match memchr::memchr(b'>', &tag[..tag.len().min(TAG_BYTES_MAX)]) {
                    Some(end) => {
                        let tag = &tag[..end];
                        let holds = |name: &[u8]| memmem::find(tag, name).is_some();
                        self.part = (holds(b"trace-data") || holds(b"viewer-data")).then(Content::default);
                        Some(at + end + 1)
                    }
                    None if tag.len() >= TAG_BYTES_MAX => Some(at + SCRIPT.len()),
                    None => Some(at).filter(|at| *at > 0),
                }
            }
            (_, Some(at)) => {
                let after = at + OLD_DATA.len();
                match text.get(after) {
                    None => Some(at).filter(|at| *at > 0),
                    Some(b'\n' | b'\r') => {
                        self.part = Some(Content::default());
                        Some(after)
                    }
                    Some(_) => Some(after),
                }
            }
            _ => Some(text.len().saturating_sub(OLD_DATA.len())).filter(|safe| *safe > 0),
        }
    }

    /// Ends a part of the trace that extends to the end of the file.
    pub fn finish(&mut self, out: &mut Unpacked) {
        if let Some(mut part) = self.part.take() {
            part.push(&std::mem::take(&mut self.pending), out);
            part.finish(out);
        }
    }
}
