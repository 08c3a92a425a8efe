//! Decodes fields from the bits of a packet.
//!
//! Positions and alignments count in bits from the beginning of the packet. In little-endian integers, the first bit of a byte
//! is its lowest one; in big-endian integers, the highest one. Only the values of fields with a known name are kept, and the
//! integers that count elements or choose options.

use fonio_tracefs::ring_buffer::ByteOrder;

use super::types::{Count, Integer, Name, Type};
use crate::comm::Comm;

/// Maximum number of fields of an event beyond one for each bit. Fields without bits, such as empty structures, must not be
/// decoded for hours.
const FREE_STEPS: u64 = 64;
/// Maximum number of bytes of a text that are kept.
const TEXT_BYTES: usize = 64;
/// Maximum number of integers of an event that later fields can refer to.
const SCOPE_MAX: usize = 1 << 12;

macro_rules! known {
    ($($field:ident: $($name:literal)|+,)*) => {
        /// A field that the reader uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Known { $($field,)* }

        impl Known {
            pub const COUNT: usize = [$(Known::$field),*].len();

            /// Returns the field with this name, which LTTng begins with `_`.
            pub fn of(name: &str) -> Option<Known> {
                match name.strip_prefix('_').unwrap_or(name) {
                    $($($name)|+ => Some(Known::$field),)*
                    _ => None,
                }
            }
        }
    };
}

known! {
    Magic: "magic",
    StreamId: "stream_id",
    PacketSize: "packet_size",
    ContentSize: "content_size",
    Discarded: "events_discarded",
    Sequence: "packet_seq_num",
    Begin: "timestamp_begin",
    End: "timestamp_end",
    Cpu: "cpu_id",
    Id: "id",
    Dev: "dev",
    Sector: "sector",
    Sectors: "nr_sector",
    Bytes: "bytes",
    Error: "error" | "errors",
    Rwbs: "rwbs",
    CommandBytes: "_cmd_length",
    Tid: "tid" | "vtid" | "perf_tid",
    Pid: "pid",
    Process: "perf_pid",
    Comm: "comm" | "procname",
    OldDev: "old_dev",
    OldSector: "old_sector",
    NewSector: "new_sector",
    PrevTid: "prev_tid" | "prev_pid",
    PrevComm: "prev_comm",
    PrevState: "prev_state",
    NextTid: "next_tid" | "next_pid",
    ChildTid: "child_tid" | "child_pid",
    ParentTid: "parent_tid" | "parent_pid",
}

/// The values of the fields of a packet or of an event.
#[derive(Clone, Debug)]
pub(super) struct Values {
    numbers: [Option<u64>; Known::COUNT],
    pub rwbs: Comm,
    pub comm: Comm,
    pub prev_comm: Comm,
    /// The last integer that is a time of the clock, and its number of bits.
    pub clock: Option<(u64, u32)>,
    /// The integers so far, for fields that refer to them.
    scope: Vec<(Name, i128)>,
    /// The label of the last enumeration with this name.
    labels: Vec<(Name, Name)>,
    steps: u64,
    /// The position at which the event begins.
    begin: u64,
}

impl Default for Values {
    fn default() -> Values {
        Values {
            numbers: [None; Known::COUNT],
            rwbs: Comm::default(),
            comm: Comm::default(),
            prev_comm: Comm::default(),
            clock: None,
            scope: Vec::new(),
            labels: Vec::new(),
            steps: 0,
            begin: 0,
        }
    }
}

impl Values {
    /// Removes all values, before an event that begins at this bit.
    pub fn clear(&mut self, begin: u64) {
        self.numbers = [None; Known::COUNT];
        (self.rwbs, self.comm, self.prev_comm) = (Comm::default(), Comm::default(), Comm::default());
        self.clock = None;
        self.scope.clear();
        self.labels.clear();
        (self.steps, self.begin) = (0, begin);
    }

    #[cfg(test)]
    pub fn set(&mut self, field: Known, value: u64) {
        self.numbers[field as usize] = Some(value);
    }

