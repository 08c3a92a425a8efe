//! Unpacks one part of a file: text, possibly packed once or twice.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};
use memchr::memmem;
use std::io::Write;

use super::Unpacked;
use crate::expansion;

/// Number of bytes that are examined to recognise how a part is packed.
const SNIFF_BYTES: usize = 16;

/// Number of bytes unpacked at a time by one decompressor.
const INFLATE_BYTES: usize = 32 * 1024;

/// One part of a stream, unpacked as its bytes arrive.
pub(super) struct Content {
    state: State,
    /// Whether base64 and compression were unpacked. Each of the two is unpacked at most once, base64 first,
    /// because a crafted file can unpack to itself or grow a thousandfold at each level.
    was_base64: bool,
    was_compressed: bool,
}

enum State {
    /// The part's first bytes, without leading blanks.
    Sniff(Vec<u8>),
    Text,
    Json(Box<Json>),
    Base64 {
        /// The characters of an incomplete base64 group of four.
        group: Vec<u8>,
        inner: Box<Content>,
    },
    Zlib {
        stream: Box<Decompress>,
        inner: Box<Content>,
    },
    Gzip {
        stream: Box<flate2::write::MultiGzDecoder<Vec<u8>>>,
        inner: Box<Content>,
    },
    /// The rest of the part is ignored.
    Done,
}

impl Default for Content {
    fn default() -> Content {
        Content { state: State::Sniff(Vec::new()), was_base64: false, was_compressed: false }
    }
}

impl Content {
    pub fn push(&mut self, bytes: &[u8], out: &mut Unpacked) {
        match &mut self.state {
            State::Sniff(head) => {
                let bytes = if head.is_empty() { bytes.trim_ascii_start() } else { bytes };
                let wanted = (SNIFF_BYTES - head.len()).min(bytes.len());
                head.extend_from_slice(&bytes[..wanted]);
                if head.len() == SNIFF_BYTES {
                    self.begin(out);
                    self.push(&bytes[wanted..], out);
                }
            }
            State::Text => out.text.extend_from_slice(bytes),
            State::Json(json) => json.push(bytes, out),
            State::Base64 { group, inner } => {
                let characters: Vec<u8> = group
                    .drain(..)
                    .chain(bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()))
                    .collect();
                let whole = characters.len() / 4 * 4;
                group.extend_from_slice(&characters[whole..]);
                match STANDARD.decode(&characters[..whole]) {
                    Ok(decoded) => inner.push(&decoded, out),
                    Err(error) => {
                        out.damaged(&format!("The base64 data is damaged ({error})"));
                        self.state = State::Done;
                    }
                }
            }
            State::Zlib { stream, inner } => {
                if !inflate(stream, inner, bytes, out) {
                    self.state = State::Done;
                }
            }
            State::Gzip { stream, inner } => {
                // Small steps limit the decoder's output.
                for piece in bytes.chunks(INFLATE_BYTES / 32) {
                    let result = stream.write_all(piece).and_then(|()| stream.flush());
                    let unpacked = std::mem::take(stream.get_mut());
                    inner.push(&unpacked, out);
                    let ends = result.is_err() || out.inflated(unpacked.len());
                    if let Err(error) = result {
                        out.damaged(&format!("The gzip data is damaged ({error})"));
                    }
                    if ends {
                        self.state = State::Done;
                        return;
                    }
                }
            }
            State::Done => {}
        }
    }

    /// Recognises from the first bytes how the part is packed.
    fn begin(&mut self, out: &mut Unpacked) {
        let State::Sniff(head) = &mut self.state else { return };
        let head = std::mem::take(head);
        let inner = |was_base64, was_compressed| {
            Box::new(Content { state: State::Sniff(Vec::new()), was_base64, was_compressed })
        };
        let compressed = !self.was_compressed;
        let base64 = head.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(byte));
        let packed =
            [b"H4sI".as_slice(), b"eJ", b"eA", b"eN", b"eF"].iter().any(|begin| head.starts_with(begin));
        self.state = if compressed && head.starts_with(&[0x1f, 0x8b]) {
            let stream = Box::new(flate2::write::MultiGzDecoder::new(Vec::new()));
            State::Gzip { stream, inner: inner(self.was_base64, true) }
        } else if compressed
            && head.len() > 1
            && head[0] == 0x78
            && u16::from_be_bytes([head[0], head[1]]).is_multiple_of(31)
        {
            State::Zlib { stream: Box::new(Decompress::new(true)), inner: inner(self.was_base64, true) }
        } else if compressed && !self.was_base64 && base64 && packed {
            State::Base64 { group: Vec::new(), inner: inner(true, false) }
        } else if matches!(head.first(), Some(b'{' | b'[')) {
            State::Json(Box::default())
        } else {
            State::Text
        };
        self.push(&head, out);
    }

    /// Ends the part, after all of its bytes have arrived.
    pub fn finish(&mut self, out: &mut Unpacked) {
        if matches!(self.state, State::Sniff(_)) {
            self.begin(out);
        }
        match &mut self.state {
            State::Base64 { group, inner } => {
                if !group.is_empty() {
                    out.damaged("The base64 data is cut short");
                }
                inner.finish(out);
            }
            State::Zlib { inner, .. } => {
                out.damaged("The compressed data is cut short");
                inner.finish(out);
            }
            State::Gzip { stream, inner } => {
                let result = stream.try_finish();
                inner.push(&std::mem::take(stream.get_mut()), out);
                if let Err(error) = result {
                    out.damaged(&format!("The gzip data is damaged or cut short ({error})"));
                }
                inner.finish(out);
            }
            State::Sniff(_) | State::Text | State::Json(_) | State::Done => {}
        }
        self.state = State::Done;
    }
}

