//! The last minute, or what of it the memory holds: requests, long waits and counts of short ones, packed.

use std::collections::VecDeque;

use fonio_core::{BlockedIn, ByteCount, Content, DeviceId, Flags, Nanos, Op, Sector, Timestamp};
use fonio_record::observer::{Inode, Observed, ObservedCount, ObservedRequest, ObservedWait, PartyId};

/// How long anything is held.
const HELD: Nanos = Nanos(60_000_000_000);
/// The most memory.
const BYTES_MAX: usize = 8 << 20;
/// The most waits and counts, of about 80 bytes each; the rest of the memory is for requests.
const WAITS_MAX: usize = 8192;
const REQUESTS_MAX: usize = (BYTES_MAX - 2 * WAITS_MAX * 80) / size_of::<Packed>();

/// By how many requests the room grows.
const GROWTH: usize = 8192;

/// A request in 72 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    queued: u64,
    completed: u64,
    /// 0 if it is not known.
    issued: u64,
    /// `u64::MAX` for none.
    sector: u64,
    inode: u64,
    fs: u32,
    device: u32,
    bytes: u32,
    /// 0 for none, as of the two that follow.
    tid: u32,
    cause_tid: u32,
    flags: u32,
    party: u16,
    cpu: u16,
    error: i16,
    op: Op,
    content: Content,
}

/// What was seen lately.
#[derive(Debug)]
pub struct Recent {
    /// Since when anything is seen.
    began: Timestamp,
    requests: VecDeque<Packed>,
    waits: VecDeque<ObservedWait>,
    counts: VecDeque<(Timestamp, Timestamp, ObservedCount)>,
    /// When counts were taken last.
    counted: Timestamp,
}

impl Recent {
    /// Begins at `began`.
    pub fn new(began: Timestamp) -> Recent {
        Recent {
            began,
            requests: VecDeque::new(),
            waits: VecDeque::new(),
            counts: VecDeque::new(),
            counted: began,
        }
    }

    /// Takes what was seen until `now`.
    pub fn add(&mut self, observed: &Observed, now: Timestamp) {
        match observed {
            Observed::Request(request) => {
                if self.requests.len() >= REQUESTS_MAX {
                    self.requests.pop_front();
                }
                // Doubling would take twice the memory in the end.
                if self.requests.len() == self.requests.capacity() {
                    self.requests.reserve_exact(GROWTH.min(REQUESTS_MAX - self.requests.len()).max(1));
                }
                self.requests.push_back(pack(request));
            }
            Observed::Wait(wait) => {
                if self.waits.len() >= WAITS_MAX {
                    self.waits.pop_front();
                }
                self.waits.push_back(*wait);
            }
            Observed::Count(count) => {
                if self.counts.len() >= WAITS_MAX {
                    self.counts.pop_front();
                }
                self.counts.push_back((self.counted, now, *count));
            }
        }
    }

    /// Forgets what ended more than a minute before `now`. `counted` tells whether counts were taken meanwhile.
    pub fn forget(&mut self, now: Timestamp, counted: bool) {
        let oldest = now.0.saturating_sub(HELD.0);
        while self.requests.front().is_some_and(|request| request.completed < oldest) {
            self.requests.pop_front();
        }
        while self.waits.front().is_some_and(|wait| wait.ended.is_some_and(|ended| ended.0 < oldest)) {
            self.waits.pop_front();
        }
        while self.counts.front().is_some_and(|(_, until, _)| until.0 < oldest) {
            self.counts.pop_front();
        }
        if counted {
            self.counted = now;
        }
        // A burst leaves room behind that would be held for ever.
        if self.requests.capacity() > 4 * self.requests.len().max(1024) {
            self.requests.shrink_to(2 * self.requests.len());
        }
    }

    /// The earliest instant since which every request was seen and none is forgotten.
    pub fn complete_since(&self, now: Timestamp) -> Timestamp {
        let oldest = Timestamp(now.0.saturating_sub(HELD.0)).max(self.began);
        match self.requests.front() {
            Some(first) if self.requests.len() >= REQUESTS_MAX => oldest.max(Timestamp(first.completed)),
            _ => oldest,
        }
    }

    /// The requests in the order of their completion.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = ObservedRequest> {
        self.requests.iter().map(unpack)
    }

    /// The long waits in the order of their ends.
    pub fn waits(&self) -> impl Iterator<Item = &ObservedWait> {
        self.waits.iter()
    }

    /// The counts of short waits, each with the span in which they ended.
    pub fn counts(&self) -> impl Iterator<Item = &(Timestamp, Timestamp, ObservedCount)> {
        self.counts.iter()
    }
}

