//! Puts a program that is delayed by bulk work before the program that does this work.
//!
//! A copy or a backup that syncs its files waits longer than any other program, but nobody waits for it. The
//! program that is delayed by its requests is the one that people notice.

use fonio_core::Nanos;

use super::Role;
use super::bulk::is_bulk;
use super::figures::BEHIND_FROM;
use super::program::Program;

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
