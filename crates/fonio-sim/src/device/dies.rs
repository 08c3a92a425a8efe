//! Dies and channels, and the order of their operations.

use super::parameters::{Flash, ReadsWaitFor, nanos_for};
use crate::ftl::{Die, Step};

/// The dies and channels of a device.
#[derive(Debug)]
pub(super) struct Dies {
    dies: Vec<Schedule>,
    channels_free: Vec<u64>,
    channel_nanos: u64,
    t_read: u64,
    t_program: u64,
    t_program_slc: u64,
    t_erase: u64,
    reads_wait_for: ReadsWaitFor,
    free_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    /// Time at which all operations queued at the die have ended.
    free: u64,
    read_free: u64,
    /// Duration of each operation of the latest step, from which the end of the current operation follows.
    operation: u64,
}

impl Dies {
    pub(super) fn new(flash: &Flash) -> Dies {
        Dies {
            dies: vec![Schedule::default(); flash.dies as usize],
            channels_free: vec![0; flash.channels as usize],
            channel_nanos: flash.channel_rate.map_or(0, |rate| nanos_for(flash.page_bytes, rate)),
            t_read: flash.t_read.0,
            t_program: flash.t_program.0,
            t_program_slc: flash.slc.map_or(0, |slc| slc.t_program.0),
            t_erase: flash.t_erase.0,
            reads_wait_for: flash.reads_wait_for,
            free_at: 0,
        }
    }

    /// Returns the time at which all dies are free.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Reads a page for the host and returns the time at which the page has arrived in the controller.
    pub(super) fn read(&mut self, die: Die, at: u64) -> u64 {
        let t_read = self.t_read;
        let of = &mut self.dies[die.index()];
        let begin = at.max(match self.reads_wait_for {
            ReadsWaitFor::Queue => of.free,
            _ if of.free <= at => of.read_free,
            ReadsWaitFor::Operation => {
                let left = of.free - at;
                let in_progress = if of.operation == 0 { left } else { left % of.operation };
                of.read_free.max(at + in_progress)
            }
            ReadsWaitFor::Suspension(suspend) => of.read_free.max(of.free.min(at + suspend.0)),
        });
        let end = begin + t_read;
        of.read_free = end;
        // The operations that the read overtook end later, by the duration of the read.
        of.free = if of.free <= begin { end } else { of.free + t_read };
        self.free_at = self.free_at.max(of.free);
        self.transfer(die, end)
    }

    /// Reads a page that will be copied. The read waits for all earlier operations of the die.
    pub(super) fn read_for_program(&mut self, die: Die, at: u64) -> u64 {
        let of = &mut self.dies[die.index()];
        of.free = at.max(of.free) + self.t_read;
        of.free
    }

    /// Executes a step from `at` on and returns the time at which the step ends. `slc_programs` of the host's
    /// pages are programmed in SLC mode.
    pub(super) fn work(&mut self, step: &Step, slc_programs: u64, at: u64) -> u64 {
        let host = u64::from(step.host_programs);
        let programs = host - slc_programs + u64::from(step.copy_programs);
        let span = u64::from(step.reads) * self.t_read
            + programs * self.t_program
            + slc_programs * self.t_program_slc
            + u64::from(step.erases) * self.t_erase;
        let begin = if host > 0 { self.transfer(step.die, at) } else { at };
        let of = &mut self.dies[step.die.index()];
        of.operation = if host > 0 && slc_programs > 0 {
            self.t_program_slc
        } else if programs > 0 {
            self.t_program
        } else {
            span
        };
        of.free = begin.max(of.free) + span;
        self.free_at = self.free_at.max(of.free);
        of.free
    }

    fn transfer(&mut self, die: Die, at: u64) -> u64 {
        if self.channel_nanos == 0 {
            return at;
        }
        let channel = die.index() % self.channels_free.len();
        let end = at.max(self.channels_free[channel]) + self.channel_nanos;
        self.channels_free[channel] = end;
        end
    }
}
