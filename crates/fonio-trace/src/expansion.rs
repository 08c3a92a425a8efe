//! The limit for the expansion of compressed data.
//!
//! A few kilobytes can unpack to terabytes, and if they are packed twice, to more than any disk holds. The text of a
//! trace shrinks to a tenth or, if it is very regular, to a fiftieth, because every line has a time.

/// Below this number of unpacked bytes, any ratio is accepted.
const FREE: u64 = 1 << 30;
/// The multiple of the packed size from which on the data are not a trace.
const TIMES_MAX: u64 = 100;

/// Returns whether `packed` bytes have unpacked to more than a trace can.
pub(crate) fn is_too_far(packed: u64, unpacked: u64) -> bool {
    unpacked > FREE && unpacked / TIMES_MAX > packed
}

/// The message for that case, as the beginning of a sentence.
pub(crate) fn describe(what: &str) -> String {
    format!("The {what} unpacks to more than {TIMES_MAX} times its size (and 1 GiB), as no trace does")
}
