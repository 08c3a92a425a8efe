//! Memory that needs no erase: PCM and RAM.

use fonio_core::{ByteCount, Nanos, Op, Timestamp};

use super::{Command, Counters, Device, Limits};

/// Times of a memory that is accessed line by line, one command at a time.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Size of a memory line in bytes.
    pub line_bytes: u64,
    /// Time to read one line of the memory.
    pub read_line: Nanos,
    /// Time to write one line of the memory.
    pub write_line: Nanos,
    /// Fixed time per command, without the time to transfer its data.
    pub command: Nanos,
}

/// A PCM or RAM device.
#[derive(Debug)]
pub struct MemoryDevice {
    memory: Memory,
    limits: Limits,
    free: u64,
    last_submit: u64,
    counters: Counters,
}

impl MemoryDevice {
    /// Makes a device of the given memory.
    pub fn new(memory: Memory, limits: Limits) -> MemoryDevice {
        MemoryDevice { memory, limits, free: 0, last_submit: 0, counters: Counters::default() }
    }
}

impl Device for MemoryDevice {
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp {
        super::assert_fits(command, now, self.last_submit, &self.limits);
        self.last_submit = now.0;
        let lines = command.bytes.0.div_ceil(self.memory.line_bytes);
        let span = match command.op {
            Op::Read => {
                self.counters.host_read += command.bytes;
                lines * self.memory.read_line.0 + self.memory.command.0
            }
            Op::Write | Op::ZoneAppend => {
                self.counters.host_written += command.bytes;
                self.counters.programmed += ByteCount(lines * self.memory.line_bytes);
                lines * self.memory.write_line.0 + self.memory.command.0
            }
            _ => self.memory.command.0,
        };
        self.counters.busy += Nanos(span);
        self.free = self.free.max(now.0) + span;
        Timestamp(self.free)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}
