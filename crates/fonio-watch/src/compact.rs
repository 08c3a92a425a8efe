//! Compact encoding of completed requests, in the memory of a watch and in the file of a kept stall. An
//! encoded request takes 15 to 25 bytes.
//!
//! The columns that a watch observes are encoded with postcard. Times and sectors are stored as differences
//! from the previous request. The columns and their order belong to version 1 of the file format, so they
//! must not change.

use fonio_core::{ByteCount, Content, DeviceId, Flags, Op, Request, Sector, Timestamp};
use serde::{Deserialize, Serialize};

/// The request flags that a watch observes.
const FLAGS_KNOWN: [Flags; 5] = [Flags::SYNC, Flags::META, Flags::FUA, Flags::PREFLUSH, Flags::READAHEAD];

#[derive(Serialize, Deserialize)]
struct Encoded {
    device: u32,
    op: Op,
    flags: u32,
    /// Difference between the request's first sector and the end of the previous request.
    sector: Option<i64>,
    bytes: u64,
    /// Difference between the completion times of this request and the previous request.
    completed: i64,
    response: u64,
    /// Time from queueing the request to issuing it.
    queue: Option<u64>,
    error: i32,
    tid: Option<u32>,
    cause_tid: Option<u32>,
    file: Option<u32>,
    content: Content,
}

/// Encodes or decodes requests in sequence, starting with the first request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codec {
    /// Completion time and end sector of the previous request.
    completed: u64,
    end: u64,
}

impl Codec {
    /// Appends the encoded request to `bytes`.
    ///
    /// # Errors
    /// Never fails, because the memory grows as needed.
    ///
    /// # Panics
    /// Panics if the request's queueing or completion time is unknown.
    pub(crate) fn encode(&mut self, request: &Request, bytes: Vec<u8>) -> Result<Vec<u8>, postcard::Error> {
        let (queued, completed) =
            request.queued.zip(request.completed).expect("the watch keeps only completed requests");
        let encoded = Encoded {
            device: request.device.0,
            op: request.op,
            flags: request.flags.0,
            sector: request.sector.map(|sector| sector.0.wrapping_sub(self.end) as i64),
            bytes: request.bytes.0,
            completed: completed.0.wrapping_sub(self.completed) as i64,
            response: completed.0.wrapping_sub(queued.0),
            queue: request.issued.map(|issued| issued.0.wrapping_sub(queued.0)),
            error: request.error.unwrap_or(0),
            tid: request.tid,
            cause_tid: request.cause_tid,
            file: request.file_id,
            content: request.content,
        };
        self.note(completed, request.sector, request.bytes);
        postcard::to_extend(&encoded, bytes)
    }

    /// Decodes a request at the start of `bytes`, and returns it with the remaining bytes.
    ///
    /// # Errors
    /// Fails if the bytes are not an encoded request.
    pub(crate) fn decode<'b>(&mut self, bytes: &'b [u8]) -> Result<(Request, &'b [u8]), postcard::Error> {
        let (encoded, rest): (Encoded, &[u8]) = postcard::take_from_bytes(bytes)?;
        let completed = Timestamp(self.completed.wrapping_add(encoded.completed as u64));
        let queued = Timestamp(completed.0.wrapping_sub(encoded.response));
        let sector = encoded.sector.map(|sector| Sector(self.end.wrapping_add(sector as u64)));
        let bytes = ByteCount(encoded.bytes);
        self.note(completed, sector, bytes);
        let request = Request {
            flags: Flags(encoded.flags),
            flags_known: FLAGS_KNOWN.into_iter().fold(Flags::NONE, |all, flag| all | flag),
            sector,
            queued: Some(queued),
            issued: encoded.queue.map(|queue| Timestamp(queued.0.wrapping_add(queue))),
            completed: Some(completed),
            tid: encoded.tid,
            cause_tid: encoded.cause_tid,
            file_id: encoded.file,
            content: encoded.content,
            error: Some(encoded.error),
            ..Request::new(DeviceId(encoded.device), encoded.op, bytes)
        };
        Ok((request, rest))
    }

    fn note(&mut self, completed: Timestamp, sector: Option<Sector>, bytes: ByteCount) {
        self.completed = completed.0;
        self.end = sector.map_or(self.end, |sector| sector.0.wrapping_add(bytes.0 / 512));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates an arbitrary request that a watch can observe.
    pub(crate) fn any_request() -> impl Strategy<Value = Request> {
        let numbers = any::<(u32, u32, u64, u64, u64, i32)>();
        (numbers, any::<Option<(u64, u32)>>(), 0..3_usize).prop_map(
            |((device, flags, queued, completed, bytes, error), some, op)| Request {
                flags: Flags(flags),
                flags_known: FLAGS_KNOWN.into_iter().fold(Flags::NONE, |all, flag| all | flag),
                sector: some.map(|(sector, _)| Sector(sector)),
                queued: Some(Timestamp(queued)),
                issued: some.map(|(at, _)| Timestamp(at)),
                completed: Some(Timestamp(completed)),
                error: Some(error),
                tid: some.map(|(_, tid)| tid),
                file_id: some.map(|(_, file)| file),
                content: Content::SqliteWal,
                ..Request::new(DeviceId(device), [Op::Read, Op::Write, Op::Flush][op], ByteCount(bytes))
            },
        )
    }

    proptest! {
        #[test]
        fn requests_come_back(requests in prop::collection::vec(any_request(), 0..30)) {
            let (mut codec, mut bytes) = (Codec::default(), Vec::new());
            for request in &requests {
                bytes = codec.encode(request, bytes).unwrap();
            }
            let (mut codec, mut rest) = (Codec::default(), &bytes[..]);
            for request in &requests {
                let decoded = codec.decode(rest).unwrap();
                prop_assert_eq!(&decoded.0, request);
                rest = decoded.1;
            }
            prop_assert!(rest.is_empty() && codec.decode(rest).is_err());
        }
    }
}
