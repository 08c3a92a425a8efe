//! The comparison of the assembler with its oracle, and properties that hold for any events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Link, Nanos, Op, Request, RowSink, Sector,
    Timestamp, ignore_rows,
};
use proptest::prelude::*;

use super::text::describe;
use crate::assembler::oracle::assemble_naively;
use crate::assembler::repeat::REPEAT_WITHIN;
use crate::assembler::{Assembler, AssemblerOptions};

#[derive(Debug, PartialEq)]
enum Row {
    Request(Request),
    Bio(Bio),
    Link(Link),
    Settled(Timestamp),
}

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    no_bios: bool,
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

/// Few places, sizes and ops, so that many events collide.
fn events() -> impl Strategy<Value = Vec<BlockEvent>> {
    let kind = prop_oneof![
        6 => Just(EventKind::BioQueue),
        2 => Just(EventKind::GetRequest),
        2 => Just(EventKind::IoStart),
        2 => Just(EventKind::Insert),
        2 => Just(EventKind::BackMerge),
        2 => Just(EventKind::FrontMerge),
        1 => Just(EventKind::RequestMerge),
        8 => Just(EventKind::Issue),
        7 => Just(EventKind::Complete),
        1 => Just(EventKind::Requeue),
        1 => Just(EventKind::IoDone),
        1 => Just(EventKind::BioComplete),
        1 => (0u64..6).prop_map(|sector| EventKind::Split { new_sector: Sector(sector) }),
        2 => (0u32..3, 0u64..4).prop_map(|(device, sector)| EventKind::Remap {
            from_device: DeviceId(device),
            from_sector: Sector(sector),
        }),
        1 => (0u32..3, 0u64..4).prop_map(|(device, sector)| EventKind::RequestRemap {
            from_device: DeviceId(device),
            from_sector: Sector(sector),
        }),
    ];
    let op = prop_oneof![
        6 => Just(Op::Write),
        3 => Just(Op::Read),
        2 => Just(Op::Discard),
        1 => Just(Op::Flush),
        1 => Just(Op::Other),
    ];
    let sector = prop_oneof![8 => 0u64..4, 1 => Just(u64::MAX)];
    let event = (
        (0i64..12, kind, prop_oneof![4 => Just(0u32), 1 => 1u32..3], sector, op),
        (0u64..4, 0u32..4, any::<bool>(), prop::option::of(0u32..3), prop::option::of(-1i32..1)),
    );
    let late = prop_oneof![20 => Just(0u64), 1 => 1u64..20];
    // From time to time there is a pause, so that repeated issues are decided.
    let pause = prop_oneof![40 => Just(0u64), 1 => Just(REPEAT_WITHIN / 2), 1 => Just(2 * REPEAT_WITHIN)];
    prop::collection::vec(((event, late), pause), 0..120).prop_map(|events| {
        let mut time = 1000;
        let to_event =
            |((((gap, kind, device, sector, op), (sectors, flags, known, tid, error)), late), pause)| {
                time += u64::try_from(gap * gap).unwrap_or(0) + pause;
                let shown = [Flags::NONE, Flags::PREFLUSH, Flags::FUA, Flags::SYNC][flags as usize];
                BlockEvent {
                    time: Timestamp(time - late),
                    kind,
                    device: DeviceId(device),
                    sector: Sector(sector),
                    bytes: ByteCount::from_sectors(sectors),
                    op,
                    flags: shown,
                    flags_known: if known { Flags::KNOWN_FROM_RWBS } else { shown },
                    cpu: tid,
                    tid,
                    ioprio: tid.map(|tid| tid as u16),
                    error,
                }
            };
        events.into_iter().map(to_event).collect()
    })
}

/// Batches that print one event per line.
struct Batches(Vec<Batch>);

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for batch in &self.0 {
            writeln!(f)?;
            for gap in &batch.lost {
                writeln!(f, "L {}-{}", gap.after.0, gap.before.0)?;
            }
            for event in &batch.events {
                writeln!(f, "{}", describe(event))?;
            }
        }
        Ok(())
    }
}

