//! Compares version numbers of Debian packages.

use std::cmp::Ordering;

/// Compares the upstream parts or the revisions of two version numbers, as dpkg does (Debian Policy, 5.6.12).
/// Sequences of digits and of other characters alternate. `~` sorts before the end, and letters before other
/// characters.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        loop {
            let of = |text: &[u8]| text.first().copied().filter(|byte| !byte.is_ascii_digit());
            let (left, right) = (of(a), of(b));
            if left.is_none() && right.is_none() {
                break;
            }
            match weight(left).cmp(&weight(right)) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                other => return other,
            }
        }
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (left, right) = (digits(a), digits(b));
        let number = |text: &[u8]| text.iter().fold(0u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
        match number(&a[..left.min(30)]).cmp(&number(&b[..right.min(30)])) {
            Ordering::Equal => (a, b) = (&a[left..], &b[right..]),
            other => return other,
        }
        if a.is_empty() && b.is_empty() {
            return Ordering::Equal;
        }
    }
}

/// Returns the sort weight of a character. The end of a sequence sorts after `~`, and before everything else.
fn weight(byte: Option<u8>) -> i32 {
    match byte {
        None => 0,
        Some(b'~') => -1,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(letter),
        Some(other) => i32::from(other) + 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_debian_policy() {
        let ascending =
            ["1.0~~", "1.0~~a", "1.0~", "1.0", "1.0a", "1.0+b", "1.2", "1.10", "1.10-1~bpo12+1", "1.10-1"];
        for (at, low) in ascending.iter().enumerate() {
            assert_eq!(compare(low, low), Ordering::Equal);
            for high in &ascending[at + 1..] {
                assert_eq!(
                    (compare(low, high), compare(high, low)),
                    (Ordering::Less, Ordering::Greater),
                    "{low} {high}"
                );
            }
        }
        assert_eq!(compare("6.12.94-1", "6.12.117-1~deb12u1"), Ordering::Less);
        assert_eq!(compare("007", "7"), Ordering::Equal);
    }
}
