//! The content of files, rows and HTTP bodies, generated from a seed.

use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use fonio_core::Random;

/// A kind of content. The kind affects file systems and devices that compress data, and the CPU time of
/// threads that process the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Incompressible bytes, like photographs, videos and packages.
    #[default]
    Random,
    /// Words and markup; deflate reduces this content to about a third.
    Text,
    /// A sequence of zlib streams of words and markup, like a server's compressed response. The last zlib
    /// stream is truncated.
    Deflated,
}

const TEXT_POOL_BYTES: usize = 1 << 20;

const WORDS: &[&str] = &[
    "the", "of", "and", "to", "in", "phone", "flash", "write", "page", "message", "photo", "news", "today",
    "user", "with", "from", "street", "weather", "image", "title", "about", "search", "more", "contact",
    "login", "click", "share", "comment", "like", "video", "music", "market", "world", "sport", "review",
    "price", "order", "account", "settings", "help",
];

const TAGS: &[&str] = &["p", "div", "span", "li", "a", "td", "h2", "b"];

/// Returns 1 MiB of words with markup, the same in every run. An object's seed determines where the object
/// starts.
fn text_pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut random = Random::labelled(0, "text");
        let mut pool = Vec::with_capacity(TEXT_POOL_BYTES + 256);
        while pool.len() < TEXT_POOL_BYTES {
            let tag = TAGS[random.below(TAGS.len() as u64) as usize];
            pool.extend_from_slice(format!("<{tag} id=\"{:x}\">", random.below(1 << 20)).as_bytes());
            for _ in 0..random.between(3, 14) {
                pool.extend_from_slice(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes());
                pool.push(b' ');
            }
            pool.extend_from_slice(format!("</{tag}>\n").as_bytes());
        }
        pool.truncate(TEXT_POOL_BYTES);
        pool
    })
}

fn deflated_pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text_pool()).expect("writing to memory cannot fail");
        encoder.finish().expect("writing to memory cannot fail")
    })
}

impl Content {
    /// The kinds of content, with their names in the HTTP server's paths.
    pub(crate) const NAMES: [(Content, &str); 3] =
        [(Content::Random, "random"), (Content::Text, "text"), (Content::Deflated, "deflated")];

    /// Fills `buffer` with the bytes of the object `seed` from `offset` on. `offset` must be a multiple of 8.
    pub fn fill(self, seed: u64, offset: u64, buffer: &mut [u8]) {
        match self {
            Content::Random => {
                let mut random = Random::new(seed).skip(offset / 8);
                for piece in buffer.chunks_mut(8) {
                    piece.copy_from_slice(&random.next_u64().to_le_bytes()[..piece.len()]);
                }
            }
            Content::Text => {
                let start = Random::new(seed).below(TEXT_POOL_BYTES as u64);
                repeat_from(text_pool(), start + offset, buffer);
            }
            Content::Deflated => repeat_from(deflated_pool(), offset, buffer),
        }
    }

    /// Returns the first `len` bytes of the object with this seed.
    #[must_use]
    pub fn bytes(self, seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(seed, 0, &mut bytes);
        bytes
    }
}

/// Returns random words of the text pool as a string of exactly `len` bytes.
pub(crate) fn words(random: &mut Random, len: usize) -> String {
    let bytes = Content::Text.bytes(random.next_u64(), len);
    String::from_utf8(bytes).expect("the pool is ASCII")
}

fn repeat_from(pool: &[u8], start: u64, buffer: &mut [u8]) {
    let mut at = (start % pool.len() as u64) as usize;
    let mut filled = 0;
    while filled < buffer.len() {
        let piece = (pool.len() - at).min(buffer.len() - filled);
        buffer[filled..filled + piece].copy_from_slice(&pool[at..at + piece]);
        filled += piece;
        at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated_share(bytes: &[u8]) -> f64 {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().len() as f64 / bytes.len() as f64
    }

    #[test]
    fn pieces_are_those_of_the_whole() {
        for content in [Content::Random, Content::Text, Content::Deflated] {
            let whole = content.bytes(5, 3 << 20);
            for (offset, len) in [(0, 10), (8, 4096), (1 << 20, 65_536), ((3 << 20) - 24, 24)] {
                let mut piece = vec![0; len];
                content.fill(5, offset as u64, &mut piece);
                assert_eq!(piece, whole[offset..offset + len], "{content:?} at {offset}");
            }
        }
    }

    #[test]
    fn random_is_incompressible_and_text_is_not() {
        assert!(deflated_share(&Content::Random.bytes(1, 1 << 18)) > 0.99);
        assert!(deflated_share(&Content::Text.bytes(1, 1 << 18)) < 0.5);
        assert_ne!(Content::Text.bytes(1, 100), Content::Text.bytes(2, 100));
    }
}
