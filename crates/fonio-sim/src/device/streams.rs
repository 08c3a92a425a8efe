//! Sequential readers and writers that a controller can tell apart.

/// What was read ahead for a stream: up to which unit, when it is at hand, and the flash page read last.
pub(super) type ReadAhead = (u64, u64, u64);

/// The streams seen last, the oldest of which makes room.
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

const NOTHING: ReadAhead = (0, 0, u64::MAX);

impl Streams {
    pub(super) fn new(streams_max: u32) -> Streams {
        Streams { streams: Vec::new(), streams_max: streams_max as usize, newest: 0, uses: 0 }
    }

    /// The stream that a command from sector `start` to `end` continues; where there is none it begins one.
    pub(super) fn follow(&mut self, start: u64, end: u64) -> Option<usize> {
        if self.streams_max == 0 {
            return None;
        }
        self.uses += 1;
        let found = self.streams.iter().position(|stream| stream.end == start);
        self.newest = match found {
            Some(at) => at,
            None if self.streams.len() < self.streams_max => {
                self.streams.push(Stream { end, used_at: 0, read_ahead: NOTHING });
                self.streams.len() - 1
            }
            None => {
                let mut oldest = 0;
                for (at, stream) in self.streams.iter().enumerate() {
                    if stream.used_at < self.streams[oldest].used_at {
                        oldest = at;
                    }
                }
                self.streams[oldest].read_ahead = NOTHING;
                oldest
            }
        };
        let stream = &mut self.streams[self.newest];
        (stream.end, stream.used_at) = (end, self.uses);
        found
    }

    /// The stream of the last command; `None` where none is followed.
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
