//! Sequential streams that a controller can tell apart.

use crate::ftl::{LogicalUnit, PhysicalPage};

/// Data that the device has read ahead of a sequential reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    /// The first unit that was not read ahead.
    pub(super) end: LogicalUnit,
    /// The time at which the units before `end` have arrived in the controller.
    pub(super) ready: u64,
    /// The flash page that was read last.
    pub(super) page: Option<PhysicalPage>,
}

/// The most recently used streams. A new stream replaces the least recently used stream.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    streams_max: usize,
    newest: usize,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    end: u64,
    used_at: u64,
    read_ahead: ReadAhead,
}

impl Streams {
    pub(super) fn new(streams_max: u32) -> Streams {
        Streams { streams: Vec::new(), streams_max: streams_max as usize, newest: 0, uses: 0 }
    }

    /// Returns the stream that a command from sector `start` to `end` continues. A command that continues no
    /// stream begins a new stream.
    pub(super) fn follow(&mut self, start: u64, end: u64) -> Option<usize> {
        if self.streams_max == 0 {
            return None;
        }
        self.uses += 1;
        let found = self.streams.iter().position(|stream| stream.end == start);
        self.newest = match found {
            Some(at) => at,
            None if self.streams.len() < self.streams_max => {
                self.streams.push(Stream { end, used_at: 0, read_ahead: ReadAhead::default() });
                self.streams.len() - 1
            }
            None => {
                let streams = self.streams.iter().enumerate();
                let (oldest, _) = streams.min_by_key(|(_, stream)| stream.used_at).expect("it is full");
                self.streams[oldest].read_ahead = ReadAhead::default();
                oldest
            }
        };
        let stream = &mut self.streams[self.newest];
        (stream.end, stream.used_at) = (end, self.uses);
        found
    }

    /// Returns the stream of the last command; `None` if the device does not track streams.
    pub(super) fn newest(&self) -> Option<usize> {
        (self.newest < self.streams.len()).then_some(self.newest)
    }

    pub(super) fn read_ahead(&self, stream: usize) -> ReadAhead {
        self.streams[stream].read_ahead
    }

    pub(super) fn set_read_ahead(&mut self, stream: usize, read_ahead: ReadAhead) {
        self.streams[stream].read_ahead = read_ahead;
    }
}
