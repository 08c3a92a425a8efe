//! Writes Perfetto traces for tests and fuzzing.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A message of protocol buffers that is being written.
#[derive(Clone, Debug, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// Creates an empty message.
    pub fn new() -> Message {
        Message::default()
    }

    /// Appends an integer field.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Message {
        self.push(u64::from(field) << 3);
        self.push(value);
        self
    }

    /// Appends a field of bytes: a string or a message.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.push(u64::from(field) << 3 | 2);
        self.push(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Appends a message.
    #[must_use]
    pub fn message(self, field: u32, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }

    /// Appends a packed list of integers.
    #[must_use]
    pub fn packed(self, field: u32, values: &[u64]) -> Message {
        let mut list = Message::new();
        values.iter().for_each(|value| list.push(*value));
        self.message(field, &list)
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Returns an event of a bundle: `content` is the message with the number `field`.
pub fn event(time: u64, tid: u32, field: u32, content: &Message) -> Message {
    Message::new().number(1, time).number(2, u64::from(tid)).message(field, content)
}

/// Returns a packet with a bundle.
pub fn packet(sequence: u32, bundle: &Message) -> Message {
    Message::new().message(1, bundle).number(10, u64::from(sequence))
}

/// Returns a trace of these packets.
pub fn trace(packets: &[Message]) -> Vec<u8> {
    packets.iter().fold(Message::new(), |trace, packet| trace.message(1, packet)).0
}

/// Returns a packet with these packets compressed.
pub fn compressed(packets: &[Message]) -> Message {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&trace(packets)).expect("memory writes");
    Message::new().bytes(50, &encoder.finish().expect("memory writes"))
}
