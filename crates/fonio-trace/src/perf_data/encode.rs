//! Writes a perf.data, for tests and fuzzing.

use fonio_tracefs::ring_buffer::ByteOrder;

/// The bits of `sample_type` that `perf record -a` sets for tracepoints: ip, tid, time, cpu, period, raw data, identifier.
pub const SAMPLE_TYPE: u64 = 0x1_0587;

/// The size of an event's description in perf 6.1.
const EVENT_BYTES: usize = 128;

/// A recorded event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The type: 2 for tracepoints.
    pub kind: u32,
    /// The fields of its samples.
    pub sample_type: u64,
    /// Number of events for each sample.
    pub period: u64,
    /// The clock; `None` for the clock of perf.
    pub clock_id: Option<u32>,
    /// The ids, one for each processor.
    pub ids: Vec<u64>,
}

impl Event {
    /// Creates a tracepoint as `perf record -a -k CLOCK_MONOTONIC` records it.
    pub fn tracepoint(ids: Vec<u64>) -> Event {
        Event { kind: 2, sample_type: SAMPLE_TYPE, period: 1, clock_id: Some(1), ids }
    }
}

/// A record.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Written {
    Sample { id: u64, time: u64, pid: u32, tid: u32, cpu: u32, raw: Vec<u8> },
    Comm { id: u64, time: u64, pid: u32, tid: u32, name: Vec<u8> },
    Lost { id: u64, time: u64, cpu: u32, count: u64 },
    LostSamples { count: u64, flags: u16 },
    Round,
    Other { kind: u32, flags: u16, fields: Vec<u8> },
}

/// The contents of a file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The byte order of the recorded machine.
    pub order: ByteOrder,
    /// The texts of the formats of each system.
    pub systems: Vec<(String, Vec<String>)>,
    /// The recorded events.
    pub events: Vec<Event>,
    /// The time of day and the time of the clock at one moment.
    pub clocks: Option<(u64, u64)>,
    /// The records.
    pub records: Vec<Written>,
    /// Number of records that are compressed together; 0 for no compression.
    pub packed_together: usize,
}

/// Writes numbers in a byte order.
struct Out(Vec<u8>, ByteOrder);

impl Out {
    fn number(&mut self, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let bytes = little[..size].iter().copied();
        match self.1 {
            ByteOrder::Little => self.0.extend(bytes),
            ByteOrder::Big => self.0.extend(bytes.rev()),
        }
    }

    fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.number(u64::from(*value), 4));
    }

    fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.number(*value, 8));
    }

    fn record(&mut self, kind: u32, flags: u16, fields: &[u8]) {
        self.u32s(&[kind]);
        self.number(u64::from(flags), 2);
        self.number(fields.len() as u64 + 8, 2);
        self.0.extend(fields);
    }
}

impl Contents {
    fn out(&self) -> Out {
        Out(Vec::new(), self.order)
    }

    fn event(&self, event: &Event) -> Vec<u8> {
        let mut out = self.out();
        out.u32s(&[event.kind, EVENT_BYTES as u32]);
        out.u64s(&[7, event.period, event.sample_type, 0]);
        // Sample ids in all records, and the clock.
        let flags = 1_u64 << 18 | u64::from(event.clock_id.is_some()) << 25;
        out.u64s(&[if self.order == ByteOrder::Big { flags.reverse_bits() } else { flags }]);
        out.0.resize(92, 0);
        out.u32s(&[event.clock_id.unwrap_or(0)]);
        out.0.resize(EVENT_BYTES, 0);
        out.0
    }

    fn tracing_data(&self) -> Vec<u8> {
        let mut out = self.out();
        out.0.extend(b"\x17\x08\x44tracing0.6\0");
        out.0.push(u8::from(self.order == ByteOrder::Big));
        out.0.push(8);
        out.u32s(&[4096]);
        for name in ["header_page", "header_event"] {
            out.0.extend(name.bytes().chain([0]));
            out.u64s(&[3]);
            out.0.extend(b"# \n");
        }
        out.u32s(&[1]);
        out.u64s(&[2]);
        out.0.extend(b"# ");
        out.u32s(&[self.systems.len() as u32]);
        for (system, formats) in &self.systems {
            out.0.extend(system.bytes().chain([0]));
            out.u32s(&[formats.len() as u32]);
            for format in formats {
                out.u64s(&[format.len() as u64]);
                out.0.extend(format.bytes());
            }
        }
        // The kernel's symbols, its texts, and the names of threads: all empty.
        out.u32s(&[0, 0]);
        out.u64s(&[0]);
        out.0
    }

    fn clock_data(&self) -> Option<Vec<u8>> {
        let (unix, clock) = self.clocks?;
        let mut out = self.out();
        out.u32s(&[1, 1]);
        out.u64s(&[unix, clock]);
        Some(out.0)
    }

