//! How far compressed data may expand.
//!
//! A few kilobytes can be made to unpack to terabytes, and packed twice to more than any disk holds. The text of a trace
//! shrinks to a tenth or, where it is very regular, to a fiftieth: every line has a time.

/// Unpacked bytes below which any ratio is taken.
const FREE: u64 = 1 << 30;
/// From this many times its packed size on, it is no trace.
const TIMES_MAX: u64 = 100;

/// Whether so many packed bytes have unpacked to more than a trace can.
pub(crate) fn is_too_far(packed: u64, unpacked: u64) -> bool {
    unpacked > FREE && unpacked / TIMES_MAX > packed
}

/// What is said then, as the beginning of a sentence.
pub(crate) fn describe(what: &str) -> String {
    format!("The {what} unpacks to more than {TIMES_MAX} times its size (and 1 GiB), as no trace does")
}
