//! Decides when a capture ends and which signals its command gets. This module only decides: it uses no
//! clock, signals or processes.
//!
//! After Ctrl-C, SIGTERM, a quiet period or the stated duration, the recorder asks a command that still runs
//! to end and continues the capture for a grace period. A full buffer ends the capture at once and does not
//! affect the command.

use std::time::Duration;

use fonio_core::Timestamp;

use crate::clock::after;
use crate::options::StopReason;

/// Time that a command has to end after the recorder asked it to end.
const GRACE: Duration = Duration::from_secs(2);

/// The state of the capture at one wake-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub now: Timestamp,
    /// Whether the next page does not fit into the page store.
    pub buffer_full: bool,
    /// Number of Ctrl-C presses since the capture began.
    pub interrupts: usize,
    pub terminations: usize,
    pub command_ended: bool,
    /// Whether the command has been quiet for long enough.
    pub quiet: bool,
}

/// What the capture does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Continue,
    /// Send SIGTERM to the command, and continue the capture.
    Terminate,
    Stop {
        reason: StopReason,
        /// Whether to kill the command, because it was quiet but still runs.
        kill: bool,
    },
    /// Abort the capture without a recording, and send SIGTERM to the command.
    GiveUp,
}

/// Decides at each wake-up whether the capture ends.
#[derive(Debug)]
pub(crate) struct StopPolicy {
    /// When the duration given by the user ends.
    end: Option<Timestamp>,
    has_command: bool,
    /// Whether Ctrl-C in the terminal also reaches the command.
    command_hears_interrupts: bool,
    ending: Option<Ending>,
}

/// The state after the command was asked to end, or after Ctrl-C.
#[derive(Clone, Copy, Debug)]
struct Ending {
    reason: StopReason,
    /// When to send SIGTERM to the command, if SIGTERM has not been sent yet.
    terminate_at: Option<Timestamp>,
    /// When the capture ends, even if the command has not ended.
    by: Timestamp,
}

impl StopPolicy {
    /// Creates the policy for a capture without a command.
    pub(crate) fn new(end: Option<Timestamp>) -> StopPolicy {
        StopPolicy { end, has_command: false, command_hears_interrupts: false, ending: None }
    }

    /// Turns this policy into a policy for a capture with a command. The command gets Ctrl-C if the command
    /// is in our process group.
    pub(crate) fn with_command(self, hears_interrupts: bool) -> StopPolicy {
        StopPolicy { has_command: true, command_hears_interrupts: hears_interrupts, ..self }
    }

    /// Returns whether the command was asked to end or received Ctrl-C.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the time of the next decision that may be due even if no event occurs.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match &self.ending {
            None => self.end,
            Some(ending) => Some(ending.terminate_at.unwrap_or(ending.by)),
        }
    }

    /// Decides what the capture does after one wake-up.
    pub(crate) fn decide(&mut self, seen: &Seen) -> Decision {
        if seen.buffer_full {
            return Decision::Stop { reason: StopReason::BufferFull, kill: false };
        }
        if seen.interrupts > 1 {
            return Decision::GiveUp;
        }
        if seen.command_ended {
            let reason = self.ending.map_or(StopReason::CommandEnded, |ending| ending.reason);
            return Decision::Stop { reason, kill: false };
        }
        match &mut self.ending {
            None => match reason_to_end(seen, self.end) {
                None => Decision::Continue,
                Some(reason) if !self.has_command => Decision::Stop { reason, kill: false },
                Some(reason) => self.begin_to_end(reason, seen.now),
            },
            Some(ending) if seen.now >= ending.by => {
                Decision::Stop { reason: ending.reason, kill: ending.reason == StopReason::Idle }
            }
            Some(ending) if ending.terminate_at.is_some_and(|at| seen.now >= at) => {
                ending.terminate_at = None;
                Decision::Terminate
            }
            Some(_) => Decision::Continue,
        }
    }

    fn begin_to_end(&mut self, reason: StopReason, now: Timestamp) -> Decision {
        if reason == StopReason::Interrupted && self.command_hears_interrupts {
            // A command that received Ctrl-C gets SIGTERM only if it does not end.
            let terminate_at = after(now, GRACE);
            let by = after(terminate_at, GRACE);
            self.ending = Some(Ending { reason, terminate_at: Some(terminate_at), by });
            Decision::Continue
        } else {
            self.ending = Some(Ending { reason, terminate_at: None, by: after(now, GRACE) });
            Decision::Terminate
        }
    }
}

