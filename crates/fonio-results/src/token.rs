//! Creates public ids with 128 random bits, and secret delete tokens with 256 random bits. Ids and tokens
//! consist of hexadecimal digits.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The number of digits of an id.
pub const ID_DIGITS: usize = 32;

/// The number of digits of a delete token.
pub const TOKEN_DIGITS: usize = 64;

/// Returns a new random id.
pub fn new_id() -> String {
    random::<{ ID_DIGITS / 2 }>()
}

/// Returns a new random delete token.
pub fn new_token() -> String {
    random::<{ TOKEN_DIGITS / 2 }>()
}

fn random<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the kernel provides random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a text is a well-formed id.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns the hash of a token. The database stores only this hash. A token has 256 random bits, so its hash
/// cannot be reversed even without a salt.
pub fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

/// Returns whether the hash of a token equals the stored hash. The comparison takes constant time.
pub fn matches(token: &str, stored: &[u8]) -> bool {
    hash(token).ct_eq(stored).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_matches_its_hash() {
        let (one, two) = (new_token(), new_token());
        assert_eq!(one.len(), TOKEN_DIGITS);
        assert!(matches(&one, &hash(&one)));
        assert!(!matches(&two, &hash(&one)));
        assert!(!matches(&one, &[]) && !matches("", &hash(&one)));
    }

    #[test]
    fn ids_are_recognised() {
        assert!(is_id(&new_id()));
        for text in ["", "abc", &"g".repeat(32), &"A".repeat(32), &"é".repeat(16)] {
            assert!(!is_id(text), "{text}");
        }
    }
}
