//! Splits a line into fields.

use memchr::memchr;

use super::mapping::Delimiter;

/// Splits lines into fields, and reuses its memory between lines.
pub(super) struct Splitter {
    delimiter: Delimiter,
    quoted: csv_core::Reader,
    /// The fields of a line with quotes, concatenated, and the end of each field.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The range of each field of a line without quotes.
    ranges: Vec<(usize, usize)>,
}

/// The fields of one line.
pub(super) struct Fields<'a> {
    text: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl Splitter {
    pub fn new(delimiter: Delimiter) -> Splitter {
        let mut builder = csv_core::ReaderBuilder::new();
        if let Delimiter::Byte(byte) = delimiter {
            builder.delimiter(byte);
        }
        Splitter {
            delimiter,
            quoted: builder.build(),
            text: Vec::new(),
            ends: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Splits `line` into fields and trims them. A quoted field cannot continue on the next line.
    pub fn split<'a>(&'a mut self, line: &'a [u8]) -> Fields<'a> {
        self.ranges.clear();
        match self.delimiter {
            Delimiter::Blanks => {
                let mut begin = None;
                for (at, byte) in line.iter().chain([&b' ']).enumerate() {
                    match (byte.is_ascii_whitespace(), begin) {
                        (false, None) => begin = Some(at),
                        (true, Some(first)) => {
                            self.ranges.push((first, at));
                            begin = None;
                        }
                        _ => {}
                    }
                }
                Fields { text: line, ranges: &self.ranges }
            }
            Delimiter::Byte(byte) if memchr(b'"', line).is_none() => {
                let mut begin = 0;
                // Fields have a few bytes, so looking at each byte is faster than a search for each field.
                for (at, found) in line.iter().enumerate() {
                    if *found == byte {
                        self.ranges.push((begin, at));
                        begin = at + 1;
                    }
                }
                self.ranges.push((begin, line.len()));
                Fields { text: line, ranges: &self.ranges }
            }
            Delimiter::Byte(_) => {
                self.unquote(line);
                Fields { text: &self.text, ranges: &self.ranges }
            }
        }
    }

    fn unquote(&mut self, line: &[u8]) {
        // Unquoting never makes text longer, and a line has at most one more field than it has bytes.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 2, 0);
        self.quoted.reset();
        let (mut read, mut written, mut ended) = (0, 0, 0);
        loop {
            let (result, input, output, ends) =
                self.quoted.read_record(&line[read..], &mut self.text[written..], &mut self.ends[ended..]);
            read += input;
            written += output;
            ended += ends;
            if result != csv_core::ReadRecordResult::InputEmpty {
                break;
            }
        }
        let mut begin = 0;
        for end in &self.ends[..ended] {
            self.ranges.push((begin, *end));
            begin = *end;
        }
    }
}

impl<'a> Fields<'a> {
    /// Returns the field at index `place`, if the line has it.
    pub fn get(&self, place: usize) -> Option<&'a [u8]> {
        let (begin, end) = *self.ranges.get(place)?;
        Some(self.text[begin..end].trim_ascii())
    }

    /// Returns all fields of the line.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.ranges.iter().map(|(begin, end)| self.text[*begin..*end].trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(delimiter: Delimiter, line: &str) -> Vec<String> {
        let mut splitter = Splitter::new(delimiter);
        splitter
            .split(line.as_bytes())
            .iter()
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect()
    }

    #[test]
    fn fields() {
        let comma = Delimiter::Byte(b',');
        assert_eq!(split(comma, "a, b ,,c"), ["a", "b", "", "c"]);
        assert_eq!(split(comma, ""), [""]);
        assert_eq!(split(comma, r#""a,b","say ""x""",c"#), ["a,b", r#"say "x""#, "c"]);
        assert_eq!(split(comma, r#""open,b"#), ["open,b"]);
        assert_eq!(split(Delimiter::Byte(b';'), "1,5;2"), ["1,5", "2"]);
        assert_eq!(split(Delimiter::Blanks, "  1\t 2   3 "), ["1", "2", "3"]);
        assert_eq!(split(Delimiter::Blanks, ""), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn quoted_fields_come_back(fields in proptest::collection::vec("[a-z,\" ;]{0,8}", 1..6)) {
            let quoted: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
            let trimmed: Vec<&str> = fields.iter().map(|field| field.trim()).collect();
            prop_assert_eq!(split(Delimiter::Byte(b','), &quoted.join(",")), trimmed);
        }

        #[test]
        fn any_bytes(line in proptest::collection::vec(any::<u8>(), 0..100)) {
            for delimiter in [Delimiter::Byte(b','), Delimiter::Byte(b'|'), Delimiter::Blanks] {
                Splitter::new(delimiter).split(&line).iter().for_each(drop);
            }
        }
    }
}
