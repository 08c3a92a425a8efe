//! The load of a simulation: requests with given times, processes that wait for their requests, or the replay of a
//! recording.

use std::collections::BTreeSet;

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Sector, Timestamp};

use super::error::SimulationError;
use crate::device::Device;
use crate::engine::{Arrival, Begins, ClosedLoop, Source, Step};
use crate::measure::write_in_order;
use crate::recorded::{Access, Kind, Sequence};
use crate::scheduler::{Class, Priority, ProcessId};

/// Maximum number of commands of one replay, so that it needs less than 512 MiB of memory.
const STEPS_MAX: u64 = 2 << 20;

/// The load of a simulation.
#[derive(Clone, Debug)]
pub enum Load {
    /// Requests in the order of their times, which count from the start of the run.
    Arrivals(Vec<Arrival>),
    /// Processes.
    Loops(Vec<LoopLoad>),
    /// The accesses of a recording, with the waits of its threads.
    Replay(Replay),
}

/// A process whose range can depend on the device.
#[derive(Clone, Copy, Debug)]
pub struct LoopLoad {
    /// The length of the range in bytes; `None`: up to the end of the device.
    pub range: Option<u64>,
    /// All other settings.
    pub settings: ClosedLoop,
}

/// The accesses of a recording, with the waits of its threads. Before the run, all data that they access are written.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The accesses.
    pub sequence: Sequence,
    /// Whether to leave out the recorded pauses.
    pub fast: bool,
    /// The threads whose requests get the I/O class idle.
    pub idle: BTreeSet<u32>,
}

impl Load {
    /// Prepares the device for the load, and returns the time at which the run begins. Fails if the data of a replay
    /// do not fit on the device.
    pub(super) fn prepare(
        &self,
        device: &mut dyn Device,
        from: Timestamp,
    ) -> Result<Timestamp, SimulationError> {
        let Load::Replay(replay) = self else { return Ok(from) };
        let (accessed, capacity) = (replay.sequence.file_bytes, device.limits().capacity);
        if accessed > capacity {
            return Err(SimulationError::DoesNotFit { accessed, capacity });
        }
        let written = write_in_order(device, accessed, from);
        device.reset_counters();
        Ok(written)
    }

    /// Returns the sources for a run on `device` that begins at `from`, and the number of their requests.
    pub(super) fn sources(
        &self,
        device: &dyn Device,
        from: Timestamp,
    ) -> Result<(Vec<Source<'_>>, u64), SimulationError> {
        match self {
            Load::Arrivals(arrivals) => {
                let shifted =
                    move |arrival: &Arrival| Ok(Arrival { at: Timestamp(arrival.at.0 + from.0), ..*arrival });
                Ok((vec![Source::Open(Box::new(arrivals.iter().map(shifted)))], arrivals.len() as u64))
            }
            Load::Loops(loops) => {
                let capacity = device.limits().capacity;
                let sources = loops.iter().map(|one| one.source(capacity)).collect::<Result<_, _>>()?;
                Ok((sources, loops.iter().map(|one| one.settings.count).sum()))
            }
            Load::Replay(replay) => replay.sources(device.limits().command_max.0),
        }
    }
}

impl LoopLoad {
    fn source<'a>(&self, capacity: ByteCount) -> Result<Source<'a>, SimulationError> {
        let (start, size) = (self.settings.start.0, self.settings.request.0);
        let range = self.range.unwrap_or(capacity.0.saturating_sub(start));
        let end = start.saturating_add(range);
        if range < size || end > capacity.0 {
            return Err(SimulationError::RangeBeyondDevice { start, end, capacity });
        }
        Ok(Source::Closed(ClosedLoop { range: ByteCount(range), ..self.settings }))
    }
}

impl Replay {
    /// Returns each thread's requests, split into requests of at most `command_max` bytes, and the number of requests.
    fn sources<'a>(&self, command_max: u64) -> Result<(Vec<Source<'a>>, u64), SimulationError> {
        // The engine holds all steps in memory, as the sequence holds all accesses.
        let count = |access: &Access| access.bytes.div_ceil(command_max).max(1);
        let commands = self.sequence.threads.iter().flatten().map(count).fold(0, u64::saturating_add);
        if commands > STEPS_MAX {
            return Err(SimulationError::TooManyCommands { commands, commands_max: STEPS_MAX });
        }
        let threads = self.sequence.threads.iter();
        Ok((threads.map(|thread| Source::Linked(self.steps(thread, command_max))).collect(), commands))
    }

    fn steps(&self, thread: &[Access], command_max: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for access in thread {
            let op = match access.kind {
                Kind::Read => Op::Read,
                Kind::Write | Kind::DurableWrite => Op::Write,
                Kind::Flush => Op::Flush,
            };
            let is_idle = self.idle.contains(&access.tid);
            let class = if is_idle { Class::Idle } else { Priority::DEFAULT.class };
            let mut begins = begins(access.begins, self.fast);
            let (mut offset, end) = (access.offset, access.offset + access.bytes);
            loop {
                let bytes = (end - offset).min(command_max);
                let is_last = offset + bytes == end;
                let request = Arrival {
                    at: Timestamp(0),
                    op,
                    is_sync: access.is_sync,
                    fua: access.kind == Kind::DurableWrite,
                    sector: Sector(offset / SECTOR_BYTES),
                    bytes: ByteCount(bytes),
                    process: ProcessId(access.tid),
                    priority: Priority { class, ..Priority::DEFAULT },
                };
                steps.push(Step { begins, request, signal: access.signal.filter(|_| is_last) });
                if is_last {
                    break;
                }
                offset += bytes;
                begins = Begins::AfterBegin(Nanos(0));
            }
        }
        steps
    }
}

fn begins(begins: Begins, fast: bool) -> Begins {
    match begins {
        begins if !fast => begins,
        Begins::At(_) => Begins::At(Nanos(0)),
        Begins::AfterEnd(_) => Begins::AfterEnd(Nanos(0)),
        Begins::AfterBegin(_) => Begins::AfterBegin(Nanos(0)),
        Begins::AfterOther { signal, .. } => Begins::AfterOther { signal, pause: Nanos(0) },
    }
}
