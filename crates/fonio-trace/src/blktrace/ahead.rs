//! Checks ordinary records ahead of their use.
//!
//! The inputs of a trace are merged by time, so a stream often gives only one or two events before another
//! stream has the next one. Checking the framing and the sequence numbers of many records at a time, in a short
//! loop, costs less than checking one record between two events.
//!
//! A record is ordinary if its event needs only its header, it has the same layout as the record before, the
//! next record begins in the buffer, and it has the sequence number that follows. All other records are left to
//! the careful path, in order.

use super::record::{Header, u32_at, u64_at};
use super::sequence::Sequences;

/// Maximum number of records that are checked at a time. Their headers stay in the first-level cache until
/// they are used.
const RECORDS_MAX: usize = 256;

/// The checked records that have not been used.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// For each record: the time of its event or of the event after it, whichever is earlier; and the place of
    /// the record in the buffer.
    records: Vec<(u64, u32)>,
    /// Number of records at the beginning of `records` that have been used.
    used: usize,
}

/// The result of checking records.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Number of bytes of the checked records.
    pub bytes: usize,
    pub records: u64,
    /// The bitwise OR of the actions.
    pub actions: u64,
}

impl Ahead {
    /// Returns the time and the place of the next record.
    #[inline]
    pub fn next(&self) -> Option<(u64, usize)> {
        self.records.get(self.used).map(|&(key, place)| (key, place as usize))
    }

    /// Marks the next record as used.
    #[inline]
    pub fn advance(&mut self) {
        self.used += 1;
    }

    /// Checks the records of `buffer` from `begin` on, whose first word must be `word`. All records that were
    /// checked before must have been used.
    pub fn check<const WIDE: bool, const BIG: bool>(
        &mut self,
        buffer: &[u8],
        begin: usize,
        word: u32,
        sequences: &mut Sequences,
    ) -> Checked {
        assert!(self.used == self.records.len(), "records are used in the order of the input");
        self.records.clear();
        self.used = 0;
        let mut checked = Checked::default();
        let Some((device, cpu, first)) = sequences.run() else { return checked };
        let (mut place, mut sequence, mut last) = (begin, first, None);
        while let Some(bytes) = buffer.get(place..)
            && let Some(header) = Header::read_as::<WIDE, BIG>(bytes)
        {
            let len = if WIDE { 64 } else { 48 } + usize::from(header.pdu_len);
            let is_next = header.device == device && header.cpu == cpu && header.sequence == sequence;
            if u32_at::<false>(bytes, 0) != word || header.is_note() || !header.is_plain() || !is_next {
                break;
            }
            let Some(next) = bytes.get(len..).and_then(|next| next.first_chunk::<16>()) else { break };
            if u32_at::<false>(next, 0) != word || self.records.len() == RECORDS_MAX {
                break;
            }
            let key = header.time.0.min(u64_at::<BIG>(next, 8)).min(u64::MAX - 1);
            self.records.push((key, place as u32));
            checked.actions |= header.action;
            sequence = sequence.wrapping_add(1);
            last = Some(header.time);
            place += len;
        }
        if let Some(last) = last {
            sequences.continue_run(self.records.len() as u64, sequence, last);
        }
        checked.bytes = place - begin;
        checked.records = self.records.len() as u64;
        checked
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Timestamp;
    use proptest::prelude::*;

    use super::super::record::MAGIC;
    use super::super::sequence::Verdict;
    use super::*;

    const WORD: u32 = MAGIC | 7;

    /// The ways in which a record can differ from an ordinary one.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Ordinary,
        /// With a payload of this length, which its event does not need.
        Payload(u16),
        Note,
        Unplug,
        Lost,
        OtherProcessor,
        Damaged,
    }

    fn record(kind: Kind, time: u64, sequence: u32) -> Vec<u8> {
        let payload = if let Kind::Payload(len) = kind { len } else { 0 };
        let (word, action) = match kind {
            Kind::Damaged => (WORD ^ 0x100, 1),
            Kind::Note => (WORD, 1 << 26),
            Kind::Unplug => (WORD, 10),
            _ => (WORD, 1 | 1 << 20),
        };
        let sequence = if kind == Kind::Lost { sequence + 5 } else { sequence };
        let cpu = u32::from(kind == Kind::OtherProcessor);
        let mut bytes = [word, sequence].map(u32::to_le_bytes).concat();
        bytes.extend(time.to_le_bytes());
        bytes.extend([0; 12]);
        bytes.extend([action, 7, 8, cpu].map(u32::to_le_bytes).concat());
        bytes.extend([0, payload].map(u16::to_le_bytes).concat());
        bytes.resize(48 + usize::from(payload), 0xee);
        bytes
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            20 => Just(Kind::Ordinary),
            4 => (1u16..40).prop_map(Kind::Payload),
            1 => Just(Kind::Note),
            1 => Just(Kind::Unplug),
            1 => Just(Kind::Lost),
            1 => Just(Kind::OtherProcessor),
            1 => Just(Kind::Damaged),
        ]
    }

    proptest! {
        /// All records before the first one that is not ordinary are checked, except one before a damaged one and
        /// the last one, behind which no record begins. A record then is taken as without the check.
        #[test]
        fn ordinary_records_are_checked(
            records in prop::collection::vec((kinds(), 0u64..1000), 0..400),
            cut in 0usize..60,
        ) {
            let mut sequences = Sequences::default();
            prop_assert_eq!(sequences.see(8, 0, 0, Timestamp(0)), Verdict::Fine);
            let mut buffer = vec![0xee; 3];
            let mut places = Vec::new();
            for (at, (kind, time)) in records.iter().enumerate() {
                places.push(buffer.len());
                buffer.extend(record(*kind, *time, at as u32 + 1));
            }
            buffer.truncate(buffer.len() - cut.min(buffer.len() - 3));
            let is_ordinary = |at: usize| {
                let (kind, _) = records[at];
                let follows = places.get(at + 1).is_some_and(|place| place + 16 <= buffer.len())
                    && records[at + 1].0 != Kind::Damaged;
                matches!(kind, Kind::Ordinary | Kind::Payload(_)) && follows
            };
            let expected = (0..records.len().min(RECORDS_MAX)).take_while(|at| is_ordinary(*at)).count();

            let mut ahead = Ahead::default();
            let checked = ahead.check::<false, false>(&buffer, 3, WORD, &mut sequences);
            prop_assert_eq!(checked.records, expected as u64);
            prop_assert_eq!(checked.actions, if expected > 0 { 1 | 1 << 20 } else { 0 });
            for (at, place) in places.iter().enumerate().take(expected) {
                prop_assert_eq!(ahead.next(), Some((records[at].1.min(records[at + 1].1), *place)));
                ahead.advance();
            }
            prop_assert_eq!(ahead.next(), None);
            prop_assert_eq!(checked.bytes, places.get(expected).map_or(0, |place| place - 3));
            prop_assert_eq!(sequences.run(), Some((8, 0, expected as u32 + 1)));
        }
    }
}
