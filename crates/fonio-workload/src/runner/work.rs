//! Executes CPU work on real data.

use std::hint::black_box;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::worker::Worker;
use crate::content::Content;
use crate::definition::{Bytes, Work};
use crate::error::WorkloadError;

/// Executes CPU work: on new data if `bytes` is given, and otherwise on the data that the thread last fetched
/// or read.
pub(super) fn work(
    worker: &mut Worker<'_, '_>,
    kind: Work,
    bytes: Option<Bytes>,
) -> Result<(), WorkloadError> {
    if let Some(Bytes(bytes)) = bytes {
        let content = if kind == Work::Decode { Content::Deflated } else { Content::Text };
        let seed = worker.random.next_u64();
        worker.last.resize(bytes as usize, 0);
        content.fill(seed, 0, &mut worker.last);
    }
    let input = &worker.last;
    worker.amounts.bytes_worked += input.len() as u64;
    match kind {
        Work::Decode => {
            let key = worker.key.clone();
            black_box(inflate(input).map_err(|source| WorkloadError::Decode { key, source })?);
        }
        Work::Parse => {
            black_box(parse(input));
        }
        Work::Compress => {
            let mut encoder = ZlibEncoder::new(io::sink(), Compression::default());
            encoder.write_all(input).and_then(|()| encoder.finish()).expect("a sink takes everything");
        }
    }
    Ok(())
}

/// Decompresses a sequence of zlib streams and returns the decompressed length. The last stream may be
/// truncated, because each object is cut off at its given length.
fn inflate(mut input: &[u8]) -> io::Result<u64> {
    let mut out = vec![0; 64 * 1024];
    let mut total = 0;
    while !input.is_empty() {
        let mut decoder = ZlibDecoder::new(&mut input);
        loop {
            match decoder.read(&mut out) {
                Ok(0) => break,
                Ok(bytes) => total += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(total),
                Err(error) => return Err(error),
            }
        }
        if decoder.total_in() == 0 {
            break;
        }
    }
    Ok(total)
}

/// Counts the tags and words of marked-up text.
fn parse(input: &[u8]) -> (u64, u64) {
    let (mut tags, mut words, mut in_tag, mut in_word) = (0, 0, false, false);
    for &byte in input {
        match byte {
            b'<' => (tags, in_tag, in_word) = (tags + 1, true, false),
            b'>' => in_tag = false,
            _ if in_tag => {}
            _ if byte.is_ascii_alphabetic() => {
                words += u64::from(!in_word);
                in_word = true;
            }
            _ => in_word = false,
        }
    }
    (tags, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_sends_inflates_however_it_is_cut() {
        let whole = Content::Deflated.bytes(1, 2 << 20);
        assert!(inflate(&whole).unwrap() > 4 << 20);
        for len in [0, 1, 2, 100, 4096, 300_000] {
            inflate(&whole[..len]).unwrap();
        }
        assert!(inflate(b"no zlib stream at all").is_err());
    }

    #[test]
    fn tags_and_words_are_counted() {
        assert_eq!(parse(b"<p id=\"1\">two words</p>\n<b>x</b>"), (4, 3));
    }
}