    /// Returns an integer. Negative ones are sign-extended.
    pub fn get(&self, field: Known) -> Option<u64> {
        self.numbers[field as usize]
    }
}

/// Why a field cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It goes on after the bytes at hand.
    Short,
    /// It cannot be right.
    Damaged,
}

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'b> {
    bytes: &'b [u8],
    /// Position of the first of the bytes in the packet.
    from: u64,
    /// Position of the next bit, and of the end of the packet's content; in bits.
    pub at: u64,
    pub end: u64,
}

impl<'b> Bits<'b> {
    /// Creates a reader at bit `at` of the packet whose bytes from `from` on are `bytes`.
    pub fn new(bytes: &'b [u8], from: u64, at: u64, end: u64) -> Bits<'b> {
        Bits { bytes, from, at, end }
    }

    fn align(&mut self, align: u32) -> Result<(), Failed> {
        let align = u64::from(align.max(1));
        self.at = self.at.checked_next_multiple_of(align).ok_or(Failed::Damaged)?;
        Ok(())
    }

    /// Checks that these many bits are in the packet and at hand.
    fn check(&self, bits: u64) -> Result<(), Failed> {
        let end = self.at.checked_add(bits).ok_or(Failed::Damaged)?;
        if end > self.end {
            return Err(Failed::Damaged);
        }
        let have = (self.from + self.bytes.len() as u64).saturating_mul(8);
        if end > have { Err(Failed::Short) } else { Ok(()) }
    }

    fn byte(&self, at: u64) -> u8 {
        self.bytes[(at - self.from) as usize]
    }

    fn integer(&mut self, of: Integer) -> Result<u64, Failed> {
        self.align(of.align)?;
        self.check(u64::from(of.bits))?;
        let mut value = 0_u64;
        if self.at.is_multiple_of(8) && of.bits.is_multiple_of(8) {
            let first = self.at / 8;
            for place in 0..u64::from(of.bits / 8) {
                let byte = u64::from(self.byte(first + place));
                match of.order {
                    ByteOrder::Little => value |= byte << (8 * place),
                    ByteOrder::Big => value = value << 8 | byte,
                }
            }
        } else {
            for place in 0..of.bits {
                let at = self.at + u64::from(place);
                let byte = self.byte(at / 8);
                match of.order {
                    ByteOrder::Little => value |= u64::from(byte >> (at % 8) & 1) << place,
                    ByteOrder::Big => value = value << 1 | u64::from(byte >> (7 - at % 8) & 1),
                }
            }
        }
        self.at += u64::from(of.bits);
        if of.signed && of.bits < 64 && value >> (of.bits - 1) & 1 == 1 {
            value |= u64::MAX << of.bits;
        }
        Ok(value)
    }

    fn skip(&mut self, bits: u64) -> Result<(), Failed> {
        self.check(bits)?;
        self.at += bits;
        Ok(())
    }

    /// Reads a text until its zero.
    fn text(&mut self) -> Result<Comm, Failed> {
        self.align(8)?;
        let mut begin = [0; TEXT_BYTES];
        let mut length = 0;
        loop {
            self.check(8)?;
            let byte = self.byte(self.at / 8);
            self.at += 8;
            if byte == 0 {
                return Ok(Comm::of(&begin[..length]));
            }
            if length < TEXT_BYTES {
                begin[length] = byte;
                length += 1;
            }
        }
    }

    /// Decodes a field. `names` are the known fields by the numbers of their names.
    pub fn field(
        &mut self,
        name: Option<Name>,
        of: &Type,
        names: &[Option<Known>],
        values: &mut Values,
    ) -> Result<(), Failed> {
        values.steps += 1;
        if values.steps > FREE_STEPS + self.at.saturating_sub(values.begin) {
            return Err(Failed::Damaged);
        }
        let known = name.and_then(|name| names.get(name as usize).copied().flatten());
        match of {
            Type::Integer(integer) => {
                let value = self.integer(*integer)?;
                values.number(name, known, *integer, value);
            }
            Type::Enum { of, labels } => {
                let value = self.integer(*of)?;
                values.number(name, known, *of, value);
                let wide = wide(*of, value);
                let label = labels.iter().find(|label| label.first <= wide && wide <= label.last);
                if let (Some(name), Some(label)) = (name, label) {
                    if values.labels.len() >= SCOPE_MAX {
                        return Err(Failed::Damaged);
                    }
                    values.labels.push((name, label.name));
                }
            }
            Type::Float { bits, align } => {
                self.align(*align)?;
                self.skip(u64::from(*bits))?;
            }
            Type::Text => {
                let text = self.text()?;
                values.text(known, text);
            }
            Type::Struct { fields, align, .. } => {
                self.align(*align)?;
                for field in fields.iter() {
                    self.field(Some(field.name), &field.of, names, values)?;
                }
            }
            Type::Variant { tag, options, .. } => {
                let label = values.labels.iter().rev().find(|(name, _)| Some(*name) == *tag);
                let (_, label) = *label.ok_or(Failed::Damaged)?;
                let option = options.iter().find(|option| option.name == label).ok_or(Failed::Damaged)?;
                self.field(Some(option.name), &option.of, names, values)?;
            }
            Type::Array { of, count, .. } => {
                let count = match count {
                    Count::Fixed(count) => *count,
                    Count::Of(name) => {
                        let value = values.scope.iter().rev().find(|(known, _)| known == name);
                        let (_, value) = *value.ok_or(Failed::Damaged)?;
                        u64::try_from(value).map_err(|_| Failed::Damaged)?
                    }
                };
                self.array(known, of, count, names, values)?;
            }
        }
        Ok(())
    }

    fn array(
        &mut self,
        known: Option<Known>,
        of: &Type,
        count: u64,
        names: &[Option<Known>],
        values: &mut Values,
    ) -> Result<(), Failed> {
        self.align(of.align())?;
        if let Type::Integer(integer) = of {
            // Elements without gaps are skipped at once.
            if u64::from(integer.bits) % u64::from(integer.align.max(1)) == 0 {
                let bits = count.checked_mul(u64::from(integer.bits)).ok_or(Failed::Damaged)?;
                self.check(bits)?;
                if integer.bits == 8 && known.is_some() {
                    let first = self.at / 8;
                    let mut text = [0; TEXT_BYTES];
                    let mut length = 0;
                    for place in 0..count.min(TEXT_BYTES as u64) {
                        let byte = self.byte(first + place);
                        if byte == 0 {
                            break;
                        }
                        text[length] = byte;
                        length += 1;
                    }
                    values.text(known, Comm::of(&text[..length]));
                }
                self.at += bits;
                return Ok(());
            }
        }
        for _ in 0..count {
            self.field(None, of, names, values)?;
        }
        Ok(())
    }
}

fn wide(of: Integer, value: u64) -> i128 {
    if of.signed { i128::from(value as i64) } else { i128::from(value) }
}

impl Values {
    fn number(&mut self, name: Option<Name>, known: Option<Known>, of: Integer, value: u64) {
        if let Some(known) = known {
            self.numbers[known as usize] = Some(value);
        }
        if of.is_clock {
            self.clock = Some((value, of.bits));
        }
        if let Some(name) = name.filter(|_| self.scope.len() < SCOPE_MAX) {
            self.scope.push((name, wide(of, value)));
        }
    }

