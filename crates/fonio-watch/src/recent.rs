//! Stores the requests, long waits and counts of short waits of the last minute, as far as they fit into the
//! memory limit.
//!
//! Requests are encoded in chunks that can be decoded separately. A chunk is dropped once all its requests
//! are older than a minute.

use std::collections::VecDeque;

use fonio_core::lives::Generation;
use fonio_core::{DeviceId, Inode, Nanos, Request, SeenFile, Timestamp};
use fonio_record::observer::{Observed, ObservedCount, ObservedRequest, ObservedWait, PartyId};
use serde::{Deserialize, Serialize};

use crate::compact::Codec;

const HELD: Nanos = Nanos(60_000_000_000);
/// Maximum number of stored waits, and of stored counts of short waits. Each wait or count needs about 150
/// bytes.
const WAITS_MAX: usize = 8192;
/// Maximum number of request chunks. In total, the chunks take 3 MiB, and contain about 100,000 requests.
const CHUNKS_MAX: usize = 48;
/// Size of a request chunk, and the space reserved for its last request.
const CHUNK_BYTES: usize = 64 << 10;
const REQUEST_BYTES_MAX: usize = 128;

/// Attribution of a request, stored after the request's row.
#[derive(Serialize, Deserialize)]
struct Whose {
    party: Option<u32>,
    /// Device number of the file's file system, the file's inode number, and its generation or 0.
    file: Option<(u32, u64, u32)>,
}

/// Encodes the identity of a file.
fn encoded(file: SeenFile) -> (u32, u64, u32) {
    (file.inode.fs.0, file.inode.number, file.generation.map_or(0, Generation::get))
}

fn decoded((fs, number, generation): (u32, u64, u32)) -> SeenFile {
    SeenFile { inode: Inode { fs: DeviceId(fs), number }, generation: Generation::new(generation) }
}

/// A chunk of encoded requests.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    codec: Codec,
    /// Time of the latest completion in the chunk.
    last: Timestamp,
}

impl Chunk {
    fn new() -> Chunk {
        Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), codec: Codec::default(), last: Timestamp(0) }
    }

    fn has_room(&self) -> bool {
        self.bytes.len() + REQUEST_BYTES_MAX <= CHUNK_BYTES
    }

    fn add(&mut self, request: &ObservedRequest) {
        let whose = Whose { party: request.party.map(|party| party.0), file: request.file.map(encoded) };
        let before = self.bytes.len();
        let bytes = self.codec.encode(&request.row, std::mem::take(&mut self.bytes));
        let bytes = bytes.and_then(|bytes| postcard::to_extend(&whose, bytes));
        self.bytes = bytes.expect("writing to memory cannot fail");
        assert!(
            self.bytes.len() - before <= REQUEST_BYTES_MAX,
            "a request is longer than the space reserved for it"
        );
        self.last = self.last.max(request.span().1);
    }

    fn requests(&self) -> impl Iterator<Item = ObservedRequest> + Clone {
        let (mut codec, mut rest) = (Codec::default(), &self.bytes[..]);
        std::iter::from_fn(move || {
            let (row, more): (Request, &[u8]) = (!rest.is_empty()).then(|| codec.decode(rest).ok())??;
            let (whose, more): (Whose, &[u8]) = postcard::take_from_bytes(more).ok()?;
            rest = more;
            let (party, file) = (whose.party.map(PartyId), whose.file.map(decoded));
            Some(ObservedRequest { row, party, file })
        })
    }
}

/// The waits, counts of short waits, and requests of the last minute.
#[derive(Debug)]
pub struct Recent {
    /// Time since which all requests are stored.
    began: Timestamp,
    requests: VecDeque<Chunk>,
    waits: VecDeque<ObservedWait>,
    counts: VecDeque<ObservedCount>,
}

impl Recent {
    /// Creates an empty store that observes from `began`.
    pub fn new(began: Timestamp) -> Recent {
        Recent { began, requests: VecDeque::new(), waits: VecDeque::new(), counts: VecDeque::new() }
    }

    /// Adds the observed rows.
    pub fn add(&mut self, observed: &Observed) {
        match observed {
            Observed::Request(request) => {
                if self.requests.back().is_none_or(|chunk| !chunk.has_room()) {
                    if self.requests.len() >= CHUNKS_MAX
                        && let Some(dropped) = self.requests.pop_front()
                    {
                        self.began = self.began.max(Timestamp(dropped.last.0 + 1));
                    }
                    self.requests.push_back(Chunk::new());
                }
                self.requests.back_mut().expect("the last chunk has room").add(request);
            }
            Observed::Wait(wait) => {
                if self.waits.len() >= WAITS_MAX {
                    self.waits.pop_front();
                }
                self.waits.push_back(wait.clone());
            }
            Observed::Count(count) => {
                if self.counts.len() >= WAITS_MAX {
                    self.counts.pop_front();
                }
                self.counts.push_back(*count);
            }
        }
    }

