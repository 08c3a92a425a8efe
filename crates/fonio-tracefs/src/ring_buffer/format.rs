//! Parses the `format` files of tracefs.

use super::ByteOrder;

/// The reason why the text of a `format` file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The text lacks a required line.
    #[error("there is no `{what}` line")]
    Missing {
        /// The missing line: `name:`, `ID:`, or the name of a field.
        what: &'static str,
    },
    /// A line has an unknown form.
    #[error("line {line} cannot be understood: {text:?}")]
    Line {
        /// The line number, counted from 1.
        line: usize,
        /// The beginning of the unknown line.
        text: String,
    },
    /// The size or offset of a field is impossible.
    #[error("the field {field} cannot have {size} bytes at offset {offset}")]
    Field {
        /// The field's name.
        field: String,
        /// The field's stated offset in bytes.
        offset: usize,
        /// The field's stated size in bytes.
        size: usize,
    },
}

/// How the bytes of a field are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number or a structure inside the record.
    Plain,
    /// An array inside the record: `char rwbs[8]`.
    Array,
    /// Four bytes with the offset (low half) and the length (high half) of an array later in the record:
    /// `__data_loc`.
    DataLoc,
    /// Four bytes as for `DataLoc`, but with an offset relative to the end of this field: `__rel_loc`.
    RelLoc,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Offset of the field from the record's first byte, in bytes.
    pub offset: usize,
    /// Size of the field in bytes.
    pub size: usize,
    /// Whether the number is signed.
    pub signed: bool,
    /// How the field's bytes are stored.
    pub kind: FieldKind,
}

/// The layout of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name, such as `block_rq_issue`.
    pub name: String,
    /// The event's id in a record's `common_type`. The id can change at each boot.
    pub id: u16,
    /// All fields of the event, beginning with the fields common to all events.
    pub fields: Vec<Field>,
}

impl EventFormat {
    /// Parses the text of an `events/SYSTEM/EVENT/format` file. Fails if a line is missing or cannot be
    /// parsed. The line `print fmt` is ignored.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let mut name = None;
        let mut id = None;
        for (line, content) in lines(text) {
            if let Some(value) = content.strip_prefix("name:") {
                name.get_or_insert_with(|| value.trim().to_owned());
            } else if let Some(value) = content.strip_prefix("ID:") {
                let value = value.trim().parse().map_err(|_| bad_line(line, content))?;
                id.get_or_insert(value);
            }
        }
        Ok(EventFormat {
            name: name.ok_or(FormatError::Missing { what: "name:" })?,
            id: id.ok_or(FormatError::Missing { what: "ID:" })?,
            fields: parse_fields(text)?,
        })
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Returns the number in the field. A signed number is sign-extended to 64 bits. Returns `None` if the
    /// record is too short, or if the field does not have the size of a number.
    pub fn number(&self, record: &[u8], order: ByteOrder) -> Option<i64> {
        let raw = order.unsigned(record, self.offset, self.size)?;
        if !self.signed {
            return Some(raw as i64);
        }
        let unused = 64 - 8 * self.size as u32;
        Some((raw << unused) as i64 >> unused)
    }

    /// Returns the bytes of an array that is in the field or to which the field points; `None` if the array
    /// extends beyond the record.
    pub fn bytes<'r>(&self, record: &'r [u8], order: ByteOrder) -> Option<&'r [u8]> {
        let (begin, length) = match self.kind {
            FieldKind::Plain | FieldKind::Array => (self.offset, self.size),
            FieldKind::DataLoc | FieldKind::RelLoc => {
                let location = order.u32(record, self.offset)?;
                let base = if self.kind == FieldKind::RelLoc { self.offset.checked_add(4)? } else { 0 };
                (base.checked_add((location & 0xffff) as usize)?, (location >> 16) as usize)
            }
        };
        record.get(begin..begin.checked_add(length)?)
    }

    /// Returns the bytes of a string, up to its first NUL.
    pub fn text<'r>(&self, record: &'r [u8], order: ByteOrder) -> Option<&'r [u8]> {
        self.bytes(record, order).map(until_nul)
    }
}

#[inline]
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest of these bits belongs to the first byte that is zero.
        let zeros = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
        if zeros != 0 {
            return &bytes[..8 * index + zeros.trailing_zeros() as usize / 8];
        }
    }
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    &bytes[..bytes.len() - rest.len() + end]
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()))
}

fn bad_line(line: usize, text: &str) -> FormatError {
    FormatError::Line { line, text: text.chars().take(80).collect() }
}

