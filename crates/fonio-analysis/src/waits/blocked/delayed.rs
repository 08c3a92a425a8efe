//! Puts a program that is delayed by bulk work before the program that does this work.
//!
//! A copy or a backup that syncs its files waits longer than any other program, but nobody waits for it. The
//! program that is delayed by its requests is the one that people notice.

use fonio_core::{ByteCount, Nanos};

use super::Role;
use super::figures::BEHIND_FROM;
use super::program::Program;

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

/// Moves the first program that the first program delays to the front, if the first program does bulk work.
/// `programs` is sorted by role and by blocked time.
pub(super) fn put_first(programs: &mut [Program], span: Nanos) {
    let of_interest = |program: &Program| program.role == Role::OfInterest && program.is_problem(span);
    let Some(at) = programs.iter().position(of_interest) else { return };
    let first = &programs[at];
    if !is_bulk(first.caused, span) {
        return;
    }
    let share = |of: &Program, during: &Program| during.owners.share_of(of.name, of.unit);
    let is_delayed = |program: &Program| {
        of_interest(program)
            && !is_bulk(program.caused, span)
            && share(first, program) >= BEHIND_FROM
            && share(program, first) < BEHIND_FROM
    };
    if let Some(delayed) = programs.iter().position(is_delayed) {
        programs[at..=delayed].rotate_right(1);
    }
}