fn pack(request: &ObservedRequest) -> Packed {
    Packed {
        queued: request.queued.0,
        completed: request.completed.0,
        issued: request.issued.map_or(0, |at| at.0),
        sector: request.sector.map_or(u64::MAX, |sector| sector.0),
        inode: request.file.map_or(0, |file| file.number),
        fs: request.file.map_or(0, |file| file.fs.0),
        device: request.device.0,
        bytes: u32::try_from(request.bytes.0).unwrap_or(u32::MAX),
        tid: request.tid.unwrap_or(0),
        cause_tid: request.cause_tid.unwrap_or(0),
        flags: request.flags.0,
        // 0 stands for "others", which no request is.
        party: request.party.map_or(u16::MAX, |party| u16::try_from(party.0).unwrap_or(0)),
        cpu: u16::try_from(request.cpu).unwrap_or(u16::MAX),
        error: i16::try_from(request.error).unwrap_or(i16::MIN),
        op: request.op,
        content: request.content,
    }
}

fn unpack(packed: &Packed) -> ObservedRequest {
    let thread = |tid: u32| (tid != 0).then_some(tid);
    ObservedRequest {
        device: DeviceId(packed.device),
        op: packed.op,
        flags: Flags(packed.flags),
        sector: (packed.sector != u64::MAX).then_some(Sector(packed.sector)),
        bytes: ByteCount(packed.bytes.into()),
        queued: Timestamp(packed.queued),
        issued: (packed.issued != 0).then_some(Timestamp(packed.issued)),
        completed: Timestamp(packed.completed),
        error: packed.error.into(),
        cpu: packed.cpu.into(),
        tid: thread(packed.tid),
        cause_tid: thread(packed.cause_tid),
        party: (packed.party != u16::MAX).then_some(PartyId(packed.party.into())),
        file: (packed.inode != 0).then_some(Inode { fs: DeviceId(packed.fs), number: packed.inode }),
        content: packed.content,
    }
}

/// Whether a wait is one for storage of a program, and not of a kernel thread.
pub fn is_for_storage(wait: &ObservedWait) -> bool {
    wait.blocked_in != BlockedIn::KernelThread && wait.blocked_in.is_for_storage(wait.reason)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(completed_ms: u64) -> ObservedRequest {
        ObservedRequest {
            device: DeviceId::new(179, 0),
            op: Op::Write,
            flags: Flags::SYNC,
            sector: Some(Sector(8)),
            bytes: ByteCount(4096),
            queued: Timestamp((completed_ms - 1) * 1_000_000),
            issued: None,
            completed: Timestamp(completed_ms * 1_000_000),
            error: -5,
            cpu: 1,
            tid: Some(7),
            cause_tid: None,
            party: Some(PartyId(3)),
            file: Some(Inode { fs: DeviceId::new(179, 2), number: 12 }),
            content: Content::Data,
        }
    }

    #[test]
    fn requests_survive_packing() {
        let plain = request(5);
        let flush = ObservedRequest {
            op: Op::Flush,
            sector: None,
            issued: Some(Timestamp(9)),
            tid: None,
            cause_tid: Some(8),
            party: None,
            file: None,
            error: 0,
            ..plain
        };
        for request in [plain, flush] {
            assert_eq!(unpack(&pack(&request)), request);
        }
    }

    #[test]
    fn a_minute_is_held_within_the_memory() {
        let mut recent = Recent::new(Timestamp(0));
        for ms in 1..=200_000_u64 {
            recent.add(&Observed::Request(request(ms)), Timestamp(ms * 1_000_000));
            if ms % 1000 == 0 {
                recent.forget(Timestamp(ms * 1_000_000), false);
            }
        }
        let held: Vec<_> = recent.requests().collect();
        assert_eq!((held.len(), held.last().unwrap().completed.0), (60_001, 200_000_000_000));
        assert_eq!(recent.complete_since(Timestamp(200_000_000_000)), Timestamp(140_000_000_000));
        // Ten times as many do not fit.
        for us in 1..=600_000_u64 {
            let one = ObservedRequest { completed: Timestamp(200_000_000_000 + us * 100_000), ..request(9) };
            recent.add(&Observed::Request(one), one.completed);
        }
        assert_eq!(recent.requests.len(), REQUESTS_MAX);
        assert!(recent.complete_since(Timestamp(260_000_000_000)) > Timestamp(240_000_000_000));
        recent.forget(Timestamp(900_000_000_000), true);
        assert!(recent.requests.is_empty() && recent.requests.capacity() < 10_000);
    }
}
