//! Reads systrace and atrace output: ftrace text inside another format.
//!
//! | written by | format |
//! |---|---|
//! | systrace since 2015 | HTML; the text is in a `<script class="trace-data" type="application/text">` next to others with a process list or JSON |
//! | systrace 2013 to 2014 | the same, but each line ends in `\n\` |
//! | systrace 2012, Android Studio's monitor | HTML; JavaScript `var linuxPerfData = "\`, lines that end in `\n\`, `";` |
//! | trace2html | HTML; `<script id="viewer-data">` with base64 of gzip, or of JSON |
//! | Chrome | JSON with the text as the string `systemTraceEvents` |
//! | `atrace` | its messages, a line `TRACE:`, and then the text |
//! | `atrace -z` | the same with a zlib stream after `TRACE:` |
//!
//! Sources: catapult's `systrace/systrace/output_generator.py`, `systrace/tracing_agents/atrace_agent.py` and
//! `tracing/extras/importer/`, and the older `systrace.py` of Android's `external/chromium-trace`.

mod content;
mod html;

use std::io::{self, Read};

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, Diagnostic, Severity, TraceReader};
use memchr::memmem;

use crate::ftrace_text::FtraceText;
use crate::input::Input;
use content::Content;
use html::Html;

/// Number of bytes searched for the line `TRACE:`.
const PREAMBLE_BYTES_MAX: usize = 64 * 1024;

/// Number of bytes read at a time, and number of bytes unpacked at a time. Deflate expands data by a factor
/// of at most about 1032.
const READ_BYTES: usize = 64 * 1024;
const STEP_BYTES: usize = 4 * 1024;

/// Returns whether the start of a file looks like one of these formats.
pub fn recognise(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |word: &[u8]| text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word);
    begins(b"<!doctype html")
        || begins(b"<html")
        || after_trace_line(text).is_some()
        || begins(b"{\"traceEvents\"")
        || (begins(b"{") && memmem::find(text, b"\"systemTraceEvents\"").is_some())
}

/// Returns the start of the line after `TRACE:`.
fn after_trace_line(text: &[u8]) -> Option<usize> {
    memmem::find_iter(text, b"TRACE:").find_map(|at| {
        let begins_line = at == 0 || text[at - 1] == b'\n';
        let returns = text[at + 6..].iter().take_while(|byte| **byte == b'\r').count();
        let end = at + 6 + returns;
        (begins_line && text.get(end) == Some(&b'\n')).then_some(end + 1)
    })
}

/// Reads systrace's and atrace's output.
pub struct SystraceReader {
    text: FtraceText<Extract<Box<dyn Read + Send>>>,
    file: String,
}

impl SystraceReader {
    /// Creates a reader of `input`. Positions in diagnostics refer to the extracted ftrace text.
    pub fn new(input: Input) -> SystraceReader {
        let text =
            FtraceText::new(Extract::new(input.bytes), Some(input.name.clone())).with_escaped_line_ends();
        SystraceReader { text, file: input.name }
    }
}

impl TraceReader for SystraceReader {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let more = self.text.next_batch(batch)?;
        if !more {
            let extract = self.text.source_mut();
            let (code, message) = match (extract.damage.take(), extract.found) {
                (Some(damage), _) => {
                    ("damaged-compression", format!("{damage}; the rest of that part is not read."))
                }
                (None, false) => ("no-trace", "The file contains no ftrace text; nothing was read.".into()),
                (None, true) => return Ok(false),
            };
            batch.diagnostics.push(Diagnostic {
                severity: Severity::Error,
                code: code.into(),
                message,
                file: Some(self.file.clone()),
                record: None,
                offset: None,
                count: 1,
            });
            extract.found = true;
        }
        Ok(more)
    }

    fn source(&self) -> Source {
        Source { format: "systrace".into(), files: vec![self.file.clone()], shows: self.text.shows() }
    }

    fn clock(&self) -> Clock {
        self.text.clock()
    }

    fn may_show_waits(&self) -> bool {
        true
    }
}

/// The recognised format of the stream.
enum Form {
    /// The format is not yet known; contains the bytes read so far.
    Unknown(Vec<u8>),
    Html(Html),
    /// The rest of the stream is the trace.
    Bare(Content),
}

/// Receives the unpacked parts of a stream.
#[derive(Default)]
struct Unpacked {
    text: Vec<u8>,
    /// A description of the first part of the file that could not be unpacked completely.
    damage: Option<String>,
    /// Number of bytes read from the stream, and number of bytes unpacked from its compressed parts.
    packed: u64,
    inflated: u64,
}

/// Extracts only the ftrace text from a stream.
pub(crate) struct Extract<R> {
    source: R,
    form: Form,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    out: Unpacked,
    /// Number of bytes of text that were already returned.
    given: usize,
    /// Whether the stream contained any ftrace text.
    found: bool,
    damage: Option<String>,
    ended: bool,
}

impl<R: Read> Extract<R> {
    pub(crate) fn new(source: R) -> Extract<R> {
        Extract {
            source,
            form: Form::Unknown(Vec::new()),
            buffer: vec![0; READ_BYTES],
            begin: 0,
            end: 0,
            out: Unpacked::default(),
            given: 0,
            found: false,
            damage: None,
            ended: false,
        }
    }

    /// Processes the next few bytes; returns `false` at the end of the stream.
    fn step(&mut self) -> io::Result<bool> {
        if self.begin == self.end {
            if self.ended {
                return Ok(false);
            }
            self.begin = 0;
            self.end = self.source.read(&mut self.buffer)?;
            if self.end == 0 {
                self.ended = true;
                self.settle(true);
                match &mut self.form {
                    Form::Html(html) => html.finish(&mut self.out),
                    Form::Bare(content) => content.finish(&mut self.out),
                    Form::Unknown(_) => {}
                }
                return Ok(true);
            }
        }
        let to = (self.begin + STEP_BYTES).min(self.end);
        let bytes = &self.buffer[self.begin..to];
        self.out.packed += bytes.len() as u64;
        self.begin = to;
        match &mut self.form {
            Form::Html(html) => html.push(bytes, &mut self.out),
            Form::Bare(content) => content.push(bytes, &mut self.out),
            Form::Unknown(head) => {
                head.extend_from_slice(bytes);
                self.settle(false);
            }
        }
        Ok(true)
    }

    /// Decides the format once enough bytes were read or the stream has ended.
    fn settle(&mut self, all: bool) {
        let Form::Unknown(head) = &mut self.form else { return };
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        match text.first() {
            Some(b'<') if !text.starts_with(b"<idle>") && !text.starts_with(b"<...>") => {
                let mut html = Html::default();
                html.push(text, &mut self.out);
                self.form = Form::Html(html);
            }
            _ => {
                let begins_at = match after_trace_line(head) {
                    Some(at) => at,
                    None if all || head.len() >= PREAMBLE_BYTES_MAX => 0,
                    None => return,
                };
                // Unpack the bytes in steps, because the unpacked data may be much larger.
                let mut content = Content::default();
                for step in head[begins_at..].chunks(STEP_BYTES) {
                    content.push(step, &mut self.out);
                }
                self.form = Form::Bare(content);
            }
        }
    }
}

impl<R: Read> Read for Extract<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.text.len() {
            self.out.text.clear();
            self.given = 0;
            if !self.step()? {
                self.damage = self.damage.take().or_else(|| self.out.damage.take());
                return Ok(0);
            }
        }
        self.found = true;
        let count = to.len().min(self.out.text.len() - self.given);
        to[..count].copy_from_slice(&self.out.text[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
