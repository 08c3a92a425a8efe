//! Writes messages of protocol buffers.

use std::io::{self, Write};

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub fn new() -> Message {
        Message::default()
    }

    /// Appends an integer.
    pub fn number(mut self, field: u32, value: u64) -> Message {
        self.push(u64::from(field) << 3);
        self.push(value);
        self
    }

    /// Appends a signed integer (`int64`): a negative one takes ten bytes.
    pub fn signed(self, field: u32, value: i64) -> Message {
        self.number(field, value as u64)
    }

    /// Appends a number of eight bytes (`fixed64`).
    pub fn fixed(mut self, field: u32, value: u64) -> Message {
        self.push(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Appends a floating-point number (`double`).
    pub fn double(self, field: u32, value: f64) -> Message {
        self.fixed(field, value.to_bits())
    }

    pub fn text(self, field: u32, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u32, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.push(u64::from(field) << 3 | 2);
        self.push(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes the message as the field 1 of an enclosing message, as the packets of a trace are.
    pub fn write_as_packet(&self, to: &mut impl Write) -> io::Result<()> {
        let mut head = Message::new();
        head.push(1 << 3 | 2);
        head.push(self.0.len() as u64);
        to.write_all(&head.0)?;
        to.write_all(&self.0)
    }
}
