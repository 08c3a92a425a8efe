//! Recognises bulk work by the number and the size of requests.

use fonio_core::{ByteCount, Nanos};

/// Minimum average size of the requests of a thread that does bulk work.
const BULK_SIZE: u64 = 128 * 1024;
/// Minimum total number of bytes for bulk work. The start of a program, including its libraries, reads fewer
/// bytes than this.
const BULK_BYTES: ByteCount = ByteCount(64 << 20);
/// Minimum number of bytes per second of the span for bulk work. The thresholds for size, total and rate are
/// our choice.
const BULK_BYTES_PER_S: u64 = 1 << 20;

/// The number and bytes of the requests that a thread or program caused.
pub(super) type Caused = (u64, ByteCount);

/// Returns whether these requests are bulk work.
pub(super) fn is_bulk((requests, bytes): Caused, span: Nanos) -> bool {
    let enough = BULK_BYTES.max(ByteCount((span.0 / 1_000_000_000).saturating_mul(BULK_BYTES_PER_S)));
    requests > 0 && bytes.0 / requests >= BULK_SIZE && bytes >= enough
}
