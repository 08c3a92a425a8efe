//! Walks the Thrift structs of a Parquet file (compact protocol), and allocates nothing.
//!
//! The Parquet library allocates its structs while it parses them, and trusts the sizes in them. The checks in
//! `footer` and `pages` look at sizes and counts first.

/// The deepest nesting of structs and lists that is accepted. Parquet's own structs need 8.
const DEPTH_MAX: usize = 16;

/// A value in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An integer or an enum; a boolean is 0 or 1.
    Number(i64),
    /// The number of elements of a list; its elements follow.
    List(u64),
}

/// The reason why a struct could not be walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end before the struct does.
    Short,
    /// The bytes are not a struct.
    Invalid,
    /// The visitor refused a value, for this reason.
    Refused(String),
}

/// Receives each number and list of a struct with the ids of the fields that lead to it. An element of a list
/// has the ids of its list.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&[i16], Found) -> Result<(), String>;

/// Walks the struct at the beginning of `bytes`, and returns the length of the struct.
pub(super) fn walk(bytes: &[u8], visit: Visit<'_>) -> Result<usize, Stop> {
    let mut walk = Walk { bytes, at: 0, ids: Vec::with_capacity(DEPTH_MAX), visit };
    walk.fields(0)?;
    Ok(walk.at)
}

struct Walk<'b, 'v> {
    bytes: &'b [u8],
    at: usize,
    ids: Vec<i16>,
    visit: Visit<'v>,
}

impl Walk<'_, '_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: u64) -> Result<(), Stop> {
        let left = self.bytes.len() - self.at;
        if count > left as u64 {
            return Err(Stop::Short);
        }
        self.at += count as usize;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Stop::Invalid)
    }

    fn signed(&mut self) -> Result<i64, Stop> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn found(&mut self, found: Found) -> Result<(), Stop> {
        (self.visit)(&self.ids, found).map_err(Stop::Refused)
    }

    fn fields(&mut self, depth: usize) -> Result<(), Stop> {
        if depth == DEPTH_MAX {
            return Err(Stop::Invalid);
        }
        let mut id = 0_i16;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(());
            }
            id = match header >> 4 {
                0 => i16::try_from(self.signed()?).map_err(|_| Stop::Invalid)?,
                delta => id.checked_add(i16::from(delta)).ok_or(Stop::Invalid)?,
            };
            self.ids.push(id);
            match header & 0x0f {
                // The type of a boolean field contains its value.
                1 => self.found(Found::Number(1))?,
                2 => self.found(Found::Number(0))?,
                kind => self.value(kind, depth)?,
            }
            self.ids.pop();
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        match kind {
            // In a list, a boolean is a byte.
            1..=3 => {
                let byte = self.byte()?;
                self.found(Found::Number(i64::from(byte as i8)))
            }
            4..=6 => {
                let number = self.signed()?;
                self.found(Found::Number(number))
            }
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth),
            11 => self.map(depth),
            12 => self.fields(depth + 1),
            13 => self.skip(16),
            _ => Err(Stop::Invalid),
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), Stop> {
        if depth == DEPTH_MAX {
            return Err(Stop::Invalid);
        }
        let header = self.byte()?;
        let count = if header >> 4 == 15 { self.number()? } else { u64::from(header >> 4) };
        self.found(Found::List(count))?;
        for _ in 0..count {
            self.value(header & 0x0f, depth + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, depth: usize) -> Result<(), Stop> {
        if depth == DEPTH_MAX {
            return Err(Stop::Invalid);
        }
        let count = self.number()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.found(Found::List(count))?;
        for _ in 0..count {
            self.value(kinds >> 4, depth + 1)?;
            self.value(kinds & 0x0f, depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a struct, each with its fields.
    type Seen = Vec<(Vec<i16>, Found)>;

    fn seen(bytes: &[u8]) -> (Seen, Result<usize, Stop>) {
        let mut seen = Vec::new();
        let result = walk(bytes, &mut |ids, found| {
            seen.push((ids.to_vec(), found));
            Ok(())
        });
        (seen, result)
    }

    #[test]
    fn numbers_and_lists_are_found_with_their_fields() {
        // Field 1 = 3; field 3 = true; field 4 = a list of two structs, each with field 2 = -1 (an i32);
        // field 20 = a text of two bytes; field 21 = a map of one byte to one i64.
        let bytes = [
            0x15, 6, 0x21, 0x19, 0x2c, 0x25, 1, 0, 0x25, 1, 0, 0x08, 40, 2, b'a', b'b', 0x1b, 1, 0x36, 5, 8,
            0, 99,
        ];
        let number = |ids: &[i16], value| (ids.to_vec(), Found::Number(value));
        let expected = vec![
            number(&[1], 3),
            number(&[3], 1),
            (vec![4], Found::List(2)),
            number(&[4, 2], -1),
            number(&[4, 2], -1),
            (vec![21], Found::List(1)),
            number(&[21], 5),
            number(&[21], 4),
        ];
        assert_eq!(seen(&bytes), (expected, Ok(bytes.len() - 1)));
        for length in 0..bytes.len() - 1 {
            assert_eq!(seen(&bytes[..length]).1, Err(Stop::Short), "{length}");
        }
    }

    #[test]
    fn impossible_structs_are_refused() {
        // Structs in structs, without an end.
        assert_eq!(seen(&[0x1c; 1000]).1, Err(Stop::Invalid));
        // Lists in lists, without an end.
        let lists: Vec<u8> = [0x19].into_iter().chain([0x19; 1000]).collect();
        assert_eq!(seen(&lists).1, Err(Stop::Invalid));
        // A text of 2^40 bytes, a list of 2^40 numbers, a number of eleven bytes, and an unknown type.
        assert_eq!(seen(&[0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]).1, Err(Stop::Short));
        assert_eq!(seen(&[0x19, 0xf5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]).1, Err(Stop::Short));
        assert_eq!(seen(&[0x15; 12].map(|_| 0x95)).1, Err(Stop::Invalid));
        assert_eq!(seen(&[0x1e]).1, Err(Stop::Invalid));
        let refuse = &mut |_: &[i16], _| Err("no".to_owned());
        assert_eq!(walk(&[0x15, 6, 0], refuse), Err(Stop::Refused("no".to_owned())));
    }
}
