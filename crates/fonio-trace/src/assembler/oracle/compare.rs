//! Compares the assembler with its oracle. The events have values from small ranges, so many of them collide.

use std::collections::BTreeMap;
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Link, Op, Request, RowSink, Sector,
    Timestamp, ignore_rows,
};

use super::assemble_naively;
use crate::assembler::{Assembler, AssemblerOptions};

/// A row, or the time up to which all rows were emitted.
#[derive(Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Row {
    Request(Request),
    Bio(Bio),
    Link(Link),
    Settled(Timestamp),
}

/// Rows in the order of emission.
#[derive(Debug, Default)]
pub struct Rows {
    /// All emitted rows.
    pub rows: Vec<Row>,
    /// Whether the sink needs no bios.
    pub no_bios: bool,
}

impl RowSink for Rows {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.rows.push(Row::Request(row.clone()));
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.rows.push(Row::Bio(row.clone()));
        Ok(())
    }
    fn link(&mut self, row: &Link) -> io::Result<()> {
        self.rows.push(Row::Link(*row));
        Ok(())
    }
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        self.rows.push(Row::Settled(before));
        Ok(())
    }
    ignore_rows!(began, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
    fn wants_bios(&self) -> bool {
        !self.no_bios
    }
}

/// Assembles batches. Returns the counters by name. Fails if the sink fails.
pub fn assemble(
    batches: &[Batch],
    options: AssemblerOptions,
    sink: &mut dyn RowSink,
) -> io::Result<BTreeMap<String, u64>> {
    let mut assembler = Assembler::new(options);
    for batch in batches {
        assembler.batch(batch, sink)?;
    }
    assembler.finish(sink)
}

/// Compares the assembler with its oracle. Panics if the assembler and its oracle differ in a row or a count.
pub fn assert_same(batches: &[Batch], options: &AssemblerOptions, no_bios: bool) {
    let (mut fast, mut slow) = (Rows { no_bios, ..Rows::default() }, Rows { no_bios, ..Rows::default() });
    let fast_counts = assemble(batches, options.clone(), &mut fast).expect("the sink does not fail");
    let slow_counts = assemble_naively(batches, options.clone(), &mut slow).expect("the sink does not fail");
    assert_eq!(fast.rows, slow.rows);
    assert_eq!(fast_counts, slow_counts);
}

/// Decodes events, gaps and ends of batches from six bytes each.
pub fn decode(bytes: &[u8]) -> Vec<Batch> {
    let mut batches = vec![Batch::default()];
    let mut time = 1000u64;
    for part in bytes.chunks_exact(6) {
        let [kind, gap, place, size, flags, more] = *part else { continue };
        time += u64::from(gap & 0x3f).pow(2);
        // Some events come after events with later times.
        let at = if gap & 0xc0 == 0xc0 { time - u64::from(more & 0x1f) } else { time };
        let other = (DeviceId(u32::from(more & 3) % 3), Sector(u64::from(more >> 2 & 7)));
        // Some pauses are so long that the assembler decides about repeated issues.
        if kind >= 250 {
            time += 400_000_000;
        }
        let kind = match kind % 23 {
            0..3 => EventKind::BioQueue,
            3 => EventKind::GetRequest,
            4 => EventKind::IoStart,
            5 => EventKind::Insert,
            6..9 => EventKind::Issue,
            9..13 => EventKind::Complete,
            13 => EventKind::Requeue,
            14 => EventKind::IoDone,
            15 => EventKind::BioComplete,
            16 => EventKind::Split { new_sector: other.1 },
            17 => EventKind::Remap { from_device: other.0, from_sector: other.1 },
            18 => EventKind::RequestRemap { from_device: other.0, from_sector: other.1 },
            19 => EventKind::BackMerge,
            20 => EventKind::FrontMerge,
            21 => EventKind::RequestMerge,
            _ if more & 1 == 0 => {
                batches.push(Batch::default());
                continue;
            }
            _ => {
                let (after, before) = (Timestamp(at), Timestamp(at + u64::from(size)));
                let gap = LostEvents { cpu: None, count: None, after, before };
                batches.last_mut().expect("`batches` is never empty").lost.push(gap);
                continue;
            }
        };
        let shown = Flags(u32::from(flags & 0xf));
        batches.last_mut().expect("`batches` is never empty").events.push(BlockEvent {
            sector: Sector(if place & 7 == 7 { u64::MAX } else { u64::from(place & 7) }),
            bytes: ByteCount(if size & 0x80 == 0 {
                u64::from(size & 7) * 512
            } else {
                u64::from(size & 0x7f) * 100
            }),
            op: [Op::Write, Op::Write, Op::Read, Op::Flush, Op::Discard, Op::Other, Op::Write, Op::Read]
                [usize::from(place >> 3 & 7)],
            flags: shown,
            flags_known: if flags & 0x10 == 0 { shown } else { Flags::KNOWN_FROM_RWBS },
            cpu: Some(u32::from(flags >> 5)),
            tid: Some(u32::from(more >> 5)),
            error: (more & 0x40 != 0).then_some(-i32::from(more & 1)),
            ..BlockEvent::new(Timestamp(at), kind, DeviceId(u32::from(place >> 6) % 3))
        });
    }
    batches
}