/// Unpacks `bytes`; returns whether the compressed stream continues.
fn inflate(stream: &mut Decompress, inner: &mut Content, mut bytes: &[u8], out: &mut Unpacked) -> bool {
    let mut piece = vec![0; INFLATE_BYTES];
    loop {
        let (read, written) = (stream.total_in(), stream.total_out());
        let status = stream.decompress(bytes, &mut piece, FlushDecompress::None);
        let (read, written) = ((stream.total_in() - read) as usize, (stream.total_out() - written) as usize);
        inner.push(&piece[..written], out);
        bytes = &bytes[read..];
        if out.inflated(written) {
            return false;
        }
        match status {
            Ok(Status::StreamEnd) => {
                inner.finish(out);
                return false;
            }
            Ok(_) if read == 0 && written == 0 => return true,
            Ok(_) => {}
            Err(error) => {
                out.damaged(&format!("The compressed data is damaged ({error})"));
                inner.finish(out);
                return false;
            }
        }
    }
}

impl Unpacked {
    /// Counts bytes unpacked from compressed data; returns whether they are too many for a trace.
    fn inflated(&mut self, count: usize) -> bool {
        self.inflated += count as u64;
        let too_far = expansion::is_too_far(self.packed, self.inflated);
        if too_far {
            self.damaged(&expansion::describe("compressed data"));
        }
        too_far
    }

    fn damaged(&mut self, what: &str) {
        self.damage.get_or_insert_with(|| what.to_owned());
    }
}

const KEY: &[u8] = b"\"systemTraceEvents\"";

/// Extracts the `systemTraceEvents` strings from JSON.
#[derive(Default)]
struct Json {
    at: JsonAt,
    /// The last bytes that were read, which may be the start of the key.
    tail: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
enum JsonAt {
    #[default]
    Elsewhere,
    /// Between the key `systemTraceEvents` and its value.
    Colon,
    Text,
    /// In a string, after a backslash.
    Escape,
    /// Within a `\u` escape: the number of remaining digits, and the value of the digits so far.
    Unicode(u8, u32),
}

impl Json {
    fn push(&mut self, bytes: &[u8], out: &mut Unpacked) {
        let mut rest = bytes;
        while let Some(byte) = rest.first().copied() {
            if let JsonAt::Elsewhere = self.at {
                let kept = self.tail.len();
                self.tail.extend_from_slice(rest);
                match memmem::find(&self.tail, KEY) {
                    Some(at) => {
                        rest = &rest[at + KEY.len() - kept..];
                        self.tail.clear();
                        self.at = JsonAt::Colon;
                    }
                    None => {
                        self.tail.drain(..self.tail.len().saturating_sub(KEY.len() - 1));
                        return;
                    }
                }
                continue;
            }
            rest = &rest[1..];
            self.at = match (self.at, byte) {
                (JsonAt::Colon, b':' | b' ' | b'\t' | b'\r' | b'\n') => JsonAt::Colon,
                (JsonAt::Colon, b'"') => JsonAt::Text,
                (JsonAt::Colon, _) => JsonAt::Elsewhere,
                (JsonAt::Text, b'"') => {
                    out.text.push(b'\n');
                    JsonAt::Elsewhere
                }
                (JsonAt::Text, b'\\') => JsonAt::Escape,
                (JsonAt::Text, byte) => {
                    out.text.push(byte);
                    JsonAt::Text
                }
                (JsonAt::Escape, b'u') => JsonAt::Unicode(4, 0),
                (JsonAt::Escape, byte) => {
                    out.text.push(match byte {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 8,
                        b'f' => 12,
                        other => other,
                    });
                    JsonAt::Text
                }
                (JsonAt::Unicode(left, value), byte) => {
                    let digit = char::from(byte).to_digit(16).unwrap_or(0);
                    let value = value << 4 | digit;
                    if left > 1 {
                        JsonAt::Unicode(left - 1, value)
                    } else {
                        // Surrogate pairs are not decoded, because traces contain no such pairs.
                        let character = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
                        out.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        JsonAt::Text
                    }
                }
                (JsonAt::Elsewhere, _) => JsonAt::Elsewhere,
            };
        }
    }
}
