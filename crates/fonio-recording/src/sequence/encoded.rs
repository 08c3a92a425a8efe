//! Encodes requests and bios for spill files. An encoded row consists of two bytes with a presence bit for
//! each optional field, and then of every field in full width, little-endian. A spill file is read only by
//! the process that wrote it.

use fonio_core::{Bio, ByteCount, Content, DeviceId, Flags, Op, Request, Sector, Timestamp};

/// Size of an encoded request: two bytes for the presence bits, then the fields.
pub(super) const REQUEST_BYTES: usize = 2 + 8 + 4 + 1 + 4 + 4 + 8 + 8 + 5 * 8 + 5 * 4 + 1 + 2 + 4;
/// Size of an encoded bio: two bytes for the presence bits, then the fields.
pub(super) const BIO_BYTES: usize = 2 + 8 + 4 + 1 + 4 + 4 + 8 + 8 + 8 + 8 + 3 * 4 + 8;

pub(super) fn request(row: &Request, out: &mut Vec<u8>) {
    let mut bytes = Fields::<REQUEST_BYTES>::new();
    bytes.put(row.request_id.to_le_bytes());
    bytes.put(row.device.0.to_le_bytes());
    bytes.put([row.op as u8]);
    bytes.put(row.flags.0.to_le_bytes());
    bytes.put(row.flags_known.0.to_le_bytes());
    bytes.put_option(row.sector.map(|sector| sector.0.to_le_bytes()));
    bytes.put(row.bytes.0.to_le_bytes());
    for time in [row.queued, row.inserted, row.issued, row.reissued, row.completed] {
        bytes.put_option(time.map(|time| time.0.to_le_bytes()));
    }
    for number in [row.requeues, row.cpu, row.tid, row.cause_tid, row.file_id] {
        bytes.put_option(number.map(u32::to_le_bytes));
    }
    bytes.put([row.content as u8]);
    bytes.put_option(row.ioprio.map(u16::to_le_bytes));
    bytes.put_option(row.error.map(i32::to_le_bytes));
    out.extend_from_slice(&bytes.finish());
}

pub(super) fn request_from(bytes: &[u8]) -> Request {
    let mut bytes = Taken::new(bytes);
    Request {
        request_id: u64::from_le_bytes(bytes.take()),
        device: DeviceId(u32::from_le_bytes(bytes.take())),
        op: Op::ALL[usize::from(bytes.take::<1>()[0])],
        flags: Flags(u32::from_le_bytes(bytes.take())),
        flags_known: Flags(u32::from_le_bytes(bytes.take())),
        sector: bytes.take_option().map(u64::from_le_bytes).map(Sector),
        bytes: ByteCount(u64::from_le_bytes(bytes.take())),
        queued: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        inserted: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        issued: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        reissued: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        completed: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        requeues: bytes.take_option().map(u32::from_le_bytes),
        cpu: bytes.take_option().map(u32::from_le_bytes),
        tid: bytes.take_option().map(u32::from_le_bytes),
        cause_tid: bytes.take_option().map(u32::from_le_bytes),
        file_id: bytes.take_option().map(u32::from_le_bytes),
        content: Content::ALL[usize::from(bytes.take::<1>()[0])],
        ioprio: bytes.take_option().map(u16::from_le_bytes),
        error: bytes.take_option().map(i32::from_le_bytes),
    }
}

pub(super) fn bio(row: &Bio, out: &mut Vec<u8>) {
    let mut bytes = Fields::<BIO_BYTES>::new();
    bytes.put(row.bio_id.to_le_bytes());
    bytes.put(row.device.0.to_le_bytes());
    bytes.put([row.op as u8]);
    bytes.put(row.flags.0.to_le_bytes());
    bytes.put(row.flags_known.0.to_le_bytes());
    bytes.put_option(row.sector.map(|sector| sector.0.to_le_bytes()));
    bytes.put(row.bytes.0.to_le_bytes());
    bytes.put(row.queued.0.to_le_bytes());
    bytes.put_option(row.completed.map(|time| time.0.to_le_bytes()));
    for number in [row.tid, row.cause_tid, row.file_id] {
        bytes.put_option(number.map(u32::to_le_bytes));
    }
    bytes.put_option(row.request_id.map(u64::to_le_bytes));
    out.extend_from_slice(&bytes.finish());
}

pub(super) fn bio_from(bytes: &[u8]) -> Bio {
    let mut bytes = Taken::new(bytes);
    Bio {
        bio_id: u64::from_le_bytes(bytes.take()),
        device: DeviceId(u32::from_le_bytes(bytes.take())),
        op: Op::ALL[usize::from(bytes.take::<1>()[0])],
        flags: Flags(u32::from_le_bytes(bytes.take())),
        flags_known: Flags(u32::from_le_bytes(bytes.take())),
        sector: bytes.take_option().map(u64::from_le_bytes).map(Sector),
        bytes: ByteCount(u64::from_le_bytes(bytes.take())),
        queued: Timestamp(u64::from_le_bytes(bytes.take())),
        completed: bytes.take_option().map(u64::from_le_bytes).map(Timestamp),
        tid: bytes.take_option().map(u32::from_le_bytes),
        cause_tid: bytes.take_option().map(u32::from_le_bytes),
        file_id: bytes.take_option().map(u32::from_le_bytes),
        request_id: bytes.take_option().map(u64::from_le_bytes),
    }
}

/// The bytes of a row that is being encoded.
struct Fields<const N: usize> {
    bytes: [u8; N],
    at: usize,
    present: u16,
    optional: u32,
}

impl<const N: usize> Fields<N> {
    fn new() -> Fields<N> {
        Fields { bytes: [0; N], at: 2, present: 0, optional: 0 }
    }
    #[inline]
    fn put<const W: usize>(&mut self, field: [u8; W]) {
        self.bytes[self.at..self.at + W].copy_from_slice(&field);
        self.at += W;
    }
    #[inline]
    fn put_option<const W: usize>(&mut self, field: Option<[u8; W]>) {
        self.present |= u16::from(field.is_some()) << self.optional;
        self.optional += 1;
        self.put(field.unwrap_or([0; W]));
    }
    fn finish(mut self) -> [u8; N] {
        assert_eq!(self.at, N, "the encoded row is as long as its fields");
        self.bytes[..2].copy_from_slice(&self.present.to_le_bytes());
        self.bytes
    }
}

/// The bytes of a row that is being decoded.
struct Taken<'b> {
    bytes: &'b [u8],
    present: u16,
}

impl<'b> Taken<'b> {
    fn new(bytes: &'b [u8]) -> Taken<'b> {
        let mut taken = Taken { bytes, present: 0 };
        taken.present = u16::from_le_bytes(taken.take());
        taken
    }
    #[inline]
    fn take<const W: usize>(&mut self) -> [u8; W] {
        let (field, rest) = self.bytes.split_first_chunk().expect("an encoded row has all fields");
        self.bytes = rest;
        *field
    }
    #[inline]
    fn take_option<const W: usize>(&mut self) -> Option<[u8; W]> {
        let field = self.take();
        let present = self.present & 1 != 0;
        self.present >>= 1;
        present.then_some(field)
    }
}