fn batches() -> impl Strategy<Value = Batches> {
    let gap = prop::option::weighted(0.1, (0u64..2000, 0u64..500));
    prop::collection::vec((events(), gap), 1..4).prop_map(|parts| {
        let mut offset = 0;
        let to_batch = |(mut events, gap): (Vec<BlockEvent>, Option<(u64, u64)>)| {
            for event in &mut events {
                event.time.0 += offset;
            }
            offset = events.iter().map(|event| event.time.0).max().unwrap_or(offset).saturating_sub(1100);
            let to_gap = |(after, length)| LostEvents {
                cpu: None,
                count: None,
                after: Timestamp(offset + after),
                before: Timestamp(offset + after + length),
            };
            Batch { events, lost: gap.map(to_gap).into_iter().collect(), ..Batch::default() }
        };
        Batches(parts.into_iter().map(to_batch).collect())
    })
}

fn options() -> impl Strategy<Value = AssemblerOptions> {
    let small = (50u64..2000, 1usize..12, 0u64..100).prop_map(|(horizon, open_max, disorder)| {
        AssemblerOptions { horizon: Nanos(horizon), open_max, disorder: Nanos(disorder) }
    });
    prop_oneof![3 => Just(AssemblerOptions::default()), 1 => small]
}

fn assemble(batches: &[Batch], options: AssemblerOptions, sink: &mut Rows) -> BTreeMap<String, u64> {
    let mut assembler = Assembler::new(options);
    for batch in batches {
        assembler.batch(batch, sink).unwrap();
    }
    assembler.finish(sink).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_oracle_agrees(batches in batches(), options in options(), no_bios: bool) {
        let (mut fast, mut slow) = (Rows { no_bios, ..Rows::default() }, Rows { no_bios, ..Rows::default() });
        let fast_counts = assemble(&batches.0, options.clone(), &mut fast);
        let slow_counts = assemble_naively(&batches.0, options, &mut slow).unwrap();
        prop_assert_eq!(fast.rows, slow.rows);
        prop_assert_eq!(fast_counts, slow_counts);
    }

    #[test]
    fn nothing_is_lost_or_made_up(batches in batches()) {
        let mut sink = Rows::default();
        let counts = assemble(&batches.0, AssemblerOptions::default(), &mut sink);
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let events = || batches.0.iter().flat_map(|batch| &batch.events);
        let of_kind = |kind: EventKind| events().filter(|event| event.kind == kind).count() as u64;
        let requests: Vec<&Request> =
            sink.rows.iter().filter_map(|row| if let Row::Request(row) = row { Some(row) } else { None }).collect();
        let bios: Vec<&Bio> =
            sink.rows.iter().filter_map(|row| if let Row::Bio(row) = row { Some(row) } else { None }).collect();

        let ids: BTreeSet<u64> = requests.iter().map(|row| row.request_id).collect();
        prop_assert_eq!(ids.len(), requests.len());
        let bio_ids: BTreeSet<u64> = bios.iter().map(|row| row.bio_id).collect();
        prop_assert_eq!(bio_ids.len(), bios.len());
        for row in &requests {
            let times = [row.queued.min(row.issued), row.issued, row.reissued, row.completed];
            prop_assert!(times.iter().flatten().is_sorted(), "{:?}", row);
        }
        for bio in &bios {
            prop_assert!(bio.request_id.is_none_or(|id| ids.contains(&id)), "{:?}", bio);
        }
        let remapped_requests = events()
            .any(|event| matches!(event.kind, EventKind::RequestRemap { .. }));
        let issued = requests.iter().filter(|row| row.issued.is_some()).count() as u64;
        let reissued: u64 = of_kind(EventKind::Issue) - issued.min(of_kind(EventKind::Issue));
        let again = of_kind(EventKind::Requeue) + count("repeated_issues");
        prop_assert!(reissued <= again || remapped_requests);

        // Each bio was queued, remapped, split off, or taken by a partition.
        let remaps = events().filter(|event| matches!(event.kind, EventKind::Remap { .. })).count() as u64;
        let splits = events().filter(|event| matches!(event.kind, EventKind::Split { .. })).count() as u64;
        let made = of_kind(EventKind::BioQueue) + 2 * remaps + splits + count("splits_inferred");
        prop_assert!(bios.len() as u64 <= made);
        prop_assert!(bios.len() as u64 >= of_kind(EventKind::BioQueue).saturating_sub(remaps + splits
            + count("splits_inferred")));
        if remaps == 0 && splits == 0 && count("splits_inferred") == 0 {
            let queued: u64 = events()
                .filter(|event| event.kind == EventKind::BioQueue)
                .map(|event| event.bytes.0)
                .sum();
            prop_assert_eq!(bios.iter().map(|bio| bio.bytes.0).sum::<u64>(), queued);
        }
    }
}