    fn write(&self, record: &Written, to: &mut Out) {
        let mut fields = self.out();
        let (kind, flags) = match record {
            Written::Sample { id, time, pid, tid, cpu, raw } => {
                let event = self.events.iter().find(|event| event.ids.contains(id)).or(self.events.first());
                let has = |bit: u32| event.is_some_and(|event| event.sample_type >> bit & 1 != 0);
                if has(16) {
                    fields.u64s(&[*id]);
                }
                if has(0) {
                    fields.u64s(&[0xffff_ffff_8100_0000]);
                }
                if has(1) {
                    fields.u32s(&[*pid, *tid]);
                }
                if has(2) {
                    fields.u64s(&[*time]);
                }
                if has(7) {
                    fields.u32s(&[*cpu, 0]);
                }
                if has(8) {
                    fields.u64s(&[1]);
                }
                if has(4) {
                    fields.u64s(&[1]);
                }
                if has(5) {
                    fields.u64s(&[2, 1, 2]);
                }
                if has(10) {
                    fields.u32s(&[raw.len() as u32]);
                    fields.0.extend(raw);
                }
                (9, 2)
            }
            Written::Comm { id, time, pid, tid, name } => {
                fields.u32s(&[*pid, *tid]);
                fields.0.extend(name);
                fields.0.resize(8 + (name.len() / 8 + 1) * 8, 0);
                fields.u32s(&[*pid, *tid]);
                fields.u64s(&[*time]);
                fields.u32s(&[0, 0]);
                fields.u64s(&[*id]);
                (3, 0)
            }
            Written::Lost { id, time, cpu, count } => {
                fields.u64s(&[*id, *count]);
                fields.u32s(&[0, 0]);
                fields.u64s(&[*time]);
                fields.u32s(&[*cpu, 0]);
                fields.u64s(&[*id]);
                (2, 0)
            }
            Written::LostSamples { count, flags } => {
                fields.u64s(&[*count, 0, 0, 0, 0]);
                (13, *flags)
            }
            Written::Round => (68, 0),
            Written::Other { kind, flags, fields: bytes } => {
                fields.0.extend(bytes);
                (*kind, *flags)
            }
        };
        to.record(kind, flags, &fields.0);
    }

    fn data(&self) -> Vec<u8> {
        let mut out = self.out();
        if self.packed_together == 0 {
            self.records.iter().for_each(|record| self.write(record, &mut out));
            return out.0;
        }
        let mut encoder = zstd::stream::raw::Encoder::new(1).expect("zstd works");
        for together in self.records.chunks(self.packed_together) {
            let mut plain = self.out();
            together.iter().for_each(|record| self.write(record, &mut plain));
            for part in pack(&mut encoder, &plain.0).chunks(60_000) {
                out.record(81, 0, part);
            }
        }
        out.0
    }

    /// Returns the file as `perf record` writes it.
    pub fn file(&self) -> Vec<u8> {
        let data = self.data();
        let mut out = self.out();
        out.0.extend(self.magic());
        let event_bytes = EVENT_BYTES as u64 + 16;
        let events_at = 104 + self.events.iter().map(|event| 8 * event.ids.len() as u64).sum::<u64>();
        let data_at = events_at + event_bytes * self.events.len() as u64;
        out.u64s(&[104, event_bytes, events_at, event_bytes * self.events.len() as u64]);
        out.u64s(&[data_at, data.len() as u64, 0, 0]);
        let clock_data = self.clock_data();
        out.u64s(&[1 << 1 | u64::from(clock_data.is_some()) << 29, 0, 0, 0]);
        let mut ids_at = Vec::new();
        for event in &self.events {
            ids_at.push(out.0.len() as u64);
            out.u64s(&event.ids);
        }
        for (event, at) in self.events.iter().zip(ids_at) {
            out.0.extend(self.event(event));
            out.u64s(&[at, 8 * event.ids.len() as u64]);
        }
        out.0.extend(data);
        let parts: Vec<Vec<u8>> = [Some(self.tracing_data()), clock_data].into_iter().flatten().collect();
        let mut at = out.0.len() as u64 + 16 * parts.len() as u64;
        for part in &parts {
            out.u64s(&[at, part.len() as u64]);
            at += part.len() as u64;
        }
        parts.iter().for_each(|part| out.0.extend(part));
        out.0
    }

    /// Returns the file as perf writes it into a pipe.
    pub fn pipe(&self) -> Vec<u8> {
        let mut out = self.out();
        out.0.extend(self.magic());
        out.u64s(&[16]);
        for event in &self.events {
            let mut fields = Out(self.event(event), self.order);
            fields.u64s(&event.ids);
            out.record(64, 0, &fields.0);
        }
        if let Some(clock_data) = self.clock_data() {
            let mut fields = self.out();
            fields.u64s(&[29]);
            fields.0.extend(clock_data);
            out.record(80, 0, &fields.0);
        }
        let mut tracing_data = self.tracing_data();
        tracing_data.resize(tracing_data.len().next_multiple_of(8), 0);
        let mut fields = self.out();
        fields.u32s(&[tracing_data.len() as u32]);
        out.record(66, 0, &fields.0);
        out.0.extend(tracing_data);
        out.0.extend(self.data());
        out.0
    }

    fn magic(&self) -> &'static [u8] {
        match self.order {
            ByteOrder::Little => super::header::MAGIC_LITTLE,
            ByteOrder::Big => super::header::MAGIC_BIG,
        }
    }
}

/// Packs bytes as the next part of a stream.
fn pack(encoder: &mut zstd::stream::raw::Encoder<'_>, bytes: &[u8]) -> Vec<u8> {
    use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
    let mut packed = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut input = InBuffer::around(bytes);
    let mut left = 1;
    while input.pos() < bytes.len() || left > 0 {
        let mut output = OutBuffer::around(&mut buffer);
        if input.pos() < bytes.len() {
            encoder.run(&mut input, &mut output).expect("memory writes");
        } else {
            left = encoder.flush(&mut output).expect("memory writes");
        }
        let count = output.pos();
        packed.extend_from_slice(&buffer[..count]);
    }
    packed
}