    fn text(&mut self, known: Option<Known>, text: Comm) {
        match known {
            Some(Known::Rwbs) => self.rwbs = text,
            Some(Known::Comm) => self.comm = text,
            Some(Known::PrevComm) => self.prev_comm = text,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::ctf::types::Field;

    fn integer(bits: u32, align: u32, signed: bool, order: ByteOrder) -> Integer {
        Integer { bits, align, signed, order, is_clock: false }
    }

    #[test]
    fn integers() {
        let bytes = [0b1010_0101, 0xff, 0x12, 0x34];
        let read = |at, of| Bits::new(&bytes, 0, at, 32).integer(of);
        let (little, big) = (ByteOrder::Little, ByteOrder::Big);
        assert_eq!(read(0, integer(5, 1, false, little)), Ok(0b00101));
        assert_eq!(read(5, integer(3, 1, false, little)), Ok(0b101));
        assert_eq!(read(0, integer(5, 1, false, big)), Ok(0b10100));
        assert_eq!(read(5, integer(7, 1, false, big)), Ok(0b101_1111));
        assert_eq!(read(8, integer(8, 8, true, little)), Ok(u64::MAX));
        assert_eq!(read(9, integer(16, 8, false, big)), Ok(0x1234));
        assert_eq!(read(16, integer(16, 16, false, little)), Ok(0x3412));
        assert_eq!(read(17, integer(16, 8, false, little)), Err(Failed::Damaged));
        assert_eq!(Bits::new(&bytes, 0, 24, 64).integer(integer(16, 8, false, little)), Err(Failed::Short));
    }

    /// Without a limit, an array of empty structures would be decoded for hours.
    #[test]
    fn an_array_of_nothing_ends() {
        let empty = Arc::new(Type::Struct { fields: Arc::new(Vec::new()), align: 1, depth: 1 });
        let many = Type::Array { of: empty, count: Count::Fixed(u64::MAX), depth: 2 };
        let mut values = Values::default();
        let found = Bits::new(&[], 0, 0, 0).field(None, &many, &[], &mut values);
        assert_eq!(found, Err(Failed::Damaged));
    }

    #[test]
    fn a_variant_follows_its_enumeration() {
        use crate::ctf::types::Label;
        let byte = integer(8, 8, false, ByteOrder::Little);
        let labels = vec![Label { name: 1, first: 0, last: 30 }, Label { name: 2, first: 31, last: 31 }];
        let tag = Type::Enum { of: byte, labels: Arc::new(labels) };
        let option = |name, of| Field { name, of: Arc::new(of) };
        let options = vec![option(1, Type::Integer(byte)), option(2, Type::Text)];
        let fields = vec![
            Field { name: 0, of: Arc::new(tag) },
            Field {
                name: 3,
                of: Arc::new(Type::Variant { tag: Some(0), options: Arc::new(options), depth: 2 }),
            },
        ];
        let of = Type::Struct { fields: Arc::new(fields), align: 8, depth: 3 };
        let names = [Some(Known::Id), Some(Known::Dev), Some(Known::Comm), None];
        let read = |bytes: &[u8]| {
            let mut values = Values::default();
            let end = bytes.len() as u64 * 8;
            let found = Bits::new(bytes, 0, 0, end).field(None, &of, &names, &mut values);
            found.map(|()| (values.get(Known::Id), values.get(Known::Dev), format!("{:?}", values.comm)))
        };
        assert_eq!(read(&[7, 9]), Ok((Some(7), Some(9), "\"\"".into())));
        assert_eq!(read(b"\x1fab\0"), Ok((Some(31), None, "\"ab\"".into())));
        assert_eq!(read(b"\x20ab\0"), Err(Failed::Damaged));
    }

    proptest! {
        /// Integers of any size at any place are the bits of their bytes.
        #[test]
        fn integers_at_any_place(bytes in prop::collection::vec(any::<u8>(), 17), at in 0_u64..64, bits in 1_u32..=64) {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let found = Bits::new(&bytes, 0, at, 17 * 8).integer(integer(bits, 1, false, order)).expect("it fits");
                let all: Vec<u64> = (0..u64::from(bits)).map(|place| {
                    let place = at + place;
                    let byte = bytes[(place / 8) as usize];
                    let shift = if order == ByteOrder::Little { place % 8 } else { 7 - place % 8 };
                    u64::from(byte >> shift & 1)
                }).collect();
                // A little-endian number of whole bytes has its bytes in the order of their bits, too.
                let expected = match order {
                    ByteOrder::Little => all.iter().rev().fold(0, |sum, bit| sum << 1 | bit),
                    ByteOrder::Big => all.iter().fold(0, |sum, bit| sum << 1 | bit),
                };
                prop_assert_eq!(found, expected);
            }
        }
    }
}