/// Parses the `field:` lines of a text, in order.
pub(super) fn parse_fields(text: &str) -> Result<Vec<Field>, FormatError> {
    let mut fields = Vec::new();
    for (line, content) in lines(text) {
        if content.starts_with("print fmt:") {
            break;
        }
        let Some(rest) = content.strip_prefix("field:") else { continue };
        fields.push(parse_field(rest).ok_or_else(|| bad_line(line, content))?);
    }
    Ok(fields)
}

/// Parses a field such as `__data_loc char[] cmd; offset:56; size:4; signed:0;`. Kernels before 2.6.38
/// omit `signed`.
fn parse_field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        if let Some(value) = part.strip_prefix("offset:") {
            offset = Some(value.trim().parse::<usize>().ok()?);
        } else if let Some(value) = part.strip_prefix("size:") {
            size = Some(value.trim().parse::<usize>().ok()?);
        } else if let Some(value) = part.strip_prefix("signed:") {
            signed = value.trim() != "0";
        }
    }
    let (declared, array) = match declaration.rfind('[') {
        Some(bracket) if declaration.ends_with(']') => (declaration[..bracket].trim_end(), true),
        _ => (declaration, false),
    };
    let name = declared.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    let kind = if declaration.starts_with("__data_loc") {
        FieldKind::DataLoc
    } else if declaration.starts_with("__rel_loc") {
        FieldKind::RelLoc
    } else if array {
        FieldKind::Array
    } else {
        FieldKind::Plain
    };
    if name.is_empty() {
        return None;
    }
    Some(Field { name: name.to_owned(), offset: offset?, size: size?, signed, kind })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn fields_of_every_kind() {
        let text = "name: x\nID: 7\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:u32 cmd_resp[4];\toffset:16;\tsize:16;\tsigned:0;\n\
            \tfield:struct mmc_request * mrq;\toffset:32;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned nr_sector;\toffset:40;\tsize:4;\n\
            \tfield:__data_loc char[] name;\toffset:44;\tsize:4;\tsigned:0;\n\
            \tfield:__rel_loc char[] after;\toffset:48;\tsize:4;\tsigned:1;\n\n\
            print fmt: \"field:%d\", REC->x\n";
        let format = EventFormat::parse(text).unwrap();
        let shown: Vec<String> = format
            .fields
            .iter()
            .map(|f| format!("{} {}+{} signed={} {:?}", f.name, f.offset, f.size, f.signed, f.kind))
            .collect();
        expect![[r#"
            common_type 0+2 signed=false Plain
            common_pid 4+4 signed=true Plain
            cmd_resp 16+16 signed=false Array
            mrq 32+8 signed=false Plain
            nr_sector 40+4 signed=false Plain
            name 44+4 signed=false DataLoc
            after 48+4 signed=true RelLoc"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn damaged_texts_are_errors() {
        for (text, expected) in [
            ("", expect!["there is no `name:` line"]),
            ("name: x\n", expect!["there is no `ID:` line"]),
            ("name: x\nID: many\n", expect![[r#"line 2 cannot be understood: "ID: many""#]]),
            ("name: x\nID: 1\nfield:int a;\n", expect![[r#"line 3 cannot be understood: "field:int a;""#]]),
            (
                "name: x\nID: 1\nfield:int a;offset:-1;size:4;\n",
                expect![[r#"line 3 cannot be understood: "field:int a;offset:-1;size:4;""#]],
            ),
        ] {
            expected.assert_eq(&EventFormat::parse(text).unwrap_err().to_string());
        }
    }

    proptest::proptest! {
        #[test]
        fn a_text_ends_at_its_first_nul(bytes in proptest::collection::vec(proptest::sample::select(vec![0, 1, 127, 128, 255]), 0..40)) {
            let naive: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
            proptest::prop_assert_eq!(until_nul(&bytes), naive);
        }
    }

    #[test]
    fn dynamic_arrays_and_signs() {
        let field = |kind, offset, size, signed| Field { name: "f".into(), offset, size, signed, kind };
        let record = [8, 0, 3, 0, 0xfe, 0xff, 2, 0, b'a', b'b', 0, b'c'];
        let little = ByteOrder::Little;
        assert_eq!(field(FieldKind::DataLoc, 0, 4, false).text(&record, little), Some(&b"ab"[..]));
        assert_eq!(field(FieldKind::RelLoc, 0, 4, false).bytes(&record, little), None);
        assert_eq!(field(FieldKind::Plain, 4, 2, true).number(&record, little), Some(-2));
        assert_eq!(field(FieldKind::Plain, 4, 2, false).number(&record, little), Some(0xfffe));
        assert_eq!(field(FieldKind::Plain, 4, 2, false).number(&record, ByteOrder::Big), Some(0xfeff));
        assert_eq!(field(FieldKind::Plain, 4, 3, true).number(&record, little), None);
        assert_eq!(field(FieldKind::Plain, usize::MAX, 2, true).number(&record, little), None);
    }
}