    /// Drops the requests and waits that ended more than a minute before `now`.
    pub fn forget(&mut self, now: Timestamp) {
        let oldest = Timestamp(now.0.saturating_sub(HELD.0));
        self.began = self.began.max(oldest);
        while self.requests.front().is_some_and(|chunk| chunk.last < oldest) {
            self.requests.pop_front();
        }
        while self.waits.front().is_some_and(|wait| wait.row.ended.is_some_and(|ended| ended < oldest)) {
            self.waits.pop_front();
        }
        while self.counts.front().is_some_and(|count| count.row.until < oldest) {
            self.counts.pop_front();
        }
    }

    /// Returns the earliest time after which no request is missing: all later requests were observed and are
    /// still stored.
    pub fn complete_since(&self, now: Timestamp) -> Timestamp {
        self.began.max(Timestamp(now.0.saturating_sub(HELD.0)))
    }

    /// Returns the requests completed since [`Recent::complete_since`], in completion order.
    pub fn requests(&self) -> impl Iterator<Item = ObservedRequest> + Clone {
        self.requests.iter().flat_map(Chunk::requests).filter(|request| request.span().1 >= self.began)
    }

    /// Returns the long waits of the last minute, ordered by end time.
    pub fn waits(&self) -> impl Iterator<Item = &ObservedWait> {
        self.waits.iter()
    }

    /// Returns the counts of short waits in the last minute.
    pub fn counts(&self) -> impl Iterator<Item = &ObservedCount> {
        self.counts.iter()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fonio_core::{ByteCount, Content, Flags, Op, Sector};
    use proptest::prelude::*;

    use super::*;
    use crate::compact::tests::any_request;

    pub(crate) fn request(completed_ms: u64) -> ObservedRequest {
        let row = Request {
            flags: Flags::SYNC,
            sector: Some(Sector(8)),
            queued: Some(Timestamp((completed_ms - 1) * 1_000_000)),
            completed: Some(Timestamp(completed_ms * 1_000_000)),
            error: Some(-5),
            tid: Some(7),
            content: Content::Data,
            ..Request::new(DeviceId::new(179, 0), Op::Write, ByteCount(4096))
        };
        ObservedRequest { row, party: Some(PartyId(3)), file: Some(seen(12, 1)) }
    }

    /// A file of one file system.
    pub(crate) fn seen(number: u64, generation: u32) -> SeenFile {
        decoded((DeviceId::new(179, 2).0, number, generation))
    }

    proptest! {
        #[test]
        fn requests_come_back(
            rows in prop::collection::vec((any_request(), any::<Option<(u32, (u32, u64, u32))>>()), 0..30),
        ) {
            let mut recent = Recent::new(Timestamp(0));
            let requests: Vec<ObservedRequest> = rows
                .into_iter()
                .map(|(row, whose)| ObservedRequest {
                    row,
                    party: whose.map(|(party, ..)| PartyId(party)),
                    file: whose.map(|(_, file)| decoded(file)),
                })
                .collect();
            requests.iter().for_each(|request| recent.add(&Observed::Request(request.clone())));
            prop_assert_eq!(recent.requests().collect::<Vec<_>>(), requests);
        }
    }

    #[test]
    fn a_minute_is_held_within_the_memory() {
        let at = |ms: u64| Timestamp(ms * 1_000_000);
        let mut recent = Recent::new(Timestamp(0));
        for ms in 1..=200_000_u64 {
            recent.add(&Observed::Request(request(ms)));
            if ms % 1000 == 0 {
                recent.forget(at(ms));
            }
        }
        let completed: Vec<Timestamp> = recent.requests().map(|request| request.span().1).collect();
        assert_eq!(
            (completed.len(), completed.first(), completed.last()),
            (60_001, Some(&at(140_000)), Some(&at(200_000)))
        );
        assert_eq!(recent.complete_since(at(200_000)), at(140_000));
        // A minute with ten times as many requests does not fit into the memory limit.
        for tenths in 1..=600_000_u64 {
            let mut one = request(200_001 + tenths / 10);
            one.row.completed = Some(Timestamp(200_000_000_000 + tenths * 100_000));
            recent.add(&Observed::Request(one));
        }
        assert_eq!(recent.requests.len(), CHUNKS_MAX);
        let since = recent.complete_since(at(260_000));
        assert!(since > at(248_000) && since < at(252_000), "{since:?}");
        let held = recent.requests().count() as u64;
        assert_eq!(held, (at(260_000).0 - since.0) / 100_000 + 1);
        recent.forget(at(900_000));
        assert!(recent.requests.is_empty());
    }
}
