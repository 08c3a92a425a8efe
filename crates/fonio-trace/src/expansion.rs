//! Limits the expansion of compressed data.
//!
//! A few kilobytes can unpack to terabytes, or, if the data was packed twice, to more than fits on any disk.
//! The text of a trace shrinks only to a tenth, or, if it is very regular, to a fiftieth, because every line
//! has a different time.

/// Number of unpacked bytes below which any ratio is accepted.
const FREE: u64 = 1 << 30;
/// If the ratio of unpacked to packed size exceeds this value, the data cannot be a trace.
const TIMES_MAX: u64 = 100;

/// Returns whether `packed` bytes have unpacked to more than is possible for a trace.
pub(crate) fn is_too_far(packed: u64, unpacked: u64) -> bool {
    unpacked > FREE && unpacked / TIMES_MAX > packed
}

/// Returns the first part of the message about data that expands too much.
pub(crate) fn describe(what: &str) -> String {
    format!("The {what} unpacks to more than {TIMES_MAX} times its size (and 1 GiB), too much for a trace")
}
