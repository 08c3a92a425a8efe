//! Walks over the wire format of protocol buffers without a schema: each field is a number and a value.
//!
//! Source: Protocol Buffers, "Encoding". Groups (wire types 3 and 4) do not occur in Perfetto's messages, so
//! they are treated as damage.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer, a Boolean or an enumeration.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Four bytes, little-endian.
    Fixed32(u32),
    /// A string, a message or a packed list.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns an integer's value; `None` for bytes.
    pub fn number(self) -> Option<u64> {
        match self {
            Value::Varint(value) | Value::Fixed64(value) => Some(value),
            Value::Fixed32(value) => Some(u64::from(value)),
            Value::Bytes(_) => None,
        }
    }

    /// Returns the bytes; `None` for an integer.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Iterates over the fields of a message. The iteration ends at the end of the message or at the first damage.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    damaged: bool,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, damaged: false }
    }

    /// Returns whether the iteration ended at damage.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    #[inline(always)]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let (tag, rest) = tag_or_length(self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        // Nearly all fields have one of the first two types.
        let (value, rest) = if tag & 7 == 0 {
            let (value, rest) = varint(rest)?;
            (Value::Varint(value), rest)
        } else if tag & 7 == 2 {
            let (length, rest) = tag_or_length(rest)?;
            let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            (Value::Bytes(value), rest)
        } else {
            fixed(tag, rest)?
        };
        self.rest = rest;
        Some((number, value))
    }
}

/// Reads a value of four or eight bytes. Such values are rare; separate code keeps the two branches of the others fast.
#[cold]
#[inline(never)]
fn fixed(tag: u64, rest: &[u8]) -> Option<(Value<'_>, &[u8])> {
    Some(match tag & 7 {
        1 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed64(u64::from_le_bytes(*value)), rest)
        }
        5 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed32(u32::from_le_bytes(*value)), rest)
        }
        _ => return None,
    })
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let field = self.field();
        self.damaged = field.is_none();
        field
    }
}

/// Reads an integer at the start of `bytes`; returns it and the remaining bytes. `None` if it is cut short or
/// has more than ten bytes.
#[inline(always)]
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes.split_first() {
        // Most tags, sizes and numbers have one byte.
        Some((first, rest)) if *first < 0x80 => Some((u64::from(*first), rest)),
        _ => long_varint(bytes),
    }
}

/// Reads an integer as [`varint`] does. Most tags and lengths have one or two bytes.
#[inline(always)]
fn tag_or_length(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [first, rest @ ..] if *first < 0x80 => Some((u64::from(*first), rest)),
        [first, second, rest @ ..] if *second < 0x80 => {
            Some((u64::from(*first & 0x7f) | u64::from(*second) << 7, rest))
        }
        _ => varint_by_bytes(bytes),
    }
}

/// Reads an integer as [`varint`] does. An integer of up to eight bytes is read without a branch for each byte.
#[inline(always)]
fn long_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let Some(chunk) = bytes.first_chunk() else { return varint_by_bytes(bytes) };
    let word = u64::from_le_bytes(*chunk);
    // The highest bit of each byte says whether another byte follows.
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return varint_by_bytes(bytes);
    }
    let length = (ends.trailing_zeros() as usize + 1) / 8;
    let groups = word & (u64::MAX >> (64 - 8 * length)) & 0x7f7f_7f7f_7f7f_7f7f;
    // Join groups of 7 bits into groups of 14, 28 and 56 bits.
    let groups = (groups & 0x007f_007f_007f_007f) | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
    let groups = (groups & 0x0000_3fff_0000_3fff) | (groups & 0x3fff_0000_3fff_0000) >> 2;
    let value = (groups & 0x0fff_ffff) | (groups & 0x0fff_ffff_0000_0000) >> 4;
    Some((value, &bytes[length..]))
}

#[cold]
fn varint_by_bytes(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Reads the integers of a packed list, up to the first damage, into `values`. Most have one to three bytes.
pub(super) fn unpack(bytes: &[u8], values: &mut Vec<u64>) {
    values.clear();
    values.reserve(bytes.len());
    let mut rest = bytes;
    while let Some(chunk) = rest.first_chunk::<8>() {
        if u64::from_le_bytes(*chunk) & 0x8080_8080_8080_8080 == 0 {
            values.extend(chunk.map(u64::from));
            rest = &rest[8..];
            continue;
        }
        let Some((value, behind)) = long_varint(rest) else { return };
        values.push(value);
        rest = behind;
    }
    // The last integers are read from a copy with zeros behind them, so that eight bytes can be read at once.
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let (mut at, length) = (0, rest.len());
    while at < length {
        let Some((value, behind)) = varint(&last[at..]) else { return };
        at = last.len() - behind.len();
        if at > length {
            return;
        }
        values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_each_type() {
        let message = [0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 2, 0, 0, 0];
        let mut fields = Fields::of(&message);
        let all: Vec<_> = fields.by_ref().collect();
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1)),
            (3, Value::Bytes(b"hi")),
            (4, Value::Fixed32(2)),
        ];
        assert_eq!(all, expected);
        assert!(!fields.is_damaged());
        // The last field is cut; field 0 and groups do not exist.
        for damaged in [&message[..message.len() - 1], &[0x08], &[0x00, 0x01], &[0x0b], &[0x0a, 0xff, 0x7f]] {
            let mut fields = Fields::of(damaged);
            fields.by_ref().for_each(drop);
            assert!(fields.is_damaged(), "{damaged:?}");
        }
        assert_eq!(unpacked(&[1, 0x96, 0x01, 0x80]), [1, 150]);
        assert_eq!(varint(&[0xff; 11]), None);
    }

    fn unpacked(bytes: &[u8]) -> Vec<u64> {
        let mut values = vec![7];
        unpack(bytes, &mut values);
        values
    }

    fn by_integers(mut bytes: &[u8]) -> Vec<u64> {
        std::iter::from_fn(|| {
            let (value, rest) = varint_by_bytes(bytes)?;
            bytes = rest;
            Some(value)
        })
        .collect()
    }

    proptest::proptest! {
        #[test]
        fn a_fast_list_is_that_of_its_integers(bytes in proptest::collection::vec(
            proptest::prop_oneof![3 => 0..0x80_u8, 1 => proptest::prelude::any::<u8>()], 0..60)
        ) {
            proptest::prop_assert_eq!(unpacked(&bytes), by_integers(&bytes));
        }

        #[test]
        fn a_fast_varint_is_that_of_its_bytes(
            more in proptest::collection::vec(0x80_u8.., 0..11),
            rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..12),
        ) {
            let bytes = [more, rest].concat();
            proptest::prop_assert_eq!(varint(&bytes), varint_by_bytes(&bytes));
            proptest::prop_assert_eq!(tag_or_length(&bytes), varint_by_bytes(&bytes));
        }
    }
}