/// Returns the reason to begin ending a capture, if there is one.
fn reason_to_end(seen: &Seen, end: Option<Timestamp>) -> Option<StopReason> {
    if seen.terminations > 0 {
        Some(StopReason::Terminated)
    } else if seen.interrupts > 0 {
        Some(StopReason::Interrupted)
    } else if seen.quiet {
        Some(StopReason::Idle)
    } else {
        end.filter(|end| seen.now >= *end).map(|_| StopReason::Duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    type Happening = fn(&mut Seen);

    #[derive(Clone, Copy)]
    enum Command {
        None,
        /// The command is in our process group.
        Beside,
        /// The command is in its own process group.
        Apart,
    }

    /// Wakes the policy of a ten-second capture every 100 ms, and compares each decision except `Continue`,
    /// and the time of the decision, with `expected`. `happens` lists the wake-up of each event, and the
    /// event.
    fn check(command: Command, happens: &[(u64, Happening)], expected: &[(u64, Decision)]) {
        let policy = StopPolicy::new(Some(Timestamp(10_000 * MS)));
        let mut policy = match command {
            Command::None => policy,
            Command::Beside => policy.with_command(true),
            Command::Apart => policy.with_command(false),
        };
        let mut seen = Seen::default();
        let mut decided = Vec::new();
        for at_ms in (100..20_000).step_by(100) {
            seen.now = Timestamp(at_ms * MS);
            happens.iter().filter(|(when, _)| *when == at_ms).for_each(|(_, happen)| happen(&mut seen));
            let decision = policy.decide(&seen);
            if decision != Decision::Continue {
                decided.push((at_ms, decision));
            }
            if matches!(decision, Decision::Stop { .. } | Decision::GiveUp) {
                break;
            }
            assert!(policy.deadline().is_some_and(|deadline| deadline > seen.now), "it would not sleep");
        }
        assert_eq!(decided, expected);
    }

    fn stop(reason: StopReason) -> Decision {
        Decision::Stop { reason, kill: false }
    }

    const INTERRUPT: Happening = |seen| seen.interrupts += 1;
    const TERMINATION: Happening = |seen| seen.terminations += 1;
    const COMMAND_ENDS: Happening = |seen| seen.command_ended = true;
    const QUIET: Happening = |seen| seen.quiet = true;
    const FULL: Happening = |seen| seen.buffer_full = true;

    #[test]
    fn without_a_command_every_reason_ends_the_capture_at_once() {
        check(Command::None, &[], &[(10_000, stop(StopReason::Duration))]);
        check(Command::None, &[(300, INTERRUPT)], &[(300, stop(StopReason::Interrupted))]);
        check(Command::None, &[(300, TERMINATION)], &[(300, stop(StopReason::Terminated))]);
        check(Command::None, &[(300, FULL)], &[(300, stop(StopReason::BufferFull))]);
        check(Command::None, &[(300, INTERRUPT), (300, INTERRUPT)], &[(300, Decision::GiveUp)]);
        check(Command::None, &[(300, INTERRUPT), (300, TERMINATION)], &[(300, stop(StopReason::Terminated))]);
    }

    #[test]
    fn the_end_of_the_command_ends_the_capture() {
        for command in [Command::Beside, Command::Apart] {
            check(command, &[(300, COMMAND_ENDS)], &[(300, stop(StopReason::CommandEnded))]);
            // A command that ends at the time of the Ctrl-C counts as having ended by itself.
            check(
                command,
                &[(300, COMMAND_ENDS), (300, INTERRUPT)],
                &[(300, stop(StopReason::CommandEnded))],
            );
        }
    }

    #[test]
    fn a_command_is_asked_to_end_and_given_time() {
        let end = StopReason::Duration;
        check(Command::Beside, &[], &[(10_000, Decision::Terminate), (12_000, stop(end))]);
        check(
            Command::Beside,
            &[(10_500, COMMAND_ENDS)],
            &[(10_000, Decision::Terminate), (10_500, stop(end))],
        );
        let end = StopReason::Terminated;
        check(Command::Beside, &[(300, TERMINATION)], &[(300, Decision::Terminate), (2_300, stop(end))]);
        // Events after the first reason to end do not change the reason.
        check(
            Command::Apart,
            &[(300, TERMINATION), (400, INTERRUPT), (500, QUIET), (600, TERMINATION)],
            &[(300, Decision::Terminate), (2_300, stop(end))],
        );
    }

    #[test]
    fn a_command_that_hears_ctrl_c_is_asked_again_only_after_a_while() {
        let end = StopReason::Interrupted;
        let asked = (2_300, Decision::Terminate);
        check(Command::Beside, &[(300, INTERRUPT)], &[asked, (4_300, stop(end))]);
        check(Command::Beside, &[(300, INTERRUPT), (700, COMMAND_ENDS)], &[(700, stop(end))]);
        check(Command::Beside, &[(300, INTERRUPT), (900, INTERRUPT)], &[(900, Decision::GiveUp)]);
        let at_once = (300, Decision::Terminate);
        check(Command::Apart, &[(300, INTERRUPT)], &[at_once, (2_300, stop(end))]);
    }

    #[test]
    fn a_quiet_command_that_does_not_end_is_killed() {
        let killed = Decision::Stop { reason: StopReason::Idle, kill: true };
        check(Command::Apart, &[(300, QUIET)], &[(300, Decision::Terminate), (2_300, killed)]);
        let ended = stop(StopReason::Idle);
        check(
            Command::Apart,
            &[(300, QUIET), (800, COMMAND_ENDS)],
            &[(300, Decision::Terminate), (800, ended)],
        );
    }

    #[test]
    fn a_full_buffer_ends_the_capture_whatever_else_happens() {
        let full = stop(StopReason::BufferFull);
        check(Command::Beside, &[(300, FULL), (300, INTERRUPT), (300, INTERRUPT)], &[(300, full)]);
        check(
            Command::Beside,
            &[(300, TERMINATION), (400, FULL)],
            &[(300, Decision::Terminate), (400, full)],
        );
    }
}
