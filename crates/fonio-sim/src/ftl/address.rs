//! The types of addresses in flash. Each kind of number has its own type, so logical and physical units
//! cannot be mixed up. All these numbers are 32 bits wide, and the types have no cost at run time.

use std::marker::PhantomData;

/// A number that a [`Table`] can use as an index or store as a value.
pub(crate) trait Number: Copy {
    /// Returns the number as stored in a table.
    fn to_raw(self) -> u32;
    /// Returns the number that is stored as `raw`.
    fn from_raw(raw: u32) -> Self;
}

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Number for $name {
            fn to_raw(self) -> u32 {
                self.0
            }
            fn from_raw(raw: u32) -> $name {
                $name(raw)
            }
        }
    )*};
}

numbers! {
    /// A logical unit, numbered by the host.
    LogicalUnit
    /// A logical block: as many consecutive logical units as fit into one erase block.
    LogicalBlock
    /// A physical unit: erase block × units per erase block + offset.
    PhysicalUnit
    /// A flash page of all planes, numbered across all erase blocks.
    PhysicalPage
    /// An erase block; in a page map, a superblock.
    EraseBlock
    /// The offset of a unit in its logical or erase block, in units. The end of a block is its last offset
    /// plus one.
    Offset
    /// A flash die.
    Die
}

impl LogicalUnit {
    /// Returns the unit with this number. Panics if the number exceeds the limit of a translation layer.
    pub(crate) fn new(number: u64) -> LogicalUnit {
        LogicalUnit(u32::try_from(number).expect("a device has fewer than 2³² units"))
    }

    /// Returns the units from this unit to `end`, without `end`.
    pub(crate) fn up_to(self, end: LogicalUnit) -> impl Iterator<Item = LogicalUnit> {
        (self.0..end.0).map(LogicalUnit)
    }
}

impl PhysicalUnit {
    /// Returns the unit that is `units` after this unit.
    pub(crate) fn plus(self, units: u32) -> PhysicalUnit {
        PhysicalUnit(self.0 + units)
    }
}

impl Offset {
    /// Returns the offset that is `units` after this offset.
    pub(crate) fn plus(self, units: u32) -> Offset {
        Offset(self.0 + units)
    }

    /// Returns the offsets from this offset to `end`, without `end`.
    pub(crate) fn up_to(self, end: Offset) -> impl Iterator<Item = Offset> {
        (self.0..end.0).map(Offset)
    }
}

impl Die {
    /// Returns the die's index in a list of all dies.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// `None` is stored as 0, a number `n` as `n + 1`.
impl<N: Number> Number for Option<N> {
    fn to_raw(self) -> u32 {
        self.map_or(0, |number| number.to_raw() + 1)
    }
    fn from_raw(raw: u32) -> Option<N> {
        raw.checked_sub(1).map(N::from_raw)
    }
}

/// A table with one four-byte value for each number from 0 on. Optional values also take four bytes.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    raw: Vec<u32>,
    types: PhantomData<(K, V)>,
}

impl<K: Number, V: Number> Table<K, V> {
    /// Makes a table of zeros, whose memory is not touched before first use.
    pub(crate) fn zeroed(length: u32) -> Table<K, V> {
        Table { raw: vec![0; length as usize], types: PhantomData }
    }

    /// Makes a table in which every value is `value`.
    pub(crate) fn filled(length: u32, value: V) -> Table<K, V> {
        Table { raw: vec![value.to_raw(); length as usize], types: PhantomData }
    }

    pub(crate) fn get(&self, key: K) -> V {
        V::from_raw(self.raw[key.to_raw() as usize])
    }

    pub(crate) fn set(&mut self, key: K, value: V) {
        self.values().set(key, value);
    }

    /// Returns the values as a slice, which is faster in loops.
    pub(crate) fn values(&mut self) -> Values<'_, K, V> {
        Values { raw: &mut self.raw, types: PhantomData }
    }

    /// Replaces a value with the result of `change`.
    pub(crate) fn update(&mut self, key: K, change: impl FnOnce(V) -> V) {
        let raw = &mut self.raw[key.to_raw() as usize];
        *raw = change(V::from_raw(*raw)).to_raw();
    }

    pub(crate) fn length(&self) -> u32 {
        self.raw.len() as u32
    }

    /// Returns the first key with the smallest stored value, and this value. Returns `None` if the table is
    /// empty.
    pub(crate) fn least(&self) -> Option<(K, V)> {
        let (mut first, mut least) = (0, *self.raw.first()?);
        for (key, raw) in self.raw.iter().enumerate() {
            if *raw < least {
                (first, least) = (key, *raw);
            }
        }
        Some((K::from_raw(first as u32), V::from_raw(least)))
    }

    /// Returns all keys with their values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.raw.iter().enumerate().map(|(key, raw)| (K::from_raw(key as u32), V::from_raw(*raw)))
    }
}

/// The values of a [`Table`].
pub(crate) struct Values<'a, K, V> {
    raw: &'a mut [u32],
    types: PhantomData<(K, V)>,
}

impl<K: Number, V: Number> Values<'_, K, V> {
    pub(crate) fn get(&self, key: K) -> V {
        V::from_raw(self.raw[key.to_raw() as usize])
    }

    pub(crate) fn set(&mut self, key: K, value: V) {
        self.raw[key.to_raw() as usize] = value.to_raw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_number_takes_four_bytes_and_comes_back() {
        let mut table: Table<LogicalUnit, Option<PhysicalUnit>> = Table::zeroed(3);
        assert_eq!(table.get(LogicalUnit(0)), None);
        for number in [0, 1, u32::MAX - 1] {
            table.set(LogicalUnit(1), Some(PhysicalUnit(number)));
            assert_eq!(table.get(LogicalUnit(1)), Some(PhysicalUnit(number)));
        }
        table.set(LogicalUnit(1), None);
        assert!(table.iter().all(|(_, value)| value.is_none()));
    }

    #[test]
    #[should_panic(expected = "fewer than 2³² units")]
    fn a_unit_beyond_the_map_is_refused() {
        LogicalUnit::new(1 << 32);
    }
}
