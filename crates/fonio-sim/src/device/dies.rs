//! Dies and channels: what is done on one of them after what.

use super::flash::{Flash, nanos_for};
use crate::ftl::Step;

/// What a read waits for where its die is programming or erasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsWaitFor {
    /// For all that was asked of the die before.
    Queue,
    /// For the operation under way; what has not begun yet gives way.
    Operation,
    /// Until the operation under way is suspended, which takes so many nanoseconds.
    Suspension(u64),
}

/// The dies of a device and the channels to them.
#[derive(Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
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
struct Die {
    /// The end of all that was asked of it.
    free: u64,
    /// The end of the last read.
    read_free: u64,
    /// How long each operation of the latest work takes, to know when the one under way ends.
    operation: u64,
}

impl Dies {
    pub(super) fn new(flash: &Flash) -> Dies {
        Dies {
            dies: vec![Die::default(); flash.dies as usize],
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

    /// When the last die is free.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Reads a page for the host and says when it is in the controller.
    pub(super) fn read(&mut self, die: u32, at: u64) -> u64 {
        let t_read = self.t_read;
        let of = &mut self.dies[die as usize];
        let begin = at.max(match self.reads_wait_for {
            ReadsWaitFor::Queue => of.free,
            _ if of.free <= at => of.read_free,
            ReadsWaitFor::Operation => {
                let left = of.free - at;
                let under_way = if of.operation == 0 { left } else { left % of.operation };
                of.read_free.max(at + under_way)
            }
            ReadsWaitFor::Suspension(suspend) => of.read_free.max(of.free.min(at + suspend)),
        });
        let end = begin + t_read;
        of.read_free = end;
        // What gave way comes later by as much.
        of.free = if of.free <= begin { end } else { of.free + t_read };
        self.free_at = self.free_at.max(of.free);
        self.transfer(die, end)
    }

    /// Reads a page that is to be programmed elsewhere; it has no precedence.
    pub(super) fn read_for_program(&mut self, die: u32, at: u64) -> u64 {
        let of = &mut self.dies[die as usize];
        of.free = at.max(of.free) + self.t_read;
        of.free
    }

    /// Does a step from `at` on, `slc_programs` of its pages from the host in SLC mode, and says when it is done.
    pub(super) fn work(&mut self, step: &Step, slc_programs: u64, at: u64) -> u64 {
        let host = u64::from(step.host_programs);
        let programs = host - slc_programs + u64::from(step.copy_programs);
        let span = u64::from(step.reads) * self.t_read
            + programs * self.t_program
            + slc_programs * self.t_program_slc
            + u64::from(step.erases) * self.t_erase;
        let begin = if host > 0 { self.transfer(step.die, at) } else { at };
        let of = &mut self.dies[step.die as usize];
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

    fn transfer(&mut self, die: u32, at: u64) -> u64 {
        if self.channel_nanos == 0 {
            return at;
        }
        let channel = die as usize % self.channels_free.len();
        let end = at.max(self.channels_free[channel]) + self.channel_nanos;
        self.channels_free[channel] = end;
        end
    }
}
